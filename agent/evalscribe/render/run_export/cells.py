"""Tries as CSV (RFC 4180) that a spreadsheet can open without being made to compute anything."""

import csv
import re
from collections.abc import Iterable, Iterator
from io import StringIO

from pydantic import JsonValue

from evalscribe.model.experiment import RunReport, TrialDetail
from evalscribe.model.score import Score
from evalscribe.render.run_text import text_of

COLUMNS = (
    "item_key",
    "repetition",
    "split",
    "verdict",
    "error",
    "input",
    "expected_output",
    "output",
    "duration_ms",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "model",
    "run_item_id",
)
OF_SCORER = ("status", "passed", "value", "label", "explanation")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


def lines(report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    """A head, and a line for each try; five columns for each scorer. Lines end with CR, and LF is added to them."""
    scorers = [one.scorer for one in report.summary.scorers]
    yield _line([*COLUMNS, *(f"{name}.{part}" for name in scorers for part in OF_SCORER)])
    for one in tries:
        by_name = {score.scorer: score for score in one.scores}
        yield _line([*_of_try(one), *(cell for name in scorers for cell in _of_score(by_name.get(name)))])


def _of_try(one: TrialDetail) -> tuple[object, ...]:
    usage = one.usage
    return (
        one.item_key,
        one.repetition,
        one.split,
        one.verdict,
        one.error,
        _json(one.input),
        _json(one.expected_output),
        _json(one.output),
        one.duration_ms,
        usage and usage.input_tokens,
        usage and usage.output_tokens,
        usage and usage.cost_usd,
        one.model,
        one.run_item_id,
    )


def _of_score(score: Score | None) -> tuple[object, ...]:
    if score is None:
        return ("",) * len(OF_SCORER)
    passed = None if score.passed is None else str(score.passed).lower()
    return score.error_type or score.status, passed, score.value, score.label, score.explanation


def _json(value: JsonValue) -> str | None:
    return None if value is None else text_of(value)


def _line(cells: Iterable[object]) -> str:
    out = StringIO()
    csv.writer(out).writerow(map(safe, cells))
    return out.getvalue().removesuffix("\n")


def safe(cell: object) -> str:
    """What a spreadsheet would take for a formula has a `'` before it, as it would have in the spreadsheet itself."""
    text = "" if cell is None else str(cell)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text

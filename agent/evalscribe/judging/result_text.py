"""Render judge results, and the agreement of judges with people, as text for a terminal."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from evalscribe.model.chat import Usage
from evalscribe.model.result import CitationCounts, JudgeResult, Result, ResultCounts, ResultSet, ResultType
from evalscribe.statistics.agreement import Calibration
from evalscribe.statistics.intervals import Interval
from evalscribe.text import dollars, one_line, pluralise, printable, visible

_RANGE = re.compile(r":?<RANGE>(.*?)</RANGE>", re.S)


def headline(result: JudgeResult, label: Mapping[str, Any]) -> str:
    """Render a result on one line, such as `<subject>: MODEL_FAULT, model`, or the reason why there is no result."""
    if result.result_type == ResultType.FAILURE:
        return f"{one_line(result.agent_run_id)}: not judged: {one_line(result.reason or 'no reason')}"
    return f"{one_line(result.agent_run_id)}: {one_line(', '.join(_label_values(label))) or 'judged'}"


def _label_values(label: Mapping[str, Any]) -> Iterator[str]:
    """Yield all values of a label that are not boolean. If all values are boolean, yield each with its field's name."""
    values = [_scalar_text(value) for value in label.values() if not isinstance(value, bool)]
    yield from values or (f"{name}: {_scalar_text(value)}" for name, value in label.items())


def result_text(result: JudgeResult, label: Mapping[str, Any]) -> str:
    """Render a result in full. Strings with citations must be `CitedText` dicts."""
    lines = [headline(result, label)]
    if result.result_type == ResultType.DIRECT_RESULT:
        lines += [line for name, value in result.output.items() if value != "" for line in render_field(name, value)]
        lines += _votes(result)
    return "\n".join([*lines, *_gaps(result)])


def citations_line(counts: CitationCounts) -> str:
    """Render citation counts: `5 verified, 1 relocated, 2 unverified`."""
    return ", ".join(f"{getattr(counts, name)} {name}" for name in CitationCounts.model_fields)


def render_field(name: str, value: Any) -> Iterator[str]:
    """Render one field of an answer, with the status of its citations."""
    text = visible(_value_text(value))
    if "\n" not in text:
        yield f"  {one_line(name)}: {text}"
        return
    yield f"  {one_line(name)}:"
    yield from (f"    {line}" for line in text.split("\n"))


def _value_text(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"text", "citations"}:
        return render_cited(value)
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_value_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "\n".join(f"- {_value_text(part)}" for part in value)
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def render_cited(value: Mapping[str, Any]) -> str:
    """Render a text with citations. Each citation that is not verified is followed by its status: `(relocated)`."""
    text, rendered, at = str(value["text"]), "", 0
    for citation in value["citations"]:
        if citation["start_idx"] < at:
            continue
        end = citation["end_idx"]
        rendered += text[at : citation["start_idx"]] + _quote_in_mark(text[citation["start_idx"] : end])
        rendered += "" if citation["status"] == "verified" else f" ({citation['status']})"
        at = end
    return rendered + text[at:]


def _quote_in_mark(mark: str) -> str:
    return _RANGE.sub(lambda match: f' "{match[1]}"', mark)


def _votes(result: JudgeResult) -> Iterator[str]:
    metadata = result.result_metadata or {}
    if result.confidence is None:
        return
    for name, votes in (metadata.get("votes") or {}).items():
        vote_counts = ", ".join(f"{_scalar_text(value)} {count}" for value, count in votes.items())
        yield f"  votes on {one_line(name)}: {one_line(vote_counts)}"
    failed = f", {metadata['failed']} failed" if metadata.get("failed") else ""
    yield f"  agreement: {result.confidence:.2f} of {metadata.get('n_rollouts', '?')} rollouts{failed}"


def _gaps(result: JudgeResult) -> Iterator[str]:
    metadata = result.result_metadata or {}
    if "read_in_parts" in metadata:
        yield f"  read in {metadata['read_in_parts']} parts"
        yield from (f"  not read: {one_line(gap)}" for gap in metadata.get("gaps", ()))


def set_line(result_set: ResultSet, counts: ResultCounts) -> str:
    """Render a result set on one line: `failures/causes/v1  29 results, 1 error, 2 pending  2026-11-21`."""
    parts = [pluralise(counts.results, "result")]
    parts += [pluralise(counts.errors, "error")] if counts.errors else []
    parts += [f"{counts.pending} pending"] if counts.pending else []
    return f"{one_line(result_set.name)}  {', '.join(parts)}  {result_set.created_at[:10]}"


def stored_result_text(result: Result) -> str:
    """Render a stored result.

    The first line has the number and the metadata, such as `7  task: 3`. The answer follows, or the reason why there is
    no answer.
    """
    return "\n".join(_lines(result))


def _lines(result: Result) -> Iterator[str]:
    about = "; ".join(f"{name}: {value}" for name, value in result.user_metadata.items())
    yield f"{result.number}  {one_line(about)}".rstrip()
    if result.output is None:
        yield f"  no answer: {one_line(result.error)}" if result.error else "  not asked yet"
        return
    if set(result.output) == {"output", "citations"}:
        yield from render_field("answer", {"text": result.output["output"], "citations": result.output["citations"]})
    else:
        yield from (line for name, value in result.output.items() for line in render_field(name, value))
    yield f"  citations: {citations_line(result.citations)}"


NONE = "-"
"""Text that is shown in place of an undefined value."""


def render_confusion(calibration: Calibration, corner: str) -> list[str]:
    """Render the confusion matrix. Rows are people's labels; columns are the judge's labels."""
    labels = [printable(label) for label in calibration.labels]
    first = max(map(len, (corner, *labels)))
    rows = (
        [str(calibration.confusion(truth, prediction)) for prediction in calibration.labels]
        for truth in calibration.labels
    )
    lines = zip((corner, *labels), (labels, *rows), strict=True)
    return [_row(name.ljust(first), cells, labels) for name, cells in lines]


def _row(name: str, cells: Iterable[str], heads: Iterable[str]) -> str:
    """Render a row with its cells right-aligned under their headings."""
    return name + "".join(f"  {cell.rjust(len(head))}" for cell, head in zip(cells, heads, strict=True))


def render_share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def render_interval(interval: Interval) -> str:
    # Adding 0.0 turns -0.0 into 0.0.
    return ", ".join(f"{round(end, 2) + 0.0:.2f}" for end in interval)


def render_agreement(calibration: Calibration) -> str:
    """Render the agreement and its confidence interval as `0.80 [0.38, 0.96]`. Render `-` if nothing was judged."""
    return (
        NONE
        if calibration.agreement is None
        else f"{calibration.agreement:.2f} [{render_interval(calibration.interval)}]"
    )


def render_kappa(calibration: Calibration) -> str:
    """Render kappa and its confidence interval as `0.76 [0.64, 0.88]`. Render `-` if kappa is undefined."""
    return (
        NONE
        if calibration.kappa is None
        else f"{calibration.kappa.value:.2f} [{render_interval(calibration.kappa.interval)}]"
    )


def render_judges(
    judges: Mapping[str, Calibration],
    costs: Mapping[str, Usage] | None = None,
    more: Iterable[list[str]] = (),
) -> list[str]:
    """Render a table with one column for each judge.

    The rows show the agreement in total and by label, and the costs if `costs` is given. `more`: further rows, each
    with a heading and one cell for each judge.
    """
    rows = [["", *judges], *_figures(judges.values()), *_per_label(judges), *more]
    rows += render_costs([costs[name] for name in judges]) if costs else []
    return render_table(rows)


def render_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Render rows with left-aligned columns. All rows must have as many cells as the first row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _figures(judges: Collection[Calibration]) -> Iterator[list[str]]:
    yield ["judged", *(f"{calibration.judged} of {len(calibration.pairs)}" for calibration in judges)]
    yield ["agreement", *map(render_agreement, judges)]
    yield ["agreement over all", *(render_share(calibration.agreement_over_all) for calibration in judges)]
    yield ["balanced accuracy", *(render_share(calibration.balanced) for calibration in judges)]
    yield ["Cohen's kappa", *map(render_kappa, judges)]
    yield ["always the commonest", *(render_share(calibration.commonest) for calibration in judges)]


def _per_label(judges: Mapping[str, Calibration]) -> Iterator[list[str]]:
    labels = dict.fromkeys(label for calibration in judges.values() for label in calibration.labels)
    for label in labels:
        scores = [calibration.score(label) for calibration in judges.values()]
        yield [f"recall {printable(label)}", *(_fraction(score.hits, score.expected, score.recall) for score in scores)]
        yield [
            f"precision {printable(label)}",
            *(_fraction(score.hits, score.predictions, score.precision) for score in scores),
        ]


def _fraction(hits: int, number: int, value: float | None) -> str:
    return NONE if value is None else f"{value:.2f} ({hits}/{number})"


def render_costs(usages: Collection[Usage]) -> Iterator[list[str]]:
    """Yield rows with the calls, tokens and cost of each judge."""
    yield ["calls", *(str(usage.calls) for usage in usages)]
    yield ["tokens", *(f"{usage.input_tokens + usage.output_tokens:,}" for usage in usages)]
    yield ["cost", *(dollars(usage.cost_usd) for usage in usages)]

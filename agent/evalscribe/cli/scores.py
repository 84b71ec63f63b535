"""Implements `evalscribe experiments scores list|evidence`."""

import json
from collections.abc import Iterator
from typing import Annotated, get_args

import typer

from evalscribe.cli.options import moment
from evalscribe.cli.tables import Format, print_document, print_list, validate_format
from evalscribe.errors import UsageError
from evalscribe.experiments.results import ShownScore, list_scores
from evalscribe.experiments.results import score_evidence as use_case
from evalscribe.experiments.run_text import score_line, word
from evalscribe.model.score import Score, ScoreQuery, ScoreStatus
from evalscribe.text import one_line
from evalscribe.workspace import Workspace

HEADS = ("id", "item", "trial", "scorer", "result", "value", "label", "explanation")


def list_all(
    run_id: Annotated[
        str | None, typer.Option(metavar="RUN", help="List only scores of this run: id or name.", show_default=False)
    ] = None,
    run_item_id: Annotated[
        str | None, typer.Option(metavar="ID", help="List only scores of this run item.", show_default=False)
    ] = None,
    scorer_id: Annotated[
        str | None,
        typer.Option(metavar="ID|NAME", help="List only scores of this scorer: id or name.", show_default=False),
    ] = None,
    scorer_version_id: Annotated[
        str | None, typer.Option(metavar="ID", help="List only scores of this version of a scorer.", show_default=False)
    ] = None,
    passed: Annotated[
        bool | None, typer.Option("--passed/--failed", help="List only scores that passed, or only scores that failed.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="ok|unscored|error", help="List only scores with this status.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="List only scores from this time on, such as 2026-11-21T14:05Z.", show_default=False
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="List only scores before this time.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Include scores that were replaced by rescoring.")] = False,
    form: Format = "table",
) -> int:
    """List scores: what each scorer decided about each trial, and why."""
    validate_format(form)
    if status is not None and status not in get_args(ScoreStatus):
        raise UsageError(f"--status {status!r} is not one of {', '.join(get_args(ScoreStatus))}")
    query = ScoreQuery(
        run_id=run_id,
        run_item_id=run_item_id,
        scorer=scorer_id,
        scorer_version_id=scorer_version_id,
        passed=passed,
        status=status,
        since=since and moment(since, "--since"),
        until=until and moment(until, "--until"),
        superseded=every,
    )
    with Workspace() as workspace:
        print_list(list_scores(workspace, query), HEADS, _cells, form, none="No score matches.")
    return 0


def evidence(
    score: Annotated[
        str, typer.Argument(metavar="SCORE", help="A score: id, or first characters of the id.", show_default=False)
    ],
    include: Annotated[
        str,
        typer.Option(
            metavar="PART,...", help="Parts to show: scorer_input, scorer_output, evidence. Default: all parts."
        ),
    ] = "scorer_input,scorer_output,evidence",
    form: Format = "table",
) -> int:
    """Show a score: what the scorer received and returned, and its evidence."""
    parts = [part.strip() for part in include.split(",") if part.strip()]
    with Workspace() as workspace:
        document = use_case(workspace, score, parts)
    print_document(document, lambda: _score_lines(document), form)
    return 0


def _cells(score: Score) -> tuple[object, ...]:
    verdict = word(score) if score.current else f"{word(score)} (replaced)"
    value = None if score.value is None else f"{score.value:.3f}"
    label = score.error_type or score.label
    cells = (verdict, value, label, one_line(score.explanation))
    return score.id, one_line(score.item_key), score.repetition, score.scorer, *cells


def _score_lines(document: ShownScore) -> Iterator[str]:
    score = document.score
    yield score_line(score)
    yield f"run {score.run_id}, item {score.item_key} #{score.repetition} ({score.run_item_id})"
    replaced = "" if score.current else "; a later scoring replaced it"
    yield f"scorer version {score.scorer_version_id}, {score.created_at}{replaced}"
    parts = {**document.parts, **({"metadata": document.metadata} if document.metadata else {})}
    for name, value in parts.items():
        yield f"{name}:"
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        yield from (f"  {line}" for line in text.splitlines())

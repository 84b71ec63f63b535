"""Implements `evalscribe recurring [PROVIDER/MODEL…]`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.output import print_json, print_notes, say
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.reports.recurring import (
    AffectedModel,
    RecordedAction,
    RecurringEvals,
    RecurringRow,
    SharedFailure,
    SharedFailures,
    load_shared_failures,
    recurring_evals,
)
from evalscribe.settings import Options
from evalscribe.text import join_first, pluralise
from evalscribe.workspace import Workspace


def recurring(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="PROVIDER/MODEL", help="Models to include. Default: all models.")
    ] = None,
    across_models: Annotated[
        bool,
        typer.Option("--across-models", help="List evals that several models fail in the same way."),
    ] = False,
    least: Annotated[
        int | None,
        typer.Option(
            "--min",
            min=2,
            metavar="N",
            help="Only with --across-models: how many models must fail an eval in the same way. Default: 2.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Include evals that failed in one run only.")] = False,
    reports: options.Reports = None,
    as_json: options.Json = False,
) -> int:
    """List the evals that failed in at least two runs: dates, labels, causes, actions, and whether a fix held.

    Outages are summarised on one line. With --across-models, list the evals that several models fail in the same way.
    That list compares failures only if their experiment, task and grader are the same, and only if their runs were
    analysed with this store.
    """
    if least is not None and not across_models:
        raise UsageError("--min can only be used with --across-models")
    with Workspace(Options(reports=reports)) as workspace:
        store = workspace.store.analyses if workspace.has_store else None
        if not across_models:
            print_recurring(recurring_evals(workspace.reports, models or (), store), every=every, as_json=as_json)
        elif store is None:
            raise NotFoundError("no stored run to compare; store one with `evalscribe analyze RUN`")
        else:
            least = least or 2
            failures = load_shared_failures(workspace.reports, store, models or (), least)
            print_shared_failures(failures, least, as_json=as_json)
    return 0


NONE_ALIKE = "No eval fails in the same way for {least} or more models in the stored runs."
NONE_AT_ALL = "No earlier report names a failing eval."
MOST_OUTAGES = 3
"""Maximum number of evals that are named in the line about outages."""


def print_recurring(result: RecurringEvals, *, every: bool, as_json: bool) -> None:
    """Print a paragraph for each eval that a model failed in at least two runs, and one line for all outages.

    With `every`, also print the evals that failed in only one run. The JSON output always has all rows.
    """
    if as_json:
        print_json(result)
        return
    outages = [row for row in result.rows if row.is_outage and not every]
    repeated = [row for row in result.rows if row not in outages and (every or row.times > 1)]
    _show(_paragraphs(repeated, outages, result.rows), result.notes, NONE_AT_ALL)


def _paragraphs(
    rows: Sequence[RecurringRow], outages: Sequence[RecurringRow], every: Sequence[RecurringRow]
) -> Iterator[str]:
    for row in rows:
        yield from _row(row)
    if outages:
        names = join_first(list(dict.fromkeys(row.eval for row in outages)), MOST_OUTAGES)
        yield f"Outages: {pluralise(len(outages), 'eval')} failed for reasons outside model and task ({names})"
    if once := [row for row in every if row not in rows and row not in outages]:
        shared = sum(models > 1 for models in Counter(row.eval for row in once).values())
        also = f". {shared} of these evals failed for several models: see --across-models" if shared else ""
        yield f"{pluralise(len(once), 'eval')} failed in only one run of their model; --all lists them{also}"


def print_shared_failures(result: SharedFailures, least: int, *, as_json: bool) -> None:
    """Print a paragraph for each eval that several models fail in the same way."""
    if as_json:
        print_json(result)
    else:
        _show(
            (line for row in result.rows for line in _shared_lines(row)), result.notes, NONE_ALIKE.format(least=least)
        )


def _show(lines: Iterable[str], remarks: Iterable[str], nothing: str) -> None:
    lines = list(lines)
    for line in lines or [nothing]:
        say(line)
    print_notes(remarks)


def _row(row: RecurringRow) -> Iterator[str]:
    yield f"{row.model}  {row.eval}: {_when(row)}"
    labels = [f"{label} (proved)" if row.proved and n == 0 else label for n, label in enumerate(row.labels)]
    yield f"    {', '.join(labels) or 'no label'}{'; ' + ', '.join(row.causes) if row.causes else ''}"
    yield from map(_action, row.actions)


def _when(row: RecurringRow) -> str:
    """Format when an eval failed: `once, 2026-10-12`, or the number of times with the first and the last date."""
    first, last = row.first.date or "undated", row.last.date or "undated"
    return f"once, {first}" if row.times == 1 else f"{row.times} times, {first} to {last}"


def _shared_lines(row: SharedFailure) -> Iterator[str]:
    share = f"{row.failing} of {pluralise(row.models, 'model')}"
    yield f"{row.eval}: fails the same way for {share} (experiment {row.experiment})"
    yield f"    {row.signature}"
    yield from (f"    {_model(affected)}" for affected in row.affected)
    if row.earlier:
        yield f"    in an earlier version of this eval: {', '.join(row.earlier)}"
    yield from map(_action, row.actions)


def _model(affected: AffectedModel) -> str:
    how = "by a person" if affected.by_person else "proved" if affected.proved else "unreviewed"
    label = f"{affected.label}, {how}" if affected.label else "no label"
    return f"{affected.model}: {label} (run {', '.join(affected.runs)})"


def _action(action: RecordedAction) -> str:
    return f"    {action.report.date or action.report.report}: {action.text} ({action.outcome})"

"""What recurs, as people read it."""

from collections.abc import Iterable, Iterator

from evalscribe.cli.display.finish import notes, print_json, say
from evalscribe.reports.recurring import (
    AffectedModel,
    RecordedAction,
    RecurringEvals,
    RecurringRow,
    SharedFailure,
    SharedFailures,
)
from evalscribe.text import pluralise

NONE_ALIKE = "No eval fails in the same way for {least} or more models in the stored runs."
NONE_AT_ALL = "No earlier report names a failing eval."


def recurring(found: RecurringEvals, *, as_json: bool) -> None:
    """A paragraph for each eval that a model failed."""
    if as_json:
        print_json(found)
    else:
        _show((line for row in found.rows for line in _row(row)), found.notes, NONE_AT_ALL)


def across_models(found: SharedFailures, least: int, *, as_json: bool) -> None:
    """A paragraph for each eval that several models fail in the same way."""
    if as_json:
        print_json(found)
    else:
        _show((line for row in found.rows for line in _alike(row)), found.notes, NONE_ALIKE.format(least=least))


def _show(lines: Iterable[str], remarks: Iterable[str], nothing: str) -> None:
    lines = list(lines)
    for line in lines or [nothing]:
        say(line)
    notes(remarks)


def _row(row: RecurringRow) -> Iterator[str]:
    yield f"{row.model}  {row.eval}: {_when(row)}"
    yield f"    {', '.join(row.labels) or 'no label'}{'; ' + ', '.join(row.causes) if row.causes else ''}"
    yield from map(_action, row.actions)


def _when(row: RecurringRow) -> str:
    """`once, 2026-10-12`, or how often and from when to when."""
    first, last = row.first.date or "undated", row.last.date or "undated"
    return f"once, {first}" if row.times == 1 else f"{row.times} times, {first} to {last}"


def _alike(row: SharedFailure) -> Iterator[str]:
    share = f"{row.failing} of {pluralise(row.models, 'model')}"
    yield f"{row.eval}: fails the same way for {share} (experiment {row.experiment})"
    yield f"    {row.signature}"
    yield from (f"    {_model(one)}" for one in row.seen)
    if row.earlier:
        yield f"    in an earlier version of this eval: {', '.join(row.earlier)}"
    yield from map(_action, row.actions)


def _model(seen: AffectedModel) -> str:
    label = f"{seen.label}, {'by a person' if seen.by_person else 'unreviewed'}" if seen.label else "no label"
    return f"{seen.model}: {label} (run {', '.join(seen.runs)})"


def _action(action: RecordedAction) -> str:
    return f"    {action.seen.date or action.seen.report}: {action.text} ({action.held})"

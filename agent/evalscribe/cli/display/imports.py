"""What `evalscribe import` prints when it is done."""

import sys
from collections.abc import Iterator
from shlex import quote

from evalscribe.app.collections.choice import Shown
from evalscribe.app.collections.importing import Imported
from evalscribe.app.import_all import ImportedAll
from evalscribe.cli.display import finish
from evalscribe.errors import DataError
from evalscribe.ids import model_folder
from evalscribe.model.rubric import Collection
from evalscribe.model.run import UNKNOWN, Run
from evalscribe.model.storage import AddedCounts
from evalscribe.text import one_line, pluralise

MOST_RUNS = 20
MOST_LEFT = 12


def show(done: ImportedAll, *, as_json: bool, dry_run: bool) -> int:
    """Print it; the exit code is that of a file that could not be read to its end."""
    if as_json:
        finish.print_json(done)
    for line in () if as_json else _lines(done, dry_run=dry_run):
        finish.say(line)
    torn = [one.stopped for one in done.imports.values() if one.stopped]
    for line in torn:
        finish.say(f"evalscribe: {line}\nWhat stands before it is kept.", file=sys.stderr)
    return DataError.exit_code if torn else 0


def _lines(done: ImportedAll, *, dry_run: bool) -> Iterator[str]:
    for name, one in done.imports.items():
        yield f"{one_line(name)} ({one.format})"
        yield from (f"  {run_line(run)}" for run in one.runs[:MOST_RUNS])
        if len(one.runs) > MOST_RUNS:
            yield f"  and {len(one.runs) - MOST_RUNS} more runs"
        yield f"  {_came_in(one, dry_run=dry_run)}"
        yield from _left_out(one)
    for reason in done.passed_over.values():
        yield f"Passed over: {one_line(reason.splitlines()[0])}"
    yield from _next(done, dry_run=dry_run)


def run_line(run: Run) -> str:
    """A run on one line, with its counts."""
    counts = f"{run.passed} of {pluralise(run.total, 'eval')} passed"
    rest = [f"{number} {what}" for number, what in ((run.failed, "failed"), (run.incomplete, "incomplete")) if number]
    model = "/".join(model_folder(run.provider, run.model))
    partly = "; INCOMPLETE: its import has not ended; import it again" if run.status == "importing" else ""
    return one_line(f"{run.id} {model}, {run.experiment}: {', '.join([counts, *rest])}{partly}")


def _came_in(one: Imported, *, dry_run: bool) -> str:
    statuses = ", ".join(f"{number} {status}" for status, number in sorted(one.statuses.items()))
    if dry_run:
        return f"would come in: {statuses or 'nothing'}"
    return f"{_added(one.added)} ({statuses or 'no evals'})"


def called(one: Collection | Shown) -> str:
    """A collection's name, and its id where that is another."""
    name, id = one_line(one.name), one_line(one.id)
    return name if name == id else f"{name} (id {id})"


def _added(added: AddedCounts) -> str:
    parts = [f"{number} {what}" for number, what in ((added.changed, "changed"), (added.same, "same")) if number]
    return ", ".join([f"{added.new} new", *parts])


def _left_out(one: Imported) -> Iterator[str]:
    for phrase, number in sorted(one.left_out.items(), key=lambda item: -item[1])[:MOST_LEFT]:
        yield f"  left out: {number} x {phrase}"
    if len(one.left_out) > MOST_LEFT:
        yield f"  left out: {len(one.left_out) - MOST_LEFT} other kinds of things (--json names them)"


def _next(done: ImportedAll, *, dry_run: bool) -> Iterator[str]:
    runs = [run for one in done.imports.values() for run in one.runs]
    if any(run.model == UNKNOWN for run in runs):
        yield "The file does not say which model this is: say it with --model PROVIDER/MODEL (and import again)."
    if dry_run:
        yield "Nothing was stored (--dry-run)."
        return
    yield f"Collection: {called(done.collection)}"
    yield f"Next: evalscribe analyze {quote(runs[0].id) if runs else 'RUN'}"

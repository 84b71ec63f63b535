"""Write runs of a collection as lines that an import reads again."""

from collections.abc import Iterator, Sequence

from evalscribe.errors import NotFoundError
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.model.storage import EvalStore
from evalscribe.sources.export import render_line


def lines(archive: EvalStore, collection: Collection, wanted: Sequence[str]) -> Iterator[str]:
    """Each run and its evals, one at a time; all runs of the collection unless some are wanted.

    Raises `NotFoundError` before the first line for a run that the collection has not.
    """
    return _lines(archive, chosen_runs(archive, collection, wanted))


def chosen_runs(archive: EvalStore, collection: Collection, wanted: Sequence[str]) -> tuple[Run, ...]:
    """The wanted runs, by id or a beginning of it that only one has; without any, all of them."""
    there = archive.runs(collection.id)
    return tuple(one_run(there, name, collection) for name in wanted) if wanted else there


def one_run(there: Sequence[Run], name: str, collection: Collection) -> Run:
    """Raises `NotFoundError` where no run, or more than one, is called so."""
    exact = [run for run in there if run.id == name]
    found = exact or [run for run in there if run.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(run.id for run in (found or there)[:10]) or "none"
    told = f"{len(found)} runs that begin with" if found else "no run"
    raise NotFoundError(f"the collection {collection.name!r} has {told} {name!r}: {known}")


def _lines(archive: EvalStore, runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        yield render_line(run)
        for record in archive.records(run.id):
            yield render_line(record)

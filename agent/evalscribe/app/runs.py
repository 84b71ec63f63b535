"""Which run is meant, and where it is read from: the store, a file, a snapshot folder or a deployment."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.app.collections.stored_runs import Arrivals, RunFile, bring_in, is_whole, whole_run
from evalscribe.app.named import kind_of
from evalscribe.errors import AccessError, DataError, NotFoundError, UsageError
from evalscribe.model.protocols import RunSource
from evalscribe.model.run import Eval, Run
from evalscribe.sample import snapshot_folder
from evalscribe.settings.access import npx_environment
from evalscribe.sources.address import SUMMARY, RunAddress, RunOverrides, parse_address
from evalscribe.sources.formats import open_records, run_files
from evalscribe.sources.snapshot import StoredSource
from evalscribe.text import join_first
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.sources.convex_payload import PayloadSource

SAMPLE = "sample"
"""What ships with the package: to import, two runs of a small agent."""
PACKED = (".gz", ".jsonl", ".json", ".eval", ".xml", ".ndjson")
"""Ends of file names that are no part of a collection's name."""


def collection_name(path: str) -> str:
    """A file's or folder's name without its ends; the last part of an address."""
    name = path.rstrip("/").rpartition("/")[2] or path
    name = Path.cwd().name if name in (".", "..", "") else name
    while end := next((end for end in PACKED if name.lower().endswith(end) and len(name) > len(end)), None):
        name = name[: -len(end)]
    return name


def address(run: str) -> RunAddress:
    """Raises `EvalscribeError` for what names no run."""
    if run == SAMPLE:
        return RunAddress(kind="snapshot", folder=snapshot_folder())
    return parse_address(run, Path.cwd())


def is_file_of_runs(run: str) -> bool:
    """Whether it names a file that is no part of a snapshot, or a folder of such files."""
    path = Path(run)
    try:
        if path.is_dir():
            return run != SAMPLE and not (path / SUMMARY).exists()
        return run != SAMPLE and path.is_file() and path.name != SUMMARY
    except (OSError, ValueError):
        return False


def eval_named(run: str) -> str | None:
    """The eval whose page RUN is. Raises as `address` does."""
    return None if is_file_of_runs(run) else address(run).eval_id


def source(workspace: Workspace, run: str) -> "PayloadSource":
    """The source of a run that is neither stored nor a file of runs; the caller closes it.

    Raises `EvalscribeError` where it cannot be reached as things are set.
    """
    settings, options = workspace.settings, workspace.options
    named = address(run)
    links = named.links(settings.visualizer.value)
    if named.folder is not None:
        from evalscribe.sources.snapshot import open_snapshot

        return open_snapshot(named.folder, links)
    run_id = named.run_id or ""
    if named.kind == "id" and (why := _not_a_run(workspace, run_id)):
        raise NotFoundError(why)
    if options.via == "npx":
        from evalscribe.sources.npx import open_npx

        if options.convex_dir is None:
            raise UsageError("--via npx needs --convex-dir DIR, the folder in which `npx convex run` works")
        named_there = npx_environment(settings.places)
        return open_npx(options.convex_dir, run_id, links, settings=named_there, env_path=options.env_file)
    if options.via != "http":
        raise UsageError(f"--via {options.via} is not known: http or npx")
    from evalscribe.sources.convex import open_convex

    try:
        access = settings.convex()
    except AccessError as error:
        if named.kind != "id":
            raise
        known = whole_run(workspace.store.analyses, workspace.store.runs, run_id) if workspace.has_store else None
        here = (
            f"no imported run and no file is called {run_id!r}, and none can be fetched"
            if known is None
            else f"run {known} is imported, analyses need no network for it, and it cannot be fetched"
        )
        raise AccessError(f"{here}: {error}") from None
    return open_convex(access.url, access.key, run_id, links)


@asynccontextmanager
async def open_source(workspace: Workspace, run: str) -> AsyncIterator["PayloadSource"]:
    """As `source`, closed at the end."""
    runs = source(workspace, run)
    try:
        yield runs
    finally:
        await runs.close()


@asynccontextmanager
async def open_run(
    workspace: Workspace, run: str, watcher: Arrivals, *, provider: str | None = None, model: str | None = None
) -> AsyncIterator[RunSource]:
    """The source of a run. A file of runs is imported first; what was imported is read from the store.

    Args:
        workspace: Where imported runs are, and how a deployment is reached.
        run: An id or its prefix, an address, a file, a snapshot folder or `sample`.
        watcher: Hears of an import.
        provider: Of the runs in a file; None for what the file says.
        model: As `provider`.
    """
    stored = await _stored(workspace, run, watcher, RunOverrides(provider=provider, model=model))
    if stored is not None:
        yield stored
        return
    async with open_source(workspace, run) as fetched:
        yield fetched


async def _stored(workspace: Workspace, run: str, watcher: Arrivals, overrides: RunOverrides) -> RunSource | None:
    """The run in the store, where it was imported or is now."""
    if is_file_of_runs(run):
        path = Path(run)
        called = (path.name or str(path), collection_name(run))
        run_id = await bring_in(
            workspace.store.runs, workspace.store.collections, _files(path, overrides), called, watcher
        )
        return StoredSource(workspace.store.analyses, workspace.store.runs, run_id)
    if not workspace.has_store or run == SAMPLE or address(run).kind != "id":
        return None
    imported = whole_run(workspace.store.analyses, workspace.store.runs, run)
    known = of_experiment(workspace, imported or run) or imported
    if known is None:
        return None
    watcher.say(f"Run {known} is read from the store.")
    return StoredSource(workspace.store.analyses, workspace.store.runs, known)


def of_experiment(workspace: Workspace, named: str) -> str | None:
    """Id of the run of an experiment with this name or id. Raises `UsageError` for one of which nothing can be read."""
    run = workspace.store.experiment_runs.run(named)
    if run is None:
        return None
    if not run.terminal:  # A part of it may be in the archive already.
        raise UsageError(f"run {named} of an experiment has not ended: `evalscribe reports wait {run.id}` waits for it")
    if is_whole(workspace.store.runs, run.id):
        return run.id
    raise UsageError(f"run {named} of an experiment {run.state} before it tried anything: {run.reason or 'no reason'}")


def _not_a_run(workspace: Workspace, named: str) -> str | None:
    """What of an experiment it is instead."""
    if not workspace.has_store:
        kind = kind_of(named)
        return f"{named} looks like the id of {kind}, and nothing is stored here" if kind else None
    # Experiments are a tenth of what an analysis would import, and few ids are not those of runs.
    from evalscribe.app.not_a_run import not_a_run

    return not_a_run(workspace, named)


def _files(path: Path, overrides: RunOverrides) -> tuple[RunFile, ...]:
    """The file, or those of a folder that hold runs. Raises `NotFoundError` where none does."""
    if not path.is_dir():
        return (RunFile(path.name, partial(open_records, path, overrides), overrides.said),)
    there: tuple[Path, ...] = ()
    with suppress(NotFoundError):  # there is none at all
        there = run_files(path)
    found = []
    for one in there:
        with suppress(DataError):
            open_records(one, overrides)
            found.append(RunFile(str(one), partial(open_records, one, overrides), overrides.said))
    if not found:
        raise NotFoundError(f"{path} is no snapshot of a run: it has no {SUMMARY}, and no file in it holds runs")
    return tuple(found)


def failure_named(run: Run, name: str) -> Eval:
    """The failed eval that a person means. Raises `NotFoundError` or `UsageError`."""
    exact = [eval for eval in run.failures if name in (eval.id, eval.path)]
    close = exact or [eval for eval in run.failures if name in _short_names(eval)]
    if len(close) == 1:
        return close[0]
    if close:
        raise UsageError(f"{name!r} is the name of several failed evals: {_some(close)}")
    raise NotFoundError(f"no failed eval of run {run.id} is called {name!r}; there are {_some(run.failures)}")


def _short_names(eval: Eval) -> tuple[str, ...]:
    """Without the category, without the trial, without both."""
    return eval.path.removeprefix(f"{eval.category}/"), f"{eval.category}/{eval.name}", eval.name


def _some(evals: tuple[Eval, ...] | list[Eval]) -> str:
    return join_first([eval.path for eval in evals], 5) or "none"

"""Which run is meant, and where it is read from: the store, a file, a snapshot folder or a deployment."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.app.collections.stored_runs import Arrivals, RunFile, bring_in, is_whole, whole_run
from evalscribe.errors import AccessError, DataError, NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.ports import Archive, Source
from evalscribe.settings import Options, Settings
from evalscribe.settings.access import for_npx
from evalscribe.sources.address import SUMMARY, RunAddress, parse_address
from evalscribe.sources.imports.wish import Wish
from evalscribe.wiring.naming import SAMPLE, collection_name
from evalscribe.wiring.stores import archive, has_store, shelf, store

if TYPE_CHECKING:
    from evalscribe.sources.payload_source import PayloadSource


class Choice(Frozen):
    """What the command line chose: which run, how to reach it, and the settings it gave."""

    run: str
    via: str = "http"
    convex_dir: Path | None = None
    wish: Wish = Wish()
    """What the user says of a run whose file does not."""
    writes: bool = False
    """Whether the command may write into the reports folder."""
    rubric: str | None = None
    """The rubric that failures are judged by, `NAME` or `NAME@VERSION`; None for the one that comes with evalscribe."""
    cascade: bool = False
    fresh: bool = False
    """Whether the stages of a cascade ask again what the store knows."""
    batch: bool = False
    """Whether models are asked through Message Batches."""
    options: Options = Options()


def address(run: str) -> RunAddress:
    """Raises `EvalscribeError` for what names no run."""
    if run == SAMPLE:
        from evalscribe.sample import snapshot_folder

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


def source(choice: Choice, found: Settings) -> "PayloadSource":
    """The source of the chosen run. Raises `EvalscribeError` where it cannot be reached as things are set."""
    named = address(choice.run)
    links = named.links(found.visualizer.value)
    if named.folder is not None:
        from evalscribe.sources.snapshot import open_snapshot

        return open_snapshot(named.folder, links)
    run_id = named.run_id or ""
    if named.kind == "id" and (why := _not_a_run(found, run_id)):
        raise NotFoundError(why)
    if choice.via == "npx":
        from evalscribe.sources.npx import open_npx

        if choice.convex_dir is None:
            raise UsageError("--via npx needs --convex-dir DIR, the folder in which `npx convex run` works")
        env_path = choice.options.env_file
        return open_npx(choice.convex_dir, run_id, links, settings=for_npx(found.places), env_path=env_path)
    if choice.via != "http":
        raise UsageError(f"--via {choice.via} is not known: http or npx")
    from evalscribe.sources.convex import open_convex

    try:
        access = found.convex()
    except AccessError as error:
        if named.kind != "id":
            raise
        known = _imported_id(found, run_id)
        here = (
            f"no imported run and no file is called {run_id!r}, and none can be fetched"
            if known is None
            else f"run {known} is imported, analyses need no network for it, and it cannot be fetched"
        )
        raise AccessError(f"{here}: {error}") from None
    return open_convex(access.url, access.key, run_id, links)


def _imported_id(found: Settings, named: str) -> str | None:
    if not has_store(found):
        return None
    with closing(store(found)) as kept, closing(archive(found)) as whole:
        return whole_run(kept, whole, named)


@asynccontextmanager
async def open_source(choice: Choice, found: Settings) -> AsyncIterator["PayloadSource"]:
    """The source of a run that is no file of runs, closed at the end."""
    runs = source(choice, found)
    try:
        yield runs
    finally:
        await runs.close()


@asynccontextmanager
async def open_run(choice: Choice, found: Settings, watcher: Arrivals) -> AsyncIterator[Source]:
    """The source of the chosen run: a file of runs is imported first, and what was imported is read from the store."""
    async with AsyncExitStack() as opened:
        held = await _held(choice, found, watcher, opened)
        yield held if held is not None else await opened.enter_async_context(open_source(choice, found))


async def _held(choice: Choice, found: Settings, watcher: Arrivals, opened: AsyncExitStack) -> Source | None:
    """The run in the store, where it was imported or is now."""
    from_file = is_file_of_runs(choice.run)
    if not from_file and (not has_store(found) or choice.run == SAMPLE or address(choice.run).kind != "id"):
        return None
    from evalscribe.sources.stored import StoredSource

    kept = opened.enter_context(closing(store(found)))
    whole = opened.enter_context(closing(archive(found)))
    if from_file:
        run_id = await _imported(choice, found, watcher)
        return StoredSource(kept, whole, run_id)
    imported = whole_run(kept, whole, choice.run)
    known = of_experiment(found, whole, imported or choice.run) or imported
    if known is None:
        return None
    watcher.say(f"Run {known} is read from the store.")
    return StoredSource(kept, whole, known)


def of_experiment(found: Settings, whole: Archive, named: str) -> str | None:
    """Id of the run of an experiment with this name or id. Raises `UsageError` for one of which nothing can be read."""
    from evalscribe.wiring.experiments import experiment_runs

    with closing(experiment_runs(found)) as runs:
        run = runs.run(named)
    if run is None:
        return None
    if not run.terminal:  # A part of it may be in the archive already.
        raise UsageError(f"run {named} of an experiment has not ended: `evalscribe reports wait {run.id}` waits for it")
    if is_whole(whole, run.id):
        return run.id
    raise UsageError(f"run {named} of an experiment {run.state} before it tried anything: {run.reason or 'no reason'}")


def _not_a_run(found: Settings, named: str) -> str | None:
    """What of an experiment it is instead."""
    from evalscribe.app.experiments.not_a_run import not_a_run
    from evalscribe.app.named import kind_of
    from evalscribe.wiring.experiments import open_desk

    if not has_store(found):
        kind = kind_of(named)
        return f"{named} looks like the id of {kind}, and nothing is stored here" if kind else None
    with open_desk(found) as desk:
        return not_a_run(desk, named)


async def _imported(choice: Choice, found: Settings, watcher: Arrivals) -> str:
    path = Path(choice.run)
    files = _files(path, choice.wish)
    with closing(archive(found)) as whole, closing(shelf(found)) as books:
        return await bring_in(whole, books, files, (path.name or str(path), collection_name(choice.run)), watcher)


def _files(path: Path, wish: Wish) -> tuple[RunFile, ...]:
    """The file, or those of a folder that hold runs. Raises `NotFoundError` where none does."""
    from evalscribe.sources.imports import open_records
    from evalscribe.sources.imports.folder import files

    if not path.is_dir():
        return (RunFile(path.name, partial(open_records, path, wish), wish.said),)
    there: tuple[Path, ...] = ()
    with suppress(NotFoundError):  # there is none at all
        there = files(path)
    found = []
    for one in there:
        with suppress(DataError):
            open_records(one, wish)
            found.append(RunFile(str(one), partial(open_records, one, wish), wish.said))
    if not found:
        raise NotFoundError(f"{path} is no snapshot of a run: it has no {SUMMARY}, and no file in it holds runs")
    return tuple(found)

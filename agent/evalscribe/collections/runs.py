"""Find the run that a user names: a stored run, or one in a file, in a snapshot folder or on a deployment."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.collections.importing import (
    MOST_CHARACTERS,
    FileImport,
    OpenedFile,
    characters,
    import_file,
    open_file,
)
from evalscribe.collections.other_ids import describe_other_id
from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.model.analysis import AnalyzedRun, analyzed_run
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.protocols import RunSource
from evalscribe.model.record import Record, Records, TableReading
from evalscribe.model.run import Eval, Run
from evalscribe.sample import snapshot_folder
from evalscribe.settings.access import npx_environment
from evalscribe.sources.address import SUMMARY, RunAddress, RunOverrides, is_document_id, parse_address, parse_columns
from evalscribe.sources.formats import SUPPORTED, run_files
from evalscribe.sources.snapshot import SnapshotWriter, StoredSource, open_snapshot
from evalscribe.store.lookup import SHORTEST_PREFIX, ambiguous, is_prefix, kind_of, nearest
from evalscribe.text import join_first, one_line, pluralise
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.sources.convex_payload import PayloadSource
    from evalscribe.store.analyses import AnalysisStore
    from evalscribe.store.records import RunStore


MOST_NAMED = 10
MOST_FILES = 1000
"""Maximum number of files in the working folder that are compared with an unknown name to suggest similar names."""
MOST_REASONS = 3
"""Maximum number of files for which an error states why they contain no runs."""


def stored_run(store: "AnalysisStore", name: str, usable: Callable[[str], bool] = lambda _: True) -> str | None:
    """Find a stored run by id, by the beginning of its id, or by its name in an experiment, and return its id.

    Runs for which `usable` returns False are ignored. Returns None if no run matches. Raises `UsageError` if several
    runs match; the newest is not chosen.
    """
    ids = store.run_ids(name) if name else ()
    if name in ids and usable(name):
        return name
    # `run_ids` also returns experiment runs with this name. A name can be shorter than the shortest permitted prefix.
    matches = [id for id in ids if usable(id) and (is_prefix(name) or not id.startswith(name))]
    if len(matches) > 1:
        raise ambiguous("run", name, matches)
    return next(iter(matches), None)


def imported_run_id(store: "AnalysisStore", run_store: "RunStore", name: str) -> str | None:
    """Find a run in the same way as `stored_run`, but only among imported runs."""
    return name if is_imported(run_store, name) else stored_run(store, name, lambda id: is_imported(run_store, id))


def analysed_run(store: "AnalysisStore", name: str) -> str:
    """Find a run in the same way as `stored_run`. Raises `NotFoundError`, with similar ids, if no run matches."""
    if (run_id := stored_run(store, name)) is None:
        hint = nearest(name, store.run_ids()) if store.run_ids() else "import runs with `evalscribe import`"
        raise NotFoundError(f"run {name[:80]!r} not found in the store; {hint}")
    return run_id


def unknown_run(workspace: Workspace, name: str) -> NotFoundError:
    """Return the error for a name that is neither a file nor a stored run, and cannot be an id on a deployment."""
    known_names: list[str] = []
    if workspace.has_store:
        names = [run.name for run in workspace.store.experiment_runs.runs() if run.name]
        known_names = [*workspace.store.analyses.run_ids(), *names]
    files = [path.name for path in islice(workspace.folder.iterdir(), MOST_FILES) if path.suffix in PACKED]
    similar = get_close_matches(name, [*files, *known_names], n=3, cutoff=0.6)
    message = (
        f"Nearest: {', '.join(similar)}."
        if similar
        else f"Stored runs: {join_first(known_names, MOST_NAMED)}."
        if known_names
        else ""
    )
    if not is_prefix(name) and any(run_name.startswith(name) for run_name in known_names):
        message = f"The first characters of an id must be at least {SHORTEST_PREFIX}. {message}"
    hint = "`evalscribe import FILE` stores runs; `sample` is a run that comes with evalscribe."
    return NotFoundError(f'No file or run "{name[:80]}". {message or hint}')


async def import_run(
    run_store: "RunStore",
    files: Sequence[OpenedFile],
    source_name: str,
    watcher: AnalysisWatcher,
) -> str:
    """Import files that together contain one run, without adding the run to a collection. Returns the run's id.

    A run that is already in a collection stays there.

    Raises:
        EvalscribeError: The files contain no runs.
        UsageError: The files contain several runs. Nothing is stored if the first `MOST_CHARACTERS` characters already
            show this.
    """
    readers = [(file, _ReadAhead(file.records)) for file in files]
    # This runs in a thread, so that signal handlers can run while up to `MOST_CHARACTERS` characters are parsed.
    await asyncio.to_thread(_refuse_several, readers, source_name)
    runs: dict[str, Run] = {}
    for file, records in readers:
        result = await import_file(
            run_store, None, records, None, watcher.imported, overridden=file.overrides.names_set
        )
        watcher.say(_import_message(file.name, result))
        if result.table:
            watcher.say(f"{file.name}: {result.table.text}", ("map",))
        if result.stopped:
            watcher.say(f"Reading stopped early: {result.stopped}")
        runs |= {run.id: run for run in result.runs}
    if not runs:
        raise DataError(f"{source_name} contains no runs")
    if len(runs) > 1:
        raise _several_runs(source_name, list(runs.values()))
    return next(iter(runs))


def _refuse_several(readers: "Sequence[tuple[OpenedFile, _ReadAhead]]", source_name: str) -> None:
    """Raise `UsageError` if the beginnings of the files show that they contain several runs. Nothing is stored yet."""
    remaining, named_runs = MOST_CHARACTERS, list[tuple[str, Run]]()
    for file, records in readers:
        runs, remaining = records.read_ahead(remaining)
        named_runs += [(file.name, run) for run in runs]
    # Several files of a folder can contain parts of the same run, so runs are counted by id.
    if len({run.id for _, run in named_runs}) < 2:
        return
    if len(readers) == 1:
        raise _several_runs(source_name, [run for _, run in named_runs])
    names = [f"{name}: {_run_text(run)}" for name, run in named_runs]
    raise UsageError(f"{source_name} contains several runs; choose one of its files:{_indented_lines(names)}")


def _several_runs(source_name: str, runs: Sequence[Run]) -> UsageError:
    stores = "`evalscribe import FILE` stores them; then choose one by its id"
    return UsageError(
        f"{source_name} contains {len(runs)} runs. {stores}:{_indented_lines(list(map(_run_text, runs)))}"
    )


def _run_text(run: Run) -> str:
    return f"{run.id} ({run.provider}/{run.model}, {run.experiment})"


def _indented_lines(lines: Sequence[str]) -> str:
    more = f"\n  and {len(lines) - MOST_NAMED} more" if len(lines) > MOST_NAMED else ""
    return "".join(f"\n  {line}" for line in lines[:MOST_NAMED]) + more


class _ReadAhead:
    """Reads records ahead, so that files with several runs can be refused before anything is stored."""

    def __init__(self, records: Records) -> None:
        self.format = records.format
        self._records = records
        self._reading = records.read()
        self._ahead = deque[Run | Record]()
        self._stopped: EvalscribeError | None = None

    @property
    def left_out(self) -> Mapping[str, int]:
        return self._records.left_out

    @property
    def lost(self) -> Sequence[str]:
        return self._records.lost

    @property
    def table(self) -> TableReading | None:
        return self._records.table

    @property
    def progress(self) -> float:
        return self._records.progress

    def read_ahead(self, max_characters: int) -> tuple[list[Run], int]:
        """Read up to `max_characters` ahead. Return the runs found, and the unused part of `max_characters`."""
        runs = []
        try:
            while max_characters > 0 and (entry := next(self._reading, None)) is not None:
                self._ahead.append(entry)
                if isinstance(entry, Run):
                    runs.append(entry)
                else:
                    max_characters -= characters(entry)
        except EvalscribeError as error:
            self._stopped = error  # records before the error are still imported
        return runs, max_characters

    def read(self) -> Iterator[Run | Record]:
        while self._ahead:
            yield self._ahead.popleft()
        if self._stopped:
            raise self._stopped
        yield from self._reading


def _import_message(file: str, result: FileImport) -> str:
    phrases = [f"{number} x {phrase}" for phrase, number in result.left_out.items()]
    left_out = f"; left out: {join_first(phrases, 3)}" if phrases else ""
    evals = pluralise(sum(result.statuses.values()), "eval")
    return f"{file} ({result.format}): {evals}, {result.added.new} new{left_out}"


def is_imported(run_store: "RunStore", run_id: str) -> bool:
    """Return whether at least one eval of the run was imported."""
    return next(run_store.records(run_id), None) is not None


def load_record(run_store: "RunStore", store: "AnalysisStore", run_id: str, eval_id: str) -> Record | None:
    """Load an eval's record, or build it from stored evidence. Returns None if neither is stored."""
    record = run_store.record(eval_id, run_id=run_id)
    if record is not None:
        return record
    evidence = store.get_evidence(run_id, eval_id)
    if not isinstance(evidence, Evidence):
        return None
    return Record(
        run_id=run_id,
        eval=evidence.eval,
        steps=evidence.steps,
        documents=evidence.documents,
        missing=evidence.missing,
    )


SAMPLE = "sample"
"""Name of the sample run that is included in the package."""
PACKED = (".gz", ".jsonl", ".json", ".eval", ".xml", ".ndjson", ".csv", ".tsv")
"""File extensions that are removed from a file's name to get the name of a collection."""


def collection_name(path: str) -> str:
    """Derive a collection's name from a path, without file extensions, or from the last part of an address."""
    name = path.rstrip("/").rpartition("/")[2] or path
    name = Path.cwd().name if name in (".", "..", "") else name
    # A file can have several extensions, such as `.jsonl.gz`.
    while end := next((end for end in PACKED if name.lower().endswith(end) and len(name) > len(end)), None):
        name = name[: -len(end)]
    return name


def parse_run_address(run: str) -> RunAddress:
    """Parse the address or id of a run. Raises `EvalscribeError` if the text is neither."""
    if run == SAMPLE:
        return RunAddress(kind="snapshot", folder=snapshot_folder())
    return parse_address(run, Path.cwd())


def is_file_of_runs(run: str) -> bool:
    """Return whether `run` names a file or folder on disk that is not a snapshot."""
    path = Path(run)
    if run == SAMPLE or not run.strip():
        return False
    try:
        if path.is_dir():
            return not (path / SUMMARY).exists()
        return path.is_file() and path.name != SUMMARY
    # Raised, for example, if the name is too long for a path.
    except (OSError, ValueError):
        return False


def eval_named(run: str) -> str | None:
    """Return the eval's id if `run` is the URL of an eval's page, otherwise None.

    Raises `EvalscribeError` if the text is neither the address nor the id of a run.
    """
    return None if is_file_of_runs(run) else parse_run_address(run).eval_id


def source_of_run(workspace: Workspace, run: str) -> "PayloadSource":
    """Open the source of a run that is neither stored nor in a file. The caller must close the source.

    Raises `EvalscribeError` if `run` does not name a run, or if the settings do not allow access to the source.
    """
    settings, options = workspace.settings, workspace.options
    address = parse_run_address(run)
    links = address.links(settings.visualizer.value)
    if address.folder is not None:
        return open_snapshot(address.folder, links)
    run_id = address.run_id or ""
    if address.kind == "id" and (problem := _not_a_run(workspace, run_id)):
        raise NotFoundError(problem)
    # A name with a file extension is a misspelt path. Asking for a key would mislead the user.
    if address.kind == "id" and run_id.lower().endswith(PACKED):
        raise unknown_run(workspace, run_id)
    if options.via == "npx":
        from evalscribe.sources.npx import open_npx

        if options.convex_dir is None:
            raise UsageError(
                "`via` npx needs `convex_dir` DIR, the folder for `npx convex run`", fields=("via", "convex_dir")
            )
        npx_settings = npx_environment(settings.places)
        return open_npx(options.convex_dir, run_id, links, settings=npx_settings, env_path=options.env_file)
    if options.via != "http":
        raise UsageError(f"`via` {options.via} is unknown; use http or npx", fields=("via",))
    from evalscribe.sources.convex import open_convex

    try:
        access = settings.convex()
    except AccessError as error:
        if address.kind != "id":
            raise
        imported = (
            imported_run_id(workspace.store.analyses, workspace.store.runs, run_id) if workspace.has_store else None
        )
        # A deployment can only have this run if the name has the checksum of a Convex id. For other names, a key would
        # not help, so the error says that the run is unknown.
        if imported is None and not is_document_id(run_id):
            raise unknown_run(workspace, run_id) from None
        reason = (
            f"no imported run or file {run_id!r} found, and it cannot be fetched"
            if imported is None
            else f"run {imported} is already imported and cannot be fetched; analyses of it need no network"
        )
        raise AccessError(f"{reason}: {error}", fields=error.fields) from None
    return open_convex(access.url, access.key, run_id, links)


@asynccontextmanager
async def open_source(workspace: Workspace, run: str) -> AsyncIterator["PayloadSource"]:
    """Open a source in the same way as `source_of_run`, and close it at the end."""
    runs = source_of_run(workspace, run)
    try:
        yield runs
    finally:
        await runs.close()


def run_overrides(
    workspace: Workspace,
    *,
    provider: str | None = None,
    model: str | None = None,
    experiment: str | None = None,
    map: Mapping[str, str] | None = None,
    threshold: float | None = None,
    tasks: Path | None = None,
    reference_run: Path | None = None,
) -> RunOverrides:
    """Build the overrides for the runs of a file. A value that is None is taken from the workspace's options."""
    columns = [f"{field}={name}" for field, name in (map or {}).items()]
    return RunOverrides(
        provider=provider,
        model=model,
        experiment=experiment,
        columns=parse_columns(columns or workspace.options.map or ()),
        threshold=workspace.options.threshold if threshold is None else threshold,
        tasks=_absolute_folder(tasks or workspace.options.tasks),
        reference_run=_absolute_folder(reference_run or workspace.options.reference_run),
    )


def _absolute_folder(folder: Path | None) -> Path | None:
    """Return a folder's absolute path, so that a process with a different working folder can read the folder.

    Raises `NotFoundError` if the folder does not exist.
    """
    if folder is not None and not folder.exists():
        raise NotFoundError(f"{folder} not found")
    return folder and folder.resolve()


@asynccontextmanager
async def open_run(
    workspace: Workspace,
    run: str,
    watcher: AnalysisWatcher,
    *,
    provider: str | None = None,
    model: str | None = None,
    replays: bool = False,
) -> AsyncIterator[RunSource]:
    """Open the source of a run. An imported run is read from the store. A file is imported first.

    Args:
        workspace: Workspace with imported runs and the settings of deployments.
        run: An id or the beginning of an id, an address, a file, a snapshot folder, or `sample`.
        watcher: Receives the progress of an import.
        provider: Provider of the run in a file; None for the provider that the file states.
        model: Model of the run in a file; None for the model that the file states.
        replays: True if failures will be replayed. The options `tasks` and `threshold` are then permitted for stored
            runs, too.
    """
    overrides = run_overrides(workspace, provider=provider, model=model)
    stored_source = await _open_stored(workspace, run, watcher, overrides, ("tasks", "threshold") if replays else ())
    if stored_source is not None:
        yield stored_source
        return
    async with open_source(workspace, run) as source:
        yield source


async def _open_stored(
    workspace: Workspace, run: str, watcher: AnalysisWatcher, overrides: RunOverrides, used: Sequence[str]
) -> RunSource | None:
    """Return the source of a stored run, or None if the run is not stored. A file of runs is imported first."""
    if is_file_of_runs(run):
        path = Path(run)
        source_name = path.name or str(path)
        files = _files(workspace.store.runs, path, overrides)
        run_id = await import_run(workspace.store.runs, files, source_name, watcher)
        return StoredSource(workspace.store.analyses, workspace.store.runs, run_id)
    # Without this check, columns or a threshold that have no effect on a stored run would be silently ignored.
    overrides.require_used(used, f"{run} is a run")
    if not workspace.has_store or run == SAMPLE or parse_run_address(run).kind != "id":
        return None
    imported = imported_run_id(workspace.store.analyses, workspace.store.runs, run)
    # An imported id is checked, too, because even an experiment's run that has not ended can have imported trials. Such
    # a run is refused.
    stored_id = experiment_run_name(workspace, imported or run) or imported
    if stored_id is None and workspace.options.via == "http" and not _can_fetch(workspace):
        stored_id = stored_run(workspace.store.analyses, run)  # a snapshot or a deployment's run that was analysed here
    if stored_id is None:
        return None
    watcher.say(f"Run {stored_id} is read from the store.")
    return StoredSource(workspace.store.analyses, workspace.store.runs, stored_id)


def _can_fetch(workspace: Workspace) -> bool:
    try:
        workspace.settings.convex()
    except AccessError:
        return False
    return True


def experiment_run_name(workspace: Workspace, name: str) -> str | None:
    """Find an experiment's run by name or id, and return the run's id. Returns None if there is no such run.

    Raises `UsageError` if the run has not ended, or if it ended before its first trial.
    """
    run = workspace.store.experiment_runs.run(name)
    if run is None:
        return None
    if not run.terminal:  # Some trials can already be imported, but not all.
        raise UsageError(
            f"experiment run {name} has not ended; wait for it with `evalscribe experiments runs wait {run.id}`"
        )
    if is_imported(workspace.store.runs, run.id):
        return run.id
    raise UsageError(f"experiment run {name} {run.state} before its first trial: {run.reason or 'no reason'}")


def _not_a_run(workspace: Workspace, name: str) -> str | None:
    """Return a message if `name` belongs to an object other than a run, or has the form of its id; otherwise None."""
    if not workspace.has_store:
        kind = kind_of(name)
        return f"{name} looks like the id of {kind}, but there is no store here" if kind else None
    return describe_other_id(workspace, name)


def _files(run_store: "RunStore", path: Path, overrides: RunOverrides) -> tuple[OpenedFile, ...]:
    """Open the file, or those files of a folder that contain runs.

    Raises `NotFoundError` if a folder has no such file.
    """
    if not path.is_dir():
        return (open_file(run_store, path, overrides),)
    paths: tuple[Path, ...] = ()
    with suppress(NotFoundError):  # the folder has no files
        paths = run_files(path)
    opened_files, reasons = [], []
    for file in paths:
        try:
            opened_files.append(open_file(run_store, file, overrides, str(file), in_folder=True))
        except DataError as error:
            # The list of supported formats at the end of the message would be repeated for every file.
            reasons.append(str(error).partition(f". {SUPPORTED}")[0])
    if not opened_files:
        more = f"\nand {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
        details = (
            "".join(f"\n{one_line(reason)}" for reason in reasons[:MOST_REASONS]) + more if paths else "it has no files"
        )
        raise NotFoundError(
            f"{path} is not a snapshot of a run: it has no {SUMMARY}, and no file in it contains runs: {details}"
        )
    return tuple(opened_files)


def find_failure(run: Run, name: str) -> Eval:
    """Find a failed eval by name.

    Raises `NotFoundError` if no failed eval has the name, and `UsageError` if several match it.
    """
    exact = [eval for eval in run.failures if name in (eval.id, eval.path)]
    close = exact or [eval for eval in run.failures if name in _short_names(eval)]
    if len(close) == 1:
        return close[0]
    if close:
        raise UsageError(f"{name!r} matches several failed evals: {_paths_text(close)}")
    raise NotFoundError(f"run {run.id} has no failed eval {name!r}; failed evals: {_paths_text(run.failures)}")


def find_trials(workspace: Workspace, run: Run, name: str, purpose: str) -> tuple[Eval, ...]:
    """Find the failed trials of the task with the given name, or else the failed eval with that name.

    Raises:
        NotFoundError: No failed eval has the name. If the eval passed, the message says that there is nothing to do,
            and `purpose` is the verb in the message.
        UsageError: Several failed evals match the name.
    """
    trials = tuple(eval for eval in run.failures if name in (eval.task, eval.name))
    if len({eval.task for eval in trials}) == 1:
        return trials
    try:
        return (find_failure(run, name),)
    except NotFoundError:
        graded = [
            graded_eval
            for graded_eval in workspace.store.runs.graded(run.id)
            if name
            in (
                graded_eval.eval.id,
                graded_eval.eval.path,
                graded_eval.trial_name,
                graded_eval.eval.task,
                *_short_names(graded_eval.eval),
            )
        ]
        passed = (
            [graded_eval.eval.path for graded_eval in graded]
            if all(graded_eval.eval.status == "passed" for graded_eval in graded)
            else []
        )
        # Some sources state the names of all evals but describe only those that failed. An eval that they name, and
        # that neither failed nor remained incomplete, has passed.
        if not graded and name in (run.evals or ()) and name not in run.incomplete_evals:
            passed = [name]
        if passed:
            raise NotFoundError(f"{passed[0]} passed, so there is nothing to {purpose}") from None
        # `graded` also has evals whose trial name matches, which `find_failure` does not compare.
        if len(graded) == 1:
            return (find_failure(run, graded[0].eval.id),)
        raise


def _short_names(eval: Eval) -> tuple[str, ...]:
    """Return three short forms of an eval's path: without its category, without its trial number, and without both."""
    return eval.path.removeprefix(f"{eval.category}/"), f"{eval.category}/{eval.name}", eval.name


def _paths_text(evals: tuple[Eval, ...] | list[Eval]) -> str:
    return join_first([eval.path for eval in evals], 5) or "none"


FETCHES = 8
"""Maximum number of evals that are fetched at once."""


class FetchedRun(Frozen):
    run: Run
    unreadable: tuple[UnreadableEvidence, ...] = ()
    """Evals whose evidence the source could not return. The snapshot contains the reason in place of the evidence."""

    def summary(self, folder: Path) -> "FetchSummary":
        return FetchSummary(
            run=analyzed_run(self.run),
            folder=str(folder),
            evals=tuple(eval.path for eval in self.run.failures),
            unreadable={item.eval.path: item.reason for item in self.unreadable},
        )


class FetchSummary(Frozen):
    """Summary of a downloaded run, as `evalscribe fetch --json` prints it."""

    run: AnalyzedRun
    folder: str
    evals: tuple[str, ...]
    """Paths of the failed evals."""
    unreadable: dict[str, str]
    """Reasons why evidence could not be read, keyed by the eval's path."""


async def fetch_run(
    source: "PayloadSource", open_writer: Callable[[str], SnapshotWriter], watcher: AnalysisWatcher
) -> FetchedRun:
    """Write a run and its failed evals to a snapshot.

    Args:
        open_writer: Receives a run id and returns the writer of the snapshot.

    Raises `EvalscribeError` for errors that affect the whole run.
    """
    run = await source.run()
    watcher.started(run)
    writer = open_writer(run.id)
    # All workers take evals from one iterator, so each eval is fetched once.
    remaining = iter(run.failures)
    unreadable: list[UnreadableEvidence] = []
    done = 0

    async def fetch_failures() -> None:
        nonlocal done
        for eval in remaining:
            payload = await source.payload(eval)
            writer.put(eval.id, payload)
            unreadable.extend([payload] if isinstance(payload, UnreadableEvidence) else [])
            done += 1
            watcher.fetched(done, len(run.failures))

    await asyncio.gather(*(fetch_failures() for _ in range(FETCHES)))
    # The summary is written last: a folder without a summary is not a snapshot, so an interrupted download is never
    # read as a complete run.
    writer.finish(await source.summary())
    return FetchedRun(run=run, unreadable=tuple(unreadable))

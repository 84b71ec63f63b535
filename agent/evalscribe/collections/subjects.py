"""Find the subjects to judge: agent runs in files, failed evals of runs, and agent runs of a collection."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.collections.lookup import choose_collection
from evalscribe.collections.query import select_agent_runs
from evalscribe.collections.runs import (
    find_failure,
    is_imported,
    load_record,
    parse_run_address,
    source_of_run,
    stored_run,
)
from evalscribe.errors import DataError, EvalscribeError, NotFoundError
from evalscribe.failures.prepare import fetch_evidence
from evalscribe.ids import Frozen
from evalscribe.judging.judges import LoadedSubject
from evalscribe.judging.subjects import agent_run_subject, failure_subject
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.model.evidence import EvidenceSnapshot, UnreadableEvidence
from evalscribe.model.exploration import Member
from evalscribe.model.protocols import RunSource
from evalscribe.model.record import evidence_of
from evalscribe.model.run import Eval, Run
from evalscribe.model.transcript import AgentRun, parse_agent_runs
from evalscribe.sources.snapshot import StoredSource
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore
    from evalscribe.store.records import RunStore

FROZEN = "dataset"
"""Text that takes the place of the run id for evidence from a dataset."""
ENDINGS = (".json", ".jsonl")
"""Extensions of files of agent runs. A name with one of these extensions is never a run or an eval."""
LARGEST_FILE = 512 * 1024 * 1024
"""Maximum size in bytes of a file of agent runs."""


class SubjectAddress(Frozen):
    """A parsed name of a run. Parsing reads no data."""

    run_id: str | None = None
    """Id of the run; None if only the source knows the id, for example if the source is a snapshot."""
    eval_id: str | None = None
    is_id: bool = False
    """True if the user gave a plain id, so that the run can be in the store."""


class ReachedSubject:
    """Opens the sources of runs that are not in the store. The sources are closed when the exit stack is closed."""

    def __init__(self, workspace: Workspace, stack: AsyncExitStack) -> None:
        self._workspace = workspace
        self._stack = stack

    def address(self, name: str) -> SubjectAddress:
        """Parse the name of a run. Raises `EvalscribeError` if the text cannot name a run."""
        address = parse_run_address(name)
        return SubjectAddress(run_id=address.run_id, eval_id=address.eval_id, is_id=address.kind == "id")

    def source(self, name: str) -> RunSource:
        """Open a source. Raises `EvalscribeError` if the source cannot be reached."""
        runs = source_of_run(self._workspace, name)
        self._stack.push_async_callback(runs.close)
        return runs

    def imported(self, run_id: str) -> RunSource | None:
        """Return a source that reads the run from the store, or None if the run was analysed but not imported."""
        run_store = self._workspace.store.runs
        return (
            StoredSource(self._workspace.store.analyses, run_store, run_id) if is_imported(run_store, run_id) else None
        )


@dataclass(frozen=True)
class PendingSubject:
    """A subject to judge that is loaded only when it is judged."""

    name: str
    load: Callable[[], LoadedSubject | str]
    """Loads the subject. Returns the reason instead if the subject cannot be read."""
    is_eval: bool = False
    task: str | None = None
    """Name of the subject's eval, without run and trial; None if it is unknown."""
    _cached: list[LoadedSubject] = field(default_factory=list, init=False, compare=False)

    def keep(self, loaded: LoadedSubject) -> None:
        """Keep a subject that was loaded for an estimate, so that it need not be loaded again for judging."""
        self._cached[:] = [loaded]

    def take(self) -> LoadedSubject | str:
        """Return the kept subject and release it, or load the subject now."""
        return self._cached.pop() if self._cached else self.load()


@dataclass
class ChosenRun:
    """A run with the failures to judge: the failures that the user named, or all failures if none was named."""

    run: Run
    source: RunSource | None
    """Source from which missing evidence is fetched; None if all evidence is stored."""
    evals: list[Eval] = field(default_factory=list)

    @property
    def chosen(self) -> tuple[Eval, ...]:
        return tuple(dict.fromkeys(self.evals)) or self.run.failures


class SubjectFinder:
    """Finds subjects by name. Evidence that is not in the store is fetched and stored."""

    def __init__(self, store: "AnalysisStore", runs: ReachedSubject, watcher: AnalysisWatcher) -> None:
        self._store = store
        self._runs = runs
        self._watcher = watcher

    async def find(self, arguments: Iterable[str]) -> tuple[PendingSubject, ...]:
        """Find files, runs and evals by name, in the order of the arguments. An eval must come after its run.

        Raises `EvalscribeError` if a name is unknown, and for errors that affect a whole run.
        """
        selections: list[ChosenRun | list[PendingSubject]] = []
        current: ChosenRun | None = None
        for argument in arguments:
            if _is_file(argument):
                selections.append([pending_agent_run(run) for run in _read_agent_runs(argument)])
            elif current is not None and (eval := _find_named(current.run, argument)):
                current.evals.append(eval)
            else:
                current = await self._next_run(argument, current)
                selections.append(current)
        subjects = [
            subject for part in selections for subject in (part if isinstance(part, list) else await self.gather(part))
        ]
        return tuple(_without_repeats(subjects))

    async def run(self, name: str) -> ChosenRun:
        """Find a run by address, by id, or by the beginning of a stored id.

        Raises `EvalscribeError` if the run cannot be found.
        """
        if run_in_store := self.find_stored(name):
            return ChosenRun(run=run_in_store, source=self._runs.imported(run_in_store.id))
        address = self._runs.address(name)
        runs = self._runs.source(name)
        run = await runs.run()
        chosen_run = ChosenRun(run=run, source=runs)
        if address.eval_id:
            chosen_run.evals.append(find_failure(run, address.eval_id))
        return chosen_run

    async def gather(self, chosen_run: ChosenRun) -> tuple[PendingSubject, ...]:
        """Store the evidence of the chosen failures of a run, and return these failures as subjects."""
        if chosen_run.source is not None:
            self._watcher.started(chosen_run.run)
            self._store.put_run(chosen_run.run)
            run = chosen_run.run.model_copy(update={"failures": chosen_run.chosen})
            await fetch_evidence(chosen_run.source, run, self._store, self._watcher.fetched)
        if not chosen_run.chosen:
            self._watcher.say(f"Run {chosen_run.run.id} lists no failed evals.")
        return tuple(self._pending_failure(chosen_run.run, eval) for eval in chosen_run.chosen)

    async def _next_run(self, argument: str, current: ChosenRun | None) -> ChosenRun:
        """Find the run that an argument names.

        If an earlier argument named a run, an unknown name is reported as a missing eval of that run.
        """
        if argument.endswith(ENDINGS) and "://" not in argument:
            raise NotFoundError(f"file {argument} not found")
        try:
            return await self.run(argument)
        except EvalscribeError as error:
            if current is None or "://" in argument:
                raise
            failure = f"run {current.run.id} has no failed eval {argument!r}; as the name of a run: {error}"
            raise NotFoundError(failure, fields=error.fields) from None

    def find_stored(self, name: str) -> Run | None:
        """Find a stored run in the same way as `stored_run`; None if it is not stored."""
        if not (address := self._runs.address(name)).is_id:
            return None
        run_id = stored_run(self._store, address.run_id or name)
        return self._store.get_run(run_id) if run_id else None

    def _pending_failure(self, run: Run, eval: Eval) -> PendingSubject:
        def load() -> LoadedSubject | str:
            evidence = self._store.get_evidence(run.id, eval.id)
            if evidence is None:
                return "the evidence is not in the store: give the run's URL or folder"
            if isinstance(evidence, UnreadableEvidence):
                return evidence.reason
            return LoadedSubject(failure_subject(run.id, evidence), evidence)

        return PendingSubject(name=f"{run.id}/{eval.path}", load=load, is_eval=True, task=eval.task)


def pending_agent_run(run: AgentRun) -> PendingSubject:
    return PendingSubject(name=run.id, load=lambda: LoadedSubject(agent_run_subject(run)))


def load_snapshot(value: object) -> LoadedSubject:
    """Load a failed eval from the input of a dataset item. Raises `DataError` if the input is not evidence."""
    evidence = EvidenceSnapshot.read(value).evidence
    return LoadedSubject(failure_subject(FROZEN, evidence), evidence)


def agent_runs(name: str) -> Sequence[AgentRun]:
    """Read the agent runs of a file. The file contains one agent run, a list of agent runs, or one per line.

    Raises `NotFoundError` if the file cannot be read, and `DataError` if it contains no agent runs or is too large.
    """
    path = Path(name)
    try:
        # The whole file is read into memory.
        if path.stat().st_size > LARGEST_FILE:
            raise DataError(f"{name} is larger than {LARGEST_FILE:,} bytes; split it into smaller files")
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text, so it is not an agent run") from None
    except OSError as error:
        raise NotFoundError(f"{name} cannot be read: {error.strerror}") from None
    return parse_agent_runs(text, name)


def _read_agent_runs(name: str) -> Sequence[AgentRun]:
    try:
        return agent_runs(name)
    except DataError as error:
        imported = f"evalscribe import {name}, then evalscribe judge RUBRIC --collection NAME"
        raise DataError(f"{error}\nIf the file is a log or contains whole runs: {imported}") from None


def _is_file(argument: str) -> bool:
    """Return whether `argument` is an existing file that can contain agent runs.

    The summary file of a snapshot cannot contain agent runs.
    """
    try:
        return Path(argument).is_file() and Path(argument).name != "failed_evals.json"
    # Raised, for example, if the name is too long for a path.
    except (OSError, ValueError):
        return False


def _find_named(run: Run, name: str) -> Eval | None:
    try:
        return find_failure(run, name)
    except NotFoundError:
        return None


def _without_repeats(subjects: Iterable[PendingSubject]) -> Iterator[PendingSubject]:
    """Yield the subjects. A failed eval that occurs repeatedly is yielded only once."""
    names: set[str] = set()
    for subject in subjects:
        # Different agent runs in a file can have the same id, so they are not compared by name.
        if not subject.is_eval or subject.name not in names:
            names.add(subject.name)
            yield subject


def collection_members(workspace: Workspace, collection: str | None, where: str | None) -> dict[str, PendingSubject]:
    """Return the agent runs of a collection that match a condition, as subjects keyed by id.

    Raises `NotFoundError` if none matches, and `UsageError` if the condition is invalid.
    """
    chosen_collection = choose_collection(workspace, collection)
    members = select_agent_runs(workspace.tables, chosen_collection.id, where)
    if not members:
        suffix = " matches the condition" if where else ""
        raise NotFoundError(f"no agent run of collection {chosen_collection.name!r}{suffix}: there is nothing to judge")
    return pending_subjects(members, workspace.store.runs, workspace.store.analyses)


def pending_subjects(
    members: Iterable[Member], run_store: "RunStore", store: "AnalysisStore"
) -> dict[str, PendingSubject]:
    """Return the agent runs as subjects, keyed by id.

    For a failed eval, the judge sees the evidence. For any other eval, the judge sees the agent run.
    """
    return {member.id: _pending_subject(member, run_store, store) for member in members}


def _pending_subject(member: Member, run_store: "RunStore", store: "AnalysisStore") -> PendingSubject:
    name = f"{member.run_id}/{member.eval}" if member.failed else member.id
    return PendingSubject(name=name, load=partial(_load, member, run_store, store), is_eval=member.failed)


def _load(member: Member, run_store: "RunStore", store: "AnalysisStore") -> LoadedSubject | str:
    record = load_record(run_store, store, member.run_id, member.id)
    if record is None:
        return "the agent run is not stored: import its run again"
    if not member.failed:
        return LoadedSubject(agent_run_subject(record.agent_run))
    evidence = evidence_of(record)
    return LoadedSubject(failure_subject(member.run_id, evidence), evidence)

"""Read job folders of Harbor (Terminal-Bench 2 and others): a job, a folder of jobs, or a single trial.

Jobs of the agent `oracle` show whether the reference answer passes, and jobs of the agent `nop` whether an empty answer
fails. The reader looks for jobs of these two agents in the same folder. Each eval gets the results of these agents on
the same version of its task.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from evalscribe.errors import EvalscribeError, NotFoundError
from evalscribe.evidence.locate import telling_line
from evalscribe.ids import content_id
from evalscribe.model.evidence import Document, Role
from evalscribe.model.record import Records
from evalscribe.model.reference_runs import (
    MAX_TRIALS,
    VERIFIER,
    AnswerKind,
    GradedAnswer,
    GradedTrial,
    failed_parts,
    reference_document,
)
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.atif import AtifTrajectory, first_request, read_trajectory
from evalscribe.sources.files import file_below, folders_in, is_entry, open_regular
from evalscribe.sources.recognition import FileStart, FolderStart, Format
from evalscribe.sources.records import (
    EvalReader,
    SourceEval,
    SourceRun,
    count,
    dicts,
    figure,
    iso_time,
    object_of,
    score_number,
    seconds_between,
    text_of,
)
from evalscribe.text import join_first, pluralise

NAME = "harbor"
MAX_JOBS = 1_000
MAX_TRIALS_OF_JOB = 100_000
MAX_TESTS = 2_000
"""Maximum number of tests of one verifier that are converted to steps."""
MAX_FILES = 50
"""Maximum number of files that are read as documents from one folder, such as the folder of an agent's artifacts."""
MAX_FILE_BYTES = 256 * 1024
MAX_TASK_BYTES = 256 * 1024 * 1024
"""Maximum size in bytes of a task folder whose checksum is computed."""
MAX_TASK_LEVELS = 50
VERIFIER_FOLDER, VERIFIER_OUTPUT = "verifier", "test-stdout.txt"
"""Name of the folder with a verifier's files, and name of the output file in this folder.

The folder is in each trial's folder and, in the sandbox where an answer is graded, in `/logs`.
"""
REFERENCE_AGENTS: dict[str, AnswerKind] = {"oracle": "reference answer", "nop": "empty answer"}
LIMITS = ("AgentTimeoutError", "OutputTokenExceededError", "ContextWindowExceededError")
"""Exceptions that mean that the agent reached a limit. Harbor still grades the unfinished work."""
_LOGS = (".txt", ".log", ".jsonl")
_TRIAL_FIELDS = frozenset(("task_name", "trial_name", "task_checksum"))
_JOB_FIELDS = frozenset(("n_total_trials", "stats"))


class _Trial(NamedTuple):
    """A trial's folder, with the data by which trials are ordered and matched with reference answers."""

    folder: Path
    job: "_Job"
    started_at: str
    checksum: str


class _Job(NamedTuple):
    folder: Path
    id: str
    datasets: int
    """Number of combinations of agent, model and dataset in the job. Each combination becomes a run."""
    planned: int
    finished: bool
    alone: bool = False
    """Whether only a single trial is read, because the user named the folder of this trial."""


class _Task(NamedTuple):
    documents: tuple[Document, ...]
    checksum: str | None


class _Part(NamedTuple):
    """The grading of one step of a trial.

    A trial without separate steps has a single part, which is the grading of the whole trial.
    """

    name: str
    rewards: Mapping[str, float]
    steps: tuple[Step, ...]
    logs: tuple[Document, ...]
    trajectory: AtifTrajectory | None
    error: str | None
    """The exception that ended this step or trial, on one line; None if there was none."""


class Grading(NamedTuple):
    """A verifier's result for one answer."""

    passed: bool
    steps: tuple[Step, ...]
    """Steps of the grading, in the same form as the steps of a stored trial."""
    rewards: str
    """The rewards as text, such as `reward 0`."""


class HarborReader(EvalReader):
    """Reads a job, a folder of jobs, or a trial.

    A run consists of the trials of one agent with one model on one dataset in one job.
    """

    format = NAME

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path if path.is_dir() else path.parent, overrides)
        self._tasks: dict[str, _Task | None] = {}
        self._task_folders: dict[str, Path] | None = None
        self._answers: dict[str, tuple[GradedAnswer, ...]] | None = None
        self._trials_of: dict[Path, list[_Trial]] = {}
        self._only: dict[Path, str] = {}
        """For each job folder, the key of the first run that was read."""

    def use_threshold(self, threshold: float) -> None:
        super().use_threshold(threshold)
        # A new threshold changes how the reference answers are graded.
        self._answers = None

    def evals(self) -> Iterator[SourceEval]:
        answers = self._reference_answers()
        for job in self._jobs():
            trials = self._trials(job)
            if job.planned > len(trials) and not job.alone:
                self._omit("a planned trial without a folder", job.folder.name, job.planned - len(trials))
            for trial in trials:
                try:
                    yield self._eval(trial, answers.get(trial.checksum, ()))
                except EvalscribeError as error:
                    self._omit(f"a trial that cannot be read: {error}", trial.folder.name, lost=True)
        if self._overrides.tasks and self._tasks and not any(self._tasks.values()):
            # The first pass raises this error, before anything is stored.
            raise NotFoundError(
                f"{self._overrides.tasks.name} has none of the tasks of {self._path.name}: "
                f"{join_first(tuple(self._tasks), 5)}",
                fields=("tasks",),
            )

    def _jobs(self) -> list[_Job]:
        if _is_trial(self._path):
            id = text_of(self._read_result(self._path).get("id"))
            return [_Job(self._path, id, 1, 1, finished=True, alone=True)]
        folders = (
            [self._path] if _is_job(self._path) else [folder for folder in _folders(self._path) if _is_job(folder)]
        )
        return [self._job(folder) for folder in folders]

    def _job(self, folder: Path) -> _Job:
        result = self._read_result(folder)
        stats = object_of(result.get("stats"))
        planned = count(result.get("n_total_trials")) or 0
        return _Job(
            folder,
            text_of(result.get("id")),
            len(object_of(stats.get("evals"))),
            planned,
            finished=bool(result.get("finished_at")),
        )

    def _read_result(self, folder: Path) -> dict[str, object]:
        """Read the file `result.json` in a folder.

        Returns an empty object if the file is missing or damaged. A damaged file is counted as left out.
        """
        return self._object(folder, "result.json")

    def _object(self, folder: Path, *names: str) -> dict[str, object]:
        if (path := file_below(folder, *names)) is None:
            return {}
        try:
            return self._load(path)
        except EvalscribeError:
            self._omit(f"a `{names[-1]}` that cannot be read", str(path.relative_to(folder.parent)))
            return {}

    def _trials(self, job: _Job) -> list[_Trial]:
        """Return the trials of a job in the order of their start times."""
        if job.folder not in self._trials_of:
            folders = [job.folder] if job.alone else folders_in(job.folder, MAX_TRIALS_OF_JOB)
            trials = [_trial_in(folder, job) for folder in folders if _is_trial(folder)]
            # Names of trials are random, so they have no useful order.
            self._trials_of[job.folder] = sorted(trials, key=lambda trial: (trial.started_at, trial.folder.name))
        return self._trials_of[job.folder]

    def _eval(self, trial: _Trial, answers: Sequence[GradedAnswer]) -> SourceEval:
        folder, job = trial.folder, trial.job
        result, config = self._read_result(folder), self._object(folder, "config.json")
        config = object_of(result.get("config")) or config
        parts = list(self._parts(folder, result))
        task = self._task(_task_folder(result, config))
        rewards = _rewards(result.get("verifier_result"))
        status, verdict_steps = self._verdict(result, rewards, parts)
        category, _, name = _task_name(result, config).rpartition("/")
        trajectories = [part.trajectory for part in parts if part.trajectory]
        usage = _usage(result, trajectories)
        reference = reference_document(answers, folder.name) if status in ("passed", "failed") else None
        steps = [step for part in parts for step in part.steps] + verdict_steps
        error = next((part.error for part in parts if part.error), None)
        return SourceEval(
            run=self._run_of(_run(job, result, config), job),
            name=name,
            category=category,
            status=status,
            place=folder.name,
            id=None if job.alone else text_of(result.get("id")) or None,
            version=trial.checksum or None,
            reason=_unjudged(result, error) if status in ("error", "incomplete") else None,
            steps=steps,
            documents=(
                *(task.documents if task else _instructions(parts)),
                # Failed parts come first, because reports quote the first log.
                *(document for part in sorted(parts, key=_passed) for document in part.logs),
                *self._artifacts(folder),
                *((reference,) if reference else ()),
            ),
            conversations=[
                (" ".join(filter(None, (part.name, name))) or None, messages)
                for part in parts
                if part.trajectory
                for name, messages in part.trajectory.conversations
            ],
            scores=dict(_scores(rewards, parts)),
            metadata=_metadata(result, config, trajectories, self._object(folder, "analysis.json")),
            missing=tuple(self._missing(task, trial, parts)),
            started_at=result.get("started_at"),
            ended_at=result.get("finished_at"),
            input_tokens=usage["input_tokens"],
            output_tokens=usage["output_tokens"],
            cost_usd=usage["cost_usd"],
        )

    def grading(self) -> Grading | None:
        """Read a verifier's result from the folder `verifier`; None if the folder contains no reward."""
        rewards = self._object(self._path, VERIFIER_FOLDER, "reward.json")
        # Harbor prefers `reward.json`, so a damaged one means that there is no reward.
        has_json = file_below(self._path, VERIFIER_FOLDER, "reward.json") is not None
        document = None if has_json else self._document("log", self._path, VERIFIER_FOLDER, "reward.txt")
        if document:
            with suppress(ValueError):
                rewards = {"reward": float(document.text)}
        result: dict[str, object] = {"verifier_result": {"rewards": rewards}}
        valid_rewards = _rewards(result["verifier_result"])
        if not valid_rewards:
            return None
        part = self._part("", self._path, (), result)
        status, verdict_steps = self._verdict(result, valid_rewards, [part])
        return Grading(status == "passed", (*part.steps, *verdict_steps), _format_rewards(valid_rewards))

    def _run_of(self, run: SourceRun, job: _Job) -> SourceRun:
        """Return a run with its final id.

        If a job has a single run, the run has the job's id. If a job has several runs, their ids are derived from the
        job's id and the key of each run.
        """
        only = self._only.setdefault(job.folder, run.key)
        if run.id is None or (job.datasets <= 1 and run.key == only):
            return run
        return replace(run, id=content_id([run.id, run.key]).removeprefix("sha256:")[:22])

    def _parts(self, folder: Path, result: Mapping[str, object]) -> Iterator[_Part]:
        steps = dicts(result.get("step_results"))
        for step in steps:
            # The name comes from the file and becomes part of a path, so it must not lead out of the trial's folder.
            if is_entry(name := text_of(step.get("step_name"))):
                yield self._part(name, folder, ("steps", name), step)
        if not steps:
            yield self._part("", folder, (), result)

    def _part(self, name: str, folder: Path, below: tuple[str, ...], result: Mapping[str, object]) -> _Part:
        rewards = _rewards(result.get("verifier_result"))
        logs = [
            document
            for file in (VERIFIER_OUTPUT, "test-stderr.txt")
            if (document := self._document("log", folder, *below, VERIFIER_FOLDER, file))
        ]
        output = logs[0].text if logs else ""
        tests = self._tests(self._object(folder, *below, VERIFIER_FOLDER, "ctrf.json"), f"{name}: " if name else "")
        exception = object_of(result.get("exception_info"))
        steps = [*tests, *self._verifier_steps(name, rewards, tests, output)]
        if rewards:
            # Harbor still grades the answer after exceptions such as `AgentTimeoutError`.
            steps += _ended_early(name, exception)
        trajectory = self._trajectory(folder, *below, "agent", "trajectory.json")
        if exception:
            logs.append(Document(role="log", path="exception.txt", text=text_of(exception.get("exception_traceback"))))
        if trajectory is None:
            logs += self._agent_logs(folder, below)
        return _Part(name, rewards, tuple(steps), tuple(logs), trajectory, _one_line(exception) if exception else None)

    def _tests(self, ctrf: Mapping[str, object], prefix: str) -> list[Step]:
        """Return a step for each test in a report in the Common Test Report Format (CTRF)."""
        tests = dicts(object_of(ctrf.get("results")).get("tests"))
        if len(tests) > MAX_TESTS:
            self._omit(f"a test after the first {MAX_TESTS} of a verifier", number=len(tests) - MAX_TESTS)
        steps = []
        for test in tests[:MAX_TESTS]:
            outcome = text_of(test.get("status"))
            status = outcome if outcome in ("passed", "failed") else "skipped"
            message = text_of(test.get("message")) or telling_line(text_of(test.get("trace")))
            name = f"{prefix}{text_of(test.get('name')).rpartition('::')[2] or 'unnamed'}"
            error = (message or "failed") if status == "failed" else None
            steps.append(Step.model_validate({"name": name, "status": status, "error": error}))
        return steps

    def _verifier_steps(
        self, name: str, rewards: Mapping[str, float], tests: Sequence[Step], output: str
    ) -> Iterator[Step]:
        """Yield a step for the verifier as a whole, unless the steps of its tests already explain the reward."""
        if not rewards:
            return
        passed = self._passes(rewards)
        if any(step.status == "failed" for step in tests) or (passed and tests):
            return
        step = f"{name}: {VERIFIER}" if name else VERIFIER
        error = (
            f"{_format_rewards(rewards)} although {pluralise(len(tests), 'test')} passed"
            if tests
            else telling_line(output)
        )
        yield Step(
            name=step,
            status="passed" if passed else "failed",
            error=None if passed else error or _format_rewards(rewards),
        )

    def _verdict(
        self, result: Mapping[str, object], rewards: Mapping[str, float], parts: Sequence[_Part]
    ) -> tuple[EvalStatus, list[Step]]:
        """Return the status of a trial. If no step explains a low reward, also return a failed step."""
        if rewards:
            if self._passes(rewards):
                return "passed", []
            explained = any(step.status == "failed" for part in parts for step in part.steps)
            return "failed", [] if explained else [Step(name=VERIFIER, status="failed", error=_format_rewards(rewards))]
        broken = result.get("exception_info") or any(part.error for part in parts)
        return ("error" if broken else "incomplete"), []

    def _passes(self, rewards: Mapping[str, float]) -> bool:
        """Return whether the deciding rewards reach the threshold.

        If there is a reward named `reward`, it alone decides. Otherwise, all rewards must reach the threshold.
        """
        # Harbor does not define which reward decides if none is named `reward`.
        deciding = [rewards["reward"]] if "reward" in rewards else list(rewards.values())
        lowest = 1 if self._overrides.threshold is None else self._overrides.threshold
        return all(reward >= lowest for reward in deciding)

    def _trajectory(self, folder: Path, *names: str) -> AtifTrajectory | None:
        if (path := file_below(folder, *names)) is None:
            return None
        try:
            return read_trajectory(path, self._load_counted)
        except EvalscribeError:
            self._omit("a trajectory that cannot be read", str(path.relative_to(folder.parent)))
            return None

    def _document(self, role: Role, folder: Path, *names: str, path: str | None = None) -> Document | None:
        """Return a file in a folder as a document; None if the file is missing, binary or unreadable."""
        if (file := file_below(folder, *names)) is None:
            return None
        try:
            text = self._text(file)
        except EvalscribeError:
            self._omit(f"a `{names[-1]}` that cannot be read", str(file.relative_to(folder.parent)))
            return None
        # NUL means that the file is binary.
        if "\0" in text:
            return None
        return Document(role=role, path=path or "/".join(names), text=text)

    def _agent_logs(self, folder: Path, below: tuple[str, ...]) -> Iterator[Document]:
        """Yield the log files of an agent that wrote no trajectory."""
        names = [name for name in _names_in(folder.joinpath(*below, "agent")) if name.endswith(_LOGS)]
        for name in names[:MAX_FILES]:
            if document := self._document("log", folder, *below, "agent", name):
                yield document

    def _artifacts(self, folder: Path) -> Iterator[Document]:
        """Yield the text files that Harbor collected after the agent's work."""
        root = folder / "artifacts"
        for names in _files_below(root)[:MAX_FILES]:
            if names == ("manifest.json",):
                continue
            if (root.joinpath(*names)).stat().st_size > MAX_FILE_BYTES:
                self._omit(f"an artifact of more than {MAX_FILE_BYTES // 1024} kB", folder.name)
            elif document := self._document("output", root, *names):
                yield document

    def _missing(self, task: _Task | None, trial: _Trial, parts: Sequence[_Part]) -> Iterator[str]:
        if not any(part.trajectory for part in parts):
            yield "the agent wrote no trajectory"
        if self._overrides.tasks and task is None:
            yield f"{self._overrides.tasks.name} has no such task"
        elif task and task.checksum and trial.checksum and task.checksum != trial.checksum:
            yield "instruction, tests and solution are of another version of the task than the one that was run"

    def _task(self, name: str) -> _Task | None:
        """Return the documents of a task from the folder that the option `tasks` names; None if there is no such task.

        Each task is read only once.
        """
        root = self._overrides.tasks
        if root is None or not name:
            return None
        if self._task_folders is None:
            self._task_folders = task_folders(root)
        if name not in self._tasks:
            folder = self._task_folders.get(name)
            self._tasks[name] = self._task_in(folder) if folder else None
        return self._tasks[name]

    def _task_in(self, folder: Path) -> _Task:
        parts = [((), "")] + [
            (("steps", step.name), f"{step.name}/") for step in folders_in(folder / "steps", MAX_FILES)
        ]
        documents = []
        for below, prefix in parts:
            documents += [self._document("task", folder, *below, "instruction.md", path=f"{prefix}instruction.md")]
            for role, part in (("expected", "solution"), ("grader", "tests")):
                for names in _files_below(folder.joinpath(*below, part))[:MAX_FILES]:
                    path = "/".join((*below, part, *names))
                    documents += [self._document(cast(Role, role), folder, *below, part, *names, path=path)]
        return _Task(tuple(document for document in documents if document), task_checksum(folder))

    def _reference_answers(self) -> dict[str, tuple[GradedAnswer, ...]]:
        """Return the graded reference answers and empty answers, keyed by the checksum of the task."""
        if self._answers is None:
            graded: dict[tuple[str, AnswerKind], _GradedTrials] = defaultdict(_GradedTrials)
            for folder, is_named in self._reference_folders():
                job = self._job(folder)
                for trial in self._trials(job):
                    self._grade_answer(trial, is_named, graded)
            answers_by_checksum: dict[str, list[GradedAnswer]] = defaultdict(list)
            for (checksum, kind), trials in sorted(graded.items(), key=lambda item: item[0][1] != "reference answer"):
                answers_by_checksum[checksum].append(_answer(kind, trials))
            self._answers = {checksum: tuple(answers) for checksum, answers in answers_by_checksum.items()}
        return self._answers

    def _reference_folders(self) -> Iterator[tuple[Path, bool]]:
        """Yield the folders of jobs that might contain reference answers or empty answers.

        The second value of each pair is True if the user named the job with the option `reference_run`.
        """
        reference_run = self._overrides.reference_run
        if reference_run is not None:
            yield from (
                (folder, True)
                for folder in ([reference_run] if _is_job(reference_run) else _folders(reference_run))
                if _is_job(folder)
            )
        if _is_trial(self._path):
            beside = self._path.parent.parent
        else:
            beside = self._path.parent if _is_job(self._path) else self._path
        for folder in _folders(beside):
            if not _is_job(folder):
                continue
            # `config.json` does not contain default values, and `oracle` is the default agent.
            agents = dicts(FolderStart(folder).object_in("config.json").get("agents")) or [{"name": "oracle"}]
            if any(text_of(agent.get("name")) in REFERENCE_AGENTS for agent in agents):
                yield folder, False

    def _grade_answer(
        self, trial: _Trial, is_named: bool, graded: dict[tuple[str, AnswerKind], "_GradedTrials"]
    ) -> None:
        result = self._read_result(trial.folder)
        agent = text_of(object_of(result.get("agent_info")).get("name"))
        kind = REFERENCE_AGENTS.get(agent, "reference answer" if is_named else None)
        rewards = _rewards(result.get("verifier_result"))
        if kind is None or not rewards or not trial.checksum:
            return
        parts = list(self._parts(trial.folder, result))
        status, verdict_steps = self._verdict(result, rewards, parts)
        steps = [step for part in parts for step in part.steps] + verdict_steps
        output = next((part.logs[0].text for part in parts if part.logs), "")
        failed_at = () if status == "passed" else failed_parts(steps)
        graded[trial.checksum, kind].add(
            f"{agent}, job {trial.job.folder.name}",
            GradedTrial(name=trial.folder.name, failed_at=failed_at, output=output),
        )


def _trial_in(folder: Path, job: _Job) -> _Trial:
    start = FolderStart(folder).top_of("result.json")
    return _Trial(folder, job, iso_time(start.get("started_at")) or "", text_of(start.get("task_checksum")))


def _passed(part: _Part) -> bool:
    """Return True unless a step of this part of the trial failed."""
    return all(step.status != "failed" for step in part.steps)


def _answer(kind: AnswerKind, trials: "_GradedTrials") -> GradedAnswer:
    sources = list(trials.sources)
    return GradedAnswer(
        kind=kind,
        source=sources[0] if len(sources) == 1 else f"{sources[0]} and {len(sources) - 1} more",
        trials=tuple(trials.examples),
        passed=trials.passed,
        total=len(trials.names),
    )


class _GradedTrials:
    """Counts the trials of a reference answer or an empty answer, and keeps the output of a few trials.

    The output of a failed trial is kept in preference to the output of a passed trial.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.sources: dict[str, None] = {}
        self.passed = 0
        self.examples: list[GradedTrial] = []

    def add(self, source: str, trial: GradedTrial) -> None:
        # A job that the user named with `reference_run` can also be in the folder that is searched.
        if trial.name in self.names:
            return
        self.names.add(trial.name)
        self.sources[source] = None
        self.passed += not trial.failed_at
        self.examples = sorted([*self.examples, trial], key=lambda example: not example.failed_at)[:MAX_TRIALS]


def _run(job: _Job, result: Mapping[str, object], config: Mapping[str, object]) -> SourceRun:
    info, agent = object_of(result.get("agent_info")), object_of(config.get("agent"))
    name = text_of(info.get("name")) or text_of(agent.get("name"))
    model = object_of(info.get("model_info"))
    provider, model_name = (
        text_of(model.get("provider")),
        text_of(model.get("name")) or text_of(agent.get("model_name")),
    )
    dataset = text_of(result.get("source")) or text_of(object_of(config.get("task")).get("source")) or "adhoc"
    if not model_name and name in REFERENCE_AGENTS:
        # The agents `oracle` and `nop` get experiments of their own. Otherwise they would count among the models that
        # fail in the same way.
        provider, model_name, dataset = NAME, name, f"{dataset}-{name}"
    key = "__".join((job.folder.name, text_of(agent.get("name")) or name, text_of(agent.get("model_name")), dataset))
    job_id = job.id or text_of(config.get("job_id"))
    return SourceRun(
        key=key,
        id=job_id or None,
        provider=provider or None,
        model=model_name or None,
        experiment=dataset,
        status="completed" if job.finished else "unknown",
        status_reason=None if job.finished else "the job was interrupted, or is still running",
    )


def _rewards(verifier_result: object) -> dict[str, float]:
    rewards = object_of(object_of(verifier_result).get("rewards"))
    return {name: number for name, value in rewards.items() if (number := score_number(value)) is not None}


def _format_rewards(rewards: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in rewards.items())


def _scores(rewards: Mapping[str, float], parts: Sequence[_Part]) -> Iterator[tuple[str, float]]:
    """Yield the scores of a trial: first the deciding reward, then its other rewards, then the rewards of its steps."""
    yield from sorted(rewards.items(), key=lambda item: item[0] != "reward")
    for part in parts:
        yield from ((f"{part.name} {name}", value) for name, value in part.rewards.items() if part.name)


def _ended_early(name: str, exception: Mapping[str, object]) -> Iterator[Step]:
    kind = text_of(exception.get("exception_type"))
    if kind:
        step = "limit" if kind in LIMITS else "agent"
        yield Step(name=f"{name}: {step}" if name else step, status="failed", error=_one_line(exception))


def _one_line(exception: Mapping[str, object]) -> str:
    """Return the type and message of an exception on one line.

    Example: `AgentTimeoutError: Agent execution timed out after 8.0 seconds`.
    """
    kind, message = text_of(exception.get("exception_type")), text_of(exception.get("exception_message"))
    return f"{kind}: {' '.join(message.split())[:300]}" if message else kind or "an exception without a name"


def _unjudged(result: Mapping[str, object], error: str | None) -> str:
    if error:
        return error
    if exception := object_of(result.get("exception_info")):
        return _one_line(exception)
    return "the verifier was not run" if result else "the trial has no result: it was interrupted, or is still running"


def _task_name(result: Mapping[str, object], config: Mapping[str, object]) -> str:
    return text_of(result.get("task_name")) or _task_folder(result, config) or "unnamed"


def _task_folder(result: Mapping[str, object], config: Mapping[str, object]) -> str:
    """Return the name of the task's folder: the last part of the task's path.

    If the task has no path, the last part of its name is used.
    """
    task = object_of(config.get("task"))
    paths = (
        object_of(result.get("task_id")).get("path"),
        task.get("path"),
        result.get("task_name"),
        task.get("name"),
    )
    return next((text.rstrip("/").rpartition("/")[2] for path in paths if (text := text_of(path))), "")


def _usage(result: Mapping[str, object], trajectories: Sequence[AtifTrajectory]) -> dict[str, object]:
    """Return the tokens and the cost of the agent, summed over all steps of the trial."""
    agent_results = [
        object_of(step_result.get("agent_result"))
        # In a trial with several steps, only the steps record the agent's figures.
        for step_result in (dicts(result.get("step_results")) or [dict(result)])
    ]
    fields = {
        "input_tokens": ("n_input_tokens", "total_prompt_tokens"),
        "output_tokens": ("n_output_tokens", "total_completion_tokens"),
        "cost_usd": ("cost_usd", "total_cost_usd"),
    }
    used: dict[str, object] = {}
    for name, (result_field, trajectory_field) in fields.items():
        numbers = [figure(agent_result.get(result_field)) for agent_result in agent_results]
        if not any(number is not None for number in numbers):
            numbers = [figure(trajectory.metrics.get(trajectory_field)) for trajectory in trajectories]
        figures = [number for number in numbers if number is not None]
        used[name] = sum(figures) if figures else None
    return used


def _metadata(
    result: Mapping[str, object],
    config: Mapping[str, object],
    trajectories: Sequence[AtifTrajectory],
    analysis: Mapping[str, object],
) -> dict[str, object]:
    names = ("trial_name", "task_id", "source", "agent_info", "verifier_environment_mode")
    phases = ("environment_setup", "agent_setup", "agent_execution", "verifier")
    timings = {name: object_of(result.get(name)) for name in phases}
    seconds = {
        name: seconds_between(timing.get("started_at"), timing.get("finished_at")) for name, timing in timings.items()
    }
    exception = object_of(result.get("exception_info"))
    metadata: dict[str, object] = {
        **{name: result.get(name) for name in names},
        "agent_settings": object_of(config.get("agent")).get("kwargs"),
        "source_trial": config.get("source_trial"),
        "model_usage": object_of(result.get("agent_result")).get("model_usage"),
        "seconds": {name: value for name, value in seconds.items() if value is not None},
        "exception": _one_line(exception) if exception else None,
        "trajectory": [trajectory.metadata for trajectory in trajectories if trajectory.metadata],
        "harbor_analysis": {name: analysis[name] for name in ("summary", "checks") if name in analysis},
    }
    return {name: value for name, value in metadata.items() if value not in (None, {}, [], "")}


def _instructions(parts: Sequence[_Part]) -> Iterator[Document]:
    """Yield the first user message of each part of a trial, because it contains the task's instruction."""
    for part in parts:
        if part.trajectory and (text := first_request(part.trajectory)):
            yield Document(
                role="task", path=f"{part.name}/instruction.md" if part.name else "instruction.md", text=text
            )


def _names_in(folder: Path) -> list[str]:
    try:
        return [] if folder.is_symlink() or not folder.is_dir() else sorted(FolderStart(folder).names)
    except OSError:
        # The path contains a name from a file, which can be too long.
        return []


def _files_below(folder: Path, depth: int = 4) -> list[tuple[str, ...]]:
    """Return the path of each file below a folder, split into its parts.

    Links, hidden files and Python's cache folders are left out.
    """
    files: list[tuple[str, ...]] = []
    for name in _names_in(folder):
        path = folder / name
        if name.startswith(".") or name == "__pycache__" or path.is_symlink() or len(files) > MAX_FILES:
            continue
        if path.is_dir() and depth:
            files += [(name, *below) for below in _files_below(path, depth - 1)]
        elif path.is_file():
            files.append((name,))
    return files


def task_folders(root: Path) -> dict[str, Path]:
    """Return the folders of tasks, by name.

    A task's folder can be the root itself, a folder in it, or a folder one level deeper.
    """
    # In reverse order, so that the first of several folders with the same name is used.
    return {folder.name: folder for folder in reversed([*_task_folders(root)])}


def _task_folders(root: Path) -> Iterator[Path]:
    for folder in (root, *folders_in(root, MAX_TRIALS_OF_JOB)):
        if file_below(folder, "task.toml"):
            yield folder
        elif folder != root:
            yield from (
                subfolder for subfolder in folders_in(folder, MAX_TRIALS_OF_JOB) if file_below(subfolder, "task.toml")
            )


def task_checksum(folder: Path) -> str | None:
    """Return the checksum of a task as Harbor computes it: the Dirhash Standard 0.1 with SHA-256.

    See https://github.com/andhus/dirhash/blob/master/DIRHASH_STANDARD.md. Returns None for a task that is too large, is
    nested too deeply, or contains links, pipes or devices.
    """
    remaining_bytes = MAX_TASK_BYTES

    def digest(folder: Path, levels: int = MAX_TASK_LEVELS) -> str | None:
        nonlocal remaining_bytes
        entries = []
        for path in folder.iterdir():
            if path.is_symlink() or not levels:
                raise ValueError
            if path.is_dir():
                if below := digest(path, levels - 1):
                    entries.append(f"dirhash:{below}\0name:{path.name}")
                continue
            remaining_bytes -= path.stat().st_size
            if remaining_bytes < 0:
                raise ValueError
            with open_regular(path) as file:
                content = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
            entries.append(f"data:{content.hexdigest()}\0name:{path.name}")
        return hashlib.sha256("\0\0".join(sorted(entries)).encode()).hexdigest() if entries else None

    try:
        return digest(folder)
    except (OSError, ValueError, EvalscribeError):
        return None


def _folders(path: Path) -> list[Path]:
    return folders_in(path, MAX_JOBS)


def _is_trial(folder: Path) -> bool:
    start = FolderStart(folder)
    # An interrupted trial has no file except its config.
    return start.top_of("result.json").keys() >= _TRIAL_FIELDS or start.top_of("config.json").keys() >= {
        "task",
        "trial_name",
        "trials_dir",
    }


def _is_job(folder: Path) -> bool:
    start = FolderStart(folder)
    return start.top_of("result.json").keys() >= _JOB_FIELDS or start.top_of("config.json").keys() >= {
        "job_name",
        "n_attempts",
    }


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    if start.path.name == "result.json" and start.character == "{":
        if start.top.keys() >= _JOB_FIELDS:
            return "it is the `result.json` of a job: its folder is read"
        if start.top.keys() >= _TRIAL_FIELDS:
            return "it is the `result.json` of a trial: its folder is read"
    return None


def _recognise_folder(start: FolderStart) -> str | None:
    if _is_trial(start.path):
        return "its `result.json` has `task_name`, `trial_name` and `task_checksum`: a trial"
    if _is_job(start.path):
        return "its `result.json` has `n_total_trials` and `stats`: a job"
    jobs = Counter(_is_job(folder) for folder in folders_in(start.path, 50))
    return f"{pluralise(jobs[True], 'folder')} in it are jobs" if jobs[True] else None


def _open(path: Path, overrides: RunOverrides) -> Records:
    return HarborReader(path, overrides)


FORMATS = (
    Format(
        name=NAME,
        title="Harbor jobs",
        used=frozenset(("threshold", "tasks", "reference_run")),
        open=_open,
        recognise=_recognise,
        recognise_folder=_recognise_folder,
        a_run="a combination of agent, model and dataset in a job",
        an_eval="a trial; trials of one task are numbered by their start times",
        passed="the reward named `reward`, else every reward, is at least 1, or the threshold",
        versions="0.24.0",
        names=("task_name", "trial_name", "task_checksum", "verifier_result", "exception_info"),
        fields={
            "task_name": "name of the eval; the part before a slash is its category",
            "task_checksum": "version of the eval",
            "agent_info.model_info": "model and provider of the run; `harbor/oracle` and `harbor/nop`",
            "source": "experiment of the run; runs of `oracle` and `nop` have separate experiments",
            "verifier_result.rewards": "scores; pass or fail",
            "verifier/ctrf.json": "a step for each test",
            "verifier/test-stdout.txt": "log; the reason, if no test has one",
            "exception_info": "without a reward: an error of the harness; with one: step `limit` or `agent`, and a log",
            "agent/trajectory.json": "transcripts and the task; without it, the agent's logs are used",
            "step_results": "steps, transcripts and scores, separate for each step",
            "artifacts/": "output",
            "the folder of tasks": "task, expected (solution), grader (tests)",
            "jobs of oracle and nop": "a log with the results of the reference and empty answers to this task version",
            "agent_result": "tokens and cost; `rollout_details` is left out",
            "analysis.json": "metadata",
        },
    ),
)

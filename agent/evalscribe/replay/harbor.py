"""Grade answers to Harbor's tasks again.

An answer is either the reference solution, or the files or commands of a trial.
"""

import math
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from evalscribe.errors import EvalscribeError
from evalscribe.ids import content_id
from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import Replay, ReplayedAnswer
from evalscribe.model.reference_runs import failed_parts
from evalscribe.redaction.redact import redact
from evalscribe.replay.commands import CommandSequence, recorded_commands
from evalscribe.replay.conclusions import fails_same_parts
from evalscribe.replay.dockerfile import NeedsImageError, build_folders
from evalscribe.replay.grader import ReplayJob, ReplayPlan, broken, clean_log, is_plain_path, last_words, write_files
from evalscribe.replay.sandbox import MIB, Execution, Folder, SandboxLimits, open_folders, readable_copy, scratch_prefix
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import file_below
from evalscribe.sources.harbor import (
    MAX_FILES,
    VERIFIER_FOLDER,
    VERIFIER_OUTPUT,
    HarborReader,
    task_checksum,
    task_folders,
)
from evalscribe.sources.records import dicts, figure, object_of, text_of
from evalscribe.text import one_line, visible

VERSION = "harbor@1"
"""Increase this number after a code change that can cause the same answer to be graded differently."""
SOLVE, TEST = "bash /solution/solve.sh", "bash /tests/test.sh"
LOGS, COMMANDS = "/logs", "/commands.sh"
NOT_HERE = "it does not run in the sandbox"
LEFT = ("reward.json", "reward.txt", "ctrf.json")
"""Names of the files that are read after a verifier has run."""
DEFAULT_S, MAX_S = 600.0, 3600.0
"""Default and maximum number of seconds that an answer or a verifier can run."""
DEFAULT_MB, MAX_MB = 2048, 16_384
# The lengths are limited, because a line of 300,000 letters in a log would otherwise take minutes.
_LACKS = (
    r"(?<!\S)\S{1,300}: (?:command )?not found",
    r"No module named \S{1,300}",
    r"Permission denied",
    r"Read-only file system",
    r"Operation not permitted",
    r"Could not resolve host|Temporary failure (?:in name resolution|resolving)|Name or service not known",
    r"Network is unreachable",
    r"Cannot allocate memory|MemoryError|Resource temporarily unavailable|File too large|No space left on device",
)
_NO_FILE = r"(?<![^\s:'\"])[^\s:'\"]{1,300}['\"]?: No such file or directory|No such file or directory: \S{1,300}"
_MISSING = re.compile("|".join(_LACKS))
_FILES = re.compile("|".join((*_LACKS, _NO_FILE)))


class _Task(NamedTuple):
    """A Harbor task that can be run without building its image."""

    folder: Path
    """Copy of the task's folder."""
    checksum: str
    folders: tuple[Folder, ...]
    """Folders that the task's image adds to the system, such as `/app`."""
    start_in: str
    environment: Mapping[str, str]
    config: Mapping[str, object]

    def limits(self, part: str) -> SandboxLimits:
        """Return the limits for a command of the task. `part` is `agent` or `verifier`."""
        seconds = min(figure(self._table(part).get("timeout_sec")) or DEFAULT_S, MAX_S)
        memory = min(figure(self._table("environment").get("memory_mb")) or DEFAULT_MB, MAX_MB)
        return SandboxLimits(
            wall_s=seconds, cpu_s=math.ceil(seconds) + 1, processes=256, memory_bytes=max(64, int(memory)) * MIB
        )

    def variables(self, part: str) -> dict[str, str]:
        """Return the environment variables for a command of the task.

        `part` is `solution`, `verifier`, or empty for the commands of a trial.
        """
        variables = {**object_of(self._table("environment").get("env")), **object_of(self._table(part).get("env"))}
        return {**self.environment, **{name: str(value) for name, value in variables.items()}}

    def _table(self, name: str) -> Mapping[str, object]:
        return object_of(self.config.get(name))


class HarborGrader:
    """Runs `solution/solve.sh` or a stored answer, and then `tests/test.sh`.

    Both scripts find the files that the task's Dockerfile copies.
    """

    by_chance = True

    def __init__(self, tasks: Path, threshold: float | None, opened: ExitStack) -> None:
        """Store the arguments; nothing is read yet.

        Args:
            tasks: Folder of the tasks.
            threshold: Minimum reward with which an answer passes. None means the default, 1.
            opened: Stack to which the removal of this grader's temporary folders is added.
        """
        self._tasks = tasks
        self._overrides = RunOverrides(threshold=threshold)
        self._opened = opened
        self._folders: dict[str, Path] | None = None
        self._prepared_tasks: dict[Path, _Task | str] = {}

    def plan(self, evidence: Evidence) -> ReplayPlan:
        task = self._task(evidence)
        if isinstance(task, str):
            return ReplayPlan(note=task)
        jobs = []
        if file_below(task.folder, "solution", "solve.sh"):
            jobs.append(self._job("reference", task))
        output = _output(evidence, task.start_in)
        note = output if isinstance(output, str) else ""
        if not isinstance(output, str):
            jobs.append(self._job("output", task, list(output.content), _printed_text(evidence)))
        same = content_id(task.checksum) == evidence.version if evidence.version else None
        return ReplayPlan(tuple(jobs), same_grader=same, note=note)

    def _job(self, answer: ReplayedAnswer, task: _Task, *content: object) -> ReplayJob:
        return ReplayJob(answer, content_id([VERSION, task.checksum, self._overrides.threshold, answer, *content]))

    def _task(self, evidence: Evidence) -> _Task | str:
        """Return the task of an eval, or the reason why the task cannot be run."""
        folder = self._folder(evidence)
        if folder is None:
            return f"{self._tasks.name} has no such task"
        if folder not in self._prepared_tasks:
            try:
                self._prepared_tasks[folder] = self._prepared(folder)
            except NeedsImageError as error:
                self._prepared_tasks[folder] = f"{NOT_HERE}, because {error}"
        return self._prepared_tasks[folder]

    def _folder(self, evidence: Evidence) -> Path | None:
        if self._folders is None:
            self._folders = task_folders(self._tasks)
        folder = self._folders.get(evidence.eval.name)
        if folder is not None or evidence.version is None:
            return folder
        # The name of the folder might have changed since the run.
        by_version = (
            task_folder
            for task_folder in self._folders.values()
            if content_id(task_checksum(task_folder)) == evidence.version
        )
        return next(by_version, None)

    def _prepared(self, folder: Path) -> _Task:
        with ExitStack() as opened:
            try:
                copy = opened.enter_context(readable_copy(folder, hidden=True))
            except (OSError, EvalscribeError) as error:
                raise NeedsImageError(f"its task cannot be copied: {one_line(str(error))}") from None
            if (checksum := task_checksum(copy)) is None:
                raise NeedsImageError("its task folder contains symbolic links or is too large")
            try:
                config = tomllib.loads((copy / "task.toml").read_text("utf-8"))
            except (OSError, ValueError, RecursionError):
                raise NeedsImageError("its task.toml cannot be read") from None
            _check(copy, config)
            tree = Path(opened.enter_context(TemporaryDirectory(prefix=scratch_prefix())))
            folders, start_in, environment = build_folders(copy / "environment", tree)
            # The folders are needed until the grader is closed. If the task is refused, they are removed at once.
            self._opened.enter_context(opened.pop_all())
        return _Task(copy, checksum, folders, start_in, environment, config)

    async def run(self, evidence: Evidence, job: ReplayJob, attempt: int) -> Replay:  # noqa: ARG002
        task = self._task(evidence)
        assert isinstance(task, _Task), "`plan` returned a job for a task that cannot be run"
        with ExitStack() as stack:
            logs = _folder(stack)
            for name in ("agent", "artifacts", VERIFIER_FOLDER):
                (logs / name).mkdir()
            own_logs = Folder(logs, LOGS, writable=True)
            output = _output(evidence, task.start_in) if job.answer == "output" else None
            assert not isinstance(output, str), "`plan` returned a job for an output that cannot be run"
            if output is None:
                answer = Replay(answer=job.answer, passed=False, command=SOLVE)
                folders, input_folder = task.folders, Folder(task.folder / "solution", "/solution")
            else:
                answer = Replay(answer=job.answer, passed=False, command=output.command, note=output.note)
                script = _folder(stack) / "commands.sh"
                script.write_text(output.commands.script, "utf-8")
                folders, input_folder = (
                    output.added(task.folders, _folder(stack)),
                    Folder(script, COMMANDS, writable=True),
                )
            # The verifier must see what the answer left, as in Harbor, where both run in one container.
            async with open_folders(folders) as shared:
                if answer.command:
                    done = await shared.execute(
                        shlex.split(answer.command),
                        [own_logs, input_folder],
                        start_in=task.start_in,
                        environment=task.variables("" if output else "solution"),
                        limits=task.limits("agent"),
                    )
                    if reason := _failed_to_answer(done, _printed_text(evidence) if output else None):
                        return answer.model_copy(update={"broken": reason, "log": clean_log(done.output)})
                # The verifier starts with an empty /logs, so an answer cannot write its own reward there.
                done = await shared.execute(
                    shlex.split(TEST),
                    [own_logs, Folder(task.folder / "tests", "/tests")],
                    start_in=task.start_in,
                    environment=task.variables("verifier"),
                    limits=task.limits("verifier"),
                    collect=[f"{LOGS}/{VERIFIER_FOLDER}/{name}" for name in LEFT],
                )
            return self._graded(answer, done, _folder(stack), cut_off=output is not None and output.cut_off)

    def _graded(self, answer: Replay, done: Execution, folder: Path, *, cut_off: bool) -> Replay:
        """Add the result of the verifier to a replay.

        Args:
            answer: The replay before grading.
            done: The verifier's execution.
            folder: Empty folder to which the verifier's files are written.
            cut_off: True if a limit ended the agent's work in the run. If the replay then passes, it is inconclusive.
        """
        (folder / VERIFIER_FOLDER).mkdir()
        for path, text in {VERIFIER_OUTPUT: done.output, **done.files}.items():
            (folder / VERIFIER_FOLDER / Path(path).name).write_text(text, "utf-8")
        grading = HarborReader(folder, self._overrides).grading()
        # If the verifier wrote a reward, ignore its exit code, as Harbor does.
        reason = broken(done) if grading is None or done.ended != "exited" else ""
        if not reason and grading is None:
            reason = "left without a reward by the verifier"
        if not reason and grading and grading.passed and cut_off:
            reason = "graded as passed, but a limit had ended the agent's work, which a replay cannot repeat"
        failed = tuple(redact(visible(part)) for part in failed_parts(grading.steps)) if grading else ()
        errors = (step.error for step in grading.steps if step.status == "failed" and step.error) if grading else ()
        command = f"{answer.command} && {TEST}" if answer.command else TEST
        rewards = redact(visible(one_line(grading.rewards))) if grading else ""
        return answer.model_copy(
            update={
                "passed": grading is not None and grading.passed and not reason,
                "broken": reason,
                "tests": failed,
                "error": next((redact(visible(one_line(error))) for error in errors), None),
                "exit_code": None if grading else done.exit_code,
                "note": "; ".join(filter(None, (answer.note, rewards))),
                "command": command,
                "log": clean_log(done.output),
            }
        )

    def compare(self, evidence: Evidence, replay: Replay) -> Replay:
        if reason := _missing_here(f"{replay.log}\n{replay.error}", _printed_text(evidence)):
            return replay.model_copy(update={"broken": reason})
        return replay.model_copy(update={"alike": fails_same_parts(evidence, replay.tests, replay.log)})


@contextmanager
def open_harbor(tasks: Path, threshold: float | None) -> Iterator[HarborGrader]:
    """Yield a grader for Harbor's tasks. The arguments have the same meaning as for `HarborGrader`."""
    with ExitStack() as opened:
        yield HarborGrader(tasks, threshold, opened)


def _folder(opened: ExitStack) -> Path:
    return Path(opened.enter_context(TemporaryDirectory(prefix=scratch_prefix())))


def _check(folder: Path, config: Mapping[str, object]) -> None:
    """Raise `NeedsImageError` if a task needs more than files and a shell."""
    environment, verifier = object_of(config.get("environment")), object_of(config.get("verifier"))
    problem = ""
    if dicts(config.get("steps")):
        problem = "its task has several steps"
    elif text_of(verifier.get("environment_mode")) == "separate" or verifier.get("environment"):
        problem = "its verifier has an environment of its own"
    elif environment.get("mcp_servers") or environment.get("gpus"):
        problem = "its environment has more than files"
    elif not file_below(folder, "tests", "test.sh"):
        problem = "its task has no tests/test.sh"
    elif any((folder / "environment").glob("*compose*.y*ml")):
        problem = "its environment has several services"
    for table in (environment, object_of(config.get("solution")), verifier):
        for name, value in object_of(table.get("env")).items():
            # Harbor would replace `${NAME}` by a variable of the user's environment, which can be a key.
            if "${" in str(value) or "\0" in str(value) or not re.fullmatch(r"[A-Za-z_]\w*", name):
                problem = "its task needs a variable of your environment"
    if problem:
        raise NeedsImageError(problem)


class _Output(NamedTuple):
    """The files that were collected after a trial or, if they cannot be used, the commands of the trial."""

    files: Mapping[str, str]
    """Texts of the collected files, keyed by their absolute paths in the container."""
    commands: CommandSequence

    @property
    def content(self) -> Iterator[object]:
        """Yield everything that determines the result of grading this output."""
        yield dict(self.files)
        yield list(self.commands.texts)
        yield self.cut_off

    @property
    def cut_off(self) -> bool:
        return not self.files and self.commands.cut_off

    @property
    def command(self) -> str:
        return "" if self.files else f"bash {COMMANDS}"

    @property
    def note(self) -> str:
        if self.files:
            return "the collected artifacts"
        last = ", without the last one, which had not ended" if self.commands.unfinished else ""
        return f"the commands of its trajectory, run again{last}"

    def added(self, folders: tuple[Folder, ...], to: Path) -> tuple[Folder, ...]:
        """Copy the folders to places below `to`, add the collected files to the copies, and return the copies.

        If there are no collected files, return the folders themselves.
        """
        if not self.files:
            return folders
        copied = []
        for folder in folders:
            target = to / folder.inside.strip("/").replace("/", "-")
            assert folder.source is not None
            shutil.copytree(folder.source, target, symlinks=True)
            below = {
                path.removeprefix(f"{folder.inside}/"): text
                for path, text in self.files.items()
                if path.startswith(f"{folder.inside}/")
            }
            write_files(target, below)
            for path, text in below.items():
                if text.startswith("#!"):  # the mode of artifacts is not stored
                    with suppress(OSError):
                        (target / path).chmod(0o755)
            copied.append(folder._replace(source=target))
        return tuple(copied)


def _output(evidence: Evidence, start_in: str) -> _Output | str:
    """Return the output of a trial in a form that can be graded again, or the reason why that is not possible.

    Args:
        evidence: The trial.
        start_in: Working directory of the task. Only files that were collected from this directory are used.
    """
    below = f"{start_in.strip('/')}/"
    collected = {document.path: document.text for document in evidence.of("output") if is_plain_path(document.path)}
    inputs = {f"/{path}": text for path, text in collected.items() if path.startswith(below)}
    # A job stores the files that an agent left only if they were collected as artifacts. At `MAX_FILES`, some of them
    # may not have been read.
    if inputs and len(collected) < MAX_FILES and not any("[redacted:" in text for text in inputs.values()):
        return _Output(inputs, CommandSequence())
    commands = recorded_commands(evidence)
    return commands if isinstance(commands, str) else _Output({}, commands)


def _printed_text(evidence: Evidence) -> str:
    """Return everything that a trial printed: its errors, logs and transcripts."""
    errors = (step.error for step in evidence.steps if step.error)
    return "\n".join((*errors, *(document.text for document in evidence.of("log", "transcript"))))


def _failed_to_answer(done: Execution, run_output: str | None) -> str:
    """Return the reason why running an answer again did not reproduce the run's answer.

    Returns an empty text if no such reason is known.

    Args:
        done: The execution that produced the answer.
        run_output: Everything that the trial printed in the run; None for the reference answer.
    """
    if reason := broken(done):
        return reason
    if run_output is not None:
        return _missing_here(clean_log(done.output), run_output)
    # Harbor accepts this exit code. Here, the answer may have stopped because something from the image is missing.
    if done.exit_code != 0:
        last = last_words(done.output)
        return f"left unfinished: solution/solve.sh ends with exit code {done.exit_code}{f': {last}' if last else ''}"
    # A message about a missing file can be ordinary output of the solution, and there is no output of the run to
    # compare with.
    return _missing_here(clean_log(done.output), "", files=False)


def _missing_here(printed: str, run_output: str, *, files: bool = True) -> str:
    """Return a message about what a replay lacked, if it failed because something from the run was not available.

    Returns an empty text for any other failure.

    Args:
        printed: The replay's output.
        run_output: The output in the run. Errors that also occurred in the run are ignored, because the answer itself
            caused them.
        files: True if messages about missing files count as well.
    """
    for match in (_FILES if files else _MISSING).finditer(printed):
        if match[0] not in run_output:
            return f"stopped because something that the run had is missing: {visible(one_line(match[0]))[:80]}"
    return ""

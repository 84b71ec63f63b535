"""Grade answers again.

This module defines the protocol of graders, and the grader that runs a user's command in a sandbox.
"""

import hashlib
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import content_id
from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import Replay, ReplayedAnswer
from evalscribe.redaction.redact import redact
from evalscribe.replay.conclusions import fails_the_same, failure_signature, log_signature
from evalscribe.replay.sandbox import Execution, Folder, SandboxLimits, execute, readable_copy, scratch_prefix
from evalscribe.settings.config import ReplayTable
from evalscribe.text import one_line, visible

MAX_LOG = 64 * 1024
"""Maximum number of characters of a replay's log that are stored.

The end of the log is stored, because test runners report failures there.
"""
NEVER_STARTED = "not started"
"""First words of `Replay.broken` if the replay's command could not be started."""
SUITE, ANSWER = "/suite", "/answer"
"""Paths of the suite's folder and of the answer's folder inside a sandbox."""


class ReplayJob(NamedTuple):
    """An answer that can be graded again."""

    answer: ReplayedAnswer
    key: str
    """Content id of what determines the result, apart from chance: the grader, the answer and the command."""
    change: str | None = None
    """The change to the grader that this job tries, as in `Replay.change`; None if the grader is unchanged."""
    doubt: str = ""
    """Reason why a pass with the change would prove nothing, such as `made for another request`.

    Empty if there is no such reason.
    """


class ReplayPlan(NamedTuple):
    """The jobs by which one failure can be replayed."""

    jobs: tuple[ReplayJob, ...] = ()
    same_grader: bool | None = None
    """True if the grader is the same as in the run; None if the run has no record of its grader."""
    note: str = ""
    """Reason why there are no jobs, or why there is no job for one of the answers."""


class Grader(Protocol):
    """Grades answers with the graders of one suite.

    The methods raise `EvalscribeError` only for problems that affect every eval.
    """

    by_chance: bool
    """True if the same answer can get different results. Answers are then graded several times."""

    def plan(self, evidence: Evidence) -> ReplayPlan:
        """Return the jobs by which a failure can be replayed."""

    async def run(self, evidence: Evidence, job: ReplayJob, attempt: int) -> Replay:
        """Grade one answer once.

        Args:
            evidence: The stored failure, with its output.
            job: A job from the plan for this failure.
            attempt: Number of this attempt, starting at 1. An answer can be graded several times.
        """

    def compare(self, evidence: Evidence, replay: Replay) -> Replay:
        """Add to a failed replay its error, and whether it failed in the same way as the stored failure."""


class CommandGrader:
    """Runs the user's command that grades an answer in a folder.

    The command is configured in `[replay]` of evalscribe.toml.
    """

    by_chance = True

    def __init__(self, table: ReplayTable, suite: Path, copy: Path) -> None:
        """Read the suite.

        Args:
            table: The command, and the paths of reference answers and graders in the suite.
            suite: Folder with the evals.
            copy: Copy of the suite that a sandbox can read.
        """
        self._table = table
        self.suite = suite
        self._copy = copy
        self._digest = content_id([table.model_dump(), sorted(_digests(copy))])
        self._limits = SandboxLimits(wall_s=table.time_limit, cpu_s=round(table.time_limit) + 1)

    def over(self, copy: Path) -> "CommandGrader":
        """Return the same grader for another copy of the suite, for example a copy with a change."""
        return CommandGrader(self._table, self.suite, copy)

    def plan(self, evidence: Evidence) -> ReplayPlan:
        task = evidence.eval.task
        if not is_plain_path(task):
            return ReplayPlan(note=f"its name is not a path in the suite: {visible(task)[:80]}")
        grader = self._files(self._table.grader, task)
        if not grader:
            return ReplayPlan(note=f"the suite has no {self._place(self._table.grader, task)}")
        # If a file of the grader's command were missing, every answer would seem to fail.
        for word in self._command(task, 1):
            path = PurePosixPath(word)
            if path.is_relative_to(SUITE) and not (self._copy / path.relative_to(SUITE)).exists():
                return ReplayPlan(note=f"the suite has no {path.relative_to(SUITE)}, which `[replay] command` names")
        jobs, note = [], ""
        if reference := self._files(self._table.reference, task):
            jobs.append(self._job("reference", task, reference))
        else:
            note = f"the suite has no {self._place(self._table.reference, task)}"
        if output := self._output(evidence):
            jobs.append(self._job("output", task, output))
        elif jobs:
            note = "the run stored no file of it"
        stored = {document.path: document.text for document in evidence.of("grader")}
        return ReplayPlan(
            tuple(jobs),
            same_grader=all(_same(text, grader.get(path)) for path, text in stored.items()) if stored else None,
            note=note if jobs else f"{note}, and no file of its output is stored",
        )

    def _job(self, answer: ReplayedAnswer, task: str, files: Mapping[str, str]) -> ReplayJob:
        # The key depends on all files of the suite, because evals can share settings and helper functions.
        return ReplayJob(answer, content_id([self._digest, task, files]))

    async def run(self, evidence: Evidence, job: ReplayJob, attempt: int) -> Replay:
        task = evidence.eval.task
        with TemporaryDirectory(prefix=scratch_prefix()) as folder:
            answer = Path(folder)
            if job.answer == "output":
                write_files(answer, self._output(evidence))
            else:
                answer = self._copy / self._place(self._table.reference, task)
            folders = [Folder(self._copy, SUITE), Folder(answer, ANSWER, writable=True), *interpreter()]
            command = self._command(task, attempt)
            done = await execute(command, folders, start_in=ANSWER, limits=self._limits)
        return Replay(
            answer=job.answer,
            passed=done.exit_code == 0,
            exit_code=done.exit_code,
            # The path of the interpreter is different on every machine.
            command=shlex.join(command).replace(sys.executable, "python"),
            log=clean_log(done.output),
            broken=broken(done),
        )

    def compare(self, evidence: Evidence, replay: Replay) -> Replay:
        return compare_logs(evidence, replay)

    def _command(self, task: str, attempt: int) -> list[str]:
        values = {
            "eval": task,
            "suite": SUITE,
            "answer": ANSWER,
            "reference": f"{SUITE}/{self._place(self._table.reference, task)}",
            "python": sys.executable,
            "attempt": str(attempt),
        }
        return [fill_fields(word, values) for word in shlex.split(self._table.command)]

    def _place(self, pattern: str, task: str) -> PurePosixPath:
        return PurePosixPath(fill_fields(pattern, {"eval": task}))

    def _files(self, pattern: str, task: str) -> dict[str, str]:
        """Return the texts of the files in a folder of the suite, keyed by their path relative to the folder.

        Returns an empty mapping if the folder does not exist.
        """
        folder = self._copy / self._place(pattern, task)
        # A link in the suite could show files from outside.
        if folder.is_symlink() or not folder.resolve().is_relative_to(self._copy.resolve()) or not folder.is_dir():
            return {}
        files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8", "replace") for path in files}

    def _output(self, evidence: Evidence) -> dict[str, str]:
        return {document.path: document.text for document in evidence.of("output") if is_plain_path(document.path)}


@contextmanager
def open_command(table: ReplayTable, root: Path) -> Iterator[CommandGrader]:
    """Yield the grader that the table `[replay]` configures.

    Args:
        table: The table.
        root: Folder to which the table's paths are relative.

    Raises:
        NotFoundError: The suite does not exist.
        UsageError: The command cannot be parsed, the table has unknown fields in braces, or the suite is outside
            `root`.
    """
    suite = (root / table.suite).resolve()
    if not suite.is_relative_to(root.resolve()):
        # Somebody else might have written the settings file, and the output of the command is stored in the report. The
        # command must therefore not be able to read files outside of `root`.
        raise UsageError(f"the folder {table.suite} of `[replay] suite` is outside {root}")
    if not suite.is_dir():
        raise NotFoundError(f"the folder {table.suite} of `[replay] suite` does not exist in {root}")
    try:
        words = shlex.split(table.command)
    except ValueError as error:
        raise UsageError(f"`[replay] command` cannot be read: {error}") from None
    for word in (*words, table.reference, table.grader):
        fill_fields(word, dict.fromkeys(FIELDS, ""))
    with readable_copy(suite) as copy:
        yield CommandGrader(table, suite, copy)


FIELDS = ("eval", "suite", "answer", "reference", "python", "attempt")


def compare_logs(evidence: Evidence, replay: Replay) -> Replay:
    """Add to a failed replay the error in its log, and whether it failed in the same way as the stored failure."""
    replayed = log_signature(evidence, replay.log)
    same_failure = fails_the_same(failure_signature(evidence), replayed)
    return replay.model_copy(
        update={"alike": same_failure, "error": replayed.error, "tests": tuple(sorted(replayed.tests))}
    )


def interpreter() -> list[Folder]:
    """Return the folders of the Python interpreter that runs evalscribe, including those of its packages."""
    prefixes = dict.fromkeys(str(Path(prefix).resolve()) for prefix in (sys.base_prefix, sys.prefix))
    prefixes[sys.prefix] = None
    # `/usr` is mounted in every sandbox.
    return [Folder(Path(prefix), prefix) for prefix in prefixes if prefix not in ("/", "/usr")]


def clean_log(text: str) -> str:
    """Return the end of a log, without secrets and control characters."""
    return redact(visible(text[-MAX_LOG:]))


def broken(done: Execution) -> str:
    """Return the reason why an execution is inconclusive, or an empty text if it is conclusive.

    An execution is inconclusive if a limit ended it or if the command could not be started.
    """
    if done.ended != "exited":
        return f"stopped at the {done.ended}"
    # Shells use 126 and 127. If bubblewrap fails, it exits with 1, like many programs, so its message is checked.
    if done.exit_code in (126, 127) or (done.exit_code == 1 and done.output.startswith("bwrap: ")):
        return f"{NEVER_STARTED}: {last_words(done.output)}"
    return ""


def last_words(output: str) -> str:
    """Return the last 120 characters of an output, for use in a reason.

    Secrets are redacted before the output is cut.
    """
    return one_line(redact(visible(output.strip()[-MAX_LOG:])))[-120:]


def fill_fields(word: str, values: Mapping[str, str], setting: str = "[replay]") -> str:
    """Replace fields such as `{eval}` in one word of a command. Raises `UsageError` for an unknown field."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            fields = ", ".join(f"{{{name}}}" for name in values)
            raise UsageError(f"`{setting}` has {match[0]}, which is not a field; the fields are {fields}")
        return values[match[1]]

    return re.sub(r"\{([a-z_]+)\}", value, word)


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                yield path.relative_to(folder).as_posix(), hashlib.file_digest(file, "sha256").hexdigest()


def is_plain_path(path: str) -> bool:
    """Return whether an untrusted path is relative and stays inside its folder."""
    parts = path.split("/")
    return 0 < len(path) <= 1000 and "\0" not in path and all(part not in ("", ".", "..") for part in parts)


def _same(stored: str, now: str | None) -> bool:
    """Return whether a stored file equals the file in the suite.

    Files that differ only in secrets, which are redacted in the stored file, count as equal.
    """
    return now is not None and stored.replace("\r\n", "\n") in (text := now.replace("\r\n", "\n"), redact(text))


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder. The paths must fulfil `is_plain_path`. Files that cannot be written are skipped."""
    for path, text in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        except OSError:
            continue  # two paths conflict, or a name is too long

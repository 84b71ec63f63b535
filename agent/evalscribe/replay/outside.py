"""Grade answers with a command that the user supplies.

The command itself isolates the answers, for example with docker or a benchmark's harness.
"""

import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from evalscribe.errors import UsageError
from evalscribe.ids import content_id
from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import Replay
from evalscribe.replay.commands import recorded_commands
from evalscribe.replay.conclusions import fails_same_parts
from evalscribe.replay.grader import (
    ReplayJob,
    ReplayPlan,
    broken,
    clean_log,
    compare_logs,
    fill_fields,
    is_plain_path,
    write_files,
)
from evalscribe.replay.sandbox import MIB, SandboxLimits, execute_outside, scratch_prefix
from evalscribe.sources.harbor import task_checksum, task_folders
from evalscribe.text import visible

VERSION = "outside@1"
"""Increase the number after `@` whenever a code change can cause the same answer to be graded differently."""
LIMITS = SandboxLimits(wall_s=3600, memory_bytes=1024 * 1024 * MIB)
"""The limits for the command.

Time is limited; memory is in effect unlimited, because the command itself limits the processes that it isolates.
"""


_PLAIN_NAME = re.compile(r"\w[\w.@+-]*(?:/\w[\w.@+-]*)*")
"""Matches eval names without characters that are special in a shell, and without `..`."""


class CommandOutside:
    """Runs a user's command that exits with 0 if an answer passes.

    The command grades the reference answer, the stored output, or both in separate runs. The command line can
    have the fields `{task}` (the task's folder), `{eval}` (the eval's name), `{answer}` (`reference` or `output`) and
    `{output}` (a folder with the stored output). If the stored output is a trajectory, the file `commands.sh` in the
    output folder has the agent's commands. When the reference answer is graded, the output folder is empty.
    """

    by_chance = True

    def __init__(self, command: str, tasks: Path | None) -> None:
        """Check the command.

        The command must come from the user, never from a file in the working folder or from a run.

        Args:
            command: The command line; it is not run by a shell.
            tasks: Folder of the tasks; can be None if the command has no `{task}`.

        Raises:
            UsageError: The command cannot be parsed, has unknown fields, or has `{task}` although `tasks` is None.
        """
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"`replay_command` cannot be read: {error}", fields=("replay_command",)) from None
        empty = dict.fromkeys(("task", "eval", "answer", "output"), "")
        try:
            self._used = {name for name in empty for word in self._words if f"{{{name}}}" in word}
            for word in self._words:
                fill_fields(word, empty, "replay_command")
        except UsageError as error:
            raise UsageError(str(error), fields=("replay_command",)) from None
        if "task" in self._used and tasks is None:
            raise UsageError(
                "`replay_command` has {task}: also give the folder of the tasks with `tasks`",
                fields=("replay_command", "tasks"),
            )
        self._command = command
        self._folders = task_folders(tasks.resolve()) if tasks else {}

    def plan(self, evidence: Evidence) -> ReplayPlan:
        # The name comes from the run, and the command can pass it to a shell.
        if "eval" in self._used and not _PLAIN_NAME.fullmatch(evidence.eval.task):
            return ReplayPlan(note=f"its name cannot be used in a command: {visible(evidence.eval.task)[:80]}")
        task = self._folders.get(evidence.eval.name)
        if task is None and "task" in self._used:
            return ReplayPlan(note="`tasks` has no such task")
        version = task_checksum(task) if task else None
        jobs, note = [], ""
        if "answer" in self._used or "output" not in self._used:
            jobs.append(ReplayJob("reference", content_id([VERSION, self._command, evidence.eval.task, version])))
        if "output" in self._used:
            files = _output(evidence)
            note = files if isinstance(files, str) else ""
            if not isinstance(files, str):
                key = content_id([VERSION, self._command, evidence.eval.task, version, files])
                jobs.append(ReplayJob("output", key))
        same = content_id(version) == evidence.version if version and evidence.version else None
        return ReplayPlan(tuple(jobs), same, note)

    async def run(self, evidence: Evidence, job: ReplayJob, attempt: int) -> Replay:  # noqa: ARG002
        with TemporaryDirectory(prefix=scratch_prefix()) as folder:
            files = _output(evidence) if job.answer == "output" else {}
            assert not isinstance(files, str), "only an output that can be run has a job"
            write_files(Path(folder), files)
            task = self._folders.get(evidence.eval.name)
            values = {
                "task": str(task or ""),
                "eval": evidence.eval.task,
                "answer": job.answer,
                "output": folder,
            }
            done = await execute_outside([fill_fields(word, values) for word in self._words], LIMITS)
        return Replay(
            answer=job.answer,
            passed=done.exit_code == 0,
            exit_code=done.exit_code,
            command=self._command,
            log=clean_log(done.output),
            broken=broken(done),
        )

    def compare(self, evidence: Evidence, replay: Replay) -> Replay:
        compared = compare_logs(evidence, replay)
        # The graded parts are unknown here, so only the output can be compared with that of the run.
        return compared.model_copy(update={"alike": compared.alike or fails_same_parts(evidence, (), replay.log)})


def _output(evidence: Evidence) -> dict[str, str] | str:
    """Return the files of a stored output, or the reason why there is nothing to grade."""
    files = {document.path: document.text for document in evidence.of("output") if is_plain_path(document.path)}
    if not evidence.of("transcript"):
        return files or "its output is not stored"
    commands = recorded_commands(evidence)
    if isinstance(commands, str):
        return files or commands
    return {**files, "commands.sh": commands.script}

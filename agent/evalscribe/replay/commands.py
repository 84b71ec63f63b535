"""Extract the shell commands of a stored trajectory, provided that running them again repeats all the agent's work."""

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from evalscribe.model.evidence import Evidence
from evalscribe.model.reference_runs import ENDINGS
from evalscribe.model.transcript import TranscriptTurn, parse_transcript
from evalscribe.text import visible

SHELLS = frozenset(
    (
        *("bash", "sh", "shell", "terminal", "exec", "execute", "command", "cmd", "local_shell", "bash_command"),
        *("execute_bash", "execute_command", "execute_shell", "exec_command", "run", "run_bash", "run_command"),
        *("run_shell", "run_shell_command", "run_terminal_cmd", "run_in_terminal", "shell_command", "container.exec"),
    )
)
"""Names, in lower case, of tools that run a shell command."""
READERS = frozenset(
    (
        *("read", "read_file", "view", "view_file", "open_file", "ls", "list_dir", "list_directory", "list_files"),
        *("glob", "grep", "search", "search_files", "find", "think", "finish", "submit", "done", "task_complete"),
        *("mark_task_complete", "todowrite", "todo_write", "update_plan", "web_search", "websearch", "webfetch"),
    )
)
"""Names, in lower case, of tools that do not change files."""
ARGUMENTS = ("command", "cmd", "script", "commands", "code")
"""Possible names of a tool's argument for the command, in order of preference."""
FOLDERS = ("workdir", "cwd", "working_directory", "working_dir")
INTERACTIVE = ("input", "keystroke", "session", "terminal", "background", "tty", "detach")
"""Words in argument names that show interactive use.

If an argument whose name contains one of these words has a value, the call does more than run a command.
"""


MAX_COMMAND = 100_000
"""Maximum bytes of a command. Linux limits a single argument to 128 KiB."""


class CommandSequence(NamedTuple):
    """Shell commands of a trial, in the order in which they ran."""

    texts: tuple[tuple[str, str], ...] = ()
    """Pairs of a command and its working directory.

    An empty string means the working directory in which the agent started.
    """
    cut_off: bool = False
    """True if a limit or an exception ended the agent's work early."""
    unfinished: bool = False
    """True if the last command was left out because it was still running when the agent's work ended."""

    @property
    def script(self) -> str:
        """A bash script that runs each command in a shell of its own, as Harbor does."""
        lines = []
        for text, start_in in self.texts:
            place = f"cd {shlex.quote(start_in)} && " if start_in else ""
            lines.append(f"({place}exec bash -c {shlex.quote(text)}) < /dev/null\n")
        # An agent's commands can fail without consequence, so the exit code of the last one means nothing.
        return "".join([*lines, "exit 0\n"])


def recorded_commands(evidence: Evidence) -> CommandSequence | str:
    """Return the shell commands of a trial, or the reason why they cannot be run again."""
    transcripts = [parse_transcript(document.text) for document in evidence.of("transcript")]
    if not transcripts:
        return "it has neither artifacts nor a trajectory"
    cut_off = any(step.status == "failed" and step.name.endswith(ENDINGS) for step in evidence.steps)
    try:
        calls = list(_calls(transcripts[0], transcripts[1:]))
        unfinished = cut_off and transcripts[0][-1].kind == "calls" and bool(calls)
        texts = [_command(call) for call in (calls[:-1] if unfinished else calls)]
    except _NotReplayableError as error:
        return str(error)
    commands = tuple(text for text in texts if text is not None)
    if not commands:
        return "its trajectory has no shell command"
    if any(len(text.encode()) > MAX_COMMAND or "\0" in text for text, _ in commands):
        return "one of its commands is too long"
    if any("[redacted:" in text for text, _ in commands):
        return "its commands have secrets, which are not stored"
    return CommandSequence(commands, cut_off, unfinished)


class _NotReplayableError(Exception):
    """Raised if running the recorded commands again would not repeat all of the agent's work."""


def _calls(main: tuple[TranscriptTurn, ...], sub_agents: list[tuple[TranscriptTurn, ...]]) -> Iterator[TranscriptTurn]:
    """Yield the shell calls in the order in which they ran.

    The calls of a sub-agent are yielded at the point at which the main agent called the sub-agent.
    """
    main_calls = [turn for turn in main if turn.kind == "calls"]
    unknown = [turn for turn in main_calls if not _is(turn, SHELLS | READERS)]
    if len(unknown) != len(sub_agents):
        if unknown:
            raise _NotReplayableError(f"it uses the tool {visible(unknown[0].name or '')[:40]}, which is not a shell")
        raise _NotReplayableError("several agents worked at the same time")
    remaining = iter(sub_agents)
    for turn in main_calls:
        if _is(turn, SHELLS):
            yield turn
        elif not _is(turn, READERS):
            yield from _calls(next(remaining), [])


def _is(turn: TranscriptTurn, names: frozenset[str]) -> bool:
    return (turn.name or "").lower().removeprefix("functions.") in names


def _command(call: TranscriptTurn) -> tuple[str, str] | None:
    """Return the command and the working directory of a call. Returns None if the call only restarts the shell."""
    arguments: Mapping[str, object] = call.arguments
    for name, value in arguments.items():
        if value not in (False, None, "", "false") and any(part in name.lower() for part in INTERACTIVE):
            raise _NotReplayableError(f"its shell is used interactively ({visible(name)[:40]})")
    value = next((arguments[name] for name in ARGUMENTS if name in arguments), None)
    if value is None and "restart" in arguments:
        return None
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        value = shlex.join(str(word) for word in value)
    if not isinstance(value, str):
        raise _NotReplayableError("a call of its shell has no command")
    if value.rstrip().endswith("&") and not value.rstrip().endswith("&&"):
        raise _NotReplayableError("it leaves a command running in the background")
    return value, next((str(arguments[name]) for name in FOLDERS if isinstance(arguments.get(name), str)), "")

"""Read sessions of Claude Code from one file, or from a project's folder that also has the files of sub-agents."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePath, PureWindowsPath
from typing import NamedTuple

from evalscribe.errors import EvalscribeError
from evalscribe.model.evidence import Document
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.recognition import FileStart, FolderStart, Format
from evalscribe.sources.records import (
    MAX_SESSION_CHARACTERS,
    EvalReader,
    Omissions,
    SourceEval,
    SourceRun,
    dicts,
    figure,
    object_of,
    text_of,
)
from evalscribe.sources.streams import JsonLine, json_lines

NAME = "claude-code"
_CLEAR = "<command-name>/clear</command-name>"
_TYPES = ("user", "assistant", "system")
_KNOWN_TYPES = ("summary", "file-history-snapshot", "queue-operation", "progress")
"""Types of lines in a session that contain no message. Lines of these types are not counted as left out."""
_USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_AGENT = "agent-"
_Line = Mapping[str, object]


@dataclass
class _Conversation:
    """The lines of a session between two `/clear` commands.

    The first conversation begins at the start of the file. The last conversation ends at the end of the file.
    """

    lines: list[_Line] = field(default_factory=list)
    characters: int = 0

    @property
    def messages(self) -> list[object]:
        return list(_messages(self.lines))

    def first(self, name: str) -> str:
        return next((text for line in self.lines if (text := text_of(line.get(name)))), "")

    @property
    def times(self) -> list[str]:
        return [time for line in self.lines if (time := text_of(line.get("timestamp")))]

    @property
    def model(self) -> str | None:
        models = (text_of(object_of(line.get("message")).get("model")) for line in self.lines)
        # Messages that Claude Code itself adds have a model such as `<synthetic>`.
        return next((model for model in models if model and not model.startswith("<")), None)

    def tokens(self, *names: str) -> float | None:
        """Return the sum of the named token counts over all answers of the model; None if no answer has counts.

        An answer that spans several lines is counted once.
        """
        answers = {}
        for line in self.lines:
            message = object_of(line.get("message"))
            if usage := object_of(message.get("usage")):
                answers[text_of(message.get("id")) or text_of(line.get("uuid"))] = usage
        counts = [sum(figure(usage.get(name)) or 0 for name in names) for usage in answers.values()]
        return sum(counts) if counts else None


class _Index(NamedTuple):
    """Index of the files, built in the first pass."""

    works: dict[str, list[Path]]
    """Session files for each eval, by the eval's name."""
    cleared: list[Path]
    """Session files that contain several conversations."""
    sub_agents: list[tuple[str, Path]]
    """For each sub-agent, the id of the session that started it, and the sub-agent's file."""


class ClaudeCodeReader(EvalReader):
    """Reads sessions of Claude Code. Every eval has the status `incomplete`, because a session has no verdict."""

    format = NAME

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._index: _Index | None = None

    def evals(self) -> Iterator[SourceEval]:
        """Yield an eval for each piece of work, which can span several session files.

        Files are grouped before they are read, so that only one eval at a time is in memory.
        """
        files = _session_files(self._path) if self._path.is_dir() else [self._path]
        only = len(files) == 1
        if self._index is None:
            with self._uncounted():
                self._index = self._indexed(files, only=only)
        for path in self._index.cleared:
            # The first conversation is read again and counted with its piece of work.
            with self._uncounted():
                first, *later_conversations = self._conversations(path, only=only) or [_Conversation()]
            name = _name(first, path)
            for n, conversation in enumerate(later_conversations, 2):
                yield self._eval(f"{name}-{first.first('sessionId')[:8]}-{n}", [conversation], [], path.name)
        for name, paths in self._index.works.items():
            parts: list[_Conversation] = []
            for path in paths:
                parts += self._conversations(path, parts, only=only)[:1]
            parts.sort(key=lambda part: part.times[:1])
            ids = {part.first("sessionId") for part in parts} - {""}
            sub_agent_conversations: list[tuple[str, _Conversation]] = []
            for path in dict.fromkeys(path for id, path in self._index.sub_agents if id in ids):
                loaded = [*parts, *(conversation for _, conversation in sub_agent_conversations)]
                conversations = self._conversations(path, loaded, only=False)
                sub_agent_conversations += [
                    (path.stem, conversation)
                    for conversation in conversations
                    if conversation.first("sessionId") in ids
                ]
            yield self._eval(
                name, parts, [(stem, conversation.messages) for stem, conversation in sub_agent_conversations], name
            )

    @contextmanager
    def _uncounted(self) -> Iterator[None]:
        counted, self._left_out = self._left_out, Omissions()
        try:
            yield
        finally:
            self._left_out = counted

    def _indexed(self, files: Sequence[Path], *, only: bool) -> "_Index":
        """Group the session files by piece of work.

        Raises `DataError` if the source has only one session file and this file cannot be read.
        """
        index = _Index({}, [], [])
        for path in files:
            conversations = self._conversations(path, only=only)
            if conversations:
                index.works.setdefault(_name(conversations[0], path), []).append(path)
            if len(conversations) > 1:
                index.cleared.append(path)
        folder = self._path if self._path.is_dir() else self._path.parent
        for path in sorted(folder.glob(f"{_AGENT}*.jsonl")):
            if path not in files and path.is_file() and not path.is_symlink():
                for conversation in self._conversations(path, only=False):
                    index.sub_agents.append((conversation.first("sessionId"), path))
        return index

    def _conversations(self, path: Path, loaded: Sequence[_Conversation] = (), *, only: bool) -> list[_Conversation]:
        """Read the conversations in a session file. Raises `DataError` if the only file cannot be read.

        Args:
            path: The session file.
            loaded: Conversations of the same eval that are already in memory. The size of these conversations counts
                towards `MAX_SESSION_CHARACTERS`.
            only: True if the source has no other session file.
        """
        conversations = [_Conversation()]
        size = sum(conversation.characters for conversation in loaded)
        try:
            with self._open(path) as reading:
                for read in json_lines(reading):
                    size += read.characters
                    line = self._line(read, f"{path.name}:{read.number}", size)
                    if line is None:
                        continue
                    if _CLEAR in text_of(object_of(line.get("message")).get("content")):
                        conversations.append(_Conversation())
                    else:
                        conversations[-1].lines.append(line)
                        conversations[-1].characters += read.characters
        except EvalscribeError as error:
            if only and not conversations[0].lines:
                raise
            self._omit(f"the rest of a session: {error}", path.name, lost=True)
        for conversation in conversations:
            conversation.lines = self._without_abandoned(conversation.lines, path.name)
        return [conversation for conversation in conversations if conversation.lines]

    def _line(self, read: JsonLine, place: str, size: int) -> _Line | None:
        line = read.value
        if line is None:
            self._omit_line(read, place)
            return None
        kind = line.get("type")
        if kind not in _TYPES:
            if kind not in _KNOWN_TYPES:
                self._omit(f"a line of type `{text_of(kind)[:40] or 'unknown'}`", place)
            return None
        if size > MAX_SESSION_CHARACTERS:
            self._omit("a message of a session that is too long", place)
            return None
        # This is a structured copy of the tool's result in `message`.
        line.pop("toolUseResult", None)
        return line

    def _without_abandoned(self, lines: list[_Line], place: str) -> list[_Line]:
        """Return the lines, except those that the user discarded with a rewind.

        After a rewind, several branches of lines follow the rewound line. Only the last branch is current.
        """
        lines_by_id = {id: line for line in lines if (id := text_of(line.get("uuid")))}
        children: dict[str, int] = {}
        for line in lines:
            parent = text_of(line.get("parentUuid"))
            children[parent] = children.get(parent, 0) + 1
        if all(number < 2 for parent, number in children.items() if parent):
            return lines
        chain: set[str] = set()
        current_id = text_of(lines[-1].get("uuid"))
        while current_id in lines_by_id and current_id not in chain:
            chain.add(current_id)
            current_id = text_of(lines_by_id[current_id].get("parentUuid"))
        branch_lines: list[_Line] = []
        calls: set[str] = set()
        dropped: set[str] = set()
        for line in lines:
            id, message = text_of(line.get("uuid")), object_of(line.get("message"))
            results = {text_of(part.get("tool_use_id")) for part in dicts(message.get("content"))} - {""}
            side = text_of(line.get("parentUuid")) in dropped
            rewound = children.get(text_of(line.get("parentUuid")), 0) > 1 and id not in chain
            # Parallel calls also create branches, one for each result.
            if (side or rewound) and not results & calls:
                dropped.add(id)
                continue
            calls |= {text_of(part.get("id")) for part in dicts(message.get("content"))} - {""}
            branch_lines.append(line)
        if dropped:
            self._omit("a message that was taken back by a rewind", place, len(dropped))
        return branch_lines

    def _eval(
        self,
        name: str,
        parts: Sequence[_Conversation],
        sub_agents: Sequence[tuple[str | None, list[object]]],
        place: str,
    ) -> SourceEval:
        conversation = _Conversation([line for part in parts for line in part.lines])
        messages = conversation.messages
        first_user_message = next(
            (object_of(message) for message in messages if object_of(message).get("role") == "user"), {}
        )
        cwd = conversation.first("cwd")
        project = (PureWindowsPath(cwd) if "\\" in cwd else PurePath(cwd)).name
        times = sorted(conversation.times)
        return SourceEval(
            run=SourceRun(
                key=f"{conversation.model}\0{project}",
                provider="anthropic" if (conversation.model or "").startswith("claude") else None,
                model=conversation.model,
                experiment=project or "default",
            ),
            name=name,
            status="incomplete",
            reason="a session has no verdict",
            place=place,
            documents=(Document(role="task", path="task", text=_text(first_user_message.get("content"))),),
            conversations=[(None, messages), *sub_agents],
            metadata={
                "sessions": sorted({text_of(line.get("sessionId")) for line in conversation.lines} - {""}),
                "git_branch": conversation.first("gitBranch"),
                "version": conversation.first("version"),
            },
            started_at=times[0] if times else None,
            ended_at=times[-1] if times else None,
            input_tokens=conversation.tokens(*_USAGE),
            output_tokens=conversation.tokens("output_tokens"),
        )


def _messages(lines: Sequence[_Line]) -> Iterator[object]:
    """Yield the messages of a conversation.

    The lines of one answer become one message. Each tool result becomes a separate message.
    """
    for _, group in groupby(lines, key=lambda line: _answer(line) or id(line)):
        answer_lines = list(group)
        kind, message = answer_lines[0].get("type"), object_of(answer_lines[0].get("message"))
        if kind == "system":
            text = text_of(answer_lines[0].get("content"))
            if answer_lines[0].get("subtype") == "compact_boundary":
                text = text or "The conversation was compacted."
            if text:
                yield {"role": "system", "content": text}
        elif kind == "assistant":
            parts = [part for line in answer_lines for part in _parts(object_of(line.get("message")).get("content"))]
            yield {"role": "assistant", "content": parts, "model": message.get("model")}
        else:
            other_parts = []
            for part in _parts(message.get("content")):
                if isinstance(part, dict) and part.get("type") == "tool_result":
                    yield {
                        "role": "tool",
                        "tool_call_id": part.get("tool_use_id"),
                        "content": part.get("content") or "",
                        "error": "the tool reported an error" if part.get("is_error") else None,
                    }
                else:
                    other_parts.append(part)
            if other_parts:
                yield {"role": "user", "content": other_parts}


def _name(first: _Conversation, path: Path) -> str:
    return first.first("slug") or first.first("sessionId") or path.stem


def _answer(line: _Line) -> str:
    return text_of(object_of(line.get("message")).get("id")) if line.get("type") == "assistant" else ""


def _parts(content: object) -> list[object]:
    return content if isinstance(content, list) else [content] if isinstance(content, str) and content else []


def _text(content: object) -> str:
    return "\n".join(
        part if isinstance(part, str) else text_of(object_of(part).get("text")) for part in _parts(content)
    )


def _session_files(folder: Path) -> list[Path]:
    """Return the session files in a folder.

    Files of sub-agents are returned only if the folder has no other session files.
    """
    sessions = [path for path in sorted(folder.glob("*.jsonl")) if _is_session(path)]
    return [path for path in sessions if not path.name.startswith(_AGENT)] or sessions


def _is_session(path: Path) -> bool:
    # A damaged file is not a session.
    with suppress(EvalscribeError):
        return path.is_file() and not path.is_symlink() and _recognise_line(FileStart(path).line) is not None
    return False


def _recognise_line(line: _Line | None) -> str | None:
    """Return the feature by which the first line of a session is recognised; None if the file is not a session.

    The line must be a message, a summary or a file snapshot.
    """
    if line is None:
        return None
    if line.get("type") in _TYPES and {"sessionId", "uuid"} <= line.keys():
        return "its lines have `type`, `uuid` and `sessionId`"
    return (
        "its first line is a summary of a session"
        if line.keys() >= {"type", "summary", "leafUuid"}
        else (
            "its first line is a snapshot of a session's files" if line.get("type") == "file-history-snapshot" else None
        )
    )


def _recognise_folder(start: FolderStart) -> str | None:
    lines = (start.path / name for name in sorted(start.names) if name.endswith(".jsonl"))
    return "it has sessions of Claude Code" if any(map(_is_session, lines)) else None


FORMATS = (
    Format(
        name=NAME,
        title="Claude Code sessions",
        open=ClaudeCodeReader,
        recognise=lambda start, _: _recognise_line(start.line),
        recognise_folder=_recognise_folder,
        a_run="the project and model",
        an_eval="a session, or all sessions of one piece of work; `/clear` begins a new eval",
        passed="never: a session has no verdict",
        versions="fixtures of 2026",
        names=("type", "uuid", "parentUuid", "sessionId", "message", "timestamp"),
        fields={
            "message": "messages; results of tools become messages of their own",
            "message.usage": "tokens; counted once for an answer that spans several lines of the file",
            "parentUuid": "order; messages removed by a rewind are left out",
            "agent-*.jsonl": "transcripts of sub-agents",
            "slug, sessionId": "name",
            "cwd": "experiment of the run",
            "toolUseResult": "left out: repeats the result in `message`",
        },
    ),
)

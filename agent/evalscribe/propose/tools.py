"""What a model may do on the way to a patch: list, read and search the files of one commit. Nothing here writes."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from evalscribe.judging.prompt_text import Delimiter, number_lines, one_line, quote_json
from evalscribe.judging.tool_loop import ToolFields, describe_misuse, limit_lines, tool_of
from evalscribe.model.chat import ToolCall, ToolResult
from evalscribe.propose.files import MOST_SEARCHED, Files
from evalscribe.propose.scope import Scope

MOST_FILES = 300
MOST_LINES = 400
MOST_HITS = 50


class ListFiles(ToolFields):
    """List the repository's files, those that may be changed first."""

    folder: Annotated[str, Field(description="Only files below this folder; empty for all.")]


class ReadFile(ToolFields):
    """Read lines of one file, with their numbers."""

    path: str
    first: Annotated[int, Field(ge=1, description="First line, counted from 1.")]
    last: Annotated[int, Field(ge=1, description=f"Last line; {MOST_LINES} lines at most are shown at once.")]


class Search(ToolFields):
    """Find the lines that hold a text, capitals or not."""

    text: Annotated[str, Field(min_length=1, max_length=200, description="Plain text, no pattern.")]
    folder: Annotated[str, Field(description="Only in files below this folder; empty for all.")]


class Replacement(ToolFields):
    path: Annotated[str, Field(description="Path of the file from the repository's root, with `/`.")]
    old: Annotated[
        str,
        Field(description="Text that the file has exactly once, without line numbers; empty to make a new file."),
    ]
    new: Annotated[str, Field(description="What stands in its place; of a new file the whole text.")]


class SubmitPatch(ToolFields):
    """Submit the change; it ends your work. A person decides about it."""

    summary: Annotated[str, Field(description="What is changed, in one imperative line of at most 72 characters.")]
    edits: Annotated[list[Replacement], Field(description="One for each place that is changed, in order.")]


class NoChange(ToolFields):
    """Say that no change of these files can do what is recommended; it ends your work."""

    reason: Annotated[str, Field(description="Why, in one or two sentences.")]


SUBMIT, NO_CHANGE = "submit_patch", "no_change"
READING: dict[str, type[BaseModel]] = {"list_files": ListFiles, "read_file": ReadFile, "search": Search}
NAMES: dict[str, type[BaseModel]] = {**READING, SUBMIT: SubmitPatch, NO_CHANGE: NoChange}
TOOLS = tuple(tool_of(name, fields) for name, fields in NAMES.items())


class Misused(Exception):
    """A call that cannot be answered; the model is told why."""


def fields_of(call: ToolCall) -> BaseModel:
    """The call's fields. Raises `Misused`."""
    if call.name not in NAMES:
        raise Misused(f"There is no tool {quote_json(call.name[:80])}; there are {', '.join(NAMES)}.")
    try:
        return NAMES[call.name].model_validate(call.input)
    except ValidationError as error:
        raise Misused(describe_misuse(error)) from None


class Toolbox:
    """The reading tools over one commit's files. Answers are delimited data."""

    def __init__(self, files: Files, scope: Scope, fence: Delimiter) -> None:
        self._files = files
        self._changeable = frozenset(scope.files)
        self._fence = fence

    def answer(self, call: ToolCall, asked: BaseModel) -> ToolResult:
        """Never raises: what is wrong with a call is its result."""
        try:
            about, lines = self._run(asked)
        except Misused as misused:
            return ToolResult(call_id=call.id, text=str(misused), is_error=True)
        return ToolResult(call_id=call.id, text=self._fence.block(about, limit_lines(lines)))

    def _run(self, asked: BaseModel) -> tuple[str, Iterable[str]]:
        match asked:
            case ReadFile():
                return self._read(asked)
            case Search():
                return "search", self._search(asked)
            case ListFiles():
                return "files", self._list(asked)
        raise Misused("That is no reading tool.")

    def _list(self, asked: ListFiles) -> Iterator[str]:
        found = self._below(asked.folder)
        for path in found[:MOST_FILES]:
            yield f"{quote_json(path)}{' may be changed' if path in self._changeable else ''}"
        if len(found) > MOST_FILES:
            yield f"and {len(found) - MOST_FILES} more; name a folder"

    def _read(self, asked: ReadFile) -> tuple[str, Iterable[str]]:
        text = self._files.text(asked.path)
        if text is None:
            raise Misused(f"There is no text file {quote_json(asked.path[:200])} to be read; see list_files.")
        lines = text.removesuffix("\n").split("\n")
        if not asked.first <= min(asked.last, len(lines)):
            raise Misused(f"It has {len(lines)} lines; ask for first to last among them.")
        last = min(asked.last, len(lines), asked.first + MOST_LINES - 1)
        about = f"file {quote_json(asked.path)} lines {asked.first} to {last} of {len(lines)}"
        return about, (number_lines(n, line) for n, line in enumerate(lines[asked.first - 1 : last], asked.first))

    def _search(self, asked: Search) -> Iterable[str]:
        paths = self._below(asked.folder)
        found = self._files.hits(asked.text, paths)
        lines = [
            f"{quote_json(path)} {number}| {one_line(line)}" for path, number, line in islice(found, MOST_HITS + 1)
        ]
        said = [*lines[:MOST_HITS], *(["and more"] if len(lines) > MOST_HITS else [])] or ["no line holds that"]
        if len(paths) > MOST_SEARCHED:
            said.append(f"only the first {MOST_SEARCHED} of {len(paths)} files were searched; name a folder")
        return said

    def _below(self, folder: str) -> tuple[str, ...]:
        found = self._files.below(folder)
        if not found:
            raise Misused(f"There is no file below {quote_json(folder[:200])}.")
        return found

"""What the model may do in a discussion: read the report and, finding by finding, the evidence. Nothing is written."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from evalscribe.discuss.dossier import Absent, Dossier
from evalscribe.discuss.search import search
from evalscribe.judging.classifier_tools import READING_TOOLS
from evalscribe.judging.prompt_text import number_lines, one_line, quote_json
from evalscribe.judging.tool_loop import ToolFields, describe_misuse, tool_of
from evalscribe.model.chat import Tool, ToolCall, ToolResult

MOST_LINES = 300
MOST_HITS = 30
_NUMBER = {"type": "integer", "description": "Number of the finding in the report."}


class ReadReport(ToolFields):
    """Read lines of the report, with their numbers."""

    first: Annotated[int, Field(ge=1, description="First line, counted from 1.")]
    last: Annotated[int, Field(ge=1, description=f"Last line; {MOST_LINES} lines at most are shown at once.")]


class Find(ToolFields):
    """Find the places in the report and in the evidence of every finding that hold all of the given words."""

    words: Annotated[str, Field(min_length=1, max_length=200, description="Plain words, capitals or not.")]


def _of_finding(tool: Tool) -> Tool:
    """A tool over the evidence of one failure, with the failure's number as another argument."""
    schema = tool.input_schema
    fields = {"finding": _NUMBER, **schema["properties"]}
    return tool.model_copy(update={"input_schema": {**schema, "properties": fields, "required": list(fields)}})


OWN: dict[str, type[BaseModel]] = {"read_report": ReadReport, "find": Find}
TOOLS = (*(tool_of(name, fields) for name, fields in OWN.items()), *map(_of_finding, READING_TOOLS))
_EVIDENCE = frozenset(tool.name for tool in READING_TOOLS)


class Tools:
    """Answers are delimited data."""

    def __init__(self, dossier: Dossier) -> None:
        self.at_hand: int | None = next(iter(dossier.topics)) if len(dossier.topics) == 1 else None
        """The finding that was read last, or the only one."""
        self._dossier = dossier

    def answer(self, call: ToolCall) -> ToolResult:
        """Never raises: what is wrong with a call is its result."""
        if call.name in _EVIDENCE:
            return self._of_evidence(call)
        if call.name not in OWN:
            known = ", ".join(tool.name for tool in TOOLS)
            return _refused(call, f"There is no tool {quote_json(call.name[:80])}; there are {known}.")
        try:
            asked = OWN[call.name].model_validate(call.input)
        except ValidationError as error:
            return _refused(call, describe_misuse(error))
        about, lines = self._report(asked) if isinstance(asked, ReadReport) else self._found(asked)
        return ToolResult(call_id=call.id, text=self._dossier.fence.block(about, "\n".join(lines)))

    def _of_evidence(self, call: ToolCall) -> ToolResult:
        number = call.input.get("finding")
        if not isinstance(number, int) or number not in self._dossier.topics:
            return _refused(call, f"There is no such finding; the report has {_range(self._dossier.topics)}.")
        try:
            toolbox = self._dossier.toolbox(number)
        except Absent as absent:
            return _refused(call, f"There is no evidence of finding {number} here: {one_line(str(absent))}")
        self.at_hand = number
        fields = {name: value for name, value in call.input.items() if name != "finding"}
        result = toolbox.answer(call.model_copy(update={"input": fields}))
        return result.model_copy(update={"text": f"Finding {number}:\n{result.text}"})

    def _report(self, asked: ReadReport) -> tuple[str, Iterable[str]]:
        lines = self._dossier.text.split("\n")
        first = min(asked.first, len(lines))
        last = min(max(first, asked.last), len(lines), first + MOST_LINES - 1)
        about = f"the report, lines {first} to {last} of {len(lines)}"
        return about, [number_lines(first, "\n".join(lines[first - 1 : last]))]

    def _found(self, asked: BaseModel) -> tuple[str, Iterable[str]]:
        words = asked.words.split() if isinstance(asked, Find) else []
        hits = search(self._dossier, words, MOST_HITS)
        told = [
            f"{'report' if hit.finding is None else f'finding {hit.finding}, {one_line(hit.place)}'}\n"
            f"{number_lines(hit.first, chr(10).join(hit.lines))}"
            for hit in hits
        ]
        return "found", told or ["nothing holds all of these words"]


def _range(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return f"findings {ordered[0]} to {ordered[-1]}" if ordered else "none"


def _refused(call: ToolCall, reason: str) -> ToolResult:
    return ToolResult(call_id=call.id, text=reason, is_error=True)

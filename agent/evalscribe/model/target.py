"""Targets of experiments: deployments, prompts, and the calls and replies of targets."""

import re
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field, JsonValue

from evalscribe.ids import Frozen
from evalscribe.json_data import get_member, to_text
from evalscribe.model.chat import Effort, Usage
from evalscribe.model.dataset import short_id
from evalscribe.model.run import COMPONENT
from evalscribe.model.transcript import Transcript

ComponentType = Literal["agent", "function", "workflow"]
ComponentKind = Literal["python", "http", "cmd"]


class Component(Frozen):
    """A Python function, a URL or a command that takes an input and returns an output."""

    name: str
    type: ComponentType = "agent"
    kind: ComponentKind
    address: str
    """`package.module:function`, a URL, or a command line. Command lines are split as in a shell, but run without
    one."""
    headers: dict[str, str] = Field(default_factory=dict)
    """For `http`: names of the environment variables with the values, by header name. Values are never stored."""
    provider: str = COMPONENT
    model: str = ""
    """Name of the model in runs and reports; by default the component's name."""

    @property
    def shown(self) -> str:
        """The address for display: `python:package.module:function`, or the URL itself."""
        return self.address if self.kind == "http" else f"{self.kind}:{self.address}"


class SourceState(Frozen):
    """The version of the source code in a folder."""

    commit: str | None = None
    """Commit of the repository that contains the folder; None outside git."""
    dirty: bool | None = None
    """Whether files in the folder differ from the commit; if so, the commit does not identify the code."""
    code: str | None = None
    """Content id of the differences from the commit; outside git, content id of the folder's Python files."""


class Deployment(Frozen):
    """One build of one or more components. Immutable."""

    id: str
    """`dep-…`"""
    name: str = ""
    components: tuple[Component, ...]
    folder: str
    """Absolute path of the folder in which commands run and from which Python modules are imported."""
    commit: str | None = None
    """Commit of the repository that contains the folder; None outside git."""
    dirty: bool | None = None
    """Whether files in the folder differed from the commit; if so, the commit does not identify the code."""
    code: str | None = None
    """Content id of the differences from the commit; outside git, content id of the folder's Python files."""
    python: str = ""
    created_at: str

    def component(self, name: str) -> Component | None:
        return next((component for component in self.components if component.name == name), None)

    @property
    def content(self) -> str:
        """Content id that ignores the time of recording. Equal builds of the same components have equal ids."""
        return short_id("dep", self.model_dump(mode="json", exclude={"id", "created_at"}))

    @property
    def build(self) -> str:
        """The build for display: `1a2b3c4d`, `1a2b3c4d (dirty), code 9f8e7d6c`, `not in git, code 9f8e7d6c`."""
        code = f", code {self.code.removeprefix('sha256:')[:8]}" if self.code else ""
        if self.commit is None:
            return f"not in git{code}"
        return f"{self.commit[:8]}{f' (dirty){code}' if self.dirty else ''}"


_VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_INPUT = re.compile(r"input(?:\.[\w-]+)*")


class UnknownVariable(ValueError):
    """A template's variable is not allowed, or the input lacks it. The message is one line."""


def prompt_variables(template: str) -> tuple[str, ...]:
    """Return the template's variables, as `input.a.b`. Raises `UnknownVariable` for anything else in double braces."""
    variables = tuple(match[1] for match in _VARIABLE.finditer(template))
    unknown = [name for name in variables if not _INPUT.fullmatch(name)]
    if unknown:
        raise UnknownVariable(
            f"{{{{{unknown[0][:60]}}}}} is not a variable: there is {{{{input}}}} and {{{{input.NAME}}}}"
        )
    return variables


def _checked_template(template: str) -> str:
    prompt_variables(template)
    return template


class TargetMessage(Frozen):
    """One message of a prompt template. Variables such as `{{input}}` and `{{input.order_id}}` are filled in."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, AfterValidator(_checked_template)]


class TargetPromptVersion(Frozen):
    id: str
    """`pv-…`, a content id."""
    prompt_id: str
    number: int
    """From 1."""
    model: str
    """`provider/name`."""
    messages: tuple[TargetMessage, ...]
    max_tokens: int = 4096
    effort: Effort | None = None
    output_schema: dict[str, Any] | None = None
    """JSON Schema that the answer must match; None for free text."""
    created_at: str


class TargetPrompt(Frozen):
    id: str
    """`prompt-…`"""
    name: str
    """Unique; commands accept it in place of the id."""
    created_at: str
    versions: tuple[TargetPromptVersion, ...] = Field(default=())
    """All versions, the newest last."""


def fill_template(template: str, value: JsonValue) -> str:
    """Replace `{{input}}` and `{{input.a.b}}` by the values: texts unchanged, other values as JSON.

    Variables within inserted values are not replaced. Raises `UnknownVariable`.
    """
    return _VARIABLE.sub(lambda match: to_text(_member(value, match[1])), template)


def _member(value: JsonValue, name: str) -> JsonValue:
    """Return the value of a variable. For the input `{"items": [{"id": 7}]}`, `input.items.0.id` is 7."""
    for part in name.split(".")[1:]:
        try:
            value = get_member(value, part)
        except LookupError:
            raise UnknownVariable(f"the item's input has no {part!r}, which {{{{{name}}}}} names") from None
    return value


TargetFailureKind = Literal["error", "timeout", "cancelled"]


class TargetCall(Frozen):
    """Input of a target for one trial of an item. Targets never get the expected output."""

    run_id: str
    item_key: str
    repetition: int
    """From 1."""
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    timeout_s: float = 300.0

    @property
    def idempotency_key(self) -> str:
        """A key that is the same if the trial is repeated because its worker died."""
        return f"{self.run_id}/{self.item_key}/{self.repetition}"


class TargetReply(Frozen):
    """A target's answer. Scorers use the fields other than `output` to check how the answer was produced."""

    output: JsonValue
    transcript: Transcript | None = None
    """The target's messages, with tool calls and their results."""
    state: dict[str, JsonValue] = Field(default_factory=dict)
    """Snapshots of the target's state by name, for the scorer `state_equals`."""
    usage: Usage | None = None
    """None if the target does not report its usage."""
    model: str | None = None
    duration_ms: float = 0.0
    log: str = ""
    """The end of a command's standard error, or of a Python function's printed output."""


class TargetFailure(Frozen):
    """The reason why a target gave no answer in a trial; other items are not affected."""

    kind: TargetFailureKind = "error"
    reason: str
    """One line."""
    log: str = ""
    """Traceback or the end of standard error."""
    transcript: Transcript | None = None
    usage: Usage | None = None
    duration_ms: float = 0.0


class ToolUse(Frozen):
    """One call of a tool in a trace."""

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    failed: bool = False
    error: str | None = None


class Trace(Frozen):
    """Trace of a target's actions in a trial, for scorers. Fields that the target does not report are None."""

    recorded: bool = True
    """Whether the target returned its messages. Without messages, it is unknown whether it called tools."""
    tools: tuple[ToolUse, ...] = ()
    """Tool calls in order."""
    model_calls: int | None = None
    tokens: int | None = None
    """Input and output tokens."""
    duration_ms: float | None = None
    errors: tuple[str, ...] = ()
    state: dict[str, JsonValue] = Field(default_factory=dict)


class Target(Protocol):
    """The system under test. Its replies contain only valid JSON, with secrets redacted."""

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Run one trial. A problem that concerns only this item is returned as a `TargetFailure`.

        Raises:
            EvalscribeError: The problem affects all items.
        """

    async def close(self) -> None:
        """End every process that the target started, within two seconds."""

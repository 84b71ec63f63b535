"""Define the targets of experiments: deployments and prompts. Define the calls to targets and their replies."""

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
    """A part of a target: a Python function, a URL or a command that takes an input and returns an output."""

    name: str
    type: ComponentType = "agent"
    kind: ComponentKind
    address: str
    """Address of the component: `package.module:function`, a URL, or a command line. A command line is split as in a
    shell, but it runs without a shell."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of HTTP requests: for each header name, the name of the environment variable that contains the value.
    Values are never stored."""
    provider: str = COMPONENT
    model: str = ""
    """Name of the model in runs and reports. By default, the name of the component."""

    @property
    def shown(self) -> str:
        """The address in the form for display, such as `python:package.module:function`.

        A URL is displayed unchanged.
        """
        return self.address if self.kind == "http" else f"{self.kind}:{self.address}"


class SourceState(Frozen):
    """The version of the source code in a folder."""

    commit: str | None = None
    """Commit of the repository that contains the folder; None outside git."""
    dirty: bool | None = None
    """Whether files in the folder differ from the commit. If so, the commit alone does not identify the code."""
    code: str | None = None
    """Content id of the differences from the commit; outside git, content id of the folder's Python files."""


class Deployment(Frozen):
    """One build of one or more components. A deployment is immutable."""

    id: str
    """Id of the deployment, in the form `dep-…`."""
    name: str = ""
    components: tuple[Component, ...]
    folder: str
    """Absolute path of the folder in which commands run and from which Python modules are imported."""
    commit: str | None = None
    """Commit of the repository that contains the folder; None outside git."""
    dirty: bool | None = None
    """Whether files in the folder differed from the commit. If so, the commit alone does not identify the code."""
    code: str | None = None
    """Content id of the differences from the commit; outside git, content id of the folder's Python files."""
    python: str = ""
    created_at: str

    def component(self, name: str) -> Component | None:
        return next((component for component in self.components if component.name == name), None)

    @property
    def content(self) -> str:
        """Content id of the deployment without the time at which it was recorded.

        Equal builds of the same components have equal ids.
        """
        return short_id("dep", self.model_dump(mode="json", exclude={"id", "created_at"}))

    @property
    def build(self) -> str:
        """The build in the form for display, such as `1a2b3c4d`, `1a2b3c4d (dirty), code 9f8e7d6c` or `not in git, code
        9f8e7d6c`."""
        code = f", code {self.code.removeprefix('sha256:')[:8]}" if self.code else ""
        if self.commit is None:
            return f"not in git{code}"
        return f"{self.commit[:8]}{f' (dirty){code}' if self.dirty else ''}"


_VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_INPUT = re.compile(r"input(?:\.[\w-]+)*")


class UnknownVariable(ValueError):
    """Raised if a template uses a variable that is not allowed or that the input does not have.

    The message is one line.
    """


def prompt_variables(template: str) -> tuple[str, ...]:
    """Return the variables of a template in the form `input.a.b`.

    Raises `UnknownVariable` for anything else in double braces.
    """
    variables = tuple(match[1] for match in _VARIABLE.finditer(template))
    unknown = [name for name in variables if not _INPUT.fullmatch(name)]
    if unknown:
        raise UnknownVariable(
            f"{{{{{unknown[0][:60]}}}}} is not a variable; variables: {{{{input}}}} and {{{{input.NAME}}}}"
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
    """Id of the version, in the form `pv-…`. It is a content id."""
    prompt_id: str
    number: int
    """Number of the version of its prompt, from 1."""
    model: str
    """The model, as `provider/name`."""
    messages: tuple[TargetMessage, ...]
    max_tokens: int = 4096
    effort: Effort | None = None
    output_schema: dict[str, Any] | None = None
    """JSON Schema that the answer must match; None for free text."""
    created_at: str


class TargetPrompt(Frozen):
    id: str
    """Id of the prompt, in the form `prompt-…`."""
    name: str
    """Unique name of the prompt. Commands accept the name in place of the id."""
    created_at: str
    versions: tuple[TargetPromptVersion, ...] = Field(default=())
    """All versions of the prompt. The newest version is the last."""


def fill_template(template: str, value: JsonValue) -> str:
    """Replace variables such as `{{input}}` and `{{input.a.b}}` with their values.

    A text is inserted unchanged, and any other value as JSON. Variables inside inserted values are not replaced. Raises
    `UnknownVariable` if the input does not have a variable.
    """
    return _VARIABLE.sub(lambda match: to_text(_member(value, match[1])), template)


def _member(value: JsonValue, name: str) -> JsonValue:
    """Return the value of a variable.

    For example, the value of `input.items.0.id` is 7 for the input `{"items": [{"id": 7}]}`.
    """
    for part in name.split(".")[1:]:
        try:
            value = get_member(value, part)
        except LookupError:
            raise UnknownVariable(f"the item's input has no {part!r}, which {{{{{name}}}}} names") from None
    return value


TargetFailureKind = Literal["error", "timeout", "cancelled"]


class TargetCall(Frozen):
    """Input of a target for one trial of an item. A target never gets the expected output."""

    run_id: str
    item_key: str
    repetition: int
    """Number of the repetition of the item, from 1."""
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    timeout_s: float = 300.0

    @property
    def idempotency_key(self) -> str:
        """Idempotency key of the trial. If the trial is repeated because its worker died, the key stays the same."""
        return f"{self.run_id}/{self.item_key}/{self.repetition}"


class TargetReply(Frozen):
    """A target's answer. Scorers use the fields other than `output` to check how the answer was produced."""

    output: JsonValue
    transcript: Transcript | None = None
    """The target's messages, with tool calls and their results."""
    state: dict[str, JsonValue] = Field(default_factory=dict)
    """Snapshots of the target's state, by name. The scorer `state_equals` uses them."""
    usage: Usage | None = None
    """Usage of the target in the trial; None if the target does not report it."""
    model: str | None = None
    duration_ms: float = 0.0
    log: str = ""
    """End of the standard error of a command, or of the output that a Python function printed."""


class TargetFailure(Frozen):
    """The reason why a target gave no answer in one trial. Other items are not affected by the failure."""

    kind: TargetFailureKind = "error"
    reason: str
    """The reason in one line."""
    log: str = ""
    """The traceback, or the end of the standard error."""
    transcript: Transcript | None = None
    usage: Usage | None = None
    duration_ms: float = 0.0


class ToolUse(Frozen):
    """One tool call in a trace."""

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    failed: bool = False
    error: str | None = None


class Trace(Frozen):
    """Record of a target's actions in a trial, for use by scorers. Fields that the target does not report are None."""

    recorded: bool = True
    """Whether the target returned its messages. Without the messages, it is unknown whether the target called tools."""
    tools: tuple[ToolUse, ...] = ()
    """The tool calls, in order."""
    model_calls: int | None = None
    tokens: int | None = None
    """Number of input and output tokens together."""
    duration_ms: float | None = None
    errors: tuple[str, ...] = ()
    state: dict[str, JsonValue] = Field(default_factory=dict)


class Target(Protocol):
    """The system under test. Its replies contain only valid JSON, and secrets in them are redacted."""

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Run one trial of an item. A problem that affects only this item is returned as a `TargetFailure`.

        Raises:
            EvalscribeError: The problem affects all items.
        """

    async def close(self) -> None:
        """End all processes that the target started, within two seconds."""

"""Targets of experiments: deployments, prompts, and what a target receives and returns."""

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
    """A function, an address or a command that takes an input and returns an output."""

    name: str
    type: ComponentType = "agent"
    kind: ComponentKind
    address: str
    """`package.module:function`, a URL, or a command line (split like in a shell, but run without one)."""
    headers: dict[str, str] = Field(default_factory=dict)
    """For `http`: names of headers, each with the environment variable that has its value; values are never stored."""
    provider: str = COMPONENT
    model: str = ""
    """The model under whose name reports of its runs are filed; by default the component's own name."""

    @property
    def shown(self) -> str:
        """The address for display: `python:package.module:function`, or the URL itself."""
        return self.address if self.kind == "http" else f"{self.kind}:{self.address}"


class SourceState(Frozen):
    """The version of the source in a folder."""

    commit: str | None = None
    """Commit of the repository that contains the folder; None outside git."""
    dirty: bool | None = None
    """Whether files of the folder differ from that commit, so that it does not identify the code."""
    code: str | None = None
    """Content id of the differences from the commit; outside git, of the folder's Python files."""


class Deployment(Frozen):
    """One build of one or more components. Immutable."""

    id: str
    """`dep-…`"""
    name: str = ""
    components: tuple[Component, ...]
    folder: str
    """Absolute path from which Python imports and in which commands run."""
    commit: str | None = None
    """Commit of the repository that contains the folder; None outside git."""
    dirty: bool | None = None
    """Whether files differed from that commit, so that it does not identify the code."""
    code: str | None = None
    """Content id of the differences from the commit; outside git, of the folder's Python files."""
    python: str = ""
    created_at: str

    def component(self, name: str) -> Component | None:
        return next((one for one in self.components if one.name == name), None)

    @property
    def content(self) -> str:
        """Id of this build of these components, regardless of when it was recorded."""
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
    """A variable of a template that the input lacks or that does not exist; the message is one line."""


def prompt_variables(template: str) -> tuple[str, ...]:
    """Return the template's variables, as `input.a.b`. Raises `UnknownVariable` for anything else in double braces."""
    found = tuple(match[1] for match in _VARIABLE.finditer(template))
    unknown = [name for name in found if not _INPUT.fullmatch(name)]
    if unknown:
        raise UnknownVariable(
            f"{{{{{unknown[0][:60]}}}}} is not a variable: there is {{{{input}}}} and {{{{input.NAME}}}}"
        )
    return found


def _known(template: str) -> str:
    prompt_variables(template)
    return template


class TargetMessage(Frozen):
    """One message of the template; `{{input}}`, `{{input.order_id}}` are filled in."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, AfterValidator(_known)]


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
    """Unique; usable wherever its id is."""
    created_at: str
    versions: tuple[TargetPromptVersion, ...] = Field(default=())
    """All versions in order; the last is the latest."""


def fill_template(template: str, value: JsonValue) -> str:
    """Fill in `{{input}}` and `{{input.a.b}}`: texts as they are, other values as JSON. Values are never templates.

    Raises `UnknownVariable`.
    """
    return _VARIABLE.sub(lambda found: to_text(_member(value, found[1])), template)


def _member(value: JsonValue, name: str) -> JsonValue:
    """Look up a variable: `input.items.0.id` of `{"items": [{"id": 7}]}` is 7."""
    for part in name.split(".")[1:]:
        try:
            value = get_member(value, part)
        except LookupError:
            raise UnknownVariable(f"the item's input has no {part!r}, which {{{{{name}}}}} names") from None
    return value


TargetFailureKind = Literal["error", "timeout", "cancelled"]


class TargetCall(Frozen):
    """One trial of an item. The expected output is never passed to a target."""

    run_id: str
    item_key: str
    repetition: int
    """From 1."""
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    timeout_s: float = 300.0

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same if the trial is repeated after its worker died."""
        return f"{self.run_id}/{self.item_key}/{self.repetition}"


class TargetReply(Frozen):
    """An answer. Only `output` is required; scorers use the rest to check how the answer was produced."""

    output: JsonValue
    transcript: Transcript | None = None
    """The target's messages, with tool calls and their results."""
    state: dict[str, JsonValue] = Field(default_factory=dict)
    """Named snapshots, for the scorer `state_equals`."""
    usage: Usage | None = None
    """None if the target does not report it."""
    model: str | None = None
    duration_ms: float = 0.0
    log: str = ""
    """The end of its standard error (a command) or of its printed output (Python)."""


class TargetFailure(Frozen):
    """A trial without an answer, for a reason that concerns this item only."""

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
    """What a target did, as input of scorers that check traces. None means that the target does not report it."""

    recorded: bool = True
    """Whether the target returned its messages. Without them, it is unknown whether tools were called."""
    tools: tuple[ToolUse, ...] = ()
    """Tool calls in order."""
    model_calls: int | None = None
    tokens: int | None = None
    """Input and output tokens."""
    duration_ms: float | None = None
    errors: tuple[str, ...] = ()
    state: dict[str, JsonValue] = Field(default_factory=dict)


class Target(Protocol):
    """The system under test. Its replies are redacted, clean JSON."""

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Run one trial. A problem with this item is a value.

        Raises:
            EvalscribeError: The problem affects all items.
        """

    async def close(self) -> None:
        """End every process that it started, within two seconds."""

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
    """Something that takes an input and gives an output."""

    name: str
    type: ComponentType = "agent"
    kind: ComponentKind
    address: str
    """`package.module:function`, a URL, or a command line (split as a shell would, run without one)."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Of `http`: name of a header and of the environment variable that holds its value; the value is never stored."""
    provider: str = COMPONENT
    model: str = ""
    """Which model's reports its runs belong to; by default the component's own name."""

    @property
    def shown(self) -> str:
        """`python:package.module:function`; of a URL the URL itself."""
        return self.address if self.kind == "http" else f"{self.kind}:{self.address}"


class SourceState(Frozen):
    """Which source a folder holds."""

    commit: str | None = None
    """Of the repository that the folder is in; None outside of git."""
    dirty: bool | None = None
    """Whether files of the folder differ from that commit: then it does not identify the code."""
    code: str | None = None
    """Content id of what differs from the commit, or of the folder's Python files outside of git."""


class Deployment(Frozen):
    """One build of some components. Immutable."""

    id: str
    """`dep-…`"""
    name: str = ""
    components: tuple[Component, ...]
    folder: str
    """Absolute; where Python imports from and commands run."""
    commit: str | None = None
    """Of the repository that the folder is in; None outside of git."""
    dirty: bool | None = None
    """Whether files differed from that commit: then it does not identify the code."""
    code: str | None = None
    """Content id of what differed from the commit, or of the folder's Python files outside of git."""
    python: str = ""
    created_at: str

    def component(self, name: str) -> Component | None:
        return next((one for one in self.components if one.name == name), None)

    @property
    def content(self) -> str:
        """Id of the same build of the same components, whenever it was made."""
        return short_id("dep", self.model_dump(mode="json", exclude={"id", "created_at"}))

    @property
    def build(self) -> str:
        """`1a2b3c4d`, `1a2b3c4d (dirty), code 9f8e7d6c`, `not in git, code 9f8e7d6c`."""
        code = f", code {self.code.removeprefix('sha256:')[:8]}" if self.code else ""
        if self.commit is None:
            return f"not in git{code}"
        return f"{self.commit[:8]}{f' (dirty){code}' if self.dirty else ''}"


_VARIABLE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_INPUT = re.compile(r"input(?:\.[\w-]+)*")


class UnknownVariable(ValueError):
    """A variable that a template has and an input has not, or that there is not; one line."""


def prompt_variables(template: str) -> tuple[str, ...]:
    """Those that it has, as `input.a.b`. Raises `UnknownVariable` for anything else in double braces."""
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
    """`pv-…`, named by content."""
    prompt_id: str
    number: int
    """From 1."""
    model: str
    """`provider/name`."""
    messages: tuple[TargetMessage, ...]
    max_tokens: int = 4096
    effort: Effort | None = None
    output_schema: dict[str, Any] | None = None
    """JSON Schema that the answer is held to; None for free text."""
    created_at: str


class TargetPrompt(Frozen):
    id: str
    """`prompt-…`"""
    name: str
    """Unique; usable wherever its id is."""
    created_at: str
    versions: tuple[TargetPromptVersion, ...] = Field(default=())
    """In order; the last is the latest."""


def fill_template(template: str, value: JsonValue) -> str:
    """The template with `{{input}}` and `{{input.a.b}}` as text, everything else as JSON; what is put in is data.

    Raises `UnknownVariable`.
    """
    return _VARIABLE.sub(lambda found: to_text(_member(value, found[1])), template)


def _member(value: JsonValue, name: str) -> JsonValue:
    """`input.items.0.id` of `{"items": [{"id": 7}]}` is 7."""
    for part in name.split(".")[1:]:
        try:
            value = get_member(value, part)
        except LookupError:
            raise UnknownVariable(f"the item's input has no {part!r}, which {{{{{name}}}}} names") from None
    return value


TargetFailureKind = Literal["error", "timeout", "cancelled"]


class TargetCall(Frozen):
    """One try at one item. What is expected is never handed to a target."""

    run_id: str
    item_key: str
    repetition: int
    """From 1."""
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    timeout_s: float = 300.0

    @property
    def idempotency_key(self) -> str:
        """The same when this try is made again after its worker died."""
        return f"{self.run_id}/{self.item_key}/{self.repetition}"


class TargetReply(Frozen):
    """An answer. `output` alone is enough; the rest lets scorers look into how it came about."""

    output: JsonValue
    transcript: Transcript | None = None
    """Its messages, with the calls of tools and what these gave."""
    state: dict[str, JsonValue] = Field(default_factory=dict)
    """Named snapshots, for the scorer `state_equals`."""
    usage: Usage | None = None
    """None where the target does not say."""
    model: str | None = None
    duration_ms: float = 0.0
    log: str = ""
    """The end of what it wrote to standard error (a command) or printed (Python)."""


class TargetFailure(Frozen):
    """A try that gave no answer, for a reason that concerns this item only."""

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
    """What a target did, as scorers of traces see it. None stands for what the target does not tell."""

    recorded: bool = True
    """Whether it gave its messages. Without them nothing is known of its tools: to have called none is no finding."""
    tools: tuple[ToolUse, ...] = ()
    """In order."""
    model_calls: int | None = None
    tokens: int | None = None
    """Input and output."""
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

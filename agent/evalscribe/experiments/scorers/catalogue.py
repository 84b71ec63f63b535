"""Built-in scorers by name: list them, validate their configuration, attach them, and order them by dependency."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from evalscribe.errors import DataError, UsageError
from evalscribe.experiments.scorers import assertions, json_scorers, text_scorers, trace_scorers
from evalscribe.experiments.scorers.definition import (
    AnyAlias,
    AnyKind,
    CannotScore,
    ScorerAlias,
    ScorerCheck,
    ScorerConfig,
    ScorerKind,
    error_result,
    validate_config,
)
from evalscribe.experiments.scorers.trace_scorers import ToolName, Tools
from evalscribe.ids import Frozen
from evalscribe.json_data import StrictJson
from evalscribe.model.score import Binding, ScoreResult, ScorerRequest, ScorerRunner, ScorerSpec


class OneTool(ScorerConfig):
    tool: ToolName
    """Name of the tool."""


class ManyTools(ScorerConfig):
    tools: Tools
    """Names of the tools, in order."""


class Trajectory(ScorerConfig):
    tools: tuple[ToolName, ...]
    """Names of the tools, in order."""
    mode: Literal["exact", "in_order", "any_order"] | None = None
    """How tool calls are matched; `exact` by default."""
    pattern: Literal["exact", "in_order", "any_order"] | None = None
    """Alternative name of `mode`."""

    @model_validator(mode="after")
    def _require_one_mode(self) -> "Trajectory":
        if self.mode and self.pattern and self.mode != self.pattern:
            raise ValueError("mode and pattern are names of the same setting, but have different values")
        return self


class ToolParams(ScorerConfig):
    tool: ToolName
    """Name of the tool."""
    params: dict[str, JsonValue]
    """Arguments that one call must have. The call can have other arguments, too."""


class Most(ScorerConfig):
    max: int = Field(ge=0)
    """Largest number that passes."""


class MostTime(ScorerConfig):
    max_ms: float = Field(ge=0)
    """Maximum duration of a trial that passes, in milliseconds."""


def _trajectory(config: Trajectory) -> Mapping[str, JsonValue]:
    return {config.mode or config.pattern or "exact": [*config.tools]}


def _params(config: ToolParams) -> Mapping[str, JsonValue]:
    return {"params": [{"tool": config.tool, "arguments": config.params, "mode": "subset"}]}


def _tool_alias(name: str, key: str, line: str) -> AnyAlias:
    return ScorerAlias(name, "tool_calls", line, OneTool, lambda config: {key: [config.tool]})


def _tools_alias(name: str, key: str, line: str) -> AnyAlias:
    return ScorerAlias(name, "tool_calls", line, ManyTools, lambda config: {key: [*config.tools]})


def _limit_alias(name: str, key: str, line: str) -> AnyAlias:
    return ScorerAlias(name, "limits", line, Most, lambda config: {key: config.max})


ALIASES: Mapping[str, AnyAlias] = {
    alias.name: alias
    for alias in (
        _tool_alias("tool_called", "called", "whether a tool was called"),
        _tool_alias("tool_not_called", "not_called", "whether a tool was not called"),
        _tools_alias(
            "tool_sequence", "in_order", "whether tools were called in this order, with others allowed between them"
        ),
        _tools_alias("tool_sequence_in_order", "in_order", "the same as tool_sequence"),
        _tools_alias("tool_sequence_exact", "exact", "whether exactly these calls were made, in this order"),
        _tools_alias(
            "tool_sequence_any_order", "any_order", "whether each tool was called, in any order, with others allowed"
        ),
        ScorerAlias(
            "tool_trajectory", "tool_calls", "whether the tools were called as mode requires", Trajectory, _trajectory
        ),
        ScorerAlias(
            "tool_params_match", "tool_calls", "whether a tool was called with these arguments", ToolParams, _params
        ),
        _limit_alias("max_tool_calls", "max_tool_calls", "whether the number of tool calls stayed within a limit"),
        _limit_alias("max_llm_calls", "max_model_calls", "whether the number of model calls stayed within a limit"),
        _limit_alias("max_lm_calls", "max_model_calls", "the same as max_llm_calls"),
        _limit_alias("max_tokens", "max_tokens", "whether the number of tokens stayed within a limit"),
        ScorerAlias(
            "duration_under",
            "limits",
            "whether the trial stayed within a time limit in milliseconds",
            MostTime,
            lambda config: {"max_duration_ms": config.max_ms},
        ),
    )
}

_PLANS = "keywords cannot tell whether a plan is good; ask a model with llm_judge, and use limits to bound the work"
_CRITERIA = "write the question as the criteria of llm_judge"
_STEPS = "traces do not contain steps; use tool_calls and limits"
REFUSED: Mapping[str, str] = {
    "plan_quality": _PLANS,
    "plan_adherence": _PLANS,
    "step_efficiency": "which steps are superfluous depends on the task; use limits, or tool_calls with exact",
    "tool_failure_recovered": "it would fail trials without a failed tool call; use no_errors or your own scorer",
    "goal_success": "it scores sessions, but scorers here see one item; use llm_judge, which sees the transcript",
    "agent_judge": "use llm_judge, which sees the transcript too",
    "trace_scorer": "use tool_calls, limits and no_errors",
    "event_sequence": _STEPS,
    "event_count": _STEPS,
    "step_memoized": _STEPS,
    **dict.fromkeys(("helpfulness", "coherence", "conciseness", "response_relevance"), _CRITERIA),
    **dict.fromkeys(("instruction_following", "refusal", "harmfulness", "stereotyping"), _CRITERIA),
}
"""Names of other products' scorers that evalscribe does not have, each with a hint on what to use instead."""


_WITHOUT_MODEL: tuple[AnyKind, ...] = (
    *text_scorers.TEXT_KINDS,
    *text_scorers.REGEX_KINDS,
    *json_scorers.JSON_KINDS,
    *json_scorers.JSON_SCHEMA_KINDS,
    *assertions.ASSERTION_KINDS,
    *trace_scorers.TOOL_CALL_KINDS,
    *trace_scorers.TRACE_KINDS,
)


class ScorerInfo(Frozen):
    """Description of a built-in scorer, for users who choose one."""

    name: str
    line: str
    """Description of the check."""
    of: str | None = None
    """Name of the scorer that this preset configures; None if this is not a preset."""
    aliases: tuple[str, ...] = ()
    needs_model: bool = False
    required: tuple[str, ...] = ()
    """Required keys of the scorer's config."""
    config_schema: dict[str, Any]
    """JSON Schema of the scorer's config."""


@cache
def scorer_kinds() -> Mapping[str, AnyKind]:
    """Return the kinds of scorers by name. Scorers that need a model come last."""
    from evalscribe.experiments.scorers.model_specs import CONFIGS, NAMES

    model_kinds = [ScorerKind(name, line, CONFIGS[name], None) for name, line in NAMES.items()]
    return {kind.name: kind for kind in (*_WITHOUT_MODEL, *model_kinds)}


def list_scorers() -> tuple[ScorerInfo, ...]:
    """Return the scorers, followed by their presets."""
    return (
        *(_scorer_info(kind) for kind in scorer_kinds().values()),
        *(_scorer_info(alias) for alias in ALIASES.values()),
    )


def is_reserved(name: str) -> bool:
    """Return whether a name is reserved. A user's scorer cannot have a reserved name."""
    return name in scorer_kinds() or name in ALIASES or name in REFUSED


def find_scorer(name: str) -> AnyKind | AnyAlias:
    """Return the scorer or preset with this name.

    Raises `UsageError` for an unknown name. The message says what to use instead.
    """
    if name in REFUSED:
        raise UsageError(f"scorer {name} does not exist: {REFUSED[name]}")
    kind = scorer_kinds().get(name) or ALIASES.get(name)
    if kind is None:
        matches = get_close_matches(name, (*scorer_kinds(), *ALIASES), n=3)
        suggestion = f"did you mean {' or '.join(matches)}?" if matches else f"scorers: {', '.join(scorer_kinds())}"
        raise UsageError(f"scorer {name[:80]!r} not found; {suggestion}")
    return kind


def _scorer_info(kind: AnyKind | AnyAlias) -> ScorerInfo:
    schema = kind.config.model_json_schema(by_alias=True)
    return ScorerInfo(
        name=kind.name,
        line=kind.line,
        of=kind.of if isinstance(kind, ScorerAlias) else None,
        aliases=tuple(alias.name for alias in ALIASES.values() if alias.of == kind.name),
        needs_model=isinstance(kind, ScorerKind) and kind.check is None,
        required=tuple(schema.get("required", ())),
        config_schema=schema,
    )


def scorer_spec(name: str, config: Mapping[str, JsonValue]) -> ScorerSpec:
    """Build the spec of a scorer that needs no model. `name` is the name of a scorer or preset.

    The spec's config has all defaults. Raises `UsageError` if the config is invalid. The message names the
    invalid key and the violated rule.
    """
    kind = find_scorer(name)
    checked_config = validate_config(kind.config, name, config)
    if isinstance(kind, ScorerAlias):
        checked_config = validate_config(scorer_kinds()[kind.of].config, name, kind.translate(checked_config))
        kind = scorer_kinds()[kind.of]
    if kind.check is None:
        raise UsageError(f"scorer {name} needs a model")
    # The config has all defaults, so that stating a default explicitly does not change the id.
    return ScorerSpec(
        name=name, scorer=kind.name, config=checked_config.model_dump(mode="json"), code=f"{kind.name}/{kind.version}"
    )


def scorer_runner(spec: ScorerSpec) -> ScorerRunner:
    """Return a runner for the scorer of a spec.

    Raises `UsageError` unless the spec is of a built-in scorer that needs no model.
    """
    kind = scorer_kinds().get(spec.scorer)
    if kind is None or kind.check is None:
        raise UsageError(f"scorer {spec.name} ({spec.scorer}) is not a built-in scorer that needs no model")
    return _Runner(spec.name, kind.check(validate_config(kind.config, spec.name, spec.config)))


@dataclass
class _Runner:
    name: str
    check: ScorerCheck
    depends_on: tuple[str, ...] = ()

    async def score(self, request: ScorerRequest) -> ScoreResult:
        """Run the check. Only this method converts errors that concern a single item into results."""
        try:
            return await self.check(request)
        except CannotScore as error:
            return error_result(error)
        except RecursionError:
            return error_result(
                CannotScore("input_error", "the values of this item are nested too deeply to be compared")
            )
        except OverflowError:  # For example, `multipleOf` raises it for 10**400.
            return error_result(CannotScore("input_error", "a number of this item is too large to be compared"))

    async def close(self) -> None:
        await self.check.close()


Specify = Callable[[str, Mapping[str, JsonValue]], ScorerSpec]


class AttachedScorer(ScorerConfig):
    """JSON that attaches a built-in scorer."""

    name: str
    """Name of the scorer."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    as_: str | None = Field(default=None, alias="as", pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,79}$")
    """Name of the scorer in this experiment. A name is needed if a scorer is attached twice."""
    required: bool = True
    """Whether an item must pass this scorer."""
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    """Minimum value that passes. This threshold replaces the scorer's own rule."""


def parse_binding(text: str, specify: Specify = scorer_spec) -> Binding:
    """Parse a text that attaches a built-in scorer.

    The text is a `NAME`, or JSON with `name`, `config`, `as`, `required` and `threshold`. `specify` builds the spec.
    Raises `UsageError` if the text is invalid.
    """
    attached = _parse_attached(text.strip())
    spec = specify(attached.name, attached.config)
    if attached.as_ is not None:
        if attached.as_ != attached.name and is_reserved(attached.as_):
            raise UsageError(f"scorer {attached.name}: as: {attached.as_} is already the name of a scorer")
        spec = spec.model_copy(update={"name": attached.as_})
    return Binding(spec=spec, required=attached.required, threshold=attached.threshold)


def _parse_attached(text: str) -> AttachedScorer:
    if not text.startswith("{"):
        return AttachedScorer(name=text)
    try:
        value = StrictJson().decode(text)
    except DataError as error:
        raise UsageError(f"scorer {text[:60]}: {error}") from error
    assert isinstance(value, dict)  # The text begins with `{`.
    return validate_config(AttachedScorer, str(value.get("name", "without a name"))[:80], value)


def order_bindings(bindings: Sequence[Binding]) -> tuple[Binding, ...]:
    """Return the bindings in the given order, except that each is moved behind the bindings that it depends on.

    Raises `UsageError` for duplicate names, missing dependencies and cycles.
    """
    names = [binding.spec.name for binding in bindings]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f'two scorers are called {duplicate}: give one of the two another name, {{"name": …, "as": "another-name"}}'
        )
    _check_dependencies(bindings, names)
    ordered: dict[str, Binding] = {}
    while remaining := [binding for binding in bindings if binding.spec.name not in ordered]:
        next_binding = next(
            (binding for binding in remaining if all(name in ordered for name in binding.spec.depends_on)), None
        )
        if next_binding is None:
            cycle = ", ".join(binding.spec.name for binding in remaining)
            raise UsageError(f"scorers have a cyclic dependency: {cycle}")
        ordered[next_binding.spec.name] = next_binding
    return tuple(ordered.values())


def _check_dependencies(bindings: Sequence[Binding], names: Sequence[str]) -> None:
    for binding in bindings:
        missing = [name for name in binding.spec.depends_on if name not in names]
        if missing:
            raise UsageError(
                f"scorer {binding.spec.name} depends on {missing[0]}, which is not attached: "
                f"give `builtin_scorer` {missing[0]} or `scorer_id` {missing[0]}",
                fields=(
                    "builtin_scorer",
                    "scorer_id",
                ),
            )

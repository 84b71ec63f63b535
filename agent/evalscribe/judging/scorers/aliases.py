"""Other names for settings of the scorers that there are, and names that stay refused, each with the reason."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from evalscribe.judging.scorers.kind import Alias, AnyAlias, Configured
from evalscribe.judging.scorers.tool_calls import ToolName, Tools


class OneTool(Configured):
    tool: ToolName
    """Name of the tool."""


class ManyTools(Configured):
    tools: Tools
    """Names of the tools, in order."""


class Trajectory(Configured):
    tools: tuple[ToolName, ...]
    """Names of the tools, in order."""
    mode: Literal["exact", "in_order", "any_order"] | None = None
    """What must hold of them; `exact` by default."""
    pattern: Literal["exact", "in_order", "any_order"] | None = None
    """The same as `mode`."""

    @model_validator(mode="after")
    def _one(self) -> "Trajectory":
        if self.mode and self.pattern and self.mode != self.pattern:
            raise ValueError("mode and pattern are the same setting, and they differ")
        return self


class ToolParams(Configured):
    tool: ToolName
    """Name of the tool."""
    params: dict[str, JsonValue]
    """Arguments that one call must have; it may have others."""


class Most(Configured):
    max: int = Field(ge=0)
    """The most that passes."""


class MostTime(Configured):
    max_ms: float = Field(ge=0)
    """The most that passes, in milliseconds."""


def _trajectory(config: Trajectory) -> Mapping[str, JsonValue]:
    return {config.mode or config.pattern or "exact": [*config.tools]}


def _params(config: ToolParams) -> Mapping[str, JsonValue]:
    return {"params": [{"tool": config.tool, "arguments": config.params, "mode": "subset"}]}


def _tool(name: str, key: str, line: str) -> AnyAlias:
    return Alias(name, "tool_calls", line, OneTool, lambda config: {key: [config.tool]})


def _tools(name: str, key: str, line: str) -> AnyAlias:
    return Alias(name, "tool_calls", line, ManyTools, lambda config: {key: [*config.tools]})


def _most(name: str, key: str, line: str) -> AnyAlias:
    return Alias(name, "limits", line, Most, lambda config: {key: config.max})


ALIASES: Mapping[str, AnyAlias] = {
    alias.name: alias
    for alias in (
        _tool("tool_called", "called", "whether a tool was called"),
        _tool("tool_not_called", "not_called", "whether a tool was not called"),
        _tools("tool_sequence", "in_order", "whether tools were called in this order, others between them"),
        _tools("tool_sequence_in_order", "in_order", "the same as tool_sequence"),
        _tools("tool_sequence_exact", "exact", "whether these calls were made, in this order, and no others"),
        _tools("tool_sequence_any_order", "any_order", "whether each was called, in any order, others too"),
        Alias("tool_trajectory", "tool_calls", "a sequence of tools by mode", Trajectory, _trajectory),
        Alias("tool_params_match", "tool_calls", "whether a call of a tool had these arguments", ToolParams, _params),
        _most("max_tool_calls", "max_tool_calls", "at most so many calls of tools"),
        _most("max_llm_calls", "max_model_calls", "at most so many calls of models"),
        _most("max_lm_calls", "max_model_calls", "the same as max_llm_calls"),
        _most("max_tokens", "max_tokens", "at most so many tokens"),
        Alias(
            "duration_under",
            "limits",
            "at most so many milliseconds",
            MostTime,
            lambda config: {"max_duration_ms": config.max_ms},
        ),
    )
}

_PLANS = "it would guess at plans by keywords; ask a model with llm_judge, and bound the work with limits"
_CRITERIA = "write what it should ask as the criteria of llm_judge"
_STEPS = "steps are told by no trace here; use tool_calls and limits"
REFUSED: Mapping[str, str] = {
    "plan_quality": _PLANS,
    "plan_adherence": _PLANS,
    "step_efficiency": "which steps are superfluous depends on the task; use limits, or tool_calls with exact",
    "tool_failure_recovered": "it fails where no tool failed, which is no fault; use no_errors or a scorer of your own",
    "goal_success": "it judges sessions, and there are items here; use llm_judge, which is shown the transcript",
    "agent_judge": "llm_judge is shown the transcript too; use it",
    "trace_scorer": "use tool_calls, limits and no_errors",
    "event_sequence": _STEPS,
    "event_count": _STEPS,
    "step_memoized": _STEPS,
    **dict.fromkeys(("helpfulness", "coherence", "conciseness", "response_relevance"), _CRITERIA),
    **dict.fromkeys(("instruction_following", "refusal", "harmfulness", "stereotyping"), _CRITERIA),
}
"""Names that other tools have, and what to use in their place."""

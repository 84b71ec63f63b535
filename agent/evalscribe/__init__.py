"""evalscribe tells you why a model failed an eval run, and whose fault it was.

The names of the SDK are imported when they are first used: `import evalscribe` alone loads nothing.
"""

TYPE_CHECKING = False  # type checkers take it for true; `typing` alone would take ten times as long as all this
if TYPE_CHECKING:
    from evalscribe.agent_run import AgentRun, AssistantMessage, SystemMessage, ToolMessage, Transcript, UserMessage
    from evalscribe.client import BaseLLMService, Client, build_judge
    from evalscribe.custom_scorer import ScorerContext, scorer
    from evalscribe.judge_result import JudgeResult, ResultType
    from evalscribe.judging.rubric.cited import JudgeResultWithCitations
    from evalscribe.llm_request import AgentRunRef, LLMRequest, Prompt, ResultRef, TranscriptRef
    from evalscribe.rubric import ModelOption, OutputParsingMode, PromptTemplateMessage, Rubric
    from evalscribe.score import ScoreResult, ScorerRequest

__version__ = "0.1.0"
__all__ = [
    "AgentRun",
    "AgentRunRef",
    "AssistantMessage",
    "BaseLLMService",
    "Client",
    "JudgeResult",
    "JudgeResultWithCitations",
    "LLMRequest",
    "ModelOption",
    "OutputParsingMode",
    "Prompt",
    "PromptTemplateMessage",
    "ResultRef",
    "ResultType",
    "Rubric",
    "ScoreResult",
    "ScorerContext",
    "ScorerRequest",
    "SystemMessage",
    "ToolMessage",
    "Transcript",
    "TranscriptRef",
    "UserMessage",
    "__version__",
    "build_judge",
    "scorer",
]
_HOMES = {
    "agent_run": ("AgentRun", "AssistantMessage", "SystemMessage", "ToolMessage", "Transcript", "UserMessage"),
    "client": ("BaseLLMService", "Client", "build_judge"),
    "custom_scorer": ("ScorerContext", "scorer"),
    "judge_result": ("JudgeResult", "ResultType"),
    "judging.rubric.cited": ("JudgeResultWithCitations",),
    "llm_request": ("AgentRunRef", "LLMRequest", "Prompt", "ResultRef", "TranscriptRef"),
    "rubric": ("ModelOption", "OutputParsingMode", "PromptTemplateMessage", "Rubric"),
    "score": ("ScoreResult", "ScorerRequest"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

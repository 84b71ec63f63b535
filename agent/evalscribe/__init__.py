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
_ADDRESSES = (
    "evalscribe.agent_run.AgentRun",
    "evalscribe.agent_run.AssistantMessage",
    "evalscribe.agent_run.SystemMessage",
    "evalscribe.agent_run.ToolMessage",
    "evalscribe.agent_run.Transcript",
    "evalscribe.agent_run.UserMessage",
    "evalscribe.client.BaseLLMService",
    "evalscribe.client.Client",
    "evalscribe.client.build_judge",
    "evalscribe.custom_scorer.ScorerContext",
    "evalscribe.custom_scorer.scorer",
    "evalscribe.judge_result.JudgeResult",
    "evalscribe.judge_result.ResultType",
    "evalscribe.judging.rubric.cited.JudgeResultWithCitations",
    "evalscribe.llm_request.AgentRunRef",
    "evalscribe.llm_request.LLMRequest",
    "evalscribe.llm_request.Prompt",
    "evalscribe.llm_request.ResultRef",
    "evalscribe.llm_request.TranscriptRef",
    "evalscribe.rubric.ModelOption",
    "evalscribe.rubric.OutputParsingMode",
    "evalscribe.rubric.PromptTemplateMessage",
    "evalscribe.rubric.Rubric",
    "evalscribe.score.ScoreResult",
    "evalscribe.score.ScorerRequest",
)
_MODULES = {address.rpartition(".")[2]: address.rpartition(".")[0] for address in _ADDRESSES}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

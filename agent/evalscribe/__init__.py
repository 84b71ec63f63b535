"""evalscribe explains why a model failed an eval run, and who is responsible.

Each name of the SDK is imported when it is first used, so `import evalscribe` alone loads no other module.
"""

TYPE_CHECKING = False  # type checkers assume True; importing `typing` takes ten times as long as this module
if TYPE_CHECKING:
    from evalscribe.client.client import Client
    from evalscribe.client.service import BaseLLMService, build_judge
    from evalscribe.experiments.scorers.custom_scorer import ScorerContext, scorer
    from evalscribe.judging.rubric_judge import JudgeResultWithCitations
    from evalscribe.model.result import (
        AgentRunRef,
        JudgeResult,
        LLMRequest,
        Prompt,
        ResultRef,
        ResultType,
        TranscriptRef,
    )
    from evalscribe.model.rubric import ModelOption, OutputParsingMode, PromptTemplateMessage, Rubric
    from evalscribe.model.score import ScoreResult, ScorerRequest
    from evalscribe.model.transcript import (
        AgentRun,
        AssistantMessage,
        SystemMessage,
        ToolMessage,
        Transcript,
        UserMessage,
    )

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
    "evalscribe.model.transcript.AgentRun",
    "evalscribe.model.transcript.AssistantMessage",
    "evalscribe.model.transcript.SystemMessage",
    "evalscribe.model.transcript.ToolMessage",
    "evalscribe.model.transcript.Transcript",
    "evalscribe.model.transcript.UserMessage",
    "evalscribe.client.service.BaseLLMService",
    "evalscribe.client.client.Client",
    "evalscribe.client.service.build_judge",
    "evalscribe.experiments.scorers.custom_scorer.ScorerContext",
    "evalscribe.experiments.scorers.custom_scorer.scorer",
    "evalscribe.model.result.JudgeResult",
    "evalscribe.model.result.ResultType",
    "evalscribe.judging.rubric_judge.JudgeResultWithCitations",
    "evalscribe.model.result.AgentRunRef",
    "evalscribe.model.result.LLMRequest",
    "evalscribe.model.result.Prompt",
    "evalscribe.model.result.ResultRef",
    "evalscribe.model.result.TranscriptRef",
    "evalscribe.model.rubric.ModelOption",
    "evalscribe.model.rubric.OutputParsingMode",
    "evalscribe.model.rubric.PromptTemplateMessage",
    "evalscribe.model.rubric.Rubric",
    "evalscribe.model.score.ScoreResult",
    "evalscribe.model.score.ScorerRequest",
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

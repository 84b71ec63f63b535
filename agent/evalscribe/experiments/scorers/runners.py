"""Runners of two kinds of scorers: scorers that ask a model, and users' functions that run in another process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import JsonValue, ValidationError

from evalscribe.errors import EvalscribeError
from evalscribe.experiments.python_host import HostReply, PythonHost
from evalscribe.experiments.scorers.custom_scorer import BoundRequest, parse_result
from evalscribe.experiments.scorers.definition import CannotScore, error_result
from evalscribe.experiments.scorers.model_specs import CONFIGS, Config, item_subject, label_key, label_text
from evalscribe.judging.rubric_judge import JudgeResultWithCitations, RubricJudge
from evalscribe.judging.subjects import Subject
from evalscribe.model.chat import Usage
from evalscribe.model.output_schema import cited_strings
from evalscribe.model.result import CitedText, JudgeResult, ResultType
from evalscribe.model.score import ScoreResult, ScorerRequest, ScorerSpec
from evalscribe.redaction.redact import redact, redact_json

EXPLAINING = ("explanation", "reasoning", "why")
"""Names of the answer fields that can contain the reason, in order of preference."""
LONGEST_REASON = 300


class ModelScorer:
    """`ScorerRunner` of a scorer that asks a model to judge by a rubric."""

    def __init__(self, spec: ScorerSpec, judge: RubricJudge, is_cached: Callable[[JudgeResult], bool]) -> None:
        """Create the runner. `is_cached` returns whether a result came from the cache and therefore cost nothing."""
        self.name = spec.name
        self.depends_on = spec.depends_on
        self._judge = judge
        self._is_cached = is_cached
        self._config = _config(spec)
        self._key = label_key(judge.rubric.output_schema, judge.rubric.id)
        self._scores = _numbers(spec.config["choice_scores"])
        self._threshold = _number(spec.config["threshold"])

    async def score(self, request: ScorerRequest) -> ScoreResult:
        """Score one trial. An error that concerns only this item becomes a result.

        Raises `EvalscribeError` for errors that affect all items. No other method converts exceptions into results.
        """
        try:
            subject = item_subject(self._config.parts, request, self._config.optional_parts)
            return self._result(await self._judge.judge(subject), subject)
        except CannotScore as error:
            return error_result(error)
        except EvalscribeError:  # It concerns all items, such as a key that the provider refuses.
            raise
        except Exception as error:
            message = " ".join(redact(str(error)).split())
            reason = f"the judge broke: {type(error).__name__}: {message}"[:LONGEST_REASON]
            return error_result(CannotScore("scorer_error", reason))

    async def close(self) -> None:
        """Do nothing. The owner of the models closes them."""

    def _result(self, result: JudgeResult, subject: Subject) -> ScoreResult:
        fields = {
            "usage": Usage() if self._is_cached(result) else result.usage,
            "output": self._raw_output(result, subject),
        }
        metadata = self._metadata(result)
        if result.result_type is ResultType.FAILURE:
            error = CannotScore("provider_error", result.reason or "the judge gave no answer")
            return error_result(error).model_copy(update={**fields, "metadata": metadata})
        label = label_text(result.output[self._key])
        value = self._scores[label]
        return ScoreResult(
            value=value,
            passed=value >= self._threshold,
            label=label,
            explanation=_explanation(result.output, self._judge.rubric.output_schema) or f"{self._key}: {label}",
            evidence=self._citations(result, subject),
            metadata=metadata,
            **fields,
        )

    def _raw_output(self, result: JudgeResult, subject: Subject) -> JsonValue:
        """Return the question's content id, the model's unparsed answers, and the parsed output."""
        rollouts = (result.result_metadata or {}).get("rollouts", [])
        return {
            "question": self._judge.key(subject),
            "answers": [rollout["full_output"] for rollout in rollouts],
            "output": result.output,
        }

    def _metadata(self, result: JudgeResult) -> dict[str, JsonValue]:
        votes = (result.result_metadata or {}).get("votes")
        return {
            "judge": result.judge,
            "rubric": f"{result.rubric_id}@{result.rubric_version}",
            "rubric_digest": self._judge.rubric.digest,
            "citations": result.citations.model_dump(mode="json"),
            "known": self._is_cached(result),
            **({"confidence": result.confidence, "votes": votes} if result.confidence is not None else {}),
        }

    def _citations(self, result: JudgeResult, subject: Subject) -> JsonValue:
        """Return every citation with its field, status and target."""
        schema = self._judge.rubric.output_schema
        output = JudgeResultWithCitations.from_judge_result(result, schema, subject).output
        return [
            {"field": ".".join(map(str, path)), **citation.model_dump(mode="json", exclude_none=True)}
            for path, _ in cited_strings(result.output, schema)
            for citation in CitedText.model_validate(_value_at(output, path)).citations
        ]


def _config(spec: ScorerSpec) -> Config:
    # Not validated again, because the config was validated when the spec was built.
    config: dict[str, Any] = spec.config
    return CONFIGS[spec.scorer].model_construct(**config)


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value


def _explanation(output: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the reason that an answer gives.

    The reason is the text of a field in `EXPLAINING`, else the first text with citations, else the first text.
    """
    cited_texts = [text for _, text in cited_strings(output, schema)]
    fields = schema["properties"]
    texts = [text for key, text in output.items() if isinstance(text, str) and "enum" not in fields.get(key, {})]
    reasons = [output[name] for name in EXPLAINING if isinstance(output.get(name), str)]
    return next((text for text in (*reasons, *cited_texts, *texts) if text.strip()), "")


def _number(value: JsonValue) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _numbers(value: JsonValue) -> dict[str, float]:
    assert isinstance(value, dict)
    return {label: _number(score) for label, score in value.items()}


class CustomScorer:
    """`ScorerRunner` of a function with the decorator `@scorer`."""

    def __init__(self, spec: ScorerSpec, host: PythonHost, timeout_s: float) -> None:
        self.name = spec.name
        self.depends_on = spec.depends_on
        self._address = spec.address or ""
        self._config = spec.config
        self._host = host
        self._timeout_s = timeout_s

    async def score(self, request: ScorerRequest) -> ScoreResult:
        payload = BoundRequest(**dict(request), config=self._config).model_dump(mode="json")
        reply = await self._host.call(self._address, "scorer", payload, self._timeout_s)
        result = _parse_reply(reply)
        log: Mapping[str, JsonValue] = {"log": reply.log} if reply.log else {}
        return result.model_copy(update={"metadata": {**result.metadata, **log}})

    async def close(self) -> None:
        """Do nothing. The owner of the process ends it."""


def _parse_reply(reply: HostReply) -> ScoreResult:
    if reply.error is not None:
        kind: Literal["timeout_error", "scorer_error"] = "timeout_error" if reply.timed_out else "scorer_error"
        result = error_result(CannotScore(kind, f"the scorer broke: {reply.error}"))
        return result.model_copy(update={"evidence": {"traceback": reply.traceback} if reply.traceback else None})
    try:
        # Checked again, because the reply comes from a process that runs the user's code.
        return parse_result(ScoreResult.model_validate(redact_json(reply.value)))
    except ValidationError:
        return error_result(CannotScore("scorer_error", "the scorer broke: its process returned no score"))

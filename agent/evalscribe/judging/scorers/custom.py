"""Scorers of the user's own, ready to score: each is called in another process, which is not ours to trust."""

from collections.abc import Mapping
from typing import Literal, Protocol

from pydantic import JsonValue, ValidationError

from evalscribe.experiments.scorers.custom_scorer import BoundRequest, parse_result
from evalscribe.judging.scorers.result import CannotScore, broken
from evalscribe.model.score import ScoreResult, ScorerRequest, ScorerSpec
from evalscribe.redaction.redact import redact_json


class Answer(Protocol):
    """How a call of a function ended."""

    @property
    def value(self) -> JsonValue: ...
    @property
    def error(self) -> str | None: ...
    @property
    def traceback(self) -> str: ...
    @property
    def log(self) -> str: ...
    @property
    def timed_out(self) -> bool: ...


class Caller(Protocol):
    """Calls functions in another process; what goes wrong there is an answer."""

    async def call(self, address: str, kind: Literal["scorer"], payload: JsonValue, timeout_s: float) -> Answer:
        """Raises `EvalscribeError` for what concerns all calls."""


class CustomScorer:
    """`ScorerRunner` of a decorated function."""

    def __init__(self, spec: ScorerSpec, caller: Caller, timeout_s: float) -> None:
        self.name = spec.name
        self.depends_on = spec.depends_on
        self._address = spec.address or ""
        self._config = spec.config
        self._caller = caller
        self._timeout_s = timeout_s

    async def score(self, request: ScorerRequest) -> ScoreResult:
        asked = BoundRequest(**dict(request), config=self._config).model_dump(mode="json")
        answer = await self._caller.call(self._address, "scorer", asked, self._timeout_s)
        result = _read(answer)
        printed: Mapping[str, JsonValue] = {"log": answer.log} if answer.log else {}
        return result.model_copy(update={"metadata": {**result.metadata, **printed}})

    async def close(self) -> None:
        """Its process is ended with the others."""


def _read(answer: Answer) -> ScoreResult:
    if answer.error is not None:
        kind: Literal["timeout_error", "scorer_error"] = "timeout_error" if answer.timed_out else "scorer_error"
        said = broken(CannotScore(kind, f"the scorer broke: {answer.error}"))
        return said.model_copy(update={"evidence": {"traceback": answer.traceback} if answer.traceback else None})
    try:
        return parse_result(ScoreResult.model_validate(redact_json(answer.value)))
    except ValidationError:
        return broken(CannotScore("scorer_error", "the scorer broke: its process gave no score"))

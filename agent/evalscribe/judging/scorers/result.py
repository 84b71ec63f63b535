"""What a check of a scorer ends with: a judgement, or the reason why there can be none."""

from collections.abc import Mapping

from pydantic import JsonValue

from evalscribe.model.score import ScoreErrorType, ScoreResult


class CannotScore(Exception):
    """What a check needs is not there or not usable: neither passed nor failed."""

    def __init__(self, error_type: ScoreErrorType, reason: str) -> None:
        super().__init__(reason)
        self.error_type = error_type
        self.reason = reason


def judged(
    passed: bool,
    explanation: str,
    *,
    label: str,
    value: float | None = None,
    evidence: JsonValue = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> ScoreResult:
    """`value` is 1 or 0 where none is given."""
    return ScoreResult(
        value=float(passed) if value is None else value,
        passed=passed,
        label=label,
        explanation=explanation,
        evidence=evidence,
        metadata=dict(metadata or {}),
    )


def broken(error: CannotScore) -> ScoreResult:
    return ScoreResult(status="error", error_type=error.error_type, explanation=error.reason)

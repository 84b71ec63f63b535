"""Stages of a cascade of judges, and what they saved."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from evalscribe import text
from evalscribe.ids import Frozen

Stage = Literal["rules", "tag", "judge"]
"""Free rules, one call of a cheap model that tags, an expensive model with a rubric of its own."""
STAGES: tuple[Stage, ...] = ("rules", "tag", "judge")
Amount = Annotated[float, Field(ge=0, le=1e12)]


class Tag(Frozen):
    """An issue that a cheap model looks out for, and the rubric by which an expensive one then decides."""

    name: str
    about: str
    """What it means, for the model that tags."""
    rubric: str
    """`NAME` or `NAME@VERSION`."""


class CascadeParts(Frozen):
    """All that decides what a cascade says, as it was when somebody chose it."""

    tag: str
    """The cheap model, `provider/name`."""
    judge: str
    """The expensive one."""
    rules: bool
    """Whether the rules decide first (failures only)."""
    tags: tuple[Tag, ...] = ()
    """Their rubrics as `NAME@VERSION`."""


class JudgeShare(Frozen):
    """How many failed evals one judge of a cascade had the last word on."""

    judge: text.Name
    evals: Annotated[int, Field(ge=1)]


class CascadeSaving(Frozen):
    """What a cascade took for a run, beside asking its expensive model about every failure."""

    decided: tuple[JudgeShare, ...]
    """In the order of the stages; failures without a verdict are in none."""
    unit: Literal["usd", "tokens"] = "usd"
    """Tokens where a model has no price."""
    spent: Amount
    saved: Amount
    """By the estimate for what the expensive model was spared; 0 where the cascade cost more."""
    against: text.Name
    """The expensive model."""

    @field_validator("spent", "saved")
    @classmethod
    def _as_printed(cls, amount: float, info: ValidationInfo) -> float:
        """Cents, or whole tokens."""
        return round(amount, 2) if info.data.get("unit") == "usd" else float(round(amount))

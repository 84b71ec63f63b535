"""Stages of a cascade of judges, and the cost that the cascade saved."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from evalscribe import text
from evalscribe.ids import Frozen

Stage = Literal["rules", "tag", "judge"]
"""`rules`: the free rules. `tag`: a cheap model that tags issues. `judge`: an expensive model with a rubric."""
STAGES: tuple[Stage, ...] = ("rules", "tag", "judge")
Amount = Annotated[float, Field(ge=0, le=1e12)]


class Tag(Frozen):
    """An issue that the cheap model looks for, and the rubric that the expensive model then applies."""

    name: str
    about: str
    """Meaning of the tag, for the model that tags."""
    rubric: str
    """`NAME` or `NAME@VERSION`."""


class CascadeParts(Frozen):
    """A copy of everything that determines a cascade's verdicts, made when the cascade was chosen."""

    tag: str
    """The cheap model, `provider/name`."""
    judge: str
    """The expensive model, `provider/name`."""
    rules: bool
    """Whether the rules judge first. They judge only failures."""
    tags: tuple[Tag, ...] = ()
    """The tags, with rubrics as `NAME@VERSION`."""


class JudgeShare(Frozen):
    """Number of failed evals that one judge of a cascade decided."""

    judge: text.Name
    evals: Annotated[int, Field(ge=1)]


class CascadeSaving(Frozen):
    """Cost of a cascade for a run, compared with asking its expensive model about every failure."""

    decided: tuple[JudgeShare, ...]
    """Number of evals that each judge decided, in the order of the stages. Evals without a verdict do not count."""
    unit: Literal["usd", "tokens"] = "usd"
    """`tokens` if a model has no known price."""
    spent: Amount
    saved: Amount
    """Estimated savings from failures that the expensive model did not have to judge; 0 if the cascade cost more."""
    against: text.Name
    """The expensive model."""

    @field_validator("spent", "saved")
    @classmethod
    def _as_printed(cls, amount: float, info: ValidationInfo) -> float:
        """Round dollars to cents, and tokens to whole numbers."""
        return round(amount, 2) if info.data.get("unit") == "usd" else float(round(amount))

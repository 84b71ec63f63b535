"""Describe the stages of a cascade of judges, and the cost that the cascade saved."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from evalscribe import text
from evalscribe.ids import Frozen

Stage = Literal["rules", "tag", "judge"]
"""Stage of a cascade. `rules`: the rules engine, which is free. `tag`: a cheap model that tags issues. `judge`: an
expensive model that applies a rubric."""
STAGES: tuple[Stage, ...] = ("rules", "tag", "judge")
Amount = Annotated[float, Field(ge=0, le=1e12)]


class Tag(Frozen):
    """An issue that the cheap model looks for, and the rubric that the expensive model then applies."""

    name: str
    about: str
    """Description of the tag's meaning for the model that tags issues."""
    rubric: str
    """The rubric that the expensive model applies, as `NAME` or `NAME@VERSION`."""


class CascadeParts(Frozen):
    """A copy of everything that determines a cascade's verdicts. The copy is made when the cascade is chosen."""

    tag: str
    """The cheap model, as `provider/name`."""
    judge: str
    """The expensive model, as `provider/name`."""
    rules: bool
    """Whether the rules engine judges first. The rules engine judges only failures."""
    tags: tuple[Tag, ...] = ()
    """The tags. Their rubrics are given as `NAME@VERSION`."""


class JudgeShare(Frozen):
    """Number of failed evals that one judge of a cascade gave verdicts on."""

    judge: text.Name
    evals: Annotated[int, Field(ge=1)]


class CascadeSaving(Frozen):
    """Cost of a cascade for a run, compared with the cost of asking the expensive model about every failure."""

    decided: tuple[JudgeShare, ...]
    """Number of evals that each judge gave verdicts on, in the order of the stages. Evals without a verdict are not
    counted."""
    unit: Literal["usd", "tokens"] = "usd"
    """Unit of the costs and savings. It is `tokens` if the price of a model is unknown."""
    spent: Amount
    saved: Amount
    """Estimated amount saved because the expensive model did not have to judge every failure; 0 if the cascade cost
    more."""
    against: text.Name
    """The expensive model. The cascade's cost is compared with the cost of asking only this model."""

    @field_validator("spent", "saved")
    @classmethod
    def _as_printed(cls, amount: float, info: ValidationInfo) -> float:
        """Round an amount in dollars to cents, and a number of tokens to a whole number."""
        return round(amount, 2) if info.data.get("unit") == "usd" else float(round(amount))

"""The evidence of a failed eval apart from its run, as an item of a dataset holds it for a judge under test."""

from typing import cast

from pydantic import JsonValue, ValidationError

from evalscribe.errors import DataError
from evalscribe.evidence import Evidence
from evalscribe.ids import Frozen
from evalscribe.prose import one_line
from evalscribe.run import Run


class FrozenEvidence(Frozen):
    """What a judge is shown; nothing of it changes when the run is read or analysed again."""

    evidence: Evidence
    """Without the page of its eval, which depends on where it is looked at."""
    provider: str
    model: str
    experiment: str = "default"

    @classmethod
    def of(cls, run: Run, evidence: Evidence) -> "FrozenEvidence":
        eval = evidence.eval.model_copy(update={"url": None})
        frozen = evidence.model_copy(update={"eval": eval})
        return cls(evidence=frozen, provider=run.provider, model=run.model, experiment=run.experiment)

    @classmethod
    def read(cls, value: object) -> "FrozenEvidence":
        """What `written` gave. Raises `DataError` saying what is wrong with anything else."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            told = f"{place}: {first['msg']}" if place else first["msg"]
            raise DataError(f"no evidence of a failed eval: {one_line(told)}") from None

    @property
    def written(self) -> JsonValue:
        """As an item's input."""
        return cast(JsonValue, self.model_dump(mode="json", exclude_defaults=True))

"""Judges by rubrics, with the models and the memory that they work with."""

from dataclasses import dataclass
from typing import Protocol

from evalscribe.judging.rubric.judge import TIMEOUT_S, Hear, Results, RubricJudge
from evalscribe.ports import Model, Models
from evalscribe.prompts import Prompts
from evalscribe.rubric import Rubric
from evalscribe.wiring.models import cost_of


class Hearing(Protocol):
    """Who hears subjects in place of this process."""

    def hear(self, rubric: Rubric, model: Model) -> Hear: ...


@dataclass(frozen=True)
class Maker:
    """Makes judges that work with the same models and the same memory."""

    models: Models
    prompts: Prompts
    """By whose templates a subject beyond the window is read."""
    results: Results | None = None
    """Where results are kept."""
    fresh: bool = False
    """Ask again, whatever is known."""
    batch: bool = False
    """Calls wait for a batch: at its price, and as long as it takes."""
    afar: Hearing | None = None
    """None: subjects are heard here."""

    def judge(self, rubric: Rubric, model: Model) -> RubricJudge:
        return RubricJudge(
            rubric,
            model,
            results=self.results,
            observer=self.models.open(model.id, "observe"),
            cost=cost_of(model, batch=self.batch),
            timeout_s=None if self.batch else TIMEOUT_S,
            fresh=self.fresh,
            prompts=self.prompts,
            afar=self.afar.hear(rubric, model) if self.afar else None,
        )

    def by_model(self, rubric: Rubric, name: str | None = None) -> RubricJudge:
        """By the rubric's own model where no other is named. Raises as `Models.open` does."""
        return self.judge(rubric, self.models.open(name or rubric.judge_model.id, "judge"))

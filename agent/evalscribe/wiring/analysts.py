"""Who judges the failures of a run: the rules, a model by a rubric, or a cascade of both."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evalscribe.app.rubrics import outdated, stored
from evalscribe.cascade import Tag
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.judging.cascade import CaseCascade, SubjectCascade
from evalscribe.judging.classifier import Bounds, FirstPass, ModelJudge
from evalscribe.judging.classifier.first_pass import SECONDS
from evalscribe.judging.failure_rubric import DEFAULT, shipped_rubric
from evalscribe.judging.rules import RulesJudge
from evalscribe.ports import Judge, Model, Models, Shelf, Store
from evalscribe.prompts import Prompts
from evalscribe.rubric import Rubric
from evalscribe.rubric_file import load_rubric
from evalscribe.settings import Settings
from evalscribe.settings.place import COMMAND_LINE
from evalscribe.wiring.afar import Afar, Seat
from evalscribe.wiring.models import RULES, cost_of, judge_model, judge_name

if TYPE_CHECKING:
    from evalscribe.judging.rubric.judge import RubricJudge

FOR_ANALYSES = (
    Tag(
        name="unfair-check",
        about="the check, lint rule or grader that failed may be stricter than the task, or broken",
        rubric="unfair-check",
    ),
)
"""What is tagged where evalscribe.toml names no tags."""


@dataclass(frozen=True)
class Analyst:
    """A judge of failures, and what has to be said of it."""

    judge: Judge
    cascade: CaseCascade | None = None
    own_prompts: bool = False
    notes: tuple[str, ...] = ()


class Bench:
    """Makes judges out of stored rubrics and remembers what there is to say of them."""

    def __init__(
        self,
        found: Settings,
        asked: Models,
        shelf: Callable[[], Shelf],
        *,
        batch: bool = False,
        afar: Afar | None = None,
    ) -> None:
        """`shelf` is called when the first rubric is needed: a missing key is told before a store is made.

        `batch`: answers come at half the price, and may take a day. `afar`: who decides in place of this process.
        """
        self.prompts = Prompts(found.root)
        self._found = found
        self._asked = asked
        self._open_shelf = shelf
        self._batch = batch
        self._afar = afar
        self._rubrics: list[Rubric] = []
        self._notes: list[str] = []

    def models(self, *, cascade: bool) -> tuple[Model, ...]:
        """Who is asked: nobody where the rules judge, one model, or a cascade's cheap and expensive one.

        Raises `EvalscribeError` where one of them cannot be asked.
        """
        if cascade:
            expensive = judge_model(self._asked, self._expensive())
            return self._asked.open(self._found.cascade.tag, "tag"), expensive
        name = judge_name(self._found)
        if name != RULES:
            return (judge_model(self._asked, name),)
        if self._batch:
            raise UsageError("--batch asks a model: name one with --judge anthropic/MODEL")
        return ()

    def analyst(self, models: tuple[Model, ...], rubric: str | None, kept: Store, *, fresh: bool) -> Analyst:
        """A judge of failures over these `models`. Raises `UsageError` for a rubric that judges none."""
        if not models:
            if rubric is not None:
                raise UsageError("--rubric needs a model: name one with --judge PROVIDER/MODEL")
            return Analyst(judge=self._led(RulesJudge(), Seat(kind="rules")))
        question = self.rubric(rubric or DEFAULT)
        alone = self._judge(question, models[-1])
        if len(models) == 1:
            return self._described(alone)
        cascade = self._cascade(question, models, alone, kept, fresh=fresh)
        return self._described(cascade, cascade)

    def subjects(self, rubric: Rubric, judge: Callable[[Rubric, Model], "RubricJudge"]) -> SubjectCascade:
        """A cascade for any rubric over any subject: no rules, and no tags but those of evalscribe.toml."""
        cheap, expensive = self.models(cascade=True)
        tagged = [(tag, self.rubric(tag.rubric)) for tag in self._found.cascade.issues()]
        return SubjectCascade.of(rubric, tagged, (cheap, expensive), judge, self.prompts)

    def rubric(self, name: str) -> Rubric:
        """The stored version that judges."""
        rubric = stored(self._shelf, self.prompts, name)
        self._rubrics.append(rubric)
        note = outdated(self.prompts, rubric, name)
        self._notes += [note] if note else []
        return rubric

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of the rubrics that were asked for so far."""
        return tuple(dict.fromkeys(self._notes))

    @cached_property
    def _shelf(self) -> Shelf:
        return self._open_shelf()

    def _expensive(self) -> str:
        """The model of `--judge` where it is on the command line, else that of evalscribe.toml's `[cascade]`."""
        if self._found.judge.origin.trust != COMMAND_LINE:
            return self._found.cascade.judge
        name = judge_name(self._found)
        if name == RULES:
            raise UsageError("--cascade asks models: name the expensive one with --judge, or leave --judge out")
        return name

    def _cascade(
        self, question: Rubric, models: tuple[Model, ...], alone: Judge, kept: Store, *, fresh: bool
    ) -> CaseCascade:
        cheap, expensive = models
        table = self._found.cascade
        tags = FOR_ANALYSES if table.tags is None else table.issues()
        return CaseCascade(
            self._first_pass(question, tags, cheap),
            {tag.name: self._judge(self.rubric(tag.rubric), expensive) for tag in tags},
            alone,
            rules=RulesJudge() if table.rules else None,
            kept=kept,
            fresh=fresh,
        )

    def _judge(self, rubric: Rubric, model: Model) -> Judge:
        bounds = Bounds(seconds=None) if self._batch else Bounds()
        cost = cost_of(model, batch=self._batch)
        near = ModelJudge(model, self.prompts, rubric=rubric, bounds=bounds, cost=cost)
        return self._led(near, Seat(kind="judge", model=model.id, rubric=rubric))

    def _first_pass(self, rubric: Rubric, tags: tuple[Tag, ...], model: Model) -> Judge:
        seconds = None if self._batch else SECONDS
        cost = cost_of(model, batch=self._batch)
        near = FirstPass(model, self.prompts, rubric, tags, cost=cost, seconds=seconds)
        return self._led(near, Seat(kind="tag", model=model.id, rubric=rubric, tags=tags))

    def _led(self, near: Judge, seat: Seat) -> Judge:
        return self._afar.judge(near, seat) if self._afar else near

    def _described(self, judge: Judge, cascade: CaseCascade | None = None) -> Analyst:
        templates = ("classify", "judging") if cascade else ("classify",)
        own = any(map(self.prompts.own, templates)) or any(map(_own, self._rubrics))
        return Analyst(judge=judge, cascade=cascade, own_prompts=own, notes=self.notes)


def _own(rubric: Rubric) -> bool:
    """Whether a rubric is not the shipped one of its name."""
    try:
        return rubric.digest != load_rubric(rubric.id, Prompts()).digest
    except NotFoundError:
        return True


def adviser() -> Judge:
    """What the default model would take; it has no key and is never asked."""
    from evalscribe.llm.anthropic import AnthropicModel
    from evalscribe.rubric import DEFAULT_MODEL

    model = AnthropicModel(DEFAULT_MODEL.model_name, key="")
    return ModelJudge(model, Prompts(), rubric=shipped_rubric(), cost=cost_of(model))

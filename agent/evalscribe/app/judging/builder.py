"""Who judges the failures of a run: the rules, a model by a rubric, or a cascade of both."""

from dataclasses import dataclass
from functools import cached_property

from evalscribe.app.judging.judges import ByCascade, ByRubric, ByRules, LoadedJudge, Made, Maker
from evalscribe.app.judging.workers import Afar, Seat
from evalscribe.app.rubrics import outdated, stored
from evalscribe.errors import AccessError, NotFoundError, UsageError
from evalscribe.judging.cascade import FailureCascade, SubjectCascade
from evalscribe.judging.classifier import FIRST_PASS_S, FirstPass, InvestigationLimits, ModelJudge
from evalscribe.judging.rubrics import DEFAULT_RUBRIC, default_rubric, load_rubric
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.llm.budget import cost_of
from evalscribe.model.cascade import Tag
from evalscribe.model.protocols import Judge, Model, Models
from evalscribe.model.rubric import DEFAULT_MODEL, Rubric
from evalscribe.prompts.templates import Prompts
from evalscribe.settings import RULES, Settings
from evalscribe.settings.config import COMMAND_LINE
from evalscribe.workspace import Workspace

CASCADE = "cascade"
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
    cascade: FailureCascade | None = None
    """The judge, where it is a cascade."""
    asks_models: bool = False
    own_prompts: bool = False
    """Whether the judge's prompts or its rubric are the workspace's own."""
    notes: tuple[str, ...] = ()
    """What the user should know about the judge's rubrics."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Ids of all that may decide."""
        return self.cascade.judges if self.cascade else (self.judge.id,)


class JudgeBuilder:
    """Opens models and stored rubrics as judges, and remembers notes about the rubrics."""

    def __init__(
        self,
        workspace: Workspace,
        workers: Afar | None = None,
        *,
        settings: Settings | None = None,
        models: Models | None = None,
    ) -> None:
        """The store is opened with the first rubric, so that a missing key is reported before a store is created.

        Args:
            workspace: Where rubrics and prompts are.
            workers: Who judges in place of this process.
            settings: Which judge and cascade; None for the workspace's.
            models: Models to ask; None for the workspace's.
        """
        self._workspace = workspace
        self._settings = settings or workspace.settings
        self._models = models
        self._workers = workers
        self._batch = workspace.options.batch
        self._rubrics: list[Rubric] = []
        self._notes: list[str] = []

    def models(self, *, cascade: bool) -> tuple[Model, ...]:
        """Who is asked: nobody where the rules judge, one model, or a cascade's cheap and expensive one.

        Raises `EvalscribeError` where one of them cannot be asked.
        """
        if cascade:
            expensive = self._judge_model(self._expensive())
            return self._asked.open(self._settings.cascade.tag, "tag"), expensive
        name = self._settings.judge_name
        if name != RULES:
            return (self._judge_model(name),)
        if self._batch:
            raise UsageError("--batch asks a model: name one with --judge anthropic/MODEL")
        return ()

    def analyst(self, models: tuple[Model, ...], rubric: str | None, *, fresh: bool) -> Analyst:
        """A judge of failures over these `models`. Raises `UsageError` for a rubric that judges none."""
        if not models:
            if rubric is not None:
                raise UsageError("--rubric needs a model: name one with --judge PROVIDER/MODEL")
            return Analyst(judge=self._led(RulesJudge(), Seat(kind="rules")))
        question = self.rubric(rubric or DEFAULT_RUBRIC)
        alone = self._judge(question, models[-1])
        if len(models) == 1:
            return self._described(alone)
        cascade = self._cascade(question, models, alone, fresh=fresh)
        return self._described(cascade, cascade)

    @cached_property
    def results(self) -> Made:
        """Stored results of rubrics, and which of them were known before."""
        return Made(self._workspace.store.collections)

    def loaded(self, rubric: Rubric, name: str | None, *, fresh: bool) -> LoadedJudge:
        """A judge of any subject by `rubric`. Raises `EvalscribeError` where it cannot be asked.

        Args:
            rubric: What it is asked.
            name: `rules`, `cascade`, `provider/model`, or None for the rubric's own model.
            fresh: Ignore stored results.
        """
        if name == RULES:
            return ByRules(rubric, self.results)
        maker = Maker(
            self._asked,
            self._workspace.prompts,
            self.results,
            fresh=fresh,
            batch=self._batch,
            hear=self._workers.hear if self._workers else None,
        )
        if name != CASCADE:
            return ByRubric(maker.by_model(rubric, name))
        # No rules, and no tags but those of evalscribe.toml: the subject may be anything.
        cheap, expensive = self.models(cascade=True)
        tagged = [(tag, self.rubric(tag.rubric)) for tag in self._settings.cascade.issues()]
        prompts = self._workspace.prompts
        return ByCascade(SubjectCascade.of(rubric, tagged, (cheap, expensive), maker.judge, prompts))

    def rubric(self, name: str) -> Rubric:
        """The stored version that judges."""
        rubric = stored(self._workspace.store.collections, self._workspace.prompts, name)
        self._rubrics.append(rubric)
        note = outdated(self._workspace.prompts, rubric, name)
        self._notes += [note] if note else []
        return rubric

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of the rubrics that were asked for so far."""
        return tuple(dict.fromkeys(self._notes))

    @property
    def _asked(self) -> Models:
        return self._models or self._workspace.models

    def _judge_model(self, name: str) -> Model:
        try:
            return self._asked.open(name, "judge")
        except AccessError as error:
            raise AccessError(f"{error}\nor let the rules judge, without key and network: --judge rules") from None

    def _expensive(self) -> str:
        """The model of `--judge` where it is on the command line, else that of evalscribe.toml's `[cascade]`."""
        if self._settings.judge.origin.trust != COMMAND_LINE:
            return self._settings.cascade.judge
        name = self._settings.judge_name
        if name == RULES:
            raise UsageError("--cascade asks models: name the expensive one with --judge, or leave --judge out")
        return name

    def _cascade(self, question: Rubric, models: tuple[Model, ...], alone: Judge, *, fresh: bool) -> FailureCascade:
        cheap, expensive = models
        table = self._settings.cascade
        tags = FOR_ANALYSES if table.tags is None else table.issues()
        return FailureCascade(
            self._first_pass(question, tags, cheap),
            {tag.name: self._judge(self.rubric(tag.rubric), expensive) for tag in tags},
            alone,
            rules=RulesJudge() if table.rules else None,
            kept=self._workspace.store.analyses,
            fresh=fresh,
        )

    def _judge(self, rubric: Rubric, model: Model) -> Judge:
        bounds = InvestigationLimits(seconds=None) if self._batch else InvestigationLimits()
        cost = cost_of(model, batch=self._batch)
        near = ModelJudge(model, self._workspace.prompts, rubric=rubric, bounds=bounds, cost=cost)
        return self._led(near, Seat(kind="judge", model=model.id, rubric=rubric))

    def _first_pass(self, rubric: Rubric, tags: tuple[Tag, ...], model: Model) -> Judge:
        seconds = None if self._batch else FIRST_PASS_S
        cost = cost_of(model, batch=self._batch)
        near = FirstPass(model, self._workspace.prompts, rubric, tags, cost=cost, seconds=seconds)
        return self._led(near, Seat(kind="tag", model=model.id, rubric=rubric, tags=tags))

    def _led(self, near: Judge, seat: Seat) -> Judge:
        return self._workers.judge(near, seat) if self._workers else near

    def _described(self, judge: Judge, cascade: FailureCascade | None = None) -> Analyst:
        templates = ("classify", "judging") if cascade else ("classify",)
        own = any(map(self._workspace.prompts.own, templates)) or any(map(_own, self._rubrics))
        return Analyst(judge=judge, cascade=cascade, asks_models=True, own_prompts=own, notes=self.notes)


def _own(rubric: Rubric) -> bool:
    """Whether a rubric is not the shipped one of its name."""
    try:
        return rubric.digest != load_rubric(rubric.id, Prompts()).digest
    except NotFoundError:
        return True


def adviser() -> Judge:
    """What the default model would take; it has no key and is never asked."""
    from evalscribe.llm.anthropic import AnthropicModel

    model = AnthropicModel(DEFAULT_MODEL.model_name, key="")
    return ModelJudge(model, Prompts(), rubric=default_rubric(), cost=cost_of(model))

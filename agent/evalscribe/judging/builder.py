"""Build the judge that the settings select, both in this process and in the workers of an engine."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

from evalscribe import __version__
from evalscribe.errors import AccessError, NotFoundError, UsageError
from evalscribe.ids import Frozen, content_id
from evalscribe.judging.cascade import FailureCascade, SubjectCascade
from evalscribe.judging.classifier import FIRST_PASS_S, FirstPass, InvestigationLimits, ModelJudge
from evalscribe.judging.judges import (
    JudgeMaker,
    LoadedCascade,
    LoadedJudge,
    LoadedRubricJudge,
    LoadedRulesJudge,
)
from evalscribe.judging.rollout import PanelDecision, no_decision
from evalscribe.judging.rubric_judge import DecideRemotely, RecordedResults, RubricJudge
from evalscribe.judging.rubrics import DEFAULT_RUBRIC, default_rubric, load_rubric, outdated_note, store_rubric
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.judging.subjects import Subject
from evalscribe.judging.verdicts import JudgeRemotely, RemoteJudge
from evalscribe.llm.budget import RemoteBudget, cost_of, serve_budget
from evalscribe.llm.service import ModelService
from evalscribe.model.cascade import Tag
from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.model.protocols import AskParent, Judge, LostWork, Model, Models, Worker, WorkerPool
from evalscribe.model.rubric import DEFAULT_MODEL, Rubric
from evalscribe.prompts.templates import Prompts
from evalscribe.remote.engine import LOCAL
from evalscribe.settings import RULES, Settings
from evalscribe.settings.access import PROVIDERS, Access, full_model_name
from evalscribe.settings.config import COMMAND_LINE
from evalscribe.workspace import Workspace


class WorkerJudge(Frozen):
    """Tells a worker which judge to use for a failure or a subject."""

    kind: Literal["rules", "judge", "tag", "rubric"]
    model: str = ""
    rubric: Rubric | None = None
    tags: tuple[Tag, ...] = ()

    @property
    def question(self) -> Rubric:
        assert self.rubric is not None, "only the rules have no rubric"
        return self.rubric


class CasePiece(Frozen):
    worker_judge: WorkerJudge
    case: Failure


class SubjectPiece(Frozen):
    worker_judge: WorkerJudge
    subject: Subject
    max_tokens: int
    timeout_s: float | None


Piece = CasePiece | SubjectPiece
WorkerAnswer = Verdict | Unclassified | PanelDecision


@dataclass(frozen=True)
class JudgeRecipe:
    """Data from which a worker builds its judges. The API keys of the providers are the only secrets in this data."""

    access: dict[str, Access]
    """Host and API key of each model provider, by name of the provider."""
    usd: float | None
    tokens: int | None
    context_tokens: int | None
    templates: dict[str, str]
    """Text of each prompt template that the workspace overrides, by name of the template."""
    version: str = __version__

    @classmethod
    def of(cls, settings: Settings, prompts: Prompts) -> "JudgeRecipe":
        return cls(
            access={name: access for name in PROVIDERS if (access := _provider_access(settings, name))},
            usd=settings.budget.value,
            tokens=settings.max_tokens.value,
            context_tokens=settings.context_tokens.value,
            templates={name: prompts.source(name) for name in prompts.overrides()},
        )

    @asynccontextmanager
    async def __call__(self, ask: AskParent) -> AsyncIterator[Worker[Piece, WorkerAnswer]]:
        """Open a worker. Raises `UsageError` if the worker's process runs another version of evalscribe."""

        if self.version != __version__:
            raise UsageError(
                f"a worker process runs evalscribe {__version__}, but the main process runs {self.version}: "
                "install the same version on every machine"
            )
        budget = RemoteBudget(ask, self.usd, self.tokens)
        service = ModelService(self.access.get, budget, context_tokens=self.context_tokens)
        with TemporaryDirectory() as folder:
            try:
                yield WorkerStore(service, self._prompts(Path(folder))).decide
            finally:
                await service.close()

    def _prompts(self, workspace: Path) -> Prompts:
        # A worker can run on another machine, which does not have the workspace's templates.
        for name, text in self.templates.items():
            path = workspace / "prompts" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Prompts(workspace)


def _provider_access(settings: Settings, provider: str) -> Access | None:
    """Return the host and the API key of a provider, or None if the provider's settings are invalid.

    Invalid settings are reported before the workers start.
    """
    try:
        return settings.provider(provider)
    except UsageError:
        return None


@dataclass(frozen=True)
class WorkerStore:
    """Creates the judges of a worker. Each judge is created when it is first used."""

    models: Models
    prompts: Prompts
    _judges: dict[str, Judge] = field(default_factory=dict)
    _rubric_judges: dict[str, RubricJudge] = field(default_factory=dict)

    async def decide(self, piece: Piece) -> WorkerAnswer:
        worker_judge = content_id(piece.worker_judge)
        if isinstance(piece, CasePiece):
            if worker_judge not in self._judges:
                self._judges[worker_judge] = self._judge(piece.worker_judge)
            return await self._judges[worker_judge].judge(piece.case)
        if worker_judge not in self._rubric_judges:
            maker = JudgeMaker(self.models, self.prompts)
            self._rubric_judges[worker_judge] = maker.by_model(piece.worker_judge.question, piece.worker_judge.model)
        return await self._rubric_judges[worker_judge].panel_decision(piece.subject, piece.max_tokens, piece.timeout_s)

    def _judge(self, worker_judge: WorkerJudge) -> Judge:
        if worker_judge.kind == "rules":
            return RulesJudge()
        model = self.models.open(worker_judge.model, "tag" if worker_judge.kind == "tag" else "judge")
        if worker_judge.kind == "tag":
            return FirstPass(model, self.prompts, worker_judge.question, worker_judge.tags, cost=cost_of(model))
        return ModelJudge(model, self.prompts, rubric=worker_judge.question, cost=cost_of(model))


@dataclass(frozen=True)
class EngineJudge:
    """Creates judges that let the workers of an engine judge failures and subjects."""

    pool: WorkerPool[Piece, WorkerAnswer]

    def judge(self, local: Judge, worker_judge: WorkerJudge) -> Judge:
        """Return a judge that computes keys and estimates with `local` but lets a worker judge each failure."""
        return RemoteJudge(local, self._decide(worker_judge))

    def decide_remotely(self, rubric: Rubric, model: Model) -> DecideRemotely:
        """Return a function that lets a worker judge a subject with this rubric and this model."""
        worker_judge = WorkerJudge(kind="rubric", model=model.id, rubric=rubric)

        async def decide_remotely(subject: Subject, max_tokens: int, timeout_s: float | None) -> PanelDecision:
            piece = SubjectPiece(worker_judge=worker_judge, subject=subject, max_tokens=max_tokens, timeout_s=timeout_s)
            answer = await self.pool(piece)
            return no_decision(subject, answer.reason) if isinstance(answer, LostWork) else cast(PanelDecision, answer)

        return decide_remotely

    def _decide(self, worker_judge: WorkerJudge) -> JudgeRemotely:
        def decide(case: Failure) -> Awaitable[Verdict | Unclassified | LostWork]:
            answer = self.pool(CasePiece(worker_judge=worker_judge, case=case))
            return cast("Awaitable[Verdict | Unclassified | LostWork]", answer)

        return decide


@asynccontextmanager
async def open_engine_judge(workspace: Workspace) -> AsyncIterator[EngineJudge | None]:
    """Open the workers of the configured engine. Yield None if no engine is configured; this process then judges.

    Raises `UsageError` if batches are requested together with an engine, because batches need a single process.
    """

    engine = workspace.open_engine()
    if engine.name == LOCAL:
        yield None
        return
    if workspace.options.batch:
        raise UsageError(
            f"`batch` sends all questions from one process and cannot use `engine` {engine.name}: leave out `engine`",
            fields=("batch", "engine"),
        )
    try:
        recipe = JudgeRecipe.of(workspace.settings, workspace.prompts)
        async with engine.pool(recipe, partial(serve_budget, workspace.budget)) as pool:
            yield EngineJudge(pool)
    finally:
        await engine.close()


CASCADE = "cascade"
FOR_ANALYSES = (
    Tag(
        name="unfair-check",
        about="the check, lint rule or grader that failed may be stricter than the task, or broken",
        rubric="unfair-check",
    ),
)
"""Default tags of the cascade for failures. These tags are used if evalscribe.toml defines no tags."""


@dataclass(frozen=True)
class FailureJudge:
    """A judge of failures, with information about the judge for users and reports."""

    judge: Judge
    cascade: FailureCascade | None = None
    """The same object as `judge` if the judge is a cascade; otherwise None."""
    models: tuple[str, ...] = ()
    """Names of the models that the judge calls."""
    own_prompts: bool = False
    """True if the workspace has its own versions of the judge's prompts or rubric."""
    notes: tuple[str, ...] = ()
    """Notes for the user about the judge's rubrics."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Ids of all judges that can give a verdict."""
        return self.cascade.judges if self.cascade else (self.judge.id,)


class JudgeBuilder:
    """Builds judges from models and stored rubrics, and collects notes about the rubrics."""

    def __init__(
        self,
        workspace: Workspace,
        workers: EngineJudge | None = None,
        *,
        settings: Settings | None = None,
        models: Models | None = None,
    ) -> None:
        """Initialise without opening the store, so that a missing API key is reported before a store is created.

        Args:
            workspace: Workspace with the rubrics and prompts.
            workers: Remote workers that judge; None to judge in this process.
            settings: Settings that select the judge and the cascade; None for the workspace's settings.
            models: Models to call; None for the workspace's models.
        """
        self._workspace = workspace
        self._settings = settings or workspace.settings
        self._models = models
        self._workers = workers
        self._batch = workspace.options.batch
        self._rubrics: list[Rubric] = []
        self._notes: list[str] = []

    def models(self, *, cascade: bool) -> tuple[Model, ...]:
        """Open the models that the judge calls.

        The rules call no model, a cascade calls a cheap model and an expensive model, and every other judge calls one
        model. Raises `EvalscribeError` if a model is not available.
        """
        if cascade:
            expensive = self._judge_model(self._expensive())
            return self._model_source.open(self._settings.cascade.tag, "tag"), expensive
        name = self._settings.judge_name
        if name != RULES:
            return (self._judge_model(name),)
        if self._batch:
            raise UsageError("`batch` needs a model: name one with `judge` anthropic/MODEL", fields=("batch", "judge"))
        return ()

    def analyst(self, models: tuple[Model, ...], rubric: str | None, *, fresh: bool) -> FailureJudge:
        """Return a judge of failures that calls `models`. If `models` is empty, the judge only applies the rules.

        Raises `UsageError` if the rubric is not for failures, or if a rubric is given without models.
        """
        if not models:
            if rubric is not None:
                raise UsageError(
                    "`rubric` needs a model: name one with `judge` PROVIDER/MODEL", fields=("rubric", "judge")
                )
            return FailureJudge(judge=self._local_or_remote(RulesJudge(), WorkerJudge(kind="rules")))
        question = self.rubric(rubric or DEFAULT_RUBRIC)
        single_judge = self._judge(question, models[-1])
        if len(models) == 1:
            return self._failure_judge(single_judge, models)
        cascade = self._cascade(question, models, single_judge, fresh=fresh)
        return self._failure_judge(cascade, models, cascade)

    @cached_property
    def results(self) -> RecordedResults:
        """Store of judge results that also records which results are new."""
        return RecordedResults(self._workspace.store.collections)

    def model_names(self, rubric: Rubric, name: str | None) -> tuple[str, ...]:
        """Return the names of the models that a judge calls.

        The arguments select the judge in the same way as in `loaded`.
        """
        if name == RULES:
            return ()
        if name == CASCADE:
            return full_model_name(self._settings.cascade.tag), full_model_name(self._expensive())
        return (full_model_name(name or rubric.judge_model.id),)

    def loaded(self, rubric: Rubric, name: str | None, *, fresh: bool) -> LoadedJudge:
        """Return a judge that judges subjects of any kind by `rubric`.

        Args:
            rubric: The rubric to judge by.
            name: `rules`, `cascade`, `provider/model`, or None for the rubric's own model.
            fresh: Ignore stored results.

        Raises:
            EvalscribeError: The judge is not available.
        """
        if name == RULES:
            return LoadedRulesJudge(rubric, self.results)
        maker = JudgeMaker(
            self._model_source,
            self._workspace.prompts,
            self.results,
            fresh=fresh,
            batch=self._batch,
            decide_remotely=self._workers.decide_remotely if self._workers else None,
        )
        if name != CASCADE:
            return LoadedRubricJudge(maker.by_model(rubric, name))
        # The rules and the default tags are left out because they only apply to failed evals.
        cheap, expensive = self.models(cascade=True)
        tagged = [(tag, self.rubric(tag.rubric)) for tag in self._settings.cascade.issues()]
        prompts = self._workspace.prompts
        return LoadedCascade(SubjectCascade.of(rubric, tagged, (cheap, expensive), maker.judge, prompts))

    def rubric(self, name: str) -> Rubric:
        """Return the stored version of a rubric. Add a note if the rubric's file differs from that version."""
        rubric = store_rubric(self._workspace.store.collections, self._workspace.prompts, name)
        self._rubrics.append(rubric)
        note = outdated_note(self._workspace.prompts, rubric, name)
        self._notes += [note] if note else []
        return rubric

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the rubrics that were opened so far."""
        return tuple(dict.fromkeys(self._notes))

    @property
    def _model_source(self) -> Models:
        return self._models or self._workspace.models

    def _judge_model(self, name: str) -> Model:
        try:
            return self._model_source.open(name, "judge")
        except AccessError as error:
            raise AccessError(
                f"{error}\nor let the rules judge; they need no key and no network: `judge` rules",
                fields=(*error.fields, "judge"),
            ) from None

    def _expensive(self) -> str:
        """Return the name of the expensive model of a cascade.

        If `judge` is set on the command line, the value of `judge` is this name. Otherwise, the name is the value of
        `judge` in the section `[cascade]` of evalscribe.toml.
        """
        if self._settings.judge.origin.trust != COMMAND_LINE:
            return self._settings.cascade.judge
        name = self._settings.judge_name
        if name == RULES:
            raise UsageError(
                "`cascade` needs models, but `judge` is rules: name the expensive model with `judge`, "
                "or leave `judge` out",
                fields=("cascade", "judge"),
            )
        return name

    def _cascade(
        self, question: Rubric, models: tuple[Model, ...], single_judge: Judge, *, fresh: bool
    ) -> FailureCascade:
        cheap, expensive = models
        table = self._settings.cascade
        tags = FOR_ANALYSES if table.tags is None else table.issues()
        return FailureCascade(
            self._first_pass(question, tags, cheap),
            {tag.name: self._judge(self.rubric(tag.rubric), expensive) for tag in tags},
            single_judge,
            rules=RulesJudge() if table.rules else None,
            store=self._workspace.store.analyses,
            fresh=fresh,
        )

    def _judge(self, rubric: Rubric, model: Model) -> Judge:
        bounds = InvestigationLimits(seconds=None) if self._batch else InvestigationLimits()
        cost = cost_of(model, batch=self._batch)
        local = ModelJudge(model, self._workspace.prompts, rubric=rubric, bounds=bounds, cost=cost)
        return self._local_or_remote(local, WorkerJudge(kind="judge", model=model.id, rubric=rubric))

    def _first_pass(self, rubric: Rubric, tags: tuple[Tag, ...], model: Model) -> Judge:
        seconds = None if self._batch else FIRST_PASS_S
        cost = cost_of(model, batch=self._batch)
        local = FirstPass(model, self._workspace.prompts, rubric, tags, cost=cost, seconds=seconds)
        return self._local_or_remote(local, WorkerJudge(kind="tag", model=model.id, rubric=rubric, tags=tags))

    def _local_or_remote(self, local: Judge, worker_judge: WorkerJudge) -> Judge:
        return self._workers.judge(local, worker_judge) if self._workers else local

    def _failure_judge(
        self, judge: Judge, models: tuple[Model, ...], cascade: FailureCascade | None = None
    ) -> FailureJudge:
        templates = ("classify", "judging") if cascade else ("classify",)
        own_prompts = any(map(self._workspace.prompts.overrides, templates)) or any(map(_is_customised, self._rubrics))
        names = tuple(model.id for model in models)
        return FailureJudge(judge=judge, cascade=cascade, models=names, own_prompts=own_prompts, notes=self.notes)


def _is_customised(rubric: Rubric) -> bool:
    """Return whether a rubric differs from the shipped rubric of the same name."""
    try:
        return rubric.digest != load_rubric(rubric.id, Prompts()).digest
    except NotFoundError:
        return True


def estimating_judge() -> Judge:
    """Return a judge that uses the default model and can only estimate costs.

    The judge has no API key, so it cannot give a verdict.
    """
    from evalscribe.llm.anthropic import AnthropicModel

    model = AnthropicModel(DEFAULT_MODEL.model_name, key="")
    return ModelJudge(model, Prompts(), rubric=default_rubric(), cost=cost_of(model))

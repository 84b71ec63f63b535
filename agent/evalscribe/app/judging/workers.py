"""Judges that an engine's workers make again: what crosses to them, and what they do with it.

Questions, stored answers and rubrics stay here; a worker is handed one case or subject at a time, and asks the models.
"""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

from evalscribe import __version__
from evalscribe.app.judging.judges import Maker
from evalscribe.engine import LOCAL
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen, content_id
from evalscribe.judging.classifier import FirstPass, ModelJudge
from evalscribe.judging.panel import PanelDecision, no_decision
from evalscribe.judging.rubric_judge import DecideRemotely, RubricJudge
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.judging.subjects import Subject
from evalscribe.judging.verdicts import JudgeRemotely, RemoteJudge
from evalscribe.llm.budget import cost_of
from evalscribe.model.cascade import Tag
from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.model.protocols import AskParent, Judge, LostWork, Model, Models, Worker, WorkerPool
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts
from evalscribe.settings import Settings
from evalscribe.settings.access import PROVIDERS, Access
from evalscribe.workspace import Workspace


class Seat(Frozen):
    """Which judge a piece of work is for."""

    kind: Literal["rules", "judge", "tag", "rubric"]
    model: str = ""
    rubric: Rubric | None = None
    tags: tuple[Tag, ...] = ()

    @property
    def question(self) -> Rubric:
        assert self.rubric is not None, "only the rules have none"
        return self.rubric


class CasePiece(Frozen):
    seat: Seat
    case: Failure


class SubjectPiece(Frozen):
    seat: Seat
    subject: Subject
    max_tokens: int
    timeout_s: float | None


Piece = CasePiece | SubjectPiece
Answer = Verdict | Unclassified | PanelDecision


@dataclass(frozen=True)
class Recipe:
    """What a worker makes its judges of: a `Factory`. The keys of models cross to it, no other secret does."""

    access: dict[str, Access]
    """By provider."""
    usd: float | None
    tokens: int | None
    context_tokens: int | None
    templates: dict[str, str]
    """The workspace's own."""
    version: str = __version__

    @classmethod
    def of(cls, found: Settings, prompts: Prompts) -> "Recipe":
        return cls(
            access={name: access for name in PROVIDERS if (access := _allowed(found, name))},
            usd=found.budget.value,
            tokens=found.max_tokens.value,
            context_tokens=found.context_tokens.value,
            templates={name: prompts.source(name) for name in prompts.own()},
        )

    @asynccontextmanager
    async def __call__(self, ask: AskParent) -> AsyncIterator[Worker[Piece, Answer]]:
        """Raises `UsageError` where this process has another version of the package."""
        from evalscribe.llm.budget import RemoteBudget
        from evalscribe.llm.service import ModelService

        if self.version != __version__:
            raise UsageError(f"a worker has evalscribe {__version__}, not {self.version}: install the same everywhere")
        budget = RemoteBudget(ask, self.usd, self.tokens)
        asked = ModelService(self.access.get, budget, context_tokens=self.context_tokens)
        with TemporaryDirectory() as folder:
            try:
                yield Bank(asked, self._prompts(Path(folder))).decide
            finally:
                await asked.close()

    def _prompts(self, workspace: Path) -> Prompts:
        for name, text in self.templates.items():
            path = workspace / "prompts" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Prompts(workspace)


def _allowed(found: Settings, provider: str) -> Access | None:
    """None where this provider cannot be asked as things are set: whoever asks it hears why before any worker does."""
    try:
        return found.provider(provider)
    except UsageError:
        return None


@dataclass(frozen=True)
class Bank:
    """The judges of one worker, each made when its first piece comes."""

    models: Models
    prompts: Prompts
    _judges: dict[str, Judge] = field(default_factory=dict)
    _rubric_judges: dict[str, RubricJudge] = field(default_factory=dict)

    async def decide(self, piece: Piece) -> Answer:
        seat = content_id(piece.seat)
        if isinstance(piece, CasePiece):
            if seat not in self._judges:
                self._judges[seat] = self._judge(piece.seat)
            return await self._judges[seat].judge(piece.case)
        if seat not in self._rubric_judges:
            maker = Maker(self.models, self.prompts)
            self._rubric_judges[seat] = maker.by_model(piece.seat.question, piece.seat.model)
        return await self._rubric_judges[seat].hear(piece.subject, piece.max_tokens, piece.timeout_s)

    def _judge(self, seat: Seat) -> Judge:
        if seat.kind == "rules":
            return RulesJudge()
        model = self.models.open(seat.model, "tag" if seat.kind == "tag" else "judge")
        if seat.kind == "tag":
            return FirstPass(model, self.prompts, seat.question, seat.tags, cost=cost_of(model))
        return ModelJudge(model, self.prompts, rubric=seat.question, cost=cost_of(model))


@dataclass(frozen=True)
class Afar:
    """Leads judges to a crew."""

    crew: WorkerPool[Piece, Answer]

    def judge(self, near: Judge, seat: Seat) -> Judge:
        """A judge that is asked there as the near one would be here."""
        return RemoteJudge(near, self._decide(seat))

    def hear(self, rubric: Rubric, model: Model) -> DecideRemotely:
        """Where the subjects of a `RubricJudge` with this rubric and model are heard."""
        seat = Seat(kind="rubric", model=model.id, rubric=rubric)

        async def hear(subject: Subject, max_tokens: int, timeout_s: float | None) -> PanelDecision:
            piece = SubjectPiece(seat=seat, subject=subject, max_tokens=max_tokens, timeout_s=timeout_s)
            answer = await self.crew.do(piece)
            return no_decision(subject, answer.reason) if isinstance(answer, LostWork) else cast(PanelDecision, answer)

        return hear

    def _decide(self, seat: Seat) -> JudgeRemotely:
        def decide(case: Failure) -> Awaitable[Verdict | Unclassified | LostWork]:
            doing = self.crew.do(CasePiece(seat=seat, case=case))
            return cast("Awaitable[Verdict | Unclassified | LostWork]", doing)

        return decide


@asynccontextmanager
async def afar(workspace: Workspace) -> AsyncIterator[Afar | None]:
    """Workers of the configured engine that judge, all within the workspace's budget; None where this process judges.

    Raises `UsageError` where batches are asked for too: they wait in one place.
    """
    from evalscribe.llm.budget import serve_budget

    engine = workspace.open_engine()
    if engine.name == LOCAL:
        yield None
        return
    if workspace.options.batch:
        raise UsageError(f"--batch sends all questions from one process: leave out --engine {engine.name}")
    try:
        recipe = Recipe.of(workspace.settings, workspace.prompts)
        async with engine.crew(recipe, partial(serve_budget, workspace.budget)) as crew:
            yield Afar(crew)
    finally:
        await engine.close()

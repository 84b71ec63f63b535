"""The tool that compares runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.mcp_server import fields
from evalscribe.mcp_server.asking import Asking, asking
from evalscribe.mcp_server.page import NOTICE
from evalscribe.mcp_server.place import Place
from evalscribe.mcp_server.progress import Told, watched
from evalscribe.model.comparison import (
    Behaviour,
    CategoryFlips,
    Comparison,
    ComparisonSide,
    ExcludedEval,
    Matrix,
    MatrixColumn,
    MeanDifference,
    WithinRunComparison,
)
from evalscribe.model.protocols import Estimate

if TYPE_CHECKING:
    from evalscribe.app.comparisons.compare import Compared
    from evalscribe.settings import Options

MOST_CHARACTERS = 30_000
MOST_NAMED = 300


class SideLine(Frozen):
    name: str
    runs: tuple[str, ...]
    passed: int
    trials: int
    """Of the compared evals."""


class ComparedRuns(Frozen):
    kind: Literal["two", "within", "many"]
    sides: tuple[SideLine, ...]
    """Base first."""
    difference: MeanDifference | None = None
    """Of two sides: how far the candidate is from the base, and whether that is noise."""
    regressed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """Names of evals."""
    apart: tuple[ExcludedEval, ...] = ()
    """Evals that are left out of the figures, and why."""
    categories: tuple[CategoryFlips, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()
    """What regressed evals have in common."""
    notes: tuple[str, ...] = ()
    text: str
    """The page as markdown, cut where it is long: then get_report reads the written one."""
    text_left_out: int = 0
    """Characters."""
    estimate: Estimate | None = None
    """What asking a model why would take; null where nobody would be asked."""
    report: str | None = None
    """Its name below the reports folder; null where it was not written."""
    spent_usd: float = 0.0
    notice: str = NOTICE


@dataclass(frozen=True)
class Comparing:
    place: Place

    async def compare(
        self,
        sides: Annotated[
            list[str],
            Field(
                min_length=1,
                max_length=20,
                description="Base, candidate, and more for a matrix: runs by id or its beginning, URLs, or all runs "
                "of a `provider/model` of the collection. A single run: each failed trial beside a passed one "
                "of its task.",
            ),
        ],
        ctx: Context,
        collection: fields.Collection = None,
        write_report: fields.WriteReport = False,
        judge: fields.Judge = None,
        budget_usd: fields.Budget = 0.0,
        max_tokens: fields.MaxTokens = None,
    ) -> ComparedRuns:
        """Compare two runs or checkpoints: what regressed, what was fixed, whether it is noise (exact paired test),
        and what changed in behaviour. One run: its failed trials beside passed ones. Three or more: a matrix with
        flakiness. Free by default: rules say why; with a model in `judge` and `budget_usd` each regressed eval is
        compared by the model, with verified quotations."""
        asked = asking(judge, budget_usd, max_tokens, self.place.settings())
        names = [self._side(name) for name in sides]
        options, within = asked.options(), collection or self.place.collection
        return await watched(ctx, lambda told: _compared(options, names, within, asked, told, writes=write_report))

    def _side(self, name: str) -> str:
        if not name.strip():
            raise UsageError("a side has no name: give runs by id, or `provider/model`")
        return self.place.run(name)


async def _compared(
    options: "Options", names: list[str], collection: str | None, asked: Asking, told: Told, *, writes: bool
) -> ComparedRuns:
    from evalscribe.app.comparisons.compare import compare
    from evalscribe.workspace import Workspace

    async with Workspace(options) as workspace:
        done = await compare(workspace, names, told, collection=collection, dry_run=asked.only_plans, writes=writes)
        spent = sum(usage.cost_usd for usage in workspace.models.spent().values())
    answer = _answer(done)
    notes = (*told.notes, *answer.notes, *([done.put.note] if done.put and done.put.note else []))
    return answer.model_copy(update={"spent_usd": spent, "notes": notes})


def _answer(done: "Compared") -> ComparedRuns:
    kind, sides = _sides(done.found)
    two = done.found if isinstance(done.found, Comparison) else None
    return ComparedRuns(
        kind=kind,
        sides=sides,
        difference=two.passes if two else None,
        regressed=tuple(pair.eval for pair in two.of("regressed"))[:MOST_NAMED] if two else (),
        fixed=tuple(pair.eval for pair in two.of("fixed"))[:MOST_NAMED] if two else (),
        apart=two.apart[:MOST_NAMED] if two else (),
        categories=two.categories if two else (),
        behaviours=() if isinstance(done.found, Matrix) else done.found.behaviours,
        notes=done.found.notes,
        text=done.text[:MOST_CHARACTERS],
        text_left_out=max(0, len(done.text) - MOST_CHARACTERS),
        estimate=done.estimate,
        report=done.put.name if done.put else None,
    )


def _sides(
    found: Comparison | WithinRunComparison | Matrix,
) -> tuple[Literal["two", "within", "many"], tuple[SideLine, ...]]:
    if isinstance(found, Comparison):
        return "two", (_side(found.base), _side(found.candidate))
    if isinstance(found, WithinRunComparison):
        return "within", (_side(found.side),)
    return "many", tuple(map(_side, found.columns))


def _side(side: ComparisonSide | MatrixColumn) -> SideLine:
    return SideLine(name=side.name, runs=side.runs, passed=side.passed, trials=side.trials)

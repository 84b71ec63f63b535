"""Tools that read runs of experiments."""

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.mcp_server import fields
from evalscribe.mcp_server.apart import aside
from evalscribe.mcp_server.page import NOTICE, excerpt, fitting
from evalscribe.mcp_server.place import Place
from evalscribe.mcp_server.progress import Told, watched
from evalscribe.mcp_server.tool import by_tools
from evalscribe.model.experiment import Gate, RunReport, RunSummary, TrialDetail
from evalscribe.model.run_comparison import RunComparison

if TYPE_CHECKING:
    from evalscribe.app.experiments.tries import Page
    from evalscribe.model.experiment import ExperimentRun, ItemVerdict
    from evalscribe.model.score import Score
    from evalscribe.workspace import Workspace

MOST_CHARACTERS = 40_000
"""Of the tries of one answer."""
MOST_OF_CHANGES = {"regressed": 16_000, "fixed": 8_000, "flaky": 6_000}
"""Characters."""
MOST_NAMED = 50
Wanted = Literal["not passed", "failed", "error", "unscored", "all"]


class ScoreLine(Frozen):
    id: str
    scorer: str
    required: bool
    said: str
    """`passed`, `failed`, `broke` or `abstained`."""
    value: float | None
    label: str | None
    explanation: str
    rests_on: str | None = None
    """What the explanation rests on, of a score that did not pass; cut."""


class TryLine(Frozen):
    """One try at an item; long texts are cut, get_eval has them whole."""

    item: str
    repetition: int
    eval_id: str | None
    """For get_eval: with its log and every message."""
    split: str | None
    verdict: str
    error: str | None
    """Why the target gave no answer."""
    input: str
    expected_output: str | None
    output: str | None
    scores: tuple[ScoreLine, ...]


class ExperimentRunTold(Frozen):
    summary: RunSummary | None
    """Only on the first page, and without `item`."""
    gate: Gate | None
    """There too; null before the run has ended."""
    message: str
    """How it stands, and what to do next."""
    tries: tuple[TryLine, ...]
    tries_total: int
    """On all pages."""
    next_offset: int | None
    notes: tuple[str, ...] = ()
    notice: str = NOTICE.replace("`text`", "What `tries` quote")


class ComparedExperimentRuns(RunComparison):
    left_out: dict[str, int] = Field(default_factory=dict)
    """How many changed items are not named, by kind."""
    notice: str = NOTICE.replace("`text`", "What changed items quote")


@dataclass(frozen=True)
class ReadsExperimentRuns:
    place: Place

    async def get_experiment_run(
        self,
        run: fields.ExperimentRun,
        ctx: Context,
        wanted: Annotated[
            Wanted, Field(description="Which tries: by default those that did not pass, for whatever reason.")
        ] = "not passed",
        item: Annotated[str | None, Field(description="Only tries at this item, passed ones too.")] = None,
        characters: Annotated[
            int, Field(ge=50, le=20_000, description="Characters of an input, output or explanation at most.")
        ] = 500,
        limit: Annotated[int, Field(ge=0, le=100, description="How many tries to give at most.")] = 10,
        offset: fields.Offset = 0,
        wait_seconds: fields.WaitSeconds = 0,
    ) -> ExperimentRunTold:
        """Read a run of an experiment: how it stands, pass rate with its interval, each scorer, each clause of the
        gate, and its failures: what was asked, expected and answered, and which scorer says why. `failed` is the
        target's; `error` and `unscored` are a target or a scorer that broke, and say nothing of quality."""
        from evalscribe.app.experiments.tries import Page

        if wait_seconds:
            await watched(ctx, lambda told: waited_for(self.place, run, wait_seconds, told))
        verdicts: tuple[ItemVerdict, ...] = () if item is not None else VERDICTS[wanted]
        page = Page(verdicts=verdicts, item=item, offset=offset, limit=limit)
        return await aside(lambda: self._told(run, page, characters))

    def compare_experiment_runs(
        self,
        base: fields.ExperimentRun,
        candidate: fields.ExperimentRun,
        allow_mismatch: Annotated[
            bool, Field(description="Compare the items and scorers that both share, and say what is left out.")
        ] = False,
    ) -> ComparedExperimentRuns:
        """Compare two finished runs over the same dataset version: regressed, improved, no detectable change,
        inconclusive or not comparable (exact paired test), each scorer, and what regressed, was fixed or is flaky, with
        what both sides answered. get_experiment_run with `item` has those tries in full. Nothing is written."""
        from evalscribe.app.experiments.compare import compare_runs

        with self.place.experiments() as workspace:
            found = compare_runs(workspace, base, candidate, allow_mismatch=allow_mismatch)
        told = {kind: fitting(getattr(found, kind), most) for kind, most in MOST_OF_CHANGES.items()}
        left = {kind: len(getattr(found, kind)) - len(kept) for kind, kept in told.items()}
        update = {**told, "mismatches": found.mismatches[:MOST_NAMED]}
        return ComparedExperimentRuns(
            **{**dict(found), **update}, left_out={kind: number for kind, number in left.items() if number}
        )

    def _told(self, named: str, page: "Page", characters: int) -> ExperimentRunTold:
        from evalscribe.app.experiments.find import run_named
        from evalscribe.app.experiments.gate import reported
        from evalscribe.app.experiments.tries import some_tries

        first = page.offset == 0 and page.item is None
        with self.place.experiments() as workspace:
            run = run_named(workspace, named)
            chosen, total = some_tries(workspace, run, page)
            tries = fitting((_try(workspace, one, characters) for one in chosen), MOST_CHARACTERS)
            report = reported(workspace, run) if first else None
        end = page.offset + len(tries)
        told = ExperimentRunTold(
            summary=None,
            gate=None,
            message=f"Run {run.id} is {run.state}.",
            tries=tries,
            tries_total=total,
            next_offset=end if tries and end < total else None,
        )
        return told if report is None else told.model_copy(update=_in_full(run, report))


VERDICTS: "dict[Wanted, tuple[ItemVerdict, ...]]" = {
    "not passed": ("failed", "error", "unscored"),
    "failed": ("failed",),
    "error": ("error",),
    "unscored": ("unscored",),
    "all": (),
}


async def waited_for(place: Place, named: str, seconds: int, told: Told) -> None:
    """Raises `UnavailableError` where nobody works on the run any more."""
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.wait import waited

    with place.experiments() as workspace:
        await waited(workspace.store.experiment_runs, run_named(workspace, named).id, seconds, told)


def how_it_stands(run: "ExperimentRun", report: RunReport) -> str:
    """In a sentence, with what to do next."""
    from evalscribe.evaluate.gate import headline

    why = by_tools(report.summary.reason or "")
    if report.gate is None:
        waits = "get_experiment_run with `wait_seconds` waits, cancel_experiment_run ends it"
        return f"Run {run.id} is {run.state}: {why or waits}."
    if run.state != "completed":
        return f"Run {run.id} is {run.state}{f' ({why})' if why else ''}: resume_experiment_run goes on with it."
    faults = " analyze with this run's id finds whose fault its failures are." if report.summary.failed_items else ""
    return f"Run {run.id}: {headline(report.gate)}.{faults}"


def _in_full(run: "ExperimentRun", report: RunReport) -> dict[str, object]:
    kept, notes = bounded(report)
    return {"summary": kept.summary, "gate": kept.gate, "message": how_it_stands(run, report), "notes": notes}


def bounded(report: RunReport) -> tuple[RunReport, tuple[str, ...]]:
    """With lists that are cut, and what was left out."""
    found, notes = report.summary, []
    cut: dict[str, object] = {"reason": found.reason and by_tools(found.reason)}
    for name, there in (("flaky", found.flaky), ("splits", found.splits)):
        cut[name] = there[:MOST_NAMED]
        notes += _left(name, len(there))
    gate = report.gate
    if gate is not None:
        notes += [note for clause in gate.clauses for note in _left(f"items of {clause.name}", len(clause.items))]
        clauses = tuple(one.model_copy(update={"items": one.items[:MOST_NAMED]}) for one in gate.clauses)
        gate = gate.model_copy(update={"clauses": clauses, "reason": gate.reason and by_tools(gate.reason)})
    labels = found.labels
    if labels is not None:
        notes += _left("labels", len(labels.rows))
        rows = tuple(
            row.model_copy(update={"given": dict(islice(row.given.items(), MOST_NAMED))})
            for row in labels.rows[:MOST_NAMED]
        )
        cut["labels"] = labels.model_copy(update={"rows": rows})
    return RunReport(summary=found.model_copy(update=cut), gate=gate), tuple(notes)


def _left(what: str, number: int) -> list[str]:
    return [f"{what}: {number - MOST_NAMED:,} more are not named"] if number > MOST_NAMED else []


def _try(workspace: "Workspace", one: TrialDetail, characters: int) -> TryLine:
    return TryLine(
        item=one.item_key,
        repetition=one.repetition,
        eval_id=one.run_item_id,
        split=one.split,
        verdict=one.verdict,
        error=None if one.error is None else excerpt(one.error, characters),
        input=excerpt(one.input, characters),
        expected_output=None if one.expected_output is None else excerpt(one.expected_output, characters),
        output=None if one.error is not None else excerpt(one.output, characters),
        scores=tuple(_score(workspace, score, characters) for score in one.scores),
    )


def _score(workspace: "Workspace", score: "Score", characters: int) -> ScoreLine:
    from evalscribe.render.run_text import telling, word

    seen = workspace.store.experiment_runs.evidence(score.id) if telling(score) else None
    return ScoreLine(
        id=score.id,
        scorer=score.scorer,
        required=score.required,
        said=word(score),
        value=score.value,
        label=score.label,
        explanation=excerpt(score.explanation, characters),
        rests_on=None if seen is None or seen.evidence is None else excerpt(seen.evidence, characters),
    )

"""How an analysis ended."""

from pathlib import Path
from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.analysis import Analysis, AnalyzedRun, CostSummary
from evalscribe.model.cascade import Stage
from evalscribe.model.protocols import Estimate
from evalscribe.model.report import Report
from evalscribe.model.run import Run


class NothingFailed(Frozen):
    """No failure to analyse; nothing was written."""

    run: Run
    message: str

    @property
    def analysis(self) -> Analysis:
        """The same document as of any analysis, without a finding."""
        summary = AnalyzedRun(**{name: getattr(self.run, name) for name in AnalyzedRun.model_fields})
        return Analysis(run=summary, changed=False, usage=CostSummary())


class StagePlan(Frozen):
    """What one stage of a cascade would be asked at most."""

    stage: Stage
    judge: str
    verdicts: int
    estimate: Estimate


class Plan(Frozen):
    """What would be judged, by whom, and what it would take."""

    run: Run
    judge: str
    groups: int
    known: int
    """Groups whose verdict is in the store already."""
    estimate: Estimate
    stages: tuple[StagePlan, ...] = ()
    """Of a cascade: each stage with something to decide."""


class Advice(Frozen):
    """What a model would take for the failures that the rules are not sure of."""

    judge: str
    estimate: Estimate


class Analyzed(Frozen):
    """A finished analysis."""

    run: Run
    report: Report
    text: str
    """The report as it is on disk."""
    path: Path
    state: Literal["new", "updated", "unchanged"]
    analysis: Analysis
    notes: tuple[str, ...] = ()
    """What the user should know about where the report went, or what could not be read."""
    uncertain: tuple[str, ...] = ()
    """Paths of the evals whose verdict is uncertain."""
    unclassified: tuple[str, ...] = ()
    advice: Advice | None = None

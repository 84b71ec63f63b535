"""Judges under test: the judges of `analyze` and `judge`, opened as targets of experiments."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from evalscribe import ports
from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.app.experiments.judge_target import FailureTarget, SubjectTarget
from evalscribe.app.judging.builder import CASCADE, FOR_ANALYSES, JudgeBuilder
from evalscribe.cascade import CascadeParts
from evalscribe.errors import UsageError
from evalscribe.experiment import JudgeTarget
from evalscribe.judging.failure_rubric import DEFAULT, labels
from evalscribe.rubric import Rubric
from evalscribe.settings import RULES, Settings
from evalscribe.settings.cascade import CascadeTable, TagTable
from evalscribe.settings.place import COMMAND_LINE, Origin, Value
from evalscribe.wiring import workspace_of
from evalscribe.wiring.experiments import rubrics


@asynccontextmanager
async def open_judge_target(
    found: Settings, target: JudgeTarget, models: ports.Models
) -> AsyncIterator[FailureTarget | SubjectTarget]:
    """Raises `EvalscribeError` where the judge cannot be asked, or by no such rubric."""
    with ExitStack() as opened:
        workspace = opened.enter_context(workspace_of(found))
        bench = JudgeBuilder(workspace, settings=_judged_by(found, target), models=models)
        rubric = bench.rubric(target.rubric)
        if judges_failures(target, rubric):
            yield _failures(bench, target, workspace.store.analyses)
        else:
            yield _subjects(bench, target, rubric)


def judges_failures(target: JudgeTarget, rubric: Rubric) -> bool:
    """Whether the rubric asks what an analysis asks of a failed eval."""
    return rubric.id == DEFAULT if target.judge == RULES else labels_failures(rubric)


def labels_failures(rubric: Rubric) -> bool:
    """Whether it classifies failed evals."""
    try:
        labels(rubric)
    except UsageError:
        return False
    return True


def cascade_parts(found: Settings, desk: ExperimentDesk, question: Rubric) -> CascadeParts:
    """What a cascade is made of here: evalscribe.toml's, its rubrics by the versions that they are now."""
    table, rubric = found.cascade, rubrics(found, desk)
    tags = FOR_ANALYSES if table.tags is None and labels_failures(question) else table.issues()
    versions = [(tag, rubric(tag.rubric)) for tag in tags]
    named = tuple(tag.model_copy(update={"rubric": f"{by.id}@{by.version}"}) for tag, by in versions)
    return CascadeParts(tag=table.tag, judge=table.judge, rules=table.rules, tags=named)


def _failures(bench: JudgeBuilder, target: JudgeTarget, kept: ports.Store) -> FailureTarget:
    asked = bench.models(cascade=target.judge == CASCADE)
    rubric = target.rubric if asked else None
    first, again = (bench.analyst(asked, rubric, fresh=fresh).judge for fresh in (False, True))
    return FailureTarget(first, again, kept)


def _subjects(bench: JudgeBuilder, target: JudgeTarget, rubric: Rubric) -> SubjectTarget:
    first, again = (bench.loaded(rubric, target.judge, fresh=fresh) for fresh in (False, True))
    return SubjectTarget(first, again, bench.results.knew)


def _judged_by(found: Settings, target: JudgeTarget) -> Settings:
    """The settings with the experiment's judge in place of any other; a cascade is as it was when it was chosen."""
    if target.judge == CASCADE:
        nobody = Value[str | None](value=None, origin=Origin(where="the experiment", trust=0))
        return found.model_copy(update={"judge": nobody, "cascade": _table(target.cascade)})
    judge = Value[str | None](value=target.judge, origin=Origin(where="the experiment", trust=COMMAND_LINE))
    return found.model_copy(update={"judge": judge})


def _table(parts: CascadeParts | None) -> CascadeTable:
    if parts is None:
        raise UsageError(
            "this version does not say of which models its cascade is made: "
            "`evalscribe experiments update EXPERIMENT --judge cascade` makes one that does"
        )
    tags = {tag.name: TagTable(about=tag.about, rubric=tag.rubric) for tag in parts.tags}
    return CascadeTable(tag=parts.tag, judge=parts.judge, rules=parts.rules, tags=tags)

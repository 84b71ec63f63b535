"""Compare judges with human labels."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from evalscribe.collections.judge import JudgedSubjects, concurrency, judge_subjects, rubric_of
from evalscribe.collections.labelled import LabelledSubject, LabelledSubjects, labelled, labels_of, spelled
from evalscribe.collections.subjects import ReachedSubject, SubjectFinder, collection_members
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.builder import JudgeBuilder, open_engine_judge
from evalscribe.judging.judges import LoadedJudge
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import Usage
from evalscribe.model.output_schema import agreement_keys
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.statistics.agreement import Kappa
from evalscribe.statistics.calibration import Calibration, LabelPair, LabelScore
from evalscribe.statistics.intervals import Interval
from evalscribe.workspace import Workspace

PREFERRED = "classification"
"""Label field of a rubric that has one; otherwise the first field used to compare rollouts."""


class CalibrationRow(Frozen):
    """One labelled subject, and a judge's answer."""

    line: int
    subject: str
    label: str
    said: str | None
    task: str | None = None
    """The eval, regardless of run and trial: subjects that share it are one observation."""
    known: bool = False
    reason: str | None = None
    """Why the judge gave no usable answer."""


class CalibratedJudge(Frozen):
    """One judge compared with people; shares are of the judged subjects."""

    name: str
    """Short name: `rules@1`, `cascade`, `provider/model`."""
    judge: str
    subjects: int
    judged: int
    right: int
    known: int
    agreement: float | None
    interval: Interval
    agreement_over_all: float | None
    """Agreement if subjects without an answer count as disagreement."""
    balanced: float | None
    kappa: Kappa | None
    labels: tuple[LabelScore, ...]
    confusion: dict[str, dict[str, int]]
    """Counts by the people's label, then by the judge's."""
    usage: Usage
    """Usage of the judge for all subjects, including earlier commands."""
    rows: tuple[CalibrationRow, ...]

    @property
    def calibration(self) -> Calibration:
        pairs = (LabelPair(expected=row.label, predicted=row.said, cluster=row.task) for row in self.rows)
        return Calibration(pairs, [row.label for row in self.labels])


class JudgeEval(Frozen):
    """Judges side by side over one dataset."""

    rubric: str
    dataset: str
    key: str
    """The compared field of the output."""
    judges: tuple[CalibratedJudge, ...]
    spent: Mapping[str, Usage]
    """Usage of this command, by stage."""


def label_key(rubric: Rubric, wanted: str | None) -> str:
    """Return the field to compare. Raises `UsageError` if the rubric has no field with a choice of labels."""
    keys = agreement_keys(rubric.output_schema)
    if wanted is None and keys:
        return PREFERRED if PREFERRED in keys else keys[0]
    if wanted is None or wanted not in keys:
        has = f"it has {', '.join(keys)}" if keys else "it has none"
        raise UsageError(f"{rubric.id} needs a field with an enum or a boolean to compare labels: {has}")
    return wanted


async def judge_eval(
    workspace: Workspace,
    rubric: str,
    dataset: str,
    watcher: AnalysisWatcher,
    *,
    judges: Sequence[str] = ("",),
    label: str | None = None,
    collection: str | None = None,
    where: str | None = None,
) -> JudgeEval:
    """Compare judges on subjects with human labels. Cached results are not asked for again.

    Args:
        workspace: Workspace for results; needs `async with`.
        rubric: `NAME`, `NAME@VERSION` or a YAML file.
        dataset: A file of JSON lines, or `NAME[@V][:SPLIT]` of a dataset.
        watcher: Receives progress.
        judges: `rules`, `cascade`, `provider/model`; empty for the rubric's own model.
        label: The field to compare; None for the rubric's first choice.
        collection: Collection of the rubric and of agent runs that lines may name.
        where: A condition over these agent runs.

    Raises:
        DataError: Lines are not labelled subjects.
        EvalscribeError: Judging failed for all subjects.
    """
    async with AsyncExitStack() as opened:
        builder = JudgeBuilder(workspace, await opened.enter_async_context(open_engine_judge(workspace)))
        by = rubric_of(workspace, builder, rubric, collection)
        key = label_key(by, label)
        names = dict.fromkeys(name.strip() or by.judge_model.id for name in judges)
        asked = [builder.loaded(by, name, fresh=workspace.options.fresh) for name in names]
        for note in builder.notes:
            watcher.say(note)
        source = labelled(workspace, dataset, key)
        labels = tuple(labels_of(by.output_schema, key))
        finder = SubjectFinder(workspace.store.analyses, ReachedSubject(workspace, opened), watcher)
        members = partial(collection_members, workspace, collection, where)
        examples = await LabelledSubjects(source, labels, members).examples(finder)
        calibrated = [await _calibrated(workspace, builder, one, examples, key, labels, watcher) for one in asked]
        return JudgeEval(
            rubric=f"{by.id}@{by.version}",
            dataset=source.name,
            key=key,
            judges=tuple(calibrated),
            spent=dict(workspace.models.spent()),
        )


async def _calibrated(
    workspace: Workspace,
    builder: JudgeBuilder,
    judge: LoadedJudge,
    examples: Sequence[LabelledSubject],
    key: str,
    labels: Sequence[str],
    watcher: AnalysisWatcher,
) -> CalibratedJudge:
    found: dict[int, JudgedSubjects] = {}

    async def one(example: LabelledSubject) -> None:
        found[example.line] = await judge_subjects(judge, example.waiting, builder.results.knew)
        row = _row(example, found[example.line], key, labels)
        beside = "agrees" if row.said == row.label else f"people say {row.label}"
        told = f"{row.said}, {beside}" if row.said else f"not judged: {row.reason}"
        watcher.say(f"{judge.name}: {len(found)}/{len(examples)}  {example.waiting.name}: {told}")
        await asyncio.sleep(0)

    await run_concurrently(examples, one, min(concurrency(workspace), len(examples)))
    rows = tuple(_row(example, found[example.line], key, labels) for example in examples)
    usage = sum((one.usage for one in found.values()), Usage())
    return _counted(judge, rows, labels, usage)


def _row(example: LabelledSubject, found: JudgedSubjects, key: str, labels: Sequence[str]) -> CalibrationRow:
    """Build the row of one subject. For a cascade, the first result with one of these labels counts."""
    answers = [one for one in found.results if one.result_type == ResultType.DIRECT_RESULT]
    said = next((label for one in answers if (label := _said(one, key)) in labels), None)
    reason = next((one.reason for one in found.results if one.reason), None)
    return CalibrationRow(
        line=example.line,
        subject=example.waiting.name,
        label=example.label,
        said=said,
        task=example.waiting.task,
        known=all(one.known for one in found.results),
        reason=None if said else reason or f"the answer has no {key} of these",
    )


def _said(result: JudgeResult, key: str) -> str | None:
    return spelled(result.output[key]) if key in result.output else None


def _counted(
    judge: LoadedJudge, rows: tuple[CalibrationRow, ...], labels: Sequence[str], usage: Usage
) -> CalibratedJudge:
    found = Calibration((LabelPair(expected=row.label, predicted=row.said, cluster=row.task) for row in rows), labels)
    return CalibratedJudge(
        name=judge.name,
        judge=judge.id,
        subjects=len(rows),
        judged=found.judged,
        right=found.right,
        known=sum(row.known for row in rows),
        agreement=found.agreement,
        interval=found.interval,
        agreement_over_all=found.agreement_over_all,
        balanced=found.balanced,
        kappa=found.kappa,
        labels=found.scores,
        confusion={truth: {said: found.confusion(truth, said) for said in found.labels} for truth in found.labels},
        usage=usage,
        rows=rows,
    )

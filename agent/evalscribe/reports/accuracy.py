"""Measure how often judges agree with people's corrections in this workspace, and how often people agree."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from evalscribe.errors import DataError, NotFoundError
from evalscribe.failures.human_labels import LabelledEval, labelled_eval, without_trial
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen
from evalscribe.model.analysis import Analysis, FindingSummary
from evalscribe.model.cascade import Stage
from evalscribe.model.finding import (
    CLASSIFICATIONS,
    UNCERTAIN_CONFIDENCE,
    Classification,
    HumanLabel,
    by_people,
    by_rules,
    proves,
)
from evalscribe.model.report import JudgeAgreement
from evalscribe.model.repository import ReportFile
from evalscribe.reports.corrections import judge_facts, run_of
from evalscribe.reports.page import page_digest
from evalscribe.reports.reading import read_report
from evalscribe.statistics.agreement import Calibration, Kappa, LabelPair, LabelScore, Reliability, reliability
from evalscribe.statistics.intervals import Interval

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore

CASCADE = "cascade"
"""Name under which the verdicts of all stages of cascades are measured together."""
NOT_MERGED = ""
"""Reviewer of a correction that is only on a page in the reports folder, so its author is not known."""
_WRITTEN = re.compile(r"^written: (.*)$", re.MULTILINE)
_REVIEWED = re.compile(r'"reviewer":\s*\{')
"""Matches the data of a report that was rewritten after a correction."""
_CORRECTED = re.compile(r"^Reviewer:| · judge said ", re.MULTILINE)
"""Matches the page of a report that was rewritten after a correction. If a process is killed after writing the page or
the data, only one of the two shows the correction.
"""


class JudgedFailure(NamedTuple):
    """A failed eval with the classification in a judge's report."""

    judge: str | None
    """Judge id with its version; None if no judge decided."""
    label: Classification | None
    """The judge's own label."""
    group: str | None
    confidence: float | None = None
    stage: Stage | None = None
    cost_usd: float | None = None


Findings = Mapping[LabelledEval, JudgedFailure]
"""Every failed eval in reports made by judges, by run and path."""


class CorrectedVerdict(Frozen):
    """A judge's verdict that a person confirmed or corrected."""

    run: str
    eval: str
    """Path of the eval. For a group, path of the first eval that has the correction."""
    report: str
    """Path of the report in the reports folder."""
    task: str
    """Experiment and eval without its trial. Verdicts on one task are not independent observations."""
    judge: str
    """The judge that decided; in a cascade, the judge of the deciding stage."""
    judged: Classification
    label: Classification
    """The label that the person gave."""
    reviewer: str | None
    """None if the correction is not merged, because its author is then not known."""
    note: str | None
    confidence: float | None
    """The judge's confidence. None if the label was synced by a version that did not store the confidence."""
    certain: bool | None
    """None if the confidence is unknown."""
    cost_usd: float | None

    @property
    def agrees(self) -> bool:
        return self.judged == self.label


class JudgeAccuracy(Frozen):
    """A judge's agreement with the people who reviewed its verdicts. Labels in force count as correct.

    Intervals are 95 % confidence intervals. If a task has several verdicts, each task counts as one observation: the
    interval of a share is computed for a ratio of cluster totals (Cochran 1977, Sampling Techniques, section 11.8), and
    the interval of kappa with the delta method (Yang and Zhou 2014, Statistics in Medicine 33). Otherwise the interval
    of a share is Wilson's, and the interval of kappa is from Fleiss, Cohen and Everitt (1969).
    """

    judge: str
    """Judge id with its version and rubric; `cascade` for the verdicts of cascades."""
    judges: tuple[str, ...]
    """The judges that decided. A cascade has several."""
    labelled: int
    """Number of reviewed verdicts. A group counts as one."""
    agreed: int
    """Number of verdicts that people confirmed."""
    tasks: int
    """Number of tasks with a reviewed verdict."""
    agreement: float | None
    interval: Interval
    balanced: float | None
    """Balanced accuracy: the mean recall over the labels that people gave."""
    kappa: Kappa | None
    labels: tuple[LabelScore, ...]
    confusion: dict[str, dict[str, int]]
    """Number of verdicts, keyed by the people's label and then by the judge's label."""
    certain: int
    """Number of verdicts that the judge marked as certain."""
    certain_share: float | None
    """Share of certain verdicts among those with a known confidence; None if no confidence is known."""
    certain_agreed: int
    certain_agreement: float | None
    certain_interval: Interval
    reliability: Reliability | None
    """Stated confidence against observed agreement. None for the rules, because they state no numeric confidence."""
    cost_usd: float | None
    """Total cost of the verdicts; None if the cost of any model's verdict is unknown."""
    wrong: tuple[CorrectedVerdict, ...]
    """The verdicts that people corrected."""
    right: tuple[CorrectedVerdict, ...]
    """The verdicts that people confirmed."""

    @property
    def calibration(self) -> Calibration:
        """Agreement figures of all verdicts, in the form that is printed."""
        return _calibration((*self.wrong, *self.right))

    @property
    def calibration_of_certain(self) -> Calibration:
        """Agreement figures of the certain verdicts."""
        return _calibration(verdict for verdict in (*self.wrong, *self.right) if verdict.certain)


class ReviewerRow(Frozen):
    """Agreement between two reviewers on the failures that both labelled."""

    reviewers: tuple[str, str]
    shared: int
    """Number of failures that both reviewers labelled. A group counts as one."""
    agreed: int
    kappa: Kappa | None


class Coverage(Frozen):
    """Number of judged findings, and how many of them people reviewed.

    Unreviewed findings do not count as agreement.
    """

    findings: int
    reviewed: int


class Accuracy(Frozen):
    """How well the judges' labels agree with people's corrections, and people with each other."""

    labels: int
    """Number of labels in force."""
    reviewers: tuple[str, ...]
    not_merged: int
    """Number of labels in force that are only on pages in the reports folder, so their authors are not known."""
    coverage: Coverage
    judges: tuple[JudgeAccuracy, ...]
    """Sorted by id; empty if no judge's finding was reviewed."""
    between: tuple[ReviewerRow, ...]


def accuracy(library: ReportsFolder, store: "AnalysisStore") -> Accuracy:
    """Measure judges on the stored labels and on the corrections in the reports folder.

    Raises `NotFoundError` if there are no labels and no corrections.
    """
    return accuracy_of(dict(_judged_reports(library.all())), store.labels())


def accuracy_of(analyses: Mapping[str, Analysis], stored: Sequence[HumanLabel]) -> Accuracy:
    """Measure judges on labels and on the corrections in judges' reports. Raises `NotFoundError` if there are none.

    Reports that people wrote are left out.
    """
    analyses = {name: analysis for name, analysis in analyses.items() if analysis.revision is not None}
    labels = _with_pages(stored, analyses)
    if not labels:
        raise NotFoundError(
            "nobody has corrected or confirmed a finding in this workspace; correct one: "
            "evalscribe review label REPORT N LABEL, or read merged corrections: evalscribe review sync"
        )
    return measured(labels, dict(_findings(analyses.values())))


def judge_agreement(library: ReportsFolder, store: "AnalysisStore") -> tuple[JudgeAgreement, ...]:
    """Return how often each judge agreed with people's corrections.

    Uses the same corrections as `accuracy`, but computes no other figures.
    """
    analyses = dict(_judged_reports(file for file in library.all() if _may_be_corrected(file)))
    by_judge = _by_judge(_with_pages(store.labels(), analyses), dict(_findings(analyses.values())))
    return tuple(
        JudgeAgreement(judge=name, agreed=sum(row.agrees for row in rows), corrections=len(rows))
        for name, rows in sorted(by_judge.items())
    )


def measured(labels: Sequence[HumanLabel], findings: Findings) -> Accuracy:
    reviewed = findings.keys() & {labelled_eval(label) for label in labels if label.in_force}
    return Accuracy(
        labels=sum(label.in_force for label in labels),
        reviewers=tuple(sorted({label.reviewer for label in labels} - {NOT_MERGED})),
        not_merged=sum(label.in_force and label.reviewer == NOT_MERGED for label in labels),
        coverage=Coverage(findings=len(findings), reviewed=len(reviewed)),
        judges=tuple(_judge(name, rows) for name, rows in sorted(_by_judge(labels, findings).items())),
        between=_reviewer_rows([label for label in labels if label.reviewer != NOT_MERGED]),
    )


def labels_in_force(labels: Iterable[HumanLabel]) -> tuple[HumanLabel, ...]:
    """Return one label in force per failure.

    A failure is left out if two reports on the same run label it differently.
    """
    by_subject: dict[LabelledEval, dict[str, HumanLabel]] = {}
    for label in labels:
        if label.in_force:
            by_subject.setdefault(labelled_eval(label), {}).setdefault(label.label, label)
    return tuple(next(iter(by_label.values())) for by_label in by_subject.values() if len(by_label) == 1)


def verdicts(labels: Iterable[HumanLabel]) -> tuple[HumanLabel, ...]:
    """Return the first label of each group, and all labels outside groups. Thus each verdict counts once."""
    first: dict[tuple[str, str, str], HumanLabel] = {}
    for label in labels:
        first.setdefault((label.run, label.group or label.eval, label.label), label)
    return tuple(first.values())


def _judged_reports(files: Iterable[ReportFile]) -> Iterator[tuple[str, Analysis]]:
    """Yield name and content of each report that a judge made. Reports that cannot be read are left out."""
    for file in files:
        try:
            analysis = read_report(file.text, file.name, file.data)
        except DataError:
            continue  # `reports check` reports what is wrong with it
        if analysis.revision is not None:
            yield file.name, analysis


def _may_be_corrected(file: ReportFile) -> bool:
    """Return False if a page certainly has no corrections.

    This check is cheap. Most pages have no corrections, and parsing all of them takes long.
    """
    written = _WRITTEN.search(file.text)
    unedited = written is not None and page_digest(file.text) == written[1]
    return not unedited or bool(_CORRECTED.search(file.text) or _REVIEWED.search(file.data or ""))


def _findings(analyses: Iterable[Analysis]) -> Iterator[tuple[LabelledEval, JudgedFailure]]:
    """Yield every failed eval in reports made by a judge."""
    for analysis in analyses:
        for finding in analysis.findings:
            judge = finding.judge
            yield (
                (analysis.run.id or "", finding.eval),
                JudgedFailure(None, None, finding.group)
                if judge is None
                else JudgedFailure(
                    judge.id, judge.classification, finding.group, judge.confidence, judge.stage, judge.cost_usd
                ),
            )


def _with_pages(labels: Sequence[HumanLabel], analyses: Mapping[str, Analysis]) -> tuple[HumanLabel, ...]:
    """Add the corrections that are on pages but not among the labels.

    A page's correction replaces another label from the same page's history.
    """
    corrected = {(label.report, label.eval, label.label) for label in labels if label.in_force}
    added = [
        label
        for name, analysis in analyses.items()
        for finding in analysis.findings
        if finding.reviewer and (label := _of_page(name, analysis, finding))
        if (name, label.eval, label.label) not in corrected
    ]
    replaced = {(label.report, label.eval) for label in added}
    earlier = (
        label.model_copy(update={"in_force": False}) if (label.report, label.eval) in replaced else label
        for label in labels
    )
    return (*earlier, *added)


def _of_page(name: str, analysis: Analysis, finding: FindingSummary) -> HumanLabel | None:
    """Return the correction of a finding on a page; None if the finding has no label."""
    if finding.classification is None:
        return None
    return HumanLabel(
        run=run_of(analysis, name),
        provider=analysis.run.provider or "",
        model=analysis.run.model or "",
        experiment=analysis.run.experiment or "default",
        eval=finding.eval,
        group=finding.group,
        label=finding.classification,
        note=finding.reviewer.note if finding.reviewer else None,
        reviewer=NOT_MERGED,
        email="",
        commit="",
        date="",
        report=name,
        **judge_facts(finding),
    )


def _by_judge(labels: Sequence[HumanLabel], findings: Findings) -> dict[str, list[CorrectedVerdict]]:
    """Return the reviewed verdicts of each judge.

    Verdicts that repeat people's own corrections are left out, because they do not measure a judge.
    """
    by_judge: dict[str, list[CorrectedVerdict]] = {}
    for label in verdicts(_with_verdicts(labels_in_force(labels), findings)):
        if label.judge and label.judged and not by_people(label.judge):
            by_judge.setdefault(CASCADE if label.stage else label.judge, []).append(_corrected(label))
    return by_judge


def _with_verdicts(labels: Iterable[HumanLabel], findings: Findings) -> Iterator[HumanLabel]:
    """Add the verdict of a judge's report on the same run to each label from a report that a person wrote.

    Labels that were synced by an older version lack the confidence. It is added if the report still has the same
    verdict.
    """
    for label in labels:
        failure = findings.get(labelled_eval(label))
        same = failure is not None and (label.judge, label.judged) == (failure.judge, failure.label)
        if failure is None or (label.judge and not (same and label.confidence is None)):
            yield label
            continue
        facts = {"confidence": failure.confidence, "stage": failure.stage, "cost_usd": failure.cost_usd}
        group = label.group if label.judge else failure.group
        yield label.model_copy(update={"judge": failure.judge, "judged": failure.label, "group": group, **facts})


def _corrected(label: HumanLabel) -> CorrectedVerdict:
    assert label.judge is not None
    assert label.judged is not None
    return CorrectedVerdict(
        run=label.run,
        eval=label.eval,
        report=label.report,
        task=f"{label.experiment}/{without_trial(label.eval)}",
        judge=label.judge,
        judged=label.judged,
        label=label.label,
        reviewer=label.reviewer or None,
        note=label.note,
        confidence=label.confidence,
        certain=None if label.confidence is None else label.confidence > UNCERTAIN_CONFIDENCE,
        cost_usd=label.cost_usd,
    )


def _judge(name: str, rows: Sequence[CorrectedVerdict]) -> JudgeAccuracy:
    calibration, certain = _calibration(rows), _calibration(row for row in rows if row.certain)
    with_certainty = [row for row in rows if row.certain is not None]
    stated = [(row.confidence, row.agrees) for row in rows if row.confidence is not None and not by_rules(row.judge)]
    free = [row for row in rows if by_rules(row.judge) or proves(row.judge)]
    costs = [row.cost_usd for row in rows if row not in free]
    return JudgeAccuracy(
        judge=name,
        judges=tuple(sorted({row.judge for row in rows})),
        labelled=len(rows),
        agreed=calibration.right,
        tasks=len({row.task for row in rows}),
        agreement=calibration.agreement,
        interval=calibration.interval,
        balanced=calibration.balanced,
        kappa=calibration.kappa,
        labels=calibration.scores,
        confusion={
            truth: {predicted: calibration.confusion(truth, predicted) for predicted in calibration.labels}
            for truth in calibration.labels
        },
        certain=certain.judged,
        certain_share=certain.judged / len(with_certainty) if with_certainty else None,
        certain_agreed=certain.right,
        certain_agreement=certain.agreement,
        certain_interval=certain.interval,
        reliability=reliability(stated),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        wrong=tuple(row for row in rows if not row.agrees),
        right=tuple(row for row in rows if row.agrees),
    )


def _calibration(rows: Iterable[CorrectedVerdict]) -> Calibration:
    pairs = (LabelPair(expected=row.label, predicted=row.judged, cluster=row.task) for row in rows)
    return Calibration(pairs, CLASSIFICATIONS)


def _reviewer_rows(labels: Sequence[HumanLabel]) -> tuple[ReviewerRow, ...]:
    by_reviewer: dict[str, dict[LabelledEval, HumanLabel]] = {}
    for label in labels:
        by_reviewer.setdefault(label.reviewer, {})[labelled_eval(label)] = label
    return tuple(
        row
        for pair in combinations(sorted(by_reviewer), 2)
        if (row := _pair(pair, by_reviewer[pair[0]], by_reviewer[pair[1]]))
    )


def _pair(
    names: tuple[str, str], first: dict[LabelledEval, HumanLabel], second: dict[LabelledEval, HumanLabel]
) -> ReviewerRow | None:
    both = [(first[subject], second[subject]) for subject in first if subject in second]
    shared = {
        (a.run, a.group or a.eval, b.group or b.eval): LabelPair(
            expected=a.label, predicted=b.label, cluster=f"{a.experiment}/{without_trial(a.eval)}"
        )
        for a, b in both
    }
    if not shared:
        return None
    calibration = Calibration(shared.values(), CLASSIFICATIONS)
    return ReviewerRow(reviewers=names, shared=len(shared), agreed=calibration.right, kappa=calibration.kappa)

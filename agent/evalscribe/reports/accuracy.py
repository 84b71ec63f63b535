"""Measure how often judges agree with people's corrections, and how often people agree with each other."""

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
"""Name under which the verdicts of all cascades are measured together, whichever stage decided."""
NOT_MERGED = ""
"""Placeholder for the reviewer of a correction that is only on a page in the reports folder. The author of such a
correction is not known, because the correction is not merged.
"""
_WRITTEN = re.compile(r"^written: (.*)$", re.MULTILINE)
_REVIEWED = re.compile(r'"reviewer":\s*\{')
"""Matches the data file of a report that was regenerated after a person corrected it."""
_CORRECTED = re.compile(r"^Reviewer:| · judge said ", re.MULTILINE)
"""Matches the page of a report that was regenerated after a person corrected it. If a process is killed between writing
the page and the data file, only one of the two shows the correction.
"""


class JudgedFailure(NamedTuple):
    """A failed eval with the classification in a judge's report."""

    judge: str | None
    """Id of the judge with its version; None if no judge decided."""
    label: Classification | None
    """The judge's own label, before any correction by a person."""
    group: str | None
    confidence: float | None = None
    stage: Stage | None = None
    cost_usd: float | None = None


Findings = Mapping[LabelledEval, JudgedFailure]
"""All failed evals in reports that judges made, keyed by run and path."""


class CorrectedVerdict(Frozen):
    """A judge's verdict that a person confirmed or corrected."""

    run: str
    eval: str
    """Path of the eval. For a group, the path of its first eval to which the correction applies."""
    report: str
    """Path of the report in the reports folder."""
    task: str
    """Name of the experiment and the eval, without the trial number. Verdicts on the same task are not independent
    observations.
    """
    judge: str
    """Id of the judge that decided. In a cascade, the judge of the stage that decided."""
    judged: Classification
    label: Classification
    """The label that the person gave."""
    reviewer: str | None
    """Name of the person who gave the label. None if the correction is not merged, because its author is then not
    known.
    """
    note: str | None
    confidence: float | None
    """Confidence that the judge stated. None if the label was synced by an older version of evalscribe, which did not
    store the confidence.
    """
    certain: bool | None
    """True if the judge was certain of its verdict. None if its confidence is unknown."""
    cost_usd: float | None

    @property
    def agrees(self) -> bool:
        return self.judged == self.label


class JudgeAccuracy(Frozen):
    """A judge's agreement with the people who reviewed its verdicts. The labels in force count as correct.

    Intervals are 95 % confidence intervals. If any task has several verdicts, each task counts as one observation. The
    interval of a share is then computed for a ratio of cluster totals (Cochran 1977, Sampling Techniques, section
    11.8), and the interval of kappa with the delta method (Yang and Zhou 2014, Statistics in Medicine 33). If every
    task has a single verdict, the interval of a share is Wilson's, and the interval of kappa is from Fleiss, Cohen and
    Everitt (1969).
    """

    judge: str
    """Id of the judge with its version and rubric, or `cascade` for the verdicts of all cascades."""
    judges: tuple[str, ...]
    """Ids of the judges that gave these verdicts. A cascade has several judges."""
    labelled: int
    """Number of verdicts that people reviewed. A verdict on a group counts once."""
    agreed: int
    """Number of verdicts that people confirmed."""
    tasks: int
    """Number of distinct tasks among the reviewed verdicts."""
    agreement: float | None
    interval: Interval
    balanced: float | None
    """Balanced accuracy: the mean of the recall of each label that people gave."""
    kappa: Kappa | None
    labels: tuple[LabelScore, ...]
    confusion: dict[str, dict[str, int]]
    """Number of verdicts, keyed by the label in force and then by the judge's label."""
    certain: int
    """Number of verdicts that the judge marked as certain."""
    certain_share: float | None
    """Share of certain verdicts among the verdicts with a known confidence. None if no confidence is known."""
    certain_agreed: int
    certain_agreement: float | None
    certain_interval: Interval
    reliability: Reliability | None
    """Observed agreement for each level of stated confidence. None for the rules, because they do not state a numeric
    confidence.
    """
    cost_usd: float | None
    """Total cost of the verdicts. None if the cost of any verdict by a model is unknown."""
    wrong: tuple[CorrectedVerdict, ...]
    """The verdicts that people corrected."""
    right: tuple[CorrectedVerdict, ...]
    """The verdicts that people confirmed."""

    @property
    def calibration(self) -> Calibration:
        """Agreement figures of all reviewed verdicts, in the form in which they are printed."""
        return _calibration((*self.wrong, *self.right))

    @property
    def calibration_of_certain(self) -> Calibration:
        """Agreement figures of only the certain verdicts, in the form in which they are printed."""
        return _calibration(verdict for verdict in (*self.wrong, *self.right) if verdict.certain)


class ReviewerRow(Frozen):
    """Agreement between two reviewers on the failures that both labelled."""

    reviewers: tuple[str, str]
    shared: int
    """Number of failures that both reviewers labelled. A group with one verdict counts once."""
    agreed: int
    kappa: Kappa | None


class Coverage(Frozen):
    """Number of judged findings, and number of these that people reviewed.

    A finding that nobody reviewed does not count as agreement.
    """

    findings: int
    reviewed: int


class Accuracy(Frozen):
    """Agreement of the judges' labels with people's corrections, and of people with each other."""

    labels: int
    """Number of human labels in force."""
    reviewers: tuple[str, ...]
    not_merged: int
    """Number of human labels in force that are only on pages in the reports folder and not yet merged. The authors of
    such labels are not known.
    """
    coverage: Coverage
    judges: tuple[JudgeAccuracy, ...]
    """Accuracy of each judge, sorted by judge id. Empty if people reviewed no finding of any judge."""
    between: tuple[ReviewerRow, ...]


def accuracy(library: ReportsFolder, store: "AnalysisStore") -> Accuracy:
    """Measure judges against the stored labels and the corrections in the reports folder.

    Raises `NotFoundError` if there are no labels and no corrections.
    """
    return accuracy_of(dict(_judged_reports(library.all())), store.labels())


def accuracy_of(analyses: Mapping[str, Analysis], stored: Sequence[HumanLabel]) -> Accuracy:
    """Measure judges against the given labels and the corrections in judges' reports.

    Reports that people wrote are ignored. Raises `NotFoundError` if there are no labels and no corrections.
    """
    # Reports that people wrote have no revision.
    analyses = {name: analysis for name, analysis in analyses.items() if analysis.revision is not None}
    labels = _with_pages(stored, analyses)
    if not labels:
        raise NotFoundError(
            "nobody has corrected or confirmed a finding in this workspace\n"
            "`evalscribe review label REPORT N LABEL` labels a finding; `evalscribe review sync` reads the labels in "
            "reports that were merged in git"
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
    """Return one human label in force for each failure.

    A failure is left out if two reports on the same run label it differently.
    """
    by_subject: dict[LabelledEval, dict[str, HumanLabel]] = {}
    for label in labels:
        if label.in_force:
            by_subject.setdefault(labelled_eval(label), {}).setdefault(label.label, label)
    return tuple(next(iter(by_label.values())) for by_label in by_subject.values() if len(by_label) == 1)


def verdicts(labels: Iterable[HumanLabel]) -> tuple[HumanLabel, ...]:
    """Return the labels, without repetitions of a label on the same group, or on the same eval if it is in no group.

    A verdict on a group is thus counted only once.
    """
    first: dict[tuple[str, str, str], HumanLabel] = {}
    for label in labels:
        first.setdefault((label.run, label.group or label.eval, label.label), label)
    return tuple(first.values())


def _judged_reports(files: Iterable[ReportFile]) -> Iterator[tuple[str, Analysis]]:
    """Yield the name and the content of each report that a judge made. Skip reports that cannot be read."""
    for file in files:
        try:
            analysis = read_report(file.text, file.name, file.data)
        except DataError:
            continue  # `reports check` names the problem of this report
        if analysis.revision is not None:
            yield file.name, analysis


def _may_be_corrected(file: ReportFile) -> bool:
    """Return False only if a page certainly has no corrections.

    This cheap check avoids parsing most pages, because most pages have no corrections.
    """
    written = _WRITTEN.search(file.text)
    unedited = written is not None and page_digest(file.text) == written[1]
    return not unedited or bool(_CORRECTED.search(file.text) or _REVIEWED.search(file.data or ""))


def _findings(analyses: Iterable[Analysis]) -> Iterator[tuple[LabelledEval, JudgedFailure]]:
    """Yield every failed eval of the given reports with its judge's verdict."""
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

    The correction on a page replaces labels from earlier versions of that page.
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
    """Convert the correction of a finding on a page to a label. Return None if the finding has no classification."""
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
    """Return the reviewed verdicts, keyed by judge.

    Verdicts that only repeat people's earlier corrections are left out, because they do not measure a judge.
    """
    by_judge: dict[str, list[CorrectedVerdict]] = {}
    for label in verdicts(_with_verdicts(labels_in_force(labels), findings)):
        if label.judge and label.judged and not by_people(label.judge):
            by_judge.setdefault(CASCADE if label.stage else label.judge, []).append(_corrected(label))
    return by_judge


def _with_verdicts(labels: Iterable[HumanLabel], findings: Findings) -> Iterator[HumanLabel]:
    """Add a judge's verdict to each label that comes from a report written by a person.

    The verdict is taken from a judge's report on the same run. A label that was synced by an older version of
    evalscribe lacks the confidence; the confidence is added if the judge's report still has the same verdict.
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
    # Rules and replays call no model.
    costs = [row.cost_usd for row in rows if not (by_rules(row.judge) or proves(row.judge))]
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
        # A group with one verdict is one observation, however many evals it has.
        (a.run, a.group or a.eval, b.group or b.eval): LabelPair(
            expected=a.label, predicted=b.label, cluster=f"{a.experiment}/{without_trial(a.eval)}"
        )
        for a, b in both
    }
    if not shared:
        return None
    calibration = Calibration(shared.values(), CLASSIFICATIONS)
    return ReviewerRow(reviewers=names, shared=len(shared), agreed=calibration.right, kappa=calibration.kappa)

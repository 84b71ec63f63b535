"""Measure how well judges agree with people, and people with each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from evalscribe.failures.human_labels import LabelledEval, labelled_eval
from evalscribe.ids import Frozen
from evalscribe.model.finding import CLASSIFICATIONS, Classification, HumanLabel
from evalscribe.statistics.agreement import Kappa
from evalscribe.statistics.calibration import Calibration, LabelPair, LabelScore
from evalscribe.statistics.intervals import Interval


class JudgedFailure(NamedTuple):
    """A failed eval as a judge's report classifies it."""

    judge: str | None
    """Judge id with its version; None if no judge decided."""
    label: Classification | None
    """The judge's own label."""
    group: str | None


Findings = Mapping[LabelledEval, JudgedFailure]
"""Every failed eval of the judges' reports, by run and path."""


class JudgeRow(Frozen):
    """A judge compared with the people who reviewed its findings; labels in force count as the truth."""

    judge: str
    """Judge id with its version; `all` for all judges together."""
    labelled: int
    """Number of reviewed verdicts; a group counts once."""
    agreed: int
    agreement: float | None
    interval: Interval
    kappa: Kappa | None
    labels: tuple[LabelScore, ...]
    confusion: dict[str, dict[str, int]]
    """Counts by the people's label, then by the judge's."""


class ReviewerRow(Frozen):
    """Two reviewers with failures that both labelled."""

    reviewers: tuple[str, str]
    shared: int
    """Number of failures that both labelled; a group counts once."""
    agreed: int
    kappa: Kappa | None


class Coverage(Frozen):
    """Share of the judges' findings that people have reviewed. Unreviewed findings do not count as agreement."""

    findings: int
    reviewed: int


class AgreementStats(Frozen):
    labels: int
    """Number of labels in force."""
    reviewers: tuple[str, ...]
    coverage: Coverage
    judges: tuple[JudgeRow, ...]
    """All judges together first, then each by id; empty if no judge's finding was reviewed."""
    between: tuple[ReviewerRow, ...]


def agreement_stats(labels: Sequence[HumanLabel], findings: Findings) -> AgreementStats:
    reviewed = findings.keys() & {labelled_eval(label) for label in labels if label.in_force}
    return AgreementStats(
        labels=sum(label.in_force for label in labels),
        reviewers=tuple(sorted({label.reviewer for label in labels})),
        coverage=Coverage(findings=len(findings), reviewed=len(reviewed)),
        judges=_judges(verdicts(_beside(truths(labels), findings))),
        between=_between(labels),
    )


def truths(labels: Iterable[HumanLabel]) -> tuple[HumanLabel, ...]:
    """Return one label in force per failure; none if two reports of a run contradict each other."""
    by_subject: dict[LabelledEval, dict[str, HumanLabel]] = {}
    for label in labels:
        if label.in_force:
            by_subject.setdefault(labelled_eval(label), {}).setdefault(label.label, label)
    return tuple(next(iter(told.values())) for told in by_subject.values() if len(told) == 1)


def verdicts(labels: Iterable[HumanLabel]) -> tuple[HumanLabel, ...]:
    """Return the first label of each group and every label outside groups, so that a verdict counts once."""
    first: dict[tuple[str, str, str], HumanLabel] = {}
    for label in labels:
        first.setdefault((label.run, label.group or label.eval, label.label), label)
    return tuple(first.values())


def calibration(row: JudgeRow) -> Calibration:
    """Return the row as printable calibration figures."""
    counted = ((truth, said, number) for truth, saids in row.confusion.items() for said, number in saids.items())
    pairs = (LabelPair(expected=truth, predicted=said) for truth, said, number in counted for _ in range(number))
    return Calibration(pairs, CLASSIFICATIONS)


def _beside(labels: Iterable[HumanLabel], findings: Findings) -> Iterator[HumanLabel]:
    """Pair labels from reports that people wrote with the finding of a judge's report on the same run."""
    for label in labels:
        found = None if label.judge else findings.get(labelled_eval(label))
        if found is None:
            yield label
        else:
            yield label.model_copy(update={"judge": found.judge, "judged": found.label, "group": found.group})


def _judges(labels: Sequence[HumanLabel]) -> tuple[JudgeRow, ...]:
    by_judge: dict[str, list[HumanLabel]] = {}
    for label in labels:
        if label.judge and label.judged:
            by_judge.setdefault(label.judge, []).append(label)
    every = [label for told in by_judge.values() for label in told]
    rows = {"all": every} if len(by_judge) > 1 else {}
    return tuple(_judge(name, told) for name, told in (*rows.items(), *sorted(by_judge.items())))


def _judge(name: str, labels: Sequence[HumanLabel]) -> JudgeRow:
    found = Calibration((LabelPair(expected=label.label, predicted=label.judged) for label in labels), CLASSIFICATIONS)
    return JudgeRow(
        judge=name,
        labelled=found.judged,
        agreed=found.right,
        agreement=found.agreement,
        interval=found.interval,
        kappa=found.kappa,
        labels=found.scores,
        confusion={truth: {said: found.confusion(truth, said) for said in found.labels} for truth in found.labels},
    )


def _between(labels: Sequence[HumanLabel]) -> tuple[ReviewerRow, ...]:
    said: dict[str, dict[LabelledEval, HumanLabel]] = {}
    for label in labels:
        said.setdefault(label.reviewer, {})[labelled_eval(label)] = label
    return tuple(row for pair in combinations(sorted(said), 2) if (row := _pair(pair, said[pair[0]], said[pair[1]])))


def _pair(
    names: tuple[str, str], one: dict[LabelledEval, HumanLabel], other: dict[LabelledEval, HumanLabel]
) -> ReviewerRow | None:
    both = [(one[subject], other[subject]) for subject in one if subject in other]
    shared = {
        (a.run, a.group or a.eval, b.group or b.eval): LabelPair(expected=a.label, predicted=b.label) for a, b in both
    }
    if not shared:
        return None
    found = Calibration(shared.values(), CLASSIFICATIONS)
    return ReviewerRow(reviewers=names, shared=len(shared), agreed=found.right, kappa=found.kappa)

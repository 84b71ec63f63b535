"""How well judges agree with people, how far people agree with each other, and how much has been reviewed."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from evalscribe.calibration import Calibration, Pair
from evalscribe.finding import CLASSIFICATIONS
from evalscribe.given_label import GivenLabel
from evalscribe.ids import Frozen
from evalscribe.review.recalled import Subject, subject_of
from evalscribe.statistics import Interval, Kappa

FEWEST_SHARED = 2
"""Reviewers are compared from so many shared failures on."""


class LabelRow(Frozen):
    label: str
    hits: int
    truths: int
    saids: int
    precision: float | None
    recall: float | None


class JudgeRow(Frozen):
    """A judge beside the people who reviewed its findings; a label in force is the truth."""

    judge: str
    """Id with its version; `all` for all judges together."""
    labelled: int
    agreed: int
    agreement: float | None
    interval: Interval
    kappa: Kappa | None
    labels: tuple[LabelRow, ...]
    confusion: dict[str, dict[str, int]]
    """By the people's label, then by the judge's."""


class ReviewerRow(Frozen):
    """Two reviewers who labelled some failures both."""

    reviewers: tuple[str, str]
    shared: int
    agreed: int
    kappa: Kappa | None


class Coverage(Frozen):
    """What of the findings of judges people have reviewed. A finding that nobody reviewed agrees with nobody."""

    findings: int
    reviewed: int


class Stats(Frozen):
    labels: int
    """Labels in force."""
    reviewers: tuple[str, ...]
    coverage: Coverage
    judges: tuple[JudgeRow, ...]
    """All together first, then each by its id; none where no judge's finding was reviewed."""
    between: tuple[ReviewerRow, ...]


def stats(labels: Sequence[GivenLabel], findings: Iterable[Subject]) -> Stats:
    """`findings`: run and path of every failed eval that a judge's report has. Raises `UsageError` without scipy."""
    subjects = set(findings)
    reviewed = subjects & {subject_of(label) for label in labels if label.in_force}
    return Stats(
        labels=sum(label.in_force for label in labels),
        reviewers=tuple(sorted({label.reviewer for label in labels})),
        coverage=Coverage(findings=len(subjects), reviewed=len(reviewed)),
        judges=_judges(truths(labels)),
        between=_between(labels),
    )


def truths(labels: Iterable[GivenLabel]) -> tuple[GivenLabel, ...]:
    """One label in force of each failure; none where two reports of a run contradict each other."""
    by_subject: dict[Subject, dict[str, GivenLabel]] = {}
    for label in labels:
        if label.in_force:
            by_subject.setdefault(subject_of(label), {}).setdefault(label.label, label)
    return tuple(next(iter(told.values())) for told in by_subject.values() if len(told) == 1)


def calibration(row: JudgeRow) -> Calibration:
    """The row as figures to print."""
    counted = ((truth, said, number) for truth, saids in row.confusion.items() for said, number in saids.items())
    pairs = (Pair(truth=truth, said=said) for truth, said, number in counted for _ in range(number))
    return Calibration(pairs, CLASSIFICATIONS)


def _judges(labels: Sequence[GivenLabel]) -> tuple[JudgeRow, ...]:
    by_judge: dict[str, list[GivenLabel]] = {}
    for label in labels:
        if label.judge and label.judged:
            by_judge.setdefault(label.judge, []).append(label)
    every = [label for told in by_judge.values() for label in told]
    rows = {"all": every} if len(by_judge) > 1 else {}
    return tuple(_judge(name, told) for name, told in (*rows.items(), *sorted(by_judge.items())))


def _judge(name: str, labels: Sequence[GivenLabel]) -> JudgeRow:
    found = Calibration((Pair(truth=label.label, said=label.judged) for label in labels), CLASSIFICATIONS)
    return JudgeRow(
        judge=name,
        labelled=found.judged,
        agreed=found.right,
        agreement=found.agreement,
        interval=found.interval,
        kappa=found.kappa,
        labels=tuple(LabelRow(**dict(one), precision=one.precision, recall=one.recall) for one in found.scores),
        confusion={truth: {said: found.confusion(truth, said) for said in found.labels} for truth in found.labels},
    )


def _between(labels: Sequence[GivenLabel]) -> tuple[ReviewerRow, ...]:
    said: dict[str, dict[Subject, str]] = {}
    for label in labels:
        said.setdefault(label.reviewer, {})[subject_of(label)] = label.label
    return tuple(row for pair in combinations(sorted(said), 2) if (row := _pair(pair, said[pair[0]], said[pair[1]])))


def _pair(names: tuple[str, str], one: dict[Subject, str], other: dict[Subject, str]) -> ReviewerRow | None:
    shared = [subject for subject in one if subject in other]
    if len(shared) < FEWEST_SHARED:
        return None
    found = Calibration((Pair(truth=one[subject], said=other[subject]) for subject in shared), CLASSIFICATIONS)
    return ReviewerRow(reviewers=names, shared=len(shared), agreed=found.right, kappa=found.kappa)

"""Select failures of a run for a regression dataset."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from evalscribe.model.analysis import FindingSummary
from evalscribe.model.finding import Classification

UNJUDGED = "not in the report"
UNCLASSIFIED = "unclassified"
UNREVIEWED = "not reviewed"


class FailedTrial(NamedTuple):
    """One try that did not pass."""

    key: str
    """Of the item that is made of it; the tries of one item share it."""
    path: str
    """As the run's report prints it."""
    id: str
    """Of the run item or eval."""


class LabelFilter(NamedTuple):
    """Which failures are wanted, by what the run's report says of them."""

    classifications: frozenset[Classification]
    reviewed_only: bool = False
    """Only those whose label a person gave or confirmed."""


class SelectedFailures(NamedTuple):
    failures: tuple[tuple[FailedTrial, FindingSummary | None], ...]
    """The first of each item, with the finding that it was picked for."""
    left_out: Mapping[str, int]
    """How many items were not picked, by why: a classification, or that there is none."""


def select_failures(
    failures: Iterable[FailedTrial], findings: Mapping[str, FindingSummary], label: LabelFilter | None
) -> SelectedFailures:
    """Without a label all. `findings` by printed path; the label in force counts, a person's before a judge's."""
    found: dict[str, tuple[FailedTrial, FindingSummary | None]] = {}
    left: dict[str, str] = {}
    for failure in failures:
        finding = findings.get(failure.path)
        reason = label and _why_not(finding, label)
        if reason:
            left.setdefault(failure.key, reason)
        else:
            found.setdefault(failure.key, (failure, finding))
    reasons = Counter(reason for key, reason in left.items() if key not in found)
    return SelectedFailures(tuple(found.values()), dict(sorted(reasons.items())))


def _why_not(finding: FindingSummary | None, label: LabelFilter) -> str | None:
    if finding is None:
        return UNJUDGED
    if finding.classification is None:
        return UNCLASSIFIED
    if finding.classification not in label.classifications:
        return finding.classification
    return UNREVIEWED if label.reviewed_only and not finding.by_person else None

"""Measure how well a judge agrees with human labels."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from pydantic import computed_field

from evalscribe.ids import Frozen
from evalscribe.statistics.agreement import Kappa, clustered_kappa
from evalscribe.statistics.intervals import Interval, TrialCluster, cluster_interval, wilson_interval


class LabelPair(Frozen):
    """The labels of one subject."""

    expected: str
    """Label by people."""
    predicted: str | None
    """Label by the judge; `None` if it did not judge."""
    cluster: str | None = None
    """Pairs with the same cluster count as one observation, such as trials of one item.

    `None`: a cluster of its own.
    """


class LabelScore(Frozen):
    """Precision and recall of one label, among the judged subjects."""

    label: str
    hits: int
    """Number of subjects to which both gave the label."""
    truths: int
    """Number of subjects to which people gave the label."""
    saids: int
    """Number of subjects to which the judge gave the label."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def precision(self) -> float | None:
        """`None` if the judge never gave the label."""
        return self.hits / self.saids if self.saids else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def recall(self) -> float | None:
        """`None` if people never gave the label."""
        return self.hits / self.truths if self.truths else None


class Calibration:
    """Figures of a judge. Every share is of the judged subjects, except `agreement_over_all`."""

    def __init__(self, pairs: Iterable[LabelPair], labels: Sequence[str] = ()) -> None:
        """Put `labels` first in the tables, in this order; others follow as they occur."""
        self.pairs = tuple(pairs)
        self._judged = [(pair.expected, pair.predicted) for pair in self.pairs if pair.predicted is not None]
        self._groups = _grouped(self.pairs)
        occurring = [label for pair in self._judged for label in pair]
        self.labels = tuple(dict.fromkeys([*labels, *(pair.expected for pair in self.pairs), *occurring]))
        self._counts = Counter(self._judged)

    @property
    def judged(self) -> int:
        return len(self._judged)

    @property
    def unjudged(self) -> int:
        return len(self.pairs) - self.judged

    @cached_property
    def right(self) -> int:
        return sum(expected == predicted for expected, predicted in self._judged)

    @property
    def agreement(self) -> float | None:
        """Accuracy; `None` if nothing was judged."""
        return self.right / self.judged if self.judged else None

    @property
    def agreement_over_all(self) -> float | None:
        """Accuracy with unjudged subjects counted as disagreement."""
        return self.right / len(self.pairs) if self.pairs else None

    @cached_property
    def interval(self) -> Interval:
        """95 % interval of `agreement`: Wilson's, or a cluster interval if pairs share clusters."""
        if all(group.total() == 1 for group in self._groups):
            return wilson_interval(self.right, self.judged)
        right = (
            sum(count for (expected, predicted), count in group.items() if expected == predicted)
            for group in self._groups
        )
        return cluster_interval(Counter(map(TrialCluster, right, (group.total() for group in self._groups))))

    @cached_property
    def scores(self) -> tuple[LabelScore, ...]:
        """One score for each label, in the order of `labels`."""
        return tuple(map(self.score, self.labels))

    def score(self, label: str) -> LabelScore:
        return LabelScore(
            label=label,
            hits=self._counts[label, label],
            truths=sum(expected == label for expected, _ in self._judged),
            saids=sum(predicted == label for _, predicted in self._judged),
        )

    @property
    def balanced(self) -> float | None:
        """Balanced accuracy: mean recall of the labels that people gave."""
        recalls = [score.recall for score in self.scores if score.recall is not None]
        return sum(recalls) / len(recalls) if recalls else None

    @property
    def commonest(self) -> float | None:
        """Accuracy of a judge that always gives the most common label."""
        return max(score.truths for score in self.scores) / self.judged if self.judged else None

    @cached_property
    def kappa(self) -> Kappa | None:
        """Cohen's kappa; `None` if nothing was judged, or both sides gave only one label."""
        number = {label: place for place, label in enumerate(self.labels)}
        groups = [
            Counter({(number[expected], number[predicted]): count for (expected, predicted), count in group.items()})
            for group in self._groups
        ]
        return clustered_kappa(groups, len(self.labels))

    def confusion(self, expected: str, predicted: str) -> int:
        """Number of subjects that people labelled `expected` and the judge `predicted`."""
        return self._counts[expected, predicted]


def _grouped(pairs: Iterable[LabelPair]) -> tuple[Counter[tuple[str, str]], ...]:
    """Counts of the judged pairs of each observation."""
    alone, together = [], dict[str, Counter[tuple[str, str]]]()
    for pair in pairs:
        if pair.predicted is None:
            continue
        if pair.cluster is None:
            alone.append(Counter([(pair.expected, pair.predicted)]))
        else:
            together.setdefault(pair.cluster, Counter())[pair.expected, pair.predicted] += 1
    return (*alone, *together.values())

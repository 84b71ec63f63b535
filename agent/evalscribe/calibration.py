"""How well a judge says what people said: agreement and how much of it is luck, label by label."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from pydantic import computed_field

from evalscribe.ids import Frozen
from evalscribe.statistics import Cluster, Interval, Kappa, clustered, clustered_kappa, wilson


class Pair(Frozen):
    """What people said of one subject, and what the judge did; `said` is None where it did not judge."""

    truth: str
    said: str | None
    cluster: str | None = None
    """Pairs that share it are one observation: tries of one item, runs of one eval. None: on its own."""


class LabelScore(Frozen):
    """One label, among the subjects that were judged."""

    label: str
    hits: int
    """How often both said it."""
    truths: int
    """How often people said it."""
    saids: int
    """How often the judge said it."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def precision(self) -> float | None:
        """Of the subjects that the judge called so; None where it called none."""
        return self.hits / self.saids if self.saids else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def recall(self) -> float | None:
        """Of the subjects that people called so; None where there is none."""
        return self.hits / self.truths if self.truths else None


class Calibration:
    """A judge beside people. Every share is among the judged, but for `agreement_over_all`."""

    def __init__(self, pairs: Iterable[Pair], labels: Sequence[str] = ()) -> None:
        """`labels` come first in the tables, in this order; others follow as they occur."""
        self.pairs = tuple(pairs)
        self._judged = [(pair.truth, pair.said) for pair in self.pairs if pair.said is not None]
        self._groups = _grouped(self.pairs)
        occurring = [label for pair in self._judged for label in pair]
        self.labels = tuple(dict.fromkeys([*labels, *(pair.truth for pair in self.pairs), *occurring]))
        self._counts = Counter(self._judged)

    @property
    def judged(self) -> int:
        return len(self._judged)

    @property
    def unjudged(self) -> int:
        return len(self.pairs) - self.judged

    @cached_property
    def right(self) -> int:
        return sum(truth == said for truth, said in self._judged)

    @property
    def agreement(self) -> float | None:
        """None where nothing was judged."""
        return self.right / self.judged if self.judged else None

    @property
    def agreement_over_all(self) -> float | None:
        """The same with what was not judged counted as not agreeing."""
        return self.right / len(self.pairs) if self.pairs else None

    @cached_property
    def interval(self) -> Interval:
        """The 95 % interval of `agreement`: Wilson's, or where pairs share a cluster that of clusters."""
        if all(group.total() == 1 for group in self._groups):
            return wilson(self.right, self.judged)
        right = (sum(count for (truth, said), count in group.items() if truth == said) for group in self._groups)
        return clustered(Counter(map(Cluster, right, (group.total() for group in self._groups))))

    @cached_property
    def scores(self) -> tuple[LabelScore, ...]:
        """Every label, in the order of `labels`."""
        return tuple(map(self.score, self.labels))

    def score(self, label: str) -> LabelScore:
        return LabelScore(
            label=label,
            hits=self._counts[label, label],
            truths=sum(truth == label for truth, _ in self._judged),
            saids=sum(said == label for _, said in self._judged),
        )

    @property
    def balanced(self) -> float | None:
        """Balanced accuracy: the mean of the recalls of the labels that people gave."""
        recalls = [score.recall for score in self.scores if score.recall is not None]
        return sum(recalls) / len(recalls) if recalls else None

    @property
    def commonest(self) -> float | None:
        """What always saying the commonest label would reach."""
        return max(score.truths for score in self.scores) / self.judged if self.judged else None

    @cached_property
    def kappa(self) -> Kappa | None:
        """None where nothing was judged, or all of it is one label on both sides."""
        number = {label: place for place, label in enumerate(self.labels)}
        groups = [
            Counter({(number[truth], number[said]): count for (truth, said), count in group.items()})
            for group in self._groups
        ]
        return clustered_kappa(groups, len(self.labels))

    def confusion(self, truth: str, said: str) -> int:
        """How often people said the one and the judge the other."""
        return self._counts[truth, said]


def _grouped(pairs: Iterable[Pair]) -> tuple[Counter[tuple[str, str]], ...]:
    """What was judged, one group for each observation."""
    alone, together = [], dict[str, Counter[tuple[str, str]]]()
    for pair in pairs:
        if pair.said is None:
            continue
        if pair.cluster is None:
            alone.append(Counter([(pair.truth, pair.said)]))
        else:
            together.setdefault(pair.cluster, Counter())[pair.truth, pair.said] += 1
    return (*alone, *together.values())

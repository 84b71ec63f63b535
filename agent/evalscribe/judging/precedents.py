"""Which of what earlier reports say a judge is shown: the one rule for every question about a failure."""

from collections.abc import Sequence

from evalscribe.model.finding import Precedent

MOST = 6


def shown(precedents: Sequence[Precedent]) -> tuple[Precedent, ...]:
    """What people concluded or did. A label of our own that nobody reviewed is no reason, so it is not shown."""
    told = (precedent for precedent in precedents if precedent.by_person or precedent.action)
    return tuple(precedent if precedent.by_person else _unconcluded(precedent) for precedent in told)[:MOST]


def _unconcluded(precedent: Precedent) -> Precedent:
    said = ("classification", "cause", "reasoning", "reviewer", "note")
    return precedent.model_copy(update=dict.fromkeys(said))

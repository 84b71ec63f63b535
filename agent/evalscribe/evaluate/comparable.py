"""Whether two runs can be compared at all: over the same items, by the same scorers."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from evalscribe.evaluate.sided import Sided
from evalscribe.model.score import Binding
from evalscribe.text import join_first, pluralise

MOST_NAMED = 5


class Shared(NamedTuple):
    """What both runs have."""

    keys: tuple[str, ...]
    """Of items whose content is the same, in the order of the base."""
    bindings: tuple[Binding, ...]
    """Of scorers that are the same in version, threshold and whether they are required."""
    differing: tuple[str, ...]
    """What is not shared, a sentence each; nothing where the runs can be compared as they are."""

    @property
    def enough(self) -> bool:
        """Whether what is shared can be compared."""
        return bool(self.keys) and any(binding.required for binding in self.bindings)


def shared(base: Sided, candidate: Sided) -> Shared:
    same_items = _over(base) == _over(candidate)
    keys = tuple(key for key, own in base.items.items() if same_items or _same(candidate.items.get(key), own))
    before, now = _by_name(base), _by_name(candidate)
    bindings = tuple(binding for name, binding in before.items() if name in now and not _differ(binding, now[name]))
    items = () if same_items else tuple(_items(base, candidate))
    return Shared(keys, bindings, (*items, *_scorers(before, now)))


def _same(one: object, other: object) -> bool:
    return one is not None and one == other


def _over(side: Sided) -> tuple[str, str | None]:
    return side.run.dataset_version_id, side.version.config.split


def _by_name(side: Sided) -> Mapping[str, Binding]:
    return {binding.spec.name: binding for binding in side.version.bindings}


def _items(base: Sided, candidate: Sided) -> Iterator[str]:
    kinds = {
        "is only in the base": [key for key in base.items if key not in candidate.items],
        "is only in the candidate": [key for key in candidate.items if key not in base.items],
        "differs": [key for key, own in base.items.items() if key in candidate.items and candidate.items[key] != own],
    }
    if base.run.dataset_version_id != candidate.run.dataset_version_id:
        ids = f"{base.run.dataset_version_id} and {candidate.run.dataset_version_id}"
        yield f"the runs are over different dataset versions, {ids}"
    if base.version.config.split != candidate.version.config.split:
        yield f"the base tried {base.version.config.tried} and the candidate {candidate.version.config.tried}"
    for what, keys in kinds.items():
        if keys:
            are = what.replace("is ", "are ").replace("differs", "differ") if len(keys) > 1 else what
            yield f"{pluralise(len(keys), 'item')} {are}: {join_first(keys, MOST_NAMED)}"


def _scorers(before: Mapping[str, Binding], now: Mapping[str, Binding]) -> Iterator[str]:
    for name in {**before, **now}:
        if name not in now:
            yield f"scorer {name} is only in the base"
        elif name not in before:
            yield f"scorer {name} is only in the candidate"
        elif told := _differ(before[name], now[name]):
            yield f"scorer {name} differs: {told}"


def _differ(before: Binding, now: Binding) -> str | None:
    """In what, from the base to the candidate."""
    if before.spec.id != now.spec.id:
        return f"version {before.spec.id} and {now.spec.id}"
    if before.required != now.required:
        return f"required in the {'base' if before.required else 'candidate'} only"
    if before.threshold != now.threshold:
        return f"threshold {_number(before.threshold)} and {_number(now.threshold)}"
    return None


def _number(threshold: float | None) -> str:
    return "none" if threshold is None else f"{threshold:g}"

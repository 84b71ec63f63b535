"""Triage: which failures one verdict may answer for."""

from collections.abc import Iterable, Sequence

from evalscribe.model.evidence import GatheredEvidence
from evalscribe.model.finding import FailureGroup


def groups(gathered: Iterable[GatheredEvidence]) -> tuple[FailureGroup, ...]:
    """Failures in groups, in the order of their first members; every eval is in exactly one.

    Together are those that ended with one located error before the model produced any output, and those that look
    the same to a judge. Equal signatures with different evidence stay apart: they are a pattern, judged one by one.
    """
    members: dict[str, list[GatheredEvidence]] = {}
    for one in gathered:
        members.setdefault(one.likeness, []).append(one)
    return tuple(_group(likeness, alike) for likeness, alike in members.items())


def _group(likeness: str, alike: Sequence[GatheredEvidence]) -> FailureGroup:
    return FailureGroup(id=likeness, eval_ids=tuple(one.eval_id for one in alike), signature=alike[0].signature)

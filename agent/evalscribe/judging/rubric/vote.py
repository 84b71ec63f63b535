"""Which of several rollouts decides: the same one every time, whatever the order in which they came."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from evalscribe.ids import Frozen, canonical_json
from evalscribe.judging.rubric.rollout import Rollout
from evalscribe.model.output_schema import agreement_keys

ABSENT = "(none)"
"""How the vote of an output without the key is told."""
Ballot = tuple[str | None, ...]
"""What one output says under each agreement key, as canonical JSON; None where it says nothing."""


class Election(Frozen):
    winner: Rollout
    votes: dict[str, dict[str, int]]
    """By agreement key and value, the most frequent value first."""
    agreement: dict[str, float]
    """By agreement key, which share of the outputs says the same as the winner."""
    tie: bool
    """Whether counts alone did not decide."""
    confidence: float | None
    """Share of all rollouts, failed ones too, that say the same as the winner under every key.

    None for a single rollout, and where there is no key to agree on.
    """


def elected(rollouts: Sequence[Rollout], schema: dict[str, Any]) -> Election | None:
    """The vote over the outputs; None where every rollout failed.

    Under each key the most frequent value is the mode. The output with most modes wins, then the one whose values have
    most votes, then the one whose values stand first in the schema, then the one with the lowest number.
    """
    succeeded = sorted((one for one in rollouts if one.output is not None), key=lambda one: one.number)
    if not succeeded:
        return None
    return _Count(schema, succeeded).result(len(rollouts))


class _Count:
    def __init__(self, schema: dict[str, Any], succeeded: Sequence[Rollout]) -> None:
        self._keys = agreement_keys(schema)
        self._orders = [_order(schema["properties"][key]) for key in self._keys]
        self._succeeded = succeeded
        self._ballots: list[Ballot] = [_ballot(one.output or {}, self._keys) for one in succeeded]
        self._counts: list[Counter[str | None]] = [Counter(column) for column in zip(*self._ballots, strict=True)]

    def result(self, asked: int) -> Election:
        best = min(range(len(self._succeeded)), key=self._rank)
        ballot = self._ballots[best]
        agreeing = self._ballots.count(ballot)
        return Election(
            winner=self._succeeded[best],
            votes={key: self._told(n) for n, key in enumerate(self._keys)},
            agreement={key: self._counts[n][ballot[n]] / len(self._ballots) for n, key in enumerate(self._keys)},
            tie=self._tied(best),
            confidence=agreeing / asked if asked > 1 and self._keys else None,
        )

    def _rank(self, index: int) -> tuple[int, int, list[int], int]:
        """Lowest is best."""
        places = [self._place(n, value) for n, value in enumerate(self._ballots[index])]
        return (*self._by_counts(index), places, self._succeeded[index].number)

    def _by_counts(self, index: int) -> tuple[int, int]:
        ballot = self._ballots[index]
        modes = sum(self._mode(n) == value for n, value in enumerate(ballot))
        return -modes, -sum(self._counts[n][value] for n, value in enumerate(ballot))

    def _mode(self, n: int) -> str | None:
        counts = self._counts[n]
        return min(counts, key=lambda value: (-counts[value], self._place(n, value)))

    def _place(self, n: int, value: str | None) -> int:
        """Where a value stands in the schema; saying nothing comes last."""
        order = self._orders[n]
        return order.index(value) if value in order else len(order)

    def _tied(self, best: int) -> bool:
        rivals = {self._ballots[n] for n in range(len(self._ballots)) if self._by_counts(n) == self._by_counts(best)}
        modes = [[count for count in counts.values() if count == max(counts.values())] for counts in self._counts]
        return len(rivals) > 1 or any(len(tied) > 1 for tied in modes)

    def _told(self, n: int) -> dict[str, int]:
        values = sorted(self._counts[n].items(), key=lambda item: (-item[1], self._place(n, item[0])))
        return {_shown(value): count for value, count in values}


def _order(schema: dict[str, Any]) -> list[str]:
    return [canonical_json(value) for value in schema.get("enum", (True, False))]


def _ballot(output: dict[str, Any], keys: Sequence[str]) -> Ballot:
    return tuple(canonical_json(output[key]) if key in output else None for key in keys)


def _shown(value: str | None) -> str:
    if value is None:
        return ABSENT
    return value[1:-1] if value.startswith('"') else value

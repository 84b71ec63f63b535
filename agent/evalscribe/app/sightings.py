"""The failures of stored runs, and what other models' runs say of a failure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evalscribe.across import compare, model_name, shows_all
from evalscribe.evidence import Unreadable
from evalscribe.finding import Across
from evalscribe.gather import METHOD, sighting
from evalscribe.ids import same_experiment
from evalscribe.ports import Store
from evalscribe.run import Run
from evalscribe.sighting import Sighting


def sightings(store: Store, run: Run) -> tuple[Sighting, ...]:
    """One for each failure of a stored run; made from the stored evidence where they are missing or outdated."""
    known = store.sightings(run.id)
    if len(known) == len(run.failures) and all(one.method == METHOD for one in known):
        return known
    made = tuple(
        sighting(run, store.get_evidence(run.id, eval.id) or Unreadable(eval=eval, reason="not in the store"))
        for eval in run.failures
    )
    store.put_sightings(run.id, made)
    return made


def stored_runs(store: Store) -> Iterable[Run]:
    return (run for run_id in store.run_ids() if (run := store.get_run(run_id)) is not None)


class Passing(NamedTuple):
    """A run that shows every failure it had."""

    run: str
    model: str
    evals: frozenset[str] | None
    """Those that it had, where the source names them."""


@dataclass(frozen=True)
class Elsewhere:
    """The other stored runs of an experiment, as far as they say something of some evals."""

    failures: Mapping[str, Sequence[Sighting]]
    """By the eval's path."""
    passing: Sequence[Passing]

    def across(self, sighting: Sighting) -> Across | None:
        """What other models' runs say of a failure; None where none of them fails in the same way."""
        others = self.failures.get(sighting.eval, ())
        return compare(sighting, others, self._passed(sighting.eval)) if others else None

    def _passed(self, eval: str) -> dict[str, str]:
        return {run: model for run, model, evals in self.passing if evals is None or eval in evals}


def elsewhere(store: Store, run: Run, mine: Iterable[Sighting]) -> Elsewhere:
    """What the other runs of its experiment say of a run's failures. They are read one by one and not kept."""
    wanted = {sighting.eval for sighting in mine}
    passing: list[Passing] = []
    failures: dict[str, list[Sighting]] = defaultdict(list)
    for other in stored_runs(store):
        if other.id == run.id or not other.experiment or not same_experiment(other.experiment, run.experiment):
            continue
        if shows_all(other):
            named = None if other.evals is None else frozenset(other.evals)
            passing.append(Passing(other.id, model_name(other), named))
        for one in sightings(store, other):
            if one.eval in wanted:
                failures[one.eval].append(one)
    return Elsewhere(failures, passing)

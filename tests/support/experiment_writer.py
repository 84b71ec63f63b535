"""A process that writes to a store at the same time as another."""

import sys
from pathlib import Path

from evalscribe.store.experiment_runs import open_datasets, open_definitions, open_experiment_runs
from support.example_experiments import (
    DATASET,
    NOW,
    PROMPT_VERSION,
    SCORER,
    SPEC,
    make_item,
    make_score,
    make_trial,
    make_version,
)


class Writer:
    def __init__(self, place: Path | str, me: str, times: int) -> None:
        self._me, self._times = me, times
        self._datasets, self._definitions = open_datasets(place), open_definitions(place)
        self._runs = open_experiment_runs(place)

    def write(self) -> None:
        for n in range(self._times):
            self._define(n)
            one = make_trial(n)
            self._runs.put(one, [make_score(one, "exact", id=f"score-{self._me}-{n}")])
            self._runs.beat(one.item.run_id, NOW)

    def close(self) -> None:
        for opened in (self._datasets, self._definitions, self._runs):
            opened.close()

    def _define(self, n: int) -> None:
        mine = f"{self._me}-{n}"
        self._datasets.put(DATASET.id, [make_item(mine), make_item(f"both-{n}")])
        self._datasets.publish(DATASET.id, NOW)
        self._definitions.put_prompt("helper", PROMPT_VERSION.model_copy(update={"id": f"pv-{mine}"}))
        self._definitions.put_scorer(SCORER.model_copy(update={"spec": SPEC.model_copy(update={"code": mine})}))
        self._definitions.put_version(make_version(passed_threshold=(n + 1) / (100 if self._me == "a" else 10)))


if __name__ == "__main__":
    where = sys.argv[1]
    writer = Writer(where if "://" in where else Path(where), "child", int(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.readline()
    writer.write()

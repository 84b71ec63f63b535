"""Two processes write at once: version numbers are unique, each trial is stored once, and no write is refused."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from evalscribe.model.score import ScoreQuery
from evalscribe.store.datasets import DatasetStore
from evalscribe.store.definitions import ExperimentStore
from evalscribe.store.experiment_runs import ExperimentRunStore
from support.example_experiments import DATASET, EXPERIMENT, RUN, VERSION, make_trial
from support.experiment_writer import Writer

TIMES = 8
TESTS = Path(__file__).parents[2]


def test_two_concurrent_writers_number_versions_and_store_trials_once(
    place: Path | str, datasets: DatasetStore, definitions: ExperimentStore, runs: ExperimentRunStore
) -> None:
    datasets.add(DATASET)
    definitions.add_experiment(EXPERIMENT, VERSION)
    runs.add(RUN)
    _write_concurrently(place)
    versions = datasets.versions(DATASET.id)
    assert [version.number for version in versions] == _numbers(len(versions))
    keys = [item.key for item in datasets.items(versions[-1].id)]
    assert len(keys) == len(set(keys)) == 3 * TIMES
    prompt, scorer = definitions.prompt("helper"), definitions.scorer("polite")
    assert prompt is not None
    assert [version.number for version in prompt.versions] == _numbers(2 * TIMES)
    assert scorer is not None
    assert scorer.number == 2 * TIMES
    experiment_versions = definitions.experiment_versions(EXPERIMENT.id)
    assert [version.number for version in experiment_versions] == _numbers(len(experiment_versions))
    assert runs.done(RUN.id) == {(f"k{n}", 1) for n in range(TIMES)}
    assert len(list(runs.scores(ScoreQuery(run_id=RUN.id)))) == TIMES
    assert runs.attempt(make_trial().item.id) == make_trial()


def _numbers(last: int) -> list[int]:
    return list(range(1, last + 1))


def _write_concurrently(place: Path | str) -> None:
    command = [sys.executable, "-m", "support.experiment_writer", str(place), str(TIMES)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS) as child,
        closing(Writer(place, "a", TIMES)) as writer,
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        writer.write()
    assert child.returncode == 0

"""Run an experiment on the real runs, with the maintainers' labels as its dataset, a judge as its target, and a gate.

    python tests/benchmarks/classifier.py [JUDGE] [FOLDER]          needs EVALSCRIBE_REAL_DATA

JUDGE is `rules`, `cascade` or PROVIDER/MODEL. The workspace is kept in FOLDER for more experiments and comparisons, or
deleted at the end without FOLDER. Prints accuracy, balanced accuracy and kappa for each split. Also prints the verdict
of the gate on all labels and on the split `test`, which is not used to improve judges.
"""

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.cli import run as command
from evalscribe.experiments.control import launch_run, plan_run
from evalscribe.experiments.gate import headline
from evalscribe.experiments.results import report_run
from evalscribe.experiments.summary import label_pair
from evalscribe.experiments.worker import work_on_run
from evalscribe.judging.result_text import render_interval, render_kappa
from evalscribe.model.experiment import Experiment, ExperimentRun, RunReport
from evalscribe.model.finding import CLASSIFICATIONS
from evalscribe.statistics.agreement import Calibration, LabelPair
from evalscribe.workspace import Workspace
from support.real_runs import run_folders

DATASET = "maintainers"
LABEL = {"output_field": "output.classification", "expected_field": "expected.classification"}
CITED = {"assertions": [{"name": "every quotation is there", "expr": "output.citations.unverified == 0"}]}
GATE = {"min_balanced_accuracy": 0.6, "min_kappa": 0.6, "max_error_rate": 0.0}
GIT = ("git", "-c", "user.name=Maintainers", "-c", "user.email=maintainers@example.org")


@dataclass(frozen=True)
class Measured:
    report: RunReport
    test: RunReport
    """Report of a run on the split `test` only."""
    splits: Mapping[str, Calibration]
    """Agreement, keyed by split; `all` stands for all splits."""


def prepare(data: Path) -> None:
    """Make the working folder a workspace with the maintainers' reports, their runs in the store, and a dataset."""
    Path("evalscribe.toml").touch()
    for folder in run_folders(data):
        report = Path(json.loads((folder / "gold.json").read_text())["report"])
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text((folder / "report.md").read_text())
    for arguments in (("init", "-q", "-b", "main"), ("add", "reports"), ("commit", "-q", "-m", "reviewed")):
        subprocess.run([*GIT, *arguments], check=True)
    told("import", *map(str, run_folders(data)))
    told("datasets", "from-reviews", DATASET, "--publish")


def measured(judge: str = "rules") -> Measured:
    """Create the experiment and run it in this process."""
    scorers = [{"name": "exact_match", "config": LABEL}, {"name": "structured_assertions", "config": CITED}]
    asked = [part for one in scorers for part in ("--builtin-scorer", json.dumps(one))]
    target = ("--target-type", "judge", "--judge", judge)
    id = told("experiments", "create", "--name", judge, "--dataset-id", DATASET, *target, *asked, *_config()).strip()
    with Workspace() as workspace:
        experiment = workspace.store.experiments.experiment(id)
        assert experiment is not None
        run = _ran(workspace, experiment, name=f"{judge} on real runs")
        test = _ran(workspace, experiment, name=f"{judge} on test", config='{"split": "test"}')
        pairs: dict[str, list[LabelPair]] = {"all": []}
        for attempt in workspace.store.experiment_runs.attempts(run.id):
            item = workspace.store.datasets.item(run.dataset_version_id, attempt.item.item_key)
            assert item is not None
            pair = label_pair(item.expected_output, attempt.output)
            assert pair is not None
            for split in ("all", item.split or "none"):
                pairs.setdefault(split, []).append(LabelPair(expected=pair[0], predicted=pair[1]))
        splits = {split: Calibration(those, CLASSIFICATIONS) for split, those in pairs.items()}
        return Measured(report_run(workspace, run), report_run(workspace, test), splits)


def _ran(workspace: Workspace, experiment: Experiment, **wanted: str) -> ExperimentRun:
    """Run the experiment. Verdicts that the judge has already given are reused, so a second run costs nothing."""
    return asyncio.run(work_on_run(workspace, launch_run(workspace, plan_run(workspace, experiment, **wanted)).id))


def told(*arguments: str) -> str:
    """Run a command, and return its standard output instead of showing it."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert command(list(arguments)) == 0, said.getvalue()
    return said.getvalue()


def lines(found: Measured) -> Iterator[str]:
    for split, one in found.splits.items():
        yield (
            f"{split:<6} {one.right:>2}/{one.judged:<3} {one.agreement or 0:.2f} [{render_interval(one.interval)}]"
            f"  balanced {one.balanced or 0:.2f}  kappa {render_kappa(one)}"
        )
    for row in found.report.summary.scorers:
        yield f"{row.scorer}: {row.pass_rate.said}"
    for report in (found.report, found.test):
        assert report.gate is not None
        yield f"{report.summary.dataset}: {headline(report.gate)}"
        yield from (f"  {clause.verdict}: {clause.said}" for clause in report.gate.clauses)


def _config() -> tuple[str, str]:
    return "--config", json.dumps(GATE)


def main(data: Path, judge: str = "rules", folder: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as passing:
        place = Path(folder or passing)
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.chdir(place):
            if not Path("evalscribe.toml").exists():
                prepare(data)
            print("\n".join(lines(measured(judge))))


if __name__ == "__main__":
    main(Path(os.environ["EVALSCRIBE_REAL_DATA"]).resolve(), *sys.argv[1:])

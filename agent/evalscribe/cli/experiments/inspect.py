"""`evalscribe experiments runs list|show`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import ExperimentArgument, RunOfExperiment

if TYPE_CHECKING:
    from evalscribe.app.experiments.runs import ListedRun
    from evalscribe.model.experiment import ExperimentVersion, RunReport

HEADS = ("id", "name", "state", "version", "dataset", "pass rate", "gate", "started")


def list_runs(experiment: ExperimentArgument, form: Format = "table") -> int:
    """List the runs of an experiment, oldest first: state, pass rate over all tries, and whether the gate passed."""
    from evalscribe.app.experiments.find import experiment_named
    from evalscribe.app.experiments.runs import listed_runs
    from evalscribe.cli.display.formatted import checked, listing
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        found = experiment_named(workspace, experiment)
        rows = listed_runs(workspace, found)
    none = f"{found.name} has not run yet: `evalscribe experiments run {found.name}` runs it."
    listing(rows, HEADS, _cells, form, none)
    return 0


def _cells(one: "ListedRun") -> tuple[object, ...]:
    from evalscribe.model.experiment import percent

    gate = None if one.gate is None else "passed" if one.gate else "failed"
    rate = f"{one.counts.passed}/{one.run.tries} {percent(one.pass_rate)}"
    run = one.run
    state = f"{run.state} (worker gone)" if one.worker_gone else run.state
    return run.id, run.name, state, one.version, one.dataset, rate, gate, run.started_at


def show_run(run: RunOfExperiment, form: Format = "table") -> int:
    """Show a run of an experiment: state, pass rate, scorers, gate, and the config of the version that it ran."""
    from evalscribe.app.experiments.find import run_of_experiment, version_of_run
    from evalscribe.app.experiments.gate import reported
    from evalscribe.cli.display.formatted import document
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        found = run_of_experiment(workspace, run)
        version, report = version_of_run(workspace, found), reported(workspace, found)
    document(report, lambda: _told(report, version), form)
    return 0


def _told(report: "RunReport", version: "ExperimentVersion") -> Iterator[str]:
    from evalscribe.app.experiments.listing import binding_line
    from evalscribe.experiments.run_text import summary_lines

    yield from summary_lines(report)
    yield f"config     {version.config.model_dump_json(exclude_none=True)}"
    for binding in version.bindings:
        yield f"           {binding_line(binding)}"

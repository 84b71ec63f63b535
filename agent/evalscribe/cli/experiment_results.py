"""`evalscribe experiments runs list|show|compare|rescore|regression-dataset`."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.experiment_runs import (
    Budget,
    EnvFile,
    ExperimentArgument,
    FailOnGate,
    MaxTokens,
    RunArgument,
    RunOfExperiment,
    Timeout,
    Wait,
    await_end,
)
from evalscribe.cli.options import seconds
from evalscribe.cli.tables import Format, print_document, print_list, validate_format
from evalscribe.errors import UsageError
from evalscribe.interrupts import run_until_signal
from evalscribe.model.finding import CLASSIFICATIONS
from evalscribe.settings import Options
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.experiments.regression import RegressionMade
    from evalscribe.experiments.results import ListedRun
    from evalscribe.model.experiment import ExperimentVersion, RunReport
    from evalscribe.model.finding import Classification
    from evalscribe.model.run_comparison import RunComparison


HEADS = ("id", "name", "state", "version", "dataset", "pass rate", "gate", "started")


def list_runs(experiment: ExperimentArgument, form: Format = "table") -> int:
    """List the runs of an experiment, oldest first: state, pass rate over all tries, and whether the gate passed."""
    from evalscribe.experiments.lookup import experiment_named
    from evalscribe.experiments.results import listed_runs

    validate_format(form)
    with Workspace() as workspace:
        found = experiment_named(workspace, experiment)
        rows = listed_runs(workspace, found)
    none = f"{found.name} has not run yet: `evalscribe experiments run {found.name}` runs it."
    print_list(rows, HEADS, _cells, form, none)
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
    from evalscribe.experiments.lookup import run_of_experiment, version_of_run
    from evalscribe.experiments.results import report_run

    with Workspace() as workspace:
        found = run_of_experiment(workspace, run)
        version, report = version_of_run(workspace, found), report_run(workspace, found)
    print_document(report, lambda: _run_lines(report, version), form)
    return 0


def _run_lines(report: "RunReport", version: "ExperimentVersion") -> Iterator[str]:
    from evalscribe.experiments.results import binding_line
    from evalscribe.experiments.run_text import summary_lines

    yield from summary_lines(report)
    yield f"config     {version.config.model_dump_json(exclude_none=True)}"
    for binding in version.bindings:
        yield f"           {binding_line(binding)}"


REGRESSED = 2
TOO_LITTLE = 3
NOT_COMPARABLE = 65


def compare(
    base: Annotated[
        str,
        typer.Argument(metavar="BASE", help="The run to compare with, by id or name.", show_default=False),
    ],
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE", help="The run in question, by id or name.", show_default=False)
    ],
    allow_mismatch: Annotated[
        bool,
        typer.Option("--allow-mismatch", help="Compare the items and scorers that both share; say what is left out."),
    ] = False,
    asserts: Annotated[
        bool,
        typer.Option("--assert", help="Exit 2 where the candidate regressed, 3 where too little of it was judged."),
    ] = False,
    form: Format = "table",
) -> int:
    """Compare two runs of experiments over the same dataset version: verdict, rates, scorers, and what flipped.

    Exits 65 where the runs cannot be compared.
    """
    from evalscribe.experiments.compare import compare_runs
    from evalscribe.experiments.run_text import comparison_lines

    validate_format(form)
    with Workspace() as workspace:
        found = compare_runs(workspace, base, candidate, allow_mismatch=allow_mismatch)
    print_document(found, lambda: comparison_lines(found), form)
    if found.verdict == "not-comparable":
        return NOT_COMPARABLE
    return _asserted(found) if asserts else 0


def _asserted(found: "RunComparison") -> int:
    from evalscribe.experiments.compare import LEAST_COVERAGE

    if found.verdict == "regressed":
        return REGRESSED
    ended = found.candidate.state == "completed"
    return 0 if ended and found.coverage >= LEAST_COVERAGE else TOO_LITTLE


def rescore(
    run: RunOfExperiment,
    scorer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this scorer. Repeatable. Default: all.", show_default=False),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; stands beside the new scores.", show_default=False)
    ] = None,
    experiment_version_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID|N", help="By the scorers of this version. Default: those of the run's.", show_default=False
        ),
    ] = None,
    budget: Budget = None,
    max_tokens: MaxTokens = None,
    env_file: EnvFile = None,
    form: Format = "table",
) -> int:
    """Score the stored outputs of a run again; nothing is tried again. Old scores are kept, new ones take their
    place."""
    from evalscribe.cli.progress import RunDisplay
    from evalscribe.experiments.lookup import run_of_experiment
    from evalscribe.experiments.worker import rescore_run

    validate_format(form)
    given = Options(budget=budget, max_tokens=max_tokens, env_file=env_file)
    with Workspace(given) as workspace, RunDisplay() as display:
        found = run_of_experiment(workspace, run)
        job = rescore_run(
            workspace, found, display.rescored, scorers=scorer or (), reason=reason, version=experiment_version_id
        )
        done = run_until_signal(job)
    told = (
        f"Scored {pluralise(done.tries, 'stored try')} of run {done.run.id} again: "
        f"{pluralise(done.scores, 'new score')}, {pluralise(done.changed, 'verdict')} changed.",
        f"`evalscribe reports ci {done.run.id}` tells its gate.",
    )
    print_document(done, lambda: told, form)
    return 0


def regression_dataset(
    run: RunArgument,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Of the dataset and of its experiment.", show_default=False)
    ],
    run_item_id: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Take these, in place of all that failed; repeatable.", show_default=False),
    ] = None,
    classification: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL_FAULT[,…]",
            help="Only failures that the run's report classifies so; a person's label beats a judge's.",
            show_default=False,
        ),
    ] = None,
    reviewed_only: Annotated[
        bool, typer.Option("--reviewed-only", help="Only those whose classification a person gave or confirmed.")
    ] = False,
    start_run: Annotated[bool, typer.Option("--start-run", help="Start the first run of it.")] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    deployment_id: Annotated[
        str | None, typer.Option(metavar="ID|NAME", help="The build that is to be run.", show_default=False)
    ] = None,
    fail_on_gate: FailOnGate = None,
    budget: Budget = None,
    max_tokens: MaxTokens = None,
    env_file: EnvFile = None,
    form: Format = "table",
) -> int:
    """Make a dataset of a run's failures, published, with an experiment in which every item has to pass.

    RUN may also be a run that was imported or analysed: then a dataset is all that is made.
    """
    from evalscribe.experiments.control import start_run as start_worker
    from evalscribe.experiments.regression import create_regression_dataset

    validate_format(form)
    if wait and not start_run:
        raise UsageError("--wait waits for a run: give --start-run as well")
    timeout_s = None if timeout is None else seconds(timeout)
    with Workspace(Options(budget=budget, max_tokens=max_tokens, env_file=env_file)) as workspace:
        made, started = create_regression_dataset(
            workspace,
            run,
            name=name,
            run_item_ids=run_item_id or (),
            classifications=_classifications(classification),
            reviewed_only=reviewed_only,
            start_run=start_run,
            deployment=deployment_id,
            budget_usd=workspace.settings.budget.value,
        )
        if started is not None:
            start_worker(workspace, started)
        waiting = started if wait else None
        if waiting is None or form == "table":
            print_document(made, lambda: _dataset_lines(made, name), form)
            sys.stdout.flush()
        if waiting is None:
            return 0
        return await_end(
            workspace,
            waiting.id,
            timeout_s,
            fail_on_gate=fail_on_gate is not False,
            form=form,
            within=lambda report: made.model_copy(update={"report": report}),
        )


def _classifications(text: str | None) -> "tuple[Classification, ...]":

    given = [part.strip() for part in (text or "").split(",") if part.strip()]
    for one in given:
        if one not in CLASSIFICATIONS:
            raise UsageError(f"--classification {one!r} is none of {', '.join(CLASSIFICATIONS)}")
    if text is not None and not given:
        raise UsageError(f"--classification names none of {', '.join(CLASSIFICATIONS)}")
    return tuple(one for one in CLASSIFICATIONS if one in given)


def _dataset_lines(made: "RegressionMade", name: str) -> Iterator[str]:

    if made.dataset_id is None:
        what = "none of its failures is to be taken" if made.left_out else "nothing failed"
        yield f"Run {made.parent_run_id}: {what}, so nothing was made."
    else:
        yield f"dataset     {made.dataset_id}  {name}, {pluralise(made.items, 'item')} of run {made.parent_run_id}"
        yield f"version     {made.dataset_version_id}"
    if made.experiment_id:
        yield f"experiment  {made.experiment_id}  {made.experiment_version_id}"
    if made.run_id:
        yield f"run         {made.run_id}"
    if made.left_out:
        yield "Left out: " + ", ".join(f"{number:,} {why}" for why, number in made.left_out.items()) + "."
    yield from (f"Note: {note}." for note in made.notes)

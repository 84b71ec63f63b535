"""`evalscribe experiments runs regression-dataset RUN`."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import Budget, EnvFile, FailOnGate, MaxTokens, RunArgument, Timeout, Wait

if TYPE_CHECKING:
    from evalscribe.app.experiments.regression import RegressionMade
    from evalscribe.model.finding import Classification


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
    from evalscribe.app.experiments.launch import start_run as start_worker
    from evalscribe.app.experiments.regression import regression
    from evalscribe.cli.display.formatted import checked, document
    from evalscribe.cli.experiments.ended import await_end
    from evalscribe.cli.times import seconds
    from evalscribe.errors import UsageError
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    checked(form)
    if wait and not start_run:
        raise UsageError("--wait waits for a run: give --start-run as well")
    timeout_s = None if timeout is None else seconds(timeout)
    with Workspace(Options(budget=budget, max_tokens=max_tokens, env_file=env_file)) as workspace:
        made, started = regression(
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
            document(made, lambda: _told(made, name), form)
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
    from evalscribe.errors import UsageError
    from evalscribe.model.finding import CLASSIFICATIONS

    given = [part.strip() for part in (text or "").split(",") if part.strip()]
    for one in given:
        if one not in CLASSIFICATIONS:
            raise UsageError(f"--classification {one!r} is none of {', '.join(CLASSIFICATIONS)}")
    if text is not None and not given:
        raise UsageError(f"--classification names none of {', '.join(CLASSIFICATIONS)}")
    return tuple(one for one in CLASSIFICATIONS if one in given)


def _told(made: "RegressionMade", name: str) -> Iterator[str]:
    from evalscribe.text import pluralise

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

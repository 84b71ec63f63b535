"""`evalscribe reports summary|failures|wait|ci|export` for runs of experiments.

They share the group with `reports list|show|check|parse`, which are about reports of analyses.
"""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import output as finish
from evalscribe.cli.experiment_runs import FailOnGate, RunArgument, Timeout, await_end, print_run_result
from evalscribe.cli.options import seconds
from evalscribe.cli.output import write_lines
from evalscribe.cli.tables import Format, print_document, print_list, validate_format
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace


def summary(run: RunArgument, form: Format = "table") -> int:
    """Show what a run of an experiment came to: pass rate with its interval, scorers, cost, and its gate."""
    from evalscribe.experiments.lookup import run_named
    from evalscribe.experiments.results import report_run
    from evalscribe.experiments.run_text import summary_lines

    with Workspace() as workspace:
        report = report_run(workspace, run_named(workspace, run))
    print_document(report, lambda: summary_lines(report), form)
    return 0


def failures(
    run: RunArgument,
    flaky: Annotated[
        bool, typer.Option("--flaky", help="Only tries of items that passed in another repetition.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most so many. Default: all.", show_default=False)
    ] = None,
    form: Format = "table",
) -> int:
    """Show the tries of a run that failed, gave no answer (error) or could not be scored (unscored), and why."""
    from evalscribe.experiments.lookup import run_named
    from evalscribe.experiments.results import failed_trials as use_case
    from evalscribe.experiments.run_text import failure_lines

    validate_format(form)
    with Workspace() as workspace:
        found = run_named(workspace, run)
        rows = use_case(workspace, found, flaky=flaky)
        if form != "table":
            print_list(islice(rows, limit), (), lambda _: (), form, none="")
            return 0
        number = 0
        for number, one in enumerate(islice(rows, limit), 1):  # noqa: B007 (the last number is told)
            for line in failure_lines(one, repeated=found.repetitions > 1):
                finish.say(line)
        more = ", and more than --limit shows" if next(rows, None) else ""
    once = flaky and found.repetitions == 1
    why = "; every item was tried once, so none can be flaky" if once else ""
    finish.say(f"({pluralise(number, 'try')} not passed{more}{why})", file=sys.stderr)
    return 0


def wait(
    run: RunArgument,
    timeout: Timeout = None,
    fail_on_gate: FailOnGate = None,
    form: Format = "table",
) -> int:
    """Wait for the end of a run of an experiment. Exit code 0 gate passed, 2 gate failed, 3 run failed or cancelled, 4
    timed out."""
    from evalscribe.experiments.lookup import run_named

    validate_format(form)
    timeout_s = None if timeout is None else seconds(timeout)
    with Workspace() as workspace:
        found = run_named(workspace, run)
        return await_end(workspace, found.id, timeout_s, fail_on_gate=fail_on_gate is not False, form=form)


def ci(run: RunArgument, fail_on_gate: FailOnGate = None, form: Format = "table") -> int:
    """Print the gate of a finished run, clause by clause. Exit code 0 passed, 2 failed, 3 the run failed or was
    cancelled; 64 while it goes on."""
    from evalscribe.experiments.lookup import require_ended, run_named

    validate_format(form)
    with Workspace() as workspace:
        found = run_named(workspace, run)
        require_ended(found, "its gate is decided when it has ended")
        return print_run_result(workspace, found, fail_on_gate=fail_on_gate is not False, form=form, clauses=True)


def export(
    run: RunArgument,
    artifact_format: Annotated[
        str,
        typer.Option(
            "-f",
            "--artifact-format",
            metavar="csv|json|jsonl|junit|md|html",
            help="What to write.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", "--out-file", metavar="FILE", help="Default: standard output.", show_default=False
        ),
    ] = None,
) -> int:
    """Write every try of a run of an experiment, with its scores, for other programs or for people."""
    from evalscribe.experiments.lookup import run_named
    from evalscribe.experiments.results import export_trials, report_run
    from evalscribe.experiments.run_export import export_lines

    with Workspace() as workspace:
        found = run_named(workspace, run)
        lines = export_lines(artifact_format, report_run(workspace, found), lambda: export_trials(workspace, found))
        write_lines(lines, output, json=artifact_format in ("json", "jsonl"))
    if output is not None:
        finish.say(f"run {found.name or found.id} is in {output}", file=sys.stderr)
    return 0

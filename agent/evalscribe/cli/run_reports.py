"""`evalscribe reports summary|failures|wait|ci|export`: what runs of experiments came to.

They stand beside `reports list|show|check|parse`, which are about reports of analyses.
"""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import FailOnGate, RunArgument, Timeout


def summary(run: RunArgument, form: Format = "table") -> int:
    """Show what a run of an experiment came to: pass rate with its interval, scorers, cost, and its gate."""
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.gate import reported
    from evalscribe.cli.display.formatted import document
    from evalscribe.experiments.run_text import summary_lines
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        report = reported(workspace, run_named(workspace, run))
    document(report, lambda: summary_lines(report), form)
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
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.inspect import failures as use_case
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.formatted import checked, listing
    from evalscribe.experiments.run_text import failure_lines
    from evalscribe.text import pluralise
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        found = run_named(workspace, run)
        rows = use_case(workspace, found, flaky=flaky)
        if form != "table":
            listing(islice(rows, limit), (), lambda _: (), form, none="")
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
    from evalscribe.app.experiments.find import run_named
    from evalscribe.cli.display.formatted import checked
    from evalscribe.cli.experiments.ended import await_end
    from evalscribe.cli.times import seconds
    from evalscribe.workspace import Workspace

    checked(form)
    timeout_s = None if timeout is None else seconds(timeout)
    with Workspace() as workspace:
        found = run_named(workspace, run)
        return await_end(workspace, found.id, timeout_s, fail_on_gate=fail_on_gate is not False, form=form)


def ci(run: RunArgument, fail_on_gate: FailOnGate = None, form: Format = "table") -> int:
    """Print the gate of a finished run, clause by clause. Exit code 0 passed, 2 failed, 3 the run failed or was
    cancelled; 64 while it goes on."""
    from evalscribe.app.experiments.find import require_ended, run_named
    from evalscribe.cli.display.formatted import checked
    from evalscribe.cli.experiments.ended import told
    from evalscribe.workspace import Workspace

    checked(form)
    with Workspace() as workspace:
        found = run_named(workspace, run)
        require_ended(found, "its gate is decided when it has ended")
        return told(workspace, found, fail_on_gate=fail_on_gate is not False, form=form, clauses=True)


def export(
    run: RunArgument,
    artifact_format: Annotated[
        str,
        typer.Option(
            "-f", "--artifact-format", metavar="csv|json|jsonl|junit|md|html", help="What to write.", show_default=False
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
    from evalscribe.app.experiments.export import tries
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.gate import reported
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.line_file import write
    from evalscribe.experiments.run_export import export_lines
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        found = run_named(workspace, run)
        lines = export_lines(artifact_format, reported(workspace, found), lambda: tries(workspace, found))
        write(lines, output, json=artifact_format in ("json", "jsonl"))
    if output is not None:
        finish.say(f"run {found.name or found.id} is in {output}", file=sys.stderr)
    return 0

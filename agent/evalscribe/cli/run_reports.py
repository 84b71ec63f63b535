"""`evalscribe reports summary|failures|wait|ci|export`: what runs of experiments came to, and how a command ends by it.

They stand beside `reports list|show|check|parse`, which are about reports of analyses.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import FailOnGate, RunArgument, Timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from evalscribe.app.experiments.desk import ExperimentDesk
    from evalscribe.experiment import ExperimentRun
    from evalscribe.gate import Gate
    from evalscribe.run_summary import RunReport

PASSED = 0
GATE_FAILED = 2
RUN_FAILED = 3
TIMED_OUT = 4
"""Exit codes of everything that waits for a run or tells its gate."""


def ended(run: "ExperimentRun", gate: "Gate | None", *, fail_on_gate: bool, aside: bool = False) -> int:
    """Say in one line how a run ended, and with which exit code a command ends by that.

    A run that has not ended is one that was waited for in vain. `aside`: on standard error.
    """
    from evalscribe.cli.display import finish
    from evalscribe.evaluate.gate import headline

    name = f"{run.name} ({run.id})" if run.name else run.id
    file = sys.stderr if aside else sys.stdout
    if not run.terminal:
        finish.say(f"run {name} is {run.state} still; go on with: evalscribe reports wait {run.id}", file=file)
        return TIMED_OUT
    if run.state != "completed":
        how = "was cancelled" if run.state == "cancelled" else run.state
        finish.say(f"run {name} {how}{f': {run.reason}' if run.reason else ''}", file=file)
        return RUN_FAILED
    assert gate is not None, "a run that has ended has a gate"
    finish.say(f"run {name}: {headline(gate)}", file=file)
    return PASSED if gate.passed or not fail_on_gate else GATE_FAILED


def told(
    desk: "ExperimentDesk",
    run: "ExperimentRun",
    *,
    fail_on_gate: bool,
    form: str,
    clauses: bool = False,
    within: "Callable[[RunReport], BaseModel] | None" = None,
) -> int:
    """What there is to say of a run that was waited for: one line, with every clause of its gate if wanted, or the
    report as JSON (`within`: the document that it is a part of); and in GitHub Actions the step's summary. The exit
    code."""
    from evalscribe.app.experiments.gate import reported
    from evalscribe.cli.display import finish, step_summary
    from evalscribe.render.run_text import gate_lines

    report = reported(desk, run)
    if form != "table":
        finish.print_json(within(report) if within else report, indent=None if form == "jsonl" else 2)
    if run.terminal:
        step_summary.append(desk, run, report)
    code = ended(run, report.gate, fail_on_gate=fail_on_gate, aside=form != "table")
    for line in gate_lines(report.gate) if clauses and form == "table" else ():
        finish.say(line)
    return code


def summary(run: RunArgument, form: Format = "table") -> int:
    """Show what a run of an experiment came to: pass rate with its interval, scorers, cost, and its gate."""
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.gate import reported
    from evalscribe.cli.display.formatted import document
    from evalscribe.render.run_text import summary_lines
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    with open_desk(settings(Options())) as desk:
        report = reported(desk, run_named(desk, run))
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
    from evalscribe.prose import counted
    from evalscribe.render.run_text import failure_lines
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    checked(form)
    with open_desk(settings(Options())) as desk:
        found = run_named(desk, run)
        rows = use_case(desk, found, flaky=flaky, limit=limit)
        if form != "table":
            listing(rows, (), lambda _: (), form, none="")
            return 0
        number = 0
        for number, one in enumerate(rows, 1):  # noqa: B007 (the last number is told)
            for line in failure_lines(one, repeated=found.repetitions > 1):
                finish.say(line)
    once = flaky and found.repetitions == 1
    why = "; every item was tried once, so none can be flaky" if once else ""
    finish.say(f"({counted(number, 'try')} not passed{why})", file=sys.stderr)
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
    from evalscribe.cli.durations import seconds
    from evalscribe.cli.experiments.run import await_end
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    checked(form)
    timeout_s = None if timeout is None else seconds(timeout)
    with open_desk(settings(Options())) as desk:
        found = run_named(desk, run)
        return await_end(desk, found.id, timeout_s, fail_on_gate=fail_on_gate is not False, form=form)


def ci(run: RunArgument, fail_on_gate: FailOnGate = None, form: Format = "table") -> int:
    """Print the gate of a finished run, clause by clause. Exit code 0 passed, 2 failed, 3 the run failed or was
    cancelled; 64 while it goes on."""
    from evalscribe.app.experiments.find import require_ended, run_named
    from evalscribe.cli.display.formatted import checked
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    checked(form)
    with open_desk(settings(Options())) as desk:
        found = run_named(desk, run)
        require_ended(found, "its gate is decided when it has ended")
        return told(desk, found, fail_on_gate=fail_on_gate is not False, form=form, clauses=True)


def export(
    run: RunArgument,
    artifact_format: Annotated[
        str,
        typer.Option(
            "-f", "--artifact-format", metavar="csv|json|jsonl|junit|md|html", help="What to write.", show_default=False
        ),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option("-o", "--out-file", metavar="F", help="Default: standard output.", show_default=False),
    ] = None,
) -> int:
    """Write every try of a run of an experiment, with its scores, for other programs or for people."""
    from evalscribe.app.experiments.export import tries
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.gate import reported
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.line_file import write
    from evalscribe.prose import visible
    from evalscribe.render.run_export import written
    from evalscribe.settings import Options
    from evalscribe.wiring import settings
    from evalscribe.wiring.experiments import open_desk

    with open_desk(settings(Options())) as desk:
        found = run_named(desk, run)
        lines = written(artifact_format, reported(desk, found), lambda: tries(desk, found))
        if out_file is None:
            shown = visible if sys.stdout.isatty() else finish.unobeyed if finish.in_log() else str
            lines = map(shown, lines)
        write(lines, out_file)
    if out_file is not None:
        finish.say(f"run {found.name or found.id} is in {out_file}", file=sys.stderr)
    return 0

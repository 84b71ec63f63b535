"""How a command ends by a run of an experiment: what it says of it, and its exit code."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from evalscribe.model.experiment import ExperimentRun, Gate, RunReport
    from evalscribe.workspace import Workspace

PASSED = 0
GATE_FAILED = 2
RUN_FAILED = 3
TIMED_OUT = 4
"""Exit codes of everything that waits for a run or tells its gate."""


def ended(run: "ExperimentRun", gate: "Gate | None", *, fail_on_gate: bool) -> tuple[int, str]:
    """With which exit code a command ends by how a run ended, and a line that says how.

    A run that has not ended is one that was waited for in vain.
    """
    from evalscribe.experiments.gate import headline

    name = f"{run.name} ({run.id})" if run.name else run.id
    if not run.terminal:
        return TIMED_OUT, f"run {name} is {run.state} still; go on with: evalscribe reports wait {run.id}"
    if run.state != "completed":
        how = "was cancelled" if run.state == "cancelled" else run.state
        return RUN_FAILED, f"run {name} {how}{f': {run.reason}' if run.reason else ''}"
    assert gate is not None, "a run that has ended has a gate"
    return PASSED if gate.passed or not fail_on_gate else GATE_FAILED, f"run {name}: {headline(gate)}"


def told(
    workspace: "Workspace",
    run: "ExperimentRun",
    *,
    fail_on_gate: bool,
    form: str,
    clauses: bool = False,
    within: "Callable[[RunReport], BaseModel] | None" = None,
) -> int:
    """What there is to say of a run that was waited for: one line, with every clause of its gate if wanted, or the
    report as JSON (`within`: the document that it is a part of); and in GitHub Actions the step's summary. The exit
    code, which a reader that went away (`head`, `grep -q`) does not change."""
    from evalscribe.app.experiments.gate import reported
    from evalscribe.cli.display import finish, step_summary
    from evalscribe.experiments.run_text import gate_lines

    report = reported(workspace, run)
    code, line = ended(run, report.gate, fail_on_gate=fail_on_gate)
    if run.terminal:
        step_summary.append(workspace, run, report)
    with suppress(BrokenPipeError):
        if form != "table":
            finish.print_json(within(report) if within else report, indent=None if form == "jsonl" else 2)
        finish.say(line, file=sys.stderr if form != "table" else sys.stdout)
        for clause in gate_lines(report.gate) if clauses and form == "table" else ():
            finish.say(clause)
        if code == GATE_FAILED and form == "table":
            finish.say(f"Next: evalscribe reports failures {run.id}", file=sys.stderr)
    return code


def await_end(
    workspace: "Workspace",
    run_id: str,
    timeout_s: float | None,
    *,
    fail_on_gate: bool,
    form: str,
    within: "Callable[[RunReport], BaseModel] | None" = None,
) -> int:
    """Wait, and the exit code that the gate makes. Ctrl-C ends the waiting, not the run. `within`: as `told` has it."""
    from evalscribe.app.experiments.find import run_named
    from evalscribe.app.experiments.wait import waited
    from evalscribe.cli.display.run_progress import RunDisplay
    from evalscribe.errors import InterruptError, TerminatedError
    from evalscribe.interrupts import run_until_signal

    try:
        with RunDisplay() as display:
            done = run_until_signal(waited(workspace.store.experiment_runs, run_id, timeout_s, display))
    except (InterruptError, TerminatedError) as stopped:
        again = f"`evalscribe reports wait {run_id}`, or `evalscribe experiments runs cancel {run_id}`"
        raise type(stopped)(f"no longer waiting; run {run_id} goes on: {again}") from None
    return told(workspace, done or run_named(workspace, run_id), fail_on_gate=fail_on_gate, form=form, within=within)

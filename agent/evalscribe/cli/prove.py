"""Implements `evalscribe prove RUN [EVAL...]`."""

from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from evalscribe.analysis.prove import ProvedRun
from evalscribe.analysis.prove import prove as prove_run
from evalscribe.cli import options
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.output import print_json, print_notes, say
from evalscribe.cli.terminal import paying_workspace
from evalscribe.errors import UnavailableError
from evalscribe.model.finding import REPEAT, ReplayOptions, ReplayOutcome
from evalscribe.replay.harbor import NOT_HERE
from evalscribe.text import join_first


def prove(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|REPORT", help="A run, in any form that `analyze` accepts, or the file of a run's report."
        ),
    ],
    evals: Annotated[
        list[str] | None, typer.Argument(metavar="[EVAL]...", help="Failed evals: category/name, name or id.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Number of replays of each answer.")
    ] = REPEAT,
    tasks: options.Tasks = None,
    expectations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with corrected expected results of tau-bench tasks.")
    ] = None,
    replay_command: options.ReplayCommand = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replay again instead of using stored replays.")] = False,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=64, help="Maximum concurrent replays. Default: 4.")
    ] = None,
    reports: options.Reports = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    via: options.Via = "http",
    convex_dir: options.ConvexDir = None,
    provider: options.Provider = None,
    model: options.Model = None,
    map: options.Map = None,
    threshold: options.Threshold = None,
    reference_run: options.ReferenceRun = None,
    as_json: options.Json = False,
) -> int:
    """Grade reference answers and stored outputs again, to show who was at fault.

    The answers run in a sandbox, which needs Linux and bubblewrap. No model is called.
    """
    command_options = options.workspace_options(locals())

    async def main() -> ProvedRun:
        async with paying_workspace(command_options) as (workspace, display):
            return await prove_run(
                workspace,
                run,
                display,
                evals=evals or (),
                options=ReplayOptions(repeat=repeat, fresh=fresh, expectations=expectations),
                provider=provider,
                model=model,
            )

    proved = run_until_signal(main())
    if as_json:
        print_json(proved)
    else:
        _print(proved, [run, *options.repeated_options(tasks, reports)])
    return UnavailableError.exit_code if proved.not_replayed and not proved.proofs else 0


MOST_NAMED = 5


def _print(proved: ProvedRun, arguments: Sequence[str]) -> None:
    """Print a paragraph for each failure, and what to do next. Failures with a proof come first.

    `arguments` are the arguments with which `analyze` finds the same run.
    """
    for outcome, heading in HEADINGS.items():
        those = [proof for proof in proved.proofs if proof.outcome == outcome]
        if those:
            say(f"{heading}:")
        for proof in those:
            say(f"  {proof.eval}: {proof.why}")
            for count in proof.counts():
                say(f"    {proof.count_text(count)}")
    for reason in dict.fromkeys(item.why for item in proved.not_replayed):
        eval_names = join_first([item.eval for item in proved.not_replayed if item.why == reason], MOST_NAMED)
        say(f"Not replayed: {eval_names}: {reason}")
    if any(item.why.startswith(NOT_HERE) for item in proved.not_replayed):
        say("To replay the answers of these evals, name a command with `--replay-command`.")
    print_notes(proved.notes)
    if proved.report_path is None:
        command = join(["evalscribe", "analyze", *arguments])
        proofs = ", with these proofs" if proved.proofs else ""
        say(f"There is no report on this run yet: `{command}` writes one{proofs}.")
    else:
        for item in proved.relabelled:
            say(f"Label changed: {item.eval}: {item.before or 'UNCLASSIFIED'} -> {item.after or 'UNCLASSIFIED'}")
        note = "" if proved.relabelled or not proved.changed else ", no label changed"
        say(f"Report: {proved.report_path} ({'updated' if proved.changed else 'unchanged'}{note})")


HEADINGS: dict[ReplayOutcome, str] = {
    "reference fails": "Proved: the reference answer fails, too",
    "flaky": "Proved: chance decides",
    "not reproducible": "Proved: not reproducible",
    "fixed by change": "Proved: the expectation was wrong",
    "reproduced": "Reproduced: the failure is real",
    "inconclusive": "Inconclusive",
}

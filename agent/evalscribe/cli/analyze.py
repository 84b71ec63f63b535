"""Implements `evalscribe analyze RUN` and `evalscribe explain RUN [EVAL]`."""

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from evalscribe.analysis.analyze import analyze as analyze_run
from evalscribe.analysis.estimates import AnalysisPlan, AnalysisResult, NothingFailed, stage_lines
from evalscribe.analysis.explain import ExplainedFailure
from evalscribe.analysis.explain import explain as explain_failure
from evalscribe.analysis.write import commit_report
from evalscribe.cli import options, output
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.logs import is_quiet
from evalscribe.cli.output import aside, page, print_json, print_notes, say, usage_line
from evalscribe.cli.reports import agent_run_analysis
from evalscribe.cli.terminal import paying_workspace
from evalscribe.collections.runs import eval_named
from evalscribe.errors import DataError, UsageError
from evalscribe.ids import run_id_prefix
from evalscribe.model.finding import Failure, ReplayOptions, by_rules
from evalscribe.reports.explanation import explanation as explained_text
from evalscribe.reports.page import first_screen
from evalscribe.settings import RULES, Options, Settings
from evalscribe.settings.config import COMMAND_LINE
from evalscribe.sources.formats import recognise_folder
from evalscribe.text import pluralise, printable
from evalscribe.workspace import Workspace


def analyze(
    run: options.RunArgument,
    judge: options.Judge = None,
    rubric: options.Rubric = None,
    cascade: options.Cascade = False,
    batch: options.Batch = False,
    reports: options.Reports = None,
    date: options.Date = None,
    concurrency: options.Concurrency = None,
    engine: options.Engine = None,
    ray_address: options.RayAddress = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    yes: options.Yes = False,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    via: options.Via = "http",
    convex_dir: options.ConvexDir = None,
    provider: options.Provider = None,
    model: options.Model = None,
    map: options.Map = None,
    threshold: options.Threshold = None,
    tasks: options.Tasks = None,
    reference_run: options.ReferenceRun = None,
    commit: Annotated[bool, typer.Option("--commit", help="Commit the report, and nothing else, to git.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Judge again instead of using stored verdicts.")] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Replay the failures in a sandbox before judging.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be judged and what it would cost.")
    ] = False,
    as_json: options.Json = False,
    as_agent_run_analysis: options.AgentRunAnalysis = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print only the path of the report.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print the whole report, not only its first screen.")] = False,
    discuss: Annotated[
        bool | None,
        typer.Option(
            "--discuss/--no-discuss",
            help="Discuss the report (the default in a terminal).",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Find out why evals of a run failed, and whose fault it was."""
    if discuss and (as_json or quiet or dry_run):
        raise UsageError("--discuss needs a person to talk to: leave out --json, --quiet and --dry-run")
    quiet = quiet or is_quiet()
    checked_date = options.checked_date(date)
    command_options = options.workspace_options(locals())

    async def main() -> AnalysisResult | AnalysisPlan | NothingFailed:
        async with paying_workspace(command_options, quiet=quiet) as (workspace, display):
            if commit:
                # Check this before the analysis, because the analysis can cost money.
                workspace.reports.require_repository()
            outcome = await analyze_run(
                workspace,
                run,
                display,
                rubric=rubric,
                cascade=cascade,
                date=checked_date,
                dry_run=dry_run,
                provider=provider,
                model=model,
                replay=ReplayOptions() if prove else None,
            )
            display.end()
            try:
                # Commit before printing, because printing fails if the program that reads the output ends. Print even
                # if git fails.
                if commit and isinstance(outcome, AnalysisResult):
                    display.say(f"Committed as {commit_report(workspace.reports, outcome)[:12]}")
            finally:
                if as_agent_run_analysis and isinstance(outcome, AnalysisResult):
                    print_notes(outcome.notes)
                    page(agent_run_analysis(workspace, outcome.analysis))
                else:
                    explain = _explain_command(outcome, run, workspace.settings, rubric=rubric, cascade=cascade)
                    more = _more_commands(outcome, run, workspace, reports)
                    print_analysis(outcome, explain, more, as_json=as_json, quiet=quiet, full=full)
        return outcome

    outcome = run_until_signal(main())
    if discuss is None:
        discuss = _a_person_waits() and not (as_json or as_agent_run_analysis or quiet or commit)
    if discuss and isinstance(outcome, AnalysisResult):
        return _discuss_result(outcome, command_options)
    damaged = outcome.run.unread or outcome.run.status == "importing"
    return DataError.exit_code if damaged else 0


def _a_person_waits() -> bool:
    """Return whether a person can answer questions: in a terminal, unless the terminal belongs to a CI job."""
    return output.in_terminal() and not os.environ.get("CI")


def _discuss_result(result: AnalysisResult, command_options: Options) -> int:
    """Ask the closing question and start the discussion.

    The cost of the analysis is subtracted from the budget of the discussion.
    """
    from evalscribe.cli.discuss import run_session  # importing the discussion takes 0.2 s

    # A person waits for the answers, so they do not come from a batch.
    once = command_options.model_copy(update={"batch": False, "fresh": False})
    return run_session(once, str(result.path), spent=result.analysis.usage, opening=CLOSING)


CLOSING = (
    "These are my findings. Would you like me to implement any of these recommendations, "
    "or would you like to discuss specific failures in more detail?"
)
"""Question at the end of an analysis, in the wording that users requested.

The question is also the prompt of the discussion that follows.
"""


def _explain_command(
    outcome: AnalysisResult | AnalysisPlan | NothingFailed,
    run: str,
    settings: Settings,
    *,
    rubric: str | None,
    cascade: bool,
) -> str:
    """Return the `explain` command for one of the findings, with options that select the same judge.

    `run` is the argument RUN as the user typed it.
    """
    if not isinstance(outcome, AnalysisResult):
        return ""
    example = (*outcome.uncertain, *outcome.unclassified, *(entry.paths[0] for entry in outcome.report.entries))[0]
    words = ["evalscribe", "explain", run, example]
    if settings.judge.origin.trust == COMMAND_LINE and settings.judge.value:
        words += ["--judge", settings.judge.value]
    elif settings.judge_name != RULES and all(map(by_rules, outcome.report.judges)):
        words += ["--judge", RULES]  # without it, `explain` would need the user's consent to call the model
    words += ["--rubric", rubric] if rubric else []
    words += ["--cascade"] if cascade else []
    return join(words)  # quotes names that contain shell syntax


def _more_commands(
    outcome: AnalysisResult | AnalysisPlan | NothingFailed, run: str, workspace: Workspace, reports: Path | None
) -> tuple[str, ...]:
    """Return commands that are suggested after an analysis, such as the command that corrects a label.

    `run` is the argument RUN as the user typed it.
    """
    if not isinstance(outcome, AnalysisResult):
        return ()
    folder = options.repeated_options(None, reports)
    report = run_id_prefix(outcome.run.id)
    more = [f"correct a label with `{join(['evalscribe', 'review', 'label', report, 'N', 'LABEL', *folder])}`"]
    recognised = recognise_folder(Path(run)) if Path(run).is_dir() else None
    if recognised and recognised.format.name == "harbor":  # new tasks of Terminal-Bench are proposed in pull requests
        write_up = ["evalscribe", "reports", "show", report, *folder, "--format", "agent-run-analysis"]
        more.append(f"Write-up for a task's pull request: `{join(write_up)}`")
    if workspace.reports.in_repository:
        more.append(f"Pull request with the report: `{join(['evalscribe', 'publish', report, *folder])}`")
    return tuple(more)


def print_analysis(
    outcome: AnalysisResult | AnalysisPlan | NothingFailed,
    explain: str,
    more: Sequence[str],
    *,
    as_json: bool,
    quiet: bool,
    full: bool = False,
) -> None:
    """Print an analysis, with commands for the next steps.

    If the output is for programs, notes are printed on standard error.
    """
    if isinstance(outcome, AnalysisPlan):
        print_json(outcome) if as_json else _print_plan(outcome)
    elif isinstance(outcome, NothingFailed):
        aside(outcome.message) if as_json else say(outcome.message)
        if as_json:
            print_json(outcome.analysis)
    elif as_json or quiet:
        print_notes(outcome.notes)
        print_json(outcome.analysis) if as_json else say(outcome.path)
    else:
        _print_page(outcome, explain, more, full=full)


def _print_page(result: AnalysisResult, explain: str, more: Sequence[str], *, full: bool) -> None:
    """Print the first screen of the report or the whole report, and then its location and the next steps."""
    page(result.text if full else first_screen(result.text))
    say()
    for note in result.notes:
        say(f"Note: {note}")
    state = "unchanged" if result.state == "unchanged" else f"{result.state}, revision {result.report.revision}"
    say(f"Report: {result.path} ({state})")
    if not full:
        say(f"Print all {pluralise(len(result.report.entries), 'finding')} with --full.")
    if result.analysis.usage and result.analysis.usage.stages:
        say(f"Spent: {usage_line(result.analysis.usage.stages)}")
    label, *others = more
    for line in others:
        say(line)
    say(_how_to_go_on(result, f"`{explain}`, or {label}"))


def _how_to_go_on(result: AnalysisResult, commands: str) -> str:
    line = f"Next: {commands}"
    if result.unclassified:
        line += f"; {len(result.unclassified)} could not be judged: run this again"
    if result.advice:
        line += (
            f"; {len(result.uncertain)} uncertain: {result.advice.judge} would take {result.advice.estimate.summary}"
        )
    return f"{line}."


def _print_plan(plan: AnalysisPlan) -> None:
    to_judge = plan.groups - plan.cached
    say(f"{plan.run.model} ({plan.run.provider}), run {plan.run.id}: {len(plan.run.failures)} failed evals listed")
    say(f"Verdicts needed: {plan.groups}, of which {plan.cached} are stored")
    for line in stage_lines(plan) or [f"Judge: {plan.judge} for {to_judge}: {plan.cost}"]:
        say(line)
    if plan.stages and plan.again:
        say(f"In all: {plan.cost}")
    say("Nothing was judged, and no report was written.")


def explain(
    run: options.RunArgument,
    eval: Annotated[
        str | None,
        typer.Argument(metavar="EVAL", help="The eval: category/name, name or id. Omit it if RUN is an eval's URL."),
    ] = None,
    judge: options.Judge = None,
    rubric: options.Rubric = None,
    cascade: options.Cascade = False,
    reports: options.Reports = None,
    engine: options.Engine = None,
    ray_address: options.RayAddress = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    yes: options.Yes = False,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    via: options.Via = "http",
    convex_dir: options.ConvexDir = None,
    provider: options.Provider = None,
    model: options.Model = None,
    map: options.Map = None,
    threshold: options.Threshold = None,
    tasks: options.Tasks = None,
    reference_run: options.ReferenceRun = None,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="Also print every message and call, with the cited lines.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Explain one failed eval in full, with every quotation. Writes no report."""
    name = eval or eval_named(run)
    if name is None:
        raise UsageError("name an eval: `evalscribe explain RUN category/name`, or give an eval's URL")
    command_options = options.workspace_options(locals())

    async def main() -> None:
        async with paying_workspace(command_options) as (workspace, display):
            explained = await explain_failure(
                workspace, run, name, display, rubric=rubric, cascade=cascade, provider=provider, model=model
            )
        again = ["evalscribe", "prove", run, explained.finding.evals[0].path, "--fresh"]
        print_explanation(explained, join([*again, *options.repeated_options(tasks, reports)]), as_json=as_json)
        if transcript and not as_json and isinstance(explained.case, Failure):
            for document in explained.case.evidence.of("transcript"):
                say(f"\n{document.path}")
                for number, line in enumerate(document.lines, 1):
                    say(f"{number:>6}  {printable(line.expandtabs(4))}")

    run_until_signal(main())
    return 0


def print_explanation(explained: ExplainedFailure, again: str, *, as_json: bool) -> None:
    """Print an explanation. `again` is the command that repeats the replay of the failure."""
    if as_json:
        print_json(explained.analysis)
    else:
        say(explained_text(explained.finding, explained.case, explained.reviewed, f"`{again}`"))

"""Implements `evalscribe apply REPORT R3 --repo DIR`, which shows a proposed change and commits it after approval."""

import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.text import Text

from evalscribe.analysis.replay import TriedChange, prove_change
from evalscribe.cli import options
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.output import aside, in_terminal, print_json, say, usage_line
from evalscribe.cli.reports import Name
from evalscribe.cli.terminal import confirm, console, paying_user
from evalscribe.errors import UsageError
from evalscribe.reports.apply import (
    AppliedDocument,
    AppliedPatch,
    PatchOffer,
    ask_approval,
    commit_patch,
    open_suite,
    propose_patch,
)
from evalscribe.reports.outline import spent_summary
from evalscribe.settings import Options
from evalscribe.text import pluralise, printable
from evalscribe.workspace import Workspace

STYLES = {"+": "green", "-": "red", "@": "cyan"}
# `splitlines` would also split a patch at form feeds and other characters that do not end a line in git.
_LINE = re.compile(r"\r?\n")


RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]
"""Function that runs a coroutine until it has finished, either in an event loop of its own or in the event loop of a
discussion.
"""


def apply_recommendation(
    options: Options,
    repo: Path,
    report: str,
    id: str,
    *,
    run: RunCoroutine,
    yes: bool = False,
    prove: bool = False,
    as_json: bool = False,
    shared: Workspace | None = None,
) -> int:
    """Propose the change for a recommendation, show it, ask the user, and commit it.

    Return the exit code: 0 if the change was committed, declined, or only shown.

    Args:
        options: Options with the reports folder and the model that proposes the change.
        repo: The repository of the eval suite, or a folder in it.
        report: Report name as in `find_report`.
        id: Id of the recommendation.
        run: Function that runs coroutines.
        yes: True if the user has already agreed.
        prove: True to replay the evals with the change before the user is asked.
        as_json: True to print a JSON document and to ask nothing.
        shared: Workspace to use, which the caller closes and whose usage the caller reports. If None, a workspace is
            opened.

    Raises:
        EvalscribeError: Nothing can be proposed or committed.
        UsageError: `yes` was set in a terminal, where the user could be asked. Also raised if `yes` was set and the
            patch differs from the patch that was shown before, because the user approved only the earlier patch.
    """
    if yes and (sys.stdin.isatty() or sys.stdout.isatty()):
        raise UsageError(
            "--yes is for programs and cannot be used in a terminal. Leave it out: you are shown the patch and asked."
        )
    offered: PatchOffer | AppliedPatch
    workspace = shared or Workspace(options, ask=paying_user())
    offering = _offered(workspace, repo, report, id, owned=shared is None, shows=not as_json, proves=prove)
    offered, another = run(offering)
    if isinstance(offered, AppliedPatch):
        print_json(AppliedDocument.of(offered)) if as_json else _print_applied(offered, repo)
        return 0
    if yes and another:
        raise UsageError(
            "the patch differs from the patch that was shown before: show the new patch to a person, and repeat the "
            "command with --yes after the person has agreed. Nothing was changed."
        )
    if as_json and not yes:
        print_json(AppliedDocument.of(offered))
        return 0
    if not yes and not in_terminal():
        say()
        say(f"Nothing was changed. After a person has agreed to this patch, commit it to {offered.branch}:")
        say(f"  {_command(options, repo, offered)} --yes")
        return 0
    consent = yes or confirm(_question(offered, repo))
    settled: AppliedPatch | None = run(_settled(options, repo, offered, yes=consent))
    if as_json and settled:
        print_json(AppliedDocument.of(settled))
    elif settled is None:
        say("Nothing was changed.")
    else:
        say()
        _print_applied(settled, repo)
    return 0


async def _offered(
    workspace: Workspace, repo: Path, report: str, id: str, *, owned: bool, shows: bool, proves: bool
) -> tuple[PatchOffer | AppliedPatch, bool]:
    """Show the proposed change. Return the change, and whether a different patch was shown before."""
    async with AsyncExitStack() as opened:
        # An owned workspace is closed at the end of this function, so that it is not open while the user thinks about
        # the change.
        if owned:
            await opened.enter_async_context(workspace)
        suite = opened.enter_context(open_suite(repo))
        try:
            offered = await propose_patch(workspace, suite, report, id, aside)
        finally:
            if owned and (stages := spent_summary(workspace.models.spent()).stages):
                aside(f"Spent: {usage_line(stages)}")
        if isinstance(offered, AppliedPatch):
            return offered, False
        if shows:
            _show(offered)
        if proves:
            say_change(await prove_change(workspace, suite, offered, aside), offered, say if shows else aside)
        return offered, await ask_approval(workspace, offered)


async def _settled(options: Options, repo: Path, offer: PatchOffer, *, yes: bool) -> AppliedPatch | None:
    async with Workspace(options) as workspace:
        with open_suite(repo) as suite:
            return await commit_patch(workspace, suite, offer, yes=yes)


def say_change(tried: Sequence[TriedChange], offer: PatchOffer, say: Callable[[str], None]) -> None:
    """Print the results of the replays with the proposed change."""
    if not tried:
        say("Not replayed: evalscribe.toml does not say how to grade an answer (`[replay]`).")
        return
    fixed = [change.eval for change in tried if change.fixes]
    if len(fixed) == len(offer.recommendation.evals):
        say(f"Proved: with this change {pluralise(len(fixed), 'eval')} would pass.")
    else:
        say(f"Not proved: {len(fixed)} of {pluralise(len(offer.recommendation.evals), 'eval')} would pass.")
    for change in tried:
        say(f"  {change.eval}: {change.why}")


def _show(offer: PatchOffer) -> None:
    patch = offer.patch
    say(f"{offer.recommendation.id}: {offer.recommendation.text}")
    say(f"{patch.judge} proposes: {patch.summary}")
    files = ", ".join(f"{change.path} ({change.counts})" for change in patch.changes)
    say(f"{pluralise(len(patch.changes), 'file')}: {files}")
    say()
    out = console(sys.stdout, highlight=False, soft_wrap=True)
    for line in _LINE.split(patch.shown.rstrip("\n")):
        out.print(Text(printable(line.expandtabs(4)), style=STYLES.get(line[:1], "")))


def _question(offer: PatchOffer, repo: Path) -> str:
    return "\n" + printable(f"Apply this to a new branch {offer.branch} of {repo.resolve()}? [y/N] ")


def _print_applied(applied: AppliedPatch, repo: Path) -> None:
    folder = quote(str(repo))
    if not applied.new:
        say(f"{applied.recommendation} is already applied; {applied.report} says:")
        say(applied.line)
        say("To get a new proposal, remove that line and the branch. Nothing was changed.")
        return
    say(f"Committed as {(applied.commit or '')[:12]} on {applied.branch}; your branch and files are unchanged.")
    base = applied.base[:12] if applied.base else f"{applied.branch}^"
    say(f"Show it:   git -C {folder} diff {base} {applied.branch}")
    say(f"Merge it:  git -C {folder} merge {applied.branch}")
    say(f"Recorded in {applied.report}, which is not committed:")
    say(applied.line)


def _command(options: Options, repo: Path, offer: PatchOffer) -> str:
    judge = f" --judge {quote(options.judge)}" if options.judge else ""
    reports = f" --reports {quote(str(options.reports))}" if options.reports else ""
    keys = f" --env-file {quote(str(options.env_file))}" if options.env_file else ""
    words = f"evalscribe apply {quote(offer.file)} {offer.recommendation.id} --repo {quote(str(repo))}"
    return f"{words}{judge}{reports}{keys}"


def apply(
    report: Name,
    recommendation: Annotated[str, typer.Argument(metavar="ID", help="The recommendation to apply, such as R3.")],
    repo: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Git repository of the eval suite, or a folder in it. Default: the current folder."
        ),
    ] = Path(),
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Commit without asking, after a person has agreed. Not allowed in a terminal."),
    ] = False,
    prove: Annotated[
        bool, typer.Option("--prove", help="Replay the evals with the change, in a sandbox, before asking.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask for a new patch instead of reusing the last one.")
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model that proposes the patch. Default: the default judge of `analyze`.",
            show_default=False,
        ),
    ] = None,
    reports: options.Reports = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    env_file: options.EnvFile = None,
    as_json: options.Json = False,
) -> int:
    """Propose a recommended change, and commit it to a new branch once you agree.

    With --json, the command asks no question, and commits the change only if you also give --yes.
    """
    command_options = options.workspace_options(locals())
    return apply_recommendation(
        command_options, repo, report, recommendation, yes=yes, prove=prove, as_json=as_json, run=run_until_signal
    )

"""What `evalscribe reports check` runs and prints."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evalscribe import wiring
from evalscribe.app.reports.check import check as use_case
from evalscribe.app.reports.check_comment import Told, changed, tell
from evalscribe.cli.display import finish
from evalscribe.errors import DataError, UsageError
from evalscribe.graph.signals import run_until_signal
from evalscribe.problem import Checked, CheckedReport
from evalscribe.render.check import annotations, comment, lines, notice, table
from evalscribe.settings import Options
from evalscribe.wiring.actions import Actions, actions
from evalscribe.wiring.checking import open_check

FORMATS = ("text", "github", "json")


class Wanted(NamedTuple):
    """What the command line asked for."""

    output: str | None
    evidence: tuple[Path, ...]
    fetch: bool
    comment: bool
    options: Options


def check(names: tuple[str, ...], wanted: Wanted) -> int:
    """The exit code."""
    job = actions(os.environ, Path.cwd())
    output = wanted.output or ("github" if job else "text")
    if output not in FORMATS:
        raise UsageError(f"--format {output} is not known: {', '.join(FORMATS)}")
    base = job.workspace if job else Path.cwd()
    found = run_until_signal(_check(names, wanted, base))
    _print(found, output)
    about = _comment(found, job, wanted.options, output) if wanted.comment else table(found)
    if job and job.summary:
        with suppress(OSError), job.summary.open("a", encoding="utf-8") as file:
            file.write(f"{about}\n")
    return DataError.exit_code if found.wrong else 0


async def _check(names: tuple[str, ...], wanted: Wanted, base: Path) -> Checked:
    async with open_check(wanted.options, wanted.evidence, fetch=wanted.fetch, shown_from=base) as desk:
        return await use_case(desk, names)


def _print(found: Checked, output: str) -> None:
    if output == "json":
        finish.print_json(found)
        return
    for line in annotations(found) if output == "github" else lines(found):
        finish.command(line) if output == "github" else finish.say(line)


def _comment(found: Checked, job: Actions | None, options: Options, output: str) -> str:
    """What the pull request is told. Where it cannot be, that is said, and what it would have been."""
    body = comment(found, _changed(found, job))
    told = _told(body, job, options)
    aside = sys.stderr if output == "json" else None
    text = f"commented: {told.url}" if told.url else f"not commented: {told.why_not}"
    finish.command(notice(text) if output == "github" else f"notice: {text}", aside)
    for line in body.splitlines() if told.url is None else ():
        finish.say(f"  | {line}", file=aside)  # no line of a log that begins like this is a command
    return body


def _changed(found: Checked, job: Actions | None) -> tuple[CheckedReport, ...] | None:
    from evalscribe.wiring.forge import repository

    if job is None or job.base is None:
        return None
    try:
        return changed(repository(job.workspace), job.base, found, job.workspace)
    except UsageError:
        return None


def _told(body: str, job: Actions | None, options: Options) -> Told:
    from evalscribe.wiring.forge import forge

    if job is None or job.pull_request is None:
        return Told(why_not="there is no pull request here")
    return tell(lambda: forge(wiring.settings(options), job.remote_url), job.pull_request, body)

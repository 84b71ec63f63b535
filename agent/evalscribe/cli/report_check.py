"""Implements `evalscribe reports check`. In a CI job, the command can also comment on the pull request."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from evalscribe.cli import options
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.output import command, print_json, say
from evalscribe.cli.parsing import OUTPUT
from evalscribe.errors import DataError, UsageError
from evalscribe.git.forge import open_forge, repository_of
from evalscribe.ids import Frozen
from evalscribe.model.report import CheckedReport, CheckResult
from evalscribe.reports.check import CommentOutcome, changed_reports, post_comment
from evalscribe.reports.check import check_reports as use_case
from evalscribe.reports.problems import check_annotations, check_comment, check_lines, check_table, notice
from evalscribe.settings import Options, Settings
from evalscribe.workspace import Workspace

FORMATS = ("text", "github", "json")
_PULL = re.compile(r"refs/pull/(\d+)/(?:merge|head)")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
LARGEST = 32 * 1024 * 1024
"""Maximum size, in bytes, of the file about the event that started a GitHub Actions job. Larger files are not read."""


class Actions(Frozen):
    """Facts about the current CI job, read from environment variables that the GitHub Actions runner sets."""

    workspace: Path
    """Root folder of the repository that the job has checked out."""
    remote_url: str | None = None
    """URL of the repository in which the workflow runs. For a pull request, this is the target repository."""
    pull_request: int | None = None
    base: str | None = None
    """Id of the commit on which the pull request is based."""
    summary: Path | None = None
    """Path of the file to which the step summary is written."""


def check(
    report: Annotated[
        list[str] | None, typer.Argument(metavar="REPORT", help="Reports to check. Default: all reports.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="text|github|json",
            help="Output format. Default: text, or github in GitHub Actions.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    evidence: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Snapshot to compare quotations with, in addition to the store. Repeatable."),
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Fetch evidence that is not in the store; needs the deploy key.")
    ] = False,
    comment: Annotated[
        bool, typer.Option("--comment", help="Comment on the pull request (only in GitHub Actions).")
    ] = False,
    reports: options.Reports = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
) -> int:
    """Check reports: format, data, links, and quotations.

    The exit code is 65 if there are errors; warnings and notices do not change the exit code.
    """
    command_options = options.workspace_options(locals())
    return print_check(
        command_options, report or (), output=output, evidence=evidence or (), fetch=fetch, comments=comment
    )


def print_check(
    options: Options,
    names: Sequence[str],
    *,
    output: str | None,
    evidence: Sequence[Path],
    fetch: bool,
    comments: bool,
) -> int:
    """Check the named reports, or all reports. Print the problems, and return the exit code.

    Args:
        options: Options with the locations of reports and evidence.
        names: Report names; empty for all.
        output: One of `FORMATS`; None to choose the format by the environment.
        evidence: Snapshot folders with which quotations are compared.
        fetch: True to fetch evidence from the deployment if it is not in the store.
        comments: True to comment on the pull request.

    Raises:
        UsageError: The format is unknown.
    """
    job = actions(os.environ, Path.cwd())
    output = output or ("github" if job else "text")
    if output not in FORMATS:
        raise UsageError(f"--format {output} is not known; use one of {', '.join(FORMATS)}")
    base = job.workspace if job else Path.cwd()
    with Workspace(options) as workspace:
        result = run_until_signal(use_case(workspace, names, evidence=evidence, fetch=fetch, shown_from=base))
        _print(result, output)
        about = _comment(result, job, workspace.settings, output) if comments else check_table(result)
    if job and job.summary:
        with suppress(OSError), job.summary.open("a", encoding="utf-8") as file:
            file.write(f"{about}\n")
    return DataError.exit_code if result.wrong else 0


def _print(result: CheckResult, output: str) -> None:
    if output == "json":
        print_json(result)
        return
    for line in check_annotations(result) if output == "github" else check_lines(result):
        command(line) if output == "github" else say(line)


def _comment(result: CheckResult, job: Actions | None, settings: Settings, output: str) -> str:
    """Comment on the pull request, and return the text of the comment. If that fails, print the reason and the text."""
    body = check_comment(result, _changed(result, job))
    outcome = _post_comment(body, job, settings)
    file = sys.stderr if output == "json" else None
    text = f"commented: {outcome.url}" if outcome.url else f"not commented: {outcome.why_not}"
    command(notice(text) if output == "github" else f"notice: {text}", file)
    for line in body.splitlines() if outcome.url is None else ():
        say(f"  | {line}", file=file)  # with this prefix, the CI runner does not treat a line of the log as a command
    return body


def _changed(result: CheckResult, job: Actions | None) -> tuple[CheckedReport, ...] | None:
    if job is None or job.base is None:
        return None
    try:
        return changed_reports(repository_of(job.workspace), job.base, result, job.workspace)
    except UsageError:
        return None


def _post_comment(body: str, job: Actions | None, settings: Settings) -> CommentOutcome:
    if job is None or job.pull_request is None:
        return CommentOutcome(why_not="there is no pull request here")
    return post_comment(lambda: open_forge(settings, job.remote_url), job.pull_request, body)


def actions(environ: Mapping[str, str], cwd: Path) -> Actions | None:
    """Read the environment variables of the GitHub Actions runner.

    Facts that cannot be read are omitted. Returns None outside of GitHub Actions.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return None
    pull = _members(_event(environ.get("GITHUB_EVENT_PATH")).get("pull_request"))
    ref = _PULL.fullmatch(environ.get("GITHUB_REF", ""))
    number = pull.get("number")
    base = _members(pull.get("base")).get("sha")
    summary = environ.get("GITHUB_STEP_SUMMARY")
    return Actions(
        workspace=Path(environ.get("GITHUB_WORKSPACE") or cwd),
        remote_url=_remote(environ),
        pull_request=number if isinstance(number, int) else int(ref[1]) if ref else None,
        # The value is passed to git, so it must be nothing but the id of a commit.
        base=base if isinstance(base, str) and _COMMIT.fullmatch(base) else None,
        summary=Path(summary) if summary else None,
    )


def _remote(environ: Mapping[str, str]) -> str | None:
    repository = environ.get("GITHUB_REPOSITORY", "")
    server = environ.get("GITHUB_SERVER_URL", "https://github.com")
    return f"{server.rstrip('/')}/{repository}" if _REPOSITORY.fullmatch(repository) else None


def _event(path: str | None) -> Mapping[str, object]:
    try:
        file = Path(path or "")
        text = file.read_text("utf-8") if path and file.stat().st_size <= LARGEST else "{}"
        return _members(json.loads(text))
    except (OSError, ValueError, RecursionError):
        return {}


def _members(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}

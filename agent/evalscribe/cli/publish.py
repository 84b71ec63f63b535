"""`evalscribe publish REPORT`."""

from os.path import relpath
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli import options, output
from evalscribe.cli.reports import Name
from evalscribe.git.forge import advice
from evalscribe.reports.publish import publish_report as use_case
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.reports.publish import Publication

Remote = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Git remote. Default: the branch's remote, origin, or the only one.", show_default=False
    ),
]
ApiUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="API address of a GitHub Enterprise server.", show_default=False)
]


def publish(
    report: Name,
    draft: Annotated[bool, typer.Option("--draft", help="Open the pull request as a draft.")] = False,
    remote: Remote = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be published; push nothing.")] = False,
    api_url: ApiUrl = None,
    reports: options.Reports = None,
    env_file: options.EnvFile = None,
    as_json: options.Json = False,
) -> int:
    """Push a report on its own branch, and open or update its pull request.

    Your working tree, index and branches stay as they are. The push uses git's own credentials, the pull request
    GITHUB_TOKEN or GH_TOKEN.
    """
    with Workspace(options.workspace_options(locals())) as workspace:
        settings = workspace.settings
        done = use_case(workspace, report, remote=remote, draft=draft, dry_run=dry_run)
    if as_json:
        output.print_json(done)
        return 0
    for line in _planned(done) if dry_run else _told(done):
        output.say(line)
    by_hand = done.pull_request is not None and done.pull_request.state == "by hand"
    if told := advice(settings, done.pull_request.url if by_hand and done.pull_request else None):
        output.hint(told)
    return 0


def _told(done: "Publication") -> list[str]:
    pushed = f"Pushed {done.branch} to {done.remote} ({done.commit[:12]})" if done.commit else ""
    there = done.base if done.merged else done.branch
    lines = [pushed or f"Unchanged: {there} of {done.remote} already has this report."]
    request = done.pull_request
    if request and request.state == "by hand":
        by_git = f"The remote has no pull requests: merge the branch into {done.base} with git."
        lines.append(f"Open its pull request: {request.url}" if request.url else by_git)
    elif request:
        lines.append(f"Pull request{' (draft)' if request.draft else ''}: {request.url} ({request.state})")
    if done.richer:
        files = " ".join(quote(relpath(path)) for path in (done.report, done.data) if path)
        lines.append(
            f"Note: people edited the report on {done.remote}; the published report has their edits and yours, "
            f"but your file lacks theirs. To get them: git fetch {done.remote} {there} && "
            f"git checkout FETCH_HEAD -- {files}"
        )
    if done.missing:
        lines.append(
            f"Note: the report links to {', '.join(done.missing)}, which {done.base} of {done.remote} does not have: "
            "until the linked file is merged too, `evalscribe reports check` finds a dead link. "
            "Publish that file, or commit it with git if people wrote it."
        )
    return lines


def _planned(done: "Publication") -> list[str]:
    return [
        f"Branch: {done.branch} of {done.remote}, to be merged into {done.base}",
        f"Files: {', '.join(done.files) or 'none, the remote already has this report'}",
        f"Title: {done.title}",
        "",
        done.body,
    ]

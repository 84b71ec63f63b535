"""Implements `evalscribe publish REPORT`."""

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
        metavar="NAME",
        help="Git remote to push to. Default: the branch's remote, or else origin, or else the only remote.",
        show_default=False,
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

    Your working tree, index and branches stay as they are. The push uses git's own credentials; the pull request needs
    GITHUB_TOKEN or GH_TOKEN.
    """
    with Workspace(options.workspace_options(locals())) as workspace:
        settings = workspace.settings
        publication = use_case(workspace, report, remote=remote, draft=draft, dry_run=dry_run)
    if as_json:
        output.print_json(publication)
        return 0
    for line in _plan_lines(publication) if dry_run else _publication_lines(publication):
        output.say(line)
    by_hand = publication.pull_request is not None and publication.pull_request.state == "by hand"
    if message := advice(settings, publication.pull_request.url if by_hand and publication.pull_request else None):
        output.hint(message)
    return 0


def _publication_lines(publication: "Publication") -> list[str]:
    pushed = (
        f"Pushed {publication.branch} to {publication.remote} ({publication.commit[:12]})" if publication.commit else ""
    )
    branch = publication.base if publication.merged else publication.branch
    lines = [pushed or f"Unchanged: {branch} of {publication.remote} already has this report."]
    request = publication.pull_request
    if request and request.state == "by hand":
        by_git = f"The remote has no pull requests: merge the branch into {publication.base} with git."
        lines.append(f"Open its pull request: {request.url}" if request.url else by_git)
    elif request:
        lines.append(f"Pull request{' (draft)' if request.draft else ''}: {request.url} ({request.state})")
    if publication.richer:
        files = " ".join(quote(relpath(path)) for path in (publication.report, publication.data) if path)
        lines.append(
            f"Note: people edited the report on {publication.remote}; the published report has their edits and yours, "
            f"but your file lacks theirs. To get them: git fetch {publication.remote} {branch} && "
            f"git checkout FETCH_HEAD -- {files}"
        )
    if publication.missing:
        lines.append(
            f"Note: the report links to {', '.join(publication.missing)}, which {publication.base} of "
            f"{publication.remote} does not have: "
            "until the linked file is merged too, `evalscribe reports check` finds a dead link. "
            "Publish that file, or commit it with git if people wrote it."
        )
    return lines


def _plan_lines(publication: "Publication") -> list[str]:
    return [
        f"Branch: {publication.branch} of {publication.remote}, to be merged into {publication.base}",
        f"Files: {', '.join(publication.files) or 'none, the remote already has this report'}",
        f"Title: {publication.title}",
        "",
        publication.body,
    ]

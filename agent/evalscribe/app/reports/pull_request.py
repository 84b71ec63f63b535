"""Publish a report: one commit on a branch of the run's own, pushed, and a pull request for it.

Nothing is remembered between two publications: all is worked out from the remote, so that a command that was killed
anywhere is simply run again.
"""

import re
import time
from contextlib import closing
from functools import partial
from pathlib import Path, PurePosixPath
from posixpath import normpath
from shlex import quote

from evalscribe.app.reports.branch_plan import Ours, Plan, planned
from evalscribe.app.reports.reading import found
from evalscribe.errors import DataError, UsageError
from evalscribe.forge import open_forge, repository_of
from evalscribe.ids import Frozen, model_folder, report_stems
from evalscribe.model.analysis import Analysis
from evalscribe.model.protocols import Library, Repository
from evalscribe.model.report import Report, replaced
from evalscribe.model.repository import PullRequest, PushedBranch, ReportFile
from evalscribe.reports import pull_request_text
from evalscribe.reports.markdown import summary
from evalscribe.reports.markdown.blocks import ConflictingEdits, UnreadableReport
from evalscribe.reports.markdown.page import parse
from evalscribe.reports.page_checks import linked_reports
from evalscribe.reports.reading import read_report
from evalscribe.workspace import Workspace

TRIES = 5
"""How often the remote's branch may move under our hands."""
PAUSE_S = 0.2


class Publication(Frozen):
    """What was published, or would be."""

    report: Path
    remote: str
    branch: str
    base: str
    """The branch that it is to be merged into."""
    files: tuple[str, ...]
    """What the commit holds; none where the branch has it already."""
    commit: str | None = None
    title: str
    body: str
    pull_request: PullRequest | None = None
    """None where nothing was asked of a forge: in a dry run, and where all is merged."""
    merged: bool = False
    """Whether the remote's main branch has this text."""
    richer: bool = False
    """Whether what is published holds edits of people that the local file has not."""
    missing: tuple[str, ...] = ()
    """Reports that this one links to and that the remote's main branch has not, as paths in the repository."""


def publish(
    workspace: Workspace, name: str, *, remote: str | None = None, draft: bool = False, dry_run: bool = False
) -> Publication:
    """Push a report on a branch of its own and open or update its pull request; nothing local changes.

    Args:
        workspace: Where the report is, and the token for the forge.
        name: A path, a name below the reports folder, or the start of a run id.
        remote: Name of the remote; None for the branch's own, else origin, else the only one.
        draft: Whether the pull request is opened as a draft.
        dry_run: Whether to work out what would be published, and push nothing.

    Raises:
        DataError: The report is not one of ours, or contradicts edits on the remote.
        EvalscribeError: Repository, remote or forge cannot be used, with the reason.
    """
    file = found(workspace.reports, name)
    text = file.text.removeprefix("\ufeff").replace("\r\n", "\n")
    report = _read(file, text)
    with closing(repository_of(file.path.resolve().parent)) as repository:
        path = _inside(repository, file)
        ours = Ours(
            remote=repository.remote(remote),
            branch=branch_of(report, path),
            path=path,
            text=text,
            report=report,
            last_written=partial(_last_written, workspace, report.run.id),
        )
        with closing(open_forge(workspace.settings, repository.remote_url(ours.remote))) as forge:
            plan, pushed = (planned(repository, ours), None) if dry_run else _pushed(repository, ours)
            done = _told(workspace.reports, repository, file, ours, plan, pushed)
            if plan.merged or dry_run:
                return done
            there = pushed or PushedBranch(branch=ours.branch, commit=plan.parent)
            request = forge.propose(there, plan.base, done.title, done.body, draft=draft)
            return replaced(done, pull_request=request)


def _last_written(workspace: Workspace, run_id: str) -> str | None:
    """The text that evalscribe wrote last for a run, if there is a store; publishing creates none."""
    stored = workspace.store.analyses.get_report(run_id) if workspace.has_store else None
    return stored.text if stored else None


def _pushed(repository: Repository, ours: Ours) -> tuple[Plan, PushedBranch | None]:
    """The plan that held, and what was pushed for it, if anything had to be."""
    for attempt in range(TRIES):
        plan = planned(repository, ours)
        if not plan.needed:
            return plan, None
        commit = repository.commit(
            {ours.path: plan.text},
            parent=plan.parent,
            merging=plan.merging,
            message=pull_request_text.commit_message(ours.report),
        )
        try:
            return plan, repository.push(ours.remote, ours.branch, commit)
        except DataError:
            now = repository.fetch(ours.remote, ours.branch)
            if attempt and (now[1] if now else None) == plan.tip:
                raise  # nobody was faster, nor is about to be: the remote does not want it
            time.sleep(PAUSE_S)
    raise DataError(f"the branch {ours.branch} of {ours.remote} keeps moving; try again")


def _told(
    library: Library, repository: Repository, file: ReportFile, ours: Ours, plan: Plan, pushed: PushedBranch | None
) -> Publication:
    report = parse(plan.text) if plan.text != ours.text else ours.report
    where = pull_request_text.PublishedReport(
        branch=ours.branch,
        path=ours.path,
        summary=_first_lines(report),
        previous=_previous(library, report),
    )
    return Publication(
        report=file.path,
        remote=ours.remote,
        branch=ours.branch,
        base=plan.base,
        files=(ours.path,) if plan.needed else (),
        commit=pushed.commit if pushed else None,
        title=pull_request_text.pull_request_title(report),
        body=pull_request_text.pull_request_body(report, where),
        merged=plan.merged,
        richer=report != ours.report,
        missing=tuple(path for path in _linked(ours.path, report) if repository.read(plan.main, path) is None),
    )


def _linked(path: str, report: Report) -> list[str]:
    """The earlier reports that it names, as paths in the repository."""
    return sorted(normpath(str(PurePosixPath(path).parent / name)) for name in linked_reports(report))


def branch_of(report: Report, path: str) -> str:
    """`evalscribe/<provider>/<model>/<run>`; the run is called as in the file's name."""
    run, name = report.run, PurePosixPath(path).name
    stems = report_stems(run.id)
    stem = next((stem for stem in reversed(stems) if name.startswith(f"{stem}_")), stems[0])
    parts = (*model_folder(run.provider, run.model), stem)
    return "/".join(("evalscribe", *map(_ref_part, parts)))


def _ref_part(part: str) -> str:
    """What git takes as a part of a branch's name: no `..`, no dot at its end, no `.lock`."""
    part = re.sub(r"\.{2,}", ".", part).rstrip(".")
    return re.sub(r"\.lock$", "-lock", part) or "unnamed"


def _read(file: ReportFile, text: str) -> Report:
    try:
        return parse(text)
    except ConflictingEdits as error:
        raise DataError(f"{file.name} is not published: {error}") from error
    except UnreadableReport as error:
        if _by_people(file, text):
            raise DataError(
                f"{file.name} is a report that people wrote; evalscribe publishes its own.\n"
                f"Commit it with git, so that links to it lead somewhere: git add {quote(str(file.path))}"
            ) from error
        raise DataError(
            f"{file.name} is no report of evalscribe's that can be read, so it is not published: {error}"
        ) from error


def _by_people(file: ReportFile, text: str) -> bool:
    try:
        return read_report(text, file.name).revision is None
    except DataError:
        return False


def _inside(repository: Repository, file: ReportFile) -> str:
    """The report's path in its repository."""
    try:
        return file.path.resolve().relative_to(repository.root.resolve()).as_posix()
    except ValueError as error:
        raise UsageError(f"{file.path} is not inside {repository.root}") from error


def _first_lines(report: Report) -> str:
    """What stands between the title and the run's table, without notes of people."""
    _title, *lines = summary.render(replaced(report, notes=()))
    return "\n".join(lines).strip()


def _previous(library: Library, report: Report) -> Analysis | None:
    """What the newest earlier report says, where it is at hand."""
    name = PurePosixPath(report.earlier[0]).name if report.earlier else None
    files = library.of_model(report.run.provider, report.run.model) if name else ()
    for file in files:
        if PurePosixPath(file.name).name == name:
            try:
                return read_report(file.text, name)
            except DataError:
                return None
    return None

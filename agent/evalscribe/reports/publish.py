"""Publish a report: commit it on the branch of its run, push this branch, and open a pull request."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from posixpath import normpath
from shlex import quote

from evalscribe.errors import DataError, UsageError
from evalscribe.git.forge import open_forge, repository_of
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.git.repository import GitRepository
from evalscribe.ids import Frozen, model_folder, report_stems
from evalscribe.model.analysis import Analysis
from evalscribe.model.report import Report, replaced
from evalscribe.model.repository import PullRequest, PushedBranch, ReportFile, data_name, has_data
from evalscribe.reports import pull_request_text
from evalscribe.reports.blocks import ConflictingEdits
from evalscribe.reports.data import read_data, updated_analysis, write_data
from evalscribe.reports.merge import reconcile
from evalscribe.reports.page import first_lines
from evalscribe.reports.page_checks import is_generated, linked_reports
from evalscribe.reports.reading import PageSource, find_report, read_page, read_report, run_of
from evalscribe.workspace import Workspace


@dataclass(frozen=True)
class LocalReport:
    """A report on this computer, and its place in the git repository."""

    remote: str
    branch: str
    path: str
    """Path of the page in the repository, with `/` as separator."""
    source: PageSource
    report: Report
    bases: Callable[[], Iterable[str]]
    """Function that returns texts that the page could have had before people edited it."""
    own_files: Mapping[str, str]
    """Texts of the files that evalscribe keeps in the reports folder, such as `labels.md`, keyed by path in the
    repository.
    """

    @property
    def data_path(self) -> str:
        """Path of the data file in the repository."""
        return data_name(self.path)


class BranchPlan(Frozen):
    """Plan of the commit to publish, based on the current state of the remote."""

    base: str
    """Name of the remote's main branch."""
    main: str
    """Id of the newest commit on the main branch."""
    tip: str | None
    """Id of the newest commit on the run's branch. None if the branch does not exist."""
    parent: str
    merging: str | None = None
    text: str
    data: str | None
    report: Report
    on_branch: PageSource | None = None
    """The page and its data in the commit `parent`. None if this commit does not have the page."""
    own_files: Mapping[str, str]
    """Files that evalscribe keeps in the reports folder and that the commit `parent` does not have yet."""
    merged: bool = False
    """True if the main branch has the text to publish, and no other version waits to be merged on the run's branch."""

    @property
    def needed(self) -> bool:
        return not self.merged and (
            self.on_branch is None or (self.text, self.data) != (self.on_branch.text, self.on_branch.data)
        )

    def files(self, local: LocalReport) -> dict[str, str]:
        """Return the texts of the commit's files, keyed by path."""
        data = {local.data_path: self.data} if self.data is not None else {}
        return {local.path: self.text, **data, **self.own_files}


def plan_branch(repository: GitRepository, local: LocalReport) -> BranchPlan:
    """Plan the commit that publishes a report.

    The commit is based on the run's branch. If that branch is already merged or does not exist, the commit is based on
    the main branch.

    Raises:
        UsageError: The remote has no main branch.
        DataError: Edits on the remote contradict the local report.
    """
    # Everything is worked out from the remote, so a command that was killed at any point can be run again.
    main = repository.fetch(local.remote)
    if main is None:
        raise UsageError(f"{local.remote} has no main branch yet that a report could be merged into; push one first")
    base, newest = main
    branch = repository.fetch(local.remote, local.branch)
    tip = branch[1] if branch else None
    # A branch whose newest commit is part of the main branch is merged.
    live = tip is not None and repository.common(tip, newest) != tip
    parent = tip if live and tip else newest
    on_branch, on_main = (
        _parse_remote(repository, local, parent, local.branch),
        _parse_remote(repository, local, newest, base),
    )
    merging = newest if live and _moved_on(repository, local, parent, newest, on_main) else None
    source, report = _united(local, {local.branch: on_branch, **({base: on_main} if merging else {})})
    # Files that are already on the remote keep what people changed in them.
    existing = {*repository.files(parent), *(repository.files(merging) if merging else ())}
    return BranchPlan(
        base=base,
        main=newest,
        tip=tip,
        parent=parent,
        merging=merging,
        text=source.text,
        data=source.data,
        report=report,
        on_branch=on_branch,
        own_files={path: text for path, text in local.own_files.items() if path not in existing},
        merged=on_main == source and (not live or merging is not None),
    )


def _moved_on(repository: GitRepository, local: LocalReport, tip: str, main: str, on_main: PageSource | None) -> bool:
    """Return whether a squashed merge or an edit changed the report on the main branch after the run's branch diverged.

    If so, the commit must be a merge, because the pull request would otherwise conflict.
    """
    common_commit = repository.common(tip, main)
    return on_main is not None and on_main.text != (
        repository.read(common_commit, local.path) if common_commit else None
    )


def _parse_remote(repository: GitRepository, local: LocalReport, commit: str, branch: str) -> PageSource | None:
    text = repository.read(commit, local.path)
    if text is None:
        if local.path in repository.files(commit):
            raise DataError(
                f"{local.path} on {branch} of {local.remote} is not text, so the report was not published over it"
            )
        return None
    data = repository.read(commit, local.data_path) if has_data(text) else None
    return PageSource(name=local.source.name, text=text, data=data)


def _united(local: LocalReport, remote_pages: Mapping[str, PageSource | None]) -> tuple[PageSource, Report]:
    """Merge the edits that people made on the remote into the local page and its data."""
    source, report = local.source, local.report
    for branch, remote_page in remote_pages.items():
        if remote_page is None or remote_page == source:
            continue
        try:
            united = reconcile(source, remote_page, list(local.bases()))
        except DataError as error:
            raise DataError(
                f"{local.path} was not published, because it differs on {branch} of {local.remote}: {error}"
            ) from error
        lead = source if united.ours else remote_page
        data = write_data(updated_analysis(read_data(lead.data, lead.data_name), united.report)) if lead.data else None
        united_data = next(
            (page.data for page in (source, remote_page) if page.text == united.text and page.data), data
        )
        source, report = PageSource(name=source.name, text=united.text, data=united_data), united.report
    return source, report


TRIES = 5
"""Maximum number of attempts to push. Another attempt is needed if the remote's branch changes during a push."""
PAUSE_S = 0.2


class Publication(Frozen):
    """A publication that was made, or that a dry run planned."""

    report: Path
    data: Path | None = None
    """Path of the report's data file."""
    remote: str
    branch: str
    base: str
    """The branch into which the pull request is to be merged."""
    files: tuple[str, ...]
    """Paths of the files in the commit. Empty if the branch already has these files."""
    commit: str | None = None
    title: str
    body: str
    pull_request: PullRequest | None = None
    """The pull request. None if the forge was not contacted: in a dry run, or if the report is already merged."""
    merged: bool = False
    """True if the remote's main branch already has the published text."""
    richer: bool = False
    """True if the published text contains edits from the remote that the local file does not have."""
    missing: tuple[str, ...] = ()
    """Repository paths of earlier reports that are missing on the remote's main branch although the report links to
    them.
    """


def publish_report(
    workspace: Workspace, name: str, *, remote: str | None = None, draft: bool = False, dry_run: bool = False
) -> Publication:
    """Push a report on its own branch, and open or update its pull request. No local file or branch is changed.

    Args:
        workspace: Provides the report and the token for the forge.
        name: Name of the report, in any form that `find_report` accepts.
        remote: Name of the remote. If None, the remote of the current branch is used. If that branch has no remote,
            `origin` is used, and if there is no `origin`, the only remote.
        draft: True to open the pull request as a draft.
        dry_run: True to plan the publication without pushing.

    Raises:
        DataError: evalscribe did not write the report, or its edits contradict edits on the remote.
        EvalscribeError: The repository, the remote or the forge cannot be used. The message has the reason.
    """
    file = find_report(workspace, name)
    # A checkout can convert line ends, and the text is compared with the text in the commits.
    text = file.text.removeprefix("\ufeff").replace("\r\n", "\n")
    source = PageSource(name=file.name, text=text, data=file.data)
    with closing(repository_of(file.path.resolve().parent)) as repository:
        path = _inside(repository, file)
        bases = partial(_bases, workspace, file)
        report = _read(file, source, bases())
        local = LocalReport(
            remote=repository.remote(remote),
            branch=branch_of(report, path),
            path=path,
            source=source,
            report=report,
            bases=bases,
            own_files=_own_files(workspace.reports, repository, file),
        )
        with closing(open_forge(workspace.settings, repository.remote_url(local.remote))) as forge:
            plan, pushed = (plan_branch(repository, local), None) if dry_run else _pushed(repository, local)
            publication = _publication(workspace.reports, repository, file, local, plan, pushed)
            if plan.merged or dry_run:
                return publication
            # An earlier command can have been killed after its push, so the pull request is also opened without a new
            # push.
            pushed_branch = pushed or PushedBranch(branch=local.branch, commit=plan.parent)
            request = forge.propose(pushed_branch, plan.base, publication.title, publication.body, draft=draft)
            return replaced(publication, pull_request=request)


def _bases(workspace: Workspace, file: ReportFile) -> Iterator[str]:
    """Yield texts, from the store and from git, that the page could have had before people edited it."""
    run = run_of(file.text)
    stored = workspace.store.analyses.get_report(run) if run and workspace.has_store else None
    if stored:
        yield stored.text
    if has_data(file.text):
        yield from workspace.reports.page_texts(file.name)


def _own_files(library: ReportsFolder, repository: GitRepository, file: ReportFile) -> dict[str, str]:
    """Return the files that evalscribe keeps in the reports folder, keyed by path in the repository.

    Returns an empty dictionary if the report is outside the reports folder.
    """
    root, top = library.root.resolve(), repository.root.resolve()
    if not file.path.resolve().is_relative_to(root) or not root.is_relative_to(top):
        return {}
    return {(root / name).relative_to(top).as_posix(): text for name, text in library.own_files().items()}


def _pushed(repository: GitRepository, local: LocalReport) -> tuple[BranchPlan, PushedBranch | None]:
    """Push the report. If the remote has changed in the meantime, plan the commit again and retry.

    Returns the last plan. Also returns the push, or None if no push was needed.
    """
    for attempt in range(TRIES):
        plan = plan_branch(repository, local)
        if not plan.needed:
            return plan, None
        commit = repository.commit(
            plan.files(local),
            parent=plan.parent,
            merging=plan.merging,
            message=pull_request_text.commit_message(local.report),
        )
        try:
            return plan, repository.push(local.remote, local.branch, commit)
        except DataError:
            now = repository.fetch(local.remote, local.branch)
            # When the first attempt fails, another push that moves the branch can still be under way.
            if attempt and (now[1] if now else None) == plan.tip:
                raise  # the branch did not move: the remote refuses the push
            time.sleep(PAUSE_S)
    raise DataError(f"the branch {local.branch} of {local.remote} keeps changing; try again")


def _publication(
    library: ReportsFolder,
    repository: GitRepository,
    file: ReportFile,
    local: LocalReport,
    plan: BranchPlan,
    pushed: PushedBranch | None,
) -> Publication:
    report = plan.report
    published = pull_request_text.PublishedReport(
        branch=local.branch,
        path=local.path,
        summary=_first_lines(report),
        previous=_previous(library, report),
    )
    return Publication(
        report=file.path,
        data=file.path.with_name(local.source.data_name) if plan.data is not None else None,
        remote=local.remote,
        branch=local.branch,
        base=plan.base,
        files=tuple(plan.files(local)) if plan.needed else (),
        commit=pushed.commit if pushed else None,
        title=pull_request_text.pull_request_title(report),
        body=pull_request_text.pull_request_body(report, published),
        merged=plan.merged,
        richer=report != local.report,
        missing=tuple(path for path in _linked(local.path, report) if repository.read(plan.main, path) is None),
    )


def _linked(path: str, report: Report) -> list[str]:
    """Return the repository paths of the earlier reports to which a report links."""
    return sorted(normpath(str(PurePosixPath(path).parent / name)) for name in linked_reports(report))


def branch_of(report: Report, path: str) -> str:
    """Return the name of the report's branch, `evalscribe/<provider>/<model>/<run>`.

    The run's id is abbreviated as in the file name of the report.
    """
    run, name = report.run, PurePosixPath(path).name
    stems = report_stems(run.id)
    stem = next((stem for stem in reversed(stems) if name.startswith(f"{stem}_")), stems[0])
    parts = (*model_folder(run.provider, run.model), stem)
    return "/".join(("evalscribe", *map(_ref_part, parts)))


def _ref_part(part: str) -> str:
    """Convert a text to a valid part of a branch name, without `..`, a dot at the end, or the ending `.lock`."""
    part = re.sub(r"\.{2,}", ".", part).rstrip(".")
    return re.sub(r"\.lock$", "-lock", part) or "unnamed"


def _read(file: ReportFile, source: PageSource, bases: Iterable[str]) -> Report:
    try:
        return read_page(source, bases).report
    except ConflictingEdits as error:
        raise DataError(f"{file.name} is not published: {error}") from error
    except DataError as error:
        if not is_generated(source.text) and _by_people(source):
            raise DataError(
                f"{file.name} was written by a person; evalscribe publishes only reports that it wrote itself.\n"
                f"Commit it with git, so that links to it work: git add {quote(str(file.path))}"
            ) from error
        raise DataError(
            f"{file.name} is not published, because it is not a report that evalscribe can read: {error}"
        ) from error


def _by_people(source: PageSource) -> bool:
    try:
        return read_report(source.text, source.name, source.data).revision is None
    except DataError:
        return False


def _inside(repository: GitRepository, file: ReportFile) -> str:
    """Return the report's path in its repository. Raises `UsageError` if the file is outside the repository."""
    try:
        return file.path.resolve().relative_to(repository.root.resolve()).as_posix()
    except ValueError as error:
        raise UsageError(f"the report {file.path} is not inside the repository {repository.root}") from error


def _first_lines(report: Report) -> str:
    """Return the lines between the report's title and the table about its run, without people's notes."""
    _title, *lines = first_lines(report)
    return "\n".join(lines).strip()


def _previous(library: ReportsFolder, report: Report) -> Analysis | None:
    """Load the newest of the earlier reports to which the report links.

    Returns None if the report links to no earlier report, or if the newest one is missing or cannot be read.
    """
    name = PurePosixPath(report.earlier[0]).name if report.earlier else None
    files = library.of_model(report.run.provider, report.run.model) if name else ()
    for file in files:
        if PurePosixPath(file.name).name == name:
            try:
                return read_report(file.text, file.name, file.data)
            except DataError:
                return None
    return None

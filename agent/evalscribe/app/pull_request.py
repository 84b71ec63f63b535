"""Publish a report: one commit on a branch of the run's own, pushed, and a pull request for it.

Nothing is remembered between two publications: all is worked out from the remote, so that a command that was killed
anywhere is simply run again.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath

from evalscribe.analysis import Analysis
from evalscribe.app.publishing import commit_message
from evalscribe.app.reports import found
from evalscribe.branch import PullRequest, Pushed
from evalscribe.errors import DataError, UsageError
from evalscribe.ids import Frozen, model_folder, path_part, run_id_prefix
from evalscribe.ports import Forge, Library, ReportFile, Repository
from evalscribe.publish import reconciled
from evalscribe.recall import read
from evalscribe.render import pull_request
from evalscribe.report import Report, replaced
from evalscribe.report_markdown import UnreadableReport, parse
from evalscribe.report_markdown import render as page
from evalscribe.review.checking import linked_reports

TRIES = 5
"""How often the remote's branch may move under our hands."""
PAUSE_S = 0.2


class PublishWish(Frozen):
    """What the user asked for."""

    report: str
    remote: str | None = None
    draft: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class PublishDesk:
    """What publishing works with."""

    library: Library
    repository: Callable[[Path], Repository]
    forge: Callable[[str | None], Forge]
    """For the address of a remote."""
    last_written: Callable[[str], str | None]
    """The text that evalscribe wrote last for a run."""


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


class _Plan(Frozen):
    """One commit, made for the remote as it was seen."""

    base: str
    """Name of the main branch."""
    main: str
    """Its commit."""
    tip: str | None
    """Of the run's branch."""
    parent: str
    merging: str | None = None
    text: str
    there: str | None = None
    """The file as it is on `parent`."""
    merged: bool = False

    @property
    def needed(self) -> bool:
        return not self.merged and self.text != self.there


def publish(desk: PublishDesk, wish: PublishWish) -> Publication:
    """Raises `DataError` for what is no report of ours or cannot be united with edits on the remote.

    What else is wrong with repository, remote or forge is an `EvalscribeError` with the reason; nothing local changes.
    """
    file = found(desk.library, wish.report)
    text = file.text.removeprefix("\ufeff").replace("\r\n", "\n")
    report = _ours(file, text)
    repository = desk.repository(file.path.resolve().parent)
    try:
        remote = repository.remote(wish.remote)
        task = _Task(desk, repository, remote, _inside(repository, file), text, report, wish)
        return task.published(file)
    finally:
        repository.close()


class _Task:
    """One report on its way."""

    def __init__(
        self,
        desk: PublishDesk,
        repository: Repository,
        remote: str,
        path: str,
        text: str,
        report: Report,
        wish: PublishWish,
    ) -> None:
        self.desk, self.repository, self.remote, self.wish = desk, repository, remote, wish
        self.path, self.text, self.report = path, text, report
        self.branch = branch_of(report, path)

    def published(self, file: ReportFile) -> Publication:
        forge = self.desk.forge(self.repository.remote_url(self.remote))
        try:
            plan, commit = self._pushed()
            done = self._told(file, plan, commit)
            if plan.merged or self.wish.dry_run:
                return done
            pushed = Pushed(branch=self.branch, commit=commit.commit if commit else plan.parent)
            request = forge.propose(commit or pushed, plan.base, done.title, done.body, draft=self.wish.draft)
            return replaced(done, pull_request=request)
        finally:
            forge.close()

    def _pushed(self) -> tuple[_Plan, Pushed | None]:
        """The plan that held, and what was pushed for it, if anything had to be."""
        for attempt in range(TRIES):
            plan = self._plan()
            if not plan.needed or self.wish.dry_run:
                return plan, None
            commit = self.repository.commit(
                {self.path: plan.text}, parent=plan.parent, merging=plan.merging, message=commit_message(self.report)
            )
            try:
                return plan, self.repository.push(self.remote, self.branch, commit)
            except DataError:
                now = self.repository.fetch(self.remote, self.branch)
                if attempt and (now[1] if now else None) == plan.tip:
                    raise  # nobody was faster, nor is about to be: the remote does not want it
                time.sleep(PAUSE_S)
        raise DataError(f"the branch {self.branch} of {self.remote} keeps moving; try again")

    def _plan(self) -> _Plan:
        main = self.repository.fetch(self.remote)
        if main is None:
            raise UsageError(f"{self.remote} has no main branch yet that a report could be merged into; push one first")
        branch = self.repository.fetch(self.remote, self.branch)
        tip = branch[1] if branch else None
        live = tip is not None and self.repository.common(tip, main[1]) != tip
        parent = tip if live and tip else main[1]
        on_main = self._read(main[1], main[0])
        merging = main[1] if live and self._moved_on(parent, main[1], on_main) else None
        there = self._read(parent, self.branch)
        text = self._united({self.branch: there, **({main[0]: on_main} if merging else {})})
        return _Plan(
            base=main[0],
            main=main[1],
            tip=tip,
            parent=parent,
            merging=merging,
            there=there,
            text=text,
            merged=on_main == text and (not live or merging is not None),
        )

    def _moved_on(self, tip: str, main: str, on_main: str | None) -> bool:
        """Whether the main branch got another version of the report since the run's branch left it: by a squashed
        merge, or an edit there. Then the commit is a merge, else the pull request would be in conflict."""
        left = self.repository.common(tip, main)
        return on_main is not None and on_main != (self.repository.read(left, self.path) if left else None)

    def _read(self, commit: str, where: str) -> str | None:
        text = self.repository.read(commit, self.path)
        if text is None and self.path in self.repository.files(commit):
            raise DataError(f"{self.path} on {where} of {self.remote} is no text; it is not overwritten")
        return text

    def _united(self, theirs: Mapping[str, str | None]) -> str:
        """Our text with what people wrote into the others."""
        text = self.text
        for where, other in theirs.items():
            if other is not None and other != text:
                try:
                    united = reconciled(text, other, self.desk.last_written(self.report.run.id))
                    text = other if parse(united) == parse(other) else united  # no commit for another order of lines
                except UnreadableReport as error:
                    raise DataError(
                        f"not published: {self.path} differs on {where} of {self.remote}; {error}"
                    ) from error
        return text

    def _told(self, file: ReportFile, plan: _Plan, pushed: Pushed | None) -> Publication:
        report = parse(plan.text) if plan.text != self.text else self.report
        where = pull_request.Published(
            branch=self.branch,
            path=self.path,
            summary=_first_lines(report),
            previous=_previous(self.desk.library, report),
        )
        return Publication(
            report=file.path,
            remote=self.remote,
            branch=self.branch,
            base=plan.base,
            files=(self.path,) if plan.needed else (),
            commit=pushed.commit if pushed else None,
            title=pull_request.title(report),
            body=pull_request.body(report, where),
            merged=plan.merged,
            richer=report != self.report,
            missing=tuple(path for path in self._linked(report) if self.repository.read(plan.main, path) is None),
        )

    def _linked(self, report: Report) -> list[str]:
        """The earlier reports that it names, as paths in the repository."""
        folder = PurePosixPath(self.path).parent
        return sorted(normpath(str(folder / name)) for name in linked_reports(report))


def branch_of(report: Report, path: str) -> str:
    """`evalscribe/<provider>/<model>/<run>`; the whole run id where the file is called by it."""
    run = report.run
    whole = PurePosixPath(path).name.startswith(f"{path_part(run.id)}_")
    parts = (*model_folder(run.provider, run.model), path_part(run.id) if whole else run_id_prefix(run.id))
    return "/".join(("evalscribe", *map(_ref_part, parts)))


def _ref_part(part: str) -> str:
    """What git takes as a part of a branch's name: no `..`, no dot at its end, no `.lock`."""
    part = re.sub(r"\.{2,}", ".", part).rstrip(".")
    return re.sub(r"\.lock$", "-lock", part) or "unnamed"


def _ours(file: ReportFile, text: str) -> Report:
    try:
        return parse(text)
    except UnreadableReport as error:
        raise DataError(
            f"{file.name} is no report of evalscribe's that can be read, so it is not published: {error}"
        ) from error


def _inside(repository: Repository, file: ReportFile) -> str:
    """The report's path in its repository."""
    try:
        return file.path.resolve().relative_to(repository.root.resolve()).as_posix()
    except ValueError as error:
        raise UsageError(f"{file.path} is not inside {repository.root}") from error


def _first_lines(report: Report) -> str:
    """What stands between the title and the run's table, without notes of people."""
    after_title = page(replaced(report, notes=())).partition("\n# ")[2].partition("\n")[2]
    return after_title.partition("\n| ")[0].strip()


def _previous(library: Library, report: Report) -> Analysis | None:
    """What the newest earlier report says, where it is at hand."""
    name = PurePosixPath(report.earlier[0]).name if report.earlier else None
    files = library.of_model(report.run.provider, report.run.model) if name else ()
    for file in files:
        if PurePosixPath(file.name).name == name:
            try:
                return read(file.text, name)
            except DataError:
                return None
    return None

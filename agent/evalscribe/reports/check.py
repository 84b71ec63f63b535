"""Check that reports are consistent and agree with the evidence, and post the result on the pull request."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from evalscribe import text as prose
from evalscribe.errors import AccessError, DataError, EvalscribeError, UsageError, flag
from evalscribe.failures.prepare import summarise_evidence
from evalscribe.git.forge import ManualForge
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.git.repository import GitRepository
from evalscribe.ids import Frozen, content_id
from evalscribe.model.evidence import Document, Evidence, UnreadableEvidence
from evalscribe.model.protocols import RunSource
from evalscribe.model.report import CheckedReport, CheckResult, Problem, Report, ReportEntry, proof_documents
from evalscribe.model.repository import ReportFile, has_data
from evalscribe.model.run import Eval, Run
from evalscribe.reports.page import first_lines
from evalscribe.reports.page_checks import (
    PageCheck,
    check_page,
    compare_quotation,
    is_generated,
    links,
    markers,
    quotations,
)
from evalscribe.reports.problems import LineProblem
from evalscribe.reports.reading import find_report, read_report, run_of, source_of
from evalscribe.reports.snippets import Quoted
from evalscribe.sample import snapshot_folder
from evalscribe.sources.address import Links
from evalscribe.sources.snapshot import open_snapshot
from evalscribe.text import name as printed
from evalscribe.text import path as printed_path
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.git.github import GitHubForge
    from evalscribe.store.analyses import AnalysisStore

MANY = 1000
"""If a run has more failures than this, its evidence is not loaded as a whole. The content id of the evidence is then
not compared with the id in the report.
"""
NOWHERE = "it is not in the store; read it from a snapshot (`--evidence DIR`) or from the deployment (`--fetch`)"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class RunEvidence:
    """The evidence of one run."""

    def __init__(self, run: Run, source: RunSource | None, store: "AnalysisStore | None") -> None:
        """Store the arguments.

        Evidence that the store lacks is read from the source. If `store` is given, the evidence that was read is saved
        there.
        """
        self.run = run
        self._source = source
        self._store = store

    def has(self, paths: Sequence[str]) -> bool:
        """Return whether at least one of the paths is the path of a failed eval in the run."""
        return any(path in self._evals for path in paths)

    async def evidence(self, path: str) -> Evidence | str:
        """Return the evidence of the failed eval with this printed path. If there is none, return the reason as a
        string.
        """
        eval = self._evals.get(path)
        try:
            evidence = await self._load(eval) if eval else None
        except EvalscribeError as error:
            return error.text(flag)
        if isinstance(evidence, Evidence):
            return evidence
        return f"{path}: {evidence.reason}" if evidence else NOWHERE

    async def other_than(self, digest: str) -> Sequence[LineProblem]:
        """Return a warning if the evidence has changed since the report was written.

        The content id of the current evidence is compared with `digest`, the content id that the report states.
        """
        # With a source and a store, all missing evidence would be downloaded for this one comparison.
        if not digest or self._has_source_and_store or len(self.run.failures) > MANY:
            return ()
        try:
            items = [await self._load(eval) for eval in self.run.failures]
        except EvalscribeError:
            return ()  # Evidence that cannot be loaded is reported by the check of the quotations.
        digests = sorted(summarise_evidence(item).digest for item in items if item)
        current_digest = content_id(digests)[: len("sha256:") + 8]
        if None in items or current_digest == digest:
            return ()
        message = (
            f"made from evidence {digest}, but compared with {current_digest}: the evidence or this line has changed"
        )
        return (LineProblem(1, "warning", message),)

    async def _load(self, eval: Eval) -> Evidence | UnreadableEvidence | None:
        stored = self._store.get_evidence(self.run.id, eval.id) if self._store else None
        if self._source is None or isinstance(stored, Evidence):
            return stored
        fetched = await self._source.evidence(eval)
        if self._store:
            self._store.put_evidence(self.run.id, fetched)
        return fetched

    @property
    def _has_source_and_store(self) -> bool:
        return self._source is not None and self._store is not None

    @cached_property
    def _evals(self) -> Mapping[str, Eval]:
        return {printed_path(eval.path): eval for eval in self.run.failures}


class EvidenceFinder:
    """Finds the evidence of runs in the given snapshots, in the store, in the sample runs shipped with evalscribe, or
    at the deployment.
    """

    def __init__(self, workspace: Workspace, evidence: Sequence[Path] = (), *, fetch: bool = False) -> None:
        """Store the arguments. Use the object as an async context manager to open the sources.

        Args:
            workspace: The workspace, whose store is used if it exists. A missing store is created only if `fetch` is
                set, to save fetched evidence.
            evidence: Snapshot folders that are searched first.
            fetch: True to fetch evidence from the deployment if it is not found elsewhere.
        """
        self._workspace = workspace
        self._fetch = fetch
        self._folders = (*evidence, snapshot_folder())
        self._sources: list[RunSource] = []
        self._exit_stack = AsyncExitStack()
        self._runs: dict[int, Run] = {}
        self.store: AnalysisStore | None = None
        """The workspace's store. None if there is no store, or if it cannot be opened."""
        self._missing_reason = NOWHERE
        """Reason to report if the evidence of a run is not found anywhere."""

    async def __aenter__(self) -> Self:
        """Open the sources. Raises `EvalscribeError` if a folder is not a snapshot."""
        if self._fetch or self._workspace.has_store:
            try:
                self.store = self._workspace.store.analyses
            except EvalscribeError as error:
                self._missing_reason = error.text(flag)  # a store that cannot be opened is not a problem of any report
        # If a folder is not a snapshot, the sources that are already open are closed.
        async with AsyncExitStack() as stack:
            for folder in self._folders:
                self._sources.append(source := open_snapshot(folder, Links()))
                stack.push_async_callback(source.close)
            self._exit_stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit_stack.aclose()

    @asynccontextmanager
    async def of(self, run_id: str) -> AsyncIterator[RunEvidence | str]:
        """Yield the run's evidence. If there is none, yield the reason as a string.

        `run_id` is the run's id as printed in reports.
        """
        *requested, shipped = self._sources
        at_hand = (
            await self._in_sources(requested, run_id)
            or self._stored(run_id)
            # The user's own evidence of a run takes precedence over the shipped sample.
            or await self._in_sources([shipped], run_id)
        )
        if at_hand or not self._fetch:
            yield at_hand or self._missing_reason
            return
        try:
            source = self._deployed(run_id)
        except EvalscribeError as error:
            yield error.text(flag)
            return
        try:
            yield await _fetched(source, self.store)
        finally:
            await source.close()

    def _deployed(self, run_id: str) -> RunSource:
        """Open the run at the deployment.

        Raises `UsageError` if the run's id is not valid.
        """
        # The id comes from a report, which anybody can have written.
        if not _RUN.fullmatch(run_id):
            raise UsageError("the report's run id is not valid, so the run cannot be fetched from the deployment")
        from evalscribe.sources.convex import open_convex

        access = self._workspace.settings.convex()
        return open_convex(access.url, access.key, run_id, Links())

    async def _in_sources(self, sources: Sequence[RunSource], run_id: str) -> RunEvidence | None:
        for source in sources:
            if id(source) not in self._runs:
                self._runs[id(source)] = await source.run()
            run = self._runs[id(source)]
            if printed(run.id) == run_id:
                return RunEvidence(run, source, None)
        return None

    def _stored(self, run_id: str) -> RunEvidence | None:
        run = self.store.get_run(run_id) if self.store else None
        return RunEvidence(run, None, self.store) if run and (not self._fetch or self._is_complete(run)) else None

    def _is_complete(self, run: Run) -> bool:
        """Return whether the store has the evidence of all failures."""
        return all(self.store and self.store.get_evidence(run.id, eval.id) for eval in run.failures)


async def _fetched(source: RunSource, store: "AnalysisStore | None") -> RunEvidence | str:
    try:
        run = await source.run()
    except EvalscribeError as error:
        return error.text(flag)
    if store:
        store.put_run(run)
    return RunEvidence(run, source, store)


async def check_reports(
    workspace: Workspace,
    names: Sequence[str] = (),
    *,
    evidence: Sequence[Path] = (),
    fetch: bool = False,
    shown_from: Path,
) -> CheckResult:
    """Check all reports, or the named ones.

    Args:
        workspace: The workspace with the reports. A missing store is created only if `fetch` is set, to save fetched
            evidence.
        names: Names of the reports to check, in any form that `find_report` accepts. If empty, all reports are checked.
        evidence: Snapshot folders whose evidence is compared with the quotations, in addition to the evidence in the
            store.
        fetch: True to fetch evidence from the deployment if it is not found elsewhere.
        shown_from: Folder to which the printed paths are relative.

    Raises:
        NotFoundError: A name matches no report, or more than one.
    """
    library = workspace.reports
    async with EvidenceFinder(workspace, evidence, fetch=fetch) as proofs:
        files = [_find_by_name(workspace, name) for name in dict.fromkeys(names)] if names else library.all()
        reports: list[CheckedReport] = []
        problems: list[Problem] = []
        runs: dict[str, str] = {}
        for file in sorted(files, key=lambda file: file.name):
            bases = _bases(library, proofs.store, file)
            report, line_problems = await _check(file, proofs, _printed_path(file.path, shown_from), bases)
            reports.append(report)
            problems += (
                Problem(file=report.file, **problem._asdict()) for problem in (*line_problems, *_twice(file, runs))
            )
    order = sorted(set(problems), key=lambda problem: (problem.file, problem.line, problem.what))
    return CheckResult(reports=tuple(reports), problems=tuple(order), notes=tuple(_notes(reports)))


def _find_by_name(workspace: Workspace, name: str) -> ReportFile:
    """Find a report by any name that `find_report` accepts. In the result, the name is the report's path in the reports
    folder.
    """
    file = find_report(workspace, name)
    try:
        below = file.path.resolve().relative_to(workspace.reports.root.resolve()).as_posix()
    except ValueError:
        return file
    return file.model_copy(update={"name": below})


async def _check(
    file: ReportFile, proofs: EvidenceFinder, path_text: str, bases: Iterable[str]
) -> tuple[CheckedReport, list[LineProblem]]:
    if not is_generated(file.text):
        return CheckedReport(file=path_text, name=file.name, ours=False), list(_free_form(file))
    page = check_page(source_of(file), file.name, _exists(file), bases)
    checked = CheckedReport(file=path_text, name=file.name, ours=True)
    if page.report is None:
        return checked, list(page.problems)
    count = sum(len(quotations(part)) for part in page.findings)
    wrong, reason = await _quotations(proofs, page.report, page) if count else ([], None)
    lines = tuple(line for line in first_lines(page.report) if line)
    update = {"summary": lines, "page_url": page.report.page_url, "quotations": count, "not_compared": reason}
    return checked.model_copy(update=update), [*page.problems, *wrong]


def _free_form(file: ReportFile) -> Iterator[LineProblem]:
    """Yield the problems of a report that a person wrote. Such a report can have any format."""
    yield from (problem._replace(level="warning") for problem in markers(file.text))
    try:
        read_report(file.text, file.name, file.data)
    except DataError as error:
        yield LineProblem(1, "notice", f"not read as a report: {error}")
    yield from links(file.text, None, file.name, _exists(file))


def _exists(file: ReportFile) -> Callable[[str], bool]:
    """Return a function that checks whether a file exists.

    The returned function takes a path relative to the same folder as `file.name`.
    """
    root = file.path.parents[file.name.count("/")]

    def exists(name: str) -> bool:
        try:
            target = (root / name).resolve()
            # A symbolic link can lead out of the folder.
            return target.is_relative_to(root.resolve()) and target.exists()
        except (OSError, ValueError, RuntimeError):
            # Before Python 3.13, `resolve` raises `RuntimeError` for a loop of links.
            return False

    return exists


def _bases(library: ReportsFolder, store: "AnalysisStore | None", file: ReportFile) -> Iterator[str]:
    """Yield texts, from the store and from git, that the page could have had before people edited it."""
    run = run_of(file.text) if store else None
    stored = store.get_report(run) if store and run else None
    if stored:
        yield stored.text
    if has_data(file.text):
        yield from library.page_texts(file.name)


async def _quotations(proofs: EvidenceFinder, report: Report, page: PageCheck) -> tuple[list[LineProblem], str | None]:
    """Return the problems of the report's quotations.

    Also return the reason why quotations could not be checked, or None if all of them were checked.
    """
    async with proofs.of(report.run.id) as proof:
        if isinstance(proof, str):
            return [], proof
        wrong: list[LineProblem] = []
        unread: list[str] = []
        for entry, part in zip(report.entries, page.findings, strict=True):
            quoted = quotations(part)
            logs = proof_documents(report.proofs, entry.paths)
            result = await _best(proof, entry, quoted, part.line, logs) if quoted else []
            if isinstance(result, str):
                unread.append(result)
            else:
                wrong += result
        wrong += await proof.other_than(report.evidence)
        return wrong, f"in part, {unread[0]}" if unread else None


async def _best(
    proof: RunEvidence, entry: ReportEntry, quoted: Sequence[Quoted], line: int, logs: Sequence[Document]
) -> list[LineProblem] | str:
    """Compare quotations with the evidence of each eval in the group, and keep the result with the fewest problems.

    The judge was shown only one eval of the group, and the report does not say which. `logs` are the logs of replays.

    Returns:
        The fewest problems found. If no evidence is available, the reason as a string.
    """
    if not proof.has(entry.paths):
        return [LineProblem(line, "error", f"the report's run has no failed eval {entry.paths[0]}")]
    best: list[LineProblem] | None = None
    reason = ""
    for path in entry.paths:
        evidence = await proof.evidence(path)
        if isinstance(evidence, str):
            reason = evidence
            continue
        with_logs = evidence.model_copy(update={"documents": (*evidence.documents, *logs)})
        wrong = list(compare_quotation(quoted, with_logs))
        best = wrong if best is None or len(wrong) < len(best) else best
        if not best:
            break
    return reason if best is None else best


def _twice(file: ReportFile, runs: dict[str, str]) -> Iterator[LineProblem]:
    run = run_of(file.text)
    if run is not None and runs.setdefault(run, file.name) != file.name:
        yield LineProblem(1, "warning", f"{runs[run]} is about the same run, {prose.name(run)}")


def _notes(reports: Iterable[CheckedReport]) -> Iterator[str]:
    counts: Mapping[str, int] = Counter(report.not_compared for report in reports if report.not_compared)
    for reason, count in counts.items():
        yield f"The quotations of {prose.pluralise(count, 'report')} were not compared with the evidence: {reason}"


def _printed_path(path: Path, base: Path) -> str:
    try:
        return path.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return path.as_posix()


MARK = "reports-check"
FORK = "a pull request from a fork has no such token. The text of the comment is in the step's summary"


class CommentOutcome(Frozen):
    url: str | None = None
    """Address of the comment. None if no comment was posted."""
    why_not: str | None = None


def changed_reports(
    repository: GitRepository, base: str, checked: CheckResult, folder: Path
) -> tuple[CheckedReport, ...] | None:
    """Return the reports that changed since the common ancestor of the checked-out commit and `base`.

    Returns None if a shallow clone lacks the common ancestor. `folder` is the folder to which the reports' paths are
    relative.
    """
    try:
        start = repository.common(base, repository.head())
        if start is None:
            return None
        root = repository.root.resolve()
        paths = {report: (folder / report.file).resolve() for report in checked.reports}
        inside = {report: path for report, path in paths.items() if path.is_relative_to(root)}
        return tuple(report for report, path in inside.items() if _differs(repository, start, path, root))
    except EvalscribeError:
        return None


def _differs(repository: GitRepository, commit: str, path: Path, root: Path) -> bool:
    before = repository.read(commit, path.relative_to(root).as_posix())
    try:
        return before is None or before.encode() != path.read_bytes()
    except OSError:
        return False


def post_comment(open_forge: Callable[[], "GitHubForge | ManualForge"], number: int, body: str) -> CommentOutcome:
    """Create the comment on the pull request, or update the existing comment.

    If posting fails, the error is returned in the result instead of raised.
    """
    try:
        with closing(open_forge()) as forge:
            url = forge.comment(number, MARK, body)
    except AccessError as error:
        return CommentOutcome(why_not=f"{error.text(flag)}; a comment needs a token with write access, and {FORK}")
    except EvalscribeError as error:
        return CommentOutcome(why_not=error.text(flag))
    return (
        CommentOutcome(url=url)
        if url
        else CommentOutcome(why_not=f"no GITHUB_TOKEN or GH_TOKEN for the server of this repository; {FORK}")
    )

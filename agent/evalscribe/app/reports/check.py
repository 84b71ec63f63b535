"""Check reports: readable, in agreement with themselves, well linked, their quotations in the evidence."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from evalscribe import text as prose
from evalscribe.app.reports.proofs import Proof, Proofs
from evalscribe.app.reports.reading import found
from evalscribe.errors import DataError
from evalscribe.model.protocols import Library
from evalscribe.model.report import CheckedReport, CheckResult, Problem, Report, ReportEntry
from evalscribe.model.repository import ReportFile
from evalscribe.model.storage import Store
from evalscribe.reports.markdown import summary
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.front_matter import run_of
from evalscribe.reports.markdown.page import parse
from evalscribe.reports.page_checks import (
    PageCheck,
    PrintedQuotation,
    check_page,
    compare_quotation,
    is_ours,
    links,
    markers,
    quotations,
)
from evalscribe.reports.problems import LineProblem
from evalscribe.reports.reading import read_report
from evalscribe.workspace import Workspace


async def check(
    workspace: Workspace,
    names: Sequence[str] = (),
    *,
    evidence: Sequence[Path] = (),
    fetch: bool = False,
    shown_from: Path,
) -> CheckResult:
    """Check every report, or the named ones.

    Args:
        workspace: Its store is created only to keep what is fetched.
        names: As `reading.found` takes them; none for all reports.
        evidence: Snapshot folders to compare quotations with, too.
        fetch: Whether evidence that is nowhere else is fetched from the deployment.
        shown_from: The folder that printed paths are relative to.

    Raises:
        NotFoundError: No report, or more than one, has a given name.
    """
    library = workspace.reports
    async with Proofs(workspace, evidence, fetch=fetch) as proofs:
        files = [_named(library, name) for name in dict.fromkeys(names)] if names else library.all()
        reports: list[CheckedReport] = []
        problems: list[Problem] = []
        runs: dict[str, str] = {}
        for file in sorted(files, key=lambda file: file.name):
            report, said = await _check(file, proofs, _shown(file.path, shown_from))
            reports.append(report)
            problems += (Problem(file=report.file, **one._asdict()) for one in (*said, *_twice(file, runs)))
    order = sorted(set(problems), key=lambda one: (one.file, one.line, one.what))
    return CheckResult(reports=tuple(reports), problems=tuple(order), notes=tuple(_notes(reports)))


def _named(library: Library, name: str) -> ReportFile:
    """By its name below the reports folder also where a path was given."""
    file = found(library, name)
    try:
        below = file.path.resolve().relative_to(library.root.resolve()).as_posix()
    except ValueError:
        return file
    return file.model_copy(update={"name": below})


async def _check(file: ReportFile, proofs: Proofs, shown: str) -> tuple[CheckedReport, list[LineProblem]]:
    if not is_ours(file.text):
        return CheckedReport(file=shown, name=file.name, ours=False), list(_free_form(file))
    page = check_page(file.text, file.name, _exists(file), _written(proofs.store, file.text))
    checked = CheckedReport(file=shown, name=file.name, ours=True)
    if page.report is None:
        return checked, list(page.problems)
    count = sum(len(quotations(part)) for part in page.findings)
    wrong, reason = await _quotations(proofs, page.report, page) if count else ([], None)
    lines = tuple(line for line in summary.render(page.report.model_copy(update={"notes": ()})) if line)
    update = {"summary": lines, "quotations": count, "not_compared": reason}
    return checked.model_copy(update=update), [*page.problems, *wrong]


def _free_form(file: ReportFile) -> Iterator[LineProblem]:
    """A person's report has no format that it could break."""
    yield from (one._replace(level="warning") for one in markers(file.text))
    try:
        read_report(file.text, file.name.rpartition("/")[2])
    except DataError as error:
        yield LineProblem(1, "notice", f"not read as a report: {error}")
    yield from links(file.text, None, file.name, _exists(file))


def _exists(file: ReportFile) -> Callable[[str], bool]:
    """Whether a file is there, by a name below the folder that `file.name` is told from."""
    root = file.path.parents[file.name.count("/")]

    def there(name: str) -> bool:
        try:
            target = (root / name).resolve()
            return target.is_relative_to(root.resolve()) and target.exists()
        except (OSError, ValueError, RuntimeError):
            return False

    return there


def _written(store: Store | None, text: str) -> Report | None:
    """The report as evalscribe wrote it last, where the store knows the revision that people edited."""
    run = run_of(text) if store else None
    stored = store.get_report(run) if store and run else None
    try:
        written = parse(stored.text) if stored else None
        now = parse(text, written) if written else None
    except UnreadableReport:
        return None
    return written if written and now and now.revision == written.revision else None


async def _quotations(proofs: Proofs, report: Report, page: PageCheck) -> tuple[list[LineProblem], str | None]:
    """What is wrong with the report's quotations, or why nobody knows."""
    async with proofs.of(report.run.id) as proof:
        if isinstance(proof, str):
            return [], proof
        wrong: list[LineProblem] = []
        unread: list[str] = []
        for entry, part in zip(report.entries, page.findings, strict=True):
            quoted = quotations(part)
            said = await _best(proof, entry, quoted, part.line) if quoted else []
            if isinstance(said, str):
                unread.append(said)
            else:
                wrong += said
        wrong += await proof.other_than(report.evidence)
        return wrong, f"in part, {unread[0]}" if unread else None


async def _best(
    proof: Proof, entry: ReportEntry, quoted: Sequence[PrintedQuotation], line: int
) -> list[LineProblem] | str:
    """Of a group any member may be the one that was judged; why there is nothing to compare with, as text."""
    if not proof.has(entry.paths):
        return [LineProblem(line, "error", f"the run has no failed eval {entry.paths[0]}")]
    best: list[LineProblem] | None = None
    reason = ""
    for path in entry.paths:
        evidence = await proof.evidence(path)
        if isinstance(evidence, str):
            reason = evidence
            continue
        wrong = list(compare_quotation(quoted, evidence))
        best = wrong if best is None or len(wrong) < len(best) else best
        if not best:
            break
    return reason if best is None else best


def _twice(file: ReportFile, runs: dict[str, str]) -> Iterator[LineProblem]:
    run = run_of(file.text)
    if run is not None and runs.setdefault(run, file.name) != file.name:
        yield LineProblem(1, "warning", f"{runs[run]} is about the same run, {prose.name(run)}")


def _notes(reports: Iterable[CheckedReport]) -> Iterator[str]:
    why: Mapping[str, int] = Counter(one.not_compared for one in reports if one.not_compared)
    for reason, count in why.items():
        yield f"The quotations of {prose.pluralise(count, 'report')} were not compared with the evidence: {reason}"


def _shown(path: Path, base: Path) -> str:
    try:
        return path.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return path.as_posix()

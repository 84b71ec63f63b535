"""The reports that the pages are about. A report is parsed once, and again whenever its files change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from evalscribe.errors import DataError
from evalscribe.ids import model_folder, run_id_prefix
from evalscribe.model.analysis import Analysis, FindingSummary, RecommendationSummary
from evalscribe.model.finding import NOT_THE_MODEL
from evalscribe.model.report import ProofSummary
from evalscribe.model.repository import ReportFile, has_data
from evalscribe.model.run import TRIAL
from evalscribe.reports.corrections import finding_state, run_of
from evalscribe.reports.reading import load_analysis, read_page, source_of
from evalscribe.workspace import Workspace


@dataclass(frozen=True)
class Scope:
    """Selects the reports that the site shows."""

    report: str | None = None
    """Name of a single report; None for all reports."""
    folder: str = ""
    """Folder within the reports folder. Only reports in this folder are shown. Empty to show all reports."""

    def includes(self, name: str) -> bool:
        if self.report is not None:
            return name == self.report
        return not self.folder or name.startswith(f"{self.folder}/")


ORDER = (
    "A fix did not hold",
    "Proof contradicts the judge",
    "Uncertain",
    "Not the model's",
    "Repeated",
    "New",
    "Decided",
)
"""The groups of the inbox, in the order in which reviewers read them."""
DECIDED = len(ORDER) - 1


@dataclass(frozen=True, eq=False)  # compared by identity, because hashing all findings takes milliseconds
class Entry:
    """A finding of a report: one eval, or a group of evals with one verdict."""

    report: "LoadedReport"
    n: int
    """Number of the finding in its report, from 1."""
    findings: tuple[FindingSummary, ...]

    @property
    def first(self) -> FindingSummary:
        return self.findings[0]

    @property
    def label(self) -> str:
        return self.first.classification or "UNCLASSIFIED"

    @property
    def id(self) -> str:
        """Id of the entry on all pages, made of the report's name and the finding's number."""
        return f"{self.report.name}:{self.n}"

    @cached_property
    def state(self) -> str:
        """State of the finding that the reader sees (`finding_state`).

        A decision is refused if the state has changed since the page was rendered.
        """
        return finding_state(self.first)

    @cached_property
    def title(self) -> str:
        """Name of the eval.

        For a group of evals of one task, the title is the task with the trial numbers. For a group of evals of several
        tasks, the title is the number of evals.
        """
        paths = [finding.eval for finding in self.findings]
        tasks = {TRIAL.sub("", path) for path in paths}
        if len(paths) == 1:
            return paths[0]
        if len(tasks) == 1:
            numbers = [match[0] for path in paths if (match := TRIAL.search(path))]
            return f"{tasks.pop()} {', '.join(numbers)}"
        return f"{len(paths)} evals"

    @cached_property
    def group(self) -> int:
        """Index of the finding's group in `ORDER`."""
        first = self.first
        # A label without a judge comes from a report that a person wrote.
        if first.reviewer is not None or (first.judge is None and first.classification is not None):
            return DECIDED
        recurrence = first.recurrence.kind if first.recurrence else "new"
        if recurrence == "fix-in-doubt":
            return 0
        if any(finding.contradicted for finding in self.findings):
            return 1
        if first.classification is None or first.uncertain:
            return 2
        if first.classification != "MODEL_FAULT" or first.cause_kind in NOT_THE_MODEL:
            return 3
        return 4 if recurrence in ("repeat", "changed") else 5

    @property
    def recommendations(self) -> Sequence[RecommendationSummary]:
        """The recommended changes that concern this finding."""
        paths = {finding.eval for finding in self.findings}
        return [item for item in self.report.analysis.recommendations if item.id and paths.intersection(item.evals)]

    @property
    def proof(self) -> ProofSummary | None:
        paths = {finding.eval for finding in self.findings}
        return next((proof for proof in self.report.analysis.proofs if proof.eval in paths), None)


@dataclass(frozen=True, eq=False)
class LoadedReport:
    """A parsed report."""

    name: str
    """Path of the report, relative to the reports folder."""
    path: Path
    text: str
    analysis: Analysis

    @cached_property
    def run(self) -> str:
        """Id of the run from the report's text, or else from the report's file name, where the id can be shortened."""
        return run_of(self.analysis, self.name)

    @property
    def date(self) -> str:
        """ISO date on which the run started, or was first analysed if the start is unknown."""
        started = (self.analysis.run.started_at or "")[: len("2026-01-31")]
        return started or self.analysis.date or self.name.rpartition("_")[2].removesuffix(".md")

    @property
    def title(self) -> str:
        """Model, date and the first characters of the run's id.

        If the date is that of the analysis, the word `analysed` precedes it.
        """
        analysed = "" if self.analysis.run.started_at else "analysed "
        return f"{self.model}, {analysed}{self.date}, {run_id_prefix(self.run)}"

    @property
    def model(self) -> str:
        """Provider and model as `provider/model`, spelled like the folder with the model's reports."""
        run = self.analysis.run
        return "/".join(model_folder(run.provider or "", run.model)) if run.model else self.name.rpartition("/")[0]

    @property
    def editable(self) -> bool:
        """True if labels can be changed, which is possible only if the report has a data file."""
        return has_data(self.text)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        numbered = [
            finding if finding.n is not None else finding.model_copy(update={"n": n})
            for n, finding in enumerate(self.analysis.findings, 1)
        ]
        return tuple(
            Entry(report=self, n=n or 0, findings=tuple(members))
            for n, members in groupby(numbered, lambda finding: finding.n)
        )

    @cached_property
    def entry_of(self) -> Mapping[str, Entry]:
        """The entry of each eval, keyed by the eval's path."""
        return {finding.eval: entry for entry in self.entries for finding in entry.findings}


@dataclass(frozen=True)
class UnreadReport:
    name: str
    problem: str


class ReportIndex:
    """The parsed reports of a workspace."""

    def __init__(self, workspace: Workspace, scope: Scope) -> None:
        self.workspace = workspace
        self.scope = scope
        self._parsed: dict[str, tuple[object, LoadedReport | UnreadReport]] = {}
        self.version = 0
        """Number of refreshes so far. If it has changed, values computed from the reports can be outdated."""

    def refresh(self) -> None:
        """Parse the reports whose files are new or changed, and drop the reports whose files no longer exist."""
        library = self.workspace.reports
        current: dict[str, tuple[object, LoadedReport | UnreadReport]] = {}
        for name, state in library.states():
            cached = self._parsed.get(name)
            if cached is not None and cached[0] == state:
                current[name] = cached
            elif file := library.report(name):
                current[name] = (state, _load(file))
        self._parsed = current
        self.version += 1

    @property
    def all(self) -> Sequence[LoadedReport]:
        """Every readable report, newest first. Reports outside the scope are included."""
        readable = [report for _, report in self._parsed.values() if isinstance(report, LoadedReport)]
        return sorted(readable, key=lambda report: (report.date, report.name), reverse=True)

    @property
    def shown(self) -> Sequence[LoadedReport]:
        """The readable reports within the scope, newest first."""
        return [report for report in self.all if self.scope.includes(report.name)]

    @property
    def unread(self) -> Sequence[UnreadReport]:
        problems = (report for _, report in self._parsed.values() if isinstance(report, UnreadReport))
        return [report for report in problems if self.scope.includes(report.name)]


def _load(file: ReportFile) -> LoadedReport | UnreadReport:
    try:
        analysis = load_analysis(file)
        if has_data(file.text) and analysis.kind is None:
            read_page(source_of(file))  # raises an error that says what is wrong with the data
        return LoadedReport(name=file.name, path=file.path, text=file.text, analysis=analysis)
    except DataError as error:
        return UnreadReport(name=file.name, problem=str(error))

"""Load earlier reports of a model and what they say about the evals of a run."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from evalscribe.errors import DataError
from evalscribe.ids import Frozen, model_folder, same_experiment
from evalscribe.model.analysis import Analysis, FindingSummary
from evalscribe.model.finding import Precedent
from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Run
from evalscribe.reports.freeform.words import bare_name
from evalscribe.reports.reading import parse_report

SHORTEST_PREFIX = 6
"""Shortest abbreviation of a run id that is recognised, as in `jn7922_2026-02-06.md`."""


class PastReport(Frozen):
    """A parsed report of another run."""

    name: str
    """File name, relative to the folder of the run's report."""
    date: str | None = None
    """ISO date."""
    run_ids: tuple[str, ...] = ()
    other_experiments: tuple[str, ...] = ()
    refers_to: tuple[str, ...] = ()
    """Ids of its previous run or report, usually shortened."""
    analysis: Analysis

    @property
    def run(self) -> str:
        """Key of its run; two files may be about one run."""
        return next(iter(self.run_ids), self.name)

    def is_of(self, run_id: str) -> bool:
        """Return True if it is the report of this run, by its content, else by its file name."""
        said = self.run_ids or (PurePosixPath(self.name).stem.partition("_")[0],)
        return any(_names(word, run_id) for word in said)

    def follows(self, run_id: str) -> bool:
        """Return True if it refers to this run as a previous one."""
        return any(_names(word, run_id) for word in self.refers_to)

    def action(self, finding: FindingSummary) -> str | None:
        """Return the action taken on one of its findings, on one line."""
        told = (action.text for action in self.analysis.actions_taken if finding.eval in action.evals)
        text = next(told, None)
        return " ".join(text.split()).rstrip(".") if text else None


def past_reports(
    files: Sequence[ReportFile], folder: Sequence[str] = ()
) -> tuple[tuple[PastReport, ...], tuple[str, ...]]:
    """Parse reports, newest first and undated ones last.

    Args:
        files: Reports on the model.
        folder: The run's own folder below `reports/`, from which reports under other spellings are linked.

    Returns:
        The reports, and a note on each file that could not be read.
    """
    reports, notes = [], []
    for file in files:
        try:
            reports.append(_past(file, folder))
        except DataError as error:
            notes.append(f"not read: {error}")
    return tuple(_ordered(reports)), tuple(notes)


def _past(file: ReportFile, folder: Sequence[str]) -> PastReport:
    path = PurePosixPath(file.name)
    read = parse_report(file.text, path.name)
    return PastReport(
        name=posixpath.relpath(f"/{path}", "/" + "/".join(folder)) if folder else path.name,
        date=read.date,
        run_ids=read.run_ids,
        other_experiments=read.other_experiments,
        refers_to=_previous(file.text),
        analysis=read.analysis,
    )


def _ordered(reports: Sequence[PastReport]) -> list[PastReport]:
    """Sort reports; of two from one day, the newer one refers to the other's run as a previous one."""

    def rank(report: PastReport) -> tuple[str, int, str]:
        same_day = (other for other in reports if other.date == report.date)
        older = sum(any(report.follows(run_id) for run_id in other.run_ids) for other in same_day)
        return (report.date or "", older, report.name)

    return sorted(reports, key=rank, reverse=True)


def _previous(text: str) -> tuple[str, ...]:
    words = r"\b(?:previous|prior|earlier|last)\s+(?:run|report|analysis)\w*\W{1,4}`?([A-Za-z0-9]{6,64})\b"
    said = re.findall(words, text[:200_000], re.IGNORECASE)
    own = re.search(r"^\| Earlier reports \|(.*)\|$", text, re.MULTILINE)
    linked = re.findall(r"\]\((?:[^()\s]*/)?([A-Za-z0-9._-]+)_\d{4}-\d\d-\d\d", own[1]) if own else []
    return tuple(dict.fromkeys([*said, *linked]))


def _names(word: str, run_id: str) -> bool:
    """Return True if a word is a run's id or a distinctive prefix of it."""
    return word == run_id or (len(word) >= SHORTEST_PREFIX and run_id.startswith(word))


class ReportHistory(Frozen):
    """The earlier reports that a run can be compared with."""

    reports: tuple[PastReport, ...] = ()
    """Newest first."""
    precedents: Mapping[str, tuple[Precedent, ...]] = {}
    """By eval path, newest first; includes evals that failed earlier but not in this run."""
    folder: str | None = None
    """The folder of the run's report, relative to the reports folder; the names of `reports` are relative to it."""
    date: str | None = None
    """ISO date of the run's own report, if it exists."""
    notes: tuple[str, ...] = ()
    """Notes on files that could not be read."""


def load_history(files: Sequence[ReportFile], run: Run, folder: str | None = None) -> ReportHistory:
    """Collect what earlier reports say, without the run's own report and later ones.

    Args:
        files: Reports on the run's model.
        folder: The folder of the run's report; None for the model's default folder.
    """
    folder = "/".join(model_folder(run.provider, run.model)) if folder is None else folder
    reports, notes = past_reports(files, PurePosixPath(folder).parts)
    own_date = next((report.date for report in reports if report.is_of(run.id)), None)
    earlier = tuple(
        report
        for report in reports
        if not report.is_of(run.id) and not _later(report, run.id, own_date) and comparable(report, run.experiment)
    )
    return ReportHistory(
        reports=earlier, precedents=_precedents(earlier, run), folder=folder, date=own_date, notes=notes
    )


def _later(report: PastReport, run_id: str, own_date: str | None) -> bool:
    return report.follows(run_id) or bool(own_date and report.date and report.date > own_date)


def comparable(report: PastReport, experiment: str) -> bool:
    """Return True if the report lists failures of the experiment.

    A report on several experiments lists only those of the first.
    """
    other = any(same_experiment(name, experiment) for name in report.other_experiments)
    said = report.analysis.run.experiment
    return same_experiment(said, experiment) and (said is not None or not other)


def _precedents(reports: Sequence[PastReport], run: Run) -> dict[str, tuple[Precedent, ...]]:
    paths = EvalPaths(run, (finding.eval for report in reports for finding in report.analysis.findings))
    found: dict[str, list[Precedent]] = {}
    for report in reports:
        for finding in report.analysis.findings:
            for path in paths.of(finding.eval):
                found.setdefault(path, []).append(_precedent(report, finding, path))
    return {path: tuple(told) for path, told in found.items()}


def _precedent(report: PastReport, finding: FindingSummary, path: str) -> Precedent:
    return Precedent(
        report=report.name,
        date=report.date,
        eval=path,
        step=finding.step,
        classification=finding.classification,
        by_person=finding.by_person,
        cause=finding.cause,
        error=finding.error,
        reasoning=finding.reasoning,
        action=report.action(finding),
        note=finding.reviewer.note if finding.reviewer else None,
    )


class EvalPaths:
    """Maps eval names in earlier reports to evals of a run."""

    def __init__(self, run: Run, told: Iterable[str]) -> None:
        self.here = dict.fromkeys([*(eval.path for eval in run.failures), *(run.evals or ())])
        self.known: dict[str, set[str]] = {}
        """Every path that has a bare name, here or in an earlier report."""
        for path in (*self.here, *told):
            if "/" in path:
                self.known.setdefault(bare_name(_untried(path)), set()).add(_untried(path))
        self.trials: dict[str, list[str]] = {}
        for path in self.here:
            self.trials.setdefault(_untried(path), []).append(path)

    def of(self, name: str) -> tuple[str, ...]:
        """Return the matching paths of this run, several if it has trials; the name itself if no eval matches.

        A bare name used in several categories matches none of them.
        """
        if name in self.here:
            return (name,)
        return tuple(path for whole in self._whole(_untried(name)) for path in self._here(whole, name))

    def _whole(self, name: str) -> Iterator[str]:
        known = self.known.get(bare_name(name), set())
        if name in self.trials or not known:
            yield name
        elif "/" not in name:
            yield from known if len(known) == 1 else ()
        else:
            nested = [path for path in self.trials if path.endswith("/" + name) or name.endswith("/" + path)]
            yield nested[0] if len(nested) == 1 else name

    def _here(self, whole: str, name: str) -> Sequence[str]:
        """Return the trial with the same number, or all trials if the earlier report does not number them."""
        trials = self.trials.get(whole, [])
        _, numbered, number = name.partition("#")
        if not trials:
            return [f"{whole}#{number}" if numbered else whole]
        same = [path for path in trials if path == f"{whole}#{number}"]
        return same or (trials if not numbered or whole in trials else [])


def _untried(path: str) -> str:
    """Return a path without its trial."""
    name, numbered, number = path.rpartition("#")
    return name if numbered and number.isdecimal() else path

"""The earlier reports of a model in their order."""

import posixpath
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from evalscribe.errors import DataError
from evalscribe.ids import Frozen
from evalscribe.model.analysis import Analysis, FindingSummary
from evalscribe.model.repository import ReportFile
from evalscribe.recall.reading import reading

SHORTEST_PREFIX = 6
"""People shorten run ids, in file names too: `jn7922_2026-02-06.md`."""


class PastReport(Frozen):
    """A report of another run, as read."""

    name: str
    """File name; with a path to it where it stands in another folder than the run's report will."""
    date: str | None = None
    """ISO date."""
    run_ids: tuple[str, ...] = ()
    other_experiments: tuple[str, ...] = ()
    refers_to: tuple[str, ...] = ()
    """What it calls its previous run or report: ids, mostly shortened."""
    analysis: Analysis

    @property
    def run(self) -> str:
        """What tells its run from others: two files may be about one run."""
        return next(iter(self.run_ids), self.name)

    def is_of(self, run_id: str) -> bool:
        """Whether it is the report of this run: by its own word, else by its file name."""
        said = self.run_ids or (PurePosixPath(self.name).stem.partition("_")[0],)
        return any(_names(word, run_id) for word in said)

    def follows(self, run_id: str) -> bool:
        """Whether it calls this run a previous one."""
        return any(_names(word, run_id) for word in self.refers_to)

    def action(self, finding: FindingSummary) -> str | None:
        """What was done about one of its findings, in one line."""
        told = (action.text for action in self.analysis.actions_taken if finding.eval in action.evals)
        text = next(told, None)
        return " ".join(text.split()).rstrip(".") if text else None


def past_reports(
    files: Sequence[ReportFile], folder: Sequence[str] = ()
) -> tuple[tuple[PastReport, ...], tuple[str, ...]]:
    """The reports that can be read, newest first and those without a date last, and a note on each other file.

    `folder`: the run's own below `reports/`, from which a report under another spelling of the model is linked.
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
    read = reading(file.text, path.name)
    return PastReport(
        name=posixpath.relpath(f"/{path}", "/" + "/".join(folder)) if folder else path.name,
        date=read.date,
        run_ids=read.run_ids,
        other_experiments=read.other_experiments,
        refers_to=_previous(file.text),
        analysis=read.analysis,
    )


def _ordered(reports: Sequence[PastReport]) -> list[PastReport]:
    """Of two reports of one day the newer is the one that calls the other's run a previous one."""

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
    """Whether a word is a run's id or a beginning of it that is no ordinary word."""
    return word == run_id or (len(word) >= SHORTEST_PREFIX and run_id.startswith(word))

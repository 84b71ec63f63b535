"""What was done after earlier reports of any model, and what a run says of it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from evalscribe.across import Told
from evalscribe.ids import model_folder, same_model
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import Finding, FollowUp, FollowUpOutcome
from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Run
from evalscribe.recall.history import EvalPaths, History, comparable
from evalscribe.recall.outcome import Now, few_open, outcome, told, undated
from evalscribe.recall.past import PastReport, past_reports

MOST = 12
"""Lines of a report about what was done."""
ORDER: tuple[FollowUpOutcome, ...] = ("did not hold", "not yet seen", "held")
LONGEST = 200
"""Characters of an action in a report."""
COMMIT = re.compile(r",? commit `[0-9a-f]{7,64}`(?: on `[^`]*`)?$")
NOTHING_DONE = "\n## Actions taken\nNone."
SeenIn = Callable[[PastReport, str], FailureFingerprint | None]
"""The failure of an eval in the run of a report, where the store has it."""


def follow_ups(
    run: Run,
    date: str,
    history: History,
    others: Sequence[ReportFile],
    findings: Iterable[Finding],
    seen: Mapping[str, FailureFingerprint],
    seen_in: SeenIn,
) -> tuple[FollowUp, ...]:
    """What a run of this date says of what was done, worst first, at most twelve.

    `others`: reports of any model. `seen`: the run's failures by eval id. Of an eval only the newest report that names
    an action counts; of what this run does not show nothing is said.
    """
    reports = _newest_first([*history.reports, *_of_others(others, run, date, history)])
    paths = EvalPaths(run, (finding.eval for report in reports for finding in report.analysis.findings))
    here = _Here(run, date, findings, seen)
    settled: dict[str, str] = {}
    grouped: dict[tuple[FollowUpOutcome, str, str], list[str]] = {}
    for report in reports:
        for text, finding in done(report):
            for path in paths.of(finding.eval):
                if settled.setdefault(path, report.name) != report.name:
                    continue
                said = outcome(text, told(finding), seen_in(report, finding.eval), here.of(path))
                if said != "not yet seen" or here.shows(path):
                    grouped.setdefault((said, report.name, _shown(text, finding.eval)), []).append(path)
    found = [FollowUp(report=name, text=text, evals=evals, outcome=o) for (o, name, text), evals in grouped.items()]
    return tuple(sorted(found, key=lambda one: ORDER.index(one.outcome))[:MOST])


class _Here:
    """What the run says of each eval."""

    def __init__(
        self, run: Run, date: str, findings: Iterable[Finding], seen: Mapping[str, FailureFingerprint]
    ) -> None:
        self.run, self.date, self.seen = run, date, seen
        self.failing = {eval.path: (eval.id, finding) for finding in findings for eval in finding.evals}
        self.whole = len(run.failures) >= run.failed and few_open(run.total, run.incomplete)

    def shows(self, path: str) -> bool:
        """Whether the eval fails here after it came to the model's work."""
        sighting = self.seen.get(self.failing[path][0]) if path in self.failing else None
        return path in self.failing and (sighting is None or sighting.judged)

    def of(self, path: str) -> Now:
        if path not in self.failing:
            ran = self.whole and (self.run.evals is None or path in self.run.evals)
            return Now(self.date, None, ran=ran)
        eval_id, finding = self.failing[path]
        verdict, sighting = finding.judged, self.seen.get(eval_id)
        if verdict is None:
            return Now(self.date, Told(finding.step, None, None, None), judged=False, sighting=sighting)
        judged = not verdict.uncertain and verdict.cause_kind != "infrastructure"
        failed = Told(finding.step, verdict.classification, verdict.cause, verdict.error, verdict.cause_kind)
        return Now(self.date, failed, judged=judged, sighting=sighting)


def _of_others(files: Sequence[ReportFile], run: Run, date: str, history: History) -> Iterator[PastReport]:
    """Reports of other models and of an earlier day in which something was done; of one day nobody knows the order."""
    acted = [file for file in files if NOTHING_DONE not in file.text]
    folder = (
        PurePosixPath(history.folder).parts if history.folder is not None else model_folder(run.provider, run.model)
    )
    reports, _ = past_reports(acted, folder)
    known = {report.name for report in history.reports}
    for report in reports:
        told_run = report.analysis.run
        own = (
            not report.name.startswith("../")
            or report.name in known
            or (
                told_run.model
                and same_model(told_run.provider or run.provider, told_run.model, run.provider, run.model)
            )
        )
        if not own and report.date and report.date < date and comparable(report, run.experiment):
            yield report


def _newest_first(reports: Iterable[PastReport]) -> list[PastReport]:
    return sorted(reports, key=lambda report: report.date or "", reverse=True)


def done(report: PastReport) -> Iterator[tuple[str, FindingSummary]]:
    """Each action with each failure of the report that it was for."""
    failures = {finding.eval: finding for finding in report.analysis.findings}
    for action in report.analysis.actions_taken:
        for eval in action.evals:
            if eval in failures:
                yield " ".join(action.text.split()).rstrip("."), failures[eval]


def _shown(text: str, eval: str) -> str:
    """The action without its date, and without the commit and the evals that it may name at its end."""
    text = COMMIT.sub("", undated(text))
    start = text.rfind(" (")
    text = text[:start] if text.endswith(")") and eval in text[start:] else text
    return text if len(text) <= LONGEST else f"{_whole_spans(text[: LONGEST - 1]).rstrip()}…"


def _whole_spans(text: str) -> str:
    """Without a code span that lost its end."""
    return text[: text.rindex("`")] if text.count("`") % 2 else text

"""Decide if actions taken after earlier reports were effective."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from evalscribe.evidence.same_failure import (
    CompactFailure,
    CompleteRun,
    FailureDescription,
    OtherRuns,
    compact_failure,
    complete_runs,
    same_failure,
    same_fingerprint,
    same_version,
)
from evalscribe.failures.prepare import RECORD_VERSION, failure_record
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import model_folder, same_experiment, same_model
from evalscribe.model.analysis import AnalyzedRun, FindingSummary
from evalscribe.model.evidence import FailureFingerprint, UnreadableEvidence
from evalscribe.model.finding import NOT_THE_MODEL, Finding, FollowUp, FollowUpOutcome
from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Run
from evalscribe.reports.history import EvalPaths, PastReport, ReportHistory, comparable, past_reports

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore

DATED = re.compile(r"\W*(\d{4}-\d{2}-\d{2})\b[:,]?\s*")
OF_THE_EVAL = re.compile(
    r"(?<![\w/.-])(?:tasks?|graders?)(?![\w/-])|(?:test|grader|task)[\w-]{0,60}(?:\.[\w-]{1,30})*\.[a-z]{1,5}\b",
    re.IGNORECASE,
)
"""Matches an action that mentions changing the task, the grader or such a file. An eval's own name may contain these
words.
"""
OPEN_SHARE = 0.1
"""Share of incomplete, unnamed evals above which no eval of the run counts as passed."""


class LaterRun(NamedTuple):
    """Result of an eval in a later run."""

    date: str | None
    """ISO date of the run's report."""
    failed: FailureDescription | None
    """None if the eval is not among the failures."""
    judged: bool = True
    """True if the cause is certain and was not the provider or the network."""
    ran: bool = True
    """True if an eval that is not among the failures ran, given that few evals never completed."""
    sighting: FailureFingerprint | None = None


def action_outcome(
    text: str, then: FailureDescription, acted_on: FailureFingerprint | None, now: LaterRun
) -> FollowUpOutcome:
    """Return a run's evidence on an action.

    Did not hold: the eval fails for the same cause. Held: it ran and does not fail, or passes this step and fails at
    another, or fails at this step for another cause. Otherwise inconclusive: the run is older than the action, did not
    reach the model's work or that step, or still has the task and grader that the action says it changed.

    Args:
        text: The action.
        then: The failure that the action was for.
        acted_on: Its fingerprint.
        now: The result in the run.
    """
    if _made_after(text, now.date):
        return "not yet seen"
    if now.failed is None:
        return "held" if now.ran else "not yet seen"
    if _never_came_so_far(then, acted_on, now.failed, now.sighting) or _without_the_change(
        text, acted_on, now.sighting
    ):
        return "not yet seen"
    looks_the_same = acted_on is not None and now.sighting is not None and same_fingerprint(acted_on, now.sighting)
    if looks_the_same or (now.failed.classification is not None and same_failure(now.failed, then)):
        return "did not hold"
    passed = now.sighting is not None and then.step in now.sighting.passed
    known = now.judged and then.cause is not None and then.step == now.failed.step
    return "held" if passed or known else "not yet seen"


def combine_outcomes(outcomes: Iterable[FollowUpOutcome]) -> FollowUpOutcome:
    """Combine the outcomes of several later runs: a single "did not hold" decides."""
    said = set(outcomes)
    return "did not hold" if "did not hold" in said else "held" if "held" in said else "not yet seen"


def without_date(text: str) -> str:
    """Remove the date at the start of an action."""
    return text[match.end() :] if (match := DATED.match(text)) else text


def describe_finding(finding: FindingSummary) -> FailureDescription:
    return FailureDescription(finding.step, finding.classification, finding.cause, finding.error, finding.cause_kind)


def tells_why(finding: FindingSummary) -> bool:
    return finding.classification is not None and not finding.uncertain and finding.cause_kind != "infrastructure"


def few_open(total: int | None, incomplete: int | None) -> bool:
    """Return True if so few evals are incomplete that one not among the failures has most likely passed."""
    return not incomplete or (total is not None and incomplete <= OPEN_SHARE * total)


def ran_whole(run: AnalyzedRun, listed: int) -> bool:
    """Return True if the run is complete, by its report's figures."""
    return (run.failed is None or listed >= run.failed) and few_open(run.total, run.incomplete)


def _made_after(text: str, date: str | None) -> bool:
    made = DATED.match(text)
    return bool(made and date and made[1] > date)


def _never_came_so_far(
    then: FailureDescription,
    acted_on: FailureFingerprint | None,
    failed: FailureDescription,
    now: FailureFingerprint | None,
) -> bool:
    """Return True if the eval ended before the model's work, unlike when the action was taken."""
    never_did = acted_on is not None and not acted_on.judged
    same_end = then.kind in NOT_THE_MODEL and then.step == failed.step
    ended = not now.judged if now is not None else then.step is not None and failed.step is None
    return ended and not never_did and not same_end


def _without_the_change(text: str, acted_on: FailureFingerprint | None, now: FailureFingerprint | None) -> bool:
    known = acted_on is not None and now is not None and same_version(acted_on, now)
    return known and OF_THE_EVAL.search(text) is not None


MAX_FOLLOW_UPS = 12
"""Maximum follow-ups in a report."""
ORDER: tuple[FollowUpOutcome, ...] = ("did not hold", "not yet seen", "held")
LONGEST = 200
"""Maximum characters of an action in a report."""
COMMIT = re.compile(r",? commit `[0-9a-f]{7,64}`(?: on `[^`]*`)?$")
NOTHING_DONE = "\n## Actions taken\nNone."
FindRecord = Callable[[PastReport, str], FailureFingerprint | None]
"""Returns the fingerprint of an eval's failure in a report's run, if stored."""


def follow_ups(
    run: Run,
    date: str,
    history: ReportHistory,
    others: Sequence[ReportFile],
    findings: Iterable[Finding],
    seen: Mapping[str, FailureFingerprint],
    seen_in: FindRecord,
) -> tuple[FollowUp, ...]:
    """Evaluate earlier actions by a run of this date, worst outcome first, at most `MAX_FOLLOW_UPS`.

    Per eval, only the newest report that names an action counts; inconclusive outcomes are omitted.

    Args:
        run: The run.
        date: Date of its report.
        history: Earlier reports on the model.
        others: Reports on any model.
        findings: Findings of the run.
        seen: The run's failures by eval id.
        seen_in: Looks up the failure of an eval in an earlier run.
    """
    reports = _newest_first([*history.reports, *_of_others(others, run, date, history)])
    paths = EvalPaths(run, (finding.eval for report in reports for finding in report.analysis.findings))
    here = _Here(run, date, findings, seen)
    settled: dict[str, str] = {}
    grouped: dict[tuple[FollowUpOutcome, str, str], list[str]] = {}
    for report in reports:
        for text, finding in actions_done(report):
            for path in paths.of(finding.eval):
                if settled.setdefault(path, report.name) != report.name:
                    continue
                said = action_outcome(text, describe_finding(finding), seen_in(report, finding.eval), here.of(path))
                if said != "not yet seen" or here.shows(path):
                    grouped.setdefault((said, report.name, _shown(text, finding.eval)), []).append(path)
    found = [FollowUp(report=name, text=text, evals=evals, outcome=o) for (o, name, text), evals in grouped.items()]
    return tuple(sorted(found, key=lambda one: ORDER.index(one.outcome))[:MAX_FOLLOW_UPS])


class _Here:
    """Results of the run by eval."""

    def __init__(
        self, run: Run, date: str, findings: Iterable[Finding], seen: Mapping[str, FailureFingerprint]
    ) -> None:
        self.run, self.date, self.seen = run, date, seen
        self.failing = {eval.path: (eval.id, finding) for finding in findings for eval in finding.evals}
        self.whole = len(run.failures) >= run.failed and few_open(run.total, run.incomplete)

    def shows(self, path: str) -> bool:
        """Return True if the eval fails here after it reached the model's work."""
        sighting = self.seen.get(self.failing[path][0]) if path in self.failing else None
        return path in self.failing and (sighting is None or sighting.judged)

    def of(self, path: str) -> LaterRun:
        if path not in self.failing:
            ran = self.whole and (self.run.evals is None or path in self.run.evals)
            return LaterRun(self.date, None, ran=ran)
        eval_id, finding = self.failing[path]
        verdict, sighting = finding.judged, self.seen.get(eval_id)
        if verdict is None:
            return LaterRun(
                self.date, FailureDescription(finding.step, None, None, None), judged=False, sighting=sighting
            )
        judged = not verdict.uncertain and verdict.cause_kind != "infrastructure"
        failed = FailureDescription(
            finding.step, verdict.classification, verdict.cause, verdict.error, verdict.cause_kind
        )
        return LaterRun(self.date, failed, judged=judged, sighting=sighting)


def _of_others(files: Sequence[ReportFile], run: Run, date: str, history: ReportHistory) -> Iterator[PastReport]:
    """Yield reports with actions on other models from earlier days; the order within a day is unknown."""
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


def actions_done(report: PastReport) -> Iterator[tuple[str, FindingSummary]]:
    """Yield each action with each failure of the report that it was for."""
    failures = {finding.eval: finding for finding in report.analysis.findings}
    for action in report.analysis.actions_taken:
        for eval in action.evals:
            if eval in failures:
                yield " ".join(action.text.split()).rstrip("."), failures[eval]


def _shown(text: str, eval: str) -> str:
    """Return the action without its date, and without a commit and evals named at its end."""
    text = COMMIT.sub("", without_date(text))
    start = text.rfind(" (")
    text = text[:start] if text.endswith(")") and eval in text[start:] else text
    return text if len(text) <= LONGEST else f"{_whole_spans(text[: LONGEST - 1]).rstrip()}…"


def _whole_spans(text: str) -> str:
    """Remove a code span that lost its end."""
    return text[: text.rindex("`")] if text.count("`") % 2 else text


def stored_records(store: "AnalysisStore", run: Run) -> tuple[FailureFingerprint, ...]:
    """Return the fingerprint of each failure of a stored run, computed from stored evidence if missing or outdated."""
    known = store.sightings(run.id)
    if len(known) == len(run.failures) and all(one.method == RECORD_VERSION for one in known):
        return known
    made = tuple(
        failure_record(
            run, store.get_evidence(run.id, eval.id) or UnreadableEvidence(eval=eval, reason="not in the store")
        )
        for eval in run.failures
    )
    store.put_sightings(run.id, made)
    return made


def stored_runs(store: "AnalysisStore") -> Iterable[Run]:
    return (run for run_id in store.run_ids() if (run := store.get_run(run_id)) is not None)


def other_runs(store: "AnalysisStore", run: Run, mine: Iterable[FailureFingerprint]) -> OtherRuns:
    """Collect what the other runs of the experiment show about a run's failures, loading one run at a time."""
    wanted = {sighting.eval for sighting in mine}
    clean: list[CompleteRun] = []
    failures: dict[str, list[CompactFailure]] = defaultdict(list)
    for other in stored_runs(store):
        if other.id == run.id or not other.experiment or not same_experiment(other.experiment, run.experiment):
            continue
        clean.extend(complete_runs(other))
        for one in stored_records(store, other):
            if one.eval in wanted:
                failures[one.eval].append(compact_failure(one))
    return OtherRuns(failures, clean)


class StoredRecords:
    """Looks up the failure of an eval in a report's run; reads each run once."""

    def __init__(self, store: "AnalysisStore | None") -> None:
        self._store = store
        self._ids = store.run_ids() if store else ()
        self._runs: dict[str, dict[str, FailureFingerprint]] = {}

    def __call__(self, report: PastReport, eval: str) -> FailureFingerprint | None:
        named = eval.partition("#")[0]
        known = (run_id for run_id in self._ids if report.is_of(run_id))
        return next((one for run_id in known if (one := self._of(run_id).get(named))), None)

    def _of(self, run_id: str) -> dict[str, FailureFingerprint]:
        if run_id not in self._runs:
            run = self._store.get_run(run_id) if self._store else None
            found = stored_records(self._store, run) if self._store and run else ()
            self._runs[run_id] = {one.eval: one for one in found}
        return self._runs[run_id]


def follow_up_actions(
    store: "AnalysisStore",
    library: ReportsFolder,
    run: Run,
    date: str,
    history: ReportHistory,
    findings: Iterable[Finding],
    seen: Iterable[FailureFingerprint],
) -> tuple[FollowUp, ...]:
    """Evaluate actions taken after earlier reports of any model, by a run analysed on this date."""
    known = {one.eval_id: one for one in seen}
    others = tuple(library.all())
    return follow_ups(run, history.date or date, history, others, findings, known, StoredRecords(store))

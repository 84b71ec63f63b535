"""Decide whether actions taken after earlier reports have held."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

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
from evalscribe.ids import model_folder, same_experiment, same_model
from evalscribe.model.analysis import AnalyzedRun, FindingSummary
from evalscribe.model.evidence import FailureFingerprint, UnreadableEvidence
from evalscribe.model.finding import NOT_THE_MODEL, Finding, FollowUp, FollowUpOutcome
from evalscribe.model.protocols import Library
from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Run
from evalscribe.model.storage import Store
from evalscribe.reports.history import EvalPaths, PastReport, ReportHistory, comparable, past_reports

DATED = re.compile(r"\W*(\d{4}-\d{2}-\d{2})\b[:,]?\s*")
OF_THE_EVAL = re.compile(
    r"(?<![\w/.-])(?:tasks?|graders?)(?![\w/-])|(?:test|grader|task)[\w-]{0,60}(?:\.[\w-]{1,30})*\.[a-z]{1,5}\b",
    re.IGNORECASE,
)
"""An action that says it changed task or grader, or a file called so. An eval's own name may hold these words."""
OPEN_SHARE = 0.1
"""Of a run with more evals that never completed, and are not named, nothing can be said to have passed."""


class LaterRun(NamedTuple):
    """What a later run says of an eval."""

    date: str | None
    """ISO date of its report."""
    failed: FailureDescription | None
    """None where the eval is not among the failures."""
    judged: bool = True
    """Whether a judge or person is sure why it failed, and that was no provider or network."""
    ran: bool = True
    """Whether an eval that is not among the failures surely ran, but for the few that never completed."""
    sighting: FailureFingerprint | None = None


def action_outcome(
    text: str, then: FailureDescription, acted_on: FailureFingerprint | None, now: LaterRun
) -> FollowUpOutcome:
    """What a run says of an action: `text` is the action, `then` and `acted_on` the failure that it was for.

    Did not hold: the eval fails for the same cause. Held: it ran and does not fail, or passes this step and fails at
    another, or fails at this one for another cause, so that this one is gone. Else the run does not say: it is older
    than the action, never came to the model's work or to that step, or has the task and grader of before where the
    action says that it changed them.
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
    """What several later runs say: one in which it did not hold is enough."""
    said = set(outcomes)
    return "did not hold" if "did not hold" in said else "held" if "held" in said else "not yet seen"


def without_date(text: str) -> str:
    """An action without the date that it begins with."""
    return text[match.end() :] if (match := DATED.match(text)) else text


def describe_finding(finding: FindingSummary) -> FailureDescription:
    return FailureDescription(finding.step, finding.classification, finding.cause, finding.error, finding.cause_kind)


def tells_why(finding: FindingSummary) -> bool:
    return finding.classification is not None and not finding.uncertain and finding.cause_kind != "infrastructure"


def few_open(total: int | None, incomplete: int | None) -> bool:
    """Whether so few evals never completed that one which is not among the failures has most likely passed."""
    return not incomplete or (total is not None and incomplete <= OPEN_SHARE * total)


def ran_whole(run: AnalyzedRun, listed: int) -> bool:
    """As a report tells it."""
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
    """Whether the eval ended before the model's work, as it had not when something was done about it."""
    never_did = acted_on is not None and not acted_on.judged
    same_end = then.kind in NOT_THE_MODEL and then.step == failed.step
    ended = not now.judged if now is not None else then.step is not None and failed.step is None
    return ended and not never_did and not same_end


def _without_the_change(text: str, acted_on: FailureFingerprint | None, now: FailureFingerprint | None) -> bool:
    known = acted_on is not None and now is not None and same_version(acted_on, now)
    return known and OF_THE_EVAL.search(text) is not None


MAX_FOLLOW_UPS = 12
"""Lines of a report about what was done."""
ORDER: tuple[FollowUpOutcome, ...] = ("did not hold", "not yet seen", "held")
LONGEST = 200
"""Characters of an action in a report."""
COMMIT = re.compile(r",? commit `[0-9a-f]{7,64}`(?: on `[^`]*`)?$")
NOTHING_DONE = "\n## Actions taken\nNone."
FindRecord = Callable[[PastReport, str], FailureFingerprint | None]
"""The failure of an eval in the run of a report, where the store has it."""


def follow_ups(
    run: Run,
    date: str,
    history: ReportHistory,
    others: Sequence[ReportFile],
    findings: Iterable[Finding],
    seen: Mapping[str, FailureFingerprint],
    seen_in: FindRecord,
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


def actions_done(report: PastReport) -> Iterator[tuple[str, FindingSummary]]:
    """Each action with each failure of the report that it was for."""
    failures = {finding.eval: finding for finding in report.analysis.findings}
    for action in report.analysis.actions_taken:
        for eval in action.evals:
            if eval in failures:
                yield " ".join(action.text.split()).rstrip("."), failures[eval]


def _shown(text: str, eval: str) -> str:
    """The action without its date, and without the commit and the evals that it may name at its end."""
    text = COMMIT.sub("", without_date(text))
    start = text.rfind(" (")
    text = text[:start] if text.endswith(")") and eval in text[start:] else text
    return text if len(text) <= LONGEST else f"{_whole_spans(text[: LONGEST - 1]).rstrip()}…"


def _whole_spans(text: str) -> str:
    """Without a code span that lost its end."""
    return text[: text.rindex("`")] if text.count("`") % 2 else text


def stored_records(store: Store, run: Run) -> tuple[FailureFingerprint, ...]:
    """One for each failure of a stored run; made from the stored evidence where they are missing or outdated."""
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


def stored_runs(store: Store) -> Iterable[Run]:
    return (run for run_id in store.run_ids() if (run := store.get_run(run_id)) is not None)


def other_runs(store: Store, run: Run, mine: Iterable[FailureFingerprint]) -> OtherRuns:
    """What the other runs of its experiment say of a run's failures. They are read one by one and not kept."""
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
    """The failure of an eval in the run of a report, where the store has it; each run is read once."""

    def __init__(self, store: Store | None) -> None:
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
    store: Store,
    library: Library,
    run: Run,
    date: str,
    history: ReportHistory,
    findings: Iterable[Finding],
    seen: Iterable[FailureFingerprint],
) -> tuple[FollowUp, ...]:
    """What a run analysed on this date says of what was done after earlier reports of any model."""
    known = {one.eval_id: one for one in seen}
    others = tuple(library.all())
    return follow_ups(run, history.date or date, history, others, findings, known, StoredRecords(store))

"""Store how far an analysis is while it runs, for the page in the browser."""

import asyncio
import os
from contextlib import suppress
from datetime import UTC, datetime

from evalscribe.errors import EvalscribeError
from evalscribe.judging.verdicts import JudgedGroup, JudgeQueue
from evalscribe.model.finding import Finding, RunningAnalysis
from evalscribe.model.run import Run
from evalscribe.store.analyses import AnalysisStore

WRITE_S = 0.25
"""Seconds in which verdicts are gathered and then stored together: thousands of cached ones may come at once."""
MOST_STORED = 200
"""Maximum findings that are stored as a preview. The report will have all."""


class AnalysisProgress:
    """Stores what one analysis has judged, from the event loop of its workers. The run must be locked.

    Findings of an interrupted analysis stay until the run is analysed again. The page shows it as interrupted.
    """

    def __init__(self, store: AnalysisStore, run: Run) -> None:
        """Store that the analysis of a run begins."""
        self._store = store
        self._analysis = RunningAnalysis(
            run_id=run.id,
            provider=run.provider,
            model=run.model,
            failures=len(run.failures),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            process=os.getpid(),
        )
        self._waiting: list[Finding] = []
        self._stored = 0
        self._timer: asyncio.TimerHandle | None = None
        store.end_running(run.id)
        store.put_running(self._analysis)

    def judging(self, queue: JudgeQueue) -> None:
        """Store the judge and the number of groups."""
        self._analysis = self._analysis.model_copy(update={"judge": queue.judge.id, "groups": len(queue.groups)})
        self._store.put_running(self._analysis)

    def judged(self, event: JudgedGroup) -> None:
        """Store a verdict, soon."""
        group = event.group
        finding = Finding(group=group.id, evals=event.evals, signature=group.signature, verdict=event.verdict)
        self._analysis = self._analysis.model_copy(update={"judged": event.n})
        if self._stored + len(self._waiting) < MOST_STORED:
            self._waiting.append(finding)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_S, self._write)

    def close(self, *, done: bool) -> None:
        """End the progress. `done`: delete it, because the report is written or nothing was judged."""
        self._write()
        if done:
            with suppress(EvalscribeError):  # The report is written; the next analysis of the run deletes it.
                self._store.end_running(self._analysis.run_id)

    def _write(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        findings, self._waiting = self._waiting, []
        with suppress(EvalscribeError):  # The verdicts themselves are stored elsewhere; this is only for display.
            self._store.put_running(self._analysis, findings, self._stored + 1)
            self._stored += len(findings)

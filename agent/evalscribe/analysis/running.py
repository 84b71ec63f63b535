"""Store the progress of a running analysis, so that the page in the browser can show it."""

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
"""Seconds for which verdicts are collected before they are stored together.

Thousands of cached verdicts can arrive at once.
"""
MOST_STORED = 200
"""Maximum number of findings that are stored as a preview. The finished report has all findings."""


class AnalysisProgress:
    """Stores the verdicts that an analysis has so far. Runs in the event loop of the workers. The run must be locked.

    If the analysis is interrupted, its findings stay until the run is analysed again, and the page shows it as
    interrupted.
    """

    def __init__(self, store: AnalysisStore, run: Run) -> None:
        """Record in the store that the analysis of a run has started."""
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
        """Store a verdict, together with others, within `WRITE_S` seconds."""
        group = event.group
        finding = Finding(group=group.id, evals=event.evals, signature=group.signature, verdict=event.verdict)
        self._analysis = self._analysis.model_copy(update={"judged": event.n})
        if self._stored + len(self._waiting) < MOST_STORED:
            self._waiting.append(finding)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_S, self._write)

    def close(self, *, done: bool) -> None:
        """Stop storing progress.

        `done`: delete the stored progress, because the report was written or judging never began.
        """
        self._write()
        if done:
            with suppress(EvalscribeError):  # The report is written. The next analysis of the run deletes the progress.
                self._store.end_running(self._analysis.run_id)

    def _write(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        findings, self._waiting = self._waiting, []
        with suppress(EvalscribeError):  # Only for display: the verdicts themselves are stored elsewhere.
            self._store.put_running(self._analysis, findings, self._stored + 1)
            self._stored += len(findings)

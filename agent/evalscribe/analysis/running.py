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
"""Number of seconds during which verdicts are collected before they are stored together.

Storing each verdict alone would be slow, because thousands of cached verdicts can arrive at once.
"""
MOST_STORED = 200
"""Maximum number of findings that are stored as a preview. The finished report has all findings."""


class AnalysisProgress:
    """Stores the verdicts that a running analysis has reached so far.

    An instance must be used in the event loop of the workers, while the run is locked. If the analysis is interrupted,
    its findings stay in the store until the run is analysed again. Until then, the page in the browser shows the
    analysis as interrupted.
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
        """Store which judge is used and how many groups it has to judge."""
        self._analysis = self._analysis.model_copy(update={"judge": queue.judge.id, "groups": len(queue.groups)})
        self._store.put_running(self._analysis)

    def judged(self, event: JudgedGroup) -> None:
        """Store a verdict within `WRITE_S` seconds, together with other verdicts that arrive until then."""
        group = event.group
        finding = Finding(group=group.id, evals=event.evals, signature=group.signature, verdict=event.verdict)
        self._analysis = self._analysis.model_copy(update={"judged": event.n})
        if self._stored + len(self._waiting) < MOST_STORED:
            self._waiting.append(finding)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_S, self._write)

    def close(self, *, done: bool) -> None:
        """Stop storing progress.

        With `done`, also delete the stored progress. Callers set `done` if the analysis finished or if judging never
        began.
        """
        self._write()
        if done:
            with suppress(EvalscribeError):  # If this fails, the next analysis of the run deletes the stored progress.
                self._store.end_running(self._analysis.run_id)

    def _write(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        findings, self._waiting = self._waiting, []
        with suppress(EvalscribeError):  # This copy is only for display. The verdicts themselves are stored elsewhere.
            self._store.put_running(self._analysis, findings, self._stored + 1)
            self._stored += len(findings)

"""Get the verdict on one failure from the store, from a judge in this process, or from a remote judge."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from evalscribe.errors import DataError, EvalscribeError, UnavailableError, UsageError
from evalscribe.ids import Frozen, share_field_names
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.finding import (
    Failure,
    FailureGroup,
    Finding,
    NoVerdictCause,
    Proof,
    TrialVerdict,
    Unclassified,
    Verdict,
    undecided,
)
from evalscribe.model.protocols import Estimate, Judge, LostWork
from evalscribe.model.run import Eval, Run
from evalscribe.redaction.redact import redact

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore

CaseOf = Callable[[FailureGroup], Failure | UnreadableEvidence | Verdict]
"""Function that builds the case of a group's first failure when a worker needs it.

Cases are not cached, because evidence is large. If the verdict on a group is already certain, the function returns this
verdict in place of a case, and no judge is asked.
"""
FindOutliers = Callable[[Sequence[Finding]], Mapping[str, tuple[TrialVerdict, ...]]]
"""Function that finds outliers: trials whose label differs from the label of the other trials of the same task.

The result maps the id of each outlier's group to the verdicts on these other trials.
"""
WORKERS = 4
# A cascade takes at most 50 s for its first pass (`FIRST_PASS_S`) and 600 s for an investigation
# (`InvestigationLimits`).
TIMEOUT_S = 660.0
"""Time limit for one failure in seconds.

Judges have shorter time limits of their own, after which they report their usage. This limit only stops a judge that
hangs.
"""
REASON_LENGTH = 300


@dataclass(frozen=True)
class JudgingOptions:
    """Options for judging one failure."""

    timeout_s: float | None
    fresh: bool = False
    """Ignore stored verdicts."""


class JudgedGroup(Frozen):
    """Event of an analysis: a group was answered, with a verdict or with the reason why there is none."""

    group: FailureGroup
    evals: tuple[Eval, ...]
    verdict: Verdict | Unclassified
    n: int
    """Number of groups answered so far, including this one."""
    total: int
    cached: bool
    """True if the verdict came from the store."""

    @property
    def summary(self) -> dict[str, JsonValue]:
        """The event as plain JSON data."""
        row: dict[str, JsonValue] = {"n": self.n, "total": self.total, "evals": [eval.path for eval in self.evals]}
        if isinstance(self.verdict, Unclassified):
            return row | {"unclassified": self.verdict.reason}
        verdict = self.verdict
        return row | {"classification": verdict.classification, "cause": verdict.cause, "cached": self.cached}


class Counts(Frozen):
    """Numbers of groups by outcome."""

    total: int = 0
    judged: int = 0
    """Number of groups for which the judge was asked and gave a verdict."""
    cached: int = 0
    unclassified: int = 0
    """Number of groups for which the judge was asked but gave no verdict."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields})


_CAUSES: tuple[NoVerdictCause, ...] = ("service", "budget", "answer", "evidence")


def main_cause(causes: Iterable[NoVerdictCause]) -> NoVerdictCause:
    """Return the most frequent cause of missing verdicts."""
    counts = Counter(causes)
    return max(_CAUSES, key=lambda cause: (counts[cause], -_CAUSES.index(cause)))


def no_answer_error(cause: NoVerdictCause, message: str, fields: tuple[str, ...] = ()) -> EvalscribeError:
    """Return the error with which a command ends if the judge gave no answer at all."""
    kind = UnavailableError if cause == "service" else UsageError if cause == "budget" else DataError
    return kind(message, fields=fields)


class FailureVerdict(Frozen):
    verdict: Verdict | Unclassified
    cached: bool = False
    """True if the verdict came from the store."""
    undecided: Unclassified | None = None
    """Reason why the judge was asked but gave no verdict. None if it gave a verdict or was not asked.

    If there is a reason, `verdict` can be an earlier verdict from the store.
    """


async def classify(
    case: Failure | UnreadableEvidence, judge: Judge, store: "AnalysisStore", terms: JudgingOptions
) -> FailureVerdict:
    """Return the stored answer on a case.

    If no final answer is stored, or if `terms.fresh` is true, ask the judge and store the answer at once.

    Raises:
        EvalscribeError: If an error affects all failures. Apart from a cancellation, nothing else is raised.
    """
    try:
        return await _answer(case, judge, store, terms)
    except EvalscribeError:
        raise
    except Exception as error:
        return _no_answer(error, judge)


def _no_answer(error: Exception, judge: Judge) -> FailureVerdict:
    verdict = _error_verdict(error, judge)
    return FailureVerdict(verdict=verdict, undecided=verdict)


async def _answer(
    case: Failure | UnreadableEvidence, judge: Judge, store: "AnalysisStore", terms: JudgingOptions
) -> FailureVerdict:
    if isinstance(case, UnreadableEvidence):
        return FailureVerdict(verdict=Unclassified(reason=case.reason, judge=judge.id, final=True, cause="evidence"))
    key = judge.key(case)
    stored = store.get_verdict(key)
    if stored is not None and _is_final(stored) and not terms.fresh:
        return FailureVerdict(verdict=stored, cached=True)
    verdict = await _ask(judge, case, terms.timeout_s)
    # A failure with a stored verdict is only judged again on request. If the judge then gives no verdict, the stored
    # verdict, which may have been paid for, is kept.
    if isinstance(stored, Verdict) and not stored.provisional and not _decides(verdict):
        return FailureVerdict(verdict=stored, cached=True, undecided=undecided(verdict))
    store.put_verdict(key, verdict)
    return FailureVerdict(verdict=verdict, undecided=undecided(verdict))


def _decides(verdict: Verdict | Unclassified) -> bool:
    return isinstance(verdict, Verdict) and not verdict.provisional


async def _ask(judge: Judge, case: Failure, timeout_s: float | None) -> Verdict | Unclassified:
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await judge.judge(case)
    except EvalscribeError:
        raise
    except TimeoutError as error:
        # A judge can raise `TimeoutError` itself.
        if not limit.expired():
            return _error_verdict(error, judge)
        return Unclassified(reason=f"no verdict within {timeout_s:g} s", judge=judge.id, cause="service")
    except asyncio.CancelledError as error:
        if cancelled_from_outside():
            raise
        return _error_verdict(error, judge)
    except Exception as error:
        return _error_verdict(error, judge)


def cancelled_from_outside() -> bool:
    """Return whether another task cancelled the current task.

    If a judge raised `CancelledError` itself, the result is False.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_final(stored: Verdict | Unclassified) -> bool:
    """Return whether an answer is final. After a final answer, the same question is not asked again."""
    return stored.final if isinstance(stored, Unclassified) else not stored.provisional


def _error_verdict(error: BaseException, judge: Judge) -> Unclassified:
    message = " ".join(redact(str(error)).split())
    reason = f"the judge broke: {type(error).__name__}" + (f": {message}" if message else "")
    return Unclassified(reason=reason[:REASON_LENGTH], judge=judge.id)


def _ignore(event: JudgedGroup) -> None: ...


@dataclass
class JudgeQueue:
    """Queue of a run's groups that still need a verdict, with the findings so far.

    All workers run in the same event loop, so no locks are needed.
    """

    run: Run
    groups: tuple[FailureGroup, ...]
    """Groups of the evals in `run.failures`."""
    case_of: CaseOf
    judge: Judge
    store: "AnalysisStore"
    concurrency: int = WORKERS
    timeout_s: float | None = TIMEOUT_S
    """Time limit for one group in seconds; None for batches, because a batch can take a day."""
    fresh: bool = False
    """Ignore stored verdicts."""
    on_event: Callable[[JudgedGroup], None] = _ignore
    outliers: FindOutliers | None = None
    """Function that finds the groups to judge again, after all groups were judged once.

    None to judge no group again.
    """
    error: Exception | None = field(default=None, init=False)
    """Error that affects all failures and stopped the workers. None if there was no such error."""
    usage: Usage = field(default=Usage(), init=False)
    """Usage of the new verdicts. Stored verdicts cost nothing."""
    decided: int = field(default=0, init=False)
    """Number of groups for which the judge was asked and gave a verdict."""
    undecided: list[Unclassified] = field(default_factory=list, init=False)
    """Reasons for missing verdicts, one for each group for which the judge was asked but gave no verdict."""
    _waiting: Iterator[FailureGroup] = field(init=False)
    _evals: dict[str, Eval] = field(init=False)
    _running: set[asyncio.Task[FailureVerdict]] = field(default_factory=set, init=False)
    _findings: dict[str, Finding] = field(default_factory=dict, init=False)
    _outliers: Iterator[tuple[FailureGroup, tuple[TrialVerdict, ...]]] = field(init=False)
    _all_answered: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when every group is answered, or when an error stopped the workers."""

    def __post_init__(self) -> None:
        self._waiting = iter(self.groups)
        self._outliers = iter(())
        self._evals = {eval.id: eval for eval in self.run.failures}
        self._finish_first_round()

    @property
    def workers(self) -> int:
        """Maximum number of workers that can be busy at the same time."""
        return min(max(1, self.concurrency), len(self.groups))

    async def work(self, stream: Callable[[JudgedGroup], None] = _ignore) -> Counts:
        """Work as one of the workers: answer groups until none is left.

        Args:
            stream: Function that receives each answer of this worker, after `on_event`.

        Returns:
            Numbers of groups that this worker answered, by outcome. Groups that are judged again do not count a second
            time. An error that affects all failures is stored in `error` and not raised, because LangGraph loses the
            answers of the other workers if a node raises an error.
        """
        counts = Counts()
        while (group := await self._take()) is not None:
            counts += await self._answer(group, stream)
        if self.outliers is not None:
            # Outliers are only known when the groups of all workers are answered. If a signal cancels one worker, all
            # workers end.
            await self._all_answered.wait()
            for outlier, other_verdicts in self._outliers:
                if self.error is None:
                    await self._judge_again(outlier, other_verdicts)
        return counts

    def findings(self) -> tuple[Finding, ...]:
        """Return one finding for each group, in order, without history. Raises the error that stopped the workers."""
        if self.error is not None:
            raise self.error
        return tuple(self._findings[group.id] for group in self.groups)

    async def _take(self) -> FailureGroup | None:
        """Return the next group; None if none is left or the workers were stopped."""
        await asyncio.sleep(0)  # gives signals and other workers a turn between two stored answers
        return None if self.error else next(self._waiting, None)

    async def _answer(self, group: FailureGroup, stream: Callable[[JudgedGroup], None]) -> Counts:
        """Answer one group.

        An error that affects all failures stops all workers. Cancellations that result from this stop are
        not raised. Any other cancellation is raised.
        """
        task = asyncio.ensure_future(self._classify(group))
        self._running.add(task)
        try:
            return self._record(group, await task, stream)
        except asyncio.CancelledError:
            if self.error is None or cancelled_from_outside():
                raise
            return Counts()
        except Exception as error:
            self._stop(error)
            return Counts()
        finally:
            self._running.discard(task)
            self._finish_first_round()

    def _finish_first_round(self) -> None:
        """Find the outliers if all groups are answered. Before that, do nothing."""
        if self._all_answered.is_set() or (self.error is None and len(self._findings) < len(self.groups)):
            return
        if self.outliers is not None and self.error is None:
            outliers = self.outliers(self.findings())
            self._outliers = iter([(group, outliers[group.id]) for group in self.groups if group.id in outliers])
        self._all_answered.set()

    async def _judge_again(self, group: FailureGroup, other_verdicts: tuple[TrialVerdict, ...]) -> None:
        """Judge an outlier again, with the verdicts on the other trials. A new verdict replaces the first verdict.

        The new verdict is stored under its own key, so it is paid for only once.
        """
        task = asyncio.ensure_future(self._classify(group, other_verdicts))
        self._running.add(task)
        try:
            answer = await task
        except asyncio.CancelledError:
            if self.error is None or cancelled_from_outside():
                raise
            return
        except Exception as error:
            self._stop(error)
            return
        finally:
            self._running.discard(task)
        if not answer.cached:
            self.usage += answer.verdict.usage
        if isinstance(answer.verdict, Verdict) and undecided(answer.verdict) is None:
            first_finding = self._findings[group.id]
            self._findings[group.id] = first_finding.model_copy(update={"verdict": share_field_names(answer.verdict)})

    def _stop(self, error: Exception) -> None:
        # Workers that are stopped can fail with further errors, so the first error is kept.
        self.error = self.error or error
        for running in self._running:
            running.cancel()

    async def _classify(self, group: FailureGroup, other_verdicts: tuple[TrialVerdict, ...] = ()) -> FailureVerdict:
        try:
            case = self.case_of(group)
        except EvalscribeError:
            raise
        except Exception as error:  # for example because of hostile evidence
            return _no_answer(error, self.judge)
        if isinstance(case, Verdict):
            return FailureVerdict(verdict=case, cached=True)
        if other_verdicts and isinstance(case, Failure):
            case = case.model_copy(update={"others": other_verdicts})
        return await classify(case, self.judge, self.store, JudgingOptions(timeout_s=self.timeout_s, fresh=self.fresh))

    def _record(self, group: FailureGroup, answer: FailureVerdict, stream: Callable[[JudgedGroup], None]) -> Counts:
        verdict, cached = answer.verdict, answer.cached
        evals = tuple(self._evals[eval_id] for eval_id in group.eval_ids)
        finding = Finding(group=group.id, evals=evals, signature=group.signature, verdict=share_field_names(verdict))
        # Pydantic gives each object its own set of field names, which took 12 of the 25 kB per failure. Equal sets are
        # shared.
        for citation in finding.judged.citations if finding.judged else ():
            share_field_names(citation)
        self._findings[group.id] = share_field_names(finding)
        n, total = len(self._findings), len(self.groups)
        event = JudgedGroup(group=group, evals=evals, verdict=verdict, n=n, total=total, cached=cached)
        if answer.undecided is not None:
            self.undecided.append(answer.undecided)
        elif not cached and isinstance(verdict, Verdict):
            self.decided += 1
        if not cached:
            self.usage += verdict.usage
        self.on_event(event)
        stream(event)
        if cached:
            return Counts(total=1, cached=1)
        classified = isinstance(verdict, Verdict)
        return Counts(total=1, judged=int(classified), unclassified=int(not classified))


JudgeRemotely = Callable[[Failure], Awaitable[Verdict | Unclassified | LostWork]]


class RemoteJudge:
    """A `Judge` that computes keys and estimates locally, and calls `decide` to have a worker judge a case."""

    def __init__(self, local: Judge, decide: JudgeRemotely) -> None:
        self.id = local.id
        self._local = local
        self._decide = decide

    def key(self, case: Failure) -> str:
        return self._local.key(case)

    def estimate(self, case: Failure) -> Estimate:
        return self._local.estimate(case)

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        answer = await self._decide(case)
        if isinstance(answer, LostWork):
            return Unclassified(reason=answer.reason, judge=self.id, cause="service")
        return answer


class AnalysisWatcher(Protocol):
    """Receives the progress of an analysis in order to display it."""

    def started(self, run: Run) -> None: ...

    def imported(self, evals: int, progress: float) -> None:
        """Report the number of evals that were imported from a file so far. `progress` is from 0 to 1."""

    def fetched(self, done: int, total: int) -> None:
        """Report that the evidence of `done` of `total` failures was read."""

    def replayed(self, proof: Proof, done: int, total: int) -> None:
        """Report the result of replaying one failure, and the number of failures replayed so far."""

    def judged(self, event: JudgedGroup) -> None:
        """Report that a group was answered."""

    def say(self, line: str, fields: Sequence[str] = ()) -> None:
        """Show one line to the user. `fields`: names of the options that are in backticks in the line."""

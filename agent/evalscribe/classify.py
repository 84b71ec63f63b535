"""Classify: one failure, one answer. The one place where what goes wrong with one failure becomes data."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from evalscribe.errors import EvalscribeError
from evalscribe.evidence import Unreadable
from evalscribe.finding import Case, Group, Unclassified, Verdict, undecided
from evalscribe.ids import Frozen
from evalscribe.ports import Judge, Store
from evalscribe.redaction import redact

CaseOf = Callable[[Group], Case | Unreadable]
"""The case of the member that stands for a group, made when it is needed and not kept."""
REASON_LENGTH = 300


@dataclass(frozen=True)
class Terms:
    """Under what conditions the failures of one run are judged."""

    timeout_s: float | None
    fresh: bool = False
    """Ask again, whatever the store knows."""


class Answer(Frozen):
    verdict: Verdict | Unclassified
    cached: bool = False
    """Whether the verdict came from the store."""
    undecided: Unclassified | None = None
    """Why the judge did not decide this time; `verdict` may still be one from the store."""


async def classify(group: Group, case_of: CaseOf, judge: Judge, store: Store, terms: Terms) -> Answer:
    """The stored answer to the same question, else the judge's, stored at once.

    Raises `EvalscribeError` for what concerns all failures; nothing else but a cancellation.
    """
    try:
        return await _answer(case_of(group), judge, store, terms)
    except EvalscribeError:
        raise
    except Exception as error:
        broken = _broken(error, judge)
        return Answer(verdict=broken, undecided=broken)


async def _answer(case: Case | Unreadable, judge: Judge, store: Store, terms: Terms) -> Answer:
    if isinstance(case, Unreadable):
        return Answer(verdict=Unclassified(reason=case.reason, judge=judge.id, final=True, cause="evidence"))
    key = judge.key(case)
    known = store.get_verdict(key)
    if known is not None and _settled(known) and not terms.fresh:
        return Answer(verdict=known, cached=True)
    verdict = await _ask(judge, case, terms.timeout_s)
    if isinstance(known, Verdict) and not known.provisional and not _decides(verdict):
        return Answer(verdict=known, cached=True, undecided=undecided(verdict))
    store.put_verdict(key, verdict)
    return Answer(verdict=verdict, undecided=undecided(verdict))


def _decides(verdict: Verdict | Unclassified) -> bool:
    return isinstance(verdict, Verdict) and not verdict.provisional


async def _ask(judge: Judge, case: Case, timeout_s: float | None) -> Verdict | Unclassified:
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await judge.judge(case)
    except EvalscribeError:
        raise
    except TimeoutError as error:
        if not limit.expired():
            return _broken(error, judge)
        return Unclassified(reason=f"no verdict within {timeout_s:g} s", judge=judge.id, cause="service")
    except asyncio.CancelledError as error:
        if cancelled_from_outside():
            raise
        return _broken(error, judge)
    except Exception as error:
        return _broken(error, judge)


def cancelled_from_outside() -> bool:
    """Whether somebody cancelled the current task; else something inside it says that it was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _settled(known: Verdict | Unclassified) -> bool:
    """Whether asking the same question again is pointless."""
    return known.final if isinstance(known, Unclassified) else not known.provisional


def _broken(error: BaseException, judge: Judge) -> Unclassified:
    said = " ".join(redact(str(error)).split())
    reason = f"the judge broke: {type(error).__name__}" + (f": {said}" if said else "")
    return Unclassified(reason=reason[:REASON_LENGTH], judge=judge.id)

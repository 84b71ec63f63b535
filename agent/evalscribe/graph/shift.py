"""What the lanes of one start share: whose turn it is, what came out, and why they had to stop."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

from evalscribe.classify import Answer, Terms, cancelled_from_outside, classify
from evalscribe.finding import Finding, Group, Unclassified, Verdict
from evalscribe.graph.deps import Counts, Deps, Judged, Outcome
from evalscribe.run import Eval


@dataclass
class Shift:
    """One start over the groups of one run. Lanes take turns on one event loop, so nothing here needs a lock."""

    deps: Deps
    id: str = field(default_factory=lambda: uuid4().hex)
    error: Exception | None = None
    """What concerns all failures and stopped the lanes."""
    _waiting: Iterator[Group] = field(init=False)
    _evals: dict[str, Eval] = field(init=False)
    _under_way: set[asyncio.Task[Answer]] = field(default_factory=set)
    _findings: dict[str, Finding] = field(default_factory=dict)
    _decided: int = 0
    _undecided: list[Unclassified] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._waiting = iter(self.deps.groups)
        self._evals = {eval.id: eval for eval in self.deps.run.failures}

    async def take(self) -> Group | None:
        """The next group, None when there is no more or the lanes were stopped."""
        await asyncio.sleep(0)  # a lane that only meets stored answers would keep signals and the other lanes waiting
        return None if self.error else next(self._waiting, None)

    async def answer(self, group: Group, hear: Callable[[Judged], None]) -> Counts:
        """Answer one group. Never raises but for a cancellation from outside: what concerns all stops the lanes."""
        try:
            answer = await self._ask(group)
            return self._keep(group, answer, hear)
        except asyncio.CancelledError:
            if self.error is None or cancelled_from_outside():
                raise
            return Counts()
        except Exception as error:
            self._stop(error)
            return Counts()

    def outcome(self, counts: Counts) -> Outcome:
        """What came out. Raises what stopped the lanes."""
        if self.error is not None:
            raise self.error
        return Outcome(
            findings=tuple(self._findings[group.id] for group in self.deps.groups),
            counts=counts,
            decided=self._decided,
            undecided=tuple(self._undecided),
        )

    async def _ask(self, group: Group) -> Answer:
        deps = self.deps
        terms = Terms(timeout_s=deps.timeout_s, fresh=deps.fresh)
        task = asyncio.ensure_future(classify(group, deps.case_of, deps.judge, deps.store, terms))
        self._under_way.add(task)
        try:
            return await task
        finally:
            self._under_way.discard(task)

    def _keep(self, group: Group, answer: Answer, hear: Callable[[Judged], None]) -> Counts:
        verdict, cached = answer.verdict, answer.cached
        evals = tuple(self._evals[eval_id] for eval_id in group.eval_ids)
        self._findings[group.id] = Finding(group=group.id, evals=evals, signature=group.signature, verdict=verdict)
        n, total = len(self._findings), len(self.deps.groups)
        event = Judged(group=group, evals=evals, verdict=verdict, n=n, total=total, cached=cached)
        if answer.undecided is not None:
            self._undecided.append(answer.undecided)
        elif not cached and isinstance(verdict, Verdict):
            self._decided += 1
        self.deps.on_event(event)
        hear(event)
        if cached:
            return Counts(total=1, cached=1)
        classified = isinstance(verdict, Verdict)
        return Counts(total=1, judged=int(classified), unclassified=int(not classified))

    def _stop(self, error: Exception) -> None:
        self.error = self.error or error
        for task in self._under_way:
            task.cancel()

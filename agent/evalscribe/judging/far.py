"""A judge whose cases are decided elsewhere."""

from collections.abc import Awaitable, Callable

from evalscribe.finding import Case, Unclassified, Verdict
from evalscribe.ports import Estimate, Judge, Lost

Decide = Callable[[Case], Awaitable[Verdict | Unclassified | Lost]]


class FarJudge:
    """A `ports.Judge`: the near one says what would be asked, another one like it is asked where `decide` leads."""

    def __init__(self, near: Judge, decide: Decide) -> None:
        self.id = near.id
        self._near = near
        self._decide = decide

    def key(self, case: Case) -> str:
        return self._near.key(case)

    def estimate(self, case: Case) -> Estimate:
        return self._near.estimate(case)

    async def judge(self, case: Case) -> Verdict | Unclassified:
        answer = await self._decide(case)
        if isinstance(answer, Lost):
            return Unclassified(reason=answer.reason, judge=self.id, cause="service")
        return answer

"""A judge whose cases are decided elsewhere."""

from collections.abc import Awaitable, Callable

from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.model.protocols import Estimate, Judge, LostWork

Decide = Callable[[Failure], Awaitable[Verdict | Unclassified | LostWork]]


class FarJudge:
    """A `Judge`: the near one says what would be asked, another one like it is asked where `decide` leads."""

    def __init__(self, near: Judge, decide: Decide) -> None:
        self.id = near.id
        self._near = near
        self._decide = decide

    def key(self, case: Failure) -> str:
        return self._near.key(case)

    def estimate(self, case: Failure) -> Estimate:
        return self._near.estimate(case)

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        answer = await self._decide(case)
        if isinstance(answer, LostWork):
            return Unclassified(reason=answer.reason, judge=self.id, cause="service")
        return answer

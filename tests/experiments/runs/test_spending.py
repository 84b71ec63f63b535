"""An exhausted budget ends a run; any other failed call fails only its trial."""

import pytest

from evalscribe.errors import UnavailableError
from evalscribe.experiments.trials import BudgetedModels
from evalscribe.llm.budget import Budget
from evalscribe.model.chat import BudgetExceeded, CallFailed, Reply, Request, Usage
from evalscribe.model.protocols import Model, OnText

REQUEST = Request(system="", messages=())


class Failing:
    """`Models` fake with one model whose calls raise the given error."""

    id = "example/model"
    context_tokens = 1000

    def __init__(self, error: Exception) -> None:
        self._error = error

    def open(self, _name: str, _stage: str) -> Model:
        return self

    def spent(self) -> dict[str, Usage]:
        return {}

    async def complete(self, _request: Request, _on_text: OnText | None = None) -> Reply:
        raise self._error

    def forget(self, request: Request) -> None: ...

    async def close(self) -> None: ...


async def test_exhausted_budget_ends_the_run() -> None:
    model = BudgetedModels(Failing(BudgetExceeded("the budget of $1 has no room for another call"))).open(
        "example/model", "target"
    )
    with pytest.raises(UnavailableError, match="add `budget` or `max_tokens` to `experiments runs resume`"):
        await model.complete(REQUEST)


async def test_failed_call_fails_only_its_trial() -> None:
    model = BudgetedModels(Failing(CallFailed("refused"))).open("example/model", "target")
    with pytest.raises(CallFailed, match="refused"):
        await model.complete(REQUEST)


async def test_budget_exceeded_error_is_free() -> None:
    with pytest.raises(BudgetExceeded) as raised:
        async with Budget(usd=1.0).hold(Usage(cost_usd=2.0), "target"):
            pass
    assert raised.value.free

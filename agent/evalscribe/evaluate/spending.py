"""Models of a run: when its budget has no room for a call, that concerns all tries."""

from collections.abc import Mapping

from evalscribe.errors import UnavailableError
from evalscribe.model.chat import BudgetExceeded, Reply, Request, Usage
from evalscribe.model.protocols import Model, Models, OnText


class RunModels:
    """`Models` whose calls raise `UnavailableError` where there is no money left for them."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def open(self, name: str, stage: str) -> Model:
        return _RunModel(self._models.open(name, stage))

    def spent(self) -> Mapping[str, Usage]:
        return self._models.spent()

    async def close(self) -> None:
        await self._models.close()


class _RunModel:
    def __init__(self, model: Model) -> None:
        self.id = model.id
        self.context_tokens = model.context_tokens
        self._model = model

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        try:
            return await self._model.complete(request, on_text)
        except BudgetExceeded as error:
            raise UnavailableError(
                f"{error.reason}: give --budget or --max-tokens to `experiments runs resume`"
            ) from error

    def forget(self, request: Request) -> None:
        self._model.forget(request)

    async def close(self) -> None:
        await self._model.close()

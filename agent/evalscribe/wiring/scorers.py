"""Scorers as settings and definitions have them: made under a name, and opened for a run."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.experiment import ExperimentVersion
from evalscribe.judging.scorers import runner
from evalscribe.judging.scorers.custom import CustomScorer
from evalscribe.judging.scorers.order import in_order
from evalscribe.ports import Models, ScorerRunner
from evalscribe.prompts import Prompts
from evalscribe.scorer_spec import CUSTOM, Binding, ScorerSpec
from evalscribe.settings import Settings
from evalscribe.wiring.stores import shelf

if TYPE_CHECKING:
    from evalscribe.app.judging.judges import Made, Maker
    from evalscribe.targets.host import Described, Host

PYTHON = "python:"


async def function_of(
    name: str | None, function: str, folder: Path, config: Mapping[str, JsonValue]
) -> tuple[ScorerSpec, str]:
    """The spec of `python:package.module:function` in a folder, and what it says of itself.

    It is imported once. Raises `UsageError` where it cannot be used.
    """
    from evalscribe.app import scorers as app

    address = function.removeprefix(PYTHON)
    if address == function or address.count(":") != 1:
        raise UsageError(f"--function {function}: write python:package.module:function")
    if name is not None:
        app.check_name(name)
    described = await _described(folder, address)
    spec = app.custom_spec(name or described.name or address.rpartition(":")[2], described, config)
    return spec, described.description


@asynccontextmanager
async def open_scorers(
    found: Settings, version: ExperimentVersion, folders: Mapping[str, str], models: Models, concurrency: int
) -> AsyncIterator[Sequence[ScorerRunner]]:
    """The scorers of a version, each after what it depends on.

    `folders`: by scorer id, where functions are imported from. Raises `UsageError` where the source of one is another
    than when it was made, `AccessError` for a model without a key: before the first item.
    """
    async with AsyncExitStack() as opened:
        bindings = in_order(version.bindings)
        makers = _Makers(found, models, opened, version.config.timeout_s, concurrency)
        await makers.check([one for one in bindings if one.spec.scorer == CUSTOM], folders)
        yield tuple(makers.runner(binding, folders) for binding in bindings)


class _Makers:
    """Makes runners; what they share is opened once, and closed with the rest."""

    def __init__(
        self, found: Settings, models: Models, opened: AsyncExitStack, timeout_s: float, concurrency: int
    ) -> None:
        self._found = found
        self._models = models
        self._opened = opened
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._hosts: dict[str, Host] = {}
        self._maker: tuple[Maker, Made] | None = None

    async def check(self, bindings: Sequence[Binding], folders: Mapping[str, str]) -> None:
        """That every function is there, and as it was."""
        checks = [_check(binding, _folder(binding, folders)) for binding in bindings]
        failed = [one for one in await asyncio.gather(*checks, return_exceptions=True) if one is not None]
        if failed:
            raise failed[0]

    def runner(self, binding: Binding, folders: Mapping[str, str]) -> ScorerRunner:
        spec = binding.spec
        if spec.scorer == CUSTOM:
            return CustomScorer(spec, self._host(_folder(binding, folders)), self._timeout_s)
        if spec.rubric is None:
            return runner(spec)
        from evalscribe.judging.scorers.model.runner import ModelScorer

        maker, made = self._judges()
        return ModelScorer(spec, maker.by_model(spec.rubric, spec.model), made.knew)

    def _host(self, folder: str) -> "Host":
        from evalscribe.targets.host import Host

        if folder not in self._hosts:
            self._hosts[folder] = Host(Path(folder), self._concurrency)
            self._opened.push_async_callback(self._hosts[folder].close)
        return self._hosts[folder]

    def _judges(self) -> "tuple[Maker, Made]":
        from evalscribe.app.judging.judges import Made, Maker

        if self._maker is None:
            made = Made(self._opened.enter_context(closing(shelf(self._found))))
            self._maker = Maker(self._models, Prompts(self._found.root), made), made
        return self._maker


def _folder(binding: Binding, folders: Mapping[str, str]) -> str:
    folder = folders.get(binding.scorer_id or "")
    if folder is None:
        raise UsageError(
            f"scorer {binding.spec.name} is not there any more: make it again with evalscribe scorers create"
        )
    return folder


async def _check(binding: Binding, folder: str) -> None:
    spec = binding.spec
    described = await _described(Path(folder), spec.address or "")
    if described.code == spec.code:
        return
    raise UsageError(
        f"scorer {spec.name}: the source in {folder} has changed since its version {spec.id} was made.\n"
        f"Make its next version, evalscribe scorers create --name {spec.name} --function {PYTHON}{spec.address} "
        f"--folder {folder}, and bind it and the others again: evalscribe experiments update … --scorer-id {spec.name}"
    )


async def _described(folder: Path, address: str) -> "Described":
    from evalscribe.targets.host import Host

    host = Host(folder, 1)
    try:
        return await host.check(address, "scorer")
    finally:
        await host.close()

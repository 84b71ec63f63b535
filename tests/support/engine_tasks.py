"""Work items for tests of all engines. Worker processes can import this module."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from evalscribe.errors import DataError, RubricError
from evalscribe.model.protocols import AskParent, Worker


@dataclass(frozen=True)
class Doubler:
    """Doubles numbers. Certain numbers cause other behaviour, such as an error."""

    folder: Path

    @asynccontextmanager
    async def __call__(self, ask: AskParent) -> AsyncIterator[Worker[int, int]]:
        async def double(number: int) -> int:
            self.note("began", number)
            if number == 13:
                os.kill(os.getpid(), signal.SIGKILL)
            if number == 26 and self.times("began", 26) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if number == 40:
                raise DataError("forty is no good")
            if number == 41:
                raise RubricError("output_schema.properties", "is missing", "rubric.yaml:3")
            if number == 42:
                raise _Odd("odd", 1)
            if number == 100:
                answer = await ask(number)
                assert isinstance(answer, int)
                return answer
            if number == 200:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    self.note("cancelled", number)
                    raise
            await asyncio.sleep(0.02)
            return 2 * number

        yield double
        self.note("closed", os.getpid())

    def note(self, what: str, number: int) -> None:
        with (self.folder / f"{what}-{number}").open("a") as file:
            file.write("x")

    def times(self, what: str, number: int) -> int:
        path = self.folder / f"{what}-{number}"
        return len(path.read_text()) if path.exists() else 0


class _Odd(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name} {number}")

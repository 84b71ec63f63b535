"""A use case runs until it is done or a signal cancels it."""

import asyncio
import os
import signal
import threading

import pytest

from evalscribe.cli.interrupts import run_until_signal
from evalscribe.errors import AccessError, InterruptError, TerminatedError


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_done() -> None:
    assert run_until_signal(answer()) == 42


def test_its_own_error_stays() -> None:
    async def fail() -> None:
        raise AccessError("no key")

    with pytest.raises(AccessError, match="no key"):
        run_until_signal(fail())


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, InterruptError), (signal.SIGTERM, TerminatedError)])
def test_a_signal_cancels_it_and_lets_it_wind_down(number: int, error: type[Exception]) -> None:
    wound_down = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            wound_down.append(True)

    with pytest.raises(error, match="run the same command again"):
        run_until_signal(work())
    assert wound_down == [True]


def test_an_error_while_winding_down_does_not_hide_the_signal() -> None:
    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError from None

    with pytest.raises(TerminatedError):
        run_until_signal(work())


def test_what_was_done_when_the_signal_came_is_done() -> None:
    async def work() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return 42

    assert run_until_signal(work()) == 42


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run_until_signal(answer())
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_outside_the_main_thread() -> None:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(run_until_signal(answer())))
    thread.start()
    thread.join()
    assert results == [42]

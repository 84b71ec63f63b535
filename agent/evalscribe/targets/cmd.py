"""Commands as targets: the input on standard input, the answer on standard output, no shell."""

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from time import perf_counter

from evalscribe.errors import UsageError
from evalscribe.ids import canonical_json
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from evalscribe.targets import envelope
from evalscribe.targets.environment import for_users_code, new_mark
from evalscribe.targets.group import Group, signal_name
from evalscribe.targets.strays import end_marked

LARGEST = 16 * 1024 * 1024
"""Bytes of an answer."""


class CommandTarget:
    """`Target` of one command line, each try a process group of its own."""

    def __init__(self, line: str, folder: Path) -> None:
        """Raises `UsageError` where its program is not there."""
        words = split(line)
        program = found_program(words, folder)
        self._command = (program, *words[1:])
        self._line = line
        self._folder = folder
        self._mark = new_mark()
        self._running: set[Group] = set()

    async def answer(self, call: TargetCall) -> TargetReply | TargetFailure:
        """Raises `UsageError` where it cannot be started."""
        began = perf_counter()
        group = await self._start(call)
        try:
            async with asyncio.timeout(call.timeout_s):
                code = await group.ended(LARGEST)
        except TimeoutError:
            return envelope.late(call.timeout_s, group.err.text)
        finally:
            self._running.discard(group)
            await group.end()
        return _reply(group, code, (perf_counter() - began) * 1000)

    async def close(self) -> None:
        await asyncio.gather(*(group.end() for group in tuple(self._running)))
        await end_marked(self._mark)

    async def _start(self, call: TargetCall) -> Group:
        feed = canonical_json(call.input).encode("utf-8", "replace")
        try:
            group = await Group.started(
                self._command, self._folder, feed=feed, env={**for_users_code(self._mark), **_named(call)}
            )
        except OSError as error:
            raise UsageError(f"cmd:{self._line} cannot be started: {error.strerror or error}") from None
        self._running.add(group)
        return group


def split(line: str) -> tuple[str, ...]:
    """As a shell splits a command line. Raises `UsageError`."""
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"cmd:{line} is no command line: {error}") from None
    if not words:
        raise UsageError("cmd: names no command")
    return words


def found_program(words: Sequence[str], folder: Path) -> str:
    """The program of a command line: on PATH, or in the folder where its name has a slash. Raises `UsageError`."""
    name = words[0]
    found = which(str(folder / name)) if "/" in name else which(name)
    if found is None:
        where = f"in {folder}" if "/" in name else "on PATH"
        raise UsageError(f"cmd:{' '.join(words)}: there is no program {name!r} {where} that can be run")
    return found


def _reply(group: Group, code: int | None, duration_ms: float) -> TargetReply | TargetFailure:
    log = group.err.text
    if code is None:
        return envelope.failed(f"it wrote more than {LARGEST / 1e6:.1f} MB", log=log, duration_ms=duration_ms)
    if code:
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
        how = f"exit code {code}" if code > 0 else f"ended by {signal_name(-code)}"
        return envelope.failed(f"{how}: {last}" if last else how, log=log, duration_ms=duration_ms)
    return envelope.reply(envelope.json_or_text(group.out.text), log=log, duration_ms=duration_ms)


def _named(call: TargetCall) -> Mapping[str, str]:
    """For its environment, which cannot hold every character."""
    told = {
        "EVALSCRIBE_IDEMPOTENCY_KEY": call.idempotency_key,
        "EVALSCRIBE_RUN_ID": call.run_id,
        "EVALSCRIBE_ITEM_KEY": call.item_key,
        "EVALSCRIBE_REPETITION": str(call.repetition),
    }
    return {name: value.replace("\0", "").encode("utf-8", "replace").decode() for name, value in told.items()}

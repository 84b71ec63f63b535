"""Command targets: input on stdin, output parsing, time limits and process cleanup."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evalscribe.errors import UsageError
from evalscribe.experiments.targets import CommandTarget
from evalscribe.model.target import TargetCall, TargetFailure, TargetReply
from support.waiting import until, with_longer_limits

Calling = Callable[..., TargetCall]


async def run_command(line: str, folder: Path, call: TargetCall) -> TargetReply | TargetFailure:
    return await CommandTarget(line, folder).answer(call)


async def test_command_reads_json_and_writes_json_or_text(tmp_path: Path, calling: Calling) -> None:
    for line, output in (
        ("cat", {"a": "ä"}),
        ("echo hello", "hello"),
        ("echo '\"hello\"'", "hello"),
        ('printf \'{"output": [1], "model": "m"}\'', [1]),
        ("echo NaN", "NaN"),
        ("true", ""),
    ):
        reply = await run_command(line, tmp_path, calling({"a": "ä"}))
        assert isinstance(reply, TargetReply), reply
        assert reply.output == output, line


async def test_environment_variables_identify_the_trial(tmp_path: Path, calling: Calling) -> None:
    names = "$EVALSCRIBE_IDEMPOTENCY_KEY $EVALSCRIBE_ITEM_KEY $EVALSCRIBE_REPETITION"
    reply = await run_command(f"sh -c 'echo {names}'", tmp_path, calling(1, item_key="k\0\n"))
    assert isinstance(reply, TargetReply)
    assert reply.output == "r1/k /2 k 2"


async def test_failure_reports_exit_code_or_signal_and_last_line(tmp_path: Path, calling: Calling) -> None:
    failed = await run_command("sh -c 'echo one >&2; echo no such order >&2; exit 3'", tmp_path, calling(1))
    assert failed == TargetFailure(
        reason="exit code 3: no such order", log="one\nno such order\n", duration_ms=failed.duration_ms
    )
    killed = await run_command("sh -c 'kill -9 $$'", tmp_path, calling(1))
    assert isinstance(killed, TargetFailure)
    assert killed.reason == "ended by SIGKILL"


async def test_slow_command_times_out_and_excessive_output_fails(tmp_path: Path, calling: Calling) -> None:
    sleeping = "sh -c 'trap \"\" TERM; echo began >&2; sleep 3600'"
    late, loud = await asyncio.gather(
        with_longer_limits(
            lambda limit_s: run_command(sleeping, tmp_path, calling(1, timeout_s=limit_s)), lambda reply: reply.log
        ),
        run_command("yes", tmp_path, calling(1)),
    )
    assert isinstance(late, TargetFailure)
    assert (late.kind, late.log) == ("timeout", "began\n")
    assert isinstance(loud, TargetFailure)
    assert loud.reason == "it wrote more than 16.8 MB"


async def test_background_processes_are_not_waited_for(tmp_path: Path, calling: Calling) -> None:
    reply = await run_command("sh -c 'sleep 3600 & echo done'", tmp_path, calling(1))
    assert isinstance(reply, TargetReply)
    assert reply.output == "done"


async def test_close_ends_running_commands(tmp_path: Path, calling: Calling) -> None:
    target = CommandTarget(
        f'sh -c \'trap "" TERM; touch began; {sys.executable} -c "import time; time.sleep(3600)"\'', tmp_path
    )
    call = asyncio.create_task(target.answer(calling(1)))
    await until(lambda: (tmp_path / "began").exists(), "the command runs")
    await target.close()
    assert isinstance(await call, TargetFailure)


def test_invalid_command_line_is_refused_at_construction(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    for line, message in (
        ("nowhere-at-all x", "no executable"),
        ("./text", "no executable"),
        ("'", "not a command line"),
    ):
        with pytest.raises(UsageError, match=message):
            CommandTarget(line, tmp_path)

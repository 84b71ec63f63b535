"""Endless HTTP answers, plain or compressed: every client refuses them in little memory with a clear error."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.bomb_server import Bomb, BombServer
from support.waiting import PATIENCE_S

CHILD = Path(__file__).parents[1] / "support" / "bomb_client.py"
MOST_MIB = 400
"""Peak memory of a client. Each needs about 100 MiB to start; every bomb has 1,200."""
EVENTS = "text/event-stream"
TOO_LARGE = "an answer of more than"
PLAIN = Bomb()
GZIP = Bomb(encoding="gzip")
NESTED = Bomb(encoding="gzip, gzip")
DEFLATE = Bomb(encoding="deflate")
TRAILING = Bomb(encoding="trailing")
NUMBERS = Bomb(begin=b"[", unit=b"[],")
FAILED = Bomb(encoding="gzip", status=500)
REFUSED = Bomb(encoding="gzip", status=401)
ONE_LINE = Bomb(begin=b"data: ", content_type=EVENTS)
ONE_LINE_GZIP = Bomb(begin=b"data: ", content_type=EVENTS, encoding="gzip")
ONE_EVENT = Bomb(begin=b"", unit=b"data: a\n", content_type=EVENTS)
RESULTS = Bomb(begin=b'{"custom_id": "', content_type="application/x-jsonl", encoding="gzip")

CASES: dict[str, list[tuple[str, Bomb, str, int]]] = {
    "anthropic": [
        ("anthropic", PLAIN, f"AnswerNotRead: HOST sent {TOO_LARGE} 8 MiB", 1),
        ("anthropic", GZIP, TOO_LARGE, 1),
        ("anthropic", NESTED, TOO_LARGE, 1),
        ("anthropic", DEFLATE, TOO_LARGE, 1),
        ("anthropic", TRAILING, TOO_LARGE, 1),
        ("anthropic", NUMBERS, TOO_LARGE, 1),
        ("anthropic", FAILED, "failed (500) (tried 3 times)", 3),
        ("anthropic", REFUSED, "AccessError: ", 1),
        ("anthropic-stream", GZIP, TOO_LARGE, 1),
        ("anthropic-stream", ONE_LINE, "a line of more than 8 MiB", 1),
        ("anthropic-stream", ONE_LINE_GZIP, "a line of more than 8 MiB", 1),
        ("anthropic-stream", ONE_EVENT, "an event of more than 1000 lines", 1),
        ("check", GZIP, f"UnavailableError: HOST sent {TOO_LARGE} 8 MiB", 1),
        ("results", RESULTS, "UnavailableError: HOST sent a line of more than 8 MiB", 1),
    ],
    "openai": [
        ("openai", PLAIN, f"AnswerNotRead: HOST sent {TOO_LARGE} 8 MiB", 1),
        ("openai", GZIP, TOO_LARGE, 1),
        ("openai", FAILED, "(tried 3 times)", 3),
        ("openai", REFUSED, "AccessError: ", 1),
        ("openai-stream", GZIP, TOO_LARGE, 1),
        ("openai-stream", ONE_LINE_GZIP, "a line of more than 8 MiB", 1),
        ("openai-stream", ONE_EVENT, "an event of more than 1000 lines", 1),
    ],
    "convex": [
        ("convex", GZIP, f"FunctionUnavailable: the deployment sent {TOO_LARGE} 64 MiB", 1),
        ("convex", FAILED, "FunctionUnavailable: 500", 3),
    ],
    "target": [
        ("target", GZIP, f"{TOO_LARGE} 16 MiB", 1),
        ("target", FAILED, "answered 500", 1),
    ],
    "github": [
        ("github", GZIP, "UnavailableError: cannot check the token", 1),
        ("github", NESTED, "compressed more than once", 1),
    ],
}


@pytest.mark.parametrize("clients", CASES)
def test_endless_answers_are_refused_in_little_memory(clients: str) -> None:
    cases = CASES[clients]
    with ExitStack() as opened:
        servers = [opened.enter_context(BombServer(bomb)) for _, bomb, _, _ in cases]
        arguments = [f"{client}={server.url}" for (client, *_), server in zip(cases, servers, strict=True)]
        done = subprocess.run(
            [sys.executable, str(CHILD), *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        calls = [len(server.calls) for server in servers]
    answer = json.loads(done.stdout)
    for (_, _, expected, _), message, server in zip(cases, answer["told"], servers, strict=True):
        assert expected.replace("HOST", server.url.removeprefix("http://")) in message
    assert calls == [count for *_, count in cases]
    assert answer["peak_mib"] < MOST_MIB

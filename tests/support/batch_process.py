"""A process that sends questions in batches and can be killed at any moment.

Tests import it by its name, so that it starts as a fork.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.batch import BatchModel, BatchPacing
from evalscribe.llm.budget import price_of
from evalscribe.model.chat import BatchIntent, Message, Reply, Request, UnansweredQuestion
from evalscribe.store.results import BatchStore, open_batches

T = TypeVar("T")
MODEL = "claude-opus-5-5"
QUICK = BatchPacing(quiet_s=0.02, poll_s=0.005, longest_poll_s=0.02, settle_s=0.05)


def make_request(text: str) -> Request:
    return Request(system="Judge.", messages=(Message(role="user", text=text),), max_tokens=100)


class KillableBatches:
    """An `Intents` that kills its process before or after an operation.

    For example, `before add` kills it before `add`.
    """

    def __init__(self, intents: BatchStore, moment: str) -> None:
        self._intents = intents
        self._moment = moment

    def claim(self, intent_id: str) -> AbstractContextManager[bool]:
        return self._intents.claim(intent_id)

    def add(self, intent: BatchIntent) -> BatchIntent:
        return self._mortally("add", lambda: self._intents.add(intent))

    def of(self, key: str) -> BatchIntent | None:
        return self._intents.of(key)

    def submitted(self, intent_id: str, batch_id: str) -> None:
        self._mortally("submitted", lambda: self._intents.submitted(intent_id, batch_id))

    def drop(self, intent_id: str) -> None:
        self._mortally("drop", lambda: self._intents.drop(intent_id))

    def batch_ids(self) -> frozenset[str]:
        return self._intents.batch_ids()

    def settle(self, outcomes: dict[str, Reply | UnansweredQuestion]) -> None:
        self._mortally("settle", lambda: self._intents.settle(outcomes))

    def outcome(self, key: str) -> Reply | UnansweredQuestion | None:
        return self._intents.outcome(key)

    def take(self, key: str) -> bool:
        return self._mortally("take", lambda: self._intents.take(key))

    def release(self, key: str) -> None:
        self._intents.release(key)

    def _mortally(self, name: str, work: Callable[[], T]) -> T:
        die_if(self._moment == f"before {name}")
        done = work()
        die_if(self._moment == f"after {name}")
        return done


def die_if(now: bool) -> None:
    if now:
        os.kill(os.getpid(), signal.SIGKILL)


def run(url: str, folder: str, questions: list[str], moment: str, out: str) -> None:
    """Send all questions concurrently, and write each answer on a line of a file."""
    answers = asyncio.run(_answers(url, Path(folder), questions, moment))
    Path(out).write_text("".join(f"{answer}\n" for answer in answers))


async def _answers(url: str, folder: Path, questions: list[str], moment: str) -> list[str]:
    cost = price_of(f"anthropic/{MODEL}")
    intents = open_batches(folder)
    model = BatchModel(AnthropicModel(MODEL, "key", url, cost), KillableBatches(intents, moment), cost, pace=QUICK)
    replies = await asyncio.gather(*(model.complete(make_request(text)) for text in questions))
    die_if(moment == "before verdicts")
    await model.close()
    intents.close()
    return [reply.text for reply in replies]

"""A server of message batches with a store, and sessions that send questions to it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.batch import BatchModel, BatchPacing, question_key, with_batches
from evalscribe.llm.budget import Budget, BudgetedModel, price_of
from evalscribe.llm.service import RetryingModel, RetryPolicy
from evalscribe.model.chat import BatchIntent, Message, Reply, Request
from evalscribe.model.protocols import Model
from evalscribe.store.results import BatchStore, open_batches
from support.batches_server import BatchesServer

NAME = "claude-opus-5-5"
OPUS = price_of(f"anthropic/{NAME}")
QUICK = BatchPacing(quiet_s=0.03, poll_s=0.01, longest_poll_s=0.02, settle_s=0.05, failures=3)
HALF_PRICE = (100 * 4 + 10 * 20) / 1_000_000 / 2


def make_request(text: str, rollout: int = 0) -> Request:
    return Request(system="Judge.", messages=(Message(role="user", text=text),), max_tokens=100, rollout=rollout)


class BatchSessions:
    """A server and a store. Each call of `ask` is a separate session, as it would be in a new process."""

    def __init__(self, folder: Path, server: BatchesServer) -> None:
        self.server = server
        self.intents: BatchStore = open_batches(folder)

    def model(self, pace: BatchPacing = QUICK, *, fresh: bool = False) -> BatchModel:
        adapter = AnthropicModel(NAME, "key", self.server.url, OPUS)
        return BatchModel(adapter, self.intents, OPUS, pace=pace, fresh=fresh)

    def within(self, budget: Budget, stage: str = "judge", waves: BatchModel | None = None) -> Model:
        adapter = AnthropicModel(NAME, "key", self.server.url, OPUS)
        single = RetryingModel(BudgetedModel(adapter, budget, OPUS, stage), RetryPolicy(first_wait_s=0.01))
        return with_batches(waves or self.model(), single, budget, OPUS, stage)

    async def ask(
        self, *requests: Request, pace: BatchPacing = QUICK, fresh: bool = False
    ) -> list[Reply | BaseException]:
        model = self.model(pace, fresh=fresh)
        try:
            return await asyncio.gather(*map(model.complete, requests), return_exceptions=True)
        finally:
            await model.close()

    def keys(self, *requests: Request) -> tuple[str, ...]:
        adapter = AnthropicModel(NAME, "key")
        return tuple(question_key(adapter.params(request), request.rollout) for request in requests)


def texts(replies: list[Reply | BaseException]) -> list[str]:
    assert all(isinstance(reply, Reply) for reply in replies), replies
    return [reply.text for reply in replies if isinstance(reply, Reply)]


def stored_intent(
    desk: BatchSessions, *requests: Request, batch_id: str | None = None, age_days: float = 0.0
) -> BatchIntent:
    """Store the intent that a process leaves if it is killed after storing the intent."""
    created = datetime.now(UTC) - timedelta(days=age_days)
    intent = BatchIntent(id="left", keys=desk.keys(*requests), created=created)
    desk.intents.add(intent)
    if batch_id:
        desk.intents.submitted(intent.id, batch_id)
    return intent


def sent_key(desk: BatchSessions, *requests: Request) -> str:
    adapter = AnthropicModel(NAME, "key")
    return desk.server.make(dict(zip(desk.keys(*requests), map(adapter.params, requests), strict=True))).id  # type: ignore[arg-type]


def fail_calls(kind: str, *statuses: int) -> Callable[[str, str, int], int]:
    """Return a function that makes the first calls of one kind fail with these statuses. -1 drops the connection."""

    def refuse(method: str, path: str, number: int) -> int:
        what = "results" if path.endswith("/results") else "list" if "?" in path else path.rsplit("/", 1)[-1]
        here = kind == ("POST" if method == "POST" and what == "batches" else what if method == "GET" else "single")
        here = here or (kind == "look" and method == "GET" and what.startswith("msgbatch"))
        return statuses[number] if here and number < len(statuses) else 0

    return refuse

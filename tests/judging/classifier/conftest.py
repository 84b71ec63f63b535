"""A judge that asks a scripted Messages API server on loopback."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from evalscribe.judging.classifier import InvestigationLimits, ModelJudge
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.service import RetryingModel, RetryPolicy
from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.prompts.templates import Prompts
from support.classifier_failure import JudgeFailure, make_packed_failure
from support.messages_server import MessagesServer, Script


@pytest.fixture
async def judged() -> AsyncIterator[JudgeFailure]:
    """Judge a failure against a scripted server; return the outcome and the server with its requests."""
    async with AsyncExitStack() as stack:

        async def ask(
            script: Script | None = None, of: Failure | None = None, bounds: InvestigationLimits | None = None
        ) -> tuple[Verdict | Unclassified, MessagesServer]:
            server = stack.enter_context(MessagesServer(script))
            attempt = AnthropicModel("claude-opus-5-5", "key", server.url, timeout_s=60)
            stack.push_async_callback(attempt.close)
            model = RetryingModel(attempt, RetryPolicy(attempts=3, first_wait_s=0.01, total_s=60))
            return await ModelJudge(model, Prompts(), bounds=bounds).judge(of or make_packed_failure()), server

        yield ask

"""Opening models by name: keys, packages, the shared budget and the rate-limit pause per provider."""

import asyncio
import subprocess
import sys

import pytest
from pydantic import SecretStr

from evalscribe.errors import AccessError, UsageError
from evalscribe.llm.budget import Budget
from evalscribe.llm.service import ModelService, RetryPolicy, parse_model_name
from evalscribe.model import rubric
from evalscribe.model.chat import CallFailed, Message, Request
from evalscribe.settings.access import PROVIDERS, Access
from evalscribe.settings.config import Origin
from support.chat_server import Call, ChatServer, failure, says
from support.loop_clock import LoopClock
from support.messages_server import MessagesServer
from support.messages_server import says as claude_says
from support.scripted_server import Answer
from support.waiting import until

ASKED = Request(system="Judge.", messages=(Message(role="user", text="Why?"),), max_tokens=100)
HERE = Origin(where="test", trust=3)
QUICK = RetryPolicy(attempts=3, first_wait_s=0.01, longest_wait_s=0.02, total_s=60)


def service(tokens: int | None = 100_000, usd: float | None = None, **urls: str) -> ModelService:
    """Return a service with a key for each provider in `urls`."""

    def find(name: str) -> Access | None:
        url = urls.get(name)
        return Access(url=url, url_origin=HERE, key=SecretStr("sk-key"), key_origin=HERE) if url else None

    return ModelService(find, Budget(usd=usd, tokens=tokens), patience=QUICK)


def test_rubric_providers_equal_the_supported_providers() -> None:
    assert tuple(PROVIDERS) == rubric.MODEL_OPTION_PROVIDERS


@pytest.mark.parametrize("name", ["", "rules", "claude", "/x", "anthropic", "anthropic/", "mistral/large", "OpenAI/x"])
def test_invalid_model_name_error_lists_providers(name: str) -> None:
    with pytest.raises(UsageError, match="anthropic, openai, openrouter, google"):
        service().open(name, "judge")


def test_openrouter_model_name_keeps_its_slashes() -> None:
    provider, model = parse_model_name("openrouter/vendor/model:free")
    assert (provider.name, model) == ("openrouter", "vendor/model:free")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_missing_key_error_names_the_variable_in_one_line(provider: str) -> None:
    with pytest.raises(AccessError) as raised:
        service().open(f"{provider}/x", "judge")
    message = str(raised.value)
    assert message.startswith(f"{provider}/x needs a key: set {provider.upper()}_API_KEY")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("provider", ["openai", "openrouter", "google"])
def test_missing_package_error_gives_the_install_command_in_one_line(
    monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError) as raised:
        service(**{provider: "http://127.0.0.1:9"}).open(f"{provider}/x", "judge")
    message = str(raised.value)
    assert "pip install 'evalscribe[openai]'" in message
    assert len(message.splitlines()) == 1


def test_unpriced_model_requires_a_token_budget() -> None:
    urls = {"openai": "http://127.0.0.1:9"}
    with pytest.raises(UsageError, match="`max_tokens`"):
        service(tokens=None, usd=5.0, **urls).open("openai/of-tomorrow", "judge")
    assert service(usd=5.0, **urls).open("openai/of-tomorrow", "judge").id == "openai/of-tomorrow"


def test_context_window_setting_changes_openai_models_but_not_anthropic_ones() -> None:
    local, window = {"openai": "http://127.0.0.1:9", "anthropic": "http://127.0.0.1:9"}, {}
    for context_tokens in (None, 8192):
        models = ModelService(
            lambda name: Access(url=local[name], url_origin=HERE), Budget(), context_tokens=context_tokens
        )
        window[context_tokens] = [
            models.open(name, "judge").context_tokens for name in ("openai/x", "anthropic/claude-x")
        ]
    assert window == {None: [32_768, 1_000_000], 8192: [8192, 1_000_000]}


async def test_stages_and_providers_share_one_budget() -> None:
    with ChatServer(says("Done.")) as chat, MessagesServer(claude_says("Done.")) as claude:
        models = service(tokens=3_350, openai=chat.url, anthropic=claude.url)
        await models.open("openai/x", "tag").complete(ASKED)
        await models.open("anthropic/claude-x", "judge").complete(ASKED)
        await models.open("openai/x", "tag").complete(ASKED)
        with pytest.raises(CallFailed, match="3350 tokens"):
            await models.open("openai/y", "judge").complete(ASKED)
        await models.close()
    assert list(models.spent()) == ["tag", "judge"]
    assert models.spent()["tag"].calls == 2
    assert models.spent()["tag"].input_tokens == 2000
    assert models.spent()["judge"].calls == 1
    assert (len(chat.calls), len(claude.calls)) == (2, 1)


async def test_rate_limit_pause_is_shared_within_a_provider_only() -> None:
    def answer(call: Call) -> Answer:
        return failure(429, retry_after="0.5") if call.number < 3 else says("Done.")

    with ChatServer(answer) as chat, MessagesServer(claude_says("Done.")) as claude:
        models = service(openai=chat.url, anthropic=claude.url)
        clock = LoopClock()
        chat.gather(3)
        refused = [asyncio.create_task(models.open(f"openai/{name}", "judge").complete(ASKED)) for name in "abc"]
        shared = models.open("openai/d", "tag")
        pause = models._pauses["openai"]
        await until(pause.remaining_s, "the pause")
        later = asyncio.create_task(shared.complete(ASKED))
        await models.open("anthropic/claude-x", "judge").complete(ASKED)
        assert (len(chat.calls), len(claude.calls)) == (3, 1), "the fourth waits, another provider's does not"
        clock.advance(0.51)
        await asyncio.gather(later, *refused)
        await models.close()
    assert sorted(call.body["model"] for call in chat.calls[3:]) == list("abcd")


SDK_LOADED = """
import asyncio, sys
from evalscribe.llm import {provider} as adapter
from evalscribe.model.chat import Message, Request
timed = adapter.attempt
async def attempt(work, timeout_s, mapped):
    print("{provider}" in sys.modules)
    return await timed(work, timeout_s, mapped)
adapter.attempt = attempt
request = Request(system="Judge.", messages=(Message(role="user", text="Why?"),))
print("{provider}" in sys.modules)
asyncio.run(adapter.{model}.complete(request))
"""


@pytest.mark.parametrize(
    ("provider", "model", "kind"),
    [
        ("anthropic", 'AnthropicModel("m", "key", sys.argv[1])', MessagesServer),
        ("openai", 'OpenAIModel("m", "key", base_url=sys.argv[1])', ChatServer),
    ],
)
def test_time_limit_of_a_call_begins_after_the_sdk_is_imported(
    provider: str, model: str, kind: type[MessagesServer] | type[ChatServer]
) -> None:
    with kind() as server:
        code = SDK_LOADED.format(provider=provider, model=model)
        done = subprocess.run([sys.executable, "-c", code, server.url], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("False\nTrue\n", 0), done.stderr

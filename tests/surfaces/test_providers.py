"""Providers other than Anthropic from the command line, with loopback servers that speak their protocol."""

import json
from pathlib import Path

import pytest

from support.chat_server import ChatServer, failure, submit
from support.command import InProcessCommand

KEY = "sk-proj-secret-0000"
BOUND = ("--max-tokens", "9000000")


@pytest.mark.parametrize(
    ("model", "key"),
    [("openrouter/vendor/model-x", KEY), ("openai/local", "")],
)
def test_openrouter_and_keyless_openai_endpoint_can_judge(
    inside: InProcessCommand, made: Path, model: str, key: str
) -> None:
    provider = model.partition("/")[0].upper()
    with ChatServer() as server:
        where = {f"{provider}_BASE_URL": server.url, **({f"{provider}_API_KEY": key} if key else {})}
        result = inside.run("analyze", made, "--judge", model, *BOUND, "--json", **where)
        document = json.loads(result.out)
    assert {finding["judge"]["id"] for finding in document["findings"]} == {model}
    assert {finding["classification"] for finding in document["findings"]} == {"MODEL_FAULT"}
    assert len(server.calls) == document["usage"]["calls"] == 8
    assert {call.body["model"] for call in server.calls} == {model.partition("/")[2]}
    assert {call.headers.get("authorization") for call in server.calls} == {f"Bearer {key}" if key else None}


def test_missing_or_refused_provider_key_exits_with_77(inside: InProcessCommand, made: Path) -> None:
    error = inside.run("analyze", made, "--judge", "google/gemini-x", *BOUND, code=77).err
    assert "GOOGLE_API_KEY" in error
    assert "--judge rules" in error
    with ChatServer(failure(401, text=f"not with {KEY}")) as server:
        where = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
        result = inside.run("analyze", made, "--judge", "openai/gpt-x", *BOUND, code=77, **where)
    assert "refused the key" in result.err
    assert KEY not in result.out + result.err


def test_env_file_of_the_folder_cannot_redirect_an_openai_key(inside: InProcessCommand, made: Path) -> None:
    with ChatServer() as server:
        (inside.folder / ".env").write_text(f"OPENAI_BASE_URL={server.url}\n")
        result = inside.run("analyze", made, "--judge", "openai/x", *BOUND, code=64, OPENAI_API_KEY=KEY)
    assert "OPENAI_BASE_URL" in result.err
    assert server.calls == []


def test_doctor_checks_every_configured_provider(inside: InProcessCommand) -> None:
    with ChatServer(submit()) as server, ChatServer(failure(401, text=f"not with {KEY}")) as refusing:
        environment = {
            "OPENAI_BASE_URL": server.url,
            "OPENROUTER_API_KEY": KEY,
            "OPENROUTER_BASE_URL": refusing.url,
        }
        out = inside.run("doctor", code=77, **environment).out
    assert f"OpenAI: {server.url} answers, without a key" in out
    assert any(
        line.startswith("NOT OK") and "OpenRouter" in line and "refused the key" in line for line in out.splitlines()
    )
    assert "Google key" in out
    assert "Google:" not in out
    assert KEY not in out

"""Each provider with a server on loopback that speaks the provider's protocol. The conformance suite runs on all."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.openai import OpenAIModel
from evalscribe.llm.service import open_adapter
from evalscribe.model.chat import Reply, Request
from evalscribe.model.protocols import Model
from evalscribe.settings.access import ANTHROPIC, GOOGLE, OPENAI, OPENROUTER, Access, Provider
from evalscribe.settings.config import Origin
from support import chat_server, messages_server
from support.scripted_server import Answer, Call, Script, ScriptedServer
from support.waiting import PATIENCE_S

KEY = "sk-secret-of-nobody-123456"
HERE = Origin(where="test", trust=3)
ScriptedReply = Callable[..., Answer]


@dataclass(frozen=True)
class Vendor:
    """Common replies and parts of requests in the format of one vendor."""

    name: str
    provider: Provider
    server: Callable[[Script], ScriptedServer]
    says: ScriptedReply
    """Returns an answer with a text: `says(text, stop)`."""
    use: ScriptedReply
    failure: ScriptedReply
    """Returns an error response: `failure(status, code, text, **headers)`."""
    error_in_200: Answer
    too_long: Answer
    refusal: Answer
    cut_off: str
    """The vendor's stop reason for an answer that reaches the maximum length."""
    key: str = KEY
    streams: bool = False
    """True if answers are streamed."""

    async def answer(self, model: Model, request: Request) -> Reply:
        """Return the model's reply to a request. If it is streamed, check that the streamed pieces form its text."""
        if not self.streams:
            return await model.complete(request)
        heard: list[str] = []
        reply = await model.complete(request, heard.append)
        assert "".join(heard) == reply.text
        return reply

    def model(self, url: str, timeout_s: float = PATIENCE_S) -> AnthropicModel | OpenAIModel:
        access = Access(url=url, url_origin=HERE, key=self.key or None, key_origin=HERE if self.key else None)
        return open_adapter(self.provider, "vendor/model-x", access, None, timeout_s)

    def results(self, call: Call) -> list[tuple[str, str]]:
        """Return the tool results in a request: the id of the call and the result's text."""
        if self.provider is ANTHROPIC:
            blocks = [block for turn in call.body["messages"] for block in _blocks(turn)]
            return [(b["tool_use_id"], b["content"]) for b in blocks if b["type"] == "tool_result"]
        return [(turn["tool_call_id"], turn["content"]) for turn in call.body["messages"] if turn["role"] == "tool"]

    def calls(self, call: Call) -> list[str]:
        """Return the ids of the tool calls that a request repeats from earlier answers."""
        if self.provider is ANTHROPIC:
            blocks = [block for turn in call.body["messages"] for block in _blocks(turn)]
            return [b["id"] for b in blocks if b["type"] == "tool_use"]
        return [made["id"] for turn in call.body["messages"] for made in turn.get("tool_calls", ())]

    def schema(self, call: Call) -> dict[str, Any]:
        """Return the schema that a request sets for its answer."""
        if self.provider is ANTHROPIC:
            return dict(call.body["output_config"]["format"]["schema"])
        return dict(call.body["response_format"]["json_schema"]["schema"])


def _blocks(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return turn["content"] if isinstance(turn["content"], list) else []


def _chat(name: str, provider: Provider, too_long: Answer, error: dict[str, Any], **other: Any) -> Vendor:
    said: dict[str, Any] = {
        "failure": chat_server.failure,
        "refusal": chat_server.completion({"content": None, "refusal": "I cannot help with that."}),
        **other,
    }
    return Vendor(
        name=name,
        provider=provider,
        server=chat_server.ChatServer,
        says=chat_server.says,
        use=chat_server.use,
        error_in_200=Answer(body=json.dumps({"error": error}).encode()),
        too_long=too_long,
        cut_off="length",
        **said,
    )


def _in_a_list(status: int, code: str | None = None, text: str = "no", **headers: str) -> Answer:
    """Return an error response in a list, because Google's API wraps the error object in a list."""
    answer = chat_server.failure(status, code, text, **headers)
    return Answer(status, b"[" + answer.body + b"]", answer.headers)


VENDORS = (
    Vendor(
        name="anthropic",
        provider=ANTHROPIC,
        server=messages_server.MessagesServer,
        says=messages_server.says,
        use=messages_server.use,
        failure=messages_server.failure,
        error_in_200=Answer(body=b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'),
        too_long=messages_server.failure(400, "invalid_request_error", "prompt is too long: 1000001 tokens"),
        refusal=messages_server.says("", "refusal"),
        cut_off="max_tokens",
    ),
    _chat(
        "openai",
        OPENAI,
        chat_server.failure(400, "context_length_exceeded", "This model's maximum context length is 128000 tokens."),
        {"message": "The server had an error", "type": "server_error", "code": None},
    ),
    _chat(
        "openrouter",
        OPENROUTER,
        chat_server.failure(400, None, "This endpoint's maximum context length is 8192 tokens."),
        {"code": 502, "message": "Upstream failed", "metadata": {"provider_name": "X"}},
        refusal=chat_server.completion({"content": ""}, "content_filter"),
    ),
    _chat(
        "google",
        GOOGLE,
        _in_a_list(
            400, None, "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."
        ),
        {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"},
        failure=_in_a_list,
        refusal=chat_server.completion({"content": None}, "content_filter: SAFETY"),
    ),
    _chat(
        "compatible",
        OPENAI,
        Answer(
            400,
            json.dumps(
                {
                    "error": {
                        "code": 400,
                        "type": "exceed_context_size_error",
                        "message": "the request exceeds the available context size",
                        "n_ctx": 4096,
                    }
                }
            ).encode(),
        ),
        {"message": "out of memory", "type": "InternalServerError", "code": 500},
        key="",
    ),
)

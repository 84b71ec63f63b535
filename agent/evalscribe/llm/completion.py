"""A chat completion, as it is asked for and as it is read: plain JSON on both sides."""

import json
from collections.abc import Iterator
from typing import Any

from evalscribe.chat import Message, Reply, Request, Stop, Tool, ToolCall, ToolResult, Usage
from evalscribe.llm.attempt import sendable
from evalscribe.llm.prices import Price

STOPS: dict[str, Stop] = {
    "stop": "end",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    "safety": "refusal",
    "recitation": "refusal",
    "prohibited_content": "refusal",
    "refusal": "refusal",
}
ECHOED = ("role", "content", "tool_calls", "refusal", "reasoning_details", "extra_content")
"""Of an assistant's turn: what a service needs back, signatures of its thoughts included, and what none refuses."""


def messages(request: Request) -> list[dict[str, Any]]:
    turns = [{"role": "system", "content": sendable(request.system)}] if request.system else []
    for message in request.messages:
        for turn in _turns(message):
            if turn["role"] == "user" and turns and turns[-1]["role"] == "user":
                # Templates of local models refuse two turns of one role in a row.
                turns[-1] = {"role": "user", "content": f"{turns[-1]['content']}\n\n{turn['content']}"}
            else:
                turns.append(turn)
    return turns


def _turns(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "assistant":
        yield message.raw or {"role": "assistant", "content": sendable(message.text)}
        return
    yield from (_result(result) for result in message.tool_results)
    if message.text or not message.tool_results:
        yield {"role": "user", "content": sendable(message.text)}


def _result(result: ToolResult) -> dict[str, Any]:
    text = f"Error: {result.text}" if result.is_error else result.text
    return {"role": "tool", "tool_call_id": result.call_id, "content": sendable(text)}


def tool(offered: Tool, *, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": offered.name,
        "description": offered.description,
        "parameters": offered.input_schema,
    }
    if strict and is_strict(offered.input_schema):
        function["strict"] = True
    return {"type": "function", "function": function}


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    named = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
    return {"type": "json_schema", "json_schema": named}


def is_strict(schema: object) -> bool:
    """Whether every object in the schema is closed and needs all of its properties, as strict grammars want it."""
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("properties", {})) != set(schema.get("required", [])):
            return False
    return all(is_strict(value) for value in schema.values())


def plain(answer: object) -> dict[str, Any]:
    """Raises `AttributeError` or `TypeError` for a page or anything else that is no object."""
    if isinstance(answer, dict):
        return answer
    body = answer.to_dict(mode="json", warnings=False)  # type: ignore[attr-defined]
    if not isinstance(body, dict):
        raise TypeError("no object")
    return body


def error_inside(body: dict[str, Any]) -> Any:
    """The error in an answer that came with status 200."""
    if body.get("error"):
        return body["error"]
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("error") if isinstance(first, dict) else None


def reply_of(body: dict[str, Any], price: Price | None) -> Reply:
    """Raises `AttributeError`, `KeyError`, `IndexError`, `TypeError` or `ValueError` where it has another shape."""
    choice = body["choices"][0]
    said = _echoable(choice["message"])
    calls = tuple(_call(call) for call in said.get("tool_calls", ()))
    return Reply(
        text=text_of(said.get("content")) or said.get("refusal") or "",
        tool_calls=calls,
        stop=_stop(choice["finish_reason"], said),
        usage=usage_of(body, price),
        raw=said,
    )


def usage_of(body: dict[str, Any], price: Price | None) -> Usage:
    """No call in it where the service tells no usage. Raises `TypeError` or `ValueError` for one that is none."""
    told = body.get("usage")
    if not told:
        return Usage()
    prompt, total = _count(told, "prompt_tokens"), _count(told, "total_tokens")
    details = told.get("prompt_tokens_details") or {}
    usage = Usage(
        calls=1,
        input_tokens=prompt,
        # Some services leave the tokens of thinking out of the completion's, but not out of the total.
        output_tokens=max(_count(told, "completion_tokens"), total - prompt),
        cache_read_tokens=min(prompt, _count(details, "cached_tokens")),
        cache_write_tokens=min(prompt, _count(details, "cache_write_tokens")),
    )
    return usage.model_copy(update={"cost_usd": _cost(told, usage, price)})


def _cost(told: dict[str, Any], usage: Usage, price: Price | None) -> float:
    """What the service says that it billed, else by the price."""
    billed = told.get("cost")
    if not isinstance(billed, int | float) or billed < 0:
        return price.cost(usage) if price else 0.0
    # With the user's own key at the vendor, the vendor's bill comes beside the service's.
    upstream = (told.get("cost_details") or {}).get("upstream_inference_cost") if told.get("is_byok") else 0.0
    return float(billed) + float(upstream or 0.0)


def _count(told: dict[str, Any], name: str) -> int:
    number = told.get(name)
    if number is None:
        return 0
    if not isinstance(number, int) or number < 0:
        raise ValueError(name)
    return number


def _stop(reason: object, said: dict[str, Any]) -> Stop:
    if not isinstance(reason, str):
        raise TypeError("no reason to stop")
    if said.get("refusal"):
        return "refusal"
    stop = STOPS.get(reason.lower().partition(":")[0], "unknown")
    # Some services call tools and say `stop`.
    return "tool_use" if stop == "end" and said.get("tool_calls") else stop


def text_of(content: object) -> str:
    """Some services send a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def _call(call: dict[str, Any]) -> ToolCall:
    function = call["function"]
    return ToolCall(id=call["id"], name=function["name"], input=_fields(function.get("arguments")))


def _fields(arguments: object) -> dict[str, Any]:
    """Half an object, or none, comes where the answer was cut off; then no field of it is there."""
    try:
        fields = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _echoable(said: dict[str, Any]) -> dict[str, Any]:
    """The turn as it is sent back: every call has an id, and nothing is there that JSON spells but cannot be sent."""
    kept = {"role": "assistant", **{name: said[name] for name in ECHOED if said.get(name) is not None}}
    kept["role"] = "assistant"
    for number, call in enumerate(kept.get("tool_calls") or (), 1):
        call["id"] = call.get("id") or f"call_{number}"
    if not kept.get("tool_calls"):
        kept.pop("tool_calls", None)
        kept.setdefault("content", "")
    cleaned: dict[str, Any] = json.loads(sendable(json.dumps(kept, ensure_ascii=False)))
    return cleaned

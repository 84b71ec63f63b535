"""Extract messages from the spans of a trace, for all supported conventions."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from evalscribe.errors import DataError
from evalscribe.sources.records import as_text, dicts, object_of, text_of
from evalscribe.sources.streams import decode_json

AGENTS = ("AGENT", "CHAIN")
EVALUATION = "gen_ai.evaluation.result"
_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "completion", "generate_content"), "LLM"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow"), "AGENT"),
    "execute_tool": "TOOL",
}
"""Maps each operation name of the GenAI conventions to the corresponding span kind of OpenInference."""
_OTHER_KINDS = {"llm": "LLM", "chat": "LLM", "agent": "AGENT", "tool": "TOOL", "workflow": "CHAIN", "task": "CHAIN"}
"""Maps each `traceloop.span.kind` or `llm.request.type` to the corresponding span kind of OpenInference."""
_ALL_MESSAGES = ("pydantic_ai.all_messages", "all_messages_events")
"""Attributes of an agent's span that can contain the whole conversation."""
_INPUTS: tuple[str, ...] = ("gen_ai.input.messages", "events", "gen_ai.prompt", "input.value")
_INPUTS += ("langfuse.observation.input", "langfuse.trace.input", "mlflow.spanInputs", "traceloop.entity.input")
_OUTPUTS: tuple[str, ...] = ("gen_ai.output.messages", "gen_ai.completion", "output.value")
_OUTPUTS += ("langfuse.observation.output", "langfuse.trace.output", "mlflow.spanOutputs", "traceloop.entity.output")
_FLAT_INPUTS, _FLAT_OUTPUTS = ("llm.input_messages", "gen_ai.prompt"), ("llm.output_messages", "gen_ai.completion")
_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_DETAILS = "gen_ai.client.inference.operation.details"
_ROLES = {"model": "assistant", "ai": "assistant", "human": "user", "developer": "system", "function": "tool"}
MAX_PARTS = 10_000
"""Maximum number of messages in a span, and of parts in a message, that are read from numbered attributes.

An example of such an attribute is `llm.input_messages.0`.
"""
MAX_DEPTH = 50
"""Maximum number of ancestors that are looked up for a span."""
Messages = list[dict[str, object]]
Parents = Mapping[str, tuple[str, ...]]
"""Ids of the ancestors of each span, by span id. The nearest ancestor comes first."""


class Span(NamedTuple):
    """A span or log record whose values have been simplified."""

    traceId: str
    spanId: str
    parent: str
    name: str
    start: int
    end: int
    attributes: dict[str, object]
    events: list[dict[str, object]]
    failed: bool
    message: str
    service: str
    body: object

    @property
    def kind(self) -> str:
        """Return the span's kind in the terms of OpenInference; empty if it is unknown."""
        openinference_kind = text_of(self.attributes.get("openinference.span.kind")).upper()
        operation = _KINDS.get(text_of(self.attributes.get("gen_ai.operation.name")))
        if openinference_kind or operation:
            return openinference_kind or operation or ""
        for name in ("traceloop.span.kind", "llm.request.type", "langfuse.observation.type", "mlflow.spanType"):
            kind_text = as_text(self.attributes.get(name)).strip('"').lower()
            if kind_text in ("generation", "chat_model", "llm"):
                return "LLM"
            if kind := _OTHER_KINDS.get(kind_text):
                return kind
        return "LLM" if "gen_ai.request.model" in self.attributes and "gen_ai.tool.name" not in self.attributes else ""

    @property
    def error(self) -> str:
        """Return the reason why the span failed.

        The reason is the longer of the span's status message and its exception. If both are missing, the reason is the
        error's type.
        """
        exception = self._exception
        exception_message = as_text(exception.get("exception.message"))
        type = as_text(exception.get("exception.type")) or as_text(self.attributes.get("error.type"))
        exception_text = (
            f"{type}: {exception_message}"
            if exception_message and type and not exception_message.startswith(type)
            else exception_message
        )
        return max((self.message, exception_text), key=len) or type

    @property
    def trace(self) -> str:
        return as_text(self._exception.get("exception.stacktrace"))

    @property
    def _exception(self) -> dict[str, object]:
        exceptions = (object_of(event.get("attributes")) for event in self.events if event.get("name") == "exception")
        return next(exceptions, {})


def is_of_a_model(span: Span) -> bool:
    """Return whether a span belongs to an agent, a model call, a tool call or an evaluation."""
    return bool(span.kind) or any(EVALUATION in text_of(event.get("name")) for event in span.events)


def parents_of(spans: Sequence[Span]) -> Parents:
    """Return the ancestors of each span that are in the trace. Cycles of parents are cut."""
    above = {span.spanId: span.parent for span in spans}
    parents: dict[str, tuple[str, ...]] = {}
    for span in spans:
        chain: list[str] = []
        at = span.parent
        while at in above and at not in chain and at != span.spanId and len(chain) < MAX_DEPTH:
            chain.append(at)
            at = above[at]
        parents[span.spanId] = tuple(chain)
    return parents


def conversations(
    spans: Sequence[Span], parents: Parents, logs: Sequence[dict[str, object]]
) -> list[tuple[str | None, Messages]]:
    """Return the name and the messages of each agent.

    The main agent comes first and has the name None.
    """
    agents = {span.spanId: span for span in spans if span.kind == "AGENT"}
    logs_by_span: dict[str, list[dict[str, object]]] = {}
    for log in logs:
        logs_by_span.setdefault(text_of(log.get("spanId")), []).append(log)
    groups: dict[str, list[Span]] = {}
    for span in spans:
        groups.setdefault(_agent_of(span, agents, parents), []).append(span)
    agent_conversations: list[tuple[str | None, Messages]] = []
    for agent, members in groups.items():
        messages = _all_messages(agents.get(agent)) or _merged(members, logs_by_span)
        if messages:
            name = _agent_name(agents[agent]) if agent and agent_conversations else None
            agent_conversations.append((name, _with_tool_errors(messages, members)))
    if not agent_conversations:
        # No model call has messages, so those of an agent's span or of an outer span are used.
        for span in sorted(spans, key=lambda span: (span.kind not in AGENTS, len(parents[span.spanId]))):
            inputs, outputs = _exchange(span, logs_by_span.get(span.spanId, []))
            if inputs or outputs:
                return [(None, [*inputs, *outputs])]
    return agent_conversations


def _agent_of(span: Span, agents: Mapping[str, Span], parents: Parents) -> str:
    """Return the id of the agent's span to which a span belongs; empty if there is no such span.

    A span that is itself an agent's span belongs to itself. Any other span belongs to its nearest ancestor that is an
    agent's span.
    """
    return next((span_id for span_id in (span.spanId, *parents[span.spanId]) if span_id in agents), "")


def _agent_name(span: Span) -> str:
    return text_of(span.attributes.get("gen_ai.agent.name")) or text_of(span.attributes.get("agent.name")) or span.name


def _all_messages(agent: Span | None) -> Messages:
    message_lists = (
        [] if agent is None else list(_messages(agent.attributes.get(name), "user")) for name in _ALL_MESSAGES
    )
    return next(filter(None, message_lists), [])


def _merged(members: Sequence[Span], logs_by_span: Mapping[str, list[dict[str, object]]]) -> Messages:
    """Merge the model calls of an agent into one conversation.

    Each call repeats all earlier messages, but every message is included only once.
    """
    merged: Messages = []
    known_keys: set[str] = set()
    for call in members:
        if call.kind != "LLM":
            continue
        inputs, outputs = _exchange(call, logs_by_span.get(call.spanId, []))
        if len(inputs) >= len(merged) and _first_message(merged) == _first_message(inputs):
            merged, known_keys = list(inputs), {_key(message) for message in inputs}
        else:
            merged += [message for message in inputs if _key(message) not in known_keys]
            known_keys |= {_key(message) for message in inputs}
        merged += outputs
        known_keys |= {_key(message) for message in outputs}
    return merged


def _key(message: Mapping[str, object]) -> str:
    return json.dumps(message, sort_keys=True)


def _first_message(messages: Messages) -> dict[str, object] | None:
    return next((message for message in messages if message["role"] != "system"), None)


def _exchange(span: Span, logs: Sequence[Mapping[str, object]]) -> tuple[Messages, Messages]:
    """Return the input messages and the output messages of a model call."""
    attributes = dict(span.attributes)
    events = [*span.events, *logs]
    for event in events:
        if event.get("name") == _DETAILS:
            attributes |= object_of(event.get("attributes"))
    system = list(_messages(attributes.get("gen_ai.system_instructions"), "system"))
    inputs = _flat(attributes, _FLAT_INPUTS, "user") or _first(attributes, _INPUTS, "user")
    outputs = _flat(attributes, _FLAT_OUTPUTS, "assistant") or _first(attributes, _OUTPUTS, "assistant")
    if not inputs or not outputs:
        event_inputs, event_outputs = _messages_from_events(events)
        inputs, outputs = inputs or event_inputs, outputs or event_outputs
    if system and not any(message["role"] == "system" for message in inputs):
        text = "\n".join(as_text(message["content"]) for message in system)
        inputs = [{"role": "system", "content": text}, *inputs]
    return inputs, outputs


def _first(attributes: Mapping[str, object], names: Sequence[str], role: str) -> Messages:
    return next((messages for name in names if (messages := list(_messages(attributes.get(name), role)))), [])


def _messages_from_events(events: Iterable[Mapping[str, object]]) -> tuple[Messages, Messages]:
    """Read messages from events that follow versions of the GenAI conventions before 1.37.

    A `gen_ai.choice` event contains an answer. The other events contain input messages or, in the oldest form, prompts
    and completions.
    """
    inputs: Messages = []
    outputs: Messages = []
    for event in events:
        name, attributes = text_of(event.get("name")), object_of(event.get("attributes"))
        body = object_of(event.get("body")) or object_of(json_of(attributes.get("gen_ai.event.content"))) or attributes
        if match := _EVENT.fullmatch(name):
            inputs += _messages([{"role": match[1], **body}], match[1])
        elif name == "gen_ai.choice":
            outputs += _messages([object_of(json_of(body.get("message"))) or body], "assistant")
        elif name == "gen_ai.content.prompt":
            inputs += _messages(attributes.get("gen_ai.prompt"), "user")
        elif name == "gen_ai.content.completion":
            outputs += _messages(attributes.get("gen_ai.completion"), "assistant")
    return inputs, outputs


def json_of(value: object) -> object:
    """Parse a text that contains a JSON list or object. Any other value is returned unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(DataError):
            return decode_json(value)
    return value


def _messages(value: object, role: str, levels: int = 6) -> Iterator[dict[str, object]]:
    """Yield the messages that an attribute's value contains.

    The value can be a list of messages or parts, an object with `messages`, or plain text.
    """
    # The GenAI conventions store messages in an attribute as JSON text.
    value = json_of(value)
    if isinstance(value, dict) and levels:
        for name in ("messages", "message", "input", "output", "question", "query", "content", "choices"):
            if value.get(name):
                inner = value[name]
                yield from _messages([value] if name == "content" and "role" in value else inner, role, levels - 1)
                return
        yield {"role": role, "content": as_text(value)}
    elif isinstance(value, list):
        if value and all(
            isinstance(element, dict) and "role" not in element and "type" in element for element in value
        ):
            value = [{"role": role, "parts": value}]
        for element in value:
            if isinstance(element, dict):
                yield from _message(object_of(element.get("message")) or element, role)
            elif element is not None:
                yield {"role": role, "content": as_text(element)}
    elif value not in (None, ""):
        yield {"role": role, "content": as_text(value)}


def _message(source: Mapping[str, object], role: str) -> Iterator[dict[str, object]]:
    """Yield a message. Each tool result inside the message becomes a separate message."""
    role = text_of(source.get("role")).lower() or role
    role = _ROLES.get(role, role) if _ROLES.get(role, role) in ("system", "user", "assistant", "tool") else "user"
    parts = next((candidate for name in ("parts", "content") if isinstance(candidate := source.get(name), list)), None)
    if parts is None:
        yield _plain(source, role)
        return
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[dict[str, object]] = []
    for part in parts:
        kind = text_of(object_of(part).get("type"))
        fields = object_of(part)
        if kind in ("tool_call_response", "tool_result"):
            result = fields.get("response", fields.get("result", fields.get("content")))
            yield {
                "role": "tool",
                "content": as_text(result),
                "tool_call_id": fields.get("id") or fields.get("tool_call_id"),
            }
        elif kind in ("tool_call", "tool_use"):
            calls.append(_call(fields))
        elif kind in ("reasoning", "thinking"):
            reasoning.append(as_text(fields.get("content") or fields.get("thinking") or fields.get("text")))
        elif fields:
            content = fields.get("content", fields.get("text"))
            texts.append(as_text(content) if content is not None else f"[{kind or 'part'}]")
        else:
            texts.append(as_text(part))
    if role == "assistant":
        message: dict[str, object] = {"role": role, "content": "\n".join(texts)}
        message |= {"reasoning": "\n".join(reasoning)} if reasoning else {}
        yield message | ({"tool_calls": calls} if calls else {})
    elif texts:
        yield {"role": role, "content": "\n".join(texts)} | (
            {"tool_call_id": source.get("id") or source.get("tool_call_id")} if role == "tool" else {}
        )


def _plain(source: Mapping[str, object], role: str) -> dict[str, object]:
    message: dict[str, object] = {"role": role, "content": as_text(source.get("content"))}
    calls = [_call(call) for call in dicts(json_of(source.get("tool_calls")))]
    if role == "assistant" and calls:
        message["tool_calls"] = calls
    if role == "tool":
        message |= {"tool_call_id": source.get("id") or source.get("tool_call_id"), "function": source.get("name")}
    return message


def _call(call: Mapping[str, object]) -> dict[str, object]:
    function = object_of(call.get("function")) or call
    arguments = json_of(function.get("arguments", function.get("input")))
    return {
        "id": text_of(call.get("id")),
        "function": text_of(function.get("name")) or "unnamed",
        "arguments": arguments
        if isinstance(arguments, dict)
        else {}
        if arguments in (None, "")
        else {"arguments": arguments},
    }


def _flat(attributes: Mapping[str, object], prefixes: Sequence[str], role: str) -> Messages:
    """Read messages that are spread over numbered attributes, such as `llm.input_messages.0.message.content`."""
    for prefix in prefixes:
        tree: dict[str, object] = {}
        for name, value in attributes.items():
            # Each dot adds a level, so a hostile name with many dots is ignored.
            if name.startswith(f"{prefix}.") and name.count(".") < 20:
                _plant(tree, name[len(prefix) + 1 :].split("."), value)
        if tree:
            return [message for node in _in_order(tree) for message in _message(_unflattened(object_of(node)), role)]
    return []


def _plant(tree: dict[str, object], names: Sequence[str], value: object) -> None:
    *above, last = names
    for name in above:
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.setdefault(last, value)


def _in_order(tree: object) -> list[object]:
    """Return the values of those members whose names are numbers, in numeric order."""
    members = [(int(name), value) for name, value in object_of(tree).items() if name.isdecimal() and len(name) < 9]
    # As texts, 10 would come before 9.
    return [value for _, value in sorted(members, key=lambda member: member[0])][:MAX_PARTS]


def _unflattened(node: dict[str, object]) -> dict[str, object]:
    fields = object_of(node.get("message")) or node
    message = {name: value for name, value in fields.items() if name not in ("contents", "tool_calls")}
    calls = (object_of(call) for call in _in_order(fields.get("tool_calls")))
    message["tool_calls"] = [object_of(call.get("tool_call")) or call for call in calls]
    contents = (object_of(object_of(part).get("message_content")) for part in _in_order(fields.get("contents")))
    parts = [{"type": part.get("type"), "text": part.get("text")} for part in contents]
    if parts and not message.get("content"):
        message["content"] = parts
    return message


def _with_tool_errors(messages: Messages, spans: Sequence[Span]) -> Messages:
    """Mark the results of failed tools in the messages.

    Failures are taken from the tools' spans, because messages do not record them.
    """
    failed = {
        id: span.error
        for span in spans
        if span.kind == "TOOL" and span.failed and (id := text_of(span.attributes.get("gen_ai.tool.call.id")))
    }
    return [
        {**message, "error": failed[id]}
        if message["role"] == "tool" and (id := text_of(message.get("tool_call_id"))) in failed
        else message
        for message in messages
    ]

"""Parse one sample of an Inspect log into a record."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.ids import canonical_json
from evalscribe.model.evidence import Document, Role
from evalscribe.model.record import Record
from evalscribe.model.run import Eval, EvalStatus, Step
from evalscribe.sources import records
from evalscribe.sources.files import MAX_MEMBER_BYTES
from evalscribe.sources.records import Omissions
from evalscribe.text import cut

MAX_CONVERSATIONS = 100
"""Maximum number of agents' conversations that are stored for one sample."""
MAX_MESSAGES = 100_000
"""Maximum number of messages in a conversation, and in all conversations of a sample together.

A hostile file can refer to the same messages in its pool again and again.
"""
_TOO_MANY = "a conversation of a sub-agent: the sample has too many, or they are too long"
_NAMING = ("agent", "subtask", "tool", "solver")
_GRADING = ("scorer", "scorers")


class InspectConversation(NamedTuple):
    name: str
    """Name of the agent that made the model calls of the conversation."""
    messages: list[object]
    marks: frozenset[str]
    """Keys that identify the last answer of the conversation (see `_marks`)."""


class _Span(NamedTuple):
    parent: str
    type: str
    name: str


def agent_conversations(
    events: Sequence[object], pool: Sequence[object], messages: Sequence[object], left_out: Omissions
) -> list[InspectConversation]:
    """Return the conversation of each agent, as it was at the agent's last model call.

    Conversations of scorers are left out.

    Args:
        events: Events of the sample.
        pool: Messages to which events refer by index.
        messages: The main conversation of the sample. The result does not include this conversation.
        left_out: Counts what is left out.
    """
    main_marks = _marks_of(messages)
    conversations: dict[str, list[InspectConversation]] = {}
    conversation_count = 0
    for event, span, name in _calls(events):
        answer = _answer(event)
        if not answer or (marks := _marks(answer)) & main_marks:
            continue
        if (input_messages := _input_messages(event, pool)) is None:
            left_out.add(_TOO_MANY)
            continue
        new = InspectConversation(name, [*input_messages, answer], marks)
        span_conversations, before = conversations.setdefault(span, []), _marks_of(input_messages)
        continued = next(
            (n for n in reversed(range(len(span_conversations))) if span_conversations[n].marks & before), None
        )
        if continued is not None:
            span_conversations[continued] = new
        elif conversation_count < MAX_CONVERSATIONS:
            span_conversations.append(new)
            conversation_count += 1
        else:
            left_out.add(_TOO_MANY)
    return list(
        _bounded(
            (conversation for span_conversations in conversations.values() for conversation in span_conversations),
            left_out,
        )
    )


def _bounded(conversations: Iterable[InspectConversation], left_out: Omissions) -> Iterator[InspectConversation]:
    remaining = MAX_MESSAGES
    for conversation in conversations:
        remaining -= len(conversation.messages)
        if remaining < 0:
            left_out.add(_TOO_MANY)
        else:
            yield conversation


def pool_messages(refs: object, pool: Sequence[object]) -> list[object]:
    """Return the messages at the index ranges `[[first, end], …]` of a pool.

    Raises `DataError` if there are too many messages.
    """
    messages: list[object] = []
    for ref in refs if isinstance(refs, list) else []:
        if isinstance(ref, list) and len(ref) == 2 and all(isinstance(index, int) and index >= 0 for index in ref):
            messages += pool[ref[0] : ref[1]]
        if len(messages) > MAX_MESSAGES:
            raise DataError(f"a conversation has more than {MAX_MESSAGES} messages")
    return messages


def _calls(events: Sequence[object]) -> Iterator[tuple[Mapping[str, object], str, str]]:
    """Yield each model call with the id of its span and the name of its agent. Calls of scorers are left out."""
    spans: dict[str, _Span] = {}
    steps: list[_Span] = []
    for event in events:
        if not isinstance(event, Mapping):
            continue
        kind, span = event.get("event"), _Span(*(str(event.get(key)) for key in ("parent_id", "type", "name")))
        if kind == "span_begin":
            spans[str(event.get("id"))] = span
        elif kind == "step":
            # Logs of older versions have steps instead of spans.
            steps = [*steps, span] if event.get("action") == "begin" else steps[:-1]
        elif kind == "model":
            span_id = str(event.get("span_id"))
            inside = [*_outwards(span_id, spans)] if span_id in spans else steps[::-1]
            if not any(enclosing.type in _GRADING for enclosing in inside):
                name = next((enclosing.name for enclosing in inside if enclosing.type in _NAMING), "agent")
                yield event, span_id, name


def _outwards(id: str, spans: Mapping[str, _Span]) -> Iterator[_Span]:
    # The spans of a hostile file can form a cycle.
    for _ in range(len(spans)):
        if id not in spans:
            return
        yield spans[id]
        id = spans[id].parent


def _input_messages(event: Mapping[str, object], pool: Sequence[object]) -> list[object] | None:
    """Return the messages that were sent in a model call; None if there are too many messages."""
    messages = event.get("input")
    with suppress(DataError):
        return messages if isinstance(messages, list) and messages else pool_messages(event.get("input_refs"), pool)
    return None


def _answer(event: Mapping[str, object]) -> Mapping[str, object]:
    output = event.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return message if isinstance(message, Mapping) else {}


def _marks_of(messages: Sequence[object]) -> frozenset[str]:
    return frozenset(mark for message in messages if isinstance(message, Mapping) for mark in _marks(message))


def _marks(message: Mapping[str, object]) -> frozenset[str]:
    """Return the keys by which copies of a message are recognised.

    The keys are the id of the message and the ids of its tool calls. If there are no ids, the content is the key.
    """
    calls = message.get("tool_calls")
    objects = [message, *(calls if isinstance(calls, list) else [])]
    ids = {str(part["id"]) for part in objects if isinstance(part, Mapping) and part.get("id")}
    content = {key: message.get(key) for key in ("role", "content")}
    return frozenset(ids or {canonical_json(content)})


_TELLING = ("error", "info", "logger", "sample_limit", "approval", "input", "interrupt", "score_edit", "compaction")
"""Kinds of events that are rendered in full. For all other kinds, only errors are rendered."""
_UNRENDERED_FIELDS = (
    "timestamp",
    "completed",
    "working_start",
    "working_time",
    "uuid",
    "span_id",
    "parent_id",
    "event",
    "pending",
)
_TRACES = ("traceback", "traceback_ansi")


_OF_HARNESS = frozenset(
    (
        "model",
        "tool",
        "state",
        "store",
        "step",
        "subtask",
        "span_begin",
        "span_end",
        "sample_init",
        "score",
        "score_edit",
    )
)
"""Kinds of events that do not count as left out.

Such events are internal to the harness, or their content is repeated in messages and scores.
"""


def render_events(events: Sequence[object], left_out: Omissions) -> str:
    """Render one line for each informative event, and count events of unknown kinds as left out."""
    return "\n".join(line for event in events for line in _lines(event, left_out))


def _lines(event: object, left_out: Omissions) -> Iterator[str]:
    if not isinstance(event, dict):
        left_out.add("an event that is not an object")
        return
    kind = str(event.get("event"))
    if kind in _TELLING:
        if isinstance(error := event.get("error"), dict) and error.keys() & set(_TRACES):
            event = {**event, "error": _short(error)}
        yield f"{kind}: {_event_json({key: value for key, value in event.items() if key not in _UNRENDERED_FIELDS})}"
        return
    if error := event.get("error"):
        yield f"{kind}: {_event_json({'error': _short(error)})}"
    if kind not in _OF_HARNESS:
        left_out.add(f"an event `{kind[:40]}`")


def _short(error: object) -> object:
    if not isinstance(error, Mapping):
        return error
    return {key: value for key, value in error.items() if key not in _TRACES}


def _event_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# Inspect writes a letter for correct, partially correct, incorrect and no answer.
_WORDS: dict[str, float] = {"c": 1, "p": 0.5, "i": 0, "n": 0, "yes": 1, "no": 0, "true": 1, "false": 0}
PLACEHOLDER = "88F74D2C"
"""Placeholder for the name of the only scorer, in logs of the first versions of Inspect."""


def score_value(value: JsonValue) -> float | None:
    """Convert a score with a single value to a number. Returns None for null, NaN and unknown words."""
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    number = _WORDS.get(value.strip().lower())
    return number if number is not None else _parsed(value)


def score_values(scores: Mapping[str, Mapping[str, JsonValue]]) -> dict[str, float]:
    """Return all scores by the name of their scorer.

    If a score has several values, each value is stored under `scorer.key`.
    """
    return dict(_numbers(scores))


def main_score(score: Mapping[str, JsonValue]) -> float | None:
    """Return the number that decides whether a sample passed.

    If a score has several values, the smallest of these values decides.
    """
    value = score.get("value")
    if isinstance(value, dict | list):
        parts = [
            part
            for entry in (value.values() if isinstance(value, dict) else value)
            if (part := score_value(entry)) is not None
        ]
        return min(parts) if parts else None
    return score_value(value)


def _numbers(scores: Mapping[str, Mapping[str, JsonValue]]) -> Iterator[tuple[str, float]]:
    for scorer, score in scores.items():
        value = score.get("value")
        if isinstance(value, dict):
            parts = {f"{scorer}.{key}": part for key, part in value.items()}
        elif isinstance(value, list):
            parts = {f"{scorer}.{n}": part for n, part in enumerate(value)}
        else:
            parts = {scorer: value}
        for name, part in parts.items():
            if (number := score_value(part)) is not None:
                yield name, number


def _parsed(text: str) -> float | None:
    try:
        parsed = float(text)
    except ValueError:
        return None
    # An unscored sample has the value NaN, which the JSON reader returns as text.
    return parsed if math.isfinite(parsed) else None


MAX_FIELD = 20_000
"""Maximum number of characters in a field of a sample's metadata."""
_ATTACHMENT = "attachment://"
_STORED_ELSEWHERE = frozenset(
    {"id", "messages", "scores", "score", "events", "transcript", "attachments", "input", "target"}
)
"""Fields of a sample that are not stored in the metadata, because the record contains them elsewhere."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Sample = Mapping[str, JsonValue]


class SampleContext(NamedTuple):
    """Information about the log and about other samples that is needed to build a sample's record."""

    run_id: str
    task: str
    agent: Mapping[str, JsonValue]
    trial: int
    trials: int
    header: Mapping[str, JsonValue]
    """Fields of the log that apply to all of its samples. The fields are added to the metadata of each sample."""
    name: str
    """Location of the sample in the log, for use in errors."""


def parse_sample(raw: Mapping[str, object], place: SampleContext, left_out: Omissions) -> Record:
    """Parse a sample into a record. Raises `DataError` if the sample is invalid."""
    events = _list(_object(raw, "transcript").get("events") if "transcript" in raw else raw.get("events"))
    attachments = {**_object(_object(raw, "transcript"), "content"), **_object(raw, "attachments")}
    rendered_events = render_events(events, left_out)
    conversations = agent_conversations(
        events, _list(_object(raw, "events_data").get("messages")), _list(raw.get("messages")), left_out
    )
    plain = {key: value for key, value in raw.items() if key not in ("events", "transcript", "attachments")}
    # These fields repeat the content of the events.
    for field in ("events_data", "timelines"):
        plain.pop(field, None)
    agents = [{"name": conversation.name, "messages": conversation.messages} for conversation in conversations]
    sample = records.safe_json(_Attachments(attachments).back_in({**plain, "said": rendered_events, "agents": agents}))
    assert isinstance(sample, dict)
    return _record(sample, place, left_out)


def _record(sample: dict[str, JsonValue], place: SampleContext, left_out: Omissions) -> Record:
    events, agents = str(sample.pop("said")), _list(sample.pop("agents"))
    scores = _scores(sample)
    name = records.safe_name(sample.get("id"))
    uuid = sample.get("uuid")
    eval_id = uuid if isinstance(uuid, str) and uuid.isprintable() and 16 <= len(uuid) <= 80 else None
    eval_id = eval_id or records.eval_id(place.run_id, name, place.trial)
    main_transcript = records.build_transcript(f"{eval_id}-0", _list(sample.get("messages")), left_out, place.name)
    agent_transcripts = [
        records.build_transcript(
            f"{eval_id}-{n}", _list(agent["messages"]), left_out, place.name, records.safe_name(agent["name"])
        )
        for n, agent in enumerate(map(_object, agents), 1)
    ]
    steps = _steps(sample, scores)
    status = _status(sample, scores, left_out)
    failed = _failed(steps) if status == "failed" else None
    return Record(
        run_id=place.run_id,
        eval=Eval(
            id=eval_id,
            category=records.safe_name(place.task.rpartition("/")[2]),
            name=name,
            trial=place.trial,
            trials=place.trials,
            status=status,
            failed_step=failed.name if failed else None,
            reason=_invalid(sample) or _reason(sample, scores, status, failed),
        ),
        metadata=_metadata(sample, scores, place, left_out),
        transcripts=tuple(transcript for transcript in (main_transcript, *agent_transcripts) if transcript.messages),
        steps=steps,
        documents=tuple(
            _documents(sample, scores, events, main_transcript.messages[-1].content if main_transcript.messages else "")
        ),
        missing=() if main_transcript.messages else ("the sample has no messages",),
    )


class _Attachments:
    """Long texts that a sample stores separately and refers to.

    At most `MAX_MEMBER_BYTES` characters are inserted in place of references. Only a hostile file reaches this limit.
    Any further references are left unchanged.
    """

    def __init__(self, texts: Mapping[str, object]) -> None:
        self._texts = texts
        self._remaining = MAX_MEMBER_BYTES

    def back_in(self, value: object) -> object:
        """Replace each reference in a value with the text that it refers to."""
        if isinstance(value, str):
            return self._text(value) if value.startswith(_ATTACHMENT) else value
        if isinstance(value, list):
            return [self.back_in(item) for item in value]
        if isinstance(value, dict):
            return {key: self.back_in(item) for key, item in value.items()}
        return value

    def _text(self, reference: str) -> object:
        text = self._texts.get(reference.removeprefix(_ATTACHMENT), reference)
        self._remaining -= len(text) if isinstance(text, str) else 0
        return text if self._remaining >= 0 else reference


def _scores(sample: Sample) -> dict[str, dict[str, JsonValue]]:
    """Return the scores by the name of their scorer, the main score first.

    In the first versions of Inspect, a sample had a single score without a name.
    """
    scores = sample.get("scores")
    if not isinstance(scores, dict):
        scores = {"score": sample["score"]} if isinstance(sample.get("score"), dict) else {}
    scores_by_name = {"score" if name == PLACEHOLDER else name: score for name, score in scores.items()}
    return {name: score if isinstance(score, dict) else {"value": score} for name, score in scores_by_name.items()}


def _status(sample: Sample, scores: Mapping[str, dict[str, JsonValue]], left_out: Omissions) -> EvalStatus:
    # The score of a sample that a person declared invalid is not a verdict.
    if _invalid(sample):
        return "incomplete"
    if sample.get("error"):
        return "error"
    main = main_score(next(iter(scores.values()), {}))
    if main is not None and main > 1:
        left_out.add("a score above 1, which means neither passed nor failed")
    # If there is no score, a limit ended the sample before it could be scored.
    if main is None or main > 1:
        return "failed" if sample.get("limit") and not scores else "incomplete"
    return "passed" if main == 1 else "failed"


def _steps(sample: Sample, scores: Mapping[str, dict[str, JsonValue]]) -> tuple[Step, ...]:
    steps = []
    if limit := _limit(sample):
        main = main_score(next(iter(scores.values()), {}))
        # A sample can have the right answer although a limit ended it.
        steps.append(Step(name="limit", status="passed" if main == 1 else "failed", error=None if main == 1 else limit))
    for name, score in scores.items():
        number = main_score(score)
        if number is not None and number <= 1:
            error = None if number == 1 else _scored(score, sample)
            steps.append(Step(name=records.safe_name(name), status="failed" if error else "passed", error=error))
    return tuple(steps)


def _invalid(sample: Sample) -> str | None:
    """Return a sentence that says who declared the sample invalid, and why; None if nobody did."""
    if not sample.get("invalidation"):
        return None
    invalidation = _object(sample, "invalidation")
    by, reason = (records.safe_name(invalidation[key]) if invalidation.get(key) else "" for key in ("author", "reason"))
    return "it was declared invalid" + (f" by {by}" if by else "") + (f": {reason}" if reason else "")


def _failed(steps: tuple[Step, ...]) -> Step | None:
    return next((step for step in steps if step.status == "failed"), None)


def _reason(sample: Sample, scores: Mapping[str, Sample], status: EvalStatus, failed: Step | None) -> str | None:
    """Return why a sample failed, had an error or was not scored; None if the reason is unknown."""
    if status == "error":
        return _error(sample)
    if failed:
        return failed.error
    reasons = (_object(score, "metadata").get("unscored_reason") for score in scores.values())
    return next(
        (f"unscored: {records.safe_name(reason)}" for reason in reasons if reason and status == "incomplete"), None
    )


def _limit(sample: Sample) -> str | None:
    limit = sample.get("limit")
    if not limit:
        return None
    limit_fields = _object(sample, "limit")
    reason, most = limit_fields.get("reason"), limit_fields.get("limit", "the run")
    most = f"{most:g}" if isinstance(most, float) else most
    return f"the {limit_fields.get('type', limit)} limit of {most} was reached" + (
        f": {records.safe_name(reason)}" if reason else ""
    )


def _scored(score: Sample, sample: Sample) -> str:
    answer, target = score.get("answer"), sample.get("target")
    score_text = f"scored {_text(score.get('value'))}"
    explanation = score.get("reason") or _object(score, "metadata").get("reason")
    answered = f", answered {cut(records.safe_name(answer), 160)!r}" if answer else ""
    explanation_text = (
        f" because {cut(records.safe_name(explanation), 200)}" if isinstance(explanation, str) and explanation else ""
    )
    return (
        score_text
        + explanation_text
        + answered
        + (f", expected {cut(records.safe_name(_text(target)), 160)!r}" if target else "")
    )


def _error(sample: Sample) -> str:
    error = sample.get("error")
    return _text(_object(sample, "error").get("message")) or _text(error)


def _metadata(
    sample: Sample, scores: Mapping[str, dict[str, JsonValue]], place: SampleContext, left_out: Omissions
) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {}
    for key, value in sample.items():
        if key in _STORED_ELSEWHERE or value in (None, [], {}, ""):
            continue
        if key == "output":
            value = _without_last(value, _list(sample.get("messages")))
        elif key == "error":
            value = _unshown_parts(value)
        elif key == "error_retries":
            value = [_unshown_parts(retry) for retry in _list(value)]
        if len(_json(value)) > MAX_FIELD:
            left_out.add(f"the field `{key[:40]}` of a sample, which is too long", place.name)
        else:
            fields[key] = value
    return {
        **fields,
        "sample_id": sample.get("id"),
        "scorers": {name: {k: v for k, v in score.items() if k != "explanation"} for name, score in scores.items()},
        "eval": dict(place.header),
        "task": f"{records.safe_name(place.task.rpartition('/')[2])}/{records.safe_name(sample.get('id'))}",
        "scores": dict(score_values(scores)),
        "agent": dict(place.agent),
    }


def _unshown_parts(error: JsonValue) -> JsonValue:
    """Return the parts of an error that are not in any document."""
    if not isinstance(error, dict):
        return error
    return {name: part for name, part in error.items() if not name.startswith("traceback") and name != "events"}


def _without_last(value: JsonValue, messages: list[JsonValue]) -> JsonValue:
    """Return the sample's output without messages that are equal to the last answer of the conversation."""
    last = next((message for message in reversed(messages) if _object(message).get("role") == "assistant"), None)
    choices = _list(_object(value).get("choices"))
    if last is None or not choices or not isinstance(value, dict):
        return value
    return {**value, "choices": [_without(choice, last) for choice in choices]}


def _without(choice: JsonValue, message: JsonValue) -> JsonValue:
    if not isinstance(choice, dict) or choice.get("message") != message:
        return choice
    return {name: part for name, part in choice.items() if name != "message"}


def _documents(sample: Sample, scores: Mapping[str, dict[str, JsonValue]], events: str, last: str) -> list[Document]:
    documents: list[tuple[Role, str, str]] = [
        ("task", "input", "\n".join((_input(sample.get("input")), *_choices(sample.get("choices"))))),
        ("expected", "target", _text(sample.get("target"))),
        ("log", "traceback", _text(_object(sample, "error").get("traceback"))),
        ("log", "events", events),
        *(("log", f"scorer/{name}", _text(score.get("explanation"))) for name, score in scores.items()),
    ]
    messages = [_object(choice, "message") for choice in _list(_object(sample, "output").get("choices"))]
    for n, message in enumerate(messages):
        if (text := _text(message.get("content"))) != last or n:
            documents.append(("output", f"choice-{n + 1}", text))
    return [Document(role=role, path=path, text=text) for role, path, text in documents if text.strip()]


def _input(value: JsonValue) -> str:
    """Return the text of the task. If the task is a list of messages, the role is written before each message."""
    if not isinstance(value, list):
        return _text(value)
    return "\n\n".join(
        f"{message.get('role')}: {_content(message.get('content'))}" for message in value if isinstance(message, dict)
    )


def _choices(value: JsonValue) -> list[str]:
    """Return the answer choices, each preceded by its letter. A sample's target names a choice by its letter."""
    return [f"{_LETTERS[n]}) {records.safe_name(choice)}" for n, choice in enumerate(_list(value)[: len(_LETTERS)])]


def _content(value: JsonValue) -> str:
    if not isinstance(value, list):
        return _text(value)
    parts = [
        part if isinstance(part, str) else _object(part).get("text") or f"[{_object(part).get('type', 'part')}]"
        for part in value
    ]
    return "\n".join(map(str, parts))


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(value: object, key: str | None = None) -> dict[str, JsonValue]:
    """Return the value or, if `key` is given, the value's member `key`.

    If the result would not be an object, an empty object is returned.
    """
    member = value.get(key) if key is not None and isinstance(value, Mapping) else value if key is None else None
    return member if isinstance(member, dict) else {}


def _list(value: object) -> list[JsonValue]:
    return value if isinstance(value, list) else []

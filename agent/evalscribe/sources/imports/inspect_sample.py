"""One sample of an Inspect log as a record. What a record has no place for is kept in its metadata, or counted."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.evidence import Document, Role
from evalscribe.prose import cut
from evalscribe.record import Record
from evalscribe.run import Eval, EvalStatus, Step
from evalscribe.sources.imports import inspect_agents, inspect_events, inspect_scores, values
from evalscribe.sources.imports.left_out import LeftOut
from evalscribe.sources.imports.zip_members import LARGEST

LARGEST_KEPT = 20_000
"""Characters of a field that is kept in the metadata."""
_ATTACHMENT = "attachment://"
_ELSEWHERE = frozenset({"id", "messages", "scores", "score", "events", "transcript", "attachments", "input", "target"})
"""Fields that become something other than metadata."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Sample = Mapping[str, JsonValue]


class Place(NamedTuple):
    """Where a sample stands: what its log and the other samples say of it."""

    run_id: str
    task: str
    agent: Mapping[str, JsonValue]
    trial: int
    trials: int
    header: Mapping[str, JsonValue]
    """What the log says of all its samples, for the metadata."""
    name: str
    """Where it was found, for errors."""


def record(raw: Mapping[str, object], place: Place, left_out: LeftOut) -> Record:
    """Raises `DataError` for a sample that cannot be kept."""
    events = _list(_of(raw, "transcript").get("events") if "transcript" in raw else raw.get("events"))
    attachments = {**_of(_of(raw, "transcript"), "content"), **_of(raw, "attachments")}
    said = inspect_events.told(events, left_out)
    spoken = inspect_agents.conversations(
        events, _list(_of(raw, "events_data").get("messages")), _list(raw.get("messages")), left_out
    )
    plain = {key: value for key, value in raw.items() if key not in ("events", "transcript", "attachments")}
    for field in ("events_data", "timelines"):
        if plain.pop(field, None):
            left_out.add(f"the field `{field}` of a sample, which repeats its events")
    agents = [{"name": one.name, "messages": one.messages} for one in spoken]
    sample = values.safe(_Attachments(attachments).back_in({**plain, "said": said, "agents": agents}))
    assert isinstance(sample, dict)
    return _record(sample, place, left_out)


def _record(sample: dict[str, JsonValue], place: Place, left_out: LeftOut) -> Record:
    events, agents = str(sample.pop("said")), _list(sample.pop("agents"))
    scores = _scores(sample)
    name = values.line(sample.get("id"))
    uuid = sample.get("uuid")
    eval_id = uuid if isinstance(uuid, str) and uuid.isprintable() and 16 <= len(uuid) <= 80 else None
    eval_id = eval_id or values.eval_id(place.run_id, name, place.trial)
    spoken = values.transcript(f"{eval_id}-0", _list(sample.get("messages")), left_out, place.name)
    others = [
        values.transcript(f"{eval_id}-{n}", _list(one["messages"]), left_out, place.name, values.line(one["name"]))
        for n, one in enumerate(map(_of, agents), 1)
    ]
    steps = _steps(sample, scores)
    status = _status(sample, scores, left_out)
    failed = _failed(steps) if status == "failed" else None
    return Record(
        run_id=place.run_id,
        eval=Eval(
            id=eval_id,
            category=values.line(place.task.rpartition("/")[2]),
            name=name,
            trial=place.trial,
            trials=place.trials,
            status=status,
            failed_step=failed.name if failed else None,
            reason=_invalid(sample) or (_error(sample) if status == "error" else failed.error if failed else None),
        ),
        metadata=_metadata(sample, scores, place, left_out),
        transcripts=tuple(one for one in (spoken, *others) if one.messages),
        steps=steps,
        documents=tuple(_documents(sample, scores, events, spoken.messages[-1].content if spoken.messages else "")),
        missing=() if spoken.messages else ("the sample has no messages",),
    )


class _Attachments:
    """Texts that stand elsewhere because they are long. What refers to one again and again is put back once too often
    by nobody but a hostile file: beyond `LARGEST` characters the reference stays."""

    def __init__(self, texts: Mapping[str, object]) -> None:
        self._texts = texts
        self._room = LARGEST

    def back_in(self, value: object) -> object:
        """The value with what stands in place of a long text put back."""
        if isinstance(value, str):
            return self._text(value) if value.startswith(_ATTACHMENT) else value
        if isinstance(value, list):
            return [self.back_in(item) for item in value]
        if isinstance(value, dict):
            return {key: self.back_in(item) for key, item in value.items()}
        return value

    def _text(self, reference: str) -> object:
        text = self._texts.get(reference.removeprefix(_ATTACHMENT), reference)
        self._room -= len(text) if isinstance(text, str) else 0
        return text if self._room >= 0 else reference


def _scores(sample: Sample) -> dict[str, dict[str, JsonValue]]:
    """By scorer, the main one first. The first versions had one without a name."""
    given = sample.get("scores")
    if not isinstance(given, dict):
        given = {"score": sample["score"]} if isinstance(sample.get("score"), dict) else {}
    named = {"score" if name == inspect_scores.PLACEHOLDER else name: score for name, score in given.items()}
    return {name: score if isinstance(score, dict) else {"value": score} for name, score in named.items()}


def _status(sample: Sample, scores: Mapping[str, dict[str, JsonValue]], left_out: LeftOut) -> EvalStatus:
    if _invalid(sample):
        return "incomplete"
    if sample.get("error"):
        return "error"
    main = inspect_scores.main(next(iter(scores.values()), {}))
    if main is not None and main > 1:
        left_out.add("a score above 1, which says neither passed nor failed")
    if main is None or main > 1:
        return "failed" if sample.get("limit") and not scores else "incomplete"
    return "passed" if main == 1 else "failed"


def _steps(sample: Sample, scores: Mapping[str, dict[str, JsonValue]]) -> tuple[Step, ...]:
    steps = []
    if limit := _limit(sample):
        main = inspect_scores.main(next(iter(scores.values()), {}))
        steps.append(Step(name="limit", status="passed" if main == 1 else "failed", error=None if main == 1 else limit))
    for name, score in scores.items():
        number = inspect_scores.main(score)
        if number is not None and number <= 1:
            error = None if number == 1 else _scored(score, sample)
            steps.append(Step(name=values.line(name), status="failed" if error else "passed", error=error))
    return tuple(steps)


def _invalid(sample: Sample) -> str | None:
    """Who said afterwards that the sample is not to be counted, and why."""
    if not sample.get("invalidation"):
        return None
    told = _of(sample, "invalidation")
    by, why = (values.line(told[key]) if told.get(key) else "" for key in ("author", "reason"))
    return "it was declared invalid" + (f" by {by}" if by else "") + (f": {why}" if why else "")


def _failed(steps: tuple[Step, ...]) -> Step | None:
    return next((step for step in steps if step.status == "failed"), None)


def _limit(sample: Sample) -> str | None:
    limit = sample.get("limit")
    if not limit:
        return None
    told = _of(sample, "limit")
    reason, most = told.get("reason"), told.get("limit", "the run")
    most = f"{most:g}" if isinstance(most, float) else most
    return f"the {told.get('type', limit)} limit of {most} was reached" + (f": {values.line(reason)}" if reason else "")


def _scored(score: Sample, sample: Sample) -> str:
    answer, target = score.get("answer"), sample.get("target")
    told = f"scored {_text(score.get('value'))}"
    answered = f", answered {cut(values.line(answer), 160)!r}" if answer else ""
    return told + answered + (f", expected {cut(values.line(_text(target)), 160)!r}" if target else "")


def _error(sample: Sample) -> str:
    error = sample.get("error")
    return _text(_of(sample, "error").get("message")) or _text(error)


def _metadata(
    sample: Sample, scores: Mapping[str, dict[str, JsonValue]], place: Place, left_out: LeftOut
) -> dict[str, JsonValue]:
    kept: dict[str, JsonValue] = {}
    for key, value in sample.items():
        if key in _ELSEWHERE or value in (None, [], {}, ""):
            continue
        if key == "output":
            value = _without_last(value, _list(sample.get("messages")))
        elif key == "error":
            value = _told(value)
        elif key == "error_retries":
            value = [_told(one) for one in _list(value)]
        if len(_json(value)) > LARGEST_KEPT:
            left_out.add(f"the field `{key[:40]}` of a sample, which is too long", place.name)
        else:
            kept[key] = value
    return {
        **kept,
        "sample_id": sample.get("id"),
        "scorers": {name: {k: v for k, v in score.items() if k != "explanation"} for name, score in scores.items()},
        "eval": dict(place.header),
        "task": f"{values.line(place.task.rpartition('/')[2])}/{values.line(sample.get('id'))}",
        "scores": dict(inspect_scores.numbers(scores)),
        "agent": dict(place.agent),
    }


def _told(error: JsonValue) -> JsonValue:
    """An error without what a document or nothing holds of it."""
    if not isinstance(error, dict):
        return error
    return {name: part for name, part in error.items() if not name.startswith("traceback") and name != "events"}


def _without_last(value: JsonValue, messages: list[JsonValue]) -> JsonValue:
    """The output without the message that is the last one too, as it mostly is."""
    last = next((one for one in reversed(messages) if _of(one).get("role") == "assistant"), None)
    choices = _list(_of(value).get("choices"))
    if last is None or not choices or not isinstance(value, dict):
        return value
    return {**value, "choices": [_without(choice, last) for choice in choices]}


def _without(choice: JsonValue, message: JsonValue) -> JsonValue:
    if not isinstance(choice, dict) or choice.get("message") != message:
        return choice
    return {name: part for name, part in choice.items() if name != "message"}


def _documents(sample: Sample, scores: Mapping[str, dict[str, JsonValue]], events: str, last: str) -> list[Document]:
    found: list[tuple[Role, str, str]] = [
        ("task", "input", "\n".join((_input(sample.get("input")), *_choices(sample.get("choices"))))),
        ("expected", "target", _text(sample.get("target"))),
        ("log", "traceback", _text(_of(sample, "error").get("traceback"))),
        ("log", "events", events),
        *(("log", f"scorer/{name}", _text(score.get("explanation"))) for name, score in scores.items()),
    ]
    messages = [_of(choice, "message") for choice in _list(_of(sample, "output").get("choices"))]
    for n, message in enumerate(messages):
        if (text := _text(message.get("content"))) != last or n:
            found.append(("output", f"choice-{n + 1}", text))
    return [Document(role=role, path=path, text=text) for role, path, text in found if text.strip()]


def _input(value: JsonValue) -> str:
    """The task's text; of messages each with who says it."""
    if not isinstance(value, list):
        return _text(value)
    return "\n\n".join(f"{one.get('role')}: {_content(one.get('content'))}" for one in value if isinstance(one, dict))


def _choices(value: JsonValue) -> list[str]:
    """The answers that a question gives to choose from, by the letters that targets name."""
    return [f"{_LETTERS[n]}) {values.line(choice)}" for n, choice in enumerate(_list(value)[: len(_LETTERS)])]


def _content(value: JsonValue) -> str:
    if not isinstance(value, list):
        return _text(value)
    parts = [
        one if isinstance(one, str) else _of(one).get("text") or f"[{_of(one).get('type', 'part')}]" for one in value
    ]
    return "\n".join(map(str, parts))


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else "" if value is None else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _of(value: object, key: str | None = None) -> dict[str, JsonValue]:
    """The object, or the one that it holds under a name; empty where there is none."""
    held = value.get(key) if key is not None and isinstance(value, Mapping) else value if key is None else None
    return held if isinstance(held, dict) else {}


def _list(value: object) -> list[JsonValue]:
    return value if isinstance(value, list) else []

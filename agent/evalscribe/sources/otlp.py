"""Read traces of agents in OTLP JSON that follow OpenTelemetry's GenAI conventions or OpenInference.

Each trace is an eval. The spans of a trace can be scattered over a file, so a temporary database on disk is used to
sort them.
"""

import base64
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import DataError, EvalscribeError
from evalscribe.model.evidence import Document
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import FileReader
from evalscribe.sources.otlp_messages import AGENTS, EVALUATION, Span, conversations, is_of_a_model, json_of, parents_of
from evalscribe.sources.recognition import FileStart, Format
from evalscribe.sources.records import (
    MAX_STEPS,
    EvalReader,
    SourceEval,
    SourceRun,
    as_text,
    dicts,
    distinct_names,
    figure,
    first_lines,
    object_of,
    score_number,
    scores_log,
    text_of,
)
from evalscribe.sources.streams import JsonStream
from evalscribe.text import cut, one_line

NAME = "otlp"
MAX_SPANS = 10_000
"""Maximum number of spans and log records, counted together, in one trace."""
MAX_TRACE_CHARS = 64 * 1024 * 1024
MAX_SIBLINGS = 200
MAX_NAME = 80
_SPANS, _LOGS = ("resourceSpans", "resource_spans"), ("resourceLogs", "resource_logs")
_INNER = {
    **dict.fromkeys(_SPANS, (("scopeSpans", "scope_spans", "instrumentationLibrarySpans"), ("spans",))),
    **dict.fromkeys(_LOGS, (("scopeLogs", "scope_logs", "instrumentationLibraryLogs"), ("logRecords", "log_records"))),
}
_HEX = re.compile(r"(?:[0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_OTHER_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,19}")
_UNDERSCORE = re.compile(r"_([a-z])")
_PASSED = frozenset(
    ("pass", "passed", "correct", "yes", "true", "success", "successful", "good", "factual", "relevant", "non-toxic")
)
_FAILED = frozenset(
    ("fail", "failed", "incorrect", "no", "false", "failure", "bad", "hallucinated", "irrelevant", "unrelated", "toxic")
)
"""Labels that mean that an eval failed.

A label that is neither in `_FAILED` nor in `_PASSED`, such as the name of a class, is not a verdict.
"""
_MODEL = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")
_PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_COST = ("gen_ai.usage.cost", "operation.cost", "llm.cost.total")
_CONVERSATION = ("gen_ai.conversation.id", "session.id")


class Otlp(EvalReader):
    format = NAME

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._traces: _Traces | None = None
        self._damage: DataError | None = None

    def evals(self) -> Iterator[SourceEval]:
        if self._traces is None:
            self._traces = _Traces()
            self._gather(self._traces)
        for trace, spans, logs, unread in self._traces.read():
            if unread:
                self._omit("a span of a trace that is too large", trace, unread)
            if spans and not any(is_of_a_model(span) for span in spans):
                self._omit("a trace that calls no model", trace)
            elif spans or any(EVALUATION in text_of(log["name"]) for log in logs):
                yield _eval(trace, spans, logs, self._overrides.threshold)
        if self._damage:
            raise self._damage

    def _gather(self, traces: "_Traces") -> None:
        """Read the spans, and the log records that belong to them.

        If the user named a file with spans, the other files of the folder are also searched for log records. If the
        user named a file with log records, the other files are searched for spans.
        """
        spans = self._path
        if not _has_records(spans, _SPANS):
            trace_ids = _trace_ids(spans, _LOGS)
            shared = {path: len(trace_ids & _trace_ids(path, _SPANS)) for path in _siblings(spans, _SPANS)}
            spans = max(shared, key=lambda path: shared[path], default=spans)
            spans = spans if shared.get(spans) else self._path
        try:
            with self._open(spans) as reading:
                for kind, record in _members(JsonStream(reading, str(spans)), (*_SPANS, *_LOGS)):
                    traces.add(kind, record)
        except DataError as error:
            self._damage = error
        # Evaluations are often made later than the spans, and exported to another file.
        for path in _siblings(spans, _LOGS):
            with suppress(EvalscribeError):
                for kind, record in _members_of(path, _LOGS):
                    traces.add(kind, record, in_known_traces=True)


def _siblings(path: Path, kinds: Sequence[str]) -> Iterator[Path]:
    """Yield the other files in a file's folder that contain records of the given kinds. Links are left out."""
    with suppress(OSError):
        paths = sorted(
            sibling
            for sibling in path.parent.iterdir()
            if sibling.suffix in (".json", ".jsonl", ".gz") and sibling != path
        )
        for sibling in paths[:MAX_SIBLINGS]:
            with suppress(EvalscribeError):
                if not sibling.is_symlink() and sibling.is_file() and _has_records(sibling, kinds):
                    yield sibling


def _has_records(path: Path, kinds: Sequence[str]) -> bool:
    """Return whether the beginning of a file contains the name of one of the given kinds of records."""
    beginning = FileStart(path).bytes
    return any(f'"{kind}"'.encode() in beginning for kind in kinds)


def _trace_ids(path: Path, kinds: Sequence[str]) -> set[str]:
    trace_ids: set[str] = set()
    with suppress(DataError):
        for _, record in _members_of(path, kinds):
            trace_ids.add(text_of(record.get("traceId")))
    return trace_ids - {""}


def _members_of(path: Path, kinds: Sequence[str]) -> Iterator[tuple[str, dict[str, object]]]:
    with FileReader(path) as reading:
        yield from _members(JsonStream(reading, str(path)), kinds)


def _members(text: JsonStream, kinds: Sequence[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each record in the OTLP requests of a file, together with its kind: `span` or `log`."""
    while text.peek():
        for name in text.names():
            if name not in kinds:
                text.skip()
                continue
            scopes, items = _INNER[name]
            for _ in _objects(text):
                resource: dict[str, object] = {}
                for part in text.names():
                    if part == "resource":
                        resource = _attributes(object_of(text.value()).get("attributes"))
                    elif part in scopes:
                        yield from _scope_records(text, items, resource)
                    else:
                        text.skip()


def _scope_records(
    text: JsonStream, items: Sequence[str], resource: Mapping[str, object]
) -> Iterator[tuple[str, dict[str, object]]]:
    for _ in _objects(text):
        for name in text.names():
            if name not in items or text.peek() != "[":
                text.skip()
                continue
            for record in text.elements():
                if isinstance(record, dict):
                    yield ("span" if "spans" in items else "log"), _cleaned(record, resource)


def _objects(text: JsonStream) -> Iterator[None]:
    """Yield once before each object of the list that begins at the current position.

    The caller must then read the object. Elements that are not objects are skipped.
    """
    if text.peek() != "[":
        text.skip()
        return
    for _ in text.places():
        if text.peek() == "{":
            yield
        else:
            text.skip()


def _cleaned(record: Mapping[str, object], resource: Mapping[str, object]) -> dict[str, object]:
    """Return a span or log record with simplified values: ids as hex, and attributes as objects."""
    # Protobuf's JSON printer can write names of fields in snake case, and enums such as the status by their names.
    fields = {_UNDERSCORE.sub(lambda match: match[1].upper(), name): value for name, value in record.items()}
    status = object_of(fields.get("status"))
    attributes = _attributes(fields.get("attributes"))
    return {
        "traceId": _id(fields.get("traceId")),
        "spanId": _id(fields.get("spanId")),
        "parent": _id(fields.get("parentSpanId")),
        "name": text_of(fields.get("eventName"))
        or text_of(attributes.get("event.name"))
        or text_of(fields.get("name")),
        "start": _nanoseconds(fields.get("startTimeUnixNano") or fields.get("timeUnixNano")),
        "end": _nanoseconds(fields.get("endTimeUnixNano")),
        "attributes": attributes,
        "events": [
            {"name": text_of(event.get("name")), "attributes": _attributes(event.get("attributes"))}
            for event in dicts(fields.get("events"))
        ],
        "failed": status.get("code") in (2, "2", "STATUS_CODE_ERROR"),
        "message": text_of(status.get("message")),
        "service": text_of(resource.get("service.name")),
        "body": _value(fields.get("body")),
    }


def _id(value: object) -> str:
    """Return an id as hex. An id in base64, as Protobuf's JSON printer writes ids, is converted."""
    text = text_of(value).strip()
    if not text or _HEX.fullmatch(text):
        return text.lower()
    with suppress(ValueError):
        return base64.b64decode(text, validate=True).hex()
    return text if _OTHER_ID.fullmatch(text) else ""


def _nanoseconds(value: object) -> int:
    # In JSON, Protobuf writes integers of 64 bits as texts.
    number = int(value) if isinstance(value, int) or (isinstance(value, str) and _DIGITS.fullmatch(value)) else 0
    return number if 0 < number < 2**63 else 0


def _attributes(pairs: object) -> dict[str, object]:
    return {text_of(pair.get("key")): _value(pair.get("value")) for pair in dicts(pairs)}


def _value(any_value: object, levels: int = 40) -> object:
    """Convert an `AnyValue` of OTLP to a plain value."""
    if not isinstance(any_value, dict) or not levels:
        return None
    for kind, value in any_value.items():
        name = _UNDERSCORE.sub(lambda match: match[1].upper(), kind)
        if name == "intValue":
            return int(value) if isinstance(value, int) or re.fullmatch(r"-?\d{1,18}", text_of(value)) else None
        if name == "arrayValue":
            return [_value(entry, levels - 1) for entry in dicts(object_of(value).get("values"))]
        if name == "kvlistValue":
            values = dicts(object_of(value).get("values"))
            return {text_of(entry.get("key")): _value(entry.get("value"), levels - 1) for entry in values}
        if name in ("stringValue", "doubleValue", "boolValue", "bytesValue"):
            return value
    return None


class _Traces:
    """Spans and log records in a temporary SQLite file.

    The database groups the spans and log records by trace without using much memory.
    """

    def __init__(self) -> None:
        # An empty name means a temporary file, which SQLite deletes when it is closed. Nothing in it must survive a
        # crash, so it needs no journal.
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE parts (trace TEXT, kind TEXT, start INTEGER, number INTEGER PRIMARY KEY, body TEXT);"
            "CREATE TABLE traces (trace TEXT PRIMARY KEY) WITHOUT ROWID;"
            "BEGIN"
        )
        self._indexed = False

    def add(self, kind: str, record: Mapping[str, object], *, in_known_traces: bool = False) -> None:
        trace = text_of(record.get("traceId"))
        if not trace or (
            in_known_traces and not self._database.execute("SELECT 1 FROM traces WHERE trace = ?", (trace,)).fetchone()
        ):
            return
        values = (trace, kind, record["start"], json.dumps(record))
        self._database.execute("INSERT INTO parts VALUES (?, ?, ?, NULL, ?)", values)
        self._database.execute("INSERT OR IGNORE INTO traces VALUES (?)", (trace,))

    def read(self) -> Iterator[tuple[str, list[Span], list[dict[str, object]], int]]:
        """Yield the id, spans and log records of each trace, and the number of records that were left out because of
        the limits.

        Traces are in the order of their start times, and so are the spans and log records of each trace.
        """
        if not self._indexed:
            # The index is created after all rows are inserted, so that it is not updated for each row.
            self._database.execute("CREATE INDEX by_trace ON parts (trace, start, number)")
            self._indexed = True
        begun = "SELECT trace, count(*) FROM parts GROUP BY trace ORDER BY MIN(start), MIN(number)"
        with closing(self._database.execute(begun)) as traces:
            for trace, parts in traces:
                spans: dict[str, Span] = {}
                logs: list[dict[str, object]] = []
                size = returned = 0
                query = "SELECT kind, body FROM parts WHERE trace = ? ORDER BY start, number LIMIT ?"
                for kind, body in self._database.execute(query, (trace, MAX_SPANS)):
                    size += len(body)
                    if size > MAX_TRACE_CHARS:
                        break
                    returned += 1
                    record = json.loads(body)
                    if kind == "log":
                        logs.append(record)
                    else:
                        # A file that was joined from several can contain a span twice.
                        spans.setdefault(record["spanId"] or str(returned), Span(**record))
                yield trace, list(spans.values()), logs, parts - returned


class _Evaluation(NamedTuple):
    name: str
    score: float | None
    label: str
    explanation: str
    error: str

    def verdict(self, threshold: float | None) -> EvalStatus | None:
        label = self.label.strip().lower().replace("_", "-")
        if label in _PASSED or label in _FAILED:
            return "passed" if label in _PASSED else "failed"
        # A label such as `neutral` shows that the score is not a verdict, unless the user sets a threshold.
        if self.score is None or (label and threshold is None):
            return None
        if threshold is not None:
            return "passed" if self.score >= threshold else "failed"
        return "passed" if self.score == 1 else "failed" if self.score == 0 else None


def _eval(trace: str, spans: Sequence[Span], logs: Sequence[dict[str, object]], threshold: float | None) -> SourceEval:
    parents = parents_of(spans)
    evaluators = {span.spanId for span in spans if span.kind == "EVALUATOR"}
    # The model calls and tokens of an evaluator are not the agent's.
    agent_spans = [span for span in spans if not evaluators & {span.spanId, *parents[span.spanId]}]
    roots = [span for span in agent_spans if not parents[span.spanId]]
    root = next((span for span in roots if span.kind in AGENTS), next(iter(roots), None))
    calls = [span for span in agent_spans if span.kind == "LLM"]
    trace_conversations = conversations(agent_spans, parents, logs)
    task = _first_words(trace_conversations, "user")
    evaluations = list(islice(_evaluations(spans, logs), MAX_STEPS + 1))
    is_truncated = len(evaluations) > MAX_STEPS
    evaluations = evaluations[:MAX_STEPS]
    names = distinct_names(evaluation.name for evaluation in evaluations)
    steps = [_step(name, evaluation, threshold) for name, evaluation in zip(names, evaluations, strict=True)]
    scores = {
        name: evaluation.score
        for name, evaluation in zip(names, evaluations, strict=True)
        if evaluation.score is not None
    }
    verdicts = [evaluation.verdict(threshold) for evaluation in evaluations]
    status, reason = _status(root, agent_spans, verdicts)
    raised = next((step for step in steps if step.status == "skipped" and step.error), None)
    if status == "incomplete" and raised:
        status, reason = "error", f"the grader `{raised.name}` raised: {raised.error}"
    attributes = root.attributes if root else {}
    conversation_id = _first_of([attributes], _CONVERSATION)
    return SourceEval(
        run=_run(root, agent_spans),
        name=_short(task) or conversation_id or (root.name if root else "") or trace,
        status=status,
        reason=reason,
        place=f"trace {trace}",
        steps=steps,
        documents=(
            Document(role="task", path="input", text=task),
            *((_errors(agent_spans),) if status == "error" else ()),
            *((scores_log(steps, scores),) if steps else ()),
            *((_errors(agent_spans),) if status != "error" else ()),
        ),
        conversations=trace_conversations,
        scores=scores,
        metadata={
            "trace_id": trace,
            "conversation_id": conversation_id or None,
            "evaluations": [evaluation._asdict() for evaluation in evaluations],
            "agent_name": _first_of([attributes], ("gen_ai.agent.name", "agent.name")) or None,
            "metadata": json_of(attributes.get("metadata")),
            "spans": len(spans),
        },
        missing=[
            *([] if trace_conversations else ["the messages were not recorded"]),
            *([f"evaluations after the first {MAX_STEPS:,}"] if is_truncated else []),
        ],
        started_at=_time(min((span.start for span in agent_spans if span.start), default=0)),
        ended_at=_time(max((span.end for span in agent_spans), default=0)),
        input_tokens=_sum(calls, root, _INPUT),
        output_tokens=_sum(calls, root, _OUTPUT),
        cost_usd=_sum(calls, root, _COST),
    )


def _evaluations(spans: Sequence[Span], logs: Sequence[Mapping[str, object]]) -> Iterator[_Evaluation]:
    """Yield each evaluation once, even if it was exported twice: as an event and as a log record."""
    yielded: set[_Evaluation] = set()
    events = [object_of(event) for span in spans for event in span.events] + [dict(log) for log in logs]
    attribute_sets = [
        object_of(event.get("attributes")) for event in events if EVALUATION in text_of(event.get("name"))
    ]
    attribute_sets += [
        span.attributes for span in spans if span.kind == "EVALUATOR" or "evaluation.name" in span.attributes
    ]
    for attributes in attribute_sets:
        prefix = "gen_ai.evaluation." if "gen_ai.evaluation.name" in attributes else "evaluation."
        fields = {name.removeprefix(prefix): value for name, value in attributes.items() if name.startswith(prefix)}
        evaluation = _Evaluation(
            name=as_text(fields.get("name")) or "evaluation",
            score=score_number(fields.get("score.value", fields.get("score"))),
            label=as_text(fields.get("score.label", fields.get("label"))),
            explanation=as_text(fields.get("explanation")),
            error=as_text(attributes.get("error.type")),
        )
        if evaluation not in yielded:
            yielded.add(evaluation)
            yield evaluation


def _step(name: str, evaluation: _Evaluation, threshold: float | None) -> Step:
    verdict = evaluation.verdict(threshold)
    if verdict is None:
        return Step(name=name, status="skipped", error=evaluation.error or None)
    if verdict == "passed":
        return Step(name=name, status="passed")
    explanation = evaluation.explanation or (f"label {evaluation.label}" if evaluation.label else "")
    return Step(
        name=name,
        status="failed",
        error=explanation or f"score {evaluation.score:g}" if evaluation.score is not None else explanation,
    )


def _status(
    root: Span | None, spans: Sequence[Span], verdicts: Sequence[EvalStatus | None]
) -> tuple[EvalStatus, str | None]:
    # Only the agent's own span decides, because an agent can go on after a call or a tool that failed.
    if root is not None and root.failed and "passed" not in verdicts:
        errors = [root.error, *(span.error for span in spans if span.failed and span.kind == "LLM")]
        return "error", first_lines(max(errors, key=len)) or f"`{root.name}` failed"
    if "failed" in verdicts:
        return "failed", None
    if "passed" in verdicts:
        return "passed", None
    return "incomplete", "the trace has no evaluation" if not verdicts else "no evaluation is a verdict"


def _errors(spans: Sequence[Span]) -> Document:
    """Return a log of the spans that failed.

    The log includes the spans of failed tools, even if the agent's own span did not fail.
    """
    lines = [f"{span.name}: {span.error}" + (f"\n{span.trace}" if span.trace else "") for span in spans if span.failed]
    return Document(role="log", path="errors.log", text="\n".join(lines))


def _run(root: Span | None, spans: Sequence[Span]) -> SourceRun:
    attribute_sets = [*([root.attributes] if root else []), *(span.attributes for span in spans)]
    model, provider = _first_of(attribute_sets, _MODEL), _first_of(attribute_sets, _PROVIDER)
    service = next((span.service for span in spans if span.service), "")
    return SourceRun(
        key=json.dumps([service, provider, model]),
        provider=provider or None,
        model=model or None,
        experiment=service if service and not service.startswith("unknown_service") else "default",
    )


def _first_of(attribute_sets: Sequence[Mapping[str, object]], names: Sequence[str]) -> str:
    return next(
        (text for attributes in attribute_sets for name in names if (text := text_of(attributes.get(name)))), ""
    )


def _sum(calls: Sequence[Span], root: Span | None, names: Sequence[str]) -> float | None:
    """Return the sum of a figure over the model calls.

    If no call states this figure, return the total in the agent's span.
    """
    # The agent's span repeats the totals of its calls, so only one of the two may be counted.
    for spans in (calls, [root] if root else []):
        numbers = [
            value
            for span in spans
            if (value := next((n for name in names if (n := figure(span.attributes.get(name))) is not None), None))
            is not None
        ]
        if numbers:
            return sum(numbers)
    return 0 if calls and all(call.failed for call in calls) else None


def _first_words(trace_conversations: Sequence[tuple[str | None, Sequence[object]]], role: str) -> str:
    messages = (object_of(message) for _, messages in trace_conversations[:1] for message in messages)
    return next(
        (
            as_text(message.get("content"))
            for message in messages
            if message.get("role") == role and message.get("content")
        ),
        "",
    )


def _short(text: str) -> str:
    return cut(one_line(text), MAX_NAME)


def _time(nanoseconds: int) -> str | None:
    with suppress(OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds else None
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None
    return None


def _recognise(start: FileStart) -> str | None:
    for kinds in (_SPANS, _LOGS):
        if name := next((name for name in kinds if name in start.first), None):
            return f"it has `{name}`"
    return None


FORMATS = (
    Format(
        name=NAME,
        title="OpenTelemetry traces (OTLP JSON)",
        used=frozenset(("threshold",)),
        open=Otlp,
        recognise=lambda start, _: _recognise(start),
        a_run="the traces of a service with a model",
        an_eval="a trace; traces with the same first message are trials",
        passed="a label such as `pass`, or a score of 1 without a label; with `threshold`, a score of at least that",
        versions="GenAI conventions 1.38 and before 1.37, OpenInference 0.1.42",
        names=("resourceSpans", "resourceLogs"),
        fields={
            "gen_ai.input.messages, gen_ai.output.messages": "transcript, one for each agent",
            "llm.input_messages.*, llm.output_messages.*": "the same in OpenInference",
            "gen_ai.user.message, gen_ai.choice … (events, log records)": "the same before 1.37",
            "gen_ai.evaluation.result (events, log records, also in files beside it)": "steps and scores",
            "evaluation.* (spans of kind EVALUATOR)": "the same in OpenInference",
            "status, exception": "status of the eval if the agent's span failed; else the log",
            "gen_ai.request.model, llm.model_name": "model",
            "gen_ai.provider.name, gen_ai.system, llm.provider": "provider",
            "service.name": "experiment",
            "gen_ai.usage.*, llm.token_count.*": "tokens",
            "traces without a model call": "not imported, only counted",
        },
    ),
)

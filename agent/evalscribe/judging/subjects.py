"""Build subjects. A subject consists of items that a judge sees and cites by their marks."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evalscribe.ids import Frozen, content_id
from evalscribe.judging.prompt_text import Delimiter, number_whole_lines, one_line, quote_json, show_invisible
from evalscribe.judging.quotations import Haystack
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.finding import Precedent
from evalscribe.model.result import CitationTarget, JudgeResult, ResultType
from evalscribe.model.transcript import (
    AgentRun,
    AssistantMessage,
    ChatMessage,
    ToolMessage,
    Transcript,
    TranscriptToolCall,
)
from evalscribe.redaction.redact import redact_json

_INDEX = re.compile(r"[0-9]{1,9}")
_ENDS = ("]", ",", ";", ":<RANGE>", ": <RANGE>")
MOST_STEPS = 10_000
"""Maximum number of steps in matching one cited key.

Hostile metadata can contain ambiguous keys, for which matching would otherwise take very long.
"""


@dataclass(frozen=True)
class KeyedValue:
    """The value of a cited key. `end` is the offset of the first character after the key in the citing text."""

    value: Any
    end: int


def find_value(metadata: Any, text: str, at: int = 0) -> KeyedValue | None:
    """Return the metadata value whose key begins at offset `at` of the text; None if no key begins there.

    If several keys match, the longest key is used.
    """
    reached = list(_walk_keys(metadata, text, at, [MOST_STEPS]))
    return max(reached, key=lambda value: value.end, default=None)


def _walk_keys(node: Any, text: str, at: int, remaining_steps: list[int]) -> Iterator[KeyedValue]:
    for end, child in _children(node, text, at):
        remaining_steps[0] -= 1
        if remaining_steps[0] < 0:
            return
        if end == len(text) or text.startswith(_ENDS, end):
            yield KeyedValue(child, end)
        if text.startswith(".", end):
            yield from _walk_keys(child, text, end + 1, remaining_steps)
        elif text.startswith("[", end) and isinstance(child, list):
            yield from _walk_keys(child, text, end, remaining_steps)


def _children(node: Any, text: str, at: int) -> Iterator[tuple[int, Any]]:
    """Yield the children of `node` whose key or index begins at offset `at` of the text.

    Each child is yielded as a pair: the offset at which its key or index ends, and its value.
    """
    if isinstance(node, dict):
        # A key can contain dots and brackets itself, so the text is compared with the existing keys instead of being
        # split.
        for length in {len(key) for key in node}:
            key = text[at : at + length]
            if key in node and length:
                yield at + length, node[key]
    elif isinstance(node, list):
        bracket = text.startswith("[", at)
        index = _INDEX.match(text, at + bracket)
        if index and int(index[0]) < len(node) and (not bracket or text.startswith("]", index.end())):
            yield index.end() + bracket, node[int(index[0])]


def value_text(value: Any) -> str:
    """Render a metadata value as text: strings unchanged, other values as indented JSON."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def render_object(value: Mapping[str, Any]) -> str:
    """Render one line `key: value` for each key. A string with several lines is rendered on the lines below its key."""
    return "\n".join(_entries(value))


def _entries(value: Mapping[str, Any]) -> Iterator[str]:
    for key, part in value.items():
        text = part if isinstance(part, str) else as_json(part)
        yield f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


_RUN = """\
- `[R0]` cites an agent run as a whole, `[T0]` a transcript."""
_BLOCK = """\
- `[T0B1]` cites block 1 of transcript 0 as a whole; `[T0B1:<RANGE>text</RANGE>]` cites what it says there."""
_METADATA = """\
- `[{mark}.key]`, with dots for keys inside keys, cites a value of that metadata."""
_RESULT = """\
- `[A0]` cites an earlier result as a whole; `[A0:<RANGE>text</RANGE>]` cites what it says."""
_ITEM = """\
- `[{mark}]` cites that item as a whole; `[{mark}:<RANGE>text</RANGE>]` cites what it says."""
_DOCUMENT = """\
- `[role path:3-9]` cites lines of a document, role and path as they stand in its opening delimiter, `[role path:3]` one
  line; `[role path:3-9:<RANGE>text</RANGE>]` cites what these lines say."""
_RULES = """\
What stands between <RANGE> and </RANGE> is compared with that very item: copy it exactly and in whole words, keep its
line breaks, leave nothing out, and leave out line numbers and delimiters. White space may differ. One citation per
statement is enough; a citation that does not hold counts against the answer."""


def citation_help(marks: Sequence[str], *, numbered: bool) -> str:
    """Return instructions for citing items with these marks.

    `numbered`: whether the subject has documents with line numbers.
    """
    metadata = next((mark for mark in marks if mark.endswith("M")), None)
    word_mark = next((mark for mark in marks if mark.isalpha()), None)
    instructions = (
        _RUN if "R0" in marks else None,
        _BLOCK if any(mark.startswith("T") and "B" in mark for mark in marks) else None,
        _METADATA.format(mark=metadata) if metadata else None,
        _DOCUMENT if numbered else None,
        _ITEM.format(mark=word_mark) if word_mark else None,
        _RESULT if "A0" in marks else None,
    )
    listed = "\n".join(instruction for instruction in instructions if instruction)
    return f"Cite what you rely on, in square brackets, inside the strings that may hold citations:\n{listed}\n{_RULES}"


class SubjectItem(Frozen):
    """One text of a subject, with the mark by which it is cited."""

    mark: str
    """Name of the item in citations, such as `T0B1`, `R0M`, `A0`, `failure` or `output src/main.py`."""
    about: str
    """Description shown in the opening delimiter. The description is not part of `text`, so it cannot be quoted."""
    text: str
    """The recorded text, which can be quoted. Offsets of citations count code points of this text."""
    target: CitationTarget
    """Target of citations that cite the entire item."""
    numbered: bool = False
    """True if the item's lines are shown with numbers, so that they can be cited."""
    first: int = 1
    """Number of the first line of `text`."""
    labels: tuple[tuple[int, str], ...] = ()
    """Labels of parts of `text`, each with the offset at which its part begins, sorted by offset.

    Labels are not part of `text`, so they cannot be quoted.
    """
    metadata: dict[str, Any] | None = None
    """Metadata that `text` shows as JSON. Keys of the metadata can be cited, as in `R0M.scores.reward`."""


class Subject(Frozen):
    """The items that a judge sees and can cite in one judgement."""

    id: str
    """Id of an agent run, or `<run id>/<eval path>` for a failed eval."""
    digest: str
    """Content id of everything about the subject that a judge can see."""
    items: tuple[SubjectItem, ...]

    @classmethod
    def of(cls, id: str, items: Sequence[SubjectItem]) -> "Subject":
        """Create a subject with the digest of its items."""
        content = [[item.mark, item.about, item.text, item.numbered, item.first, item.labels] for item in items]
        return cls(id=id, digest=content_id(content), items=tuple(items))

    def text(self, items: Sequence[SubjectItem] | None = None) -> str:
        """Render the given items, or all items if None, between delimiters for a prompt."""
        return "\n".join(self._block(item) for item in (self.items if items is None else items))

    @property
    def citation_help(self) -> str:
        """Instructions for citing the items of this subject."""
        numbered = any(item.numbered for item in self.items)
        return citation_help(tuple(item.mark for item in self.items if not item.numbered), numbered=numbered)

    def item(self, mark: str) -> SubjectItem | None:
        number = self.numbers.get(mark)
        return None if number is None else self.items[number]

    def text_of(self, target: CitationTarget) -> str | None:
        """Return the text to which a target's offsets refer; None if the subject does not contain the target.

        The target is either an item or a cited metadata value.
        """
        key = target.metadata_key
        item = self.item(target.item.removesuffix(f".{key}") if key else target.item)
        if item is None or not key:
            return item.text if item else None
        value = find_value(item.metadata, key)
        return value_text(value.value) if value and value.end == len(key) else None

    def __copy__(self) -> "Subject":
        """Copy the subject without its cached properties, because `model_copy` can change the items afterwards."""
        return Subject.model_construct(id=self.id, digest=self.digest, items=self.items)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Index of each item by its mark. If several items have the same mark, the first of these items is used."""
        return {item.mark: number for number, item in reversed(list(enumerate(self.items)))}

    @cached_property
    def haystack(self) -> Haystack:
        """The texts of all items, in which quotations can be found."""
        return Haystack(tuple(item.text for item in self.items))

    @cached_property
    def _delimiter(self) -> Delimiter:
        return Delimiter(self.digest, [text for item in self.items for text in (item.text, item.about, item.mark)])

    def _block(self, item: SubjectItem) -> str:
        return self._delimiter.block(f"{item.mark} {one_line(item.about)}".rstrip(), "\n".join(self._parts(item)))

    def _parts(self, item: SubjectItem) -> Iterator[str]:
        starts = [at for at, _ in item.labels]
        if not starts or starts[0] > 0:
            yield _item_text(item, item.text[: starts[0] - 1] if starts else item.text)
        ends = [*starts[1:], len(item.text) + 1]
        for (start, label), end in zip(item.labels, ends, strict=False):
            yield f"<{self._delimiter.tag} part: {one_line(label)}>"
            # The line break before a label only separates two parts.
            yield _item_text(item, item.text[start : end - 1])


def _item_text(item: SubjectItem, text: str) -> str:
    return number_whole_lines(item.first, text) if item.numbered else show_invisible(text)


def join_parts(parts: Sequence[tuple[str, str]]) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Join labelled texts into one text. Return this text, and the offset and label of each part with a label."""
    labels, at = [], 0
    for label, text in parts:
        labels += [(at, label)] if label else []
        at += len(text) + 1
    return "\n".join(text for _, text in parts), tuple(labels)


def result_items(earlier: Sequence[JudgeResult]) -> list[SubjectItem]:
    return [_result_item(f"A{number}", result) for number, result in enumerate(earlier)]


def _result_item(mark: str, result: JudgeResult) -> SubjectItem:
    about = f"earlier result about {quote_json(result.agent_run_id)} by rubric {quote_json(result.rubric_id)}"
    failed = result.result_type is ResultType.FAILURE
    text = result.reason or "no result" if failed else render_object(result.output)
    return SubjectItem(
        mark=mark, about=about, text=text, target=CitationTarget(kind="result", item=mark, result_id=result.id)
    )


MAX_PRECEDENTS = 6


def select_precedents(precedents: Sequence[Precedent]) -> tuple[Precedent, ...]:
    """Return the first `MAX_PRECEDENTS` precedents that people reviewed or acted on.

    If people acted on a precedent but did not review it, the judge's label, cause and reasoning are left out, because
    they prove nothing.
    """
    relevant = (precedent for precedent in precedents if precedent.by_person or precedent.action)
    return tuple(precedent if precedent.by_person else _unconcluded(precedent) for precedent in relevant)[
        :MAX_PRECEDENTS
    ]


def _unconcluded(precedent: Precedent) -> Precedent:
    cleared_fields = ("classification", "cause", "reasoning", "reviewer", "note")
    return precedent.model_copy(update=dict.fromkeys(cleared_fields))


def agent_run_subject(run: AgentRun, earlier: Sequence[JudgeResult] = ()) -> Subject:
    """Build a subject from an agent run.

    The items of the subject are blocks (`T0B1`), metadata (`R0M`, `T0M`, `T0B1M`) and earlier results (`A0`).
    """
    return Subject.of(run.id, [*_run_items(run), *result_items(earlier)])


def redacted_run_subject(run: AgentRun) -> Subject:
    """Build a subject from a redacted copy of an agent run.

    Runs that were created in Python must be redacted, because only runs from a source are already redacted.
    """
    value = run.model_dump(mode="json")
    redacted = redact_json(value)
    return agent_run_subject(run if redacted == value else AgentRun.model_validate(redacted))


def _run_items(run: AgentRun) -> Iterator[SubjectItem]:
    """Yield the items of a single run: `R0M`, and its transcripts from `T0` on."""
    yield from metadata_items("R0M", run)
    for number, transcript in enumerate(run.transcripts):
        yield from transcript_items(f"T{number}", transcript, run)


def metadata_items(mark: str, run: AgentRun) -> Iterator[SubjectItem]:
    """Yield the metadata of the run as a whole, if any."""
    if run.metadata or run.name:
        yield _metadata(mark, _heading("metadata of the run", run.name), run.metadata, run)


def transcript_items(mark: str, transcript: Transcript, run: AgentRun) -> Iterator[SubjectItem]:
    """Yield a transcript's items. For the mark `T0`, the items are the metadata `T0M` and the blocks `T0B0` …"""
    if transcript.metadata or transcript.name:
        about = _heading("metadata of the transcript", transcript.name)
        yield _metadata(f"{mark}M", about, transcript.metadata, run, transcript)
    for block, message in enumerate(transcript.messages):
        yield _block(f"{mark}B{block}", message, block, transcript, run)
        if message.metadata:
            yield _metadata(f"{mark}B{block}M", "metadata of the block", message.metadata, run, transcript, block)


def _metadata(
    mark: str,
    about: str,
    metadata: dict[str, Any],
    run: AgentRun,
    transcript: Transcript | None = None,
    block: int | None = None,
) -> SubjectItem:
    target = CitationTarget(
        kind="metadata",
        item=mark,
        agent_run_id=run.id,
        transcript_id=transcript and transcript.id,
        block_idx=block,
    )
    return SubjectItem(mark=mark, about=about, text=as_json(metadata), target=target, metadata=metadata)


def _block(mark: str, message: ChatMessage, block: int, transcript: Transcript, run: AgentRun) -> SubjectItem:
    text, labels = join_parts(list(_parts(message)))
    target = CitationTarget(kind="block", item=mark, agent_run_id=run.id, transcript_id=transcript.id, block_idx=block)
    return SubjectItem(mark=mark, about=_about(message), text=text, labels=labels, target=target)


def _about(message: ChatMessage) -> str:
    facts = [f"role: {message.role}"]
    if isinstance(message, AssistantMessage) and message.model:
        facts.append(f"model: {quote_json(message.model)}")
    if isinstance(message, ToolMessage):
        facts += [f"tool: {quote_json(message.function)}"] if message.function else []
        facts += [f"call: {quote_json(message.tool_call_id)}"] if message.tool_call_id else []
    return "; ".join(facts)


def _parts(message: ChatMessage) -> Iterator[tuple[str, str]]:
    """Yield the texts of a message, each with a label.

    The label of the message's content is empty unless the message also has reasoning.
    """
    if isinstance(message, AssistantMessage) and message.reasoning:
        yield "reasoning", message.reasoning
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    error = message.error if isinstance(message, ToolMessage) else None
    if message.content or not (calls or error):
        yield "content" if isinstance(message, AssistantMessage) and message.reasoning else "", message.content
    for call in calls:
        yield _heading("tool call", call.id), _call_text(call)
        if call.metadata:
            yield "of this call", render_object(call.metadata)
    if error is not None:
        yield "error", error


def _call_text(call: TranscriptToolCall) -> str:
    return "\n".join([call.function, *([render_object(call.arguments)] if call.arguments else [])])


def _heading(kind: str, name: str | None) -> str:
    return f"{kind} {quote_json(name)}" if name else kind


FAILURE = "failure"
"""Mark of the item with the recorded facts of the failure."""


def failure_subject(
    run_id: str,
    evidence: Evidence,
    precedents: Sequence[Precedent] = (),
    earlier: Sequence[JudgeResult] = (),
) -> Subject:
    """Build a subject from a failed eval.

    The items of the subject are the recorded facts (`failure`), documents (`output src/main.py`), earlier reports
    (`P0`) and earlier results (`A0`).
    """
    documents = [_document(document) for document in evidence.documents]
    items = [_failure(evidence), *documents, *_precedent_items(precedents), *result_items(earlier)]
    return Subject.of(f"{run_id}/{evidence.eval.path}", items)


def document_mark(document: Document) -> str:
    """Return a document's mark, such as `output src/main.py`.

    A path that could be misread is written as a JSON string.
    """
    path = document.path
    is_plain = path.isprintable() and path == path.strip() and path and not path.startswith('"')
    return f"{document.role} {path if is_plain else quote_json(path)}"


def _document(document: Document) -> SubjectItem:
    mark = document_mark(document)
    target = CitationTarget(kind="document", item=mark, role=document.role, path=document.path)
    return SubjectItem(mark=mark, about="", text=document.text, target=target, numbered=True)


def _failure(evidence: Evidence) -> SubjectItem:
    failed_eval = evidence.eval
    steps = "\n".join(
        f"{step.name} {step.status}" + (f": {step.error}" if step.error else "") for step in evidence.steps
    )
    facts = {
        "eval": failed_eval.path,
        "failed step": failed_eval.failed_step
        or ("none, grading never began" if evidence.never_graded else "not recorded"),
        "steps": steps,
        "recorded reason": failed_eval.reason,
        "not here": "\n".join(evidence.missing),
    }
    text, labels = join_parts([(label, fact) for label, fact in facts.items() if fact])
    return SubjectItem(
        mark=FAILURE,
        about="as recorded",
        text=text,
        labels=labels,
        target=CitationTarget(kind="document", item=FAILURE),
    )


def _precedent_items(precedents: Sequence[Precedent]) -> Iterator[SubjectItem]:
    for number, precedent in enumerate(select_precedents(precedents)):
        mark = f"P{number}"
        text, labels = join_parts(list(_precedent_facts(precedent)))
        about = f"earlier report {quote_json(precedent.report)}"
        target = CitationTarget(kind="result", item=mark, path=precedent.report)
        yield SubjectItem(mark=mark, about=about, text=text, labels=labels, target=target)


def _precedent_facts(precedent: Precedent) -> Iterator[tuple[str, str]]:
    facts = {
        "date": precedent.date,
        "eval": precedent.eval,
        "step": precedent.step,
        "label": precedent.classification,
        "cause": precedent.cause,
        "error": precedent.error,
        "reasoning": precedent.reasoning,
        "done about it": precedent.action,
        "said by": precedent.reviewer,
        "in their words": precedent.note,
        "of another model": precedent.model,
    }
    return ((label, fact) for label, fact in facts.items() if fact)

"""Answer questions about runs and results: render the referenced runs, ask a model, resolve citations."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.judging.answer_parsing import Output, Problems
from evalscribe.judging.citations import resolve_citations, resolve_output
from evalscribe.judging.prompt_text import quote_json
from evalscribe.judging.rollout import AnswerFormat, Rollout, RubricConversation, prompt_tokens, rubric_format
from evalscribe.judging.subjects import (
    Subject,
    SubjectItem,
    join_parts,
    metadata_items,
    render_object,
    transcript_items,
)
from evalscribe.model.chat import Effort, Message, Request, Usage
from evalscribe.model.evidence import Document
from evalscribe.model.protocols import Model
from evalscribe.model.record import Record
from evalscribe.model.result import AgentRunRef, CitationTarget, Ref, Result, Segment
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AgentRun, Transcript
from evalscribe.prompts.templates import Prompts

BETWEEN = frozenset(",; \t\n")
"""Characters that can separate two citations in one pair of brackets."""


def render_output(output: Mapping[str, Any]) -> str:
    """Render an output as text, with quotations in place of citations.

    An output in free text is rendered as that text. Any other output is rendered with one line per field.
    """
    if _cites(output, "output"):
        return _with_quotations(output["output"], output["citations"])
    return render_object(_fields(output))


def strip_citations(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output with its strings as the model wrote them, without resolved citations."""
    if _cites(output, "output"):
        return {"output": output["output"]}
    return {name: _raw(value) for name, value in output.items()}


def _raw(value: Any) -> Any:
    if isinstance(value, list):
        return [_raw(item) for item in value]
    if not isinstance(value, dict):
        return value
    return value["text"] if _cites(value, "text") else {name: _raw(item) for name, item in value.items()}


def _fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _cites(value, "text"):
        return _with_quotations(value["text"], value["citations"])
    return {name: _fields(item) for name, item in value.items()}


def _cites(value: Mapping[str, Any], name: str) -> bool:
    return set(value) == {name, "citations"} and isinstance(value[name], str) and isinstance(value["citations"], list)


def _with_quotations(text: str, citations: Sequence[Mapping[str, Any]]) -> str:
    rendered, at = "", 0
    for start, end, quotes in _brackets(text, citations):
        quotation_list = ", ".join(canonical_json(quote) for quote in quotes)
        rendered += text[at:start] if quotation_list else text[at:start].rstrip(" ")
        rendered += f"({quotation_list})" if quotation_list else ""
        at = end
    return rendered + text[at:]


def _brackets(text: str, citations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, list[str]]]:
    """Group the citations that are in the same brackets. Yield the span and the quotations of each group."""
    group: tuple[int, int, list[str]] | None = None
    for citation in citations:
        start, end, quote = citation["start_idx"], citation["end_idx"], citation.get("quote")
        quotes = [quote.strip()] if quote else []
        if group and set(text[group[1] : start]) <= BETWEEN and not text[: group[1]].endswith("]"):
            group = (group[0], end, group[2] + quotes)
            continue
        if group:
            yield group
        group = (start, end, quotes)
    if group:
        yield group


def run_items(number: int, first: int, record: Record) -> Iterator[SubjectItem]:
    """Yield all items of an agent run.

    The transcripts have the marks `T<first>` and so on. The documents are blocks under the next `T` mark.
    """
    run = record.agent_run
    yield _run(f"R{number}", record)
    yield from metadata_items(f"R{number}M", run.model_copy(update={"name": None}))
    for at, transcript in enumerate(record.transcripts, first):
        yield from transcript_with_blocks(f"T{at}", transcript, run, f" of R{number}")
    if record.documents:
        yield from _documents(f"T{first + len(record.transcripts)}", record.documents, run, f" of R{number}")


def transcript_with_blocks(mark: str, transcript: Transcript, run: AgentRun, whose: str = "") -> Iterator[SubjectItem]:
    about = f"transcript{whose}, {len(transcript.messages)} blocks"
    target = CitationTarget(kind="transcript", item=mark, agent_run_id=run.id, transcript_id=transcript.id)
    yield SubjectItem(mark=mark, about=about, text=transcript.name or run.name or "", target=target)
    yield from transcript_items(mark, transcript.model_copy(update={"name": None}), run)


def result_item(mark: str, result: Result) -> SubjectItem:
    """Return a result as an item.

    The citations in the result refer to another prompt, so each citation is replaced by the text that it quotes.
    """
    target = CitationTarget(kind="result", item=mark, result_id=result.id)
    return SubjectItem(mark=mark, about="earlier result", text=render_output(result.output or {}), target=target)


def transcripts_of(record: Record) -> int:
    """Return the number of `T` marks that the items of a run need."""
    return len(record.transcripts) + bool(record.documents)


def _run(mark: str, record: Record) -> SubjectItem:
    run_eval = record.eval
    steps = "\n".join(f"{step.name} {step.status}" + (f": {step.error}" if step.error else "") for step in record.steps)
    facts = {
        "eval": run_eval.path,
        "status": run_eval.status,
        "failed step": run_eval.failed_step,
        "steps": steps,
        "recorded reason": run_eval.reason,
        "not here": "\n".join(record.missing),
    }
    text, labels = join_parts([(label, fact) for label, fact in facts.items() if fact])
    target = CitationTarget(kind="agent_run", item=mark, agent_run_id=run_eval.id)
    return SubjectItem(mark=mark, about="agent run", text=text, labels=labels, target=target)


def _documents(mark: str, documents: Sequence[Document], run: AgentRun, whose: str) -> Iterator[SubjectItem]:
    """Yield one block for each document.

    Blocks are used because they have unique marks, whereas documents of different runs can have the same name.
    """
    target = CitationTarget(kind="transcript", item=mark, agent_run_id=run.id)
    yield SubjectItem(mark=mark, about=f"documents{whose}, {len(documents)} blocks", text="", target=target)
    for block, document in enumerate(documents):
        name = f"{mark}B{block}"
        block_target = CitationTarget(
            kind="document", item=name, agent_run_id=run.id, role=document.role, path=document.path
        )
        yield SubjectItem(
            mark=name, about=f"{document.role} {quote_json(document.path)}", text=document.text, target=block_target
        )


LoadedReferences = Mapping[Ref, Record | Result]
"""Maps each reference to its record or result. The record for a transcript contains only that transcript."""


@dataclass(frozen=True)
class RequestPrompt:
    """A prompt with its references to runs and results resolved."""

    text: str
    """Text of the prompt.

    The first reference to a run or result is replaced by the content of the run or result, between delimiters. Later
    references to the same run or result are replaced by the mark of the run or result, such as `[R0]`.
    """
    subject: Subject
    """The items that an answer can cite."""

    @classmethod
    def of(cls, segments: Sequence[Segment], references: LoadedReferences) -> "RequestPrompt":
        """Build the prompt from its segments. Raises `KeyError` for a reference that is not in `references`."""
        parts = tuple(_Namer(references).parts(segments))
        subject = _subject(parts)
        return cls(text=_join_text(parts, subject), subject=subject)


@dataclass(frozen=True)
class _RepeatedReference:
    """A reference to a run or result that the prompt has already shown."""

    mark: str


_Part = str | _RepeatedReference | tuple[SubjectItem, ...]


class _Namer:
    """Assigns a unique mark to every item of a prompt."""

    def __init__(self, references: LoadedReferences) -> None:
        self._references = references
        self._marks: dict[object, str] = {}
        self._runs = self._transcripts = self._results = 0

    def parts(self, segments: Sequence[Segment]) -> Iterator[_Part]:
        for segment in segments:
            if isinstance(segment, str):
                if segment.strip():
                    yield segment
                continue
            # A transcript already has a mark if its run was shown before.
            mark = self._marks.get(segment) or self._marks.get(segment.id if segment.type == "transcript" else None)
            yield _RepeatedReference(mark) if mark else tuple(self._items(segment))

    def _items(self, ref: Ref) -> Iterator[SubjectItem]:
        content = self._references[ref]
        if isinstance(content, Result):
            mark = self._marks[ref] = f"A{self._results}"
            self._results += 1
            yield result_item(mark, content)
        elif isinstance(ref, AgentRunRef):
            number, first = self._runs, self._transcripts
            self._runs, self._transcripts = number + 1, first + transcripts_of(content)
            self._marks[ref] = f"R{number}"
            for at, transcript in enumerate(content.transcripts, first):
                self._marks.setdefault(transcript.id, f"T{at}")
            yield from run_items(number, first, content)
        else:
            mark = self._marks[ref] = f"T{self._transcripts}"
            self._transcripts += 1
            yield from transcript_with_blocks(mark, content.transcripts[0], content.agent_run)


def _subject(parts: Sequence[_Part]) -> Subject:
    """Build the subject of a prompt.

    The digest covers the entire prompt, so that the author of one part of the prompt cannot predict the delimiter.
    """
    items = [item for part in parts if isinstance(part, tuple) for item in part]
    subject = Subject.of("prompt", items)
    texts = [part for part in parts if isinstance(part, str)]
    return subject.model_copy(update={"digest": content_id([subject.digest, texts])})


def _join_text(parts: Sequence[_Part], subject: Subject) -> str:
    """Join the parts of a prompt. Where needed, insert line breaks or spaces between two parts."""
    texts = [_part_text(part, subject) for part in parts]
    text = texts[0]
    for (before, part), part_text in zip(pairwise(parts), texts[1:], strict=True):
        text += _gap(before, part, text, part_text) + part_text
    return text


def _part_text(part: _Part, subject: Subject) -> str:
    if isinstance(part, str):
        return part
    return f"[{part.mark}]" if isinstance(part, _RepeatedReference) else subject.text(part)


def _gap(before: _Part, part: _Part, text: str, part_text: str) -> str:
    if isinstance(before, tuple) or isinstance(part, tuple):
        return "" if text.endswith("\n") or part_text.startswith("\n") else "\n"
    if text[-1].isspace() or part_text[0].isspace():
        return ""
    return " " if isinstance(before, _RepeatedReference) or isinstance(part, _RepeatedReference) else "\n\n"


VERSION = 1
"""Version number that is part of the key of every answer.

Increase it by hand when questions or the parsing of answers change.
"""
TEMPLATE = "judging/request.md.j2"
LONGEST_ANSWER = 16_384
"""Maximum tokens of an answer, including thinking."""
LEAST_ANSWER = 2_048
"""Minimum tokens that must remain for an answer. If fewer tokens remain, the question is not asked."""
SURELY = 0.75
"""Factor by which a prompt's estimated tokens are multiplied before they are compared with the context window.

The factor is less than 1 because the estimate is usually too high.
"""
TIMEOUT_S = 600.0
REFUSED = "the model refused to answer"
CUT = "the model finds the prompt too long: refer to less at once"
FREE = {
    "type": "object",
    "properties": {"output": {"type": "string", "citations": True}},
    "required": ["output"],
    "additionalProperties": False,
}
"""Schema for answers in free text."""


class RequestAnswer(Frozen):
    """Answer to a question, or the reason why there is no answer."""

    output: dict[str, Any] | None = None
    """The output with resolved citations. Without a schema, it is `{"output": text, "citations": […]}`."""
    error: str | None = None
    final: bool = False
    """True if there is no answer and asking the same question again would not help."""
    usage: Usage = Usage()


def _read_free_text(text: str, _repeats: Callable[[str], bool]) -> Output | Problems:
    return {"output": text.strip()} if text.strip() else ["the answer is empty"]


_FREE_TEXT = AnswerFormat("in your own words", _read_free_text)


class RequestModel:
    """Sends questions to one model. All answers must fit the same schema."""

    def __init__(
        self, model: Model, prompts: Prompts, schema: dict[str, Any] | None = None, effort: Effort | None = None
    ) -> None:
        """Prepare to ask questions.

        If `schema` is None, answers are free text. Raises `RubricError` if the schema is invalid.
        """
        self._model = model
        self._prompts = prompts
        self._schema = schema
        self._effort = effort
        self._rubric = _free() if schema is None else Rubric(id="request", rubric_text="request", output_schema=schema)
        self._form = _FREE_TEXT if schema is None else rubric_format(self._rubric)

    def request(self, question: RequestPrompt) -> Request:
        """Return the request that asks the question in a single call."""
        schema = None if self._schema is None else json.dumps(self._schema, indent=2, ensure_ascii=False)
        cites = question.subject.citation_help if question.subject.items else None
        system = self._prompts.render(TEMPLATE, citation_help=cites, output_schema=schema)
        request = Request(
            system=system.strip(), messages=(Message(role="user", text=question.text),), effort=self._effort
        )
        window = self._model.context_tokens
        remaining_tokens = max(LEAST_ANSWER, window - prompt_tokens(request))
        return request.model_copy(update={"max_tokens": min(LONGEST_ANSWER, window // 2, remaining_tokens)})

    def key(self, request: Request) -> str:
        """Return the content id of the question: model, prompt, schema and effort."""
        # The order of properties is part of the key, because models write their answers in that order.
        schema = None if self._schema is None else json.dumps(self._schema)
        return content_id([VERSION, "request", self._model.id, schema, request])

    def too_long(self, request: Request) -> str | None:
        """Return an error message if a question is too long for the model's context window; None if the question fits.

        The message states by how many tokens the question is too long.
        """
        window, prompt = self._model.context_tokens, int(prompt_tokens(request) * SURELY)
        excess = prompt + LEAST_ANSWER - window
        if excess <= 0:
            return None
        return (
            f"the prompt has about {prompt:,} tokens, {excess:,} more than {self._model.id} can read and answer "
            f"({window:,} in all): refer to less at once, or set EVALSCRIBE_CONTEXT_TOKENS if its window is larger"
        )

    def again(self, output: dict[str, Any], question: RequestPrompt) -> dict[str, Any]:
        """Return a cached answer to the same prompt, with its citations resolved in the items of this question.

        `output`: the cached answer. The citations that were resolved for the earlier question are discarded.
        """
        return self._cited(strip_citations(output), question)

    async def ask(self, question: RequestPrompt, request: Request) -> RequestAnswer:
        """Ask the question. Raises `EvalscribeError` for errors that affect all questions."""
        if reason := self.too_long(request):
            return RequestAnswer(error=reason, final=True)
        talk = RubricConversation(self._model, request, self._rubric, question.subject, self._form)
        rollout = await talk.run(TIMEOUT_S)
        if rollout.output is None:
            return RequestAnswer(error=_reason(rollout), final=rollout.final, usage=rollout.usage)
        return RequestAnswer(output=self._cited(rollout.output, question), usage=rollout.usage)

    def _cited(self, output: Output, question: RequestPrompt) -> dict[str, Any]:
        if self._schema is not None:
            return resolve_output(output, self._schema, question.subject)
        cited = resolve_citations(output["output"], question.subject).model_dump(mode="json")
        return {"output": cited["text"], "citations": cited["citations"]}


def _reason(rollout: Rollout) -> str:
    if rollout.too_long:
        return CUT
    return REFUSED if rollout.final else rollout.reason or "no answer"


@cache
def _free() -> Rubric:
    return Rubric(id="request", rubric_text="request", output_schema=FREE)

"""Pages with the answers of models and judges. Citations link to the text that they quote."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from evalscribe.errors import EvalscribeError
from evalscribe.judging.citations import resolve_output
from evalscribe.judging.rubrics import DEFAULT_COLLECTION
from evalscribe.judging.subjects import agent_run_subject, failure_subject, value_text
from evalscribe.model.evidence import Evidence
from evalscribe.model.record import AgentRunPlace, evidence_of
from evalscribe.model.result import CitationCounts, JudgeResult, Result, ResultType, RubricResultCounts
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import parse_transcript
from evalscribe.store.store import Storage
from evalscribe.web.agent_runs import AgentRunFinder, document_href, folder_of, message_href, metadata_anchor
from evalscribe.web.report_index import Entry
from evalscribe.web.site import Query, anchor, slug

ON_PAGE = 100
"""Maximum number of results on one page. A bundle contains only the first page of each result set."""
MOST_LABELS = 12
"""Maximum number of different values for which a filter is offered."""


@dataclass(frozen=True)
class AnswerPart:
    """A part of an answer's text: a quotation, or the text between two quotations."""

    text: str
    status: str | None = None
    """Status of a citation: `verified`, `relocated` or `unverified`; None if the part is plain text."""
    href: str | None = None
    """Address of the cited text, relative to the root of the pages."""
    place: str = ""
    """Name of the cited place, such as `message 4`."""


@dataclass(frozen=True)
class AnswerField:
    """One field of an answer."""

    name: str
    parts: tuple[AnswerPart, ...]
    label: bool = False
    """True if the value is short, such as a label or a number."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True)
class Answer:
    """The answer in one row of a result set."""

    anchor: str
    number: int | None
    about: tuple[AnswerPart, ...]
    """Subject of the question, for example an agent run."""
    fields: tuple[AnswerField, ...]
    problem: str | None
    """Reason why the row has no answer; None if it has an answer."""
    citations: CitationCounts
    remark: str = ""
    """Share of rollouts that agree, in words; empty if there is only one rollout."""
    label_names: tuple[str, ...] = ()
    """Names of the fields whose possible values are listed in the schema."""

    @property
    def label(self) -> str:
        """The value of the first field whose possible values the schema lists, or else the first short value."""
        listed = (field.text for field in self.fields if field.name in self.label_names)
        return next(iter((*listed, *(field.text for field in self.fields if field.label), "")))

    @property
    def checked(self) -> str:
        """Worst status of the answer's citations, for the filter."""
        if not any(self.citations.model_dump().values()):
            return "none"
        return "unverified" if self.citations.unverified else "relocated" if self.citations.relocated else "verified"

    @property
    def search_text(self) -> str:
        parts = [part.text for part in self.about] + [field.text for field in self.fields]
        return " ".join([*parts, self.problem or ""]).lower()


class AnswerViews:
    """Prepares results for display. The agent runs that a page's citations refer to are looked up all at once."""

    def __init__(self, agent_runs: AgentRunFinder, store: Storage) -> None:
        self._agent_runs = agent_runs
        self._store = store
        self._places: dict[str, AgentRunPlace] = {}
        self._rubric = lru_cache(_load_rubric)

    def find(self, results: Iterable[Result | JudgeResult], collection_id: str | None = None) -> None:
        """Look up the agent runs that the results refer to. `answer` needs them to link each row to its agent runs."""
        names: set[str] = set()
        for result in results:
            names |= (
                {result.agent_run_id}
                if isinstance(result, JudgeResult)
                else {*cited_ids(result.output), *_reference_ids(result)}
            )
        for name, places in self._store.runs.places(sorted(names)).items():
            shown = [place for place in places if self._agent_runs.has(place)]
            if shown:
                # Several collections can contain the same agent run. Links lead to the collection of the result set if
                # possible.
                self._places[name] = min(shown, key=lambda place: place.collection_id != collection_id)

    def answer(
        self,
        number: int,
        result: Result | JudgeResult,
        schema: Mapping[str, Any] | None = None,
        *,
        resolve: bool = True,
    ) -> Answer:
        """Return a result in the form of a row.

        Args:
            number: Position of the result in its set, from 0.
            result: The result. `find` must have looked up its agent runs before.
            schema: Schema of the answer. It is ignored for a judge's result, whose rubric has a schema.
            resolve: True to resolve a judge's citations. The whole stored subject is read for this.
        """
        if isinstance(result, Result):
            return replace(self._answer(result), label_names=_listed_fields(schema))
        rubric = self._rubric(self._store, result.rubric_id, result.rubric_version)
        answer = self._judged(number, result, rubric if resolve else None)
        return replace(answer, label_names=_listed_fields(rubric.output_schema if rubric else None))

    def _answer(self, result: Result) -> Answer:
        references = (self._reference(id) for id in _reference_ids(result))
        about = (AnswerPart(f"{name}: {value_text(value)}") for name, value in result.user_metadata.items())
        output = result.output or {}
        # Without a schema, an answer is a single text with its citations.
        if set(output) == {"output", "citations"}:
            output = {"answer": {"text": output["output"], "citations": output["citations"]}}
        return Answer(
            anchor=f"r{result.number}",
            number=result.number,
            about=(*about, *references),
            fields=tuple(self._fields(output, None)),
            problem=None if result.output is not None else result.error or "no answer yet",
            citations=result.citations,
        )

    def _judged(self, number: int, result: JudgeResult, rubric: Rubric | None) -> Answer:
        subject = _Subject(result.agent_run_id, self._places.get(result.agent_run_id), self._entry(result.agent_run_id))
        failed = result.result_type is ResultType.FAILURE
        output = self._resolved(result, rubric, subject) if rubric and not failed else result.output
        votes = (result.result_metadata or {}).get("n_rollouts")
        return Answer(
            anchor=f"r{number}",
            number=None,
            about=(AnswerPart(subject.path, href=subject.href),),
            fields=() if failed else tuple(self._fields(output, subject)),
            problem=(result.reason or "no reason") if failed else None,
            citations=result.citations,
            remark=f"{result.confidence:.0%} of {votes} rollouts agree" if result.confidence is not None else "",
        )

    def _resolved(self, result: JudgeResult, rubric: Rubric, subject: "_Subject") -> dict[str, Any]:
        """Return a judge's answer with resolved citations, or the unchanged answer if the subject is not stored."""
        record = self._agent_runs.record(subject.place.run_id, subject.place.eval_id) if subject.place else None
        if record is not None and result.agent_run_id == record.eval.id:
            return resolve_output(result.output, rubric.output_schema, agent_run_subject(record.agent_run))
        evidence = evidence_of(record) if record is not None else self._evidence(subject)
        run_id = record.run_id if record is not None else subject.entry.report.run if subject.entry else ""
        if evidence is None:
            return result.output
        return resolve_output(result.output, rubric.output_schema, failure_subject(run_id, evidence))

    def _evidence(self, subject: "_Subject") -> Evidence | None:
        """Return the stored evidence of a failed eval whose run was analysed instead of imported."""
        if subject.entry is None:
            return None
        run_id = subject.entry.report.run
        run = self._store.analyses.get_run(run_id)
        id = next((failure.id for failure in run.failures if failure.path == subject.path), None) if run else None
        evidence = self._store.analyses.get_evidence(run_id, id) if id else None
        return evidence if isinstance(evidence, Evidence) else None

    def _entry(self, name: str) -> Entry | None:
        """Return the finding about a subject, which is named by an agent run's id or by `<run id>/<path>`."""
        place = self._places.get(name)
        if place is not None:
            return self._agent_runs.entry(place.run_id, place.path)
        # Run ids and paths can contain slashes, so every way to divide the name is tried.
        slashes = (at for at, character in enumerate(name) if character == "/")
        return next((entry for at in slashes if (entry := self._agent_runs.entry(name[:at], name[at + 1 :]))), None)

    def _reference(self, eval_id: str) -> AnswerPart:
        """Return a link to an agent run. The text of the link is the path of the eval."""
        place = self._places.get(eval_id)
        return AnswerPart(place.path, href=f"{folder_of(place)}/index.html") if place else AnswerPart(eval_id)

    def _fields(self, output: Mapping[str, Any], subject: "_Subject | None") -> Iterator[AnswerField]:
        for name, value in output.items():
            if isinstance(value, dict) and set(value) == {"text", "citations"}:
                yield AnswerField(name, tuple(self._parts(str(value["text"]), value["citations"], subject)))
            elif isinstance(value, dict) and _has_citations(value):
                yield from (AnswerField(f"{name}.{f.name}", f.parts, f.label) for f in self._fields(value, subject))
            elif isinstance(value, list) and any(map(_has_citations, value)):
                nested = {str(number): item for number, item in enumerate(value, 1)}
                yield from (AnswerField(f"{name} {f.name}", f.parts, f.label) for f in self._fields(nested, subject))
            elif isinstance(value, bool):
                yield AnswerField(name, (AnswerPart("yes" if value else "no"),), label=True)
            else:
                text = value_text(value)
                yield AnswerField(name, (AnswerPart(text),), label=len(text) <= 40 and "\n" not in text)

    def _parts(
        self, text: str, citations: Sequence[Mapping[str, Any]], subject: "_Subject | None"
    ) -> Iterator[AnswerPart]:
        at = 0
        for citation in citations:
            start, end = citation["start_idx"], citation["end_idx"]
            # Citations can overlap. The text of each is shown once.
            if start < at:
                continue
            if start > at:
                yield AnswerPart(text[at:start])
            yield self._citation(text[start:end], citation, subject)
            at = end
        if at < len(text):
            yield AnswerPart(text[at:])

    def _citation(self, mark: str, citation: Mapping[str, Any], subject: "_Subject | None") -> AnswerPart:
        status = str(citation.get("status", "unverified"))
        target = citation.get("target")
        if not isinstance(target, dict):
            # Earlier reports and results that the judge saw are not read again here, so the status is unknown.
            unknown = subject is not None and mark.lstrip("[,; ")[:1] in ("P", "A")
            text = f"“{citation['quote']}”" if citation.get("quote") else mark
            return AnswerPart(text, status=None if unknown else status)
        href, place = self._target(target, subject)
        return AnswerPart(
            f"“{citation['quote']}”" if citation.get("quote") else place, status=status, href=href, place=place
        )

    def _target(self, target: Mapping[str, Any], subject: "_Subject | None") -> tuple[str | None, str]:
        """Return the address and the name of a cited item."""
        kind = target["kind"]
        if kind == "result":
            return None, f"earlier result {target['item']}"
        place = self._places.get(target.get("agent_run_id") or (subject.name if subject else ""))
        if kind == "document":
            return self._document(target, place, subject)
        if place is None:
            return None, _name_of(target)
        folder = folder_of(place)
        if target.get("block_idx") is not None:
            return message_href(place, target.get("transcript_id"), target["block_idx"]), _name_of(target)
        if kind == "metadata":
            key = target.get("metadata_key") or ""
            # Only top-level keys of the metadata have an anchor.
            top = key.partition(".")[0].partition("[")[0]
            of_run = target.get("transcript_id") is None
            return f"{folder}/index.html#{metadata_anchor(top) if key and of_run else 'metadata'}", _name_of(target)
        if kind == "transcript" and target.get("transcript_id") is not None:
            return message_href(place, target["transcript_id"], 0).partition("#")[0], _name_of(target)
        return f"{folder}/index.html", _name_of(target)

    def _document(
        self, target: Mapping[str, Any], place: AgentRunPlace | None, subject: "_Subject | None"
    ) -> tuple[str | None, str]:
        role, path, line = target.get("role"), target.get("path"), target.get("first")
        entry = subject.entry if subject else self._agent_runs.entry(place.run_id, place.path) if place else None
        if role is None or path is None:  # the stored facts about the failure
            return (subject.href if subject else None), "recorded failure"
        if line is None and place is not None and target.get("start_idx") is not None:
            line = self._line(place, role, path, target["start_idx"])
        line = line or 1
        name = f"{role} {path}:{line}"
        if entry is not None:
            eval = place.path if place else subject.path if subject else ""
            return f"{evidence_path(entry, eval)}#{anchor(role, path, line)}", name
        if place is None:
            return None, name
        return (
            self._message(place, path, line) if role == "transcript" else (document_href(place, role, path, line), name)
        )

    def _message(self, place: AgentRunPlace, path: str, line: int) -> tuple[str | None, str]:
        """Return the address and the name of the message to which a line of a rendered transcript belongs."""
        record = self._agent_runs.record(place.run_id, place.eval_id)
        documents = (
            [document for document in evidence_of(record).documents if document.role == "transcript"] if record else []
        )
        # `evidence_of` renders one document for each transcript, in the same order.
        for transcript_id, document in zip(place.transcripts, documents, strict=False):
            if document.path == path:
                turns = (turn.number for turn in parse_transcript(document.text) if turn.first <= line <= turn.last)
                number = max(1, next(turns, 1))
                return message_href(place, transcript_id, number - 1), f"message {number}"
        return None, f"transcript {path}:{line}"

    def _line(self, place: AgentRunPlace, role: str, path: str, at: int) -> int:
        documents = self._store.runs.documents(place.run_id, place.eval_id)
        texts = (document.text for document in documents if (document.role, document.path) == (role, path))
        return next((text.count("\n", 0, at) + 1 for text in texts), 1)


@dataclass(frozen=True)
class _Subject:
    """The subject of a judge's result."""

    name: str
    """Id of an agent run, or `<run id>/<path>` of a failed eval."""
    place: AgentRunPlace | None
    entry: Entry | None

    @property
    def path(self) -> str:
        """Path of the eval. If the eval is unknown, the subject's name."""
        if self.place is not None:
            return self.place.path
        return self.name.removeprefix(f"{self.entry.report.run}/") if self.entry else self.name

    @property
    def href(self) -> str | None:
        if self.place is not None:
            return f"{folder_of(self.place)}/index.html"
        if self.entry is None:
            return None
        return evidence_path(self.entry, self.path)


def evidence_path(entry: Entry, eval: str) -> str:
    """Return the path of a failed eval's page."""
    return f"run/{slug(entry.report.run)}/eval/{slug(eval)}.html"


def _load_rubric(store: Storage, rubric_id: str, version: int) -> Rubric | None:
    try:
        return store.collections.rubric(DEFAULT_COLLECTION, rubric_id, version)
    except EvalscribeError:
        return None  # The rubric was deleted or is unreadable. The answer is then shown as the judge wrote it.


def _listed_fields(schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the fields whose possible values the schema lists."""
    properties = (schema or {}).get("properties") or {}
    return tuple(name for name, field in properties.items() if isinstance(field, dict) and field.get("enum"))


def _name_of(target: Mapping[str, Any]) -> str:
    if target.get("block_idx") is not None:
        metadata = f", {target['metadata_key'] or 'metadata'}" if target["kind"] == "metadata" else ""
        return f"message {target['block_idx'] + 1}{metadata}"
    if target["kind"] == "metadata":
        return target.get("metadata_key") or "metadata"
    return str(target["kind"]).replace("_", " ")


def _reference_ids(result: Result) -> Sequence[str]:
    """Return the ids of the agent runs to which a prompt refers."""
    refs = (segment for segment in result.prompt if not isinstance(segment, str))
    return list(dict.fromkeys(ref.id for ref in refs if ref.type == "agent_run"))


def _has_citations(value: object) -> bool:
    return next(_cited(value), None) is not None


def _cited(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield each citation in an output."""
    if isinstance(value, list):
        for item in value:
            yield from _cited(item)
    if isinstance(value, dict):
        citations = value.get("citations")
        if isinstance(citations, list) and isinstance(value.get("text", value.get("output")), str):
            yield from (citation for citation in citations if isinstance(citation, dict))
            return
        for item in value.values():
            yield from _cited(item)


def cited_ids(output: object) -> Iterator[str]:
    """Yield the ids of the agent runs that an output cites."""
    targets = (citation.get("target") for citation in _cited(output))
    yield from (target["agent_run_id"] for target in targets if target and target.get("agent_run_id"))


def rubric_key(counts: RubricResultCounts) -> str:
    """Return the key of the results that one judge gave for one version of a rubric."""
    return f"{counts.rubric_id}@{counts.rubric_version} {counts.judge}"


def cited_in_bundle(store: Storage) -> Iterator[str]:
    """Yield the ids of the agent runs to which the results in a bundle refer."""
    for collection in store.collections.collections():
        for result_set, _ in store.results.sets(collection.id):
            for result in store.results.results(result_set.id)[:ON_PAGE]:
                yield from cited_ids(result.output)
                yield from _reference_ids(result)
    for counts in store.collections.result_counts():
        results = store.collections.results_by_rubric(counts.rubric_id, counts.rubric_version, counts.judge)
        yield from (result.agent_run_id for _, result in zip(range(ON_PAGE), results, strict=False))


FILTERS = ("label", "checked")


def matching_answers(answers: Sequence[Answer], query: Query) -> Sequence[Answer]:
    words = query.get("q", "").lower().split()
    return [
        answer
        for answer in answers
        if all(query.get(name, "") in ("", getattr(answer, name)) for name in FILTERS)
        and all(word in answer.search_text for word in words)
    ]


def answer_choices(answers: Sequence[Answer]) -> dict[str, list[tuple[str, int]]]:
    """Return the values of each filter, each with its number of results.

    A filter with more than `MOST_LABELS` values offers no values.
    """
    counts = {name: Counter(getattr(answer, name) for answer in answers) for name in FILTERS}
    return {
        name: [(value, n) for value, n in count.most_common() if value] if len(count) <= MOST_LABELS else []
        for name, count in counts.items()
    }

"""What prompts refer to: looked up in one collection, and all of it before anything is asked."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import cast

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.json_data import clean_json, clean_text
from evalscribe.judging.requests import LoadedReferences
from evalscribe.model.collection_storage import ResultSetStore
from evalscribe.model.record import Record
from evalscribe.model.result import AgentRunRef, LLMRequest, Prompt, Ref, Result, ResultRef, Segment, TranscriptRef
from evalscribe.model.rubric import Collection
from evalscribe.model.storage import EvalStore
from evalscribe.redaction.redact import redact, redact_json
from evalscribe.text import pluralise

KEPT = 64
"""Agent runs that are kept in memory: many requests refer to the same ones."""
MOST_NAMED = 10
KINDS = {AgentRunRef: "agent run", TranscriptRef: "transcript", ResultRef: "result"}


class References:
    """Into one collection."""

    def __init__(self, archive: EvalStore, sets: ResultSetStore, collection: Collection) -> None:
        self._archive = archive
        self._sets = sets
        self._collection = collection
        self._kept = lru_cache(KEPT)(self._found)

    def belonging(self, requests: Sequence[LLMRequest]) -> tuple[LLMRequest, ...]:
        """The requests as they are stored: without what is no text, redacted, each reference with the collection's id.

        Raises `UsageError` for a reference into another collection.
        """
        return tuple(self._stored(number, one) for number, one in enumerate(requests))

    async def check(self, prompts: Iterable[tuple[int, Sequence[Segment]]]) -> None:
        """Raises `NotFoundError` naming what is not there, and which request refers to it."""
        seen = dict[Ref, int]()
        for number, segments in prompts:
            for ref in _refs(segments):
                seen.setdefault(ref, number)
        missing = list[str]()
        for ref, number in seen.items():
            missing += self._missing(ref, number)
            await asyncio.sleep(0)  # thousands of runs are looked up, and signals must not wait for all of them
        if missing:
            more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
            raise NotFoundError(
                f"collection {self._collection.name!r} lacks {pluralise(len(missing), 'thing')} that prompts refer to: "
                f"{'; '.join(missing[:MOST_NAMED])}{more}"
            )

    def known(self, segments: Sequence[Segment]) -> LoadedReferences:
        """What a checked prompt refers to."""
        found = {ref: self._kept(ref) for ref in _refs(segments)}
        if gone := next((ref for ref, one in found.items() if one is None), None):
            raise NotFoundError(f"{KINDS[type(gone)]} {gone.id!r} was there a moment ago, and is gone")
        return cast(LoadedReferences, found)

    def _stored(self, number: int, request: LLMRequest) -> LLMRequest:
        prompt = Prompt([self._segment(number, one) for one in request.prompt.segments])
        return LLMRequest(prompt=prompt, metadata=cast(dict[str, object], redact_json(clean_json(request.metadata))))

    def _segment(self, number: int, segment: Segment) -> Segment:
        if isinstance(segment, str):
            return redact(clean_text(segment))
        collection = self._collection
        if segment.collection_id not in (None, collection.id, collection.name):
            raise UsageError(
                f"request {number} refers to {KINDS[type(segment)]} {segment.id!r} of collection "
                f"{segment.collection_id!r}, but is asked in {collection.id!r}: a prompt can only refer to its own."
            )
        return segment.model_copy(update={"collection_id": collection.id})

    def _missing(self, ref: Ref, number: int) -> list[str]:
        """`agent run 'x' (request 3)`, or nothing where it is there."""
        found = self._kept(ref)
        whose = f" of result set {ref.result_set_id!r}" if isinstance(ref, ResultRef) else ""
        told = f"{KINDS[type(ref)]} {ref.id!r}{whose} (request {number})"
        if found is None:
            return [told]
        if isinstance(found, Result) and found.output is None:
            return [f"{told}, which has no answer: {found.error or 'it was not asked yet'}"]
        return []

    def _found(self, ref: Ref) -> Record | Result | None:
        if isinstance(ref, AgentRunRef):
            return self._archive.record(ref.id, self._collection.id)
        if isinstance(ref, TranscriptRef):
            return self._archive.transcript(ref.id, self._collection.id)
        made = self._sets.find(self._collection.id, ref.result_set_id)
        return self._sets.result(made.id, ref.id) if made else None


def _refs(segments: Sequence[Segment]) -> tuple[Ref, ...]:
    return Prompt(segments).refs

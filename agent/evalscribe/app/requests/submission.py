"""What is asked for in one call, beside what its result set has already."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import NAMESPACE_URL, uuid5

from pydantic import field_validator

from evalscribe.errors import UsageError
from evalscribe.ids import canonical_json, content_id
from evalscribe.model.chat import Effort
from evalscribe.model.collection_storage import ResultSetStore
from evalscribe.model.output_schema import validate_schema
from evalscribe.model.result import LLMRequest, RequestValue, Result, ResultSet
from evalscribe.model.rubric import Collection
from evalscribe.text import pluralise

LONGEST_NAME = 200
EXAMPLE = "openai/gpt-5-mini"
UNNAMED = "unnamed"


class Submission(RequestValue):
    """Requests to one model, for one result set. Raises `UsageError`, for a schema `RubricError`."""

    called: ClassVar[str] = "submit_llm_requests"

    requests: tuple[LLMRequest, ...]
    model: str
    """`provider/name`."""
    name: str | None = None
    """Of the result set; None for one that is named after the requests."""
    exists_ok: bool = False
    """Whether requests may be added to a set that has others."""
    output_schema: dict[str, Any] | None = None
    reasoning_effort: Effort | None = None

    @field_validator("requests")
    @classmethod
    def _some(cls, requests: tuple[LLMRequest, ...]) -> tuple[LLMRequest, ...]:
        if not requests:
            raise UsageError("requests is empty: give at least one LLMRequest")
        return requests

    @field_validator("model")
    @classmethod
    def _of_a_provider(cls, model: str) -> str:
        provider, _, name = model.partition("/")
        if not provider or not name or not model.isprintable() or " " in model:
            raise UsageError(f"model_string {model!r} names no model: give provider/model, such as {EXAMPLE}")
        return model

    @field_validator("name")
    @classmethod
    def _as_a_path(cls, name: str | None) -> str | None:
        parts = [] if name is None else name.split("/")
        if any(not part.strip() or part != part.strip() or not part.isprintable() for part in parts):
            raise UsageError(f"result_set_name {name!r} is no name: words between slashes, such as failures/causes/v1")
        if name and len(name) > LONGEST_NAME:
            raise UsageError(f"result_set_name has {len(name)} characters; {LONGEST_NAME} are the most")
        return name

    @field_validator("output_schema")
    @classmethod
    def _of_an_answer(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            validate_schema(schema, "output_schema")
        return schema


@dataclass(frozen=True)
class Plan:
    """What a call comes to."""

    rows: tuple[Result, ...]
    """One for each request of the call, in its order."""
    new: tuple[Result, ...]
    """Those that the set does not have yet."""


def named(
    sets: ResultSetStore, collection: Collection, submission: Submission, requests: Sequence[LLMRequest], when: str
) -> ResultSet:
    """The set that is meant, as it is or as it is to be made; its id is the same for everybody."""
    name = submission.name or _unnamed(submission, requests)
    return sets.find(collection.id, name) or ResultSet(
        id=_id("result set", collection.id, name),
        collection_id=collection.id,
        name=name,
        output_schema=submission.output_schema,
        created_at=when,
    )


def planned(
    made: ResultSet, there: Sequence[Result], submission: Submission, requests: Sequence[LLMRequest], when: str
) -> Plan:
    """What to ask beside the results that are there.

    Raises `UsageError` where the name is taken by other requests, or by answers of another shape.
    """
    digests = [_digest(submission, one) for one in requests]
    if there:
        _fits(made, there, submission, digests)
    waiting = defaultdict[str, list[Result]](list)
    for one in reversed(there):
        waiting[one.request].append(one)
    rows, new = list[Result](), list[Result]()
    for request, digest in zip(requests, digests, strict=True):
        if waiting[digest]:
            rows.append(waiting[digest].pop())
            continue
        new.append(_new(made, len(there) + len(new), request, digest, submission, when))
        rows.append(new[-1])
    return Plan(rows=tuple(rows), new=tuple(new))


def _fits(found: ResultSet, there: Sequence[Result], submission: Submission, digests: Sequence[str]) -> None:
    if found.output_schema != submission.output_schema:
        raise UsageError(
            f"result set {found.name!r} has answers of another output_schema: a set has one.\nGive the new one another "
            "name."
        )
    if submission.exists_ok or [one.request for one in there] == list(digests):
        return
    raise UsageError(
        f"result set {found.name!r} is there with {pluralise(len(there), 'request')}, and these {len(digests)} are not "
        "the same (prompts, metadata and model count).\nGive another name, or exists_ok=True to add what is missing."
    )


def _new(made: ResultSet, number: int, request: LLMRequest, digest: str, submission: Submission, when: str) -> Result:
    return Result(
        id=_id("result", made.id, str(number)),
        result_set_id=made.id,
        number=number,
        request=digest,
        prompt=request.prompt.segments,
        user_metadata=request.metadata,
        model=submission.model,
        effort=submission.reasoning_effort,
        created_at=when,
    )


def _digest(submission: Submission, request: LLMRequest) -> str:
    return content_id([request, submission.model, submission.reasoning_effort])


def _unnamed(submission: Submission, requests: Sequence[LLMRequest]) -> str:
    """The same requests have the same name, so that a script that is run again goes on."""
    whole = content_id([[_digest(submission, one) for one in requests], submission.output_schema])
    return f"{UNNAMED}/{whole.removeprefix('sha256:')[:12]}"


def _id(*parts: str) -> str:
    """Of one name always the same."""
    return str(uuid5(NAMESPACE_URL, canonical_json(["evalscribe", *parts])))

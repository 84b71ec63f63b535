"""Requests over a collection, with a real store and a scripted model."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evalscribe.collections.requests import RequestOptions, SubmittedRequests, answer_requests
from evalscribe.errors import AccessError, EvalscribeError, NotFoundError, UnavailableError, UsageError
from evalscribe.model.chat import CallFailed, Reply, Request, Usage
from evalscribe.model.protocols import Model, OnText
from evalscribe.model.result import AgentRunRef, LLMRequest, Prompt, Ref, Result, ResultRef, TranscriptRef
from evalscribe.model.rubric import Collection
from evalscribe.store.collections import open_collections
from evalscribe.store.records import RunStore, open_collection_records
from evalscribe.store.results import ResultSetStore
from evalscribe.workspace import Workspace
from support.request_records import RUN, make_record
from support.scripted_model import text_reply

MINE, OTHER = Collection(id="c1", name="mine"), Collection(id="c2", name="other")
NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
USAGE = Usage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.5)
Reaction = Reply | Exception


@dataclass
class Oracle:
    """A `Model` and `Models` whose reply depends on the prompt, and which records its calls."""

    react: Callable[[str], Reaction] = lambda _: text_reply("It lied [T0B1].", usage=USAGE)
    id: str = "openai/gpt-5-mini"
    context_tokens: int = 200_000
    asked: list[str] = field(default_factory=list)
    peak: int = 0
    hangs: str | None = None
    """A prompt that contains this text is never answered."""
    hung: asyncio.Event = field(default_factory=asyncio.Event)
    _open: int = 0

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self.asked.append(request.messages[0].text)
        self._open += 1
        self.peak = max(self.peak, self._open)
        if self.hangs and self.hangs in self.asked[-1]:
            self.hung.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self._open -= 1
        reaction = self.react(request.messages[0].text)
        if isinstance(reaction, Exception):
            raise reaction
        return reaction

    def forget(self, request: Request) -> None: ...

    def open(self, name: str, stage: str) -> Model:
        assert stage == "request"
        self.id = name
        return self

    def spent(self) -> Mapping[str, Usage]:
        return {}

    async def close(self) -> None: ...


@dataclass
class ProgressRecorder:
    """Records the progress of requests."""

    begins: list[tuple[str, int, int]] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)

    def begun(self, name: str, done: int, total: int) -> Callable[[Result, bool], None]:
        self.begins.append((name, done, total))
        return lambda _, known: self.known.append(known)


@dataclass(frozen=True)
class RequestRunner:
    workspace: Workspace
    heard: ProgressRecorder

    @property
    def archive(self) -> RunStore:
        return self.workspace.store.runs

    @property
    def sets(self) -> ResultSetStore:
        return self.workspace.store.results

    async def ask(
        self,
        oracle: Oracle,
        requests: Sequence[LLMRequest],
        name: str | None = "why/v1",
        collection: Collection = MINE,
        concurrency: int = 4,
        **fields: Any,
    ) -> SubmittedRequests:
        arguments = {"requests": requests, "model": oracle.id, "name": name, **fields}
        options = RequestOptions(**arguments)
        return await answer_requests(
            self.workspace, oracle, collection, options, self.heard.begun, concurrency=concurrency, clock=lambda: NOW
        )

    def rows(self, name: str = "why/v1", collection: Collection = MINE) -> tuple[Result, ...]:
        result_set = self.sets.find(collection.id, name)
        return self.sets.results(result_set.id) if result_set else ()


@pytest.fixture(scope="module")
def sample_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two collections that have the same run of three evals."""
    folder = tmp_path_factory.mktemp("made")
    with closing(open_collections(folder)) as collection_store, closing(open_collection_records(folder)) as run_store:
        for collection in (MINE, OTHER):
            collection_store.add_collection(collection)
            run_store.add(collection.id, [RUN], [make_record("a"), make_record("b"), make_record("c", "passed")])
    return folder


@pytest.fixture
def runner(tmp_path: Path, sample_store: Path) -> Iterator[RequestRunner]:
    shutil.copytree(sample_store, tmp_path / ".evalscribe")
    with Workspace(folder=tmp_path, environ={}) as workspace:
        yield RequestRunner(workspace, ProgressRecorder())


def about(*ids: str, **metadata: Any) -> LLMRequest:
    segments = ["Why?\n", *(AgentRunRef(id=id, collection_id="c1") for id in ids)]
    return LLMRequest(prompt=Prompt(segments), metadata={"about": list(ids), **metadata})


THREE = [about("a"), about("b"), about("a", "c")]


async def test_results_are_stored_in_the_order_of_requests(runner: RequestRunner) -> None:
    submitted = await runner.ask(Oracle(), THREE)
    assert (submitted.counts.requests, submitted.counts.results, submitted.sent) == (3, 3, 3)
    assert submitted.citations.verified == 3
    assert submitted.spent == USAGE + USAGE + USAGE
    rows = runner.rows()
    assert [one.user_metadata["about"] for one in rows] == [["a"], ["b"], ["a", "c"]]
    assert [one.number for one in rows] == [0, 1, 2]
    assert rows[0].output is not None
    assert rows[0].output["output"] == "It lied [T0B1]."
    assert (rows[0].cost_usd, rows[0].model, rows[0].created_at) == (
        0.5,
        "openai/gpt-5-mini",
        "2026-11-02T12:00:00.000+00:00",
    )
    assert submitted.result_set.name == "why/v1"
    assert runner.heard.begins == [("why/v1", 0, 3)]


async def test_repeated_call_sends_nothing(runner: RequestRunner) -> None:
    first = await runner.ask(Oracle(), THREE)
    silent = Oracle(AssertionError)
    again = await runner.ask(silent, THREE)
    assert (again.sent, again.spent, silent.asked) == (0, Usage(), [])
    assert (again.result_set, again.counts, again.citations) == (first.result_set, first.counts, first.citations)
    assert runner.heard.begins[-1] == ("why/v1", 3, 3)


async def test_unnamed_requests_find_their_earlier_result_set(runner: RequestRunner) -> None:
    first = await runner.ask(Oracle(), THREE, name=None)
    again = await runner.ask(Oracle(AssertionError), THREE, name=None)
    other = await runner.ask(Oracle(), THREE[:1], name=None)
    assert first.result_set.name.startswith("unnamed/")
    assert again.result_set == first.result_set
    assert other.result_set.name != first.result_set.name


async def test_cached_answer_is_reused_in_another_collection(runner: RequestRunner) -> None:
    await runner.ask(Oracle(), THREE)
    silent = Oracle(AssertionError)
    other = [LLMRequest(prompt=Prompt(["Why?\n", AgentRunRef(id="a", collection_id="c2")]))]
    submitted = await runner.ask(silent, other, name="another", collection=OTHER)
    (row,) = runner.rows("another", OTHER)
    assert (submitted.sent, row.cost_usd, row.input_tokens) == (0, 0.0, 100)
    assert row.output == runner.rows()[0].output
    assert runner.heard.known == [False, False, False, True]


async def test_equal_prompts_of_one_call_are_sent_once(runner: RequestRunner) -> None:
    oracle = Oracle()
    await runner.ask(oracle, [about("a", n=1), about("a", n=2), about("a", n=2)])
    assert len(oracle.asked) == 1
    assert [one.output is not None for one in runner.rows()] == [True] * 3


@pytest.mark.parametrize("other", ["prompt", "metadata", "model", "effort", "fewer", "order"])
async def test_different_requests_under_an_existing_name_are_refused(runner: RequestRunner, other: str) -> None:
    await runner.ask(Oracle(), THREE)
    requests, fields, oracle = list(THREE), {}, Oracle(AssertionError)
    match other:
        case "prompt":
            requests[0] = about("b", "a")
        case "metadata":
            requests[0] = about("a", new=1)
        case "model":
            oracle.id = "openai/another"
        case "effort":
            fields = {"reasoning_effort": "low"}
        case "fewer":
            requests.pop()
        case "order":
            requests.reverse()
    with pytest.raises(UsageError, match=r"result set 'why/v1' already has 3 requests") as refused:
        await runner.ask(oracle, requests, **fields)
    assert "exists_ok=True" in str(refused.value)
    assert len(runner.rows()) == 3


async def test_exists_ok_adds_only_new_requests(runner: RequestRunner) -> None:
    await runner.ask(Oracle(), THREE[:2])
    oracle = Oracle()
    submitted = await runner.ask(oracle, THREE, exists_ok=True)
    assert (len(oracle.asked), submitted.counts.requests) == (1, 3)
    again = await runner.ask(Oracle(AssertionError), THREE[1:], exists_ok=True)
    assert (again.sent, again.counts.requests) == (0, 2)
    assert [one.number for one in runner.rows()] == [0, 1, 2]


async def test_another_output_schema_for_an_existing_set_is_refused(runner: RequestRunner) -> None:
    await runner.ask(Oracle(), THREE[:1])
    schema = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
    with pytest.raises(UsageError, match="a different output_schema"):
        await runner.ask(Oracle(AssertionError), THREE, exists_ok=True, output_schema=schema)


async def test_failed_request_stores_its_error_and_is_retried_next_time(runner: RequestRunner) -> None:
    down = Oracle(lambda text: CallFailed("overloaded") if "Done by b" in text else text_reply("Well.", usage=USAGE))
    submitted = await runner.ask(down, THREE)
    assert (submitted.counts.results, submitted.counts.errors) == (2, 1)
    assert [one.error for one in runner.rows()] == [None, "overloaded", None]
    up = Oracle()
    assert (await runner.ask(up, THREE)).counts.results == 3
    assert len(up.asked) == 1
    assert runner.rows()[1].error is None


async def test_model_refusal_is_not_retried(runner: RequestRunner) -> None:
    await runner.ask(Oracle(lambda _: text_reply("", stop="refusal", usage=USAGE)), THREE[:1])
    submitted = await runner.ask(Oracle(AssertionError), THREE[:1])
    assert (submitted.counts.errors, runner.rows()[0].error) == (1, "the model refused to answer")
    assert runner.rows()[0].cost_usd == 0.5


async def test_access_error_stops_the_call_and_keeps_finished_results(runner: RequestRunner) -> None:
    def react(text: str) -> Reaction:
        return AccessError("the key was refused") if "Done by b" in text else text_reply("Well.", usage=USAGE)

    with pytest.raises(AccessError, match="refused"):
        await runner.ask(Oracle(react), THREE, concurrency=1)
    assert [one.output is not None for one in runner.rows()] == [True, False, False]
    rest = Oracle()
    assert (await runner.ask(rest, THREE)).counts.results == 3
    assert len(rest.asked) == 2


async def test_cancelled_call_continues_where_it_stopped(runner: RequestRunner) -> None:
    oracle = Oracle(hangs="Done by b")
    task = asyncio.ensure_future(runner.ask(oracle, THREE, concurrency=1))
    await oracle.hung.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rest = Oracle()
    assert (await runner.ask(rest, THREE)).counts.results == 3
    assert len(rest.asked) == 2


async def test_concurrency_limit_is_respected(runner: RequestRunner) -> None:
    oracle = Oracle()
    await runner.ask(oracle, [about("a", "b"), *THREE], concurrency=2)
    assert oracle.peak == 2


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (AgentRunRef(id="z"), "agent run 'z' (request 1)"),
        (TranscriptRef(id="z"), "transcript 'z' (request 1)"),
        (ResultRef(id="z", result_set_id="why/v0"), "result 'z' of result set 'why/v0' (request 1)"),
    ],
)
async def test_missing_references_are_named_before_any_request_is_sent(
    runner: RequestRunner, ref: Ref, message: str
) -> None:
    oracle = Oracle(AssertionError)
    with pytest.raises(NotFoundError) as missing:
        await runner.ask(oracle, [about("a"), LLMRequest(prompt=Prompt(["x", ref]))])
    assert str(missing.value) == f"collection 'mine' lacks 1 object that prompts refer to: {message}"
    assert (oracle.asked, runner.rows()) == ([], ())


async def test_reference_to_another_collection_is_refused(runner: RequestRunner) -> None:
    ref = AgentRunRef(id="a", collection_id="c9")
    with pytest.raises(UsageError, match="request 0 refers to agent run 'a' of collection 'c9', but belongs to 'c1'"):
        await runner.ask(Oracle(AssertionError), [LLMRequest(prompt=Prompt([ref]))])


async def test_prompts_can_refer_to_earlier_results(runner: RequestRunner) -> None:
    submitted = await runner.ask(Oracle(), THREE)
    refs = [ResultRef(id=one.id, result_set_id=submitted.result_set.id, collection_id="c1") for one in runner.rows()]
    by_name = ResultRef(id=refs[0].id, result_set_id="why/v1")
    oracle = Oracle(lambda _: text_reply("Both lied [A0:<RANGE>It lied</RANGE>] [A2] [T0B1].", usage=USAGE))
    summary = await runner.ask(oracle, [LLMRequest(prompt=Prompt(["## m", *refs, by_name]))], name="summary")
    assert (summary.citations.verified, summary.citations.unverified) == (2, 1)
    assert "A2 earlier result>\nIt lied.\n" in oracle.asked[0]


async def test_reference_to_a_result_without_an_answer_is_refused(runner: RequestRunner) -> None:
    submitted = await runner.ask(Oracle(lambda _: CallFailed("overloaded")), THREE[:1])
    ref = ResultRef(id=runner.rows()[0].id, result_set_id=submitted.result_set.id)
    with pytest.raises(NotFoundError, match="which has no answer: overloaded"):
        await runner.ask(Oracle(AssertionError), [LLMRequest(prompt=Prompt([ref]))], name="summary")


async def test_locked_result_set_refuses_a_second_call(runner: RequestRunner) -> None:
    submitted = await runner.ask(Oracle(), THREE[:1])
    with runner.sets.lock(submitted.result_set.id), pytest.raises(UnavailableError, match="already"):
        await runner.ask(Oracle(AssertionError), THREE[:1])


async def test_invalid_unicode_is_replaced_in_prompts_and_metadata(runner: RequestRunner) -> None:
    odd = {"half \ud800": ["nul \x00", "\U0001f600"]}
    await runner.ask(Oracle(), [LLMRequest(prompt=Prompt("Why \ud800?"), metadata=odd)])
    (row,) = runner.rows()
    assert (row.prompt, row.user_metadata) == (("Why \ufffd?",), {"half \ufffd": ["nul \ufffd", "\U0001f600"]})
    with pytest.raises(UsageError, match=r"AgentRunRef: id contains NUL or an invalid character"):
        AgentRunRef(id="run \ud800")


async def test_secrets_in_prompts_are_neither_stored_nor_sent(runner: RequestRunner) -> None:
    secret = "sk-ant-api03-" + "aB3" * 31 + "AA"
    oracle = Oracle()
    await runner.ask(oracle, [LLMRequest(prompt=Prompt(f"Is {secret} a key?"), metadata={"key": secret})])
    (row,) = runner.rows()
    assert "aB3aB3" not in oracle.asked[0] + row.model_dump_json()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"requests": []}, "requests is empty: give at least one LLMRequest"),
        ({"requests": ["why?"]}, 'LLMRequest: must be made by LLMRequest(…), not "why?"'),
        ({"model": "gpt-5-mini"}, "model_string 'gpt-5-mini' is not a model: use provider/model, such as openai/"),
        ({"model": "openai/gpt-5 mini"}, "is not a model: use"),
        ({"model": "openai/gpt-5-mini\n"}, "is not a model: use"),
        ({"name": "a//b"}, "result_set_name 'a//b' is not a valid name"),
        ({"name": ""}, "result_set_name '' is not a valid name"),
        ({"name": "a/\x1b[2J"}, "is not a valid name"),
        ({"name": "x" * 201}, "result_set_name has 201 characters; the maximum is 200"),
        ({"reasoning_effort": "hard"}, "submit_llm_requests: reasoning_effort must be 'minimal'"),
        ({"output_schema": {"type": "string"}}, "output_schema"),
    ],
)
def test_invalid_request_options_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalscribeError) as refused:
        RequestOptions(**{"requests": THREE, "model": "openai/gpt-5-mini", **fields})
    assert message in str(refused.value)


async def test_structured_answers_follow_the_schema_and_are_cached(runner: RequestRunner) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["x"]}, "why": {"type": "string", "citations": True}},
        "required": ["label", "why"],
    }
    answer = json.dumps({"label": "x", "why": "[T0B1]"})
    oracle = Oracle(lambda _: text_reply(f"<response>{answer}</response>", usage=USAGE))
    submitted = await runner.ask(oracle, THREE[:1], output_schema=schema)
    assert submitted.citations.verified == 1
    assert submitted.result_set.output_schema == schema
    again = await runner.ask(Oracle(AssertionError), THREE[:1], name="copy", output_schema=schema)
    assert (again.sent, runner.rows("copy")[0].output) == (0, runner.rows()[0].output)

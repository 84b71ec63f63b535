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
class Heard:
    """Records the progress of requests."""

    begins: list[tuple[str, int, int]] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)

    def begun(self, name: str, done: int, total: int) -> Callable[[Result, bool], None]:
        self.begins.append((name, done, total))
        return lambda _, known: self.known.append(known)


@dataclass(frozen=True)
class Bench:
    workspace: Workspace
    heard: Heard

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
        lanes: int = 4,
        **fields: Any,
    ) -> SubmittedRequests:
        wanted = {"requests": requests, "model": oracle.id, "name": name, **fields}
        asked = RequestOptions(**wanted)
        return await answer_requests(
            self.workspace, oracle, collection, asked, self.heard.begun, concurrency=lanes, clock=lambda: NOW
        )

    def rows(self, name: str = "why/v1", collection: Collection = MINE) -> tuple[Result, ...]:
        made = self.sets.find(collection.id, name)
        return self.sets.results(made.id) if made else ()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two collections that have the same run of three evals."""
    folder = tmp_path_factory.mktemp("made")
    with closing(open_collections(folder)) as shelf, closing(open_collection_records(folder)) as archive:
        for collection in (MINE, OTHER):
            shelf.add_collection(collection)
            archive.add(collection.id, [RUN], [make_record("a"), make_record("b"), make_record("c", "passed")])
    return folder


@pytest.fixture
def bench(tmp_path: Path, made: Path) -> Iterator[Bench]:
    shutil.copytree(made, tmp_path / ".evalscribe")
    with Workspace(folder=tmp_path, environ={}) as workspace:
        yield Bench(workspace, Heard())


def about(*ids: str, **metadata: Any) -> LLMRequest:
    segments = ["Why?\n", *(AgentRunRef(id=id, collection_id="c1") for id in ids)]
    return LLMRequest(prompt=Prompt(segments), metadata={"about": list(ids), **metadata})


THREE = [about("a"), about("b"), about("a", "c")]


async def test_results_are_stored_in_the_order_of_requests(bench: Bench) -> None:
    done = await bench.ask(Oracle(), THREE)
    assert (done.counts.requests, done.counts.results, done.sent) == (3, 3, 3)
    assert done.citations.verified == 3
    assert done.spent == USAGE + USAGE + USAGE
    rows = bench.rows()
    assert [one.user_metadata["about"] for one in rows] == [["a"], ["b"], ["a", "c"]]
    assert [one.number for one in rows] == [0, 1, 2]
    assert rows[0].output is not None
    assert rows[0].output["output"] == "It lied [T0B1]."
    assert (rows[0].cost_usd, rows[0].model, rows[0].created_at) == (
        0.5,
        "openai/gpt-5-mini",
        "2026-11-02T12:00:00.000+00:00",
    )
    assert done.result_set.name == "why/v1"
    assert bench.heard.begins == [("why/v1", 0, 3)]


async def test_repeated_call_sends_nothing(bench: Bench) -> None:
    first = await bench.ask(Oracle(), THREE)
    silent = Oracle(AssertionError)
    again = await bench.ask(silent, THREE)
    assert (again.sent, again.spent, silent.asked) == (0, Usage(), [])
    assert (again.result_set, again.counts, again.citations) == (first.result_set, first.counts, first.citations)
    assert bench.heard.begins[-1] == ("why/v1", 3, 3)


async def test_unnamed_requests_find_their_earlier_result_set(bench: Bench) -> None:
    first = await bench.ask(Oracle(), THREE, name=None)
    again = await bench.ask(Oracle(AssertionError), THREE, name=None)
    other = await bench.ask(Oracle(), THREE[:1], name=None)
    assert first.result_set.name.startswith("unnamed/")
    assert again.result_set == first.result_set
    assert other.result_set.name != first.result_set.name


async def test_cached_answer_is_reused_in_another_collection(bench: Bench) -> None:
    await bench.ask(Oracle(), THREE)
    silent = Oracle(AssertionError)
    other = [LLMRequest(prompt=Prompt(["Why?\n", AgentRunRef(id="a", collection_id="c2")]))]
    done = await bench.ask(silent, other, name="another", collection=OTHER)
    (row,) = bench.rows("another", OTHER)
    assert (done.sent, row.cost_usd, row.input_tokens) == (0, 0.0, 100)
    assert row.output == bench.rows()[0].output
    assert bench.heard.known == [False, False, False, True]


async def test_equal_prompts_of_one_call_are_sent_once(bench: Bench) -> None:
    oracle = Oracle()
    await bench.ask(oracle, [about("a", n=1), about("a", n=2), about("a", n=2)])
    assert len(oracle.asked) == 1
    assert [one.output is not None for one in bench.rows()] == [True] * 3


@pytest.mark.parametrize("other", ["prompt", "metadata", "model", "effort", "fewer", "order"])
async def test_different_requests_under_an_existing_name_are_refused(bench: Bench, other: str) -> None:
    await bench.ask(Oracle(), THREE)
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
        await bench.ask(oracle, requests, **fields)
    assert "exists_ok=True" in str(refused.value)
    assert len(bench.rows()) == 3


async def test_exists_ok_adds_only_new_requests(bench: Bench) -> None:
    await bench.ask(Oracle(), THREE[:2])
    oracle = Oracle()
    done = await bench.ask(oracle, THREE, exists_ok=True)
    assert (len(oracle.asked), done.counts.requests) == (1, 3)
    again = await bench.ask(Oracle(AssertionError), THREE[1:], exists_ok=True)
    assert (again.sent, again.counts.requests) == (0, 2)
    assert [one.number for one in bench.rows()] == [0, 1, 2]


async def test_another_output_schema_for_an_existing_set_is_refused(bench: Bench) -> None:
    await bench.ask(Oracle(), THREE[:1])
    schema = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
    with pytest.raises(UsageError, match="another output_schema"):
        await bench.ask(Oracle(AssertionError), THREE, exists_ok=True, output_schema=schema)


async def test_failed_request_stores_its_error_and_is_retried_next_time(bench: Bench) -> None:
    down = Oracle(lambda text: CallFailed("overloaded") if "Done by b" in text else text_reply("Well.", usage=USAGE))
    done = await bench.ask(down, THREE)
    assert (done.counts.results, done.counts.errors) == (2, 1)
    assert [one.error for one in bench.rows()] == [None, "overloaded", None]
    up = Oracle()
    assert (await bench.ask(up, THREE)).counts.results == 3
    assert len(up.asked) == 1
    assert bench.rows()[1].error is None


async def test_model_refusal_is_not_retried(bench: Bench) -> None:
    await bench.ask(Oracle(lambda _: text_reply("", stop="refusal", usage=USAGE)), THREE[:1])
    done = await bench.ask(Oracle(AssertionError), THREE[:1])
    assert (done.counts.errors, bench.rows()[0].error) == (1, "the model refused to answer")
    assert bench.rows()[0].cost_usd == 0.5


async def test_access_error_stops_the_call_and_keeps_finished_results(bench: Bench) -> None:
    def react(text: str) -> Reaction:
        return AccessError("the key was refused") if "Done by b" in text else text_reply("Well.", usage=USAGE)

    with pytest.raises(AccessError, match="refused"):
        await bench.ask(Oracle(react), THREE, lanes=1)
    assert [one.output is not None for one in bench.rows()] == [True, False, False]
    rest = Oracle()
    assert (await bench.ask(rest, THREE)).counts.results == 3
    assert len(rest.asked) == 2


async def test_cancelled_call_continues_where_it_stopped(bench: Bench) -> None:
    oracle = Oracle(hangs="Done by b")
    task = asyncio.ensure_future(bench.ask(oracle, THREE, lanes=1))
    await oracle.hung.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rest = Oracle()
    assert (await bench.ask(rest, THREE)).counts.results == 3
    assert len(rest.asked) == 2


async def test_concurrency_limit_is_respected(bench: Bench) -> None:
    oracle = Oracle()
    await bench.ask(oracle, [about("a", "b"), *THREE], lanes=2)
    assert oracle.peak == 2


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (AgentRunRef(id="z"), "agent run 'z' (request 1)"),
        (TranscriptRef(id="z"), "transcript 'z' (request 1)"),
        (ResultRef(id="z", result_set_id="why/v0"), "result 'z' of result set 'why/v0' (request 1)"),
    ],
)
async def test_missing_references_are_named_before_any_request_is_sent(bench: Bench, ref: Ref, told: str) -> None:
    oracle = Oracle(AssertionError)
    with pytest.raises(NotFoundError) as missing:
        await bench.ask(oracle, [about("a"), LLMRequest(prompt=Prompt(["x", ref]))])
    assert str(missing.value) == f"collection 'mine' lacks 1 object that prompts refer to: {told}"
    assert (oracle.asked, bench.rows()) == ([], ())


async def test_reference_to_another_collection_is_refused(bench: Bench) -> None:
    ref = AgentRunRef(id="a", collection_id="c9")
    with pytest.raises(UsageError, match="request 0 refers to agent run 'a' of collection 'c9', but belongs to 'c1'"):
        await bench.ask(Oracle(AssertionError), [LLMRequest(prompt=Prompt([ref]))])


async def test_prompts_can_refer_to_earlier_results(bench: Bench) -> None:
    done = await bench.ask(Oracle(), THREE)
    refs = [ResultRef(id=one.id, result_set_id=done.result_set.id, collection_id="c1") for one in bench.rows()]
    by_name = ResultRef(id=refs[0].id, result_set_id="why/v1")
    oracle = Oracle(lambda _: text_reply("Both lied [A0:<RANGE>It lied</RANGE>] [A2] [T0B1].", usage=USAGE))
    summary = await bench.ask(oracle, [LLMRequest(prompt=Prompt(["## m", *refs, by_name]))], name="summary")
    assert (summary.citations.verified, summary.citations.unverified) == (2, 1)
    assert "A2 earlier result>\nIt lied.\n" in oracle.asked[0]


async def test_reference_to_a_result_without_an_answer_is_refused(bench: Bench) -> None:
    done = await bench.ask(Oracle(lambda _: CallFailed("overloaded")), THREE[:1])
    ref = ResultRef(id=bench.rows()[0].id, result_set_id=done.result_set.id)
    with pytest.raises(NotFoundError, match="which has no answer: overloaded"):
        await bench.ask(Oracle(AssertionError), [LLMRequest(prompt=Prompt([ref]))], name="summary")


async def test_locked_result_set_refuses_a_second_call(bench: Bench) -> None:
    done = await bench.ask(Oracle(), THREE[:1])
    with bench.sets.lock(done.result_set.id), pytest.raises(UnavailableError, match="already"):
        await bench.ask(Oracle(AssertionError), THREE[:1])


async def test_invalid_unicode_is_replaced_in_prompts_and_metadata(bench: Bench) -> None:
    odd = {"half \ud800": ["nul \x00", "\U0001f600"]}
    await bench.ask(Oracle(), [LLMRequest(prompt=Prompt("Why \ud800?"), metadata=odd)])
    (row,) = bench.rows()
    assert (row.prompt, row.user_metadata) == (("Why \ufffd?",), {"half \ufffd": ["nul \ufffd", "\U0001f600"]})
    with pytest.raises(UsageError, match=r"AgentRunRef: id contains NUL or an invalid character"):
        AgentRunRef(id="run \ud800")


async def test_secrets_in_prompts_are_neither_stored_nor_sent(bench: Bench) -> None:
    secret = "sk-ant-api03-" + "aB3" * 31 + "AA"
    oracle = Oracle()
    await bench.ask(oracle, [LLMRequest(prompt=Prompt(f"Is {secret} a key?"), metadata={"key": secret})])
    (row,) = bench.rows()
    assert "aB3aB3" not in oracle.asked[0] + row.model_dump_json()


@pytest.mark.parametrize(
    ("fields", "told"),
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
def test_invalid_request_options_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(EvalscribeError) as refused:
        RequestOptions(**{"requests": THREE, "model": "openai/gpt-5-mini", **fields})
    assert told in str(refused.value)


async def test_structured_answers_follow_the_schema_and_are_cached(bench: Bench) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["x"]}, "why": {"type": "string", "citations": True}},
        "required": ["label", "why"],
    }
    answer = json.dumps({"label": "x", "why": "[T0B1]"})
    oracle = Oracle(lambda _: text_reply(f"<response>{answer}</response>", usage=USAGE))
    done = await bench.ask(oracle, THREE[:1], output_schema=schema)
    assert done.citations.verified == 1
    assert done.result_set.output_schema == schema
    again = await bench.ask(Oracle(AssertionError), THREE[:1], name="copy", output_schema=schema)
    assert (again.sent, bench.rows("copy")[0].output) == (0, bench.rows()[0].output)

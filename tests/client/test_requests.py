"""Requests and result sets through the SDK, to a provider on loopback."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evalscribe import AgentRunRef, Client, LLMRequest, Prompt, ResultRef
from evalscribe.errors import AccessError, NotFoundError, UsageError
from support import chat_server, trajectories
from support.chat_server import ChatServer
from support.judge_providers import Providers
from support.scripted_server import Answer, Call
from support.waiting import PATIENCE_S, wait_until

MODEL = "openai/gpt-5-mini"
SCHEMA = {
    "type": "object",
    "properties": {
        "cause": {"type": "string", "enum": ["lied", "forgot"]},
        "why": {"type": "string", "citations": True},
    },
    "required": ["cause", "why"],
}


@pytest.fixture
def collection(client: Client, tmp_path: Path) -> str:
    collection_id: str = client.import_file(trajectories.write(tmp_path), "Shop", collection_id="shop")["collection_id"]
    return collection_id


@pytest.fixture
def requests(client: Client, collection: str) -> list[LLMRequest]:
    return [make_request(collection, id) for id in client.list_agent_run_ids(collection)]


def make_request(collection: str, id: str) -> LLMRequest:
    prompt = Prompt(["Why did it fail?\n", AgentRunRef(id=id, collection_id=collection)])
    return LLMRequest(prompt=prompt, metadata={"run": id})


def test_import_file_creates_agent_runs(client: Client, tmp_path: Path) -> None:
    path = trajectories.write(tmp_path)
    first = client.import_file(path, "Shop")
    again = client.import_file(path, "Shop")
    assert (first["new"], again["new"], again["same"]) == (6, 0, 6)
    assert again["run_ids"] == first["run_ids"]
    ids = client.list_agent_run_ids(first["collection_id"])
    assert len(ids) == 6
    run = client.get_agent_run(first["collection_id"], ids[0])
    assert run.id == ids[0]
    assert run.metadata["scores"] == {"reward": 0.0}
    assert run.transcripts[0].messages[-1].content == "Trial 0 says no."
    with pytest.raises(NotFoundError, match="agent run 'x' not found in collection 'Shop'"):
        client.get_agent_run("Shop", "x")


def test_results_are_returned_as_a_data_frame(
    providers: Providers, client: Client, collection: str, requests: list[LLMRequest]
) -> None:
    providers.fixed = "It refused [T0B2:<RANGE>says no</RANGE>] [T0B9]."
    done = client.submit_llm_requests(
        collection_id=collection, requests=requests[:2], model_string=MODEL, result_set_name="failures/causes/v1"
    )
    assert (done["name"], done["collection_id"]) == ("failures/causes/v1", "shop")
    assert done["counts"] == {"requests": 2, "results": 2, "errors": 0, "pending": 0, "sent": 2}
    assert done["citations"] == {"verified": 2, "relocated": 0, "unverified": 2}
    assert done["spent"]["calls"] == 2
    frame = client.get_result_set_dataframe(collection, "failures/causes/v1")
    assert frame.columns.tolist() == [
        *("id", "user_metadata.run", "output.output", "output.citations"),
        *("model", "input_tokens", "output_tokens", "cost_usd", "created_at"),
    ]
    assert frame["user_metadata.run"].tolist() == [result.metadata["run"] for result in requests[:2]]
    assert frame["output.output"].tolist() == [providers.fixed] * 2
    assert frame["output.citations"][0][0]["target"]["agent_run_id"] == requests[0].metadata["run"]
    assert client.get_result_set(collection, done["result_set_id"])["result_count"] == 2


def test_structured_answers_become_columns(
    providers: Providers, client: Client, collection: str, requests: list[LLMRequest]
) -> None:
    providers.fixed = '<response>{"cause": "lied", "why": "[T0B2] says so"}</response>'
    client.submit_llm_requests(collection, requests[:1], MODEL, "causes", output_schema=SCHEMA)
    row = client.get_result_set_dataframe(collection, "causes").iloc[0]
    assert (row["output.cause"], row["output.why"]) == ("lied", "[T0B2] says so")
    assert row["output.why.citations"][0]["status"] == "verified"
    assert client.get_result_set(collection, "causes")["output_schema"] == SCHEMA


def test_results_without_an_answer_are_omitted_by_default(
    providers: Providers, client: Client, collection: str, requests: list[LLMRequest]
) -> None:
    providers.fixed = ""
    done = client.submit_llm_requests(collection, requests[:1], MODEL, "causes")
    assert done["counts"]["errors"] == 1
    assert client.get_result_set_dataframe(collection, "causes").empty
    assert client.get_results(collection, "causes") == []
    (row,) = client.get_results(collection, "causes", include_incomplete=True)
    assert (row["output"], row["error"]) == (None, "the answer is empty")
    frame = client.get_result_set_dataframe(collection, "causes", include_incomplete=True)
    assert frame["error"].tolist() == ["the answer is empty"]


def test_result_sets_are_listed_by_path_prefix(
    providers: Providers, client: Client, collection: str, requests: list[LLMRequest]
) -> None:
    providers.fixed = "Well."
    for name in ("failures/causes/v2", "failures/causes/v1", "failures-old", "tags"):
        client.submit_llm_requests(collection, requests[:1], MODEL, name)

    def names(prefix: str | None) -> list[str]:
        return [result["name"] for result in client.list_result_sets(collection, prefix)]

    assert names(None) == ["failures-old", "failures/causes/v1", "failures/causes/v2", "tags"]
    assert names("failures") == names("failures/") == ["failures/causes/v1", "failures/causes/v2"]
    assert names("failures/causes/v1") == ["failures/causes/v1"]
    with pytest.raises(NotFoundError) as missing:
        client.get_result_set(collection, "failures/v1")
    assert str(missing.value).startswith(
        "result set 'failures/v1' not found in collection 'Shop'; result sets: failures/causes/"
    )


async def test_submit_works_inside_a_running_event_loop(
    providers: Providers, client: Client, collection: str, requests: list[LLMRequest]
) -> None:
    """A notebook calls it like this."""
    assert asyncio.get_running_loop().is_running()
    providers.fixed = "Well."
    assert client.submit_llm_requests(collection, requests, MODEL)["counts"]["results"] == 6


def test_collection_can_be_set_in_the_environment(
    providers: Providers, workspace: Path, collection: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    providers.fixed = "Well."
    client.create_collection("another")
    with pytest.raises(UsageError, match="there are several collections"):
        client.list_result_sets()
    monkeypatch.setenv("EVALSCRIBE_COLLECTION_ID", "shop")
    with Client() as configured:
        llm_requests = [LLMRequest(prompt="What is a refund?")]
        done = configured.submit_llm_requests(requests=llm_requests, model_string=MODEL, result_set_name="words")
        assert done["collection_id"] == "shop"
        assert configured.get_results(None, "words")[0]["output"] == {"output": "Well.", "citations": []}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"requests": []}, "requests is empty"),
        ({"model_string": None}, "model_string is missing: give provider/model, such as openai/gpt-5-mini"),
        ({"model_string": "gpt-5-mini"}, "is not a model: use"),
        ({"model_string": "nobody/gpt-5-mini"}, "nobody/gpt-5-mini is not a known model"),
        ({"max_concurrency": 0}, "max_concurrency must be at least 1"),
    ],
)
def test_invalid_argument_is_reported_before_any_call(
    providers: Providers, client: Client, collection: str, fields: dict[str, Any], expected: str
) -> None:
    llm_requests = {
        "requests": [LLMRequest(prompt="Why?")],
        "model_string": MODEL,
        "collection_id": collection,
        **fields,
    }
    with pytest.raises(UsageError, match=expected):
        client.submit_llm_requests(**llm_requests)
    with pytest.raises(NotFoundError, match="collection 'nowhere' not found; collections: Shop"):
        client.submit_llm_requests("nowhere", [LLMRequest(prompt="Why?")], MODEL)
    assert providers.calls == []


def test_missing_key_is_reported_before_a_result_set_is_created(client: Client, collection: str) -> None:
    with pytest.raises(AccessError, match="OPENAI_API_KEY"):
        client.submit_llm_requests(collection, [LLMRequest(prompt="Why?")], MODEL, "why")
    assert client.list_result_sets(collection) == []


def test_larger_budget_continues_where_the_smaller_one_stopped(
    providers: Providers, client: Client, collection: str, requests: list[LLMRequest]
) -> None:
    providers.fixed = "Well."
    with Client(max_tokens=20_000) as poor:
        done = poor.submit_llm_requests(collection, requests, MODEL, "why", max_concurrency=1)
        assert 0 < done["counts"]["results"] < 6
        assert done["counts"]["results"] + done["counts"]["errors"] == 6
        errors = [
            result["error"]
            for result in poor.get_results(collection, "why", include_incomplete=True)
            if result["error"]
        ]
        assert "run again with a larger budget" in errors[0]
    before = len(providers.calls)
    done = client.submit_llm_requests(collection, requests, MODEL, "why")
    assert (done["counts"]["results"], len(providers.calls)) == (6, 6)
    assert before < 6


def test_missing_pandas_is_reported_with_the_install_command(
    providers: Providers, client: Client, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    providers.fixed = "Well."
    client.submit_llm_requests(collection, [LLMRequest(prompt="Why?")], MODEL, "why")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        UsageError, match=r"pip install 'evalscribe\[data\]'\. Without pandas, get_results returns the same"
    ):
        client.get_result_set_dataframe(collection, "why")


SCRIPT = """
from evalscribe import AgentRunRef, Client, LLMRequest, Prompt
client = Client()
refs = [AgentRunRef(id=id, collection_id="shop") for id in client.list_agent_run_ids("shop")]
asked = [LLMRequest(prompt=Prompt(["Why?", ref]), metadata={"run": ref.id}) for ref in refs]
done = client.submit_llm_requests("shop", asked, "openai/gpt-5-mini", "why", max_concurrency=1)
print(done["counts"])
"""


def test_interrupted_and_killed_submission_continues_where_it_stopped(
    client: Client, collection: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calls are made one at a time. The second call of each interrupted process is never answered."""
    answer = chat_server.says("Well.")
    calls_before = 0

    def script(call: Call) -> Answer:
        return answer if call.number == calls_before else Answer(held=True)

    with ChatServer(script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)

        def finished() -> int:
            sets = client.list_result_sets(collection)
            return int(sets[0]["result_count"]) if sets else 0

        for number in (signal.SIGINT, signal.SIGKILL):
            before, calls_before = finished(), len(server.calls)
            process = subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=subprocess.PIPE, text=True)
            wait_until(lambda before=before: finished() > before, "another result")
            wait_until(lambda llm_requests=calls_before: len(server.calls) == llm_requests + 2, "the call after it")
            process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode != 0
            assert ("KeyboardInterrupt" in err) == (number == signal.SIGINT)
        done, llm_requests = finished(), len(server.calls)
        assert done == 2
        server._script = answer
        exec(SCRIPT, {})
        assert len(server.calls) == llm_requests + 6 - done
    expected = f"{{'requests': 6, 'results': 6, 'errors': 0, 'pending': 0, 'sent': {6 - done}}}\n"
    assert capsys.readouterr() == (expected, ""), "nothing is shown where no person looks"


def test_results_can_be_cited_in_another_request(
    providers: Providers, client: Client, collection: str, requests: list[LLMRequest]
) -> None:
    providers.fixed = "It refused [T0B2]."
    done = client.submit_llm_requests(collection, requests[:2], MODEL, "why")
    ids = client.get_result_set_dataframe(collection, "why")["id"].tolist()
    refs = [ResultRef(id=id, result_set_id=done["result_set_id"], collection_id=collection) for id in ids]
    providers.fixed = "Both refused [A0:<RANGE>It refused</RANGE>] [A1] [A2]."
    summary = client.submit_llm_requests(collection, [LLMRequest(prompt=Prompt(["Sum up:", *refs]))], MODEL, "sum")
    assert summary["citations"] == {"verified": 2, "relocated": 0, "unverified": 1}

"""Every public method of the client."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from evalscribe import AgentRun, Client, ResultType, Rubric
from evalscribe.errors import AccessError, DataError, NotFoundError, RubricError, UsageError
from support.judge_providers import Providers
from support.waiting import PATIENCE_S

RUBRIC = Rubric(rubric_text="Is it right?", id="right")
CHANGED = Rubric(rubric_text="Is it right and short?", id="right")
TONE = {"type": "object", "properties": {"tone": {"type": "string", "enum": ["kind", "rude"]}}}


@pytest.fixture
def collection(client: Client) -> str:
    return client.create_collection("mine")


def test_client_finds_the_workspace_from_any_folder_below(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = workspace / "some/where"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    with Client() as client:
        client.create_collection("mine", id="c1")
    assert (workspace / ".evalscribe/store.db").is_file()
    monkeypatch.chdir("/")
    with Client(below) as client:
        assert client.list_collections() == [{"id": "c1", "name": "mine"}]


def test_create_collection_creates_a_new_one_each_time(client: Client) -> None:
    first, second = client.create_collection("mine"), client.create_collection("mine")
    assert first != second
    assert client.list_collections() == [{"id": first, "name": "mine"}, {"id": second, "name": "mine"}]


def test_create_collection_with_an_explicit_id_is_idempotent(client: Client) -> None:
    assert client.create_collection("mine", id="c1") == "c1"
    assert client.create_collection("mine", id="c1") == "c1"
    with pytest.raises(UsageError, match=r"the id 'c1' is taken by a collection named 'mine'\.\n"):
        client.create_collection("another", id="c1")
    assert len(client.list_collections()) == 1


def test_create_rubric_returns_the_id_and_stores_only_changed_versions(client: Client, collection: str) -> None:
    assert [client.create_rubric(collection, rubric) for rubric in (RUBRIC, RUBRIC, CHANGED)] == ["right"] * 3
    assert [rubric["version"] for rubric in client.list_rubrics(collection)] == [2]


def test_get_rubric_returns_the_latest_version_by_default(client: Client, collection: str) -> None:
    for rubric in (RUBRIC, CHANGED):
        client.create_rubric(collection, rubric)
    assert client.get_rubric(collection, "right") == CHANGED.model_copy(update={"version": 2})
    assert client.get_rubric(collection, "right", version=1) == RUBRIC
    assert client.get_rubric(collection, "right", 2).rubric_text == CHANGED.rubric_text


def test_list_rubrics_returns_the_latest_version_of_each_as_dicts(client: Client, collection: str) -> None:
    for rubric in (RUBRIC, CHANGED, Rubric(rubric_text="x", id="a")):
        client.create_rubric(collection, rubric)
    listed = client.list_rubrics(collection)
    assert [(rubric["id"], rubric["version"]) for rubric in listed] == [("a", 1), ("right", 2)]
    assert Rubric(**json.loads(json.dumps(listed))[1]) == client.get_rubric(collection, "right")


def test_rubric_belongs_to_one_collection(client: Client, collection: str) -> None:
    client.create_rubric(collection, RUBRIC)
    other = client.create_collection("other")
    assert client.list_rubrics(other) == []
    with pytest.raises(NotFoundError, match="rubric 'right' in collection"):
        client.get_rubric(other, "right")


@pytest.mark.parametrize(
    "operation",
    [
        lambda client: client.create_rubric("c9", RUBRIC),
        lambda client: client.get_rubric("c9", "right"),
        lambda client: client.list_rubrics("c9"),
        lambda client: client.get_judge("c9", "right"),
        lambda client: client.create_label_set("c9", "tone", TONE),
        lambda client: client.get_label_set("c9", "l1"),
        lambda client: client.list_label_sets("c9"),
    ],
)
def test_unknown_collection_is_reported_with_the_known_ones(
    client: Client, operation: Callable[[Client], object]
) -> None:
    client.create_collection("mine", id="c1")
    with pytest.raises(NotFoundError, match="collection 'c9' not found; available: c1"):
        operation(client)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda client: client.create_collection(""), "name: is empty"),
        (lambda client: client.create_collection(5), "name: must be a valid string, not 5"),
        (lambda client: client.create_collection("half \ud800"), "an invalid character"),
        (lambda client: client.create_collection("mine", id="\ud800"), "an invalid character"),
        (lambda client: client.create_rubric("c1", Rubric(rubric_text="\ud800")), "an invalid character"),
        (lambda client: client.get_rubric("c1", "\ud800"), "an invalid character"),
        (lambda client: client.create_label_set("c1", "", TONE), "name: is empty"),
    ],
)
def test_value_that_cannot_be_stored_is_reported(
    client: Client, operation: Callable[[Client], object], message: str
) -> None:
    client.create_collection("mine", id="c1")
    with pytest.raises(DataError, match=message):
        operation(client)
    assert (client.list_rubrics("c1"), client.list_label_sets("c1")) == ([], [])
    assert len(client.list_collections()) == 1


@pytest.mark.parametrize("name", ["a\x00b", "'; drop table collections; --", "../../etc", "\U0001f600" * 500])
def test_name_can_be_any_text(client: Client, name: str) -> None:
    assert client.create_collection(name, id=name) == name
    assert client.create_rubric(name, Rubric(rubric_text=name, id=name)) == name
    assert client.get_rubric(name, name).rubric_text == name


def test_label_schema_is_checked_like_an_output_schema(client: Client, collection: str) -> None:
    label_set_id = client.create_label_set(collection, "tone", TONE, description="How it sounds")
    expected = {"id": label_set_id, "name": "tone", "description": "How it sounds", "label_schema": TONE}
    assert client.get_label_set(collection, label_set_id) == expected
    assert client.list_label_sets(collection) == [expected]
    with pytest.raises(RubricError, match=r"^label_schema"):
        client.create_label_set(collection, "bad", {"type": "object", "properties": {"a": {"anyOf": []}}})
    with pytest.raises(NotFoundError, match="label set 'l9'"):
        client.get_label_set(collection, "l9")


def test_get_judge_uses_the_requested_version(
    providers: Providers, client: Client, collection: str, agent_run: AgentRun
) -> None:
    for rubric in (RUBRIC, CHANGED):
        client.create_rubric(collection, rubric)
    providers.rubric = RUBRIC
    with Client() as again:
        first = asyncio.run(again.get_judge(collection, "right", version=1)(agent_run))
        latest = asyncio.run(again.get_judge(collection, "right")(agent_run))
    assert [(rubric.rubric_id, rubric.rubric_version) for rubric in (first, latest)] == [("right", 1), ("right", 2)]
    assert first.agent_run_id == agent_run.id
    bodies = [str(call.body) for call in providers.calls]
    assert [RUBRIC.rubric_text in bodies[0], CHANGED.rubric_text in bodies[1]] == [True, True]
    with pytest.raises(NotFoundError, match="version 3 of rubric 'right' not found; available: 1 to 2"):
        client.get_judge(collection, "right", version=3)


def test_judge_reuses_stored_answers_across_clients(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    """Equal runs with different ids and different clients share the stored answer."""
    providers.rubric = RUBRIC
    results = []
    for number in range(2):
        with Client() as client:
            collection = client.create_collection("mine", id="c1")
            judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
            run = agent_run if number == 0 else agent_run.model_copy(update={"id": "another"})
            results.append(asyncio.run(judge(run)))
    assert len(providers.calls) == 1
    assert [rubric.agent_run_id for rubric in results] == [agent_run.id, "another"]
    assert results[0].output == results[1].output


def test_missing_key_is_reported_before_judging(client: Client, collection: str) -> None:
    client.create_rubric(collection, RUBRIC)
    with pytest.raises(AccessError, match=r"^anthropic/claude-opus-5-5 needs a key: set ANTHROPIC_API_KEY"):
        client.get_judge(collection, "right")


def test_workspace_budget_limits_judges(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    (workspace / "evalscribe.toml").write_text("budget = 0.001\n")
    with Client() as client:
        collection = client.create_collection("mine")
        judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
        result = asyncio.run(judge(agent_run))
    assert result.result_type is ResultType.FAILURE
    assert result.reason is not None
    assert "the budget of $0.001" in result.reason
    assert providers.calls == []


def test_client_works_inside_a_running_event_loop(
    providers: Providers, client: Client, collection: str, agent_run: AgentRun
) -> None:
    """In a notebook, methods are called and judges awaited inside a running event loop."""
    providers.rubric = RUBRIC

    async def cell() -> object:
        judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
        return (await judge(agent_run)).result_type

    assert asyncio.run(cell()) is ResultType.DIRECT_RESULT


def test_client_works_in_threads(providers: Providers, client: Client, collection: str, agent_run: AgentRun) -> None:
    providers.rubric = RUBRIC
    judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
    done = []

    def work(number: int) -> None:
        message = agent_run.model_copy(update={"metadata": {"number": number}})
        client.create_rubric(collection, Rubric(rubric_text=f"r{number}", id="many"))
        done.append(asyncio.run(judge(message)).result_type)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [ResultType.DIRECT_RESULT] * 6
    assert client.get_rubric(collection, "many").version == 6


def test_judge_of_a_closed_client_raises(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    with Client() as client:
        collection = client.create_collection("mine")
        judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
    with pytest.raises(UsageError, match="closed"):
        asyncio.run(judge(agent_run))


def test_program_that_never_closes_the_client_exits_cleanly(workspace: Path, providers: Providers) -> None:
    providers.rubric = RUBRIC
    code = (
        "import asyncio\n"
        "from evalscribe import AgentRun, Client, Rubric, Transcript, UserMessage\n"
        "client = Client()\n"
        "c = client.create_collection('mine')\n"
        "judge = client.get_judge(c, client.create_rubric(c, Rubric(rubric_text='Is it right?')))\n"
        "run = AgentRun(transcripts=[Transcript(messages=[UserMessage(content='x')])])\n"
        "print(asyncio.run(judge(run)).output['label'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.stdout, done.stderr, done.returncode) == ("match\n", "", 0)


def test_unknown_setting_is_reported_when_the_client_is_created(workspace: Path) -> None:
    (workspace / "evalscribe.toml").write_text("budgte = 1\n")
    with pytest.raises(UsageError, match="budgte"):
        Client()

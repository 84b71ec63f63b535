"""Every method of the client, beside what it promises."""

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


def test_no_arguments_are_needed_anywhere_in_a_workspace(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = workspace / "some/where"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    with Client() as client:
        client.create_collection("mine", id="c1")
    assert (workspace / ".evalscribe/store.db").is_file()
    monkeypatch.chdir("/")
    with Client(below) as client:
        assert client.list_collections() == [{"id": "c1", "name": "mine"}]


def test_create_collection_makes_a_new_one_each_time(client: Client) -> None:
    first, second = client.create_collection("mine"), client.create_collection("mine")
    assert first != second
    assert client.list_collections() == [{"id": first, "name": "mine"}, {"id": second, "name": "mine"}]


def test_create_collection_with_an_id_of_your_own(client: Client) -> None:
    assert client.create_collection("mine", id="c1") == "c1"
    assert client.create_collection("mine", id="c1") == "c1"
    with pytest.raises(UsageError, match=r"the id 'c1' is taken by a collection named 'mine'\.\n"):
        client.create_collection("another", id="c1")
    assert len(client.list_collections()) == 1


def test_create_rubric_gives_its_id_and_stores_a_version_where_it_changed(client: Client, collection: str) -> None:
    assert [client.create_rubric(collection, one) for one in (RUBRIC, RUBRIC, CHANGED)] == ["right"] * 3
    assert [one["version"] for one in client.list_rubrics(collection)] == [2]


def test_get_rubric_gives_the_latest_version_unless_told_otherwise(client: Client, collection: str) -> None:
    for one in (RUBRIC, CHANGED):
        client.create_rubric(collection, one)
    assert client.get_rubric(collection, "right") == CHANGED.model_copy(update={"version": 2})
    assert client.get_rubric(collection, "right", version=1) == RUBRIC
    assert client.get_rubric(collection, "right", 2).rubric_text == CHANGED.rubric_text


def test_list_rubrics_gives_the_latest_of_each_as_dicts(client: Client, collection: str) -> None:
    for one in (RUBRIC, CHANGED, Rubric(rubric_text="x", id="a")):
        client.create_rubric(collection, one)
    listed = client.list_rubrics(collection)
    assert [(one["id"], one["version"]) for one in listed] == [("a", 1), ("right", 2)]
    assert Rubric(**json.loads(json.dumps(listed))[1]) == client.get_rubric(collection, "right")


def test_a_rubric_belongs_to_its_collection(client: Client, collection: str) -> None:
    client.create_rubric(collection, RUBRIC)
    other = client.create_collection("other")
    assert client.list_rubrics(other) == []
    with pytest.raises(NotFoundError, match="rubric 'right' in collection"):
        client.get_rubric(other, "right")


@pytest.mark.parametrize(
    "asked",
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
def test_an_unknown_collection_is_named_with_those_there_are(client: Client, asked: Callable[[Client], object]) -> None:
    client.create_collection("mine", id="c1")
    with pytest.raises(NotFoundError, match="collection 'c9' not found; available: c1"):
        asked(client)


@pytest.mark.parametrize(
    ("asked", "said"),
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
def test_what_cannot_be_stored_is_told(client: Client, asked: Callable[[Client], object], said: str) -> None:
    client.create_collection("mine", id="c1")
    with pytest.raises(DataError, match=said):
        asked(client)
    assert (client.list_rubrics("c1"), client.list_label_sets("c1")) == ([], [])
    assert len(client.list_collections()) == 1


@pytest.mark.parametrize("name", ["a\x00b", "'; drop table collections; --", "../../etc", "\U0001f600" * 500])
def test_any_text_is_a_name(client: Client, name: str) -> None:
    assert client.create_collection(name, id=name) == name
    assert client.create_rubric(name, Rubric(rubric_text=name, id=name)) == name
    assert client.get_rubric(name, name).rubric_text == name


def test_label_sets_obey_the_rules_of_output_schemas(client: Client, collection: str) -> None:
    made = client.create_label_set(collection, "tone", TONE, description="How it sounds")
    expected = {"id": made, "name": "tone", "description": "How it sounds", "label_schema": TONE}
    assert client.get_label_set(collection, made) == expected
    assert client.list_label_sets(collection) == [expected]
    with pytest.raises(RubricError, match=r"^label_schema"):
        client.create_label_set(collection, "bad", {"type": "object", "properties": {"a": {"anyOf": []}}})
    with pytest.raises(NotFoundError, match="label set 'l9'"):
        client.get_label_set(collection, "l9")


def test_get_judge_judges_with_the_version_that_was_asked_for(
    providers: Providers, client: Client, collection: str, agent_run: AgentRun
) -> None:
    for one in (RUBRIC, CHANGED):
        client.create_rubric(collection, one)
    providers.rubric = RUBRIC
    with Client() as again:
        first = asyncio.run(again.get_judge(collection, "right", version=1)(agent_run))
        latest = asyncio.run(again.get_judge(collection, "right")(agent_run))
    assert [(one.rubric_id, one.rubric_version) for one in (first, latest)] == [("right", 1), ("right", 2)]
    assert first.agent_run_id == agent_run.id
    asked = [str(call.body) for call in providers.calls]
    assert [RUBRIC.rubric_text in asked[0], CHANGED.rubric_text in asked[1]] == [True, True]
    with pytest.raises(NotFoundError, match="version 3 of rubric 'right' not found; available: 1 to 2"):
        client.get_judge(collection, "right", version=3)


def test_a_judge_of_the_client_asks_nothing_twice(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    """Neither for an equal run of another id, nor in another process or client."""
    providers.rubric = RUBRIC
    results = []
    for number in range(2):
        with Client() as client:
            collection = client.create_collection("mine", id="c1")
            judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
            run = agent_run if number == 0 else agent_run.model_copy(update={"id": "another"})
            results.append(asyncio.run(judge(run)))
    assert len(providers.calls) == 1
    assert [one.agent_run_id for one in results] == [agent_run.id, "another"]
    assert results[0].output == results[1].output


def test_a_missing_key_is_told_before_anything_is_judged(client: Client, collection: str) -> None:
    client.create_rubric(collection, RUBRIC)
    with pytest.raises(AccessError, match=r"^anthropic/claude-opus-5-5 needs a key: set ANTHROPIC_API_KEY"):
        client.get_judge(collection, "right")


def test_the_workspaces_budget_bounds_its_judges(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    (workspace / "evalscribe.toml").write_text("budget = 0.001\n")
    with Client() as client:
        collection = client.create_collection("mine")
        judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
        result = asyncio.run(judge(agent_run))
    assert result.result_type is ResultType.FAILURE
    assert result.reason is not None
    assert "the budget of $0.001" in result.reason
    assert providers.calls == []


def test_it_works_where_a_loop_runs_already(
    providers: Providers, client: Client, collection: str, agent_run: AgentRun
) -> None:
    """As in a notebook: methods are called, and judges awaited, in the loop that runs."""
    providers.rubric = RUBRIC

    async def cell() -> object:
        judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
        return (await judge(agent_run)).result_type

    assert asyncio.run(cell()) is ResultType.DIRECT_RESULT


def test_it_works_in_threads(providers: Providers, client: Client, collection: str, agent_run: AgentRun) -> None:
    providers.rubric = RUBRIC
    judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
    done = []

    def work(number: int) -> None:
        said = agent_run.model_copy(update={"metadata": {"number": number}})
        client.create_rubric(collection, Rubric(rubric_text=f"r{number}", id="many"))
        done.append(asyncio.run(judge(said)).result_type)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [ResultType.DIRECT_RESULT] * 6
    assert client.get_rubric(collection, "many").version == 6


def test_after_closing_its_judges_say_so(workspace: Path, providers: Providers, agent_run: AgentRun) -> None:
    with Client() as client:
        collection = client.create_collection("mine")
        judge = client.get_judge(collection, client.create_rubric(collection, RUBRIC))
    with pytest.raises(UsageError, match="closed"):
        asyncio.run(judge(agent_run))


def test_a_program_that_never_closes_it_ends_quietly(workspace: Path, providers: Providers) -> None:
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


def test_a_broken_setting_is_told_at_once(workspace: Path) -> None:
    (workspace / "evalscribe.toml").write_text("budgte = 1\n")
    with pytest.raises(UsageError, match="budgte"):
        Client()

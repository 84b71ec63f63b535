"""`evalscribe judge RUBRIC --collection C`: agent runs out of the store, chosen in SQL, one at a time."""

import json
from collections import Counter
from typing import Any

import pytest

from support.command import Workspace
from support.messages_server import Answer, Call, MessagesServer, says

KEY = "sk-ant-test-0000"
TOML = """
[cascade]
tag = "anthropic/claude-haiku-5-5"
judge = "anthropic/claude-opus-5-5"
[cascade.tags.hands-over]
about = "the agent hands the user over to somebody else"
rubric = "closer.yaml"
"""


def line(number: int, *, passes: bool) -> str:
    """One agent run in lines of our own."""
    said = [
        {"role": "user", "content": f"Refund order W{number}."},
        {"role": "assistant", "content": "Refunded." if passes else "I hand you over."},
    ]
    about = {"metadata": {"task": str(number), "scores": {"refunded": int(passes)}}}
    return json.dumps({"id": f"run-{number}", "name": f"order-{number}", **about, "transcripts": [{"messages": said}]})


def brought(workspace: Workspace, number: int) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    file = workspace.folder / "orders.jsonl"
    file.write_text("\n".join(line(n, passes=n % 2 == 0) for n in range(number)))
    workspace.run("import", file, "--collection", "orders", "--model", "p/m")


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}


def helps(_: Call) -> Answer:
    return says('<response>{"label": "match", "explanation": "It says so [T0B1:<RANGE>Refunded</RANGE>]."}</response>')


def rows(workspace: Workspace, query: str) -> list[Any]:
    found: list[Any] = json.loads(workspace.run("sql", query, "--collection", "orders", "--json").out)["rows"]
    return found


def test_the_agent_runs_that_fit_are_judged_and_found_in_sql(workspace: Workspace) -> None:
    brought(workspace, 6)
    (workspace.folder / "polite.yaml").write_text("rubric_text: Was it polite?\n")
    asked = ("judge", "--rubric", "polite.yaml", "--collection", "orders", "--where", "status = 'passed'")
    with MessagesServer(helps) as server:
        first = workspace.run(*asked, "--judge", "anthropic/claude-opus-5-5", **access(server))
        assert len(server.calls) == 3
        workspace.run(*asked, "--judge", "anthropic/claude-opus-5-5", **access(server))
        assert len(server.calls) == 3
    assert "3 results, 0 could not be judged" in first.out
    join = "SELECT it.name, said.output->>'label' FROM agent_runs AS it JOIN judge_results AS said "
    assert rows(workspace, join + "ON said.agent_run_id = it.id ORDER BY 1") == [
        ["0", "match"],
        ["2", "match"],
        ["4", "match"],
    ]


def test_rules_judge_failures_of_a_collection_as_those_of_a_run(workspace: Workspace) -> None:
    brought(workspace, 6)
    ended = workspace.run("judge", "failure", "--collection", "orders", "--judge", "rules", "--json")
    found = json.loads(ended.out)
    assert [one["result_type"] for one in found].count("direct_result") == 3
    (run,) = {one["agent_run_id"].partition("/")[0] for one in found if one["result_type"] == "direct_result"}
    alone = json.loads(workspace.run("judge", "failure", run, "--judge", "rules", "--json").out)
    assert {one["id"] for one in alone} <= {one["id"] for one in found}
    join = "SELECT count(*) FROM agent_runs AS it JOIN judge_results AS said ON said.agent_run_id = it.id"
    assert rows(workspace, join) == [[3]]


def test_a_cascade_over_a_collection_asks_the_rubric_of_a_tag(workspace: Workspace) -> None:
    brought(workspace, 6)
    (workspace.folder / "evalscribe.toml").write_text(TOML)
    for name in ("polite", "closer"):
        (workspace.folder / f"{name}.yaml").write_text("rubric_text: Was it polite?\n")

    def tags(call: Call) -> Answer:
        told = {"label": "match", "explanation": "It does."}
        if call.body["model"] == "claude-opus-5-5":
            return says(f"<response>{json.dumps(told)}</response>")
        issues = ["hands-over"] if "I hand you over" in json.dumps(call.body) else []
        return says(f"<response>{json.dumps({'tags': issues, 'sure': True, 'answer': told})}</response>")

    with MessagesServer(tags) as server:
        asked = ("judge", "polite.yaml", "--collection", "orders", "--cascade", "--yes")
        ended = workspace.run(*asked, **access(server))
        models = Counter(call.body["model"] for call in server.calls)
        assert models == {"claude-haiku-5-5": 6, "claude-opus-5-5": 3}
        assert workspace.run(*asked, **access(server)).err.count("(cached)") == 6
        assert len(server.calls) == 9
    assert ended.out.count("with closer@1") == 3
    by_rubric = "SELECT rubric_id, count(*) FROM judge_results GROUP BY 1 ORDER BY 1"
    assert rows(workspace, by_rubric) == [["closer", 3], ["polite-first-pass", 6]]


def test_labels_of_agent_runs_are_compared_with_judges(workspace: Workspace) -> None:
    brought(workspace, 6)
    ids = [row[0] for row in rows(workspace, "SELECT id FROM agent_runs WHERE status = 'failed'")]
    labels = workspace.folder / "labels.jsonl"
    told = [{"subject": {"agent_run_id": id}, "label": "MODEL_FAULT"} for id in ids]
    labels.write_text("\n".join(map(json.dumps, told)))
    ended = workspace.run("judge-eval", "failure", labels, "--collection", "orders", "--judge", "rules", "--json")
    (judge,) = json.loads(ended.out)["judges"]
    assert judge["subjects"] == judge["judged"] == 3
    fewer = workspace.run(
        "judge-eval", "failure", labels, "--collection", "orders", "--where", "trial > 9", "--judge", "rules", code=66
    )
    assert "nothing to judge" in fewer.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param([], 64, "name a rubric", id="nothing"),
        pytest.param(["failure"], 64, "nothing to judge", id="no subject"),
        pytest.param(["failure", "x.json", "--where", "1 = 1"], 64, "leave out the subjects", id="both"),
        pytest.param(["failure", "--collection", "none"], 66, "none", id="no collection"),
        pytest.param(["nothing", "--collection", "orders"], 66, "nothing", id="no rubric"),
        pytest.param(["failure", "--where", "nonsense("], 64, "--where", id="no SQL"),
    ],
)
def test_what_cannot_be_judged_is_said(workspace: Workspace, arguments: list[str], code: int, words: str) -> None:
    brought(workspace, 2)
    assert words in workspace.run("judge", *arguments, "--judge", "rules", code=code).err

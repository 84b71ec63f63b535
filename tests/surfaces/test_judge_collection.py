"""`evalscribe judge RUBRIC --collection C`: stored agent runs, selected with SQL."""

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
    """One agent run as a line of a JSONL file."""
    messages = [
        {"role": "user", "content": f"Refund order W{number}."},
        {"role": "assistant", "content": "Refunded." if passes else "I hand you over."},
    ]
    metadata = {"metadata": {"task": str(number), "scores": {"refunded": int(passes)}}}
    return json.dumps(
        {"id": f"run-{number}", "name": f"order-{number}", **metadata, "transcripts": [{"messages": messages}]}
    )


def import_runs(workspace: Workspace, number: int) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    file = workspace.folder / "orders.jsonl"
    file.write_text("\n".join(line(n, passes=n % 2 == 0) for n in range(number)))
    workspace.run("import", file, "--collection", "orders", "--model", "p/m")


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}


def answer_match(_: Call) -> Answer:
    return says('<response>{"label": "match", "explanation": "It says so [T0B1:<RANGE>Refunded</RANGE>]."}</response>')


def rows(workspace: Workspace, query: str) -> list[Any]:
    result: list[Any] = json.loads(workspace.run("sql", query, "--collection", "orders", "--json").out)["rows"]
    return result


def test_where_selects_agent_runs_and_results_can_be_queried(workspace: Workspace) -> None:
    import_runs(workspace, 6)
    (workspace.folder / "polite.yaml").write_text("rubric_text: Was it polite?\n")
    command = ("judge", "--rubric", "polite.yaml", "--collection", "orders", "--where", "status = 'passed'")
    with MessagesServer(answer_match) as server:
        first = workspace.run(*command, "--judge", "anthropic/claude-opus-5-5", **access(server))
        assert len(server.calls) == 3
        workspace.run(*command, "--judge", "anthropic/claude-opus-5-5", **access(server))
        assert len(server.calls) == 3
    assert "3 results, 0 could not be judged" in first.out
    join = "SELECT it.name, said.output->>'label' FROM agent_runs AS it JOIN judge_results AS said "
    assert rows(workspace, join + "ON said.agent_run_id = it.id ORDER BY 1") == [
        ["0", "match"],
        ["2", "match"],
        ["4", "match"],
    ]


def test_rules_judge_failures_of_a_collection_like_those_of_its_run(workspace: Workspace) -> None:
    import_runs(workspace, 6)
    ended = workspace.run("judge", "failure", "--collection", "orders", "--judge", "rules", "--json")
    results = json.loads(ended.out)
    assert [one["result_type"] for one in results].count("direct_result") == 3
    (run,) = {one["agent_run_id"].partition("/")[0] for one in results if one["result_type"] == "direct_result"}
    alone = json.loads(workspace.run("judge", "failure", run, "--judge", "rules", "--json").out)
    assert {one["id"] for one in alone} <= {one["id"] for one in results}
    join = "SELECT count(*) FROM agent_runs AS it JOIN judge_results AS said ON said.agent_run_id = it.id"
    assert rows(workspace, join) == [[3]]


def test_cascade_over_a_collection_uses_the_rubric_of_a_tag(workspace: Workspace) -> None:
    import_runs(workspace, 6)
    (workspace.folder / "evalscribe.toml").write_text(TOML)
    for name in ("polite", "closer"):
        (workspace.folder / f"{name}.yaml").write_text("rubric_text: Was it polite?\n")

    def tags(call: Call) -> Answer:
        answer = {"label": "match", "explanation": "It does."}
        if call.body["model"] == "claude-opus-5-5":
            return says(f"<response>{json.dumps(answer)}</response>")
        issues = ["hands-over"] if "I hand you over" in json.dumps(call.body) else []
        return says(f"<response>{json.dumps({'tags': issues, 'sure': True, 'answer': answer})}</response>")

    with MessagesServer(tags) as server:
        command = ("judge", "polite.yaml", "--collection", "orders", "--cascade", "--yes")
        ended = workspace.run(*command, **access(server))
        models = Counter(call.body["model"] for call in server.calls)
        assert models == {"claude-haiku-5-5": 6, "claude-opus-5-5": 3}
        assert workspace.run(*command, **access(server)).err.count("(cached)") == 6
        assert len(server.calls) == 9
    assert ended.out.count("with closer@1") == 3
    by_rubric = "SELECT rubric_id, count(*) FROM judge_results GROUP BY 1 ORDER BY 1"
    assert rows(workspace, by_rubric) == [["closer", 3], ["polite-first-pass", 6]]


def test_judge_eval_compares_labels_of_agent_runs_with_a_judge(workspace: Workspace) -> None:
    import_runs(workspace, 6)
    ids = [row[0] for row in rows(workspace, "SELECT id FROM agent_runs WHERE status = 'failed'")]
    labels = workspace.folder / "labels.jsonl"
    entries = [{"subject": {"agent_run_id": id}, "label": "MODEL_FAULT"} for id in ids]
    labels.write_text("\n".join(map(json.dumps, entries)))
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
        pytest.param(["failure", "x.json", "--where", "1 = 1"], 64, "cannot be used with named runs", id="both"),
        pytest.param(["failure", "--collection", "none"], 66, "none", id="no collection"),
        pytest.param(["nothing", "--collection", "orders"], 66, "nothing", id="no rubric"),
        pytest.param(["failure", "--where", "nonsense("], 64, "--where", id="no SQL"),
    ],
)
def test_invalid_judge_arguments_are_reported(
    workspace: Workspace, arguments: list[str], code: int, words: str
) -> None:
    import_runs(workspace, 2)
    assert words in workspace.run("judge", *arguments, "--judge", "rules", code=code).err

"""An experiment over one split, through the command line, from creation to regression dataset."""

import json

from support.command import Workspace

COMPONENT = """\
def agent(question):
    return "no" if question == "q1" else question
"""


def test_experiment_on_a_split_runs_and_reports_only_that_split(workspace: Workspace) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    (workspace.folder / "suite.py").write_text(COMPONENT)
    splits = ("dev", "test", "train", "test", "dev")
    items = [{"key": f"k{n}", "input": f"q{n}", "expected_output": f"q{n}", "split": s} for n, s in enumerate(splits)]
    (workspace.folder / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    workspace.run("datasets", "create", "--name", "questions")
    workspace.run("datasets", "upload", "questions", "items.jsonl")
    workspace.run("datasets", "publish", "questions")
    workspace.run("experiments", "deployments", "create", "--name", "base", "--component", "agent=python:suite:agent")
    target = ("--target-type", "component", "--deployment-id", "base", "--component-name", "agent")
    create = ("experiments", "create", "--name", "held-out", "--dataset-id", "questions", *target)
    scorer = ("--builtin-scorer", "exact_match", "--config")
    refused = workspace.run(*create, *scorer, '{"split": "tests"}', code=64)
    assert "questions@1 has no items; splits: dev (2), test (2), train (1)" in refused.err
    workspace.run(*create, *scorer, '{"split": "test"}')
    assert "questions@1:test" in workspace.run("experiments", "show", "held-out").out

    ended = workspace.run("experiments", "run", "held-out", "--name", "once", "--wait", code=2)
    assert "pass rate 1/2 = 50.0 %" in ended.out
    assert "Started run" in ended.err
    assert ": 2 trials" in ended.err
    shown = workspace.run("experiments", "runs", "show", "once").out
    assert "questions@1:test" in shown
    assert "2 items" in shown
    assert "questions@1:test" in workspace.run("experiments", "runs", "list", "held-out").out
    exported = workspace.run("experiments", "runs", "export", "once", "--format", "jsonl").out
    assert [json.loads(line)["item_key"] for line in exported.splitlines()] == ["k1", "k3"]

    regression_dataset = workspace.run(
        "experiments", "runs", "regression-dataset", "once", "--name", "again", "--format", "json"
    ).out
    version = json.loads(workspace.run("experiments", "show", "again", "--format", "json").out)
    assert json.loads(regression_dataset)["items"] == 1
    assert version["config"]["split"] is None, "a failure of the split is tried whatever its split is"

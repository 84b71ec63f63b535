"""What was made by mistake is deleted: after a question in a terminal, elsewhere with --yes."""

import json
from pathlib import Path

import pytest

from support.command import InProcessCommand
from support.terminal import TerminalCommand

RUN = ("experiments", "run", "--target", "python:agent:answer", "--data", "items.jsonl", "--scorer", "exact_match")
GATE = '{"passed_threshold": 0, "no_new_failures_vs": "one"}'


@pytest.fixture
def tried(inside: InProcessCommand) -> InProcessCommand:
    """A folder with a run of an experiment."""
    (inside.folder / "agent.py").write_text("def answer(question):\n    return question\n")
    (inside.folder / "items.jsonl").write_text('{"input": "a", "expected": "a"}\n{"input": "b", "expected": "b"}\n')
    inside.run(*RUN, "--name", "one")
    return inside


def listed(inside: InProcessCommand, *kind: str) -> list[object]:
    return list(json.loads(inside.run(*kind, "list", "--json").out))


def logs(folder: Path) -> list[Path]:
    return list((folder / ".evalscribe" / "logs").iterdir())


def test_a_run_an_experiment_and_its_dataset_are_deleted(tried: InProcessCommand) -> None:
    used = tried.run("datasets", "delete", "items", "--yes", code=64).err
    assert "this dataset is used by 1 experiment: answer-items.\nNothing was deleted" in used
    assert "experiments delete" in tried.run("collections", "delete", "answer-items", "--yes", code=64).err
    tried.run(*RUN, "--name", "two")
    refused = tried.run("experiments", "runs", "delete", "one", code=64).err
    assert refused.startswith("evalscribe: run one has 2 trials.\nTo delete all of that, give --yes; reports")
    assert tried.run("experiments", "runs", "delete", "one", "--yes").out == "Deleted run one: 2 trials.\n"
    assert tried.run("experiments", "runs", "show", "one", code=66)
    assert len(logs(tried.folder)) == 1

    asked = tried.run("experiments", "delete", "answer-items", code=64).err
    assert "experiment answer-items has 1 version, 1 run, 2 trials.\n" in asked
    gone = tried.run("experiments", "delete", "answer-items", "--yes").out
    assert gone == "Deleted experiment answer-items: 1 version, 1 run, 2 trials.\n"
    gone = tried.run("datasets", "delete", "items", "--yes").out
    assert gone == "Deleted dataset items: 2 draft items, 1 version.\n"
    assert (listed(tried, "datasets"), listed(tried, "experiments"), logs(tried.folder)) == ([], [], [])
    assert "Deleted runs: 2" in tried.run("gc").out
    assert json.loads(tried.run("collections", "list", "--json").out) == {"collections": []}
    tried.run(*RUN, "--name", "one")


def test_what_is_compared_with_stays(tried: InProcessCommand) -> None:
    tried.run(*RUN, "--config", GATE)
    refused = tried.run("experiments", "runs", "delete", "one", "--yes", code=64).err
    assert "the gate of experiment answer-items compares with run one.\nNothing was deleted" in refused
    tried.run("experiments", "delete", "answer-items", "--yes")


def test_a_run_under_way_stays(tried: InProcessCommand) -> None:
    (tried.folder / "agent.py").write_text("import time\n\n\ndef answer(question):\n    time.sleep(3600)\n")
    id = tried.run(*RUN, "--no-wait").out.strip()
    for words in (("runs", "delete", id), ("delete", "answer-items")):
        refused = tried.run("experiments", *words, "--yes", code=64).err
        assert "a run in progress cannot be deleted" in refused
    tried.run("experiments", "runs", "cancel", id)
    tried.run("experiments", "runs", "delete", id, "--yes")


def test_a_rubric_is_deleted_with_its_versions(inside: InProcessCommand) -> None:
    inside.run("rubrics", "create", "failure")
    assert "rubric failure has 1 version.\nTo delete" in inside.run("rubrics", "delete", "failure", code=64).err
    assert inside.run("rubrics", "delete", "failure", "--yes").out == "Deleted rubric failure: 1 version.\n"
    inside.run("rubrics", "delete", "failure", "--yes", code=66)
    assert "failure       not stored yet, shipped file" in inside.run("rubrics", "list").out


def test_in_a_terminal_the_user_is_asked(inside: InProcessCommand) -> None:
    inside.run("datasets", "create", "--name", "mine")
    inside.run("datasets", "add-example", "mine", "--input", "a")
    asked = TerminalCommand(inside.folder, "datasets", "delete", "mine")
    asked.wait_for("dataset mine has 1 draft item.\r\nDelete all of that? [y/N]: ")
    asked.type("n\n")
    assert asked.ended() == 0
    assert "Nothing was deleted." in asked.shown
    asked = TerminalCommand(inside.folder, "datasets", "delete", "mine")
    asked.wait_for("[y/N]: ")
    asked.type("y\n")
    assert asked.ended() == 0
    assert listed(inside, "datasets") == []

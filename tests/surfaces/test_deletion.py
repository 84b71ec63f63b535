"""Delete commands: a terminal asks for confirmation, elsewhere `--yes` is required."""

import json
from pathlib import Path

import pytest

from support.command import InProcessCommand
from support.terminal import TerminalCommand

RUN = ("experiments", "run", "--target", "python:agent:answer", "--data", "items.jsonl", "--scorer", "exact_match")
GATE = '{"passed_threshold": 0, "no_new_failures_vs": "one"}'


@pytest.fixture
def with_run(inside: InProcessCommand) -> InProcessCommand:
    """A folder with one experiment run."""
    (inside.folder / "agent.py").write_text("def answer(question):\n    return question\n")
    (inside.folder / "items.jsonl").write_text('{"input": "a", "expected": "a"}\n{"input": "b", "expected": "b"}\n')
    inside.run(*RUN, "--name", "one")
    return inside


def listed(inside: InProcessCommand, *kind: str) -> list[object]:
    return list(json.loads(inside.run(*kind, "list", "--json").out))


def logs(folder: Path) -> list[Path]:
    return list((folder / ".evalscribe" / "logs").iterdir())


def test_run_experiment_and_dataset_are_deleted_with_their_contents(with_run: InProcessCommand) -> None:
    in_use = with_run.run("datasets", "delete", "items", "--yes", code=64).err
    assert "this dataset is used by 1 experiment: answer-items.\nNothing was deleted" in in_use
    assert "experiments delete" in with_run.run("collections", "delete", "answer-items", "--yes", code=64).err
    with_run.run(*RUN, "--name", "two")
    refused = with_run.run("experiments", "runs", "delete", "one", code=64).err
    assert refused.startswith("evalscribe: run one has 2 trials.\nTo delete all of that, give --yes; reports")
    assert with_run.run("experiments", "runs", "delete", "one", "--yes").out == "Deleted run one: 2 trials.\n"
    assert with_run.run("experiments", "runs", "show", "one", code=66)
    assert len(logs(with_run.folder)) == 1

    unconfirmed = with_run.run("experiments", "delete", "answer-items", code=64).err
    assert "experiment answer-items has 1 version, 1 run, 2 trials.\n" in unconfirmed
    deleted = with_run.run("experiments", "delete", "answer-items", "--yes").out
    assert deleted == "Deleted experiment answer-items: 1 version, 1 run, 2 trials.\n"
    deleted = with_run.run("datasets", "delete", "items", "--yes").out
    assert deleted == "Deleted dataset items: 2 draft items, 1 version.\n"
    assert (listed(with_run, "datasets"), listed(with_run, "experiments"), logs(with_run.folder)) == ([], [], [])
    assert "Deleted runs: 2" in with_run.run("gc").out
    assert json.loads(with_run.run("collections", "list", "--json").out) == {"collections": []}
    with_run.run(*RUN, "--name", "one")


def test_run_used_by_a_gate_cannot_be_deleted(with_run: InProcessCommand) -> None:
    with_run.run(*RUN, "--config", GATE)
    refused = with_run.run("experiments", "runs", "delete", "one", "--yes", code=64).err
    assert "the gate of experiment answer-items compares with run one.\nNothing was deleted" in refused
    with_run.run("experiments", "delete", "answer-items", "--yes")


def test_run_in_progress_cannot_be_deleted(with_run: InProcessCommand) -> None:
    (with_run.folder / "agent.py").write_text("import time\n\n\ndef answer(question):\n    time.sleep(3600)\n")
    id = with_run.run(*RUN, "--no-wait").out.strip()
    for words in (("runs", "delete", id), ("delete", "answer-items")):
        refused = with_run.run("experiments", *words, "--yes", code=64).err
        assert "a run in progress cannot be deleted" in refused
    with_run.run("experiments", "runs", "cancel", id)
    with_run.run("experiments", "runs", "delete", id, "--yes")


def test_rubric_is_deleted_with_its_versions(inside: InProcessCommand) -> None:
    inside.run("rubrics", "create", "failure")
    assert "rubric failure has 1 version.\nTo delete" in inside.run("rubrics", "delete", "failure", code=64).err
    assert inside.run("rubrics", "delete", "failure", "--yes").out == "Deleted rubric failure: 1 version.\n"
    inside.run("rubrics", "delete", "failure", "--yes", code=66)
    assert "failure       not stored yet, shipped file" in inside.run("rubrics", "list").out


def test_delete_asks_for_confirmation_in_a_terminal(inside: InProcessCommand) -> None:
    inside.run("datasets", "create", "--name", "mine")
    inside.run("datasets", "add-example", "mine", "--input", "a")
    terminal = TerminalCommand(inside.folder, "datasets", "delete", "mine")
    terminal.wait_for("dataset mine has 1 draft item.\r\nDelete all of that? [y/N]: ")
    terminal.type("n\n")
    assert terminal.ended() == 0
    assert "Nothing was deleted." in terminal.shown
    terminal = TerminalCommand(inside.folder, "datasets", "delete", "mine")
    terminal.wait_for("[y/N]: ")
    terminal.type("y\n")
    assert terminal.ended() == 0
    assert listed(inside, "datasets") == []

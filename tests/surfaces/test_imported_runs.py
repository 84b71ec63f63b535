"""Files of runs and imported runs are analysed, explained and judged like any other."""

import json
from collections import Counter
from pathlib import Path

import pytest

from evalscribe.sample import checkpoints_file
from support.command import Workspace


def of_one_run(folder: Path) -> Path:
    lines = checkpoints_file().read_text("utf-8").splitlines(keepends=True)
    file = folder / "first.jsonl"
    file.write_text("".join(lines[:37]), "utf-8")
    return file


def test_a_file_is_imported_and_its_run_analysed_and_is_there_afterwards(workspace: Workspace) -> None:
    file = of_one_run(workspace.folder)
    ended = workspace.run("analyze", file, "--judge", "rules", "--json")
    told = json.loads(ended.out)
    assert "first.jsonl (evalscribe): 36 evals, 36 new\n" in ended.err
    assert (told["run"]["id"], told["run"]["failed"], told["run"]["total"]) == ("room-desk-c1", 12, 36)
    assert {one["cause"] for one in told["findings"]} >= {"other-room-in-book-room", "never-says-what-was-asked"}
    assert all(citation["status"] == "verified" for one in told["findings"] for citation in one["citations"])
    file.unlink()
    again = workspace.run("analyze", "room-desk-c1", "--judge", "rules")
    assert "Run room-desk-c1 is read from the store." in again.err
    assert "unchanged" in again.out
    explained = workspace.run("explain", "room-desk-c1", "room-desk/book-small#2", "--judge", "rules")
    assert 'room "Oak" instead of "Fir"' in explained.out
    workspace.run("reports", "check")


UNKNOWN = [
    "analyze typo.json",
    "explain nope an-eval",
    "import nope",
    "compare nope room-desk-c1",
    "judge failure nope",
]


@pytest.mark.parametrize(("words", "key"), [*((words, "") for words in UNKNOWN), (UNKNOWN[0], "prod:a|b")])
def test_a_name_that_nothing_has_is_66_and_needs_no_key(workspace: Workspace, words: str, key: str) -> None:
    named = "typo.json" if "typo" in words else "nope"
    said = workspace.run(*words.split(), code=66, CONVEX_DEPLOY_KEY=key).err.removeprefix("Reading nope\n")
    assert f'No file or run "{named}".' in said
    assert "Convex" not in said
    assert "key" not in said.lower()


def test_an_unknown_run_is_answered_with_the_nearest(workspace: Workspace) -> None:
    workspace.run("import", checkpoints_file())
    said = workspace.run("analyze", "room-desk-c3", code=66).err
    assert 'No file or run "room-desk-c3". Nearest: room-desk-c2, room-desk-c1.' in said
    (workspace.folder / "result.json").write_text("{}")
    assert "Nearest: result.json." in workspace.run("analyze", "results.json", code=66).err
    both = workspace.run("analyze", "room-desk", code=64).err
    assert "'room-desk' matches 2 runs; choose one by its id: room-desk-c1, room-desk-c2" in both


@pytest.mark.parametrize("run", ["jn7em9ag4xxa9s37nhh83rxw913phxtt", "https://x.example/experiment/default/run/jn7x"])
def test_what_has_the_form_of_a_deployments_id_names_the_key_that_is_missing(workspace: Workspace, run: str) -> None:
    said = workspace.run("analyze", run, code=77).err
    assert "CONVEX_DEPLOY_KEY" in said
    assert len(said.splitlines()) == 2


def test_a_run_that_is_imported_is_not_called_unknown_where_it_cannot_be_fetched(workspace: Workspace) -> None:
    workspace.run("import", checkpoints_file())
    said = workspace.run("fetch", "room-desk-c1", "-o", "kept", code=77).err
    assert "room-desk-c1 is already imported and cannot be fetched; analyses of it need no network: no Convex" in said


def test_a_file_of_several_runs_names_them(workspace: Workspace) -> None:
    ended = workspace.run("analyze", checkpoints_file(), "--judge", "rules", code=64)
    assert (
        "contains 2 runs. `evalscribe import FILE` stores them; then choose one by its id:\n  room-desk-" in ended.err
    )
    assert "  room-desk-c2 (" in ended.err
    assert 'No file or run "room-desk-c2"' in workspace.run("analyze", "room-desk-c2", code=66).err, (
        "nothing was stored"
    )
    workspace.run("import", checkpoints_file())
    assert "room-desk-c2" in workspace.run("analyze", "room-desk-c2", "--judge", "rules").out


def test_a_folder_of_files_is_analysed_like_a_file(workspace: Workspace) -> None:
    folder = workspace.folder / "logs"
    folder.mkdir()
    of_one_run(folder)
    (folder / "notes.txt").write_text("nothing of the kind")
    assert ": 12 of 36 evals failed" in workspace.run("analyze", folder, "--judge", "rules").out
    (folder / "all.jsonl").write_bytes(checkpoints_file().read_bytes())
    said = workspace.run("analyze", folder, "--judge", "rules", code=64).err
    assert "logs contains several runs; choose one of its files:\n  " in said
    assert "all.jsonl: room-desk-c1 (" in said
    for file in folder.glob("*.jsonl"):
        file.unlink()
    said = workspace.run("analyze", folder, "--judge", "rules", code=66).err
    assert "no file in it contains runs: \n" in said
    assert "notes.txt contains no runs: it is neither JSON nor XML" in said
    assert "lists the formats" not in said


TESTS = """<testsuite name="shop"><testcase classname="t" name="a"/><testcase classname="t" name="b">
<failure message="AssertionError">def b():
>  assert 1 == 2
E  assert 1 == 2

t.py:2: AssertionError</failure></testcase></testsuite>"""


def test_what_was_said_of_a_run_stays_until_something_else_is_said(workspace: Workspace) -> None:
    file = workspace.folder / "results.xml"
    file.write_text(TESTS)

    def known() -> list[str]:
        told = workspace.run(
            "sql", "SELECT DISTINCT runs.provider, runs.model, runs.experiment, "
            "agent_runs.metadata_json->'agent'->>'model_name' AS agent "
            "FROM runs JOIN agent_runs ON agent_runs.run_id = runs.id", "--collection", "mine", "--format", "csv",
        )  # fmt: skip
        return told.out.splitlines()[1:]

    workspace.run("import", file, "--collection", "mine", "--model", "acme/m-1", "--experiment", "nightly")
    assert known() == ["acme,m-1,nightly,m-1"]
    ended = workspace.run("analyze", file, "--judge", "rules")
    assert "2 evals, 0 new\n" in ended.err
    assert "reports/acme/m-1/" in ended.out
    workspace.run("import", file, "--collection", "mine")
    assert known() == ["acme,m-1,nightly,m-1"]
    workspace.run("analyze", file, "--judge", "rules", "--model", "acme/m-2")
    assert known() == ["acme,m-2,nightly,m-2"]
    assert len(workspace.run("collections", "list").out.splitlines()) == 1


def test_imported_runs_are_judged_before_they_were_analysed(workspace: Workspace) -> None:
    workspace.run("import", "sample")
    ended = workspace.run("judge", "failure", "room-desk-c2", "room-desk/move-full#1", "--judge", "rules")
    assert "gives-up-after-move-booking" in ended.out
    assert workspace.run("judge", "failure", "room-desk", "--judge", "rules", code=64).err.count("room-desk-c") == 2


def test_a_log_is_imported_before_it_is_judged(workspace: Workspace) -> None:
    file = workspace.folder / "results.xml"
    file.write_text(TESTS)
    ended = workspace.run("judge", "failure", file, "--judge", "rules", code=65)
    assert "evalscribe import" in ended.err
    assert "then evalscribe judge RUBRIC --collection NAME" in ended.err
    workspace.run("import", file)
    assert "[log failure:5]" in workspace.run("judge", "failure", "--collection", "results", "--judge", "rules").out


def test_a_file_that_holds_no_run_is_65(workspace: Workspace) -> None:
    file = workspace.folder / "notes.txt"
    file.write_text("nothing of the kind")
    assert "`evalscribe import --help` lists the formats" in workspace.run("analyze", file, code=65).err


@pytest.mark.parametrize("name", ["lm_eval/two_filters/samples_sums_*.jsonl", "harbor/jobs/model", "helm/mmlu-*"])
def test_a_threshold_is_kept(workspace: Workspace, real_data: Path, name: str) -> None:
    (path,) = (real_data / "formats").glob(name)

    def brought(*words: str) -> tuple[dict[str, int], int]:
        (one,) = json.loads(workspace.run("import", str(path), "--json", *words).out)["imports"].values()
        return one["statuses"], one["added"]["changed"]

    before, _ = brought()
    assert before["failed"]
    lenient, changed = brought("--threshold", "0")
    assert not lenient.get("failed")
    assert changed >= before["failed"]
    assert brought() == (lenient, 0)
    assert "evals passed. Nothing was written." in workspace.run("analyze", str(path), "--judge", "rules").out
    assert brought("--threshold", "1") == (before, changed)


def test_real_trajectories_are_analysed(workspace: Workspace, real_data: Path) -> None:
    file = next((real_data / "tau-bench").glob("gpt-4o-*.json"))
    ended = workspace.run("analyze", file, "--judge", "rules", "--provider", "openai", "--model", "gpt-4o", "--json")
    told = json.loads(ended.out)
    assert (told["run"]["passed"], told["run"]["failed"], told["run"]["total"]) == (31, 69, 100)
    assert len(told["findings"]) == 69
    assert sum(one["cause"].startswith("unexplained") for one in told["findings"]) == 0
    failed = Counter(one["eval"].partition("#")[0] for one in told["findings"])
    uncertain = [failed[one["eval"].partition("#")[0]] for one in told["findings"] if one["uncertain"]]
    assert sum(number < 4 for number in uncertain) <= 15, "another trial of the four passed"

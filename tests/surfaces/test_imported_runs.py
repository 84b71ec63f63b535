"""Run files and imported runs are analysed, explained and judged like fetched runs."""

import json
from collections import Counter
from pathlib import Path

import pytest

from evalscribe.sample import checkpoints_file
from support.command import Workspace


def write_one_run(folder: Path) -> Path:
    lines = checkpoints_file().read_text("utf-8").splitlines(keepends=True)
    file = folder / "first.jsonl"
    file.write_text("".join(lines[:37]), "utf-8")
    return file


def test_analyze_imports_a_file_and_keeps_its_run(workspace: Workspace) -> None:
    file = write_one_run(workspace.folder)
    ended = workspace.run("analyze", file, "--judge", "rules", "--json")
    document = json.loads(ended.out)
    assert "first.jsonl (evalscribe): 36 evals, 36 new\n" in ended.err
    assert (document["run"]["id"], document["run"]["failed"], document["run"]["total"]) == ("room-desk-c1", 12, 36)
    assert {one["cause"] for one in document["findings"]} >= {"other-room-in-book-room", "never-says-what-was-asked"}
    assert all(citation["status"] == "verified" for one in document["findings"] for citation in one["citations"])
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
def test_unknown_file_or_run_exits_with_66_and_mentions_no_key(workspace: Workspace, words: str, key: str) -> None:
    named = "typo.json" if "typo" in words else "nope"
    error = workspace.run(*words.split(), code=66, CONVEX_DEPLOY_KEY=key).err.removeprefix("Reading nope\n")
    assert f'No file or run "{named}".' in error
    assert "Convex" not in error
    assert "key" not in error.lower()


def test_unknown_run_lists_the_nearest_names(workspace: Workspace) -> None:
    workspace.run("import", checkpoints_file())
    error = workspace.run("analyze", "room-desk-c3", code=66).err
    assert 'No file or run "room-desk-c3". Nearest: room-desk-c2, room-desk-c1.' in error
    (workspace.folder / "result.json").write_text("{}")
    assert "Nearest: result.json." in workspace.run("analyze", "results.json", code=66).err
    both = workspace.run("analyze", "room-desk", code=64).err
    assert "'room-desk' matches 2 runs; choose one by its id: room-desk-c1, room-desk-c2" in both


@pytest.mark.parametrize("run", ["jn7em9ag4xxa9s37nhh83rxw913phxtt", "https://x.example/experiment/default/run/jn7x"])
def test_deployment_run_without_a_key_names_the_missing_variable(workspace: Workspace, run: str) -> None:
    error = workspace.run("analyze", run, code=77).err
    assert "CONVEX_DEPLOY_KEY" in error
    assert len(error.splitlines()) == 2


def test_fetch_of_an_imported_run_says_it_is_already_imported(workspace: Workspace) -> None:
    workspace.run("import", checkpoints_file())
    error = workspace.run("fetch", "room-desk-c1", "-o", "kept", code=77).err
    assert "room-desk-c1 is already imported and cannot be fetched; analyses of it need no network: no Convex" in error


def test_file_with_several_runs_lists_them(workspace: Workspace) -> None:
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


def test_folder_of_run_files_is_analysed_like_a_file(workspace: Workspace) -> None:
    folder = workspace.folder / "logs"
    folder.mkdir()
    write_one_run(folder)
    (folder / "notes.txt").write_text("nothing of the kind")
    assert ": 12 of 36 evals failed" in workspace.run("analyze", folder, "--judge", "rules").out
    (folder / "all.jsonl").write_bytes(checkpoints_file().read_bytes())
    error = workspace.run("analyze", folder, "--judge", "rules", code=64).err
    assert "logs contains several runs; choose one of its files:\n  " in error
    assert "all.jsonl: room-desk-c1 (" in error
    for file in folder.glob("*.jsonl"):
        file.unlink()
    error = workspace.run("analyze", folder, "--judge", "rules", code=66).err
    assert "no file in it contains runs: \n" in error
    assert "notes.txt contains no runs: it is neither JSON nor XML" in error
    assert "lists the formats" not in error


TESTS = """<testsuite name="shop"><testcase classname="t" name="a"/><testcase classname="t" name="b">
<failure message="AssertionError">def b():
>  assert 1 == 2
E  assert 1 == 2

t.py:2: AssertionError</failure></testcase></testsuite>"""


def test_run_metadata_is_kept_until_it_is_overridden(workspace: Workspace) -> None:
    file = workspace.folder / "results.xml"
    file.write_text(TESTS)

    def metadata() -> list[str]:
        result = workspace.run(
            "sql", "SELECT DISTINCT runs.provider, runs.model, runs.experiment, "
            "agent_runs.metadata_json->'agent'->>'model_name' AS agent "
            "FROM runs JOIN agent_runs ON agent_runs.run_id = runs.id", "--collection", "mine", "--format", "csv",
        )  # fmt: skip
        return result.out.splitlines()[1:]

    workspace.run("import", file, "--collection", "mine", "--model", "acme/m-1", "--experiment", "nightly")
    assert metadata() == ["acme,m-1,nightly,m-1"]
    ended = workspace.run("analyze", file, "--judge", "rules")
    assert "2 evals, 0 new\n" in ended.err
    assert "reports/acme/m-1/" in ended.out
    workspace.run("import", file, "--collection", "mine")
    assert metadata() == ["acme,m-1,nightly,m-1"]
    workspace.run("analyze", file, "--judge", "rules", "--model", "acme/m-2")
    assert metadata() == ["acme,m-2,nightly,m-2"]
    assert len(workspace.run("collections", "list").out.splitlines()) == 1


def test_imported_run_is_judged_without_an_analysis(workspace: Workspace) -> None:
    workspace.run("import", "sample")
    ended = workspace.run("judge", "failure", "room-desk-c2", "room-desk/move-full#1", "--judge", "rules")
    assert "gives-up-after-move-booking" in ended.out
    assert workspace.run("judge", "failure", "room-desk", "--judge", "rules", code=64).err.count("room-desk-c") == 2


def test_judge_asks_to_import_a_log_first(workspace: Workspace) -> None:
    file = workspace.folder / "results.xml"
    file.write_text(TESTS)
    ended = workspace.run("judge", "failure", file, "--judge", "rules", code=65)
    assert "evalscribe import" in ended.err
    assert "then evalscribe judge RUBRIC --collection NAME" in ended.err
    workspace.run("import", file)
    assert "[log failure:5]" in workspace.run("judge", "failure", "--collection", "results", "--judge", "rules").out


def test_file_without_runs_exits_with_65(workspace: Workspace) -> None:
    file = workspace.folder / "notes.txt"
    file.write_text("nothing of the kind")
    assert "`evalscribe import --help` lists the formats" in workspace.run("analyze", file, code=65).err


@pytest.mark.parametrize("name", ["lm_eval/two_filters/samples_sums_*.jsonl", "harbor/jobs/model", "helm/mmlu-*"])
def test_import_threshold_is_kept_until_it_is_changed(workspace: Workspace, real_data: Path, name: str) -> None:
    (path,) = (real_data / "formats").glob(name)

    def import_statuses(*words: str) -> tuple[dict[str, int], int]:
        (one,) = json.loads(workspace.run("import", str(path), "--json", *words).out)["imports"].values()
        return one["statuses"], one["added"]["changed"]

    before, _ = import_statuses()
    assert before["failed"]
    lenient, changed = import_statuses("--threshold", "0")
    assert not lenient.get("failed")
    assert changed >= before["failed"]
    assert import_statuses() == (lenient, 0)
    assert "evals passed. Nothing was written." in workspace.run("analyze", str(path), "--judge", "rules").out
    assert import_statuses("--threshold", "1") == (before, changed)


def test_real_tau_bench_trajectories_are_analysed(workspace: Workspace, real_data: Path) -> None:
    file = next((real_data / "tau-bench").glob("gpt-4o-*.json"))
    ended = workspace.run("analyze", file, "--judge", "rules", "--provider", "openai", "--model", "gpt-4o", "--json")
    document = json.loads(ended.out)
    assert (document["run"]["passed"], document["run"]["failed"], document["run"]["total"]) == (31, 69, 100)
    assert len(document["findings"]) == 69
    assert sum(one["cause"].startswith("unexplained") for one in document["findings"]) == 0
    failed = Counter(one["eval"].partition("#")[0] for one in document["findings"])
    uncertain = [failed[one["eval"].partition("#")[0]] for one in document["findings"] if one["uncertain"]]
    assert sum(number < 4 for number in uncertain) <= 15, "another trial of the four passed"

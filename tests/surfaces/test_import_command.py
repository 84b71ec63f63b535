"""The commands import, export and collections."""

import json
import os
import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from support.command import InProcessCommand, Workspace, end
from support.waiting import wait_until

MODEL_MISSING = "The file does not name the model: give --model PROVIDER/MODEL and import again.\n"


def trials(number: int, **more: Any) -> list[dict[str, Any]]:
    message = {"role": "user", "content": "hello"}
    return [
        {"task_id": n // 2, "trial": n % 2, "reward": float(n % 2), "info": {}, "traj": [message], **more}
        for n in range(number)
    ]


@pytest.fixture
def file(workspace: Workspace) -> Path:
    path = workspace.folder / "airline run.json.gz.json"
    path.write_text(json.dumps([*trials(4), 7]))
    return path


def collections(inside: InProcessCommand) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(inside.run("collections", "list", "--json").out)["collections"]
    return listed


def test_import_creates_a_collection_named_after_the_file(inside: InProcessCommand, file: Path) -> None:
    first = inside.run("import", file.name)
    run_id = collections(inside)[0]["runs"][0]["id"]
    assert first.err == f"Reading {file.name}\n"
    assert first.out == (
        f"{file.name} (tau-bench)\n"
        f"  {run_id} unknown/unknown, tau-bench: 2 of 4 evals passed, 2 failed\n"
        "  4 new (2 failed, 2 passed)\n"
        "  left out: 1 x an entry that is not an object with a `task_id` (first: [4])\n"
        f"{MODEL_MISSING}"
        "Collection: airline run (id airline-run)\n"
        f"Next: evalscribe analyze {run_id}\n"
    )
    assert "  0 new, 4 same (2 failed, 2 passed)\n" in inside.run("import", file.name).out
    named = inside.run("import", file.name, "--model", "openai/gpt-4o", "--experiment", "airline").out
    assert f"  {run_id} openai/gpt-4o, airline: 2 of 4 evals passed, 2 failed\n" in named
    assert MODEL_MISSING not in named
    assert inside.run("collections", "list").out == "airline run (id airline-run): 1 run, 4 evals\n"
    assert inside.run("collections", "show").out == (
        f"airline run (id airline-run)\n  {run_id} openai/gpt-4o, airline: 2 of 4 evals passed, 2 failed\n"
    )


def test_import_collection_is_chosen_by_option_or_environment(inside: InProcessCommand, file: Path) -> None:
    inside.run("import", file.name, "--collection", "checkpoints", "--collection-id", "c-1")
    inside.run("import", file.name, "--collection-id", "c-1")
    inside.run("import", file.name, "--collection", "checkpoints")
    inside.run("import", file.name, EVALSCRIBE_COLLECTION_ID="mine")
    assert [(one["id"], one["name"], len(one["runs"])) for one in collections(inside)] == [
        ("c-1", "checkpoints", 1),
        ("mine", "airline run", 1),
    ]
    ended = inside.run("import", file.name, "--collection", "other", "--collection-id", "c-1", code=64)
    assert "c-1" in ended.err
    assert "there are several collections; choose one" in inside.run("collections", "show", code=64).err
    assert inside.run("collections", "show", EVALSCRIBE_COLLECTION_ID="mine").out.startswith("airline run (id mine)\n")
    run_id = collections(inside)[0]["runs"][0]["id"]
    assert inside.run("collections", "remove", run_id[:6], "--collection", "mine").out == (
        f"Run {run_id} is no longer in airline run\n"
        "`evalscribe gc` deletes runs that are in no collection and were not analysed.\n"
    )
    assert [len(one["runs"]) for one in collections(inside)] == [1, 0]
    assert "has no run 'zzz'" in inside.run("collections", "remove", "zzz", "--collection", "c-1", code=66).err


def test_only_an_empty_collection_is_deleted_without_yes(inside: InProcessCommand, file: Path) -> None:
    for name in ("first", "second"):
        inside.run("import", file.name, "--collection", name)
    error = inside.run("collections", "delete", "first", code=64).err
    assert "collection first has 1 run.\nTo delete all of that, give --yes" in error
    assert "name the runs to remove" in inside.run("collections", "remove", code=64).err
    assert inside.run("collections", "remove", "--all", "--collection", "first").out.startswith("Run ")
    assert inside.run("collections", "delete", "first").out == "The collection first is deleted.\n"
    assert [one["name"] for one in collections(inside)] == ["second"]
    assert inside.run("collections", "show").out.startswith("second\n")


def test_dry_run_import_stores_nothing(inside: InProcessCommand, file: Path) -> None:
    output = inside.run("import", file.name, "--dry-run").out
    assert not (inside.folder / ".evalscribe").exists()
    assert "  would be imported: 2 failed, 2 passed\n" in output
    assert output.endswith("Nothing was stored (--dry-run).\n")
    assert (
        inside.run("collections", "list").out == "There is no collection yet: `evalscribe import FILE` creates one.\n"
    )


def test_folder_import_skips_files_without_runs_and_symlinks(inside: InProcessCommand, file: Path, made: Path) -> None:
    folder = inside.folder / "runs"
    (folder / "deep").mkdir(parents=True)
    os.rename(file, folder / "deep" / "a.json")
    (folder / "notes.md").write_text("# notes")
    os.symlink(made, folder / "linked")
    os.symlink(made / "failed_evals.json", folder / "failed.json")
    done = json.loads(inside.run("import", "runs", made, "--json").out)
    assert done["collection"] == {"id": "runs", "name": "runs"}
    assert [one["format"] for one in done["imports"].values()] == ["tau-bench", "convex"]
    assert done["imports"][str(made)]["added"] == {"new": 8, "changed": 0, "same": 0}
    assert list(done["passed_over"]) == ["runs/notes.md"]
    text = inside.run("import", "runs").out
    assert "Passed over: runs/notes.md contains no runs: it is neither JSON nor XML" in text


def test_named_file_without_runs_stops_the_import(inside: InProcessCommand, file: Path) -> None:
    (inside.folder / "notes.md").write_text("# notes")
    ended = inside.run("import", file.name, "notes.md", code=65)
    assert ended.err.startswith("evalscribe: notes.md contains no runs: it is neither JSON nor XML")
    assert collections(inside) == []
    (inside.folder / "results.yaml").write_text("evalId: e\nresults:\n  version: 3\n")
    assert (
        "it is YAML. With `-o results.json`, promptfoo writes JSON" in inside.run("import", "results.yaml", code=65).err
    )
    assert "file nothing.json not found" in inside.run("import", "nothing.json", code=66).err
    (inside.folder / "only").mkdir()
    (inside.folder / "only" / "notes.md").write_text("# notes")
    assert "none of the files contains runs" in inside.run("import", "only", code=65).err


def test_records_before_a_syntax_error_are_kept(inside: InProcessCommand) -> None:
    (inside.folder / "torn.json").write_text(json.dumps(trials(4))[:-30])
    ended = inside.run("import", "torn.json", code=65)
    assert "  3 new (2 failed, 1 passed)\n" in ended.out
    assert "torn.json: invalid JSON: Expecting value at line 1, column 383" in ended.err
    assert ended.err.endswith("Everything before the error is kept.\n")
    (inside.folder / "none.xml").write_text("<testsuite><testcase name='a'>")
    assert "none.xml: invalid XML at line 1" in inside.run("import", "none.xml", code=65).err
    assert [len(one["runs"]) for one in collections(inside)] == [1], "what gave nothing makes no collection"


@pytest.mark.parametrize(
    ("name", "line", "evals"),
    [
        ("claude_code/tool_call_conversation.jsonl", 2, 1),
        ("codex/rollout-*.jsonl", 200, 1),
        ("lm_eval/two_filters/samples_sums_*.jsonl", 3, 6),
        ("every_eval_ever/converted/inspect/ai2_arc/ollama/qwen2.5-0.5b/*_samples.jsonl", 2, 2),
        ("promptfoo/echo/results.jsonl", 12, 23),
    ],
)
def test_damaged_line_of_a_real_file_is_reported(
    inside: InProcessCommand, real_data: Path, name: str, line: int, evals: int
) -> None:
    (whole,) = (real_data / "formats").glob(name)
    lines = whole.read_text().splitlines(keepends=True)
    torn = lines[line - 1][: len(lines[line - 1]) // 2] + "\n"
    (inside.folder / whole.name).write_text("".join([*lines[: line - 1], torn, *lines[line:]]))
    ended = inside.run("import", whole.name, "--json", code=65)
    (one,) = json.loads(ended.out)["imports"].values()
    assert (sum(one["statuses"].values()), one["added"]["new"]) == (evals, evals)
    assert (one["runs"][0]["unread"], len(one["lost"])) == (one["lost"], 1)
    assert "1 x a " in ended.err
    assert ended.err.endswith("The rest of the file is kept.\n")


@pytest.mark.parametrize("name", ["claude_code/tool_call_conversation.jsonl", "codex/rollout-*.jsonl"])
def test_unfinished_last_line_of_a_session_is_left_out_without_error(
    inside: InProcessCommand, real_data: Path, name: str
) -> None:
    (whole,) = (real_data / "formats").glob(name)
    (inside.folder / whole.name).write_text(whole.read_text().rstrip("\n")[:-20])
    assert "  left out: 1 x a last line that is not finished (first: " in inside.run("import", whole.name).out


def test_exported_collection_can_be_imported_again(inside: InProcessCommand, file: Path) -> None:
    inside.run("import", file.name)
    printed = inside.run("export").out
    assert inside.run("export", "-o", "copy.jsonl.gz").out == "5 lines of airline run are in copy.jsonl.gz\n"
    assert "  0 new, 4 same" in inside.run("import", "copy.jsonl.gz").out
    run_id = json.loads(printed.splitlines()[0])["run"]["id"]
    assert inside.run("export", run_id[:5], "--collection", "copy").out == printed
    assert "has no run 'zzz'" in inside.run("export", "zzz", "--collection", "copy", code=66).err
    assert "cannot write no/where" in inside.run("export", "--collection", "copy", "-o", "no/where", code=65).err


def test_interrupted_import_continues_where_it_stopped(workspace: Workspace, inside: InProcessCommand) -> None:
    path = workspace.folder / "long.json"
    path.write_text(json.dumps(trials(4000, note="x" * 300)))
    process = workspace.apart.start("import", path.name)
    wait_until(lambda: _count_evals(workspace.folder) > 0, "the first evals are stored")
    ended, _ = end(process, signal.SIGINT)
    assert (ended.code, "run the same command again to continue" in ended.err) == (130, True)
    stored = _count_evals(workspace.folder)
    assert 0 < stored < 4000
    assert f"  {4000 - stored} new, {stored} same" in inside.run("import", path.name).out


def _count_evals(folder: Path) -> int:
    for path in (folder / ".evalscribe").glob("*.db"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM evals").fetchone()[0])
    return 0


def test_delete_with_yes_removes_a_collection_and_its_runs(inside: InProcessCommand, file: Path) -> None:
    for name in ("first", "second"):
        inside.run("import", file.name, "--collection", name)
    output = inside.run("collections", "delete", "first", "--yes").out
    assert output == "Deleted: 1 run.\nThe collection first is deleted.\n"
    assert [(one["name"], len(one["runs"])) for one in collections(inside)] == [("second", 1)]
    inside.run("collections", "delete", "second", "--yes")
    assert collections(inside) == []
    assert "Deleted runs: 1" in inside.run("gc").out


def test_collections_use_sets_the_default_collection(inside: InProcessCommand, file: Path) -> None:
    for name in ("first", "second"):
        inside.run("import", file.name, "--collection", name)
    config = inside.folder / "evalscribe.toml"
    config.write_text("# mine\nbudget = 2 # dollars\n\n[cascade]\n# none\n")
    assert "second is the default collection: " in inside.run("collections", "use", "second").out
    text = '# mine\nbudget = 2 # dollars\ncollection_id = "{}"\n\n[cascade]\n# none\n'
    assert config.read_text() == text.format("second")
    assert inside.run("collections", "show").out.startswith("second\n")
    output = inside.run("collections", "use", "first", EVALSCRIBE_COLLECTION_ID="second").out
    assert "Note: 'second' from environment takes precedence." in output
    assert config.read_text() == text.format("first")
    assert "collection 'third' not found" in inside.run("collections", "use", "third", code=66).err
    config.unlink()
    inside.run("collections", "use", "second")
    assert config.read_text() == 'collection_id = "second"\n'
    elsewhere = inside.folder / "elsewhere.toml"
    elsewhere.write_text("budget = 1\n")
    config.unlink()
    config.symlink_to(elsewhere)
    assert "add this line above the first [table]" in inside.run("collections", "use", "second", code=64).err
    assert elsewhere.read_text() == "budget = 1\n"

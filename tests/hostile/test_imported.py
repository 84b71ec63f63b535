"""Hostile files in the formats of other tools: no traceback, no reading of other files, bounded time and memory."""

import gzip
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.sources import claude_code, files, harbor, line_groups, records
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import MAX_FOLDER_LEVELS, open_records, run_files
from evalscribe.sources.promptfoo import Promptfoo

KEY = "sk-ant-api03-" + "Ab1" * 31 + "AA"
HOSTILE_ID = f"../../x\x1b[31m\n{KEY}"
LM_EVAL = {"doc_id": 0, "doc": {}, "target": "1", "filtered_resps": [], "metrics": ["acc"], "acc": 0.0}
ROW = {"promptIdx": 0, "success": False, "prompt": {"raw": "p"}, "response": {"output": "x"}}
AGENT_TRAJECTORY = {"trajectory_format": "mini-swe-agent-1", "info": {"exit_status": "Submitted"}}


def read_all(path: Path, **overrides: object) -> tuple[list[Run], list[Record], dict[str, int]]:
    reading = open_records(path, RunOverrides.model_validate(overrides))
    read = list(reading.read())
    runs = [one for one in read if isinstance(one, Run)]
    return runs, [one for one in read if isinstance(one, Record)], dict(reading.left_out)


def terminal_bench(path: Path, **trial: object) -> Path:
    one = {"task_id": "t", "trial_name": "t.1-of-5.x", "is_resolved": False, **trial}
    path.write_text(json.dumps({"id": HOSTILE_ID, "results": [one], "accuracy": 0, "unresolved_ids": []}))
    return path


def test_hostile_ids_become_short_alphanumeric_ids(tmp_path: Path) -> None:
    (run,), (record,), _ = read_all(terminal_bench(tmp_path / "results.json", id=HOSTILE_ID))
    for id in (run.id, record.eval.id):
        assert id.isalnum()
        assert len(id) == 22


def test_omission_notes_are_redacted_and_printable(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    deep = json.loads("[" * 150 + "]" * 150)
    path.write_text(json.dumps({**LM_EVAL, "doc_id": HOSTILE_ID * 20, "doc": deep, "resps": []}) + "\n")
    _, _, left_out = read_all(path)
    (note,) = left_out
    assert KEY not in note
    assert note.isprintable()
    assert len(note) < 400


@pytest.mark.parametrize("name", ["t.{}-of-5.x", "t.1-of-{}.x"])
def test_trial_number_of_any_length_is_accepted(tmp_path: Path, name: str) -> None:
    assert len(read_all(terminal_bench(tmp_path / "results.json", trial_name=name.format("9" * 5000)))[1]) == 1


def test_target_with_any_number_of_digits_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    choices = [[["-1", "False"]], [["-2", "False"]]]
    path.write_text(json.dumps({**LM_EVAL, "target": "9" * 5000, "resps": choices}) + "\n")
    assert len(read_all(path)[1]) == 1


def test_counts_too_large_for_the_database_are_dropped(tmp_path: Path) -> None:
    path = terminal_bench(tmp_path / "results.json", total_input_tokens=1e300)
    (run,), (record,), _ = read_all(path)
    assert run.input_tokens is None
    assert "usage" not in record.metadata


def test_costs_with_an_infinite_sum_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps({**ROW, "vars": {"q": n}, "cost": 1e308}) + "\n" for n in range(3)))
    (run,), _, _ = read_all(path)
    assert run.cost_usd is None


def test_deeply_nested_values_are_rendered_compactly() -> None:
    deep: object = list(range(1000))
    for _ in range(90):
        deep = [deep]
    assert len(records.as_text(deep)) < 10_000
    assert records.as_text({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'


def test_number_of_runs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_RUNS", 3)
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps({**ROW, "promptIdx": n}) + "\n" for n in range(5)))
    runs, stored_records, left_out = read_all(path)
    assert (len(runs), len(stored_records)) == (3, 3)
    assert left_out == {"an eval of a run after the first 3 (first: line 4)": 2}


def test_number_of_steps_is_limited_and_the_failed_step_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_STEPS", 3)
    checks = [{"pass": n != 8, "assertion": {"type": f"check {n}"}, "reason": "why"} for n in range(10)]
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({**ROW, "gradingResult": {"componentResults": checks}}) + "\n")
    _, (record,), left_out = read_all(path)
    assert [step.name for step in record.steps] == ["check 0", "check 1", "check 2", "check 8"]
    assert record.eval.failed_step == "check 8"
    assert left_out == {"a step of an eval with too many steps (first: line 1)": 6}


def test_deeply_nested_folders_are_refused(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(MAX_FOLDER_LEVELS + 1):
        folder = folder / "d"
    folder.mkdir(parents=True)
    with pytest.raises(DataError, match="nested more than 100 levels"):
        run_files(tmp_path)


def test_harbor_task_with_a_pipe_or_deep_folders_has_no_checksum(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert harbor.task_checksum(tmp_path) is None
    (tmp_path / "a" / "f").write_text("x")
    assert harbor.task_checksum(tmp_path)
    os.mkfifo(tmp_path / "a" / "pipe")
    assert harbor.task_checksum(tmp_path) is None
    (tmp_path / "a" / "pipe").unlink()
    tmp_path.joinpath("a", *["d"] * 60).mkdir(parents=True)
    assert harbor.task_checksum(tmp_path) is None


@pytest.fixture
def agent_folder(tmp_path: Path) -> Path:
    (tmp_path / "i1").mkdir()
    (tmp_path / "i1" / "i1.traj.json").write_text(json.dumps({**AGENT_TRAJECTORY, "messages": []}))
    return tmp_path


BILLION = "".join(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9))
STATUSES = {
    "impossible date": "instances_by_exit_status:\n  2020-13-45: [i2]\n",
    "merge bomb": "a0: &a0 {x: 1, y: 2}\n" + BILLION + "instances_by_exit_status: {LimitsExceeded: [i2]}\n",
    "deep": "instances_by_exit_status: " + "[" * 20_000,
    "deep lists": "- " * 20_000,
    "python": "instances_by_exit_status: !!python/object/apply:os.system ['exit 1']\n",
}


@pytest.mark.parametrize(
    ("name", "evals", "notes"),
    [
        ("impossible date", {"i1", "i2"}, []),
        ("merge bomb", {"i1", "i2"}, []),
        ("deep", {"i1"}, ["does not have the format"]),
        ("deep lists", {"i1"}, ["is not YAML"]),
        ("python", {"i1"}, []),
    ],
)
def test_hostile_exit_status_file_does_not_stop_reading(
    agent_folder: Path, name: str, evals: set[str], notes: list[str]
) -> None:
    (agent_folder / "exit_statuses_1.yaml").write_text(STATUSES[name])
    _, stored_records, left_out = read_all(agent_folder)
    assert {one.eval.name for one in stored_records} == evals
    assert [note in reason for note, reason in zip(notes, left_out, strict=True)] == [True] * len(notes)


def test_swe_bench_settings_are_not_read_through_symlinks(tmp_path: Path) -> None:
    run = tmp_path / "job" / "run_evaluation" / "run"
    (run / "model" / "i1").mkdir(parents=True)
    report = {"i1": {"patch_exists": True, "patch_successfully_applied": True, "resolved": True}}
    (run / "model" / "i1" / "report.json").write_text(json.dumps(report))
    (tmp_path / "secret.json").write_text('{"dataset": "elsewhere"}')
    (run / "run.json").symlink_to(tmp_path / "secret.json")
    predictions = {"i1": {"model_name_or_path": "model", "instance_id": "i1", "model_patch": "x"}}
    (tmp_path / "job" / "preds.json").write_text(json.dumps(predictions))
    (first_run, *_), _, _ = read_all(tmp_path / "job")
    assert first_run.experiment == "swe-bench"


@pytest.mark.parametrize(("folder", "suffix"), [("claude_code", "jsonl"), ("atif", "json")])
def test_damaged_file_does_not_affect_the_others(real_data: Path, tmp_path: Path, folder: str, suffix: str) -> None:
    copy = tmp_path / folder
    shutil.copytree(real_data / "formats" / folder, copy)
    whole = len(read_all(next(iter(_folders(copy))))[1])
    for place in _folders(copy):
        (place / f"damaged.{suffix}").write_bytes(b"\x1f\x8bxxxx")
        assert len(read_all(place)[1]) == whole


def _folders(copy: Path) -> Iterator[Path]:
    yield from [one for one in run_files(copy) if one.is_dir()][:1]


def test_sub_agent_referenced_by_several_parts_is_read_once(tmp_path: Path) -> None:
    step = {"source": "agent", "message": "x"}
    step |= {"observation": {"results": [{"subagent_trajectory_ref": [{"trajectory_path": "sub.json"}]}]}}
    for n in range(5):
        whole = {"schema_version": "ATIF-v1.7", "agent": {"name": "main"}, "steps": [step]}
        whole["continued_trajectory_ref"] = f"t.cont-{n + 1}.json"
        (tmp_path / (f"t.cont-{n}.json" if n else "t.json")).write_text(json.dumps(whole))
    sub = {"agent": {"name": "sub"}, "steps": [{"source": "agent", "message": "y"}]}
    (tmp_path / "sub.json").write_text(json.dumps(sub))
    _, (record,), _ = read_all(tmp_path / "t.json")
    assert [one.name for one in record.transcripts] == [None, "sub"]


def test_long_repetitive_prompts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.traj.json"
    for text in ("<pr_description>" + " " * 200_000, "ISSUE:\n" + "\n" * 200_000, "ISSUE:\nx" * 50_000):
        path.write_text(json.dumps({**AGENT_TRAJECTORY, "messages": [{"role": "user", "content": text}]}))
        assert len(read_all(path)[1]) == 1


def test_many_failed_tests_and_a_long_log_line_are_read(tmp_path: Path) -> None:
    panes = tmp_path / "t" / "t.1-of-5.x" / "panes"
    panes.mkdir(parents=True)
    (panes / "post-test.txt").write_text("FAILED " + "::" * 200_000 + "\nFAILED a.py::A::test_1[a b] - boom\n")
    tests = {f"test_{n}": "failed" for n in range(1999)} | {"test_1[a b]": "failed"}
    terminal_bench(tmp_path / "results.json", parser_results=tests)
    _, (record,), _ = read_all(tmp_path)
    assert record.steps[-1].error == "boom"


def test_many_assertions_beside_a_set_are_read_or_counted(tmp_path: Path) -> None:
    members = [{"pass": False, "assertion": {"type": "a"}, "reason": f"m{n}"} for n in range(8000)]
    others = [{"pass": False, "assertion": {"type": "a"}, "reason": f"o{n}"} for n in range(8000)]
    graded = {"componentResults": [{"pass": False, "componentResults": members}, *others, *members]}
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({**ROW, "gradingResult": graded}) + "\n")
    _, (record,), left_out = read_all(path)
    assert sum(left_out.values()) + len(record.steps) == 16_000


def test_trace_with_many_calls_is_read_completely(tmp_path: Path) -> None:
    def attribute(name: str, value: str) -> dict[str, object]:
        return {"key": name, "value": {"stringValue": value}}

    def span(n: int) -> dict[str, object]:
        input_value = json.dumps([{"role": "user", "content": f"{n} {m}"} for m in range(5)])
        attributes = [attribute("openinference.span.kind", "LLM"), attribute("input.value", input_value)]
        return {"traceId": "a" * 32, "spanId": f"{n:016x}", "name": "call", "attributes": attributes}

    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span(n) for n in range(3000)]}]}]}))
    _, (record,), _ = read_all(path)
    assert len(record.transcripts[0].messages) == 15_000


def database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_database_view_posing_as_a_table_is_refused(tmp_path: Path) -> None:
    view = (
        "CREATE VIEW evals AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT x AS id, 1 AS created_at, 1 AS config FROM c"
    )
    path = database(
        tmp_path / "promptfoo.db",
        "CREATE TABLE eval_results (id, eval_id, prompt_idx, test_idx, success)",
        "CREATE TABLE evals (id, created_at, config)",
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET rootpage = 0, sql = '{view}' WHERE name = 'evals'",
    )
    with pytest.raises(DataError, match="SQLite database of no known format"):
        read_all(path)


def test_database_with_a_computed_order_column_gives_no_rows(tmp_path: Path) -> None:
    path = database(
        tmp_path / "promptfoo.db",
        "CREATE TABLE evals (id, created_at, config)",
        "INSERT INTO evals VALUES ('a', 1, '{}')",
        "CREATE TABLE eval_results (id, eval_id, prompt_idx, success,"
        " test_idx GENERATED ALWAYS AS (length(hex(zeroblob(1000 + id)))))",
        "INSERT INTO eval_results (id, eval_id, prompt_idx, success) VALUES (1, 'a', 0, 1)",
    )
    assert list(Promptfoo(path, RunOverrides()).read()) == []


def test_filter_lines_too_long_to_hold_together_are_left_out(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = next((real_data / "formats" / "lm_eval" / "two_filters").glob("samples_sums_*.jsonl"))
    path = tmp_path / source.name
    shutil.copy(source, path)
    monkeypatch.setattr(line_groups, "MAX_HELD_CHARACTERS", 100)
    assert sum(read_all(path)[2].values()) == len(path.read_text().splitlines())


def test_size_limit_applies_to_each_session_separately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "agent-c"):
        session = "a" if name == "agent-c" else name
        lines = (
            {
                "type": "user",
                "uuid": f"{name}{n}",
                "sessionId": session,
                "message": {"role": "user", "content": "x" * 90},
            }
            for n in range(3)
        )
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(claude_code, "MAX_SESSION_CHARACTERS", 700)
    _, stored_records, left_out = read_all(tmp_path)
    messages = {one.eval.name: [len(each.messages) for each in one.transcripts] for one in stored_records}
    assert messages == {"a": [3], "b": [3]}
    assert left_out == {"a message of a session that is too long (first: agent-c.jsonl:1)": 3}


def test_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "UNCHECKED_BYTES", 1024 * 1024)
    for name, begin in {"a.jsonl.gz": b'{"input": "', "b.json.gz": b"[", "c.json.gz": b""}.items():
        path = tmp_path / name
        with gzip.open(path, "wb") as file:
            file.write(begin + b" " * 4 * 1024 * 1024)
        with pytest.raises(DataError, match="compressed by a factor above"):
            read_all(path)

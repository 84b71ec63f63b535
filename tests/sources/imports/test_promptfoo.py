"""Import of promptfoo results: JSON of all versions, JSON lines, CSV and the database."""

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records

CONTAINS = {"type": "contains", "value": "Paris"}


def row(**more: Any) -> dict[str, Any]:
    return {
        "testIdx": 0,
        "promptIdx": 0,
        "vars": {"country": "France"},
        "testCase": {"description": "France", "vars": {"country": "France"}, "assert": [CONTAINS]},
        "prompt": {"raw": "The capital of France?", "label": "plain"},
        "provider": {"id": "openai:chat:gpt-4o", "label": "openai:chat:gpt-4o"},
        "response": {"output": "Lyon", "tokenUsage": {"prompt": 7, "completion": 2}},
        "success": False,
        "score": 0,
        "failureReason": 1,
        "error": "Expected output to contain Paris",
        "gradingResult": graded(result("contains", False, "Expected output to contain Paris")),
        **more,
    }


def result(type: str, passed: bool, reason: str = "Assertion passed", **more: Any) -> dict[str, Any]:
    assertion = {"type": type, **more.pop("assertion", {})}
    return {"pass": passed, "score": float(passed), "reason": reason, "assertion": assertion, **more}


def graded(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"pass": False, "score": 0, "reason": "it failed", "componentResults": list(results), **more}


def file(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "evalId": "eval-abc-2026-01-02T03:04:05",
        "results": {"version": 3, "timestamp": "2026-01-02T03:04:05.000Z", "prompts": [], "results": list(rows)},
        "config": {"description": "Capitals"},
        **more,
    }


def everything(path: Path) -> tuple[list[Run], list[Record]]:
    read = list(open_records(path, RunOverrides()).read())
    return [one for one in read if isinstance(one, Run)], [one for one in read if isinstance(one, Record)]


@pytest.mark.parametrize("name", ["results.json", "results.jsonl"])
def test_real_run_has_the_figures_of_promptfoo(real_data: Path, name: str) -> None:
    runs, records = everything(real_data / "formats" / "promptfoo" / "echo" / name)
    assert [run.model for run in runs] == ["echo", "answers"]
    assert Counter(one.eval.status for one in records) == {"passed": 8, "failed": 14, "error": 2}
    assert {(one.eval.task, one.eval.trials) for one in records if one.run_id == runs[0].id} == {
        ("France", 2),
        ("Kenya, by a set of assertions", 2),
        ("Peru, weighted", 2),
        ("Japan, score by code", 2),
        ("Atlantis, the provider fails", 2),
        ("Brazil, only the default assertion", 2),
    }
    assert sum(run.input_tokens or 0 for run in runs) == 220
    assert sum(run.output_tokens or 0 for run in runs) == 80
    kenya = [one for one in records if one.eval.task.startswith("Kenya") and one.eval.trial == 1]
    assert [len(one.steps) for one in kenya] == [4, 4]  # the two assertions of the set appear once
    assert [(one.eval.status, one.eval.failed_step) for one in kenya] == [("failed", "correct"), ("passed", None)]
    peru = next(one for one in records if one.eval.task == "Peru, weighted")
    assert peru.eval.reason == 'Expected output to contain "lima"'  # the source only says "Aggregate score 0.20 < 0.6"


def test_csv_and_json_of_a_real_run_have_the_same_verdicts(real_data: Path) -> None:
    folder = real_data / "formats" / "promptfoo" / "echo"
    (_, records), (runs, of_csv) = everything(folder / "results.json"), everything(folder / "results.csv")

    def verdicts(records: list[Record]) -> Counter[tuple[str, str, str]]:
        return Counter(
            (one.eval.path, one.eval.status, str(one.transcripts[0].messages[-1].content))
            for one in records
            if one.eval.status != "error"
        )

    assert [run.model for run in runs] == ["echo", "answers"]
    assert Counter(one.eval.status for one in of_csv) == {"passed": 8, "failed": 14, "error": 2}
    assert verdicts(of_csv) == verdicts(records)
    assert (of_csv[0].eval.failed_step, of_csv[0].metadata["scores"]) == ("assertions", {"score": 0.5, "correct": 0.0})


def test_csv_export_of_the_web_page_is_read(tmp_path: Path) -> None:
    output = ["Reasoning", "Status", "Score", "Named Scores", "Metric: kind", "Grader Reason", "Comment"]
    answers = [
        ["wrong\n---\nLyon", "hm", "FAIL", "0.00", '{"kind": 0.5}', "0.50", "wrong", "look"],
        ["503: busy\n---\n", "", "ERROR", "0.00", "", "", "", ""],
        ["Paris", "", "PASS", "1.00", "", "", "right", ""],
        [""] * 8,
    ]
    with (tmp_path / "page.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["city", "[openai:gpt-4o] Where is {{ city }}?", *output, "pluginId"])
        table.writerows([["Paris", *cells, "pii"] for cells in answers])
        table.writerow(["torn"])
    records = open_records(tmp_path / "page.csv", RunOverrides())
    run, failed, error, passed = list(records.read())
    assert isinstance(run, Run)
    assert (run.provider, run.model, records.lost) == (
        "openai",
        "gpt-4o",
        ("1 x a row that cannot be read: 1 cells in place of 10 (first: line 10)",),
    )
    assert isinstance(failed, Record)
    assert [one.content for one in failed.transcripts[0].messages] == ["Where is Paris?", "Lyon"]
    assert (failed.eval.path, failed.eval.reason) == ("pii/Paris#1", "wrong")
    assert (failed.metadata["comment"], failed.metadata["reasoning"]) == ("look", "hm")
    assert isinstance(error, Record)
    assert (error.eval.status, error.eval.reason) == ("error", "503: busy")
    assert isinstance(passed, Record)
    assert passed.eval.status == "passed"


def test_real_red_team_run_is_read(real_data: Path) -> None:
    runs, records = everything(real_data / "formats" / "promptfoo" / "defectdojo" / "many_findings.json")
    assert Counter(one.eval.status for one in records) == {"passed": 2, "failed": 7}
    assert {one.eval.category for one in records} >= {"harmful:hate", "pii:direct", "overreliance"}
    assert records[0].metadata["metadata"]["severity"] == "critical"  # type: ignore[index, call-overload]
    assert runs[0].experiment.startswith("DefectDojo")


def database_of(path: Path, *exports: dict[str, Any]) -> Path:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE evals (id TEXT, created_at INT, results TEXT, config TEXT, prompts TEXT)")
    names = {
        "id": "id",
        "prompt_idx": "promptIdx",
        "test_idx": "testIdx",
        "test_case": "testCase",
        "prompt": "prompt",
        "prompt_id": "promptId",
        "provider": "provider",
        "latency_ms": "latencyMs",
        "cost": "cost",
        "response": "response",
        "error": "error",
        "success": "success",
        "score": "score",
        "grading_result": "gradingResult",
        "named_scores": "namedScores",
        "metadata": "metadata",
        "failure_reason": "failureReason",
    }
    database.execute(f"CREATE TABLE eval_results (eval_id TEXT, {', '.join(names)})")
    for content in exports:
        results = content["results"]
        created = datetime.fromisoformat(results["timestamp"]).timestamp() * 1000
        about = ({"durationMs": results["stats"]["durationMs"]}, content["config"], results["prompts"])
        database.execute(
            "INSERT INTO evals VALUES (?, ?, ?, ?, ?)", (content["evalId"], round(created), *map(json.dumps, about))
        )
        for one in results["results"]:
            values = [one.get(name) for name in names.values()]
            stored = [json.dumps(value) if isinstance(value, dict) else value for value in values]
            database.execute(
                f"INSERT INTO eval_results VALUES (?{', ?' * len(names)})",
                (content["evalId"], *stored),
            )
    database.commit()
    database.close()
    return path


def known(path: Path) -> dict[str, Any]:
    runs, records = everything(path)
    return {one.id: one for one in runs} | {one.eval.id: one for one in records}


def test_database_gives_the_same_runs_and_records_as_its_export(real_data: Path, tmp_path: Path) -> None:
    exported = real_data / "formats" / "promptfoo" / "echo" / "results.json"
    assert known(database_of(tmp_path / "promptfoo.db", json.loads(exported.read_text()))) == known(exported)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["promptfoo.db"]


def test_evaluations_in_one_database_are_separate_runs(real_data: Path, tmp_path: Path) -> None:
    first = json.loads((real_data / "formats" / "promptfoo" / "echo" / "results.json").read_text())
    second = json.loads(json.dumps(first))
    second |= {"evalId": "eval-other", "config": {"description": "Cities"}}
    second["results"]["timestamp"] = "2026-11-23T01:02:03.000Z"
    second["results"]["stats"]["durationMs"] = 1500
    second["results"]["prompts"][0]["metrics"]["cost"] = 7
    from_database = known(database_of(tmp_path / "promptfoo.db", second, first))
    expected: dict[str, Any] = {}
    for n, content in enumerate((first, second)):
        (tmp_path / f"{n}.json").write_text(json.dumps(content))
        expected |= known(tmp_path / f"{n}.json")
    assert from_database == expected
    experiments = Counter(one.experiment for one in from_database.values() if isinstance(one, Run))
    assert experiments == {"Capitals": 2, "Cities": 2}


@pytest.mark.parametrize(
    ("change", "status", "step", "reason"),
    [
        pytest.param({}, "failed", "contains", "Expected output to contain Paris", id="an assertion failed"),
        pytest.param({"success": True, "failureReason": 0}, "passed", None, None, id="passed"),
        pytest.param(
            {"failureReason": 2, "error": "503\n    at call (x.js:1)", "gradingResult": None, "response": None},
            "error",
            None,
            "503",
            id="the provider failed",
        ),
        pytest.param(
            {"failureReason": None, "error": "timed out", "gradingResult": None},
            "error",
            None,
            "timed out",
            id="the provider failed, before failureReason",
        ),
        pytest.param(
            {
                "gradingResult": graded(
                    result("llm-rubric", False, "no JSON", metadata={"graderError": True}), result("equals", True)
                )
            },
            "error",
            None,
            "the grader `llm-rubric` raised: no JSON",
            id="only a grader broke",
        ),
        pytest.param(
            {
                "gradingResult": graded(
                    result("javascript", False, "Custom function threw error: x is undefined"),
                    result("equals", False, "not equal"),
                )
            },
            "failed",
            "equals",
            "not equal",
            id="a grader broke, another failed",
        ),
        pytest.param(
            {"gradingResult": graded({**result("similar", True, "alike"), "score": 0.4}, reason="0.40 < 0.6")},
            "failed",
            "threshold",
            "0.40 < 0.6",
            id="a threshold, every assertion passed",
        ),
        pytest.param(
            {
                "gradingResult": graded(
                    {
                        "pass": True,
                        "score": 0.5,
                        "reason": "0.5",
                        "componentResults": [result("regex", False, "no match"), result("contains", True)],
                    },
                    result("regex", False, "no match"),
                    result("contains", True),
                    result("equals", False, "not equal"),
                )
            },
            "failed",
            "equals",
            "not equal",
            id="a set that passes although a member failed",
        ),
        pytest.param({"success": None}, "incomplete", None, "the result has no `success`", id="no verdict"),
    ],
)
def test_assertions_and_errors_decide_status_step_and_reason(
    read_value: Callable[..., Any], change: dict[str, Any], status: str, step: str | None, reason: str | None
) -> None:
    (record,) = read_value(file(row(**change))).records
    assert (record.eval.status, record.eval.failed_step, record.eval.reason) == (status, step, reason)


def test_each_provider_and_prompt_is_a_separate_run(tmp_path: Path) -> None:
    others = [
        row(promptIdx=1, prompt={"raw": "x", "label": "with a role"}),
        row(promptIdx=2, provider={"id": "file://answer.js", "label": "mine"}),
        row(promptIdx=3, provider="anthropic:messages:claude-9"),
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(file(row(), *others)))
    runs, _ = everything(path)
    assert [(run.provider, run.model, run.experiment) for run in runs] == [
        ("openai", "gpt-4o", "Capitals, plain"),
        ("openai", "gpt-4o", "Capitals, with a role"),
        ("file", "mine", "Capitals"),
        ("anthropic", "claude-9", "Capitals"),
    ]
    assert len({run.id for run in runs}) == 4


def test_repeats_are_trials_but_different_tests_of_one_name_are_not(read_value: Callable[..., Any]) -> None:
    other = {"description": "France", "vars": {"country": "France", "language": "fr"}, "assert": [CONTAINS]}
    stricter = {"description": "France", "vars": {"country": "France"}, "assert": [{"type": "is-json"}]}
    rows = [
        row(),
        row(testIdx=1),
        row(testIdx=2, testCase=other, vars=other["vars"]),
        row(testIdx=3, testCase=stricter),
    ]
    names = [one.eval.path.split(" ", 1) for one in read_value(file(*rows)).records]
    first, second, third, fourth = (" ".join(name) for name in names)
    assert (first, second) == (f"{first.removesuffix('#1')}#1", f"{first.removesuffix('#1')}#2")
    assert third == "France (country=France, language=fr)"
    assert fourth.startswith("France ")
    assert fourth != first


def test_prompts_tool_calls_and_red_team_history_become_transcripts(read_value: Callable[..., Any]) -> None:
    chat = json.dumps([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Weather?"}])
    call = {"type": "function", "id": "c1", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    history = [{"prompt": "Please", "output": "No"}, {"prompt": "Pretty please", "output": "Well"}]
    rows = [
        row(prompt={"raw": chat, "label": ""}, response={"output": [call]}),
        row(testIdx=1, response={"output": "", "finishReason": "length"}),
        row(testIdx=2, response={"output": "Well", "metadata": {"redteamHistory": history}}),
    ]
    called, empty, attacked = read_value(file(*rows)).records
    assert [message.role for message in called.transcripts[0].messages] == ["system", "user", "assistant"]
    assert called.transcripts[0].messages[2].tool_calls[0].arguments == {"city": "Rome"}
    assert called.documents[0].text == "Be short.\n\nWeather?"
    assert empty.transcripts[0].messages[1].content == ""
    assert [step.name for step in empty.steps] == ["contains", "limit"]
    assert [message.content for message in attacked.transcripts[0].messages] == [
        "Please",
        "No",
        "Pretty please",
        "Well",
    ]


def test_summary_returned_by_evaluate_is_read(read_value: Callable[..., Any]) -> None:
    summary = {**file(row())["results"], "stats": {"durationMs": 1500}}
    read = read_value(summary)
    assert (read.format, read.run.started_at, read.run.duration_s) == ("promptfoo", "2026-01-02T03:04:05.000Z", 1.5)


def test_version_2_file_with_a_table_is_read(read_value: Callable[..., Any]) -> None:
    old = {name: value for name, value in row().items() if name not in ("promptIdx", "testIdx", "failureReason")}
    results = {
        "version": 2,
        "results": [old],
        "stats": {},
        "table": {"head": {"prompts": []}, "body": [{"outputs": []}]},
    }
    read = read_value({"results": results, "config": {}, "shareableUrl": None})
    assert [one.eval.status for one in read.records] == ["failed"]


def test_truncated_file_gives_its_first_rows_and_raises(tmp_path: Path) -> None:
    whole = json.dumps(file(row(), row(testIdx=1), row(testIdx=2)))
    path = tmp_path / "torn.json"
    path.write_text(whole[: whole.rindex('"testIdx"')])
    entries: list[Run | Record] = []
    with pytest.raises(DataError, match=r"torn\.json"):
        entries.extend(open_records(path, RunOverrides()).read())
    assert len([one for one in entries if isinstance(one, Record)]) == 2


def test_damaged_database_raises_data_error(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "x.db")
    database.execute("CREATE TABLE evals (id, created_at, config)")
    database.execute("CREATE TABLE eval_results (id, eval_id, prompt_idx, test_idx)")
    database.executemany("INSERT INTO evals VALUES (?, 1, ?)", [(f"e{n}", "x" * 3000) for n in range(50)])
    database.commit()
    database.close()
    content = bytearray((tmp_path / "x.db").read_bytes())
    content[3 * 4096 :] = b"\xff" * (len(content) - 3 * 4096)
    (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(DataError):
        everything(tmp_path / "x.db")

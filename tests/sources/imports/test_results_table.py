"""Import of result tables: CSV, JSON lines and JSON lists with one eval per row."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalscribe.errors import DataError, EvalscribeError, UsageError
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import TARGET
from evalscribe.sources.address import RunOverrides, parse_columns
from evalscribe.sources.formats import open_records

SECRET = "-".join(["sk", "ant", "api03", "a1B2" * 6])
ROWS = """id,input,output,expected,score,passed,reason,latency
geo-1,What is the capital of France?,Paris,Paris,1,true,,120
geo-2,What is the capital of Australia?,Sydney,Canberra,0,false,"Wrong city: the largest, not the capital",130
math-1,"What is 17 * 23?
Answer with a number.",The answer is 391.,391,0,false,,90
"""


def records_of(path: Path, **overrides: Any) -> list[Record]:
    return [one for one in open_records(path, RunOverrides(**overrides)).read() if isinstance(one, Record)]


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, name: str = "results.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_row_becomes_an_eval_with_documents_and_metadata(
    table: Callable[..., Path], read_file: Callable[..., Any]
) -> None:
    read = read_file(table(ROWS), model="acme/m-1")
    assert (read.format, read.run.provider, read.run.model, read.left_out) == ("csv", "acme", "m-1", {})
    assert [(one.eval.path, one.eval.status, one.eval.reason) for one in read.records] == [
        ("geo-1", "passed", None),
        ("geo-2", "failed", "Wrong city: the largest, not the capital"),
        ("math-1", "failed", None),
    ]
    second, third = read.records[1:]
    assert {(one.role, one.path): one.text for one in evidence_of(second).documents if one.role != "transcript"} == {
        ("task", "input.txt"): "What is the capital of Australia?",
        ("expected", "expected.txt"): "Canberra",
        ("output", "output.txt"): "Sydney",
        ("log", "scores.log"): "score: failed 0: Wrong city: the largest, not the capital",
    }
    assert [(one.role, one.content) for one in second.transcripts[0].messages] == [
        ("user", "What is the capital of Australia?"),
        ("assistant", "Sydney"),
    ]
    assert second.metadata == {
        "line": 3,
        "id": "geo-2",
        "reason": "Wrong city: the largest, not the capital",
        "latency": "130",
        "task": "geo-2",
        "scores": {"score": 0, "passed": 0},
        "agent": {"model_name": "m-1", "provider": "acme"},
    }
    assert third.metadata["line"] == 4


@pytest.mark.parametrize(
    ("row", "overrides", "status"),
    [
        pytest.param({"score": 1}, {}, "passed", id="score of 1"),
        pytest.param({"score": 0.99}, {}, "failed", id="score below 1"),
        pytest.param({"score": 0.7}, {"threshold": 0.7}, "passed", id="score at the threshold"),
        pytest.param({"score": 3}, {"threshold": 4}, "failed", id="score below a threshold above 1"),
        pytest.param({"score": "85%"}, {"threshold": 0.8}, "passed", id="percentage"),
        pytest.param({"score": True}, {}, "passed", id="score is a boolean"),
        pytest.param({"score": "fail"}, {}, "failed", id="score is a word"),
        pytest.param({"score": 0, "passed": True}, {}, "passed", id="passed decides"),
        pytest.param({"score": 1, "passed": "FAIL"}, {}, "failed", id="passed decides against the score"),
        pytest.param({"score": 5, "passed": 1}, {}, "passed", id="score above 1 beside passed"),
        pytest.param({"passed": None, "score": 0}, {}, "failed", id="passed is empty"),
        pytest.param({"passed": "ERROR"}, {}, "error", id="the row broke"),
        pytest.param({"score": None, "error": "TimeoutError: late"}, {}, "error", id="error without a score"),
        pytest.param({"score": 0, "error": "Expected 1"}, {}, "failed", id="error with a score"),
        pytest.param({"score": None}, {}, "incomplete", id="no score"),
        pytest.param({"passed": "skipped"}, {}, "incomplete", id="skipped"),
        pytest.param({"scores": {"tone": 1, "correct": 0}}, {}, "failed", id="several scores, the main one decides"),
        pytest.param({"scores": '{"tone": 1}'}, {}, "passed", id="scores as JSON in a cell"),
        pytest.param({"scores": {"passed": 0, "score": 1}}, {}, "passed", id="score before passed among scores"),
    ],
)
def test_score_passed_column_and_threshold_decide_the_status(
    table: Callable[..., Path], row: dict[str, Any], overrides: dict[str, Any], status: str
) -> None:
    path = table(json.dumps({"input": "q", "output": "a", **row}) + '\n{"input": "other", "score": 1, "passed": 1}\n')
    first, _ = records_of(path, **overrides)
    assert first.eval.status == status
    assert (first.eval.failed_step == TARGET) == (status == "error")
    assert bool(first.eval.failed_step) == (status in ("failed", "error"))


def test_rows_of_one_task_become_its_trials(table: Callable[..., Path]) -> None:
    text = "input,output,passed\nsame,a,1\nother,b,1\nsame,c,0\n"
    assert [one.eval.path for one in records_of(table(text))] == ["same#1", "other", "same#2"]
    named = "id,input,passed\nt,one,1\nt,one,0\nt,two,1\n"
    paths = [one.eval.path for one in records_of(table(named))]
    assert paths[:2] == ["t#1", "t#2"]
    assert paths[2].startswith("t-"), "another input under the same id is another task"
    categories = "id,category,passed\nt,a,1\nt,b,0\n"
    assert [one.eval.path for one in records_of(table(categories))] == ["a/t", "b/t"]


def test_rows_without_ids_are_named_after_their_input(table: Callable[..., Path]) -> None:
    long = "word " * 60
    text = f"input,passed\nWhat is 2 + 2?,1\nWhat is 2 - 2?,1\n{long}1,1\n{long}2,1\n,0\n"
    names = [one.eval.name for one in records_of(table(text))]
    assert names[0] == "what-is-2-2"
    assert names[1].startswith("what-is-2-2-")
    assert len(set(names)) == 5
    assert max(map(len, names)) < 70


def test_rows_without_input_and_id_are_separate_evals(
    table: Callable[..., Path], read_file: Callable[..., Any]
) -> None:
    read = read_file(table("qestion,output,correct\none,a,0\ntwo,b,1\n"))
    assert [one.eval.path for one in read.records] == ["line-2", "line-3"]
    assert read.table.text == (
        "columns: output, passed=correct; as metadata: qestion; no column input; did you mean `map` input=qestion?"
    )
    json_rows = table('[{"output": "a", "passed": true}, {"output": "a", "passed": false}]', "rows.json")
    assert [one.eval.path for one in records_of(json_rows)] == ["row-0", "row-1"]


@pytest.mark.parametrize(
    ("header", "columns", "likely"),
    [
        ("question,model_answer,gold,correct", {"output": "model_answer", "expected": "gold"}, {}),
        ("question,answer,gold,correct", {"output": "answer", "expected": "gold"}, {}),
        ("question,response,answer,correct", {"output": "response", "expected": "answer"}, {}),
        ("question,answer,correct", {}, {"output": "answer"}),
        ("text,label,prediction,correct", {"output": "prediction", "expected": "label"}, {}),
        ("question,output,label,correct", {"output": "output"}, {"expected": "label"}),
        ("question,prediction,response,correct", {"output": "response"}, {}),
        ("question,outptu,correct", {}, {"output": "outptu"}),
        ("question,llm_response,output_tokens,correct", {}, {"output": "llm_response"}),
    ],
)
def test_common_column_names_are_recognised_or_suggested(
    table: Callable[..., Path],
    read_file: Callable[..., Any],
    header: str,
    columns: dict[str, str],
    likely: dict[str, str],
) -> None:
    read = read_file(table(f"{header}\na,b,c,0\n" if header.count(",") == 3 else f"{header}\na,b,0\n"))
    assert {name: read.table.columns[name] for name in ("output", "expected") if name in read.table.columns} == columns
    assert read.table.likely == likely


def test_missing_output_column_is_reported(table: Callable[..., Path]) -> None:
    (record,) = records_of(table("question,gold,correct\nq,b,0\n"))
    assert record.missing == ("output: the table has no column for it",)
    assert record.transcripts == ()
    assert (record.eval.failed_step, record.documents[-1].text) == ("grading", "grading: failed: `correct` is 0")


def test_each_model_in_the_model_column_is_a_run(table: Callable[..., Path]) -> None:
    path = table("input,model,passed\nq,openai/a,1\nq,openai/b,0\nq,openai/a,0\n")
    runs: dict[str, str] = {}
    paths = []
    for one in open_records(path, RunOverrides()).read():
        if isinstance(one, Record):
            paths.append((runs[one.run_id], one.eval.path))
        else:
            runs[one.id] = f"{one.provider}/{one.model}"
    assert list(runs.values()) == ["openai/a", "openai/b"]
    assert paths == [("openai/a", "q#1"), ("openai/b", "q"), ("openai/a", "q#2")]
    assert {one.run_id for one in records_of(path, model="m", provider="p")} == {next(iter(runs))}


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        pytest.param("\ufeffinput,output,expected,score\nq,a,e,0\n", {}, id="byte order mark"),
        pytest.param("input;output;expected;score\nq;a;e;0\n", {}, id="semicolons"),
        pytest.param("sep=;\ninput;output;expected;score\nq;a;e;0\n", {}, id="line of a spreadsheet"),
        pytest.param("input\toutput\texpected\tscore\nq\ta\te\t0\n", {}, id="tabs"),
        pytest.param('"input","output","expected","score"\r\n"q","a","e","0"\r\n\r\n', {}, id="quotes and CRLF"),
        pytest.param("Question,Model Output,Ground-Truth,Is Correct\nq,a,e,no\n", {}, id="other names"),
        pytest.param("x,y,z,w\nq,a,e,0\n", {"columns": "input=x,output=y,expected=z,score=w"}, id="mapped"),
        pytest.param(
            '"a, b",answer,gold,grade\nq,a,e,0\n',
            {"columns": "input=a, b,output=answer,expected=gold,score=grade"},
            id="a column with a comma",
        ),
        pytest.param("input,output,expected,score,,\nq,a,e,0,,\n", {}, id="empty columns"),
        pytest.param("score;input;output;expected\n0,5;q;a;e\n", {}, id="decimal comma"),
        pytest.param("input,output,expected,score\n" + "q,a,e,0", {}, id="no line end"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_all_csv_dialects_and_encodings_read_the_same(
    table: Callable[..., Path], text: str, overrides: dict[str, str], encoding: str
) -> None:
    columns = parse_columns([overrides["columns"]] if overrides else [])
    (record,) = records_of(table(text.encode(encoding)), columns=columns)
    documents = {one.role: one.text for one in record.documents}
    assert record.eval.status == "failed"
    assert [documents[role] for role in ("task", "output", "expected")] == ["q", "a", "e"]


def test_json_rows_accept_any_value(table: Callable[..., Path]) -> None:
    row = {"input": {"a": [1, 2]}, "output": ["x"], "expected": 7, "score": 0.25, "task": "t", "nested": {"b": None}}
    for text, name in (
        (json.dumps(row) + "\n", "x.jsonl"),
        (json.dumps([row]), "x.json"),
        (json.dumps(row, indent=1), "y"),
    ):
        (record,) = records_of(table(text, name))
        assert [(one.role, one.path) for one in record.documents] == [
            ("task", "input.json"),
            ("expected", "expected.json"),
            ("output", "output.json"),
            ("log", "scores.log"),
        ]
        assert json.loads(record.documents[0].text) == {"a": [1, 2]}
        assert (record.metadata["columns"], record.metadata["nested"]) == ({"task": "t"}, {"b": None})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "input,output\nq,a\n", "does not say which rows passed: the file needs a column `passed`", id="no score"
        ),
        pytest.param("input,score\n", "contains no results: it has no rows below its header", id="no rows"),
        pytest.param("input,score\nq,good\n", "line 2: `score` is 'good', not a number; no row says", id="no number"),
        pytest.param("input,passed\nq,0.4\n", "line 2: `passed` is '0.4'; no row says", id="no boolean"),
        pytest.param("input,score\na,1\nq,4\n", "line 3: the score 4 is above 1; set `threshold`", id="above 1"),
        pytest.param("input,score,score\na,1,2\n", "has 2 columns 'score': keep one", id="twice"),
        pytest.param(
            "input,score\na,1,2\n", r"a row that cannot be read: 3 cells in place of 2 .first: line 2", id="cells"
        ),
        pytest.param(
            'input,"score\na,1\n', "not CSV: unexpected end of data .a quote that is never closed", id="quote"
        ),
        pytest.param("input,score\n" + "a" * (17 << 20), "results.csv:2: longer than 16 MB", id="long line"),
        pytest.param("input,score" + "a" * (17 << 20), "line 1: longer than 16 MB", id="long header"),
    ],
)
def test_error_message_names_the_problem_of_the_table(table: Callable[..., Path], text: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        records_of(table(text))


def test_bad_rows_are_left_out_with_their_line(table: Callable[..., Path], read_file: Callable[..., Any]) -> None:
    text = b'input,output,score\na,b,0\nx,"y"z,1\nonly two,cells\nc,\xe9t\xe9,maybe\n'
    read = read_file(table(text))
    assert read.lost == tuple(f"1 x {phrase}" for phrase in read.left_out if phrase.startswith("a row"))
    assert read.table.notes == ("1 line read as Windows-1252, not UTF-8",)
    assert [(one.eval.name, one.eval.status) for one in read.records] == [("a", "failed"), ("c", "incomplete")]
    assert read.records[1].documents[1].text == "été"
    assert read.left_out == {
        "a row that cannot be read: not CSV: ',' expected after '\"' (first: line 3)": 1,
        "a row that cannot be read: 2 cells in place of 3 (first: line 4)": 1,
        "a grade that cannot be read, so the eval is incomplete (first: line 5)": 1,
    }


def test_score_decides_when_the_status_is_not_a_verdict(table: Callable[..., Path]) -> None:
    first, second = records_of(table("input,status,score\na,done,1\nb,done,0\n"))
    assert (first.eval.status, second.eval.status) == ("passed", "failed")


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("inptu=question", "there is no field 'inptu'; did you mean input"),
        ("input", "'input' is not FIELD=COLUMN"),
        ("input=a,input=b", "input has two columns"),
        ("input=questoin", "no column 'questoin'; did you mean 'question'"),
        ("input=zzz", "no column 'zzz'. Its columns: question, passed"),
    ],
)
def test_invalid_column_mapping_is_refused_with_suggestions(
    table: Callable[..., Path], assignment: str, told: str
) -> None:
    with pytest.raises(UsageError, match=told) as error:
        records_of(table("question,passed\nq,1\n"), columns=parse_columns([assignment]))
    assert error.value.fields == ("map",)


def test_secrets_are_redacted_and_hostile_cells_are_safe(
    table: Callable[..., Path], read_file: Callable[..., Any]
) -> None:
    cells = [f"key {SECRET}", "=cmd|' /C calc'!A0", "a\x00b\x1b[31m\u202e", "../../etc/passwd", "x" * 100_000]
    text = "id,input,output,passed,api_key\n" + "".join(f'"{cell}","{cell}","{cell}",0,{SECRET}\n' for cell in cells)
    read = read_file(table(text))
    assert SECRET not in read.told
    assert len(read.records) == len(cells)
    assert read.records[1].documents[0].text == cells[1]
    assert "\x00" not in read.told
    assert all("/" not in one.eval.id and len(one.eval.id) < 200 for one in read.records)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from('",;\n\r\t|ab01\x00é={}[]'), max_size=60), st.booleans())
def test_arbitrary_text_is_read_or_raises_evalscribe_error(tmp_path: Path, text: str, headed: bool) -> None:
    path = tmp_path / "given"
    path.write_text(("input,output,score\n" if headed else "") + text, newline="")
    try:
        for one in open_records(path, RunOverrides()).read():
            one.model_dump_json()
    except EvalscribeError:
        pass


def test_large_table_is_streamed_within_60_mb(table: Callable[..., Path]) -> None:
    path = table("input,output,score\n")
    with path.open("a") as file:
        for number in range(20_000):
            file.write(f"question {number % 50},{'x' * 5_000},0\n")
    program = (
        "import sys, resource; from pathlib import Path\n"
        "from evalscribe.sources.address import RunOverrides\n"
        "from evalscribe.sources.formats import open_records\n"
        "start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "count = sum(1 for _ in open_records(Path(sys.argv[1]), RunOverrides()).read())\n"
        "print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    count, kilobytes = map(int, done.stdout.split())
    assert count == 20_001
    assert kilobytes < 60_000, f"{path.stat().st_size // 1000} kB read with {kilobytes} kB"

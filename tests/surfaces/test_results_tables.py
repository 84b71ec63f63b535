"""Tables of results on the command line: analysis, comparison, queries and error messages."""

import json
from pathlib import Path

import pytest

from support.command import InProcessCommand

ROWS = """id,question,answer,gold,passed,reason
geo-1,What is the capital of France?,Paris,Paris,true,
geo-2,What is the capital of Australia?,Sydney,Canberra,false,"Wrong city, the largest"
math-1,What is 17 * 23?,The answer is 391.,391,false,
essay,Write a haiku.,Five syllables here,,false,the second line has six syllables
broken,What is 2 + 2?
"""
MAP = ("--map", "output=answer,expected=gold")


@pytest.fixture
def table(inside: InProcessCommand) -> Path:
    path = inside.folder / "results.csv"
    path.write_text(ROWS)
    return path


def test_analyze_reads_a_csv_table(inside: InProcessCommand, table: Path) -> None:
    result = inside.run("analyze", table.name, *MAP, "--model", "acme/m-1", "--judge", "rules", "--json", code=65)
    document = json.loads(result.out)
    assert document["run"]["unread"] == ["1 x a row that cannot be read: 2 cells in place of 6 (first: line 6)"]
    assert "results.csv: columns: input=question, output=answer, expected=gold, passed, reason, id\n" in result.err
    assert "left out: 1 x a row that cannot be read: 2 cells in place of 6 (first: line 6)" in result.err
    assert (document["run"]["passed"], document["run"]["failed"], document["run"]["model"]) == (1, 3, "m-1")
    findings = {one["eval"]: one for one in document["findings"]}
    assert {path: one["classification"] for path, one in findings.items()} == {
        "geo-2": "MODEL_FAULT",
        "math-1": "OVERLY_STRICT",
        "essay": "MODEL_FAULT",
    }
    quoted = {path: {one["text"].strip() for one in finding["citations"]} for path, finding in findings.items()}
    assert quoted["geo-2"] == {"What is the capital of Australia?", "Sydney", "Canberra"}
    assert quoted["math-1"] == {"What is 17 * 23?", "The answer is 391.", "391"}
    assert quoted["essay"] > {"Write a haiku.", "Five syllables here"}
    assert "no collection" in inside.run("collections", "list").out
    explained = inside.run("explain", document["run"]["id"], "geo-2", "--judge", "rules").out
    assert "Canberra" in explained


def test_imported_table_is_queried_and_exported(inside: InProcessCommand, table: Path) -> None:
    output = inside.run("import", table.name, *MAP, code=65).out
    assert "results.csv (csv)" in output
    assert "  columns: input=question, output=answer, expected=gold, passed, reason, id\n" in output
    assert "  left out: 1 x a row that cannot be read: 2 cells in place of 6 (first: line 6)\n" in output
    query = "SELECT name, status, metadata_json->>'line' AS line FROM agent_runs ORDER BY name"
    rows = inside.run("sql", query, "--format", "csv").out.splitlines()
    assert rows[1:] == ["essay,failed,5", "geo-1,passed,2", "geo-2,failed,3", "math-1,failed,4"]
    exported = inside.run("export").out
    (inside.folder / "again.jsonl").write_text(exported)
    assert "0 new, 4 same" in inside.run("import", "again.jsonl", "--collection", "results").out


def test_compare_of_two_tables_creates_no_collection(inside: InProcessCommand, table: Path) -> None:
    (inside.folder / "fixed.csv").write_text(ROWS.replace("Sydney,Canberra,false", "Canberra,Canberra,true"))
    compared = json.loads(inside.run("compare", "results.csv", "fixed.csv", *MAP, "--judge", "rules", "--json").out)
    assert [one["eval"] for one in compared["pairs"] if one["change"] == "fixed"] == ["geo-2"]
    assert "no collection" in inside.run("collections", "list").out


PLAIN = "frage,antwort,soll,note\nCapital of Australia?,Sydney,Canberra,1\nCapital of France?,Paris,Paris,5\n"
NAMED = ("--map", "input=frage,output=antwort,expected=soll,score=note", "--threshold", "4")


def test_column_map_and_threshold_are_remembered(inside: InProcessCommand) -> None:
    (inside.folder / "noten.csv").write_text(PLAIN)
    rules = ("--judge", "rules")
    first = inside.run("analyze", "noten.csv", *NAMED, *rules)
    assert "Sydney" in inside.run("explain", "noten.csv", "capital-of-australia", *rules).out
    again = inside.run("analyze", "noten.csv", *rules)
    assert "(unchanged)" in again.out
    assert "columns: input=frage, output=antwort, expected=soll, score=note\n" in again.err
    assert "0 new, 2 same" in inside.run("import", "noten.csv").out
    (inside.folder / "neu.csv").write_text(PLAIN.replace("Sydney,Canberra,1", "Canberra,Canberra,5"))
    inside.run("import", "neu.csv", *NAMED)
    compared = inside.run("compare", "noten.csv", "neu.csv", *rules)
    assert "1 fixed" in compared.out
    assert "neu.csv: columns: input=frage, output=antwort" in compared.err
    assert "2 changed" in inside.run("import", "noten.csv", "--map", "input=frage,score=note", "--threshold", "4").out
    assert first.code == 0


def test_folder_of_several_tables_is_refused_before_storing(inside: InProcessCommand) -> None:
    folder = inside.folder / "tables"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.csv").write_text(f"question,output,correct\n{name},x,0\n")
    error = inside.run("analyze", "tables", "--judge", "rules", code=64).err
    assert "tables contains several runs; choose one of its files:\n  tables/a.csv: " in error
    assert "nothing to delete" in inside.run("gc", "--dry-run").out


def test_import_explain_shows_where_each_column_goes(inside: InProcessCommand) -> None:
    (inside.folder / "odd.csv").write_text("qestion,model_answer,gold,correct,tag\nq,a,b,0,x\n")
    output = inside.run("import", "--explain", "odd.csv").out
    assert "    model_answer (output) -> last message\n    gold (expected) -> document `expected`\n" in output
    assert "    qestion, tag -> metadata\n" in output
    assert "document `task`" not in output
    assert "no column input; did you mean --map input=qestion?" in output
    assert "did you mean --map input=qestion?" in inside.run("analyze", "odd.csv", "--judge", "rules").err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("--map", "input=qestion"),
            64,
            "evalscribe: --map: input=qestion: results.csv has no column 'qestion'; did you",
        ),
        (("--map", "inputs=question"), 64, "evalscribe: --map: there is no field 'inputs'; did you mean input?"),
        (
            ("--map", "passed=reason"),
            65,
            "line 3: `reason` is 'Wrong city, the largest'; no row says whether",
        ),
    ],
)
def test_invalid_column_map_is_an_error(
    inside: InProcessCommand, table: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    for command in ("analyze", "import"):
        assert message in inside.run(command, table.name, *arguments, code=code).err
    assert "no collection" in inside.run("collections", "list").out


def test_score_above_1_requires_a_threshold(inside: InProcessCommand) -> None:
    (inside.folder / "rated.csv").write_text("input,output,score\nq,a,5\nr,b,3\n")
    error = inside.run("analyze", "rated.csv", code=65).err
    assert "line 2: the score 5 is above 1; set --threshold to the lowest score that passes" in error
    assert ": 1 of 2 evals failed" in inside.run("analyze", "rated.csv", "--threshold", "4").out


def test_map_and_threshold_are_refused_for_other_formats(inside: InProcessCommand) -> None:
    (inside.folder / "junit.xml").write_text('<testsuite><testcase name="a"/></testsuite>')
    (inside.folder / "kept").mkdir()
    (inside.folder / "kept" / "table.csv").write_text("question,passed\na,yes\nb,no\n")
    (inside.folder / "kept" / "junit.xml").write_text('<testsuite><testcase name="a"/></testsuite>')
    for words in (("import", "junit.xml"), ("analyze", "junit.xml"), ("import", "sample"), ("analyze", "sample")):
        for option, value in (("--map", "input=question"), ("--threshold", "0")):
            error = inside.run(*words, option, value, code=64).err
            assert f"{option} is for " in error, words
            assert "tables of results (CSV or JSON); " in error, words
    inside.run("import", "kept", "--map", "input=question")

"""`evalscribe sql`: output formats, errors and tables."""

import csv
import io
import json
from pathlib import Path

import pytest

from evalscribe import Client
from support.command import InProcessCommand, Workspace

PAIRS = """
SELECT task, reward, agent_run_id
FROM (
    SELECT
        metadata_json->>'task' AS task,
        CAST(metadata_json->'scores'->>'reward' AS DOUBLE PRECISION) AS reward,
        id AS agent_run_id
    FROM agent_runs
    WHERE metadata_json ? 'task'
      AND metadata_json->'scores' ? 'reward'
) AS subq
ORDER BY task, reward
"""


@pytest.fixture
def imported(inside: InProcessCommand) -> InProcessCommand:
    message = {"role": "user", "content": "a,\x1b[31m\nb"}
    entries = [
        {"task_id": n // 2, "trial": n % 2, "reward": float(n % 2), "info": {}, "traj": [message]} for n in range(4)
    ]
    (inside.folder / "trip.json").write_text(json.dumps(entries))
    inside.run("import", "trip.json")
    return inside


def test_default_output_is_an_aligned_table(imported: InProcessCommand) -> None:
    result = imported.run("sql", "SELECT status, count(*) AS n, avg(trial) FROM agent_runs GROUP BY 1 ORDER BY 1")
    assert result.out == "status  n  avg\n------  -  ---\nfailed  2  1.0\npassed  2  2.0\n"
    assert result.err == "(2 rows)\n"


def test_table_shows_ids_whole_and_truncates_text(imported: InProcessCommand) -> None:
    result = imported.run("sql", f"SELECT '{'i' * 64}' AS id, '{'some words ' * 9}' AS said FROM agent_runs LIMIT 1")
    assert result.out.splitlines()[2] == f"{'i' * 64}  {('some words ' * 9)[:63]}…"


def test_table_strips_terminal_control_characters(imported: InProcessCommand) -> None:
    result = imported.run("sql", "SELECT content FROM messages LIMIT 1")
    assert "\x1b" not in result.out
    assert "a,[31m b" in result.out


def test_csv_and_json_output_is_machine_readable(imported: InProcessCommand) -> None:
    sql = (
        "SELECT content, a.metadata_json->'scores' AS scores, url "
        "FROM messages JOIN agent_runs a ON a.id = agent_run_id LIMIT 3"
    )
    result = imported.run("sql", sql, "--format", "csv", "--max-rows", "1")
    rows = list(csv.reader(io.StringIO(result.out)))
    assert rows[0] == ["content", "scores", "url"]
    assert rows[1] == ["a,\x1b[31m\nb", rows[1][1], ""]
    assert json.loads(rows[1][1]).keys() == {"reward"}
    assert result.err == "More rows follow this 1 row: use ORDER BY, LIMIT and OFFSET to get them.\n"
    document = json.loads(imported.run("sql", sql, "--json", "--max-rows", "2").out)
    assert document["truncated"]
    assert (document["row_count"], document["applied_limit"], len(document["rows"])) == (2, 2, 2)


def test_query_is_read_from_a_file(imported: InProcessCommand) -> None:
    (imported.folder / "q.sql").write_text(PAIRS)
    document = json.loads(imported.run("sql", "-f", "q.sql", "--format", "json").out)
    assert [row[:2] for row in document["rows"]] == [["0", 0.0], ["0", 1.0], ["1", 0.0], ["1", 1.0]]


def test_sdk_query_returns_the_same_rows(imported: InProcessCommand) -> None:
    with Client(imported.folder) as client:
        result = client.execute_dql("trip", PAIRS)
        rows = client.dql_result_to_dicts(result)
        capped = client.execute_dql("trip", PAIRS, max_rows=2)
    assert result["columns"] == ["task", "reward", "agent_run_id"]
    assert (result["truncated"], result["row_count"]) == (False, 4)
    assert [(row["task"], row["reward"]) for row in rows] == [("0", 0.0), ("0", 1.0), ("1", 0.0), ("1", 1.0)]
    assert (capped["truncated"], capped["row_count"]) == (True, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["SELECT nam FROM agent_runs"], 64, "line 1, column 8: column nam does not exist; did you mean name?"),
        (
            ["SELECT *\n FROM agent_rans"],
            64,
            "line 2, column 7: table agent_rans does not exist; did you mean agent_runs?",
        ),
        (["SELECT lenght(name) FROM agent_runs"], 64, "did you mean length"),
        (["DROP TABLE runs"], 64, "only SELECT is allowed"),
        (["SELECT '{'::jsonb FROM runs"], 64, "the query failed: malformed JSON"),
        (["SELECT 'x"], 64, "not closed"),
        ([], 64, "--tables"),
        (["SELECT 1", "--format", "xml"], 64, "table, csv, json"),
        (["SELECT 1", "--collection", "nope"], 66, "collections: trip"),
        (["-f", "missing.sql"], 66, "missing.sql"),
        (["SELECT count(*) FROM " + ", ".join(f"messages m{n}" for n in range(14)), "--timeout", "0.3"], 69, "0.3 s"),
    ],
)
def test_error_message_locates_the_problem_in_the_query_or_options(
    imported: InProcessCommand, arguments: list[str], code: int, message: str
) -> None:
    assert message in imported.run("sql", *arguments, code=code).err


def test_tables_option_lists_tables_and_metadata_fields(imported: InProcessCommand) -> None:
    output = imported.run("sql", "--tables").out
    assert "agent_runs: " in output
    assert "metadata_json->'scores'->'reward'  number, in 4 agent_runs" in output
    document = json.loads(imported.run("sql", "--tables", "--json").out)
    assert {"path", "kind", "agent_runs", "sample"} <= document["metadata"][0].keys()


def test_tables_are_listed_without_a_collection(workspace: Workspace, inside: InProcessCommand) -> None:
    assert "judge_results: " in inside.run("sql", "--tables").out
    assert "evalscribe import" in inside.run("sql", "SELECT 1", code=66).err


def test_query_of_real_trajectories_matches_the_source_file(inside: InProcessCommand, real_data: Path) -> None:
    (file,) = (real_data / "tau-bench").glob("gpt-4o-*.json")
    entries = json.loads(file.read_text())
    inside.run("import", file, "--collection", "air")
    document = json.loads(inside.run("sql", PAIRS, "--json").out)
    expected = sorted((str(one["task_id"]), float(one["reward"])) for one in entries)
    assert [(row[0], row[1]) for row in document["rows"]] == expected
    roles = "SELECT role, count(*) FROM messages GROUP BY role"
    counted = dict(json.loads(inside.run("sql", roles, "--json").out)["rows"])
    message_roles = [message["role"] for one in entries for message in one["traj"]]
    assert counted == {role: message_roles.count(role) for role in set(message_roles)}

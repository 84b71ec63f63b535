"""No query writes, reads a file or a setting, shows another collection, or runs without end."""

import sqlite3
from pathlib import Path
from random import Random

import pytest

from evalscribe.collections.query import run_query
from evalscribe.errors import EvalscribeError, UnavailableError, UsageError
from evalscribe.model.protocols import Tables
from evalscribe.store.query.sqlite import SqliteTables
from evalscribe.store.query.statement import check_query
from evalscribe.store.query.tables import tables
from support.query_rows import MINE, ROWS

REFUSED = [
    "DELETE FROM runs",
    "UPDATE runs SET model = 'x'",
    "INSERT INTO runs VALUES (1)",
    "DROP TABLE runs",
    "CREATE TABLE x (a int)",
    "ALTER TABLE runs ADD COLUMN x int",
    "TRUNCATE runs",
    "VACUUM INTO '/tmp/x'",
    "REINDEX",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM runs",
    "PRAGMA table_info(runs)",
    "SELECT * FROM pragma_table_info('runs')",
    "ATTACH DATABASE '/etc/passwd' AS x",
    "COPY runs TO '/tmp/x'",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "SET ROLE postgres",
    "RESET ROLE",
    "SHOW all",
    "BEGIN",
    "COMMIT",
    "DO $$ BEGIN PERFORM 1; END $$",
    "CALL x()",
    "LOAD 'x'",
    "LISTEN x",
    "PREPARE x AS SELECT 1",
    "EXECUTE x",
    "VALUES (1)",
    "MERGE INTO runs USING runs ON true WHEN MATCHED THEN DELETE",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE runs",
    "SELECT 1 /* ; */ ; DROP TABLE runs --",
    "",
    "   -- nothing",
    ";",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM main.runs",
    "SELECT * FROM pg_catalog.pg_user",
    "SELECT * FROM pg_user",
    "SELECT * FROM pg_shadow",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM public.runs",
    "SELECT * FROM evals",
    "SELECT * FROM collections",
    "SELECT * FROM collection_runs",
    "SELECT * FROM verdicts",
    "SELECT * FROM texts",
    "SELECT * FROM evidence",
    "SELECT * FROM alembic_version",
    "SELECT * FROM all_runs",
    "SELECT body FROM runs",
    "SELECT runs.body FROM runs",
    "SELECT mine.collection_id FROM runs",
    "SELECT it.run_id FROM runs",
    "SELECT rowid FROM runs",
    "SELECT ctid FROM runs",
    "SELECT xmin FROM runs",
    "SELECT tableoid::regclass FROM runs",
    'SELECT "run_id""; DROP TABLE runs" FROM runs',
    'SELECT * FROM "runs; DROP TABLE runs"',
    "SELECT U&'\\0073'",
    'SELECT * FROM U&"\\0072uns"',
    "SELECT E'\\x41'",
    "SELECT x'41'",
    "SELECT $$a$$",
    "SELECT :collection_id",
    "SELECT $1",
    "SELECT ?",
    "SELECT @x",
    "SELECT %(collection_id)s",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'y')",
    "SELECT load_extension('x')",
    "SELECT edit('x')",
    "SELECT fts3_tokenizer('x')",
    "SELECT zeroblob(1000000000)",
    "SELECT randomblob(1000000000)",
    "SELECT hex(zeroblob(100))",
    "SELECT printf('%999999999d', 1)",
    "SELECT format('%s', 1)",
    "SELECT repeat('x', 1000000000)",
    "SELECT lpad('x', 1000000000)",
    "SELECT rpad('x', 1000000000)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT pg_stat_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/x')",
    "SELECT dblink('host=x', 'SELECT 1')",
    "SELECT pg_sleep(100)",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_cancel_backend(1)",
    "SELECT pg_reload_conf()",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT current_setting('data_directory')",
    "SELECT current_user",
    "SELECT session_user",
    "SELECT current_database()",
    "SELECT current_schema",
    "SELECT version()",
    "SELECT inet_server_addr()",
    "SELECT query_to_xml('SELECT * FROM evals', true, true, '')",
    "SELECT table_to_xml('evals', true, true, '')",
    "SELECT xmlparse(document '<a/>')",
    "SELECT nextval('x')",
    "SELECT txid_current()",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_catalog.pg_sleep(1)",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT generate_series(1, 1000000000)",
    "SELECT * FROM json_each('{}')",
    "SELECT * FROM json_tree('{}')",
    "SELECT * FROM dbstat",
    "SELECT * FROM fts5('x')",
    "SELECT * FROM pg_read_file('/etc/passwd') AS x",
    "SELECT * FROM ROWS FROM (pg_ls_dir('/'))",
    "SELECT * FROM XMLTABLE('/' PASSING '<a/>' COLUMNS a text)",
    "SELECT 'runs'::regclass",
    "SELECT 1::oid",
    "SELECT '{1}'::int[]",
    "SELECT ROW(1, 2)",
    "SELECT (runs).body FROM runs",
    "SELECT runs FROM runs",
    "SELECT * FROM runs FOR UPDATE",
    "SELECT id FROM runs LIMIT " + "9" * 5_000,
    "SELECT * FROM runs FOR SHARE",
    "SELECT * INTO x FROM runs",
    "SELECT * FROM runs TABLESAMPLE SYSTEM (10)",
    "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT * FROM x",
    "WITH x AS (DELETE FROM runs RETURNING *) SELECT * FROM x",
    "WITH x AS (INSERT INTO runs VALUES (1) RETURNING *) SELECT * FROM x",
    "WITH runs AS (SELECT 1) SELECT * FROM runs",
    "SELECT * FROM (DELETE FROM runs RETURNING *) AS x",
    "SELECT * FROM LATERAL (SELECT 1) AS x",
    "SELECT random()",
    "SELECT now()",
    "SELECT 'a' SIMILAR TO 'b'",
    "SELECT runs.* EXCEPT (id) FROM runs",
    "SELECT count(* EXCEPT (id)) FROM runs",
    "SELECT model:name FROM runs",
    "SELECT id FROM runs:x",
    "SELECT 1_000",
    "SELECT 1x",
    "SELECT 1 IN ()",
    "SELECT to_jsonb(runs) FROM runs",
    "SELECT jsonb_agg(r) FROM runs r",
    "SELECT runs::text FROM runs",
    "SELECT row_to_json(r) FROM runs r",
    "TABLE evals",
    "SELECT id FROM runs UNION TABLE collections",
    "SELECT * FROM runs, LATERAL (SELECT * FROM evals) AS x",
    "SELECT pg_json_path('{}')",
    "SELECT pg_get_viewdef(1)",
    "SELECT sum(total) OVER w FROM runs WINDOW w AS (w)",
    "SELECT jsonb_object_keys(metadata_json) FROM agent_runs",
    "SELECT * FROM (VALUES (1, 2), (3)) AS v",
    "SELECT * FROM (VALUES (1)) AS v(a, b)",
    "SELECT id FROM runs FETCH FIRST 1 ROWS WITH TIES",
    "SELECT count(*) FROM agent_runs a RIGHT JOIN jsonb_object_keys(a.metadata_json) k ON true",
    *(
        f"SELECT id ~ '{pattern}' FROM runs"
        for pattern in (
            "a**",
            "(a",
            "a)",
            "*a",
            "^*",
            "[z-a]",
            "a{256}",
            "a{2,1}",
            "\\bx",
            "\\1",
            "(?=x)",
            "a" * 1001,
            "[[=a=]]",
        )
    ),
    "SELECT id ~ id FROM runs",
    "SELECT 1 FROM " + ", ".join(f"runs r{number}" for number in range(61)),
    "WITH c0 AS (SELECT id FROM runs), "
    + ", ".join(f"c{number} AS (SELECT * FROM c{number - 1})" for number in range(1, 101))
    + " SELECT * FROM c100",
    "SELECT total ~ 'a' FROM runs",
    "SELECT " + ", ".join("*" for _ in range(5000)) + " FROM messages a, messages b, messages c",
    "SELECT '" + "a" * 60_000 + "'",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "SELECT " + "-" * 1 + " - " * 3000 + "1",
    "SELECT " + "NOT " * 3000 + "true",
    "SELECT " + "1 + " * 5000 + "1",
    "SELECT 'unclosed",
    'SELECT "unclosed',
    "SELECT /* unclosed",
    "SELECT 1 FROM runs WHERE",
    "SELECT \x00",
    "\ufeffDROP TABLE runs",
    "ＳＥＬＥＣＴ 1",
]


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: repr(sql[:40]))
def test_forbidden_statement_is_refused(sql: str) -> None:
    for dialect in ("sqlite", "postgres"):
        with pytest.raises(UsageError) as error:
            check_query(sql, dialect)  # type: ignore[arg-type]
        assert len(str(error.value)) < 2500


def _variants(seed: int) -> list[str]:
    """Return the forbidden statements with other spacing and case, and inside other statements."""
    random = Random(seed)
    found = []
    for sql in (query for query in REFUSED if len(query) < 1000):
        words = sql.split(" ")
        gaps = [random.choice([" ", "\n", "\t", "/**/ ", " --x\n", "  "]) for _ in words]
        cases = [random.choice([str, str.upper, str.lower, str.title])(word) for word in words]
        found.append("".join(word + gap for word, gap in zip(cases, gaps, strict=True)))
        around = [
            f"SELECT * FROM ({sql}) AS q",
            f"SELECT 1 WHERE EXISTS ({sql})",
            f"WITH q AS ({sql}) SELECT * FROM q",
            f"SELECT id FROM runs UNION ALL {sql}",
            f"{sql} UNION SELECT id FROM runs",
            f"({sql})",
            f"SELECT upper({sql.removeprefix('SELECT ')})",
        ]
        found += random.sample(around, 2)
    return found


def test_respelled_forbidden_statements_return_no_secret(here: Tables, filled_folder: Path) -> None:
    before = (filled_folder / "store.db").read_bytes()
    for sql in _variants(seed=3):
        try:
            answer = run_query(here, MINE, sql, timeout_s=60)
        except EvalscribeError:
            continue
        assert "SECRET" not in repr(answer.rows), sql
        assert "root:" not in repr(answer.rows), sql
    assert (filled_folder / "store.db").read_bytes() == before


def test_respelled_forbidden_statements_do_no_harm_on_the_server(there: Tables) -> None:
    sent = 0
    for sql in _variants(seed=4):
        try:
            check_query(sql, "postgres")
        except UsageError:
            continue
        sent += 1
        try:
            answer = run_query(there, MINE, sql, timeout_s=60)
        except EvalscribeError:
            continue
        assert "SECRET" not in repr(answer.rows), sql
    assert sent < 100
    rows = run_query(there, MINE, "SELECT total FROM runs", timeout_s=60).rows
    assert rows == ((ROWS["runs"][0]["total"],),)


@pytest.mark.parametrize("table", [table.name for table in tables()])
def test_rows_of_another_collection_are_invisible(desk: Tables, table: str) -> None:
    answer = run_query(desk, MINE, f"SELECT * FROM {table}", timeout_s=60)
    assert answer.rows
    assert "SECRET" not in repr(answer)
    assert not run_query(desk, "nobody", f"SELECT * FROM {table}", timeout_s=60).rows
    other_rows = run_query(desk, "theirs", f"SELECT * FROM {table}", timeout_s=60)
    assert "SECRET" in repr(other_rows), "the other collection has rows here that could have shown"
    assert "BODY" not in repr(other_rows)
    assert "KEY" not in repr(other_rows)


BOMBS = [
    "SELECT count(*) FROM " + ", ".join(f"messages m{n}" for n in range(9)),
    "SELECT count(DISTINCT a.id || b.id || c.id || d.id || e.id || f.id) FROM agent_runs a, agent_runs b, agent_runs c, agent_runs d, "
    "agent_runs e, agent_runs f, agent_runs g",
    "SELECT max(content) OVER (ORDER BY content || id) FROM (SELECT a.content, b.id FROM messages a, agent_runs b, "
    "agent_runs c, agent_runs d, agent_runs e) AS q",
]
NAMED_AS_OURS = [
    "WITH all_runs AS (SELECT 1 AS id) SELECT * FROM all_runs, runs",
    'WITH "all_agent_runs" AS (SELECT id FROM runs) SELECT * FROM all_agent_runs, agent_runs',
    "WITH w1 AS (SELECT 1 AS a), t1 AS (SELECT 2 AS b) SELECT * FROM w1, t1, runs",
    "WITH evals AS (SELECT 's1' AS run_id) SELECT id FROM agent_runs, evals",
    "WITH collection_runs AS (SELECT 'mine' AS collection_id, 's1' AS run_id) SELECT r.id FROM runs r, collection_runs",
    "WITH mine AS (SELECT 'theirs' AS collection_id) SELECT a.id FROM mine, agent_runs a",
    "SELECT x.collection_id, runs.id FROM (SELECT 'theirs' AS collection_id) x, runs",
    "SELECT ':collection_id', ':v1', '%(v1)s', runs.* FROM runs",
    'SELECT ":collection_id".id FROM runs AS ":collection_id"',
    "SELECT (SELECT id FROM runs b WHERE b.id <> a.id) FROM runs a",
]


@pytest.mark.parametrize("number", range(len(BOMBS)))
def test_endless_query_is_stopped(filled_folder: Path, there: Tables, number: int) -> None:
    for engine in (SqliteTables(filled_folder / "store.db"), there):
        with pytest.raises(UnavailableError, match=r"did not end within 0.7 s|too much memory"):
            run_query(engine, MINE, BOMBS[number], timeout_s=0.7)


@pytest.mark.parametrize("number", range(len(NAMED_AS_OURS)))
def test_names_of_internal_tables_do_not_escape_the_collection(desk: Tables, number: int) -> None:
    answer = run_query(desk, MINE, NAMED_AS_OURS[number], timeout_s=60)
    assert answer.rows
    assert "SECRET" not in repr(answer.rows)
    assert "s1-" not in repr(answer.rows)


def test_pattern_with_endless_backtracking_is_stopped(filled_folder: Path) -> None:
    tables_in_process = SqliteTables(filled_folder / "store.db", grace_s=0.5)
    with pytest.raises(UnavailableError, match=r"did not end within 0.7 s"):
        run_query(tables_in_process, MINE, "SELECT ('" + "a" * 60 + "!') ~ '^(a|aa)+$'", timeout_s=0.7)


def test_memory_of_growing_text_is_bounded(filled_folder: Path, there: Tables) -> None:
    sql = "SELECT 'x' AS t"
    for _ in range(30):
        sql = f"SELECT t || t || t || t AS t FROM ({sql}) AS q"
    for engine, timeout_s in ((SqliteTables(filled_folder / "store.db"), 10), (there, 60)):
        with pytest.raises(EvalscribeError):
            run_query(engine, MINE, sql, timeout_s=timeout_s)


def test_number_of_rows_and_size_of_cells_are_bounded(here: Tables, there: Tables) -> None:
    long = "replace(replace(replace(repeat_me, 'hello', '{x}'), 'h', '{x}'), 'x', '{x}')".replace("{x}", "x" * 2000)
    for desk in (here, there):
        many = run_query(desk, MINE, "SELECT a.id FROM agent_runs a, agent_runs b, agent_runs c", timeout_s=60)
        assert (len(many.rows), many.truncated, many.row_count) == (10_000, True, 10_000)
        exact = run_query(desk, MINE, "SELECT id FROM agent_runs", most_rows=36, timeout_s=60)
        assert (len(exact.rows), exact.truncated) == (36, False)
        cut = run_query(desk, MINE, f"SELECT {long} AS t FROM (SELECT 'xhello' AS repeat_me) AS q", timeout_s=60).rows[
            0
        ][0]
        assert len(str(cut)) < 1_000_100
        assert str(cut).endswith("characters in all)")


def test_syntax_error_is_described_in_sql_terms() -> None:
    with pytest.raises(UsageError, match="line 1, column 33: this cannot be parsed: something is missing here"):
        check_query("SELECT id FROM agent_runs WHERE drop table", "sqlite")


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SHOW TABLES", "only SELECT is allowed, not SHOW"),
        ("SELECT current_date", "current_date is not available"),
        ("SELECT interval '1 day'", "an interval can only be added to or subtracted from a time"),
        ("SELECT '2026-01-01'::date + interval '1 day 2 hours'", "one whole number and one unit"),
        ("SELECT '2026-01-01'::timestamp - '2026-01-01'::date", r"write extract\(epoch from a - b\)"),
        ("SELECT '2026-01-01'::timestamp + 1", "timestamp and bigint cannot be combined here"),
        ("SELECT metadata_json[0] FROM agent_runs", r"the only subscript allowed is JSON\['key'\]"),
    ],
)
def test_unsupported_feature_is_reported_once_with_an_alternative(
    sql: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UsageError, match=error):
        check_query(sql, "postgres")
    assert caplog.records == []


def test_sqlite_connection_refuses_forbidden_statements_itself(here: Tables) -> None:
    """If the checks before it were wrong, SQLite would still refuse."""
    tables = here
    for statement in [
        "SELECT * FROM sqlite_master",
        "SELECT body FROM runs",
        "SELECT * FROM texts",
        "SELECT * FROM collections",
        "SELECT load_extension('x')",
        "SELECT randomblob(10)",
        "PRAGMA journal_mode=DELETE",
        "ATTACH ':memory:' AS x",
        "DELETE FROM runs",
        "CREATE TEMP TABLE x (a)",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT * FROM x",
        "SELECT * FROM pragma_database_list",
        "VACUUM INTO '/tmp/never.db'",
        "SELECT 1; SELECT 2",
    ]:
        with pytest.raises(EvalscribeError):
            tables.select(statement, {}, most_rows=10, timeout_s=60)
    assert not Path("/tmp/never.db").exists()


def test_postgres_connection_refuses_forbidden_statements_itself(there: Tables) -> None:
    for statement in [
        "DELETE FROM runs",
        "CREATE TABLE x (a int)",
        "COPY runs TO '/tmp/never'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT nextval('collections_number_seq')",
    ]:
        with pytest.raises(EvalscribeError):
            there.select(statement, {}, most_rows=10, timeout_s=60)


def test_query_runs_during_an_uncommitted_write(filled_folder: Path) -> None:
    tables = SqliteTables(filled_folder / "store.db")
    writer = sqlite3.connect(filled_folder / "store.db", isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE runs SET status = 'half'")
        found = tables.select("SELECT count(*) FROM runs WHERE status = 'half'", {}, most_rows=1, timeout_s=60)
        assert found.rows == ((0,),)
    finally:
        writer.execute("ROLLBACK")
        writer.close()

"""Queries on both engines. JSON, text and counts are equal; numbers, times and order depend on the engine."""

import json

import pytest

from evalscribe.collections.query import run_query
from evalscribe.errors import UsageError
from evalscribe.model.protocols import Tables
from support.query_rows import MINE

M = "metadata_json"


def run_and_format(desk: Tables, sql: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return columns and rows. Cells are compared by their repr, because 1, 1.0 and True are equal in Python."""
    answer = run_query(desk, MINE, sql, timeout_s=60)
    return answer.columns, [list(map(repr, row)) for row in answer.rows]


SAME_EXPRESSIONS = [
    f"{M}->>'task'",
    f"{M}->'scores'->'n'",
    f"round(CAST({M}->'scores'->>'n' AS NUMERIC), 2)",
    f"{M}->'list'->0",
    f"{M}->'any'->>'aa'",
    f"{M}->'any'",
    f"jsonb_typeof({M}->'any')",
    f"{M}->'any' ? 'x', {M}->'any' ? 'a', {M}->'list' ? 'a', {M} ? ''",
    f"{M} ?| array['nope','task'], {M} ?& array['0','task'], {M}->'list' ?| array['b']",
    f"{M} @> '{{\"ok\": true}}', {M}->'list' @> '[1]', {M}->'list' @> '\"a\"', '{{\"a.b\":\"dot\"}}' <@ {M}",
    f"{M} #> '{{scores,n}}', {M} #>> '{{list,1}}', {M} #>> ARRAY['any','b'], {M} #>> '{{list,2,k}}'",
    f"{M}->'odd \"key\"', {M}->>'a.b', {M}->>'größe', {M}->>'0', {M}->>'', {M}->'nope'->'x'",
    f"({M}->'ok')::boolean, ({M}->>'ok')::boolean, ({M}->>'ok')::boolean IS TRUE, NOT ({M}->>'ok')::boolean",
    f"left({M}->>'text', 2), left({M}->>'text', -1), right({M}->>'text', 2), right({M}->>'text', -1), right('abc', 0)",
    f"split_part({M}->>'text', ',', 2), split_part({M}->>'text', ',', -1), split_part('abc', '', 1)",
    f"strpos({M}->>'text', 'b'), position('' in {M}->>'text'), starts_with({M}->>'text', 'a')",
    f"trim({M}->>'text'), trim(both 'z' from {M}->>'text'), ltrim({M}->>'text', 'az'), replace({M}->>'text', 'a', 'ü')",
    f"{M}->>'text' LIKE '%a%', {M}->>'text' ILIKE 'A%', {M}->>'text' NOT LIKE '_', {M}->>'text' LIKE '!%%' ESCAPE '!'",
    f"date_trunc('month', ({M}->>'time')::timestamp), date_trunc('week', ({M}->>'time')::timestamp)",
    f"{M}['scores']['n'], {M}['list'] -> 0, {M}['any']['aa'] ->> 'b', {M}['nope']['x']",
    "trial / 2, trial % 2, -trial / 2, trial / 2.0, 7 / 2, -7 / 2, -7 % 3, 2 ^ 3, (-2) ^ 2, 1.5 + trial",
    "1 IN (1, NULL), 2 IN (1, NULL), NULL = 1, NULL IS DISTINCT FROM 1, trial = '1', trial = ANY(ARRAY[1,3])",
    "coalesce(reason, 'none'), nullif(reason, ''), reason IS NULL, CASE status WHEN 'passed' THEN 1 ELSE 0.5 END",
    f"jsonb_array_length({M}->'list'), (SELECT count(*) FROM jsonb_array_elements({M}->'list'))",
    "EXISTS (SELECT 1 FROM findings f WHERE f.agent_run_id = agent_runs.id AND f.uncertain)",
    f"{M}->>'text' ~ '^a', {M}->>'text' ~* '^A', {M}->>'text' !~ '[[:digit:]]', {M}->>'text' ~ '\\d+(\\.\\d+)?$'",
    f"{M}->>'text' ~ 'z{{3,5}}$', {M}->>'text' ~ '\\yx\\y', {M}->>'text' ~ '(a|b),(b|c)?', {M}->>'text' !~* '[^a-z]'",
    "'a.b' ~ 'a\\.b', 'x' ~ '[^]]', 'a' ~ 'a|', '\\' ~ '[\\\\]'",
    f"{M}->'list'->-1->>'k', {M}->'list' -> -2 -> 'x', {M}->'list'->-1, -1 - -1",
    "trial = ANY(ARRAY[1, 3]), trial <> ALL(ARRAY[2]), trial > ALL(ARRAY[0, 1]), id LIKE ANY(ARRAY['%1', '%2'])",
    "id NOT ILIKE ALL(ARRAY['%1', 'R%2']), id = ANY(SELECT agent_run_id FROM findings), status = ANY(ARRAY['passed', NULL])",
    f"jsonb_build_object('b', id, 'a', {M}->'any', 'n', 1.50, 'x', NULL), jsonb_build_array(1, 'a', NULL, true)",
    "(SELECT max(f.confidence) FROM findings f WHERE f.agent_run_id = agent_runs.id)",
]
OWN_EXPRESSIONS = [
    f"{M}->'scores'->>'n'",
    f"CAST({M}->'scores'->>'n' AS DOUBLE PRECISION)",
    f"({M}->'scores'->'n')::float8",
    f"round(({M}->'scores'->>'n')::double precision)",
    f"CAST(({M}->'scores'->>'n')::double precision AS TEXT)",
    f"CASE WHEN abs(({M}->'scores'->>'n')::float) < 1e18 THEN ({M}->'scores'->>'n')::float::bigint END",
    f"CASE WHEN abs(({M}->'scores'->>'n')::float) < 1e18 THEN ({M}->'scores'->'n')::bigint END",
    f"{M}->'list'->>-1",
    f"{M}->'any'->0",
    f"{M}->'any'->>0",
    f"{M}->>'any'",
    f"({M}->'any')::text",
    f"{M}::text",
    f"{M}->'any' = '1', {M}->'any' <> '[1, 2.0]', {M}->'ok' = 'true'",
    f"length({M}->>'text'), upper({M}->>'text'), lower({M}->>'text'), reverse({M}->>'text')",
    f"substr({M}->>'text', 2), substring({M}->>'text' from -1 for 3), substr({M}->>'text', 2, 1)",
    f"{M}->>'text' < 'b', {M}->>'text' BETWEEN 'A' AND 'b', greatest({M}->>'text', 'M'), least('b', {M}->>'text', NULL)",
    f"{M}->>'text' || trial || ({M}->'scores'->>'n')::float || true, concat({M}->>'text', NULL, 1)",
    f"({M}->>'time')::timestamp, ({M}->>'time')::timestamptz, ({M}->>'time')::date",
    f"date_trunc('quarter', ({M}->>'time')::date), date_trunc('hour', ({M}->>'time')::timestamp)",
    *(
        f"extract({field} from ({M}->>'time')::timestamp)"
        for field in ("epoch", "year", "dow", "isodow", "doy", "quarter", "week", "second", "month", "day")
    ),
    f"({M}->>'time')::timestamp + interval '36 hours', ({M}->>'time')::date - interval '1 month', "
    f"('2024-02-29'::timestamp + interval '1 year'), '2026-01-31'::date + interval '1' month",
    f"extract(epoch from ({M}->>'time')::timestamp - '2026-01-02T03:04:05.678901'), extract(epoch from "
    "('2026-01-01'::timestamp - '2026-01-02 00:00:01.1'::timestamp)), extract(epoch from '2026-01-02'::timestamp - interval '1 day')",
    f"({M}->>'time')::date - '2024-02-28'::date, ({M}->>'time')::date + 3, 7 + ({M}->>'time')::date - 400",
    f"({M}->>'time')::timestamp < '2026-01-01', ({M}->>'time')::timestamp::text, ({M}->>'time')::date::text",
    "sqrt(trial), ln(trial), exp(trial), power(trial, 0.5), floor(-1.5), ceil(-1.5), trunc(-1.5), sign(-3), abs(-3.5)",
    "CAST('12' AS INT), '1.50'::float, 't'::boolean, '2026-01-01'::date, 1::text, 1.0::text, 1e20::text, 0.1::text, 3::boolean",
    '\'{"b":1,  "a": [1.0, 1e2, 1.50e-3]}\'::jsonb, \'{"b":1,"a":2}\'::jsonb::text, to_jsonb(trial), to_jsonb(0.5 + trial)',
    "round(2.5), round(-2.5), round(0.5), round(2.675, 2), round(1234.5, -2), round(1e20, 3), 2.5::int, 0.1 + 0.2",
    "true, false OR NULL, NOT true, trial > 1 AND status = 'failed', (trial > 1)::int, (trial > 1)::text",
    f"{M}->>'text' ~ '\\w', {M}->>'text' ~ '\\s', {M}->>'text' ~* 'ÄÖ', {M}->>'text' ~ '[ä-ü]', {M}->>'text' ~ '[]%\\\\]$'",
    "'a\nb' ~ 'a.b', 'a\nb' ~ '^b', 'a\n' ~ 'a$', 'ä' ~ '\\w', 'aaa' ~ '^a{2}$', 'aa' ~ '^a+?$', '[' ~ '[[]', 'K' ~ '(?i)k'",
    "1.005::numeric(10, 2), '3.14159'::numeric(10,3), 2.5::numeric(3), name::varchar(4), concat('a', true, NULL, false)",
]
SAME_QUERIES = [
    "SELECT * FROM agent_runs ORDER BY id",
    "SELECT * FROM runs",
    "SELECT * FROM transcripts ORDER BY id",
    "SELECT * FROM messages ORDER BY transcript_id, number",
    "SELECT * FROM findings ORDER BY number, path",
    "SELECT * FROM steps, documents, reports, labels",
    "SELECT * FROM judge_results ORDER BY id",
    "SELECT * FROM result_sets s JOIN results r ON r.result_set_id = s.id",
    "SELECT * FROM experiment_runs r JOIN run_items i ON i.run_id = r.id JOIN scores s ON s.run_item_id = i.id "
    "ORDER BY i.number",
    "SELECT i.usage->>'calls', s.passed, s.metadata_json->'n' FROM run_items i JOIN scores s ON s.run_item_id = i.id "
    "WHERE s.current AND s.required ORDER BY i.number",
    "SELECT category, count(*), min(name), max(id) FROM agent_runs GROUP BY category ORDER BY category",
    "SELECT failed_step, count(*) FILTER (WHERE trial = 1), count(DISTINCT status), bool_or(trial > 1), every(trial > 0) "
    "FROM agent_runs GROUP BY 1 ORDER BY 1 DESC",
    f"SELECT json_agg({M}->'any' ORDER BY id), array_agg(DISTINCT trial), string_agg(reason, '') FROM agent_runs",
    f"SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY ({M}->'scores'->>'n')::float), "
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY trial DESC), percentile_cont(0.5) WITHIN GROUP (ORDER BY trial) "
    "FILTER (WHERE status = 'failed') FROM agent_runs",
    "SELECT DISTINCT category, failed_step FROM agent_runs ORDER BY 2 DESC, category",
    "SELECT category FROM agent_runs UNION SELECT status FROM agent_runs ORDER BY 1 DESC LIMIT 5",
    "SELECT 1 AS a, NULL AS b UNION ALL SELECT 2.5, 'x' ORDER BY a",
    "SELECT status FROM agent_runs EXCEPT SELECT 'passed' ORDER BY status",
    "(SELECT status FROM agent_runs WHERE trial = 1) INTERSECT (SELECT 'passed') ORDER BY 1",
    "WITH f AS (SELECT * FROM findings WHERE confidence > 0.2), g(c, n) AS (SELECT cause, count(*) FROM f GROUP BY 1) "
    "SELECT * FROM g ORDER BY n DESC, c",
    "SELECT a.id, f.cause FROM agent_runs a LEFT JOIN findings f ON f.agent_run_id = a.id ORDER BY f.cause, a.id LIMIT 9",
    "SELECT a.id, f.cause FROM findings f RIGHT JOIN agent_runs a ON f.agent_run_id = a.id ORDER BY 2 DESC, 1 OFFSET 30",
    "SELECT * FROM (SELECT id AS x FROM runs) r FULL JOIN (SELECT run_id AS x, count(*) AS n FROM agent_runs GROUP BY 1) q "
    "USING (x)",
    "SELECT run_id, count(*) FROM agent_runs JOIN (SELECT id AS run_id FROM runs) r USING (run_id) GROUP BY run_id",
    "SELECT id, row_number() OVER w, rank() OVER (ORDER BY status), sum(trial) OVER w, lag(name, 1, 'none') OVER w, "
    "first_value(id) OVER w, ntile(3) OVER w, avg(trial) OVER (PARTITION BY status ORDER BY id ROWS BETWEEN 1 PRECEDING "
    "AND CURRENT ROW) FROM agent_runs WINDOW w AS (PARTITION BY category ORDER BY id) ORDER BY id",
    "SELECT status, sum(count(*)) OVER (), rank() OVER (ORDER BY count(*) DESC) FROM agent_runs GROUP BY status ORDER BY 1",
    f"SELECT a.id, e.value, e.ordinality FROM agent_runs a, jsonb_array_elements(a.{M}->'list') WITH ORDINALITY AS e "
    "ORDER BY a.id, e.ordinality",
    f"SELECT key, count(*) FROM agent_runs, jsonb_each({M}) GROUP BY key ORDER BY count(*) DESC, key",
    f"SELECT k, count(*) FROM agent_runs, jsonb_object_keys({M}) AS k GROUP BY k ORDER BY 1",
    "SELECT function, error FROM messages WHERE role = 'tool' AND error IS NOT NULL ORDER BY transcript_id",
    "SELECT t.value->>'function' AS f, count(*) FROM messages m, jsonb_array_elements(m.tool_calls) t GROUP BY 1",
    "SELECT sum(trial), count(*) AS n FROM agent_runs HAVING count(*) > 1 ORDER BY n",
    "SELECT CASE WHEN trial > 1 THEN 'b' ELSE 'A' END AS c, count(*) FROM agent_runs GROUP BY c ORDER BY c",
    f"SELECT e->>'k' AS k, count(*) FROM agent_runs a, jsonb_array_elements(a.{M}->'list') AS e GROUP BY k ORDER BY k",
    f"SELECT a.id, (SELECT count(*) FROM jsonb_array_elements_text(a.{M}->'list') e WHERE e = 'b') FROM agent_runs a ORDER BY 1",
    f"SELECT a.id, s.key, s.value FROM agent_runs a LEFT JOIN jsonb_each(a.{M}->'scores') s ON s.key = 'n' ORDER BY a.id",
    "SELECT a.id, v.* FROM agent_runs a JOIN (VALUES ('passed', 1.5), ('failed', 0)) AS v(s, w) ON v.s = a.status ORDER BY 1",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v ORDER BY column1",
    "SELECT id FROM agent_runs ORDER BY id OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY",
    "WITH x AS (SELECT id FROM agent_runs ORDER BY id LIMIT 5) SELECT count(*) FROM x",
    "WITH x AS (SELECT 1 AS a) SELECT r.id FROM runs r, x",
    "WITH a AS (SELECT id FROM runs), b AS (SELECT id FROM a) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b) AS n",
    "SELECT max(uncertain::int), avg(confidence), sum(confidence), min(confidence) FROM findings",
    "SELECT a.status, (SELECT count(*) FROM agent_runs b WHERE b.status = a.status) FROM agent_runs a GROUP BY a.status ORDER BY 1",
    "SELECT count(*) FROM agent_runs WHERE id NOT IN (SELECT agent_run_id FROM findings WHERE agent_run_id IS NOT NULL)",
]
OWN_QUERIES = [
    f"SELECT {M}->>'task' AS t, avg(({M}->'scores'->>'n')::float), sum(({M}->'scores'->>'n')::float), "
    f"stddev(({M}->'scores'->>'n')::float), var_pop(({M}->'scores'->>'n')::float) FROM agent_runs GROUP BY t ORDER BY t",
    "SELECT status, string_agg(name, ',' ORDER BY name DESC, trial), string_agg(DISTINCT category, '; '), "
    "array_agg(trial ORDER BY name, trial), jsonb_agg(reason) FROM agent_runs GROUP BY status ORDER BY status",
    "SELECT DISTINCT ON (category) category, name, trial FROM agent_runs ORDER BY category DESC, name DESC, trial",
    f"SELECT id, sum(({M}->'scores'->>'n')::float) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) "
    "FROM agent_runs ORDER BY id",
    f"SELECT a.id, t FROM agent_runs a CROSS JOIN LATERAL jsonb_array_elements_text(a.{M}->'list') AS x(t) ORDER BY 1, 2",
    f"SELECT e.key, e.value FROM agent_runs, jsonb_each_text({M}) AS e WHERE id = 'r1-e4' ORDER BY 1",
    f"SELECT e, count(*) FROM agent_runs a, jsonb_array_elements_text(a.{M}->'list') e GROUP BY e ORDER BY e",
    f"SELECT a.id, e, e.value FROM agent_runs a LEFT JOIN LATERAL jsonb_array_elements(a.{M}->'list') e ON true ORDER BY a.id, e::text",
    f"SELECT a.id, e.* FROM agent_runs a LEFT JOIN LATERAL jsonb_array_elements_text(a.{M}->'list') WITH ORDINALITY e "
    "ON e.ordinality > 1 ORDER BY a.id, e.ordinality",
    "SELECT lead(confidence, 1, 0) OVER (ORDER BY number), lag(number, 1, 0.5) OVER (ORDER BY number) FROM findings ORDER BY number",
    "SELECT sum(x), avg(x) FROM (SELECT 0.1 AS x UNION ALL SELECT 0.2 UNION ALL SELECT 0.3) AS q",
]


def of_evals(expression: str) -> str:
    return f"SELECT id, {expression} FROM agent_runs ORDER BY id"


@pytest.mark.parametrize("sql", [*map(of_evals, SAME_EXPRESSIONS), *SAME_QUERIES], ids=lambda sql: repr(sql[:60]))
def test_json_text_and_counts_are_equal_on_both_engines(here: Tables, there: Tables, sql: str) -> None:
    assert run_and_format(here, sql) == run_and_format(there, sql)


@pytest.mark.parametrize("sql", [*map(of_evals, OWN_EXPRESSIONS), *OWN_QUERIES], ids=lambda sql: repr(sql[:60]))
def test_query_runs_on_both_engines(here: Tables, there: Tables, sql: str) -> None:
    sqlite_answer, postgres_answer = run_and_format(here, sql), run_and_format(there, sql)
    assert sqlite_answer[0] == postgres_answer[0]
    assert len(sqlite_answer[1]) == len(postgres_answer[1]) > 0


@pytest.mark.parametrize(
    "value",
    [
        "sqrt(-1)",
        "split_part('a,b', ',', 0)",
        "ln(0)",
        "exp(1000)",
        "'1e999'::float",
        "'maybe'::boolean",
        "'{'::jsonb",
        "jsonb_build_object(NULL, 1)",
    ],
)
def test_invalid_value_is_an_error_of_the_query(desk: Tables, value: str) -> None:
    with pytest.raises(
        UsageError,
        match=r"the query failed|out of range|domain|malformed|invalid|range error|must be TEXT|must not be zero",
    ):
        run_query(desk, MINE, f"SELECT {value} AS x", timeout_s=60)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1.5e999", "[1e400]"])
def test_number_too_large_for_a_float_is_still_valid_json(desk: Tables, number: str) -> None:
    answer = run_query(desk, MINE, f"SELECT '{number}'::jsonb AS x", timeout_s=60)
    assert json.loads(json.dumps(answer.rows, allow_nan=False))[0][0] not in (None, [None])


def test_columns_have_the_names_of_postgres(here: Tables) -> None:
    names = {
        "1::int": "int4",
        "id::text": "id",
        "('1'::float)::int": "int4",
        "CASE WHEN true THEN 1 ELSE trial END": "trial",
        "CASE WHEN true THEN 1 END": "case",
        "(SELECT max(id) AS last FROM runs)": "last",
        "(SELECT count(*) FROM runs)": "count",
        "trim(trailing 'x' from id)": "rtrim",
        "metadata_json->>'task'": "?column?",
        "(metadata_json->>'n')::float": "float8",
        "-trial": "?column?",
    }
    assert run_query(here, MINE, f"SELECT {', '.join(names)} FROM agent_runs LIMIT 0", timeout_s=60).columns == tuple(
        names.values()
    )

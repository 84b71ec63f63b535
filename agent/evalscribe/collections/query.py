"""Query a collection in SQL: run SELECTs, document tables and metadata, select agent runs, and list evals."""

import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue, computed_field

from evalscribe.collections.runs import stored_run
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.requests import RequestPrompt
from evalscribe.judging.subjects import Subject, failure_subject
from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.exploration import Member
from evalscribe.model.protocols import QueryRows, Tables
from evalscribe.model.result import AgentRunRef
from evalscribe.model.rubric import Collection
from evalscribe.model.run import EvalStatus
from evalscribe.store.query.statement import check_query, convert_value
from evalscribe.store.query.tables import tables as queried_tables

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore
    from evalscribe.store.records import RunStore

MOST_ROWS = 10_000
TIMEOUT_S = 30.0
LONGEST_TIMEOUT_S = 3600.0


class QueryResult(QueryRows):
    """The rows of a query, with the row limit that was applied and the execution time."""

    applied_limit: int
    execution_time_ms: float

    @computed_field
    def row_count(self) -> int:
        return len(self.rows)


def run_query(
    tables: Tables, collection_id: str, sql: str, *, most_rows: int = MOST_ROWS, timeout_s: float = TIMEOUT_S
) -> QueryResult:
    """Run one SELECT and return up to `most_rows` rows.

    Raises:
        UsageError: The query, the row limit or the timeout is invalid. For an invalid query, the message contains line
            and column if they are known.
        UnavailableError: The query timed out.
    """
    if not 1 <= most_rows <= MOST_ROWS:
        raise UsageError(
            f"the row limit must be between 1 and {MOST_ROWS:,}, not {most_rows:,}; get more rows with OFFSET"
        )
    if not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise UsageError(f"the timeout must be greater than 0 and at most {LONGEST_TIMEOUT_S:g} s, not {timeout_s:g}")
    statement = check_query(sql, tables.dialect)
    values = {"collection_id": collection_id}
    started = time.perf_counter()
    result = tables.select(statement.text, values, most_rows=most_rows, timeout_s=timeout_s)
    # The values come from parsed JSON. Validating them again would take as long as reading them.
    return QueryResult.model_construct(
        columns=tuple(column.name for column in statement.columns),
        rows=tuple(tuple(map(convert_value, statement.columns, row)) for row in result.rows),
        truncated=result.truncated,
        applied_limit=most_rows,
        execution_time_ms=round((time.perf_counter() - started) * 1000, 1),
    )


SAMPLED_EVALS = 1000
"""Maximum number of agent runs whose metadata keys are examined."""
LONGEST = 60
"""Maximum number of characters of a sample value that are shown."""
LONGEST_VALUE = 200
_VALUES = """
SELECT value, count(*) AS agent_runs FROM (SELECT ({path})::text AS value FROM agent_runs) AS some
WHERE value IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {most}
"""
_KEYS = """
SELECT one.key AS path, jsonb_typeof(one.value) AS kind, count(*) AS agent_runs, min(one.value::text) AS sample
FROM (SELECT metadata_json FROM agent_runs {where} ORDER BY id LIMIT {most}) AS some, jsonb_each({inside}) AS one
GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2
"""


class ColumnDoc(Frozen):
    name: str
    type: str
    about: str


class TableDoc(Frozen):
    name: str
    about: str
    columns: tuple[ColumnDoc, ...]


class MetadataKey(Frozen):
    """One metadata key of agent runs, with the types of its values."""

    path: str
    """The key as an SQL expression, for example `metadata_json->'scores'->'reward'`."""
    kind: str
    agent_runs: int
    """Number of the examined agent runs that have the key."""
    sample: str


class MetadataValue(Frozen):
    """A value at one path of the metadata, with the number of agent runs that have this value."""

    value: str
    """The value as JSON text, cut if it is long."""
    agent_runs: int


class QueryTables(Frozen):
    tables: tuple[TableDoc, ...]
    metadata: tuple[MetadataKey, ...] = ()


def document_tables() -> tuple[TableDoc, ...]:
    return tuple(
        TableDoc(
            name=table.name,
            about=table.about,
            columns=tuple(
                ColumnDoc(name=column.name, type=column.kind, about=column.about) for column in table.columns
            ),
        )
        for table in queried_tables()
    )


def metadata_keys(tables: Tables, collection_id: str, *, timeout_s: float = TIMEOUT_S) -> tuple[MetadataKey, ...]:
    """List the metadata keys of the first 1,000 agent runs, down to two levels.

    Raises `UsageError` if the timeout is invalid, and `UnavailableError` if the query timed out.
    """
    keys = _keys(tables, collection_id, "metadata_json", timeout_s)
    inner = dict.fromkeys(key.path for key in keys if key.kind == "object")
    inner_keys = [key for path in inner for key in _keys(tables, collection_id, path, timeout_s)]
    return tuple(sorted([*keys, *inner_keys], key=lambda key: (key.path, -key.agent_runs)))


def metadata_values(
    tables: Tables, collection_id: str, path: str, most: int, *, timeout_s: float = TIMEOUT_S
) -> tuple[MetadataValue, ...]:
    """List the metadata values at a path, most frequent first.

    Args:
        path: A path such as `MetadataKey.path`, or a short form such as `scores.reward`.

    Raises the same errors as `run_query`.
    """
    # A path that begins with `metadata_json` is SQL and is inserted as it is. This is safe, because `run_query` refuses
    # everything but a SELECT on the documented tables.
    rows = run_query(tables, collection_id, _VALUES.format(path=_sql_path(path), most=most), timeout_s=timeout_s).rows
    return tuple(MetadataValue(value=_shorten(str(row[0])), agent_runs=int(str(row[1]))) for row in rows)


def _sql_path(path: str) -> str:
    if path.startswith("metadata_json"):
        return path
    return "->".join(["metadata_json", *map(_quoted, path.split("."))])


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _keys(tables: Tables, collection_id: str, inside: str, timeout_s: float) -> list[MetadataKey]:
    where = "" if inside == "metadata_json" else f"WHERE jsonb_typeof({inside}) = 'object'"
    rows = run_query(
        tables, collection_id, _KEYS.format(most=SAMPLED_EVALS, inside=inside, where=where), timeout_s=timeout_s
    ).rows
    return [_key(f"{inside}->{_quoted(str(row[0]))}", row) for row in rows]


def _key(path: str, row: Sequence[JsonValue]) -> MetadataKey:
    sample = str(row[3])
    short = sample if len(sample) <= LONGEST else sample[: LONGEST - 1] + "…"
    return MetadataKey(path=path, kind=str(row[1]), agent_runs=int(str(row[2])), sample=short)


def _quoted(key: str) -> str:
    return "'" + key.replace("'", "''") + "'"


_SELECT = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_CONDITION = "SELECT id FROM agent_runs WHERE "
_PAGE = """\
SELECT whole.id, whole.run_id, whole.name, whole.provider, whole.model, whole.task, whole.trial, whole.status
FROM agent_runs AS whole{chosen}
ORDER BY whole.id, whole.run_id LIMIT {limit} OFFSET {offset}"""
_CHOSEN = "\nWHERE whole.id IN (SELECT chosen.id FROM (\n{select}\n) AS chosen)"


def select_agent_runs(tables: Tables, collection_id: str, where: str | None = None) -> tuple[Member, ...]:
    """Select agent runs, in order of id.

    Args:
        where: SQL condition on the table `agent_runs`, or a SELECT that returns a column `id`.

    Raises:
        UsageError: The query is invalid.
        UnavailableError: The query timed out.
    """
    chosen_clause = _CHOSEN.format(select=_select(tables, where)) if where and where.strip() else ""
    return tuple(_pages(tables, collection_id, chosen_clause))


def _select(tables: Tables, where: str) -> str:
    """Check a condition and convert it to a SELECT."""
    # A semicolon at the end would be a syntax error, because the SELECT becomes a subquery.
    query = where.rstrip().removesuffix(";") if _SELECT.match(where) else f"{_CONDITION}{where}"
    try:
        # Check the condition before it becomes part of a query, so that errors state the line and column within it.
        columns = [column.name for column in check_query(query, tables.dialect).columns]
    except UsageError as error:
        raise UsageError(f"`where`: {error}\nin: {query}", fields=("where",)) from None
    if "id" not in columns:
        raise UsageError(
            f"`where` must return the column `id` of agent_runs; it returns {', '.join(columns)}", fields=("where",)
        )
    return query


def _pages(tables: Tables, collection_id: str, chosen_clause: str) -> Iterator[Member]:
    offset, more = 0, True
    while more:
        rows = run_query(tables, collection_id, _PAGE.format(chosen=chosen_clause, limit=MOST_ROWS, offset=offset)).rows
        yield from (Member.model_validate(dict(zip(Member.model_fields, row, strict=True))) for row in rows)
        offset += len(rows)
        more = len(rows) == MOST_ROWS


_COLUMNS = "id, name, run_id, provider, model, task, trial, trials, status, failed_step, reason"
_FINDINGS = "SELECT agent_run_id, classification, cause, cause_kind FROM findings"
_IDS = "SELECT id FROM agent_runs WHERE\n{where}\n"
"""Query with which a condition is checked.

The line breaks prevent a comment in the condition from hiding what follows.
"""
LONGEST_REASON = 300
"""Maximum number of characters of a reason that are shown."""


class EvalFilter(Frozen):
    """Filters for evals. A filter that is None is not applied."""

    run: str | None = None
    """Id of a run, or the first characters of the id."""
    status: EvalStatus | None = None
    task: str | None = None
    model: str | None = None
    """Name of a model, alone or as `provider/model`."""
    classification: str | None = None
    cause: str | None = None
    where: str | None = None
    """A SQL condition on `agent_runs`."""


class ListedEval(Frozen):
    """One eval, with its finding in the latest report of its run."""

    id: str
    name: str
    run_id: str
    provider: str
    model: str
    task: str | None = None
    trial: int
    trials: int
    status: str
    failed_step: str | None = None
    reason: str | None = None
    """Reason for the result, from the recorded metadata. A long reason is cut."""
    classification: str | None = None
    cause: str | None = None
    cause_kind: str | None = None


class EvalList(Frozen):
    total: int
    evals: tuple[ListedEval, ...] = ()


def list_evals(
    tables: Tables,
    collection: Collection,
    filters: EvalFilter,
    *,
    limit: int,
    offset: int,
    timeout_s: float = TIMEOUT_S,
) -> EvalList:
    """List evals, sorted by run, name and trial.

    Raises `UsageError` if the condition is invalid. The message contains the line and the column of the error in the
    condition.
    """
    if filters.where:
        # Check the condition on its own: `1 = 1) OR (1 = 1` is then a syntax error. Inside the query, it would close
        # the parenthesis around it.
        check_query(_IDS.format(where=filters.where), tables.dialect, first_line=0)
    source = (
        f"FROM agent_runs AS one LEFT JOIN ({_FINDINGS}) AS finding ON finding.agent_run_id = one.id {_where(filters)}"
    )
    columns = f"{', '.join(f'one.{name}' for name in _COLUMNS.split(', '))}, classification, cause, cause_kind"
    page = f"ORDER BY one.run_id, one.name, one.trial LIMIT {limit} OFFSET {offset}"
    result = run_query(
        tables, collection.id, f"SELECT {columns}, count(*) OVER () AS total {source} {page}", timeout_s=timeout_s
    )
    # Each row contains the total, so a page beyond the end contains no total.
    if not result.rows and offset:
        (total,) = run_query(tables, collection.id, f"SELECT count(*) AS total {source}", timeout_s=timeout_s).rows[0]
        return EvalList(total=int(str(total)))
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    total = rows[0]["total"] if rows else 0
    evals = tuple(_eval({**row, "reason": _cut(row["reason"])}) for row in rows)
    return EvalList(total=int(str(total)), evals=evals)


def eval_text(run_store: "RunStore", store: "AnalysisStore", collection: Collection | None, eval_id: str) -> Subject:
    """Return an eval as a judge sees it, with delimiters around untrusted text.

    `eval_id` is the eval's id. For an eval of an analysed run, it can also be `run id/name`. Raises `NotFoundError` if
    the eval or its evidence is not stored.
    """
    record = run_store.record(eval_id, collection.id if collection else None)
    if record is not None:
        ref = AgentRunRef(id=eval_id)
        return RequestPrompt.of([ref], {ref: record}).subject
    run_name, _, name = eval_id.partition("/")
    run_id = (stored_run(store, run_name) if name else None) or run_name
    run = store.get_run(run_id) if name else None
    for eval in run.failures if run else ():
        if name in (eval.id, eval.path):
            evidence = store.get_evidence(run_id, eval.id)
            if evidence is None or isinstance(evidence, UnreadableEvidence):
                raise NotFoundError(f"the evidence of {eval_id} is not in the store: analyse its run first")
            return failure_subject(run_id, evidence)
    scope = f"collection {collection.name!r}" if collection else "any collection"
    raise NotFoundError(f"eval {eval_id!r} not found in {scope}: use an id from list_evals, or `agent_runs.id` in SQL")


def _eval(row: dict[str, JsonValue]) -> ListedEval:
    return ListedEval.model_validate({name: row[name] for name in ListedEval.model_fields})


def _where(filters: EvalFilter) -> str:
    conditions = [
        _same("one.status", filters.status),
        _same("one.task", filters.task),
        # Names of models and of providers can contain slashes, so the filter cannot be split into the two.
        f"{_text(filters.model)} IN (one.model, one.provider || '/' || one.model)" if filters.model else "",
        _same("finding.classification", filters.classification),
        _same("finding.cause", filters.cause),
        # LIKE would treat `_` and `%` in an id as wildcards.
        f"substr(one.run_id, 1, {len(filters.run)}) = {_text(filters.run)}" if filters.run else "",
        f"one.id IN ({_IDS.format(where=filters.where)})" if filters.where else "",
    ]
    given_conditions = [condition for condition in conditions if condition]
    return f"WHERE {' AND '.join(given_conditions)}" if given_conditions else ""


def _same(column: str, value: str | None) -> str:
    return "" if value is None else f"{column} = {_text(value)}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _cut(reason: object) -> str | None:
    if not isinstance(reason, str) or len(reason) <= LONGEST_REASON:
        return reason if isinstance(reason, str) else None
    return reason[: LONGEST_REASON - 1] + "…"

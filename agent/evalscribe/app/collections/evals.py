"""Evals of a collection, for whoever looks at them one by one: a list that can be filtered, and one eval as text."""

from pydantic import JsonValue

from evalscribe.app.collections.query import TIMEOUT_S, select
from evalscribe.errors import NotFoundError
from evalscribe.ids import Frozen
from evalscribe.judging.requests import RequestPrompt
from evalscribe.judging.subjects import Subject, failure_subject
from evalscribe.model.evidence import UnreadableEvidence
from evalscribe.model.result import AgentRunRef
from evalscribe.model.rubric import Collection
from evalscribe.model.run import EvalStatus
from evalscribe.model.storage import EvalStore, Store, Tables
from evalscribe.query.statement import check_query

_COLUMNS = "id, name, run_id, provider, model, task, trial, trials, status, failed_step, reason"
_FINDINGS = "SELECT agent_run_id, classification, cause, cause_kind FROM findings"
_IDS = "SELECT id FROM agent_runs WHERE\n{where}\n"
"""The condition on lines of its own: places in it are told from there, and a comment at its end ends with it."""
LONGEST_REASON = 300
"""Characters."""


class Filter(Frozen):
    """Which evals; None where it does not matter."""

    run: str | None = None
    """A run's id, or the beginning of it."""
    status: EvalStatus | None = None
    task: str | None = None
    model: str | None = None
    """A model, or `provider/model`."""
    classification: str | None = None
    cause: str | None = None
    where: str | None = None
    """A condition of SQL over `agent_runs`."""


class ListedEval(Frozen):
    """One eval, with what the last report of its run says of it."""

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
    """What is recorded, cut."""
    classification: str | None = None
    cause: str | None = None
    cause_kind: str | None = None


class EvalList(Frozen):
    total: int
    evals: tuple[ListedEval, ...] = ()


def listed(
    tables: Tables,
    collection: Collection,
    wanted: Filter,
    *,
    limit: int,
    offset: int,
    timeout_s: float = TIMEOUT_S,
) -> EvalList:
    """By run, name and trial. Raises `UsageError` for a condition that is no good, naming its place."""
    if wanted.where:
        check_query(_IDS.format(where=wanted.where), tables.dialect)
    source = f"FROM agent_runs AS one LEFT JOIN ({_FINDINGS}) AS said ON said.agent_run_id = one.id {_where(wanted)}"
    columns = f"{', '.join(f'one.{name}' for name in _COLUMNS.split(', '))}, classification, cause, cause_kind"
    page = f"ORDER BY one.run_id, one.name, one.trial LIMIT {limit} OFFSET {offset}"
    found = select(
        tables, collection.id, f"SELECT {columns}, count(*) OVER () AS total {source} {page}", timeout_s=timeout_s
    )
    if not found.rows and offset:
        (total,) = select(tables, collection.id, f"SELECT count(*) AS total {source}", timeout_s=timeout_s).rows[0]
        return EvalList(total=int(str(total)))
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    total = rows[0]["total"] if rows else 0
    evals = tuple(_eval({**row, "reason": _cut(row["reason"])}) for row in rows)
    return EvalList(total=int(str(total)), evals=evals)


def text_of(archive: EvalStore, store: Store, collection: Collection | None, eval_id: str) -> Subject:
    """An eval as a judge is shown it, between delimiters; by its id, or by `run id/eval id` of one that was analysed.

    Raises `NotFoundError`.
    """
    record = archive.record(eval_id, collection.id if collection else None)
    if record is not None:
        ref = AgentRunRef(id=eval_id)
        return RequestPrompt.of([ref], {ref: record}).subject
    run_id, _, name = eval_id.partition("/")
    run = store.get_run(run_id) if name else None
    for eval in run.failures if run else ():
        if name in (eval.id, eval.path):
            evidence = store.get_evidence(run_id, eval.id)
            if evidence is None or isinstance(evidence, UnreadableEvidence):
                raise NotFoundError(f"the evidence of {eval_id} is not in the store: analyse its run first")
            return failure_subject(run_id, evidence)
    where = f"collection {collection.name!r}" if collection else "any collection"
    raise NotFoundError(f"no eval {eval_id!r} in {where}: ids are those of list_evals, or `agent_runs.id` in SQL")


def _eval(row: dict[str, JsonValue]) -> ListedEval:
    return ListedEval.model_validate({name: row[name] for name in ListedEval.model_fields})


def _where(wanted: Filter) -> str:
    provider, slash, model = (wanted.model or "").rpartition("/")
    conditions = [
        _same("one.status", wanted.status),
        _same("one.task", wanted.task),
        _same("one.model", model) if model else "",
        _same("one.provider", provider) if slash else "",
        _same("said.classification", wanted.classification),
        _same("said.cause", wanted.cause),
        f"substr(one.run_id, 1, {len(wanted.run)}) = {_text(wanted.run)}" if wanted.run else "",
        f"one.id IN ({_IDS.format(where=wanted.where)})" if wanted.where else "",
    ]
    stated = [one for one in conditions if one]
    return f"WHERE {' AND '.join(stated)}" if stated else ""


def _same(column: str, value: str | None) -> str:
    return "" if value is None else f"{column} = {_text(value)}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _cut(reason: object) -> str | None:
    if not isinstance(reason, str) or len(reason) <= LONGEST_REASON:
        return reason if isinstance(reason, str) else None
    return reason[: LONGEST_REASON - 1] + "…"

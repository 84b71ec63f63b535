"""Store runs of experiments with their items and scores."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue
from sqlalchemy import Connection, RowMapping, Select, bindparam, delete, func, insert, or_, select, tuple_, update

from evalscribe.errors import NotFoundError, UnavailableError, UsageError
from evalscribe.ids import RUN_ID_PREFIX, canonical_json
from evalscribe.model.chat import Usage
from evalscribe.model.experiment import ExperimentRun, ItemTrial, ItemVerdict, RunItem, RunState
from evalscribe.model.score import Score, ScoreEvidence, ScoreQuery
from evalscribe.model.transcript import Transcript
from evalscribe.store import tables
from evalscribe.store.contents import Texts, json_of
from evalscribe.store.database import Database, open_database
from evalscribe.store.datasets import DatasetStore
from evalscribe.store.definitions import ExperimentStore
from evalscribe.store.lookup import MOST_NAMED
from evalscribe.store.statements import (
    StoredJson,
    all_rows,
    execute_many,
    first_row,
    insert_unless_exists,
    matching,
    read_pages,
    without_nul,
)
from evalscribe.text import NAME_LIMIT, dollars, join_last, pluralise

_texts = tables.texts
_PUT_ITEM, _PUT_SCORE = insert_unless_exists(tables.run_items, unique=True), insert(tables.scores)
_BODIES: Select[Any] = select(_texts.c.digest, _texts.c.body).where(
    _texts.c.digest.in_(bindparam("digests", expanding=True))
)
_ITEM_TEXTS = ("output", "transcript", "state", "log")
_SCORE_TEXTS = ("input", "output", "evidence")
_EMPTY = StoredJson("{}")


class AttemptRows:
    """Trials and scores to be stored, converted into rows before the database is locked."""

    def __init__(self) -> None:
        self._texts = Texts()
        self._scores: list[dict[str, Any]] = []
        self._input: tuple[JsonValue, str | None] = (None, None)

    def item_row(self, attempt: ItemTrial) -> dict[str, Any]:
        """Convert a trial into a row. Raises `DataError`, naming the item, if the trial cannot be stored."""
        item, of_item = attempt.item, f"of item {attempt.item.item_key!r}"
        row = {**vars(item)}
        row["usage"] = None if item.usage is None else StoredJson(item.usage.model_dump_json())
        row["cost_usd"] = 0.0 if item.usage is None else item.usage.cost_usd
        row["output"] = self._json(attempt.output, f"the output {of_item}")
        row["transcript"] = attempt.transcript and self._transcript(attempt.transcript, of_item)
        row["state"] = self._json(attempt.state or None, f"the state {of_item}")
        row["log"] = self._texts.add(attempt.log) if attempt.log else None
        return row

    def score(self, score: Score, evidence: ScoreEvidence) -> None:
        """Convert a score into a row.

        Raises `DataError`, naming the scorer and the item, if the score cannot be stored.
        """
        of_score = f"of scorer {score.scorer!r} for item {score.item_key!r}"
        row = {**vars(score)}
        if evidence.scorer_input is not self._input[0]:  # Inputs are long, so each is rendered once per trial.
            self._input = evidence.scorer_input, self._json(evidence.scorer_input, f"the input {of_score}")
        row["input"] = self._input[1]
        row["output"] = self._json(evidence.scorer_output, f"the output {of_score}")
        row["evidence"] = self._json(evidence.evidence, f"the evidence {of_score}")
        metadata = evidence.metadata
        row["metadata_json"] = without_nul(json_of(metadata, f"the metadata {of_score}")) if metadata else _EMPTY
        self._scores.append(row)

    def put(self, connection: Connection) -> None:
        self._texts.put(connection)
        execute_many(connection, _PUT_SCORE, self._scores)

    def _json(self, value: JsonValue, description: str) -> str | None:
        return None if value is None else self._texts.add(json_of(value, description))

    def _transcript(self, transcript: Transcript, of_item: str) -> str:
        return self._texts.add(json_of(transcript.model_dump(mode="json"), f"the transcript {of_item}"))


def put_item(connection: Connection, row: dict[str, Any]) -> bool:
    """Store a run item unless the item already exists. Returns True if the item was stored."""
    return execute_many(connection, _PUT_ITEM, [row]) > 0


def item_in(row: RowMapping) -> RunItem:
    fields = {name: row[name] for name in RunItem.model_fields if name != "usage"}
    return RunItem(**fields, usage=None if row["usage"] is None else Usage(**row["usage"]))


def score_in(row: RowMapping) -> Score:
    return Score(**{name: row[name] for name in Score.model_fields})


def attempts_in(connection: Connection, database: Database, rows: Sequence[RowMapping]) -> list[ItemTrial]:
    """Convert rows into trials. Raises `DataError` if a row is damaged."""
    bodies = _bodies(connection, database, (row[name] for row in rows for name in _ITEM_TEXTS))
    return [_attempt(database, row, bodies) for row in rows]


def evidence_in(connection: Connection, database: Database, row: RowMapping) -> ScoreEvidence:
    """Convert a row into the evidence of a score. Raises `DataError` if the row is damaged."""
    bodies = _bodies(connection, database, (row[name] for name in _SCORE_TEXTS))
    scorer_input, output, evidence = (_value(database, bodies, row[name]) for name in _SCORE_TEXTS)
    return ScoreEvidence.model_construct(
        scorer_input=scorer_input,
        scorer_output=output,
        evidence=evidence,
        metadata=row["metadata_json"],
    )


def _bodies(connection: Connection, database: Database, digests: Iterable[str | None]) -> dict[str, bytes]:
    distinct_digests = sorted({digest for digest in digests if digest})
    rows = connection.execute(_BODIES, {"digests": distinct_digests}).all() if distinct_digests else []
    return {row.digest: database.unzip(row.body) for row in rows}


def _attempt(database: Database, row: RowMapping, bodies: dict[str, bytes]) -> ItemTrial:
    transcript = _value(database, bodies, row["transcript"])
    return ItemTrial.model_construct(
        item=item_in(row),
        output=_value(database, bodies, row["output"]),
        transcript=None if transcript is None else Transcript.model_validate(transcript),
        state=_value(database, bodies, row["state"]) or {},
        log=bodies[row["log"]].decode() if row["log"] in bodies else "",
    )


def _value(database: Database, bodies: dict[str, bytes], digest: str | None) -> Any:
    if digest is None:
        return None
    try:
        return json.loads(bodies[digest])
    except (KeyError, ValueError, RecursionError) as error:
        raise database.place.damaged(f"the text {digest} cannot be read") from error


_scores_table, _items_table, _versions = tables.scores, tables.run_items, tables.scorer_versions


def select_scores(query: ScoreQuery) -> Select[Any]:
    """Select the scores of a run that come after a given position.

    The scores are ordered by item number, repetition and score number. These three numbers are a score's position. The
    run and the position are parameters of the statement.
    """
    position = tuple_(_items_table.c.number, _items_table.c.repetition, _scores_table.c.number)
    previous_position = tuple_(bindparam("place"), bindparam("repetition"), bindparam("number"))
    statement = (
        select(_scores_table, _items_table.c.number.label("place"))
        .join(_items_table, _items_table.c.id == _scores_table.c.run_item_id)
        # The condition on `position` implies the condition on `number`, but only the latter lets the database use an
        # index.
        .where(
            _items_table.c.run_id == bindparam("run_id"),
            _items_table.c.number >= bindparam("place"),
            position > previous_position,
        )
        .order_by(_items_table.c.number, _items_table.c.repetition, _scores_table.c.number)
    )
    return _filtered(statement, query)


def _filtered(statement: Select[Any], query: ScoreQuery) -> Select[Any]:
    for name in ("run_item_id", "scorer_version_id", "passed", "status"):
        if (value := getattr(query, name)) is not None:
            statement = statement.where(_scores_table.c[name] == value)
    if query.scorer is not None:
        versions = select(_versions.c.id).where(_versions.c.scorer_id == query.scorer)
        statement = statement.where(
            or_(_scores_table.c.scorer == query.scorer, _scores_table.c.scorer_version_id.in_(versions))
        )
    if query.since is not None:
        statement = statement.where(_scores_table.c.created_at >= query.since)
    if query.until is not None:
        statement = statement.where(_scores_table.c.created_at < query.until)
    return statement if query.superseded else statement.where(_scores_table.c.current)


PAGE = 500
"""Maximum number of items or scores read at once."""
WHOLE_PAGE = 50
"""Maximum number of whole trials read at once. A whole trial can be large."""

_runs, _items, _scores = tables.experiment_runs, tables.run_items, tables.scores
_BY_NAME_OR_ID = (
    select(_runs)
    .where(or_(_runs.c.id == bindparam("name_or_id"), _runs.c.name == bindparam("name_or_id")))
    .order_by(_runs.c.number)
)
# LIKE would read % and _ in the prefix as wildcards, and ignore case on SQLite only.
_BY_PREFIX = select(_runs).where(func.substr(_runs.c.id, 1, bindparam("length")) == bindparam("prefix"))
_IDS = {
    kind: select(table.c.id).where(func.substr(table.c.id, 1, bindparam("length")) == bindparam("prefix")).limit(100)
    for kind, table in (("run", _runs), ("item", _items), ("score", _scores))
}
_ALL = select(_runs).order_by(_runs.c.number)
_OF_EXPERIMENT = matching(_runs, "experiment_id").order_by(_runs.c.number)
_RUN = matching(_runs, "id")
_CHANGE = update(_runs).where(_runs.c.id == bindparam("of_id"))
_GATE = select(_runs.c.gate_passed).where(_runs.c.id == bindparam("run_id"), _runs.c.gate_key == bindparam("key"))
_OF_RUN = _items.c.run_id == bindparam("run_id")
_DONE = select(_items.c.item_key, _items.c.repetition).where(_OF_RUN)
_TALLY = select(_items.c.verdict, func.count().label("n")).where(_OF_RUN).group_by(_items.c.verdict)
_SPENT = tuple(
    select(func.coalesce(func.sum(table.c.cost_usd), 0.0)).where(table.c.run_id == bindparam("run_id"))
    for table in (_items, _scores)
)
_NEXT = (
    select(_items)
    # The next condition implies this one, but only this one lets the database use an index.
    .where(_OF_RUN, _items.c.number >= bindparam("number"))
    .where(tuple_(_items.c.number, _items.c.repetition) > tuple_(bindparam("number"), bindparam("repetition")))
    .order_by(_items.c.number, _items.c.repetition)
)
_FINISHED = select(_items.c.created_at, _items.c.verdict).where(_OF_RUN).order_by(_items.c.created_at)
_NEWEST = select(_items).where(_OF_RUN).order_by(_items.c.created_at.desc(), _items.c.id).limit(bindparam("most"))
_ITEM = matching(_items, "id")
_SCORE = matching(_scores, "id")
_SUPERSEDED = update(_scores).where(_scores.c.id == bindparam("of_id"), _scores.c.current).values(current=False)
_NOT_ARCHIVED_ANY_MORE = delete(tables.collection_runs).where(
    tables.collection_runs.c.run_id == bindparam("of_id"),
    tables.collection_runs.c.collection_id.in_(
        select(tables.experiments.c.collection_id)
        .join(_runs, _runs.c.experiment_id == tables.experiments.c.id)
        .where(_runs.c.id == bindparam("of_id"))
    ),
)
_REMOVE = (
    _NOT_ARCHIVED_ANY_MORE,
    delete(_runs).where(_runs.c.id == bindparam("of_id")),
    # The scores follow the run, because a trigger only allows a score to be deleted after its run.
    *(delete(table).where(table.c.run_id == bindparam("of_id")) for table in (_scores, _items)),
)
_SET_VERDICT = update(_items).where(_items.c.id == bindparam("of_id")).values(verdict=bindparam("new"))


class ExperimentRunStore:
    """Runs of experiments with their items and scores. Every operation is short and atomic.

    Many processes may use the store at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run: ExperimentRun) -> ExperimentRun:
        """Store a run and return it.

        If another run has the same name, the new run's name gets a suffix, such as `ci-2`.
        """
        with self._database.writing() as connection:
            if run.name is not None:
                run = run.model_copy(update={"name": _free_name(connection, run.name)})
            connection.execute(insert(_runs), run.model_dump())
        return run

    def run(self, name_or_id: str) -> ExperimentRun | None:
        """Find a run by its id, by its name, or by the first characters of its id (at least 8).

        Raises `UsageError` if several runs have the name or the prefix.
        """
        with self._database.reading() as connection:
            runs = [_run(row) for row in all_rows(connection, _BY_NAME_OR_ID, name_or_id=name_or_id)]
            if exact := next((run for run in runs if run.id == name_or_id), None):
                return exact
            prefix_matches = [] if runs else [_run(row) for row in _runs_with_prefix(connection, name_or_id)]
        if len(runs) > 1:  # older stores can have several runs with one name
            ids = join_last([f"{run.id} ({run.created_at[:16].replace('T', ' ')})" for run in runs], MOST_NAMED)
            raise UsageError(f"several runs are called {name_or_id!r}, the newest last: {ids}.\nUse an id.")
        if len(prefix_matches) > 1:
            raise UsageError(
                f"several runs begin with {name_or_id!r}: {', '.join(run.id for run in prefix_matches)}.\n"
                "Use a longer prefix."
            )
        return next(iter((*runs, *prefix_matches)), None)

    def ids(self, kind: Literal["run", "item", "score"], prefix: str) -> tuple[str, ...]:
        """Return the ids of one kind of object that begin with `prefix`. At most 100 ids are returned."""
        with self._database.reading() as connection:
            return tuple(connection.scalars(_IDS[kind], {"length": len(prefix), "prefix": prefix}))

    def runs(self, experiment_id: str | None = None) -> tuple[ExperimentRun, ...]:
        """Return the runs of one experiment, or of all experiments, oldest first."""
        with self._database.reading() as connection:
            filters = {} if experiment_id is None else {"experiment_id": experiment_id}
            return tuple(map(_run, all_rows(connection, _OF_EXPERIMENT if filters else _ALL, **filters)))

    def claim(self, run_id: str) -> AbstractContextManager[bool]:
        """Try to claim a run for this process.

        Yields False if another process is working on the run. The claim is released when the process ends.
        """
        return self._database.claimed(f"experiment-{run_id}")

    def begin(self, run_id: str, worker: str, now: str, *, resumed: bool = False) -> ExperimentRun:
        """Mark a run as running by this worker.

        If `resumed` is true, a person resumed the run, and an earlier request to cancel the run is dropped. Otherwise
        the request is kept, because it might have arrived while the worker started.
        """
        state_values = {
            "state": "running",
            "worker": worker,
            "heartbeat_at": now,
            # A resumed run keeps the time of its first start.
            "started_at": func.coalesce(_runs.c.started_at, now),
            "revision": _runs.c.revision + 1,
        }
        reset_values = {"ended_at": None, "reason": None, "archived": False}
        cancel_values = {"cancelling": False} if resumed else {}
        return self._change(run_id, **state_values, **reset_values, **cancel_values)

    def beat(self, run_id: str, now: str) -> bool:
        """Record a heartbeat of a run. Returns True if someone asked to cancel the run.

        Raises `UnavailableError` if the store was removed or another process has taken over the run.
        """
        # Writing alone would not reveal that the store was removed, because SQLite goes on writing to a removed file.
        self._database.place.check()
        return self._change(run_id, heartbeat_at=now).cancelling

    def end(self, run_id: str, state: RunState, now: str, reason: str | None = None) -> ExperimentRun:
        return self._change(run_id, state=state, ended_at=now, reason=reason)

    def gate(self, run_id: str, key: str) -> bool | None:
        """Return the stored result of the run's gate.

        `key` identifies the current inputs of the gate. Returns None if no result is stored for these inputs.
        """
        with self._database.reading() as connection:
            passed: bool | None = connection.scalar(_GATE, {"run_id": run_id, "key": key})
        return passed

    def keep_gate(self, run_id: str, key: str, passed: bool) -> None:
        self._change(run_id, gate_key=key, gate_passed=passed)

    def ask_cancel(self, run_id: str) -> None:
        self._change(run_id, cancelling=True)

    def set_archived(self, run_id: str, archived: bool) -> None:
        self._change(run_id, archived=archived)

    def set_budget(self, run_id: str, budget_usd: float | None) -> None:
        """Set a new budget for an experiment run that is being resumed."""
        self._change(run_id, budget_usd=budget_usd)

    def put(self, attempt: ItemTrial, scores: Sequence[tuple[Score, ScoreEvidence]]) -> None:
        """Store one trial with its scores in one transaction. If the trial is already stored, change nothing."""
        rows = AttemptRows()
        row = rows.item_row(attempt)
        for score, evidence in scores:
            rows.score(score, evidence)
        with self._database.writing() as connection:
            # If the trial is already stored, so are its scores. Adding these scores would count them twice.
            if put_item(connection, row):
                rows.put(connection)

    def rescore(
        self, run_id: str, scores: Sequence[tuple[Score, ScoreEvidence]], verdicts: Mapping[str, ItemVerdict]
    ) -> None:
        """Add scores, mark the scores that they supersede, and set new verdicts by run item id, all in one transaction.

        Raises `UnavailableError` if another process superseded the same scores meanwhile, and `NotFoundError` if the
        run was deleted. In both cases, nothing is changed.
        """
        rows = AttemptRows()
        for score, evidence in scores:
            rows.score(score, evidence)
        with self._database.writing() as connection:
            for score, _ in scores:
                _supersede(connection, score)
            rows.put(connection)
            if verdicts:
                connection.execute(_SET_VERDICT, [{"of_id": item, "new": new} for item, new in verdicts.items()])
            # The archived run has the old scores, so it has to be archived again.
            changes = {"archived": False, "revision": _runs.c.revision + 1}
            if not connection.execute(_CHANGE.values(**changes), {"of_id": run_id}).rowcount:
                raise NotFoundError(f"run {run_id!r} was deleted meanwhile: nothing was changed")

    def done(self, run_id: str) -> frozenset[tuple[str, int]]:
        """Return the item key and the repetition of every stored trial."""
        with self._database.reading() as connection:
            return frozenset((row.item_key, row.repetition) for row in connection.execute(_DONE, {"run_id": run_id}))

    def tally(self, run_id: str) -> Mapping[ItemVerdict, int]:
        """Return the number of trials by verdict."""
        with self._database.reading() as connection:
            return Counter({row["verdict"]: row["n"] for row in all_rows(connection, _TALLY, run_id=run_id)})

    def spent(self, run_id: str) -> float:
        """Return the total cost of a run's trials and scores in USD, including superseded scores."""
        with self._database.reading() as connection:
            return sum(connection.scalar(statement, {"run_id": run_id}) or 0.0 for statement in _SPENT)

    def items(self, run_id: str, verdicts: Sequence[ItemVerdict] = ()) -> Iterator[RunItem]:
        """Yield a run's trials in the order of the items, then by repetition.

        If `verdicts` are given, yield only trials with one of these verdicts.
        """
        statement = _NEXT.where(_items.c.verdict.in_(verdicts)) if verdicts else _NEXT
        start = {"number": 0, "repetition": 0}
        return read_pages(
            self._database.reading, statement, PAGE, lambda _, rows: map(item_in, rows), start, run_id=run_id
        )

    def finished(self, run_id: str) -> tuple[tuple[str, ItemVerdict], ...]:
        """Return a pair for each trial: the time of the answer as ISO 8601 text, and the verdict.

        The trial that was answered first comes first.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_FINISHED, {"run_id": run_id})
            return tuple((row.created_at, row.verdict) for row in rows)

    def newest(self, run_id: str, most: int) -> tuple[RunItem, ...]:
        """Return at most `most` of the most recently answered trials, newest first."""
        with self._database.reading() as connection:
            return tuple(map(item_in, all_rows(connection, _NEWEST, run_id=run_id, most=most)))

    def attempt(self, run_item_id: str) -> ItemTrial | None:
        with self._database.reading() as connection:
            rows = all_rows(connection, _ITEM, id=run_item_id)
            return next(iter(attempts_in(connection, self._database, rows)), None)

    def attempts(self, run_id: str) -> Iterator[ItemTrial]:
        def decode(connection: Connection, rows: Sequence[RowMapping]) -> Iterable[ItemTrial]:
            return attempts_in(connection, self._database, rows)

        return read_pages(
            self._database.reading, _NEXT, WHOLE_PAGE, decode, {"number": 0, "repetition": 0}, run_id=run_id
        )

    def scores(self, query: ScoreQuery) -> Iterator[Score]:
        statement, start = select_scores(query), {"place": 0, "repetition": 0, "number": 0}
        for run_id in self._run_ids(query):
            yield from read_pages(
                self._database.reading, statement, PAGE, lambda _, rows: map(score_in, rows), start, run_id=run_id
            )

    def score(self, score_id: str) -> Score | None:
        with self._database.reading() as connection:
            row = first_row(connection, _SCORE, id=score_id)
            return None if row is None else score_in(row)

    def evidence(self, score_id: str) -> ScoreEvidence | None:
        with self._database.reading() as connection:
            row = first_row(connection, _SCORE, id=score_id)
            return None if row is None else evidence_in(connection, self._database, row)

    def scores_digest(self, run_id: str) -> str:
        """Return the content id of a run's current scores and verdicts."""
        digest = hashlib.sha256()
        for item in self.items(run_id):
            digest.update(canonical_json([item.item_key, item.repetition, item.verdict]).encode())
        for score in self.scores(ScoreQuery(run_id=run_id)):
            content = (
                score.id,
                score.scorer,
                score.scorer_version_id,
                score.status,
                score.value,
                score.passed,
                score.label,
            )
            digest.update(canonical_json(content).encode())
        return f"sha256:{digest.hexdigest()}"

    def contents(self, *run_ids: str) -> str:
        """Describe what `remove` would delete for the given runs, such as `2 runs, 20 trials that cost $0.12`."""
        trials = sum(sum(self.tally(run_id).values()) for run_id in run_ids)
        cost = sum(map(self.spent, run_ids))
        cost_text = f" that cost {dollars(cost)}" if cost else ""
        return f"{pluralise(len(run_ids), 'run')}, {pluralise(trials, 'trial')}{cost_text}"

    def remove(self, run_id: str) -> None:
        """Delete a run with its trials and scores, and remove the run from the experiment's collection.

        `RunStore.sweep` deletes the run's texts and the archived run later. Raises `UsageError` if the run has not
        ended.
        """
        with self._database.writing() as connection:
            row = first_row(connection, _RUN, id=run_id)
            if row is not None and not (run := _run(row)).terminal:
                raise UsageError(
                    f"run {run.name or run.id} is {run.state} and cannot be deleted.\n"
                    f"`evalscribe experiments runs cancel {run.id}` ends it."
                )
            for statement in _REMOVE:
                connection.execute(statement, {"of_id": run_id})

    def close(self) -> None:
        self._database.close()

    def _run_ids(self, query: ScoreQuery) -> tuple[str, ...]:
        """Return the ids of the runs that can have scores matching the query."""
        if query.run_item_id is not None and query.run_id is None:
            with self._database.reading() as connection:
                row = first_row(connection, _ITEM, id=query.run_item_id)
            return () if row is None else (row["run_id"],)
        return (query.run_id,) if query.run_id is not None else tuple(run.id for run in self.runs())

    def _change(self, run_id: str, **values: Any) -> ExperimentRun:
        with self._database.writing() as connection:
            connection.execute(_CHANGE.values(**values), {"of_id": run_id})
            row = first_row(connection, _RUN, id=run_id)
            if row is None:
                raise NotFoundError(f"run {run_id!r} not found")
            return _run(row)


LONGEST_SUFFIX = 10


def _free_name(connection: Connection, name: str) -> str:
    """Return a name that no run has: the given name, or the name with the first free suffix (`-2`, `-3` and so on)."""
    # Long names are cut to make room for the suffix, so names are compared by the part that is never cut.
    prefix = name[: NAME_LIMIT - LONGEST_SUFFIX]
    taken_names = set(connection.scalars(select(_runs.c.name).where(_runs.c.name.startswith(prefix, autoescape=True))))
    free, number = name, 1
    while free in taken_names:
        number += 1
        suffix = f"-{number}"
        free = f"{name[: NAME_LIMIT - len(suffix)]}{suffix}"
    return free


def _runs_with_prefix(connection: Connection, prefix: str) -> Sequence[RowMapping]:
    if len(prefix) < RUN_ID_PREFIX:
        return ()
    return all_rows(connection, _BY_PREFIX, length=len(prefix), prefix=prefix)


def _supersede(connection: Connection, score: Score) -> None:
    if score.supersedes is None:
        return
    if not connection.execute(_SUPERSEDED, {"of_id": score.supersedes}).rowcount:
        raise UnavailableError(
            f"score {score.supersedes} of item {score.item_key!r} was superseded meanwhile: nothing was changed.\n"
            "Score the run again."
        )


def _run(row: RowMapping) -> ExperimentRun:
    return ExperimentRun(**{name: row[name] for name in ExperimentRun.model_fields})


def open_datasets(place: Path | str) -> DatasetStore:
    """Open the datasets of a store. All functions from here on raise the same errors as `open_database`."""
    return DatasetStore(open_database(place))


def open_definitions(place: Path | str) -> ExperimentStore:
    return ExperimentStore(open_database(place))


def open_experiment_runs(place: Path | str) -> ExperimentRunStore:
    return ExperimentRunStore(open_database(place))

"""Attempts and scores as rows with their texts, and back."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, RowMapping, Select, bindparam, insert, select

from evalscribe.model.chat import Usage
from evalscribe.model.experiment import ItemTrial, RunItem
from evalscribe.model.score import Score, ScoreEvidence
from evalscribe.model.transcript import Transcript
from evalscribe.store.database import Database
from evalscribe.store.json_text import Written, written
from evalscribe.store.statements import execute_many, unless_there
from evalscribe.store.tables import experiments, runs
from evalscribe.store.texts import Texts, json_of

_texts = runs.texts
_PUT_ITEM, _PUT_SCORE = unless_there(experiments.run_items, unique=True), insert(experiments.scores)
_BODIES: Select[Any] = select(_texts.c.digest, _texts.c.body).where(
    _texts.c.digest.in_(bindparam("digests", expanding=True))
)
_ITEM_TEXTS = ("output", "transcript", "state", "log")
_SCORE_TEXTS = ("input", "output", "evidence")
_EMPTY = Written("{}")


class Kept:
    """Attempts and scores on their way into the store, made into rows before anything is locked."""

    def __init__(self) -> None:
        self._texts = Texts()
        self._scores: list[dict[str, Any]] = []
        self._input: tuple[JsonValue, str | None] = (None, None)

    def item_row(self, attempt: ItemTrial) -> dict[str, Any]:
        """Raises `DataError` naming the item for what cannot be stored."""
        item, of = attempt.item, f"of item {attempt.item.item_key!r}"
        row = {**vars(item)}
        row["usage"] = None if item.usage is None else Written(item.usage.model_dump_json())
        row["cost_usd"] = 0.0 if item.usage is None else item.usage.cost_usd
        row["output"] = self._json(attempt.output, f"the output {of}")
        row["transcript"] = attempt.transcript and self._transcript(attempt.transcript, of)
        row["state"] = self._json(attempt.state or None, f"the state {of}")
        row["log"] = self._texts.add(attempt.log) if attempt.log else None
        return row

    def score(self, score: Score, evidence: ScoreEvidence) -> None:
        """Raises `DataError` naming scorer and item for what cannot be stored."""
        of = f"of scorer {score.scorer!r} for item {score.item_key!r}"
        row = {**vars(score)}
        if evidence.scorer_input is not self._input[0]:  # Scorers of one try share it, and it is most of their text.
            self._input = evidence.scorer_input, self._json(evidence.scorer_input, f"the input {of}")
        row["input"] = self._input[1]
        row["output"] = self._json(evidence.scorer_output, f"the output {of}")
        row["evidence"] = self._json(evidence.evidence, f"the evidence {of}")
        held = evidence.metadata
        row["metadata_json"] = written(json_of(held, f"the metadata {of}")) if held else _EMPTY
        self._scores.append(row)

    def put(self, connection: Connection) -> None:
        self._texts.put(connection)
        execute_many(connection, _PUT_SCORE, self._scores)

    def _json(self, value: JsonValue, what: str) -> str | None:
        return None if value is None else self._texts.add(json_of(value, what))

    def _transcript(self, transcript: Transcript, of: str) -> str:
        return self._texts.add(json_of(transcript.model_dump(mode="json"), f"the transcript {of}"))


def put_item(connection: Connection, row: dict[str, Any]) -> bool:
    """Whether it was not there yet."""
    return execute_many(connection, _PUT_ITEM, [row]) > 0


def item_in(row: RowMapping) -> RunItem:
    named = {name: row[name] for name in RunItem.model_fields if name != "usage"}
    return RunItem(**named, usage=None if row["usage"] is None else Usage(**row["usage"]))


def score_in(row: RowMapping) -> Score:
    return Score(**{name: row[name] for name in Score.model_fields})


def attempts_in(connection: Connection, database: Database, rows: Sequence[RowMapping]) -> list[ItemTrial]:
    """Raises `DataError` for a damaged one."""
    told = _bodies(connection, database, (row[name] for row in rows for name in _ITEM_TEXTS))
    return [_attempt(database, row, told) for row in rows]


def evidence_in(connection: Connection, database: Database, row: RowMapping) -> ScoreEvidence:
    """Raises `DataError` for a damaged one."""
    told = _bodies(connection, database, (row[name] for name in _SCORE_TEXTS))
    given, output, evidence = (_value(database, told, row[name]) for name in _SCORE_TEXTS)
    return ScoreEvidence.model_construct(
        scorer_input=given,
        scorer_output=output,
        evidence=evidence,
        metadata=row["metadata_json"],
    )


def _bodies(connection: Connection, database: Database, digests: Iterable[str | None]) -> dict[str, bytes]:
    wanted = sorted({digest for digest in digests if digest})
    rows = connection.execute(_BODIES, {"digests": wanted}).all() if wanted else []
    return {row.digest: database.unzip(row.body) for row in rows}


def _attempt(database: Database, row: RowMapping, told: dict[str, bytes]) -> ItemTrial:
    transcript = _value(database, told, row["transcript"])
    return ItemTrial.model_construct(
        item=item_in(row),
        output=_value(database, told, row["output"]),
        transcript=None if transcript is None else Transcript.model_validate(transcript),
        state=_value(database, told, row["state"]) or {},
        log=told[row["log"]].decode() if row["log"] in told else "",
    )


def _value(database: Database, told: dict[str, bytes], digest: str | None) -> Any:
    if digest is None:
        return None
    try:
        return json.loads(told[digest])
    except (KeyError, ValueError, RecursionError) as error:
        raise database.place.damaged(f"the text {digest} cannot be read") from error

"""What has a name and numbered versions that never change."""

from typing import Any

from pydantic import BaseModel
from sqlalchemy import Connection, RowMapping, Table, insert, select

from evalscribe.store.database import pack
from evalscribe.store.experiments.named import by_id_or_name, first
from evalscribe.store.statements import matching
from evalscribe.store.tables import experiments


class Numbered:
    """The table of those that have a name, and the one of their versions."""

    def __init__(self, heads: Table, versions: Table, owner: str) -> None:
        """`owner`: the column of `versions` that holds the id of its head."""
        self._heads, self._versions, self._owner = heads, versions, owner
        self._named = matching(heads, "name")
        self.find = by_id_or_name(heads)
        self.all = select(heads).order_by(heads.c.number)
        self.versions = matching(versions, owner).order_by(versions.c.number)
        self.latest = matching(versions, owner).order_by(versions.c.number.desc()).limit(1)

    def head(self, connection: Connection, head: dict[str, Any]) -> RowMapping:
        """The row of this name, made as `head` says where there is none."""
        row = first(connection, self._named, name=head["name"])
        if row is None:
            connection.execute(insert(self._heads), head)
            row = connection.execute(self._named, {"name": head["name"]}).mappings().one()
        return row

    def put(self, connection: Connection, head_id: str, number: int, version_id: str, version: BaseModel) -> None:
        row = {self._owner: head_id, "number": number, "id": version_id, "body": pack(version)}
        connection.execute(insert(self._versions), row)

    def newest(self, connection: Connection, head_id: str) -> RowMapping | None:
        return first(connection, self.latest, **{self._owner: head_id})


PROMPTS = Numbered(experiments.target_prompts, experiments.prompt_versions, "prompt_id")
SCORERS = Numbered(experiments.scorers, experiments.scorer_versions, "scorer_id")

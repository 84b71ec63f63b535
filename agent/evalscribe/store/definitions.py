"""Store deployments, prompts, scorers and experiments, whose versions never change."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter
from sqlalchemy import Connection, RowMapping, Select, Table, bindparam, case, func, insert, or_, select, update

from evalscribe.errors import UsageError
from evalscribe.model.experiment import Experiment, ExperimentVersion
from evalscribe.model.score import Scorer
from evalscribe.model.target import Deployment, TargetPrompt, TargetPromptVersion
from evalscribe.store import tables
from evalscribe.store.database import Database, pack
from evalscribe.store.statements import by_key, matching, unless_there


def first_row(connection: Connection, statement: Select[Any], **values: object) -> RowMapping | None:
    return connection.execute(statement, values).mappings().first()


def all_rows(connection: Connection, statement: Select[Any], **values: object) -> Sequence[RowMapping]:
    return connection.execute(statement, values).mappings().all()


def by_id_or_name(table: Table) -> Select[Any]:
    """Select by id or name. An id takes precedence over a name; among equal names the newest comes first."""
    named = or_(table.c.id == bindparam("named"), table.c.name == bindparam("named"))
    order = case((table.c.id == bindparam("named"), 0), else_=1)
    return select(table).where(named).order_by(order, table.c.number.desc()).limit(1)


def next_number(connection: Connection, table: Table, owner: str, of: str) -> int:
    """Return the next version number of an owner, from 1."""
    last = connection.scalar(select(func.max(table.c.number)).where(table.c[owner] == of))
    return 1 if last is None else last + 1


def require_free(connection: Connection, statement: Select[Any], what: str, name: str) -> None:
    """Raise `UsageError` if `by_id_or_name` finds an object of this name."""
    row = first_row(connection, statement, named=name)
    if row is not None:
        raise UsageError(f"the name {name!r} is already used by {what} {row['id']}.\nChoose another one with --name.")


def in_parts(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield distinct keys in lists of at most `size`."""
    left = iter(dict.fromkeys(keys))
    while some := list(islice(left, size)):
        yield some


class VersionedTables:
    """A table of named objects, and the table of their versions."""

    def __init__(self, heads: Table, versions: Table, owner: str) -> None:
        """Pair the tables. `owner`: the column of `versions` with the id of the object."""
        self._heads, self._versions, self._owner = heads, versions, owner
        self._named = matching(heads, "name")
        self.find = by_id_or_name(heads)
        self.all = select(heads).order_by(heads.c.number)
        self.versions = matching(versions, owner).order_by(versions.c.number)
        self.latest = matching(versions, owner).order_by(versions.c.number.desc()).limit(1)

    def head(self, connection: Connection, head: dict[str, Any]) -> RowMapping:
        """Return the row of this name, created from `head` if missing."""
        row = first_row(connection, self._named, name=head["name"])
        if row is None:
            connection.execute(insert(self._heads), head)
            row = connection.execute(self._named, {"name": head["name"]}).mappings().one()
        return row

    def put(self, connection: Connection, head_id: str, number: int, version_id: str, version: BaseModel) -> None:
        row = {self._owner: head_id, "number": number, "id": version_id, "body": pack(version)}
        connection.execute(insert(self._versions), row)

    def newest(self, connection: Connection, head_id: str) -> RowMapping | None:
        return first_row(connection, self.latest, **{self._owner: head_id})


PROMPTS = VersionedTables(tables.target_prompts, tables.prompt_versions, "prompt_id")
SCORERS = VersionedTables(tables.scorers, tables.scorer_versions, "scorer_id")


T = TypeVar("T")

_DEPLOYMENT, _PROMPT_VERSION = TypeAdapter(Deployment), TypeAdapter(TargetPromptVersion)
_SCORER, _VERSION = TypeAdapter(Scorer), TypeAdapter(ExperimentVersion)

_deployments, _experiments, _versions = (
    tables.deployments,
    tables.experiments,
    tables.experiment_versions,
)
_ADD_DEPLOYMENT = unless_there(_deployments, unique=True)
_FIND_DEPLOYMENT, _FIND_EXPERIMENT = by_id_or_name(_deployments), by_id_or_name(_experiments)
_DEPLOYMENTS = select(_deployments).order_by(_deployments.c.number)
_EXPERIMENTS = select(_experiments).order_by(_experiments.c.number)
_EXPERIMENT_VERSION = by_key(_versions)
_EXPERIMENT_VERSIONS = matching(_versions, "experiment_id").order_by(_versions.c.number)
_CHANGE = update(_experiments).where(_experiments.c.id == bindparam("of_id"))


class SqlDefinitions:
    """An `evalscribe.model.experiment_storage.Definitions`; usable by many processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_deployment(self, deployment: Deployment) -> None:
        """Store a deployment; an existing one is left unchanged."""
        row = {"id": deployment.id, "name": deployment.name, "body": pack(deployment)}
        self._database.execute(_ADD_DEPLOYMENT, row)

    def deployment(self, named: str) -> Deployment | None:
        with self._database.reading() as connection:
            row = first_row(connection, _FIND_DEPLOYMENT, named=named)
            return None if row is None else self._read(row, _DEPLOYMENT)

    def deployments(self) -> tuple[Deployment, ...]:
        with self._database.reading() as connection:
            return tuple(self._read(row, _DEPLOYMENT) for row in all_rows(connection, _DEPLOYMENTS))

    def put_prompt(self, name: str, version: TargetPromptVersion) -> TargetPrompt:
        with self._database.writing() as connection:
            made = {"id": version.prompt_id, "name": name, "created_at": version.created_at}
            head = PROMPTS.head(connection, made)
            newest = PROMPTS.newest(connection, head["id"])
            if newest is None or newest["id"] != version.id:
                number = 1 if newest is None else newest["number"] + 1
                stored = version.model_copy(update={"prompt_id": head["id"], "number": number})
                PROMPTS.put(connection, head["id"], number, stored.id, stored)
            return self._prompt(connection, head)

    def prompt(self, named: str) -> TargetPrompt | None:
        with self._database.reading() as connection:
            head = first_row(connection, PROMPTS.find, named=named)
            return None if head is None else self._prompt(connection, head)

    def prompts(self) -> tuple[TargetPrompt, ...]:
        with self._database.reading() as connection:
            return tuple(self._prompt(connection, head) for head in all_rows(connection, PROMPTS.all))

    def put_scorer(self, scorer: Scorer) -> Scorer:
        with self._database.writing() as connection:
            made = {"id": scorer.id, "name": scorer.name, "created_at": scorer.created_at}
            head = SCORERS.head(connection, made)
            newest = SCORERS.newest(connection, head["id"])
            there = None if newest is None else self._read(newest, _SCORER)
            if there is not None and _same(there, scorer):
                return there
            number = 1 if there is None else there.number + 1
            stored = scorer.model_copy(update={"id": head["id"], "number": number})
            SCORERS.put(connection, stored.id, number, stored.spec.id, stored)
        return stored

    def scorer(self, named: str) -> Scorer | None:
        with self._database.reading() as connection:
            head = first_row(connection, SCORERS.find, named=named)
            return None if head is None else self._scorer(connection, head)

    def scorers(self) -> tuple[Scorer, ...]:
        with self._database.reading() as connection:
            return tuple(self._scorer(connection, head) for head in all_rows(connection, SCORERS.all))

    def add_experiment(self, experiment: Experiment, version: ExperimentVersion) -> None:
        with self._database.writing() as connection:
            require_free(connection, _FIND_EXPERIMENT, "experiment", experiment.name)
            connection.execute(insert(_experiments), experiment.model_dump())
            _insert_version(connection, version)

    def put_version(self, version: ExperimentVersion, *, latest: bool = True) -> ExperimentVersion:
        with self._database.writing() as connection:
            row = first_row(connection, _EXPERIMENT_VERSION, id=version.id)
            if row is not None:
                stored = self._version(row)
            else:
                number = next_number(connection, _versions, "experiment_id", version.experiment_id)
                stored = version.model_copy(update={"number": number})
                _insert_version(connection, stored)
            if latest:
                connection.execute(_CHANGE.values(latest_version_id=stored.id), {"of_id": stored.experiment_id})
        return stored

    def set_status(self, experiment_id: str, status: Literal["active", "archived"]) -> None:
        self._database.execute(_CHANGE.values(status=status), {"of_id": experiment_id})

    def experiment(self, named: str) -> Experiment | None:
        with self._database.reading() as connection:
            row = first_row(connection, _FIND_EXPERIMENT, named=named)
            return None if row is None else _experiment(row)

    def experiments(self) -> tuple[Experiment, ...]:
        with self._database.reading() as connection:
            return tuple(map(_experiment, all_rows(connection, _EXPERIMENTS)))

    def experiment_version(self, version_id: str) -> ExperimentVersion | None:
        with self._database.readable():
            row = self._database.row(_versions, id=version_id)
            return None if row is None else self._version(row)

    def experiment_versions(self, experiment_id: str) -> tuple[ExperimentVersion, ...]:
        with self._database.reading() as connection:
            return tuple(map(self._version, all_rows(connection, _EXPERIMENT_VERSIONS, experiment_id=experiment_id)))

    def close(self) -> None:
        self._database.close()

    def _prompt(self, connection: Connection, head: RowMapping) -> TargetPrompt:
        found = all_rows(connection, PROMPTS.versions, prompt_id=head["id"])
        versions = tuple(self._read(row, _PROMPT_VERSION) for row in found)
        return TargetPrompt(id=head["id"], name=head["name"], created_at=head["created_at"], versions=versions)

    def _scorer(self, connection: Connection, head: RowMapping) -> Scorer:
        newest = connection.execute(SCORERS.latest, {"scorer_id": head["id"]}).mappings().one()
        return self._read(newest, _SCORER)

    def _version(self, row: RowMapping) -> ExperimentVersion:
        return self._read(row, _VERSION)

    def _read(self, row: RowMapping, shape: TypeAdapter[T]) -> T:
        return self._database.unpacked(row["body"], shape, str(row["id"]))


def _insert_version(connection: Connection, version: ExperimentVersion) -> None:
    named = ("id", "experiment_id", "number", "dataset_id", "dataset_version_id")
    row = {name: getattr(version, name) for name in named}
    connection.execute(insert(_versions), {**row, "body": pack(version)})


def _same(there: Scorer, given: Scorer) -> bool:
    """Compare two scorers. The import folder may change while the source does not."""
    return (there.spec.id, there.folder, there.description) == (given.spec.id, given.folder, given.description)


def _experiment(row: RowMapping) -> Experiment:
    return Experiment(**{name: row[name] for name in Experiment.model_fields})

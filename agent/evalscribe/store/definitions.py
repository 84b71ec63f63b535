"""Store deployments, prompts, scorers and experiments. Stored versions of these objects never change."""

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter
from sqlalchemy import Connection, RowMapping, Table, bindparam, delete, exists, func, insert, select, update

from evalscribe.errors import UsageError
from evalscribe.model.experiment import Experiment, ExperimentVersion
from evalscribe.model.score import Scorer
from evalscribe.model.target import Deployment, TargetPrompt, TargetPromptVersion
from evalscribe.store import tables
from evalscribe.store.database import Database, pack
from evalscribe.store.statements import (
    all_rows,
    by_id_or_name,
    by_key,
    first_row,
    insert_unless_exists,
    matching,
    next_number,
    require_free,
)
from evalscribe.text import pluralise


class VersionedTables:
    """A table of named objects and the table of the objects' versions."""

    def __init__(self, heads: Table, versions: Table, owner: str) -> None:
        """Combine the two tables. `owner` is the column of `versions` that contains the object's id."""
        self._heads, self._versions, self._owner = heads, versions, owner
        self._named = matching(heads, "name")
        self.find = by_id_or_name(heads)
        self.all = select(heads).order_by(heads.c.number)
        self.versions = matching(versions, owner).order_by(versions.c.number)
        self.latest = matching(versions, owner).order_by(versions.c.number.desc()).limit(1)

    def head(self, connection: Connection, head: dict[str, Any]) -> RowMapping:
        """Return the row of the object named `head["name"]`. If no such object exists, insert `head` first."""
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
_ADD_DEPLOYMENT = insert_unless_exists(_deployments, unique=True)
_FIND_DEPLOYMENT, _FIND_EXPERIMENT = by_id_or_name(_deployments), by_id_or_name(_experiments)
_DEPLOYMENTS = select(_deployments).order_by(_deployments.c.number)
_EXPERIMENTS = select(_experiments).order_by(_experiments.c.number)
_EXPERIMENT_VERSION = by_key(_versions)
_EXPERIMENT_VERSIONS = matching(_versions, "experiment_id").order_by(_versions.c.number)
_ALL_VERSIONS = select(_versions).order_by(_versions.c.experiment_id, _versions.c.number)
_RUNS_OF = (
    select(func.count())
    .select_from(tables.experiment_runs)
    .where(tables.experiment_runs.c.experiment_id == bindparam("of_id"))
)
_COLLECTION = tables.collections
_REMOVE = (
    delete(_experiments).where(_experiments.c.id == bindparam("of_id")),
    # The versions follow the experiment, because the triggers only allow a row to be deleted after the row that it
    # belongs to.
    delete(_versions).where(_versions.c.experiment_id == bindparam("of_id")),
    delete(_COLLECTION).where(
        _COLLECTION.c.id == bindparam("of_id"),
        *(
            ~exists().where(table.c.collection_id == _COLLECTION.c.id)
            for table in (tables.collection_runs, tables.rubric_versions, tables.label_sets, tables.result_sets)
        ),
    ),
)
_CHANGE = update(_experiments).where(_experiments.c.id == bindparam("of_id"))


class ExperimentStore:
    """Deployments, prompts, scorers and experiments.

    Stored versions never change. Many processes may use the store at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_deployment(self, deployment: Deployment) -> None:
        """Store a deployment. If it is already stored, change nothing."""
        row = {"id": deployment.id, "name": deployment.name, "body": pack(deployment)}
        self._database.execute(_ADD_DEPLOYMENT, row)

    def deployment(self, name_or_id: str) -> Deployment | None:
        """Find a deployment by id, or the newest deployment with this name."""
        with self._database.reading() as connection:
            row = first_row(connection, _FIND_DEPLOYMENT, name_or_id=name_or_id)
            return None if row is None else self._read(row, _DEPLOYMENT)

    def deployments(self) -> tuple[Deployment, ...]:
        """Return all deployments, oldest first."""
        with self._database.reading() as connection:
            return tuple(self._read(row, _DEPLOYMENT) for row in all_rows(connection, _DEPLOYMENTS))

    def put_prompt(self, name: str, version: TargetPromptVersion) -> TargetPrompt:
        """Store a version of a prompt under the next number, unless the latest version has the same id.

        If the prompt does not exist, create it with the id `version.prompt_id`.
        """
        with self._database.writing() as connection:
            new_head = {"id": version.prompt_id, "name": name, "created_at": version.created_at}
            head = PROMPTS.head(connection, new_head)
            newest = PROMPTS.newest(connection, head["id"])
            if newest is None or newest["id"] != version.id:
                number = 1 if newest is None else newest["number"] + 1
                stored = version.model_copy(update={"prompt_id": head["id"], "number": number})
                PROMPTS.put(connection, head["id"], number, stored.id, stored)
            return self._prompt(connection, head)

    def prompt(self, name_or_id: str) -> TargetPrompt | None:
        """Find a prompt by id or name, with all its versions."""
        with self._database.reading() as connection:
            head = first_row(connection, PROMPTS.find, name_or_id=name_or_id)
            return None if head is None else self._prompt(connection, head)

    def prompts(self) -> tuple[TargetPrompt, ...]:
        with self._database.reading() as connection:
            return tuple(self._prompt(connection, head) for head in all_rows(connection, PROMPTS.all))

    def put_scorer(self, scorer: Scorer) -> Scorer:
        """Create a scorer, or the next version of the scorer with this name.

        If the scorer equals the latest version, no version is added. Returns the scorer as stored.
        """
        with self._database.writing() as connection:
            new_head = {"id": scorer.id, "name": scorer.name, "created_at": scorer.created_at}
            head = SCORERS.head(connection, new_head)
            newest = SCORERS.newest(connection, head["id"])
            previous = None if newest is None else self._read(newest, _SCORER)
            if previous is not None and _same(previous, scorer):
                return previous
            number = 1 if previous is None else previous.number + 1
            stored = scorer.model_copy(update={"id": head["id"], "number": number})
            SCORERS.put(connection, stored.id, number, stored.spec.id, stored)
        return stored

    def scorer(self, name_or_id: str) -> Scorer | None:
        with self._database.reading() as connection:
            head = first_row(connection, SCORERS.find, name_or_id=name_or_id)
            return None if head is None else self._scorer(connection, head)

    def scorers(self) -> tuple[Scorer, ...]:
        with self._database.reading() as connection:
            return tuple(self._scorer(connection, head) for head in all_rows(connection, SCORERS.all))

    def add_experiment(self, experiment: Experiment, version: ExperimentVersion) -> None:
        """Add an experiment with its first version. Raises `UsageError` if another experiment has the same name."""
        with self._database.writing() as connection:
            require_free(connection, _FIND_EXPERIMENT, "experiment", experiment.name)
            connection.execute(insert(_experiments), experiment.model_dump())
            _insert_version(connection, version)

    def put_version(self, version: ExperimentVersion, *, latest: bool = True) -> ExperimentVersion:
        """Store an experiment version under the next number, unless it is already stored.

        If `latest` is true, make it the experiment's latest version.
        """
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

    def experiment(self, name_or_id: str) -> Experiment | None:
        with self._database.reading() as connection:
            row = first_row(connection, _FIND_EXPERIMENT, name_or_id=name_or_id)
            return None if row is None else _experiment(row)

    def experiments(self) -> tuple[Experiment, ...]:
        """Return all experiments, oldest first."""
        with self._database.reading() as connection:
            return tuple(map(_experiment, all_rows(connection, _EXPERIMENTS)))

    def experiment_version(self, version_id: str) -> ExperimentVersion | None:
        with self._database.readable():
            row = self._database.row(_versions, id=version_id)
            return None if row is None else self._version(row)

    def experiment_versions(self, experiment_id: str) -> tuple[ExperimentVersion, ...]:
        with self._database.reading() as connection:
            return tuple(map(self._version, all_rows(connection, _EXPERIMENT_VERSIONS, experiment_id=experiment_id)))

    def judged_by(self, rubric_id: str) -> tuple[str, ...]:
        """Return the names of the experiments whose judge uses a version of this rubric."""
        by_id = {experiment.id: experiment.name for experiment in self.experiments()}
        with self._database.reading() as connection:
            versions = tuple(map(self._version, all_rows(connection, _ALL_VERSIONS)))
        experiment_names = [by_id.get(version.experiment_id) for version in versions if rubric_id in _rubrics(version)]
        return tuple(dict.fromkeys(name for name in experiment_names if name))

    def remove_experiment(self, experiment_id: str) -> None:
        """Delete an experiment with its versions.

        Also delete the experiment's own collection if it is empty. Raises `UsageError` if the experiment still has
        runs.
        """
        values = {"of_id": experiment_id}
        with self._database.writing() as connection:
            if runs := connection.scalar(_RUNS_OF, values):
                raise UsageError(f"experiment {experiment_id} still has {pluralise(runs, 'run')}: delete them first")
            for statement in _REMOVE:
                connection.execute(statement, values)

    def close(self) -> None:
        self._database.close()

    def _prompt(self, connection: Connection, head: RowMapping) -> TargetPrompt:
        rows = all_rows(connection, PROMPTS.versions, prompt_id=head["id"])
        versions = tuple(self._read(row, _PROMPT_VERSION) for row in rows)
        return TargetPrompt(id=head["id"], name=head["name"], created_at=head["created_at"], versions=versions)

    def _scorer(self, connection: Connection, head: RowMapping) -> Scorer:
        newest = connection.execute(SCORERS.latest, {"scorer_id": head["id"]}).mappings().one()
        return self._read(newest, _SCORER)

    def _version(self, row: RowMapping) -> ExperimentVersion:
        return self._read(row, _VERSION)

    def _read(self, row: RowMapping, shape: TypeAdapter[T]) -> T:
        return self._database.unpacked(row["body"], shape, str(row["id"]))


def _insert_version(connection: Connection, version: ExperimentVersion) -> None:
    names = ("id", "experiment_id", "number", "dataset_id", "dataset_version_id")
    row = {name: getattr(version, name) for name in names}
    connection.execute(insert(_versions), {**row, "body": pack(version)})


def _rubrics(version: ExperimentVersion) -> set[str]:
    """Return the ids of the rubrics that the judge of an experiment version uses."""
    target = version.target
    if target.type != "judge":
        return set()
    tags = target.cascade.tags if target.cascade else ()
    return {name.rpartition("@")[0] for name in (target.rubric, *(tag.rubric for tag in tags))}


def _same(first: Scorer, second: Scorer) -> bool:
    # The folder from which a scorer imports can change while its source stays the same.
    return (first.spec.id, first.folder, first.description) == (second.spec.id, second.folder, second.description)


def _experiment(row: RowMapping) -> Experiment:
    return Experiment(**{name: row[name] for name in Experiment.model_fields})

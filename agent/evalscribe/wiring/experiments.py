"""Where datasets, definitions and runs of experiments are kept."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.ports import Datasets, Definitions, ExperimentRuns
from evalscribe.prompts import Prompts
from evalscribe.settings import Settings
from evalscribe.wiring.stores import archive, shelf

if TYPE_CHECKING:
    from evalscribe.app.experiments.asked import Bind
    from evalscribe.app.experiments.target import FindRubric


def datasets(found: Settings) -> Datasets:
    """In the same database as the store, as all of these. Raises as `shelf` does."""
    from evalscribe.store.experiments import open_datasets

    return open_datasets(found.store_place)


def definitions(found: Settings) -> Definitions:
    from evalscribe.store.experiments import open_definitions

    return open_definitions(found.store_place)


def experiment_runs(found: Settings) -> ExperimentRuns:
    from evalscribe.store.experiments import open_experiment_runs

    return open_experiment_runs(found.store_place)


@contextmanager
def open_desk(found: Settings) -> Iterator[ExperimentDesk]:
    """All that use cases of experiments work with, closed at the end."""
    with ExitStack() as stack:
        yield ExperimentDesk(
            datasets=stack.enter_context(closing(datasets(found))),
            definitions=stack.enter_context(closing(definitions(found))),
            runs=stack.enter_context(closing(experiment_runs(found))),
            shelf=stack.enter_context(closing(shelf(found))),
            archive=stack.enter_context(closing(archive(found))),
            now=now,
        )


def binder(found: Settings, desk: ExperimentDesk) -> "Bind":
    """How scorers are bound here: with the workspace's rubrics and prompts."""
    from evalscribe.app.scorers import bound, rulebook

    rules = rulebook(desk.shelf, Prompts(found.root))
    return lambda builtin, scorer_ids: bound(desk.definitions, builtin, scorer_ids, rules)


def rubrics(found: Settings, desk: ExperimentDesk) -> "FindRubric":
    """How rubrics are found here: stored versions, else the workspace's files and the shipped ones."""
    from evalscribe.app.rubrics import stored

    return lambda name: stored(desk.shelf, Prompts(found.root), name)


def now() -> str:
    """ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

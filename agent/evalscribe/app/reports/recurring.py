"""What recurs: evals that one model fails again and again, and evals that several models fail in the same way."""

from collections.abc import Sequence, Set
from pathlib import PurePosixPath

from evalscribe.app.sightings import StoredSightings, sightings, stored_runs
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.evidence.same_failure import CompactFailure, CompleteRun, compact_failure, complete_runs
from evalscribe.ids import model_key, same_experiment
from evalscribe.model.protocols import Library
from evalscribe.model.storage import Store
from evalscribe.reports.recurring import RecurringEvals, SharedFailures, find_shared_failures, recurring_in_reports

Key = tuple[str, ...]
"""A model in any spelling."""


def recurring_evals(library: Library, models: Sequence[str] = (), store: Store | None = None) -> RecurringEvals:
    """Each failing eval over all reports; of the named models (`provider/model`, in any spelling) where any is.

    With a store, what it knows of their runs tells better whether an action held. Raises `NotFoundError` where a
    model has no report.
    """
    folders = []
    for provider, name in map(_named, models):
        files = library.of_model(provider, name)
        if not files:
            raise NotFoundError(f"there is no report of {provider}/{name}; see `evalscribe reports list`")
        folders += [str(PurePosixPath(file.name).parent) for file in files]
    everything = sorted(library.all(), key=lambda file: file.name)
    return recurring_in_reports(everything, folders, StoredSightings(store))


def alike_evals(library: Library, store: Store, models: Sequence[str] = (), least: int = 2) -> SharedFailures:
    """Evals that at least so many models fail in the same way, over the stored runs of all or of the named models.

    Raises `NotFoundError` for a named model that has neither a stored run nor a report.
    """
    wanted = {model_key(*_named(model)): model for model in models}
    gathered = _Gathered(store, frozenset(wanted))
    for key, model in wanted.items():
        if key not in gathered.known and not library.of_model(*_named(model)):
            raise NotFoundError(f"there is no stored run and no report of {model}; see `evalscribe reports list`")
    files = sorted(library.all(), key=lambda file: file.name)
    told = find_shared_failures(
        gathered.experiments, files, store.labels(), least=least, seen_in=StoredSightings(store)
    )
    return told.model_copy(update={"notes": (*told.notes, *_uncounted(library, models, gathered.known))})


class _Gathered:
    """Failures, and runs without any, by experiment; runs are read one by one and not kept."""

    def __init__(self, store: Store, wanted: frozenset[Key]) -> None:
        self.known: set[Key] = set()
        """Every model that has a stored run."""
        self._found: list[tuple[str, list[CompactFailure], list[CompleteRun]]] = []
        for run in stored_runs(store):
            key = model_key(run.provider, run.model)
            self.known.add(key)
            if run.experiment and (not wanted or key in wanted):
                _, failures, clean = self._experiment(run.experiment)
                failures.extend(map(compact_failure, sightings(store, run)))
                clean.extend(complete_runs(run))

    def _experiment(self, name: str) -> tuple[str, list[CompactFailure], list[CompleteRun]]:
        same = next((one for one in self._found if same_experiment(one[0], name)), None)
        if same is None:
            self._found.append(same := (name, [], []))
        return same

    @property
    def experiments(self) -> list[tuple[list[CompactFailure], list[CompleteRun]]]:
        return [(failures, clean) for _, failures, clean in self._found]


def _named(model: str) -> tuple[str, str]:
    provider, _, name = model.partition("/")
    if not name:
        raise UsageError(f"{model!r} names no model: give provider/model")
    return provider, name


def _uncounted(library: Library, models: Sequence[str], known: Set[Key]) -> list[str]:
    """A note on each model of which there are reports and not one stored run."""
    files = [file for model in models for file in library.of_model(*_named(model))] if models else library.all()
    folders = {str(PurePosixPath(file.name).parent) for file in files}
    missing = sorted(folder for folder in folders if "/" in folder and model_key(*_named(folder)) not in known)
    return [
        f"{folder} is not counted: no run of it is in the store; `evalscribe analyze RUN` puts one there"
        for folder in missing
    ]

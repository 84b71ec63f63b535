"""Build two runs of an experiment from the outcomes of their trials."""

from collections.abc import Mapping, Sequence

from evalscribe.experiments.compare import ComparedRun, build_compared_run
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import (
    ComponentTarget,
    ExperimentConfig,
    ExperimentRun,
    ExperimentVersion,
    ItemVerdict,
    RunItem,
    RunState,
)
from evalscribe.model.score import Binding, Score, ScorerSpec
from evalscribe.model.target import Component

NOW = "2026-11-21T12:00:00Z"
LETTERS: dict[str, ItemVerdict] = {"p": "passed", "f": "failed", "e": "error", "u": "unscored"}
Values = Mapping[str, Sequence[float | None]]
"""Values of a score for one item, one per trial; None if the scorer broke. Keyed by item."""


def binding(name: str = "contains", *, version: int = 1, required: bool = True) -> Binding:
    return Binding(spec=ScorerSpec(name=name, scorer=name, config={"version": version}), required=required)


def make_values(
    tries: Mapping[str, str],
    *,
    of: str = "base",
    repetitions: int = 1,
    dataset: str = "dsv-1",
    items: Mapping[str, object] | None = None,
    bindings: Sequence[Binding] = (binding(),),
    clusters: Mapping[str, str] | None = None,
    values: Mapping[str, Values] | None = None,
    deployment: str = "dep-1",
    state: RunState = "completed",
    experiment_version: str = "exv-1",
) -> ComparedRun:
    """Build a run and its scores.

    `tries` has one letter (`p`, `f`, `e` or `u`) for each trial of an item. `values` has the scores of each scorer; by
    default, they are 1 for passed and 0 for failed trials.
    """
    contents = items if items is not None else dict.fromkeys(tries, "asked")
    run = ExperimentRun(
        id=f"{of:0<20}",
        experiment_id="exp-1",
        experiment_version_id=experiment_version,
        dataset_version_id=dataset,
        deployment_id=deployment,
        name=of,
        state=state,
        repetitions=repetitions,
        items=len(contents),
        created_at=NOW,
    )
    made = [
        _item(run, number, key, n, letter) for number, key in enumerate(tries) for n, letter in enumerate(tries[key])
    ]
    return build_compared_run(
        run,
        version(run, bindings),
        "support",
        "1a2b3c4d",
        items=[Item(key=key, input=content, cluster=(clusters or {}).get(key)) for key, content in contents.items()],
        run_items=made,
        scores=[score for item in made for one in bindings for score in _scores(item, one, values or {})],
    )


def version(run: ExperimentRun, bindings: Sequence[Binding]) -> ExperimentVersion:
    component = Component(name="agent", kind="python", address="agent:answer")
    return ExperimentVersion(
        id=run.experiment_version_id,
        experiment_id=run.experiment_id,
        number=1,
        target=ComponentTarget(deployment_id="dep-1", component=component),
        dataset_id="ds-1",
        dataset_version_id=run.dataset_version_id,
        bindings=tuple(bindings),
        config=ExperimentConfig(),
        created_at=NOW,
    )


def _item(run: ExperimentRun, number: int, key: str, n: int, letter: str) -> RunItem:
    return RunItem(
        id=RunItem.id_of(run.id, key, n + 1),
        run_id=run.id,
        item_key=key,
        repetition=n + 1,
        number=number,
        status="error" if letter == "e" else "ok",
        verdict=LETTERS[letter],
        created_at=NOW,
    )


def _scores(item: RunItem, of: Binding, values: Mapping[str, Values]) -> list[Score]:
    if item.status != "ok":
        return []
    own = values.get(of.spec.name)
    said = own[item.item_key][item.repetition - 1] if own else {"passed": 1.0, "failed": 0.0}.get(item.verdict)
    return [
        Score(
            id=f"score-{item.id}-{of.spec.name}",
            run_id=item.run_id,
            run_item_id=item.id,
            item_key=item.item_key,
            repetition=item.repetition,
            scorer=of.spec.name,
            scorer_version_id=of.spec.id,
            required=of.required,
            status="error" if said is None else "ok",
            value=said,
            passed=None if said is None else said >= 0.5,
            explanation="said",
            created_at=NOW,
        )
    ]

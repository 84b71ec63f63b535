"""What a run came to, and which of its tries did not pass."""

from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from evalscribe.app.experiments.alive import deserted
from evalscribe.app.experiments.find import experiment_of, version_of_run
from evalscribe.app.experiments.items import items_of
from evalscribe.app.experiments.listing import dataset_line, target_line
from evalscribe.experiments.summary import DatasetPlace, label_pair, summarise_labels, summarise_run
from evalscribe.judging.calibration import LabelPair
from evalscribe.model.experiment import (
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    ItemTrial,
    ItemVerdict,
    LabelSummary,
    RunSummary,
    TrialDetail,
)
from evalscribe.model.experiment_storage import ScoreQuery
from evalscribe.model.score import Score
from evalscribe.workspace import Workspace

NOT_PASSED: tuple[ItemVerdict, ...] = ("failed", "error", "unscored")


def summary(workspace: Workspace, run: ExperimentRun, *, scored: bool = True) -> RunSummary:
    """`scored`: with what each scorer said, which takes longer to read."""
    experiment, version = experiment_of(workspace, run), version_of_run(workspace, run)
    found = summarise_run(
        run,
        experiment,
        version,
        places(workspace, run),
        workspace.store.experiment_runs.items(run.id),
        workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)) if scored else (),
        labels=_labels(workspace, run, experiment, version),
    )
    gone = deserted(workspace.store.experiment_runs, run)
    lost = "its worker is gone: `evalscribe experiments runs resume` goes on with it"
    return found.model_copy(
        update={
            "dataset": dataset_line(workspace, version),
            "target": target_line(version.target),
            "cost_usd": workspace.store.experiment_runs.spent(run.id),
            "reason": lost if gone else found.reason,
        }
    )


def places(workspace: Workspace, run: ExperimentRun) -> Iterator[DatasetPlace]:
    for item in items_of(workspace, run):
        yield DatasetPlace(item.key, item.split, item.cluster)


def _labels(
    workspace: Workspace, run: ExperimentRun, experiment: Experiment, version: ExperimentVersion
) -> LabelSummary | None:
    labelling = experiment.type == "classifier" or version.target.type == "judge"
    return summarise_labels(_pairs(workspace, run)) if labelling else None


def _pairs(workspace: Workspace, run: ExperimentRun) -> Iterator[LabelPair]:
    """Of every try; one without an answer gave no label. Tries of one item are one observation, as items of a cluster
    are."""
    expected = {item.key: (item.expected_output, item.cluster) for item in items_of(workspace, run)}
    for attempt in workspace.store.experiment_runs.attempts(run.id):
        answered = attempt.item.status == "ok"
        wanted, cluster = expected.get(key := attempt.item.item_key, (None, None))
        pair = label_pair(wanted, attempt.output if answered else None)
        if pair is not None:
            observed = f"cluster {cluster}" if cluster is not None else f"item {key}"
            yield LabelPair(expected=pair[0], predicted=pair[1], cluster=observed)


def failures(workspace: Workspace, run: ExperimentRun, *, flaky: bool = False) -> Iterator[TrialDetail]:
    """Tries that did not pass, in the order of the dataset; `flaky`: only of items that passed in another try."""
    wanted = frozenset(summary(workspace, run, scored=False).flaky) if flaky else None
    return (
        told_try(workspace, run, attempt)
        for item in workspace.store.experiment_runs.items(run.id, NOT_PASSED)
        if wanted is None or item.item_key in wanted
        if (attempt := workspace.store.experiment_runs.attempt(item.id)) is not None
    )


def told_try(workspace: Workspace, run: ExperimentRun, attempt: ItemTrial) -> TrialDetail:
    item = workspace.store.datasets.item(run.dataset_version_id, attempt.item.item_key)
    scores = tuple(workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id, run_item_id=attempt.item.id)))
    return told(
        attempt,
        scores,
        split=item.split if item else None,
        asked=(item.input, item.expected_output) if item else (None, None),
    )


def told(
    attempt: ItemTrial, scores: Iterable[Score], *, split: str | None, asked: tuple[JsonValue, JsonValue]
) -> TrialDetail:
    """`asked`: the input, and what is expected."""
    one = attempt.item
    return TrialDetail.model_construct(
        item_key=one.item_key,
        repetition=one.repetition,
        run_item_id=one.id,
        split=split,
        verdict=one.verdict,
        error=one.error,
        input=asked[0],
        expected_output=asked[1],
        output=attempt.output,
        duration_ms=one.duration_ms,
        usage=one.usage,
        model=one.model,
        scores=tuple(scores),
    )

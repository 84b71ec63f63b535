"""Show experiments and the results of their runs: summary, gate, trials, scores and their evidence."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import get_args

from pydantic import JsonValue

from evalscribe.errors import EvalscribeError, NotFoundError, UsageError, flag
from evalscribe.experiments.compare import new_failures
from evalscribe.experiments.gate import Baseline, decide_gate
from evalscribe.experiments.lookup import (
    PlannedTrial,
    baseline_named,
    experiment_of,
    has_no_worker,
    items_of,
    planned_trials,
    run_named,
    version_of_run,
)
from evalscribe.experiments.summary import DatasetPlace, label_pair, summarise_labels, summarise_run
from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.model.experiment import (
    PREVIOUS,
    Experiment,
    ExperimentRun,
    ExperimentVersion,
    ItemTrial,
    ItemVerdict,
    LabelSummary,
    RunItem,
    RunReport,
    RunSummary,
    TargetSpec,
    TrialCounts,
    TrialDetail,
)
from evalscribe.model.score import Binding, Score, ScoreQuery
from evalscribe.settings import RULES
from evalscribe.statistics.agreement import LabelPair
from evalscribe.store.lookup import MOST_NAMED, find_by_prefix
from evalscribe.store.lookup import find_dataset as dataset_named
from evalscribe.text import join_last, pluralise
from evalscribe.workspace import Workspace


class ListedExperiment(Frozen):
    """Summary of an experiment and its latest version."""

    experiment: Experiment
    version: int
    target: str
    dataset: str
    scorers: tuple[str, ...]
    runs: int


def list_experiments(
    workspace: Workspace,
    *,
    dataset: str | None = None,
    status: str | None = None,
    type: str | None = None,
    page: int = 1,
    page_size: int = 50,
) -> tuple[ListedExperiment, ...]:
    """Return one page of the list of experiments, oldest first.

    Args:
        workspace: Workspace of the experiments.
        dataset: Name or id of the experiments' dataset; None for all datasets.
        status: Status of the experiments, `active` or `archived`; None for both.
        type: Type of the experiments; None for all types.
        page: Number of the page, from 1.
        page_size: Experiments per page.

    Raises:
        UsageError: A filter has a value that cannot match anything.
    """
    _require_known("status", status)
    _require_known("type", type)
    dataset_id = dataset_named(workspace.store.datasets, dataset).id if dataset else None
    matching = []
    for experiment in workspace.store.experiments.experiments():
        if status not in (None, experiment.status) or type not in (None, experiment.type):
            continue
        version = workspace.store.experiments.experiment_version(experiment.latest_version_id)
        if version is not None and dataset_id in (None, version.dataset_id):
            matching.append((experiment, version))
    start = (page - 1) * page_size
    if matching and start >= len(matching):
        raise UsageError(
            f"`page` {page} is after the last page: {pluralise(len(matching), 'experiment')} in total, "
            f"{page_size} per page",
            fields=("page",),
        )
    return tuple(_listed_experiment(workspace, *pair) for pair in matching[start : start + page_size])


def target_line(target: TargetSpec) -> str:
    """Render a target, such as `component support_agent (dep-…)` or `judge rules by failure@2`."""
    if target.type == "component":
        return f"{target.component.type} {target.component.name} ({target.deployment_id})"
    if target.type == "prompt":
        return f"prompt {target.prompt_id}@{target.version.number} ({target.version.model})"
    parts = f" ({target.cascade.tag}, then {target.cascade.judge})" if target.cascade else ""
    return f"judge {target.judge}{parts} by {target.rubric}"


def called_models(version: ExperimentVersion) -> tuple[str, ...]:
    """Return the models that the target and the scorers call.

    Models that a component calls are unknown, so they are not included.
    """
    target = version.target
    target_models: tuple[str, ...] = ()
    if target.type == "prompt":
        target_models = (target.version.model,)
    elif target.type == "judge":
        target_models = (target.cascade.tag, target.cascade.judge) if target.cascade else (target.judge,)
    names = (*target_models, *(binding.spec.model for binding in version.bindings))
    return tuple(dict.fromkeys(name for name in names if name not in (None, RULES)))


def dataset_line(workspace: Workspace, version: ExperimentVersion) -> str:
    """Render a dataset as `tickets@3`, or as `tickets@3:test` if the version covers only one split."""
    dataset = workspace.store.datasets.find(version.dataset_id)
    dataset_version = workspace.store.datasets.version(version.dataset_version_id)
    split = f":{version.config.split}" if version.config.split is not None else ""
    name, number = (
        dataset.name if dataset else version.dataset_id,
        dataset_version.number if dataset_version else version.dataset_version_id,
    )
    return f"{name}@{number}{split}"


def binding_line(binding: Binding) -> str:
    """Render a binding, such as `contains {"pattern":"refund"}, from 0.8, not required`."""
    spec = binding.spec
    values = {key: value for key, value in spec.config.items() if value is not None}
    config = f" {canonical_json(values)}" if values else ""
    threshold = "" if binding.threshold is None else f", from {binding.threshold:g}"
    return f"{spec.name}{config}{threshold}{'' if binding.required else ', not required'}"


def _listed_experiment(workspace: Workspace, experiment: Experiment, version: ExperimentVersion) -> ListedExperiment:
    return ListedExperiment(
        experiment=experiment,
        version=version.number,
        target=target_line(version.target),
        dataset=dataset_line(workspace, version),
        scorers=tuple(binding.spec.name for binding in version.bindings),
        runs=len(workspace.store.experiment_runs.runs(experiment.id)),
    )


def _require_known(name: str, value: str | None) -> None:
    choices = get_args(Experiment.model_fields[name].annotation)
    if value is not None and value not in choices:
        raise UsageError(f"--{name} {value!r} is unknown; use one of {', '.join(choices)}")


NOT_PASSED: tuple[ItemVerdict, ...] = ("failed", "error", "unscored")


def run_summary(workspace: Workspace, run: ExperimentRun, *, scored: bool = True) -> RunSummary:
    """Summarise a run. With `scored`, all scores are read, and the summary includes the results of each scorer."""
    experiment, version = experiment_of(workspace, run), version_of_run(workspace, run)
    summary = summarise_run(
        run,
        experiment,
        version,
        trial_places(workspace, run),
        workspace.store.experiment_runs.items(run.id),
        workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)) if scored else (),
        labels=_labels(workspace, run, experiment, version),
    )
    worker_gone = has_no_worker(workspace.store.experiment_runs, run)
    lost_reason = "its worker is gone: continue with `evalscribe experiments runs resume`"
    return summary.model_copy(
        update={
            "dataset": dataset_line(workspace, version),
            "target": target_line(version.target),
            "cost_usd": workspace.store.experiment_runs.spent(run.id),
            "reason": lost_reason if worker_gone else summary.reason,
        }
    )


def trial_places(workspace: Workspace, run: ExperimentRun) -> Iterator[DatasetPlace]:
    for item in items_of(workspace, run):
        yield DatasetPlace(item.key, item.split, item.cluster)


def _labels(
    workspace: Workspace, run: ExperimentRun, experiment: Experiment, version: ExperimentVersion
) -> LabelSummary | None:
    has_labels = experiment.type == "classifier" or version.target.type == "judge"
    return summarise_labels(_pairs(workspace, run)) if has_labels else None


def _pairs(workspace: Workspace, run: ExperimentRun) -> Iterator[LabelPair]:
    """Yield the expected label and the target's label of every stored trial whose item has an expected label.

    If a trial has no output, its label from the target is None.

    All trials of one item count as one observation, and so do all items of one cluster.
    """
    expected_by_key = {item.key: (item.expected_output, item.cluster) for item in items_of(workspace, run)}
    for trial in workspace.store.experiment_runs.attempts(run.id):
        has_output = trial.item.status == "ok"
        expected_output, cluster = expected_by_key.get(key := trial.item.item_key, (None, None))
        pair = label_pair(expected_output, trial.output if has_output else None)
        if pair is not None:
            observation = f"cluster {cluster}" if cluster is not None else f"item {key}"
            yield LabelPair(expected=pair[0], predicted=pair[1], cluster=observation)


def failed_trials(workspace: Workspace, run: ExperimentRun, *, flaky: bool = False) -> Iterator[TrialDetail]:
    """Yield the trials that did not pass, in dataset order. With `flaky`, yield only the trials of flaky items."""
    flaky_keys = frozenset(run_summary(workspace, run, scored=False).flaky) if flaky else None
    return (
        describe_trial(workspace, run, trial)
        for item in workspace.store.experiment_runs.items(run.id, NOT_PASSED)
        if flaky_keys is None or item.item_key in flaky_keys
        if (trial := workspace.store.experiment_runs.attempt(item.id)) is not None
    )


def describe_trial(workspace: Workspace, run: ExperimentRun, trial: ItemTrial) -> TrialDetail:
    item = workspace.store.datasets.item(run.dataset_version_id, trial.item.item_key)
    scores = tuple(workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id, run_item_id=trial.item.id)))
    return describe_trials(
        trial,
        scores,
        split=item.split if item else None,
        input_and_expected=(item.input, item.expected_output) if item else (None, None),
    )


def describe_trials(
    trial: ItemTrial, scores: Iterable[Score], *, split: str | None, input_and_expected: tuple[JsonValue, JsonValue]
) -> TrialDetail:
    """Describe a trial. `input_and_expected` has the item's input and expected output."""
    run_item = trial.item
    # The values were validated when they were stored. Validating them again would be slow.
    return TrialDetail.model_construct(
        item_key=run_item.item_key,
        repetition=run_item.repetition,
        run_item_id=run_item.id,
        split=split,
        verdict=run_item.verdict,
        error=run_item.error,
        input=input_and_expected[0],
        expected_output=input_and_expected[1],
        output=trial.output,
        log=trial.log if run_item.verdict == "error" else "",
        duration_ms=run_item.duration_ms,
        usage=run_item.usage,
        model=run_item.model,
        scores=tuple(scores),
    )


VERSION = 1
"""Version of the gate's rules. Raise the version by hand when a change of criteria, statistics or counting can change
the gate decision of a run.

Stored decisions of other versions are then ignored.
"""


def report_run(workspace: Workspace, run: ExperimentRun) -> RunReport:
    """Return the report of a run, with its gate if the run has ended. Nothing is read from a cache."""
    summary = run_summary(workspace, run)
    if not run.terminal:
        return RunReport(summary=summary)
    version = version_of_run(workspace, run)
    digest = workspace.store.experiment_runs.scores_digest(run.id)
    return RunReport(
        summary=summary, gate=decide_gate(version.config, summary, digest, baselines(workspace, run, version))
    )


def gate_passed(workspace: Workspace, run: ExperimentRun) -> bool | None:
    """Return whether the gate passed; None while the run has not ended.

    The decision is cached until the run or one of its baselines changes.
    """
    if run.state != "completed":
        return False if run.terminal else None
    version = version_of_run(workspace, run)
    key = _gate_key(workspace, run, version)
    # Cached, because a list of runs would otherwise decide every gate again.
    passed = workspace.store.experiment_runs.gate(run.id, key)
    if passed is None:
        # Only the clause on errors needs scores. The verdicts of trials suffice for all others.
        summary = run_summary(workspace, run, scored=version.config.max_error_rate is not None)
        passed = decide_gate(version.config, summary, "", baselines(workspace, run, version)).passed
        # A read-only store cannot cache the decision, so the gate is decided again each time.
        with suppress(EvalscribeError):
            workspace.store.experiment_runs.keep_gate(run.id, key, passed)
    return passed


def _gate_key(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> str:
    """Return a content id of the gate's inputs: the state and the scores of the run and of its baselines."""
    baseline_states = {}
    for name in sorted(version.config.compared):
        with suppress(EvalscribeError):  # The key also changes if a baseline is missing.
            base = baseline_named(workspace, name, run)
            baseline_states[name] = [base.id, base.revision, base.state]
    return content_id([VERSION, run.revision, baseline_states])


def baselines(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> Mapping[str, Baseline]:
    """Return the baselines that the version's gate names, by name."""
    return {name: _baseline(workspace, run, version, name) for name in version.config.compared}


def _baseline(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, name_or_id: str) -> Baseline:
    try:
        base = baseline_named(workspace, name_or_id, run)
        base_version = version_of_run(workspace, base)
        why_not = (
            _unusable_reason(run, base)
            or _split_difference(version, base_version)
            or _scorer_difference(version, base_version)
        )
    except NotFoundError:
        # The error's message lists recent runs, so it changes over time. The reason in a gate must stay the same.
        return Baseline(why_not="there is none" if name_or_id == PREVIOUS else f"run {name_or_id!r} not found")
    except EvalscribeError as error:
        return Baseline(why_not=" ".join(error.text(flag).split()))
    if why_not is not None:
        return Baseline(run_id=base.id, why_not=why_not)
    keys = new_failures(workspace.store.experiment_runs.items(base.id), workspace.store.experiment_runs.items(run.id))
    relative = isinstance(version.config.min_pass_rate, str)
    rate = run_summary(workspace, base, scored=False).pass_rate.value if relative else None
    return Baseline(run_id=base.id, new_failures=keys, pass_rate=rate)


def _unusable_reason(run: ExperimentRun, base: ExperimentRun) -> str | None:
    """Return why the baseline cannot be used; None if it can be used."""
    if base.id == run.id:
        return "the baseline is this run itself; give the name or id of another run"
    if base.state != "completed":
        return f"run {base.id} is {base.state}"
    if base.dataset_version_id != run.dataset_version_id:
        return f"run {base.id} uses another dataset version, {base.dataset_version_id}"
    return None


def _split_difference(version: ExperimentVersion, base: ExperimentVersion) -> str | None:
    """Describe how the splits differ; None if they are equal."""
    # An item that only the baseline tried would look like a new failure.
    if base.config.split == version.config.split:
        return None
    return f"it covered {base.config.tried}, not {version.config.tried}"


def _scorer_difference(version: ExperimentVersion, base: ExperimentVersion) -> str | None:
    """Describe how the required scorers differ; None if they are equal."""
    # Verdicts cannot be compared if they were made by different scorers.
    scorers, base_scorers = (
        {binding.spec.name: (binding.spec.id, binding.threshold) for binding in compared.bindings if binding.required}
        for compared in (version, base)
    )
    names = [name for name in {**scorers, **base_scorers} if scorers.get(name) != base_scorers.get(name)]
    return f"its scorers differ: {', '.join(names)}" if names else None


class ListedRun(Frozen):
    run: ExperimentRun
    worker_gone: bool = False
    """True if the run has not ended, but its worker is gone."""
    version: int
    dataset: str
    """`name@number`, or `name@number:split`."""
    counts: TrialCounts
    pass_rate: float
    gate: bool | None
    """Whether the gate passed; None while the run has not ended."""


def listed_runs(workspace: Workspace, experiment: Experiment) -> tuple[ListedRun, ...]:
    """List the runs of an experiment, oldest first."""
    return tuple(listed_run(workspace, run) for run in workspace.store.experiment_runs.runs(experiment.id))


def listed_run(workspace: Workspace, run: ExperimentRun) -> ListedRun:
    version = version_of_run(workspace, run)
    tally = workspace.store.experiment_runs.tally(run.id)
    counts_by_verdict = {str(verdict): number for verdict, number in tally.items()}
    counts = TrialCounts(**counts_by_verdict, missing=run.tries - sum(tally.values()))
    return ListedRun(
        run=run,
        worker_gone=has_no_worker(workspace.store.experiment_runs, run),
        version=version.number,
        dataset=dataset_line(workspace, version),
        counts=counts,
        pass_rate=counts.passed / run.tries if run.tries else 0.0,
        gate=gate_passed(workspace, run),
    )


class TrialPage(Frozen):
    """Selects one page of the trials that have run, by verdict and item."""

    verdicts: tuple[ItemVerdict, ...] = ()
    item: str | None = None
    """Key of an item."""
    offset: int = 0
    limit: int


def trial_page(workspace: Workspace, run: ExperimentRun, page: TrialPage) -> tuple[Sequence[TrialDetail], int]:
    """Return a page of the trials and the number of trials on all pages.

    Trials are in the order of the dataset; the trials of an item are in the order of repetition.
    """
    total, ids = 0, []
    for run_item in workspace.store.experiment_runs.items(run.id, page.verdicts):
        if page.item not in (None, run_item.item_key):
            continue
        if page.offset <= total < page.offset + page.limit:
            ids.append(run_item.id)
        total += 1
    trials = (workspace.store.experiment_runs.attempt(id) for id in ids)
    return [describe_trial(workspace, run, trial) for trial in trials if trial is not None], total


def export_trials(workspace: Workspace, run: ExperimentRun) -> Iterator[TrialDetail]:
    """Yield all trials in the order of the dataset, then by repetition, including trials that never ran.

    Only one trial is in memory at a time.
    """
    return map(_trial_detail, planned_trials(workspace, run))


def _trial_detail(planned_trial: PlannedTrial) -> TrialDetail:
    item = planned_trial.item
    if planned_trial.stored is not None:
        return describe_trials(
            planned_trial.stored.trial,
            planned_trial.stored.scores,
            split=item.split,
            input_and_expected=(item.input, item.expected_output),
        )
    return TrialDetail(
        item_key=item.key,
        repetition=planned_trial.repetition,
        split=item.split,
        verdict="missing",
        input=item.input,
        expected_output=item.expected_output,
    )


PARTS = ("scorer_input", "scorer_output", "evidence")


class ShownScore(Frozen):
    """A score with the requested parts of its evidence."""

    score: Score
    parts: dict[str, JsonValue]
    """The requested parts, by name. A part that the score lacks is null."""
    metadata: dict[str, JsonValue]


def list_scores(workspace: Workspace, query: ScoreQuery) -> Iterator[Score]:
    """List scores. `query.run_id` can be the name of a run.

    Raises:
        NotFoundError: The run or run item does not exist.
        UsageError: A filter has a value that cannot match any score.
    """
    resolved = _resolve_query(workspace, query)
    scores = workspace.store.experiment_runs.scores(resolved)
    first = next(scores, None)
    if first is not None:
        return chain((first,), scores)
    # Checked only if no score matches, because the check can read the versions of all runs.
    _require_scorer(workspace, query, resolved)
    return scores


def _resolve_query(workspace: Workspace, query: ScoreQuery) -> ScoreQuery:
    if query.since is not None and query.until is not None and query.since >= query.until:
        raise UsageError("`since` must be before `until`", fields=("since", "until"))
    if query.run_id is not None:
        query = query.model_copy(update={"run_id": run_named(workspace, query.run_id).id})
    if query.run_item_id is not None:
        item = _run_item(workspace, query)
        query = query.model_copy(update={"run_id": item.run_id, "run_item_id": item.id})
    definitions = workspace.store.experiments
    if query.scorer is not None:
        id = find_by_prefix("scorer", query.scorer, (scorer.id for scorer in definitions.scorers()))
        if stored_scorer := definitions.scorer(query.scorer) or (id and definitions.scorer(id)):
            query = query.model_copy(update={"scorer": stored_scorer.id})
    if (version := query.scorer_version_id) is not None:
        ids = dict.fromkeys(binding.spec.id for binding in _bindings(workspace, query.run_id))
        if version not in ids and (id := find_by_prefix("scorer version", version, ids)):
            query = query.model_copy(update={"scorer_version_id": id})
    return query


def _run_item(workspace: Workspace, query: ScoreQuery) -> RunItem:
    store, name_or_id = workspace.store.experiment_runs, query.run_item_id or ""
    id = (
        name_or_id
        if store.attempt(name_or_id)
        else find_by_prefix("run item", name_or_id, store.ids("item", name_or_id))
    )
    trial = store.attempt(id) if id else None
    if trial is None:
        raise NotFoundError(
            f"run item {query.run_item_id!r} not found; `evalscribe experiments runs failures RUN` lists the run "
            "items that failed"
        )
    if query.run_id not in (None, trial.item.run_id):
        raise UsageError(f"run item {query.run_item_id} belongs to run {trial.item.run_id}, not to {query.run_id}")
    return trial.item


def _require_scorer(workspace: Workspace, requested: ScoreQuery, query: ScoreQuery) -> None:
    """Raise `UsageError` if no score matched because the run does not have the requested scorer.

    The error message lists the scorers that the run has.
    """
    bindings = _bindings(workspace, query.run_id)
    scope = f"run {requested.run_id or query.run_id}" if query.run_id else "any run"
    known_names = {name for binding in bindings for name in (binding.spec.name, binding.scorer_id)}
    if query.scorer is not None and query.scorer not in known_names:
        names = dict.fromkeys(binding.spec.name for binding in bindings)
        raise UsageError(
            f"`scorer_id` {requested.scorer!r} is not a scorer of {scope}; {_scorer_list(names)}", fields=("scorer_id",)
        )
    if query.scorer_version_id not in (None, *(binding.spec.id for binding in bindings)):
        names = dict.fromkeys(f"{binding.spec.id} ({binding.spec.name})" for binding in bindings)
        raise UsageError(
            f"`scorer_version_id` {query.scorer_version_id!r} is not a scorer version of {scope}; "
            f"{_scorer_list(names)}",
            fields=("scorer_version_id",),
        )


def _bindings(workspace: Workspace, run_id: str | None) -> list[Binding]:
    """Return the bindings of a run's version. If `run_id` is None, return the bindings of all runs' versions."""
    runs = workspace.store.experiment_runs.runs() if run_id is None else [run_named(workspace, run_id)]
    versions = {run.experiment_version_id: run for run in runs}
    return [binding for run in versions.values() for binding in version_of_run(workspace, run).bindings]


def _scorer_list(names: Collection[str]) -> str:
    return f"scorers: {join_last(list(names), MOST_NAMED)}" if names else "nothing has run yet"


def score_evidence(workspace: Workspace, score_id: str, include: Sequence[str]) -> ShownScore:
    """Return a score with the parts of its evidence that `include` names.

    Raises `UsageError` for an unknown part, `NotFoundError` if the score does not exist.
    """
    if unknown := [part for part in include if part not in PARTS]:
        raise UsageError(f"`include` {unknown[0]!r} is unknown; use one of {', '.join(PARTS)}", fields=("include",))
    store = workspace.store.experiment_runs
    if store.score(score_id) is None:
        score_id = find_by_prefix("score", score_id, store.ids("score", score_id)) or score_id
    score, evidence = store.score(score_id), store.evidence(score_id)
    if score is None or evidence is None:
        raise NotFoundError(
            f"score {score_id!r} not found; `evalscribe experiments scores list --run-id RUN` lists scores"
        )
    output = evidence.scorer_output if evidence.scorer_output is not None else _result_fields(score)
    shown = {"scorer_input": evidence.scorer_input, "scorer_output": output, "evidence": evidence.evidence}
    parts = {part: shown[part] for part in PARTS if part in include}
    return ShownScore.model_construct(score=score, parts=parts, metadata=evidence.metadata)


def _result_fields(score: Score) -> JsonValue:
    """Return the result of a score as JSON. If a scorer stores no raw output, this result is shown instead."""
    fields = score.model_dump(mode="json", include={"status", "value", "passed", "label", "explanation", "error_type"})
    return {name: value for name, value in fields.items() if value is not None}

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
    """Return one page of experiments, oldest first.

    Args:
        workspace: Workspace of the experiments.
        dataset: Only experiments on this dataset, by name or id.
        status: Only `active` or `archived` ones.
        type: Only experiments of this type.
        page: Number of the page, from 1.
        page_size: Experiments per page.

    Raises:
        UsageError: A filter cannot match anything.
    """
    _known("status", status)
    _known("type", type)
    dataset_id = dataset_named(workspace.store.datasets, dataset).id if dataset else None
    found = []
    for one in workspace.store.experiments.experiments():
        if status not in (None, one.status) or type not in (None, one.type):
            continue
        version = workspace.store.experiments.experiment_version(one.latest_version_id)
        if version is not None and dataset_id in (None, version.dataset_id):
            found.append((one, version))
    start = (page - 1) * page_size
    if found and start >= len(found):
        raise UsageError(
            f"`page` {page}: {pluralise(len(found), 'experiment')} in total, {page_size} per page", fields=("page",)
        )
    return tuple(_listed(workspace, *pair) for pair in found[start : start + page_size])


def target_line(target: TargetSpec) -> str:
    """Render a target, such as `component support_agent (dep-…)` or `judge rules by failure@2`."""
    if target.type == "component":
        return f"{target.component.type} {target.component.name} ({target.deployment_id})"
    if target.type == "prompt":
        return f"prompt {target.prompt_id}@{target.version.number} ({target.version.model})"
    parts = f" ({target.cascade.tag}, then {target.cascade.judge})" if target.cascade else ""
    return f"judge {target.judge}{parts} by {target.rubric}"


def models_asked(version: ExperimentVersion) -> tuple[str, ...]:
    """Return the models that the target and the scorers call. The models of components are unknown."""
    target = version.target
    own: tuple[str, ...] = ()
    if target.type == "prompt":
        own = (target.version.model,)
    elif target.type == "judge":
        own = (target.cascade.tag, target.cascade.judge) if target.cascade else (target.judge,)
    named = (*own, *(binding.spec.model for binding in version.bindings))
    return tuple(dict.fromkeys(name for name in named if name not in (None, RULES)))


def dataset_line(workspace: Workspace, version: ExperimentVersion) -> str:
    """Render a dataset as `tickets@3`, or `tickets@3:test` if only a split is used."""
    dataset = workspace.store.datasets.find(version.dataset_id)
    of = workspace.store.datasets.version(version.dataset_version_id)
    split = f":{version.config.split}" if version.config.split is not None else ""
    name, number = dataset.name if dataset else version.dataset_id, of.number if of else version.dataset_version_id
    return f"{name}@{number}{split}"


def binding_line(binding: Binding) -> str:
    """Render a binding, such as `contains {"pattern":"refund"}, from 0.8, not required`."""
    spec = binding.spec
    said = {key: value for key, value in spec.config.items() if value is not None}
    config = f" {canonical_json(said)}" if said else ""
    threshold = "" if binding.threshold is None else f", from {binding.threshold:g}"
    return f"{spec.name}{config}{threshold}{'' if binding.required else ', not required'}"


def _listed(workspace: Workspace, one: Experiment, version: ExperimentVersion) -> ListedExperiment:
    return ListedExperiment(
        experiment=one,
        version=version.number,
        target=target_line(version.target),
        dataset=dataset_line(workspace, version),
        scorers=tuple(binding.spec.name for binding in version.bindings),
        runs=len(workspace.store.experiment_runs.runs(one.id)),
    )


def _known(name: str, value: str | None) -> None:
    there = get_args(Experiment.model_fields[name].annotation)
    if value is not None and value not in there:
        raise UsageError(f"--{name} {value!r} is unknown; use one of {', '.join(there)}")


NOT_PASSED: tuple[ItemVerdict, ...] = ("failed", "error", "unscored")


def run_summary(workspace: Workspace, run: ExperimentRun, *, scored: bool = True) -> RunSummary:
    """Summarise a run. `scored`: include each scorer's summary, which takes longer to read."""
    experiment, version = experiment_of(workspace, run), version_of_run(workspace, run)
    found = summarise_run(
        run,
        experiment,
        version,
        trial_places(workspace, run),
        workspace.store.experiment_runs.items(run.id),
        workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id)) if scored else (),
        labels=_labels(workspace, run, experiment, version),
    )
    gone = has_no_worker(workspace.store.experiment_runs, run)
    lost = "its worker is gone: continue with `evalscribe experiments runs resume`"
    return found.model_copy(
        update={
            "dataset": dataset_line(workspace, version),
            "target": target_line(version.target),
            "cost_usd": workspace.store.experiment_runs.spent(run.id),
            "reason": lost if gone else found.reason,
        }
    )


def trial_places(workspace: Workspace, run: ExperimentRun) -> Iterator[DatasetPlace]:
    for item in items_of(workspace, run):
        yield DatasetPlace(item.key, item.split, item.cluster)


def _labels(
    workspace: Workspace, run: ExperimentRun, experiment: Experiment, version: ExperimentVersion
) -> LabelSummary | None:
    labelling = experiment.type == "classifier" or version.target.type == "judge"
    return summarise_labels(_pairs(workspace, run)) if labelling else None


def _pairs(workspace: Workspace, run: ExperimentRun) -> Iterator[LabelPair]:
    """Yield the expected and the given label of every trial; a trial without output gave none.

    Trials of one item count as one observation, and so do the items of one cluster.
    """
    expected = {item.key: (item.expected_output, item.cluster) for item in items_of(workspace, run)}
    for attempt in workspace.store.experiment_runs.attempts(run.id):
        answered = attempt.item.status == "ok"
        wanted, cluster = expected.get(key := attempt.item.item_key, (None, None))
        pair = label_pair(wanted, attempt.output if answered else None)
        if pair is not None:
            observed = f"cluster {cluster}" if cluster is not None else f"item {key}"
            yield LabelPair(expected=pair[0], predicted=pair[1], cluster=observed)


def failed_trials(workspace: Workspace, run: ExperimentRun, *, flaky: bool = False) -> Iterator[TrialDetail]:
    """Yield the trials that did not pass, in dataset order. `flaky`: only trials of items that passed another trial."""
    wanted = frozenset(run_summary(workspace, run, scored=False).flaky) if flaky else None
    return (
        describe_trial(workspace, run, attempt)
        for item in workspace.store.experiment_runs.items(run.id, NOT_PASSED)
        if wanted is None or item.item_key in wanted
        if (attempt := workspace.store.experiment_runs.attempt(item.id)) is not None
    )


def describe_trial(workspace: Workspace, run: ExperimentRun, attempt: ItemTrial) -> TrialDetail:
    item = workspace.store.datasets.item(run.dataset_version_id, attempt.item.item_key)
    scores = tuple(workspace.store.experiment_runs.scores(ScoreQuery(run_id=run.id, run_item_id=attempt.item.id)))
    return describe_trials(
        attempt,
        scores,
        split=item.split if item else None,
        asked=(item.input, item.expected_output) if item else (None, None),
    )


def describe_trials(
    attempt: ItemTrial, scores: Iterable[Score], *, split: str | None, asked: tuple[JsonValue, JsonValue]
) -> TrialDetail:
    """Describe a trial. `asked`: its input and its expected output."""
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
        log=attempt.log if one.verdict == "error" else "",
        duration_ms=one.duration_ms,
        usage=one.usage,
        model=one.model,
        scores=tuple(scores),
    )


VERSION = 1
"""Raise by hand when a change of criteria, statistics or counting may change the gate decision of a run. Stored
decisions of other versions are then ignored.
"""


def report_run(workspace: Workspace, run: ExperimentRun) -> RunReport:
    """Report on a run, with its gate if it has ended. Everything is computed anew."""
    found = run_summary(workspace, run)
    if not run.terminal:
        return RunReport(summary=found)
    version = version_of_run(workspace, run)
    digest = workspace.store.experiment_runs.scores_digest(run.id)
    return RunReport(summary=found, gate=decide_gate(version.config, found, digest, baselines(workspace, run, version)))


def gate_passed(workspace: Workspace, run: ExperimentRun) -> bool | None:
    """Return whether the gate passed, or None while the run has not ended; cached until the scores change."""
    if run.state != "completed":
        return False if run.terminal else None
    version = version_of_run(workspace, run)
    key = _rests_on(workspace, run, version)
    passed = workspace.store.experiment_runs.gate(run.id, key)
    if passed is None:
        found = run_summary(workspace, run, scored=version.config.max_error_rate is not None)
        passed = decide_gate(version.config, found, "", baselines(workspace, run, version)).passed
        with suppress(EvalscribeError):  # A read-only store cannot cache the result, so it is computed again.
            workspace.store.experiment_runs.keep_gate(run.id, key, passed)
    return passed


def _rests_on(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> str:
    """Return the content id of what the gate depends on: the state and scores of the run and its baselines."""
    others = {}
    for name in sorted(version.config.compared):
        with suppress(EvalscribeError):  # A missing baseline affects the gate as well.
            base = baseline_named(workspace, name, run)
            others[name] = [base.id, base.revision, base.state]
    return content_id([VERSION, run.revision, others])


def baselines(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> Mapping[str, Baseline]:
    """Return the baselines that the version's gate names."""
    return {name: _baseline(workspace, run, version, name) for name in version.config.compared}


def _baseline(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, named: str) -> Baseline:
    try:
        base = baseline_named(workspace, named, run)
        its = version_of_run(workspace, base)
        why_not = _why_not(run, base) or _other_split(version, its) or _other_ruler(version, its)
    except NotFoundError:  # Its message lists recent runs, but the reason in a gate must not change with them.
        return Baseline(why_not="there is none" if named == PREVIOUS else f"run {named!r} not found")
    except EvalscribeError as error:
        return Baseline(why_not=" ".join(error.text(flag).split()))
    if why_not is not None:
        return Baseline(run_id=base.id, why_not=why_not)
    keys = new_failures(workspace.store.experiment_runs.items(base.id), workspace.store.experiment_runs.items(run.id))
    relative = isinstance(version.config.min_pass_rate, str)
    rate = run_summary(workspace, base, scored=False).pass_rate.value if relative else None
    return Baseline(run_id=base.id, new_failures=keys, pass_rate=rate)


def _why_not(run: ExperimentRun, base: ExperimentRun) -> str | None:
    """Return why the baseline cannot be used; None if it can."""
    if base.id == run.id:
        return "it is this run itself; name another run, or give the id of the run you mean"
    if base.state != "completed":
        return f"run {base.id} is {base.state}"
    if base.dataset_version_id != run.dataset_version_id:
        return f"run {base.id} uses another dataset version, {base.dataset_version_id}"
    return None


def _other_split(version: ExperimentVersion, base: ExperimentVersion) -> str | None:
    """Describe how the splits differ, since an item that only one run tried is not a new failure; None if equal."""
    if base.config.split == version.config.split:
        return None
    return f"it covered {base.config.tried}, not {version.config.tried}"


def _other_ruler(version: ExperimentVersion, base: ExperimentVersion) -> str | None:
    """Describe how the required scorers differ, since their verdicts are then not comparable; None if equal."""
    ours, theirs = (
        {one.spec.name: (one.spec.id, one.threshold) for one in each.bindings if one.required}
        for each in (version, base)
    )
    other = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return f"its scorers differ: {', '.join(other)}" if other else None


class ListedRun(Frozen):
    run: ExperimentRun
    worker_gone: bool = False
    """True if the run has not ended, but its worker has."""
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
    done = {str(verdict): number for verdict, number in tally.items()}
    counts = TrialCounts(**done, missing=run.tries - sum(tally.values()))
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
    """Selects one page of the trials that ran, by verdict and item."""

    verdicts: tuple[ItemVerdict, ...] = ()
    item: str | None = None
    """Key of an item."""
    offset: int = 0
    limit: int


def trial_page(workspace: Workspace, run: ExperimentRun, page: TrialPage) -> tuple[Sequence[TrialDetail], int]:
    """Return a page of trials in dataset order, then by repetition, and the number of trials on all pages."""
    total, chosen = 0, []
    for one in workspace.store.experiment_runs.items(run.id, page.verdicts):
        if page.item not in (None, one.item_key):
            continue
        if page.offset <= total < page.offset + page.limit:
            chosen.append(one.id)
        total += 1
    attempts = (workspace.store.experiment_runs.attempt(id) for id in chosen)
    return [describe_trial(workspace, run, attempt) for attempt in attempts if attempt is not None], total


def export_trials(workspace: Workspace, run: ExperimentRun) -> Iterator[TrialDetail]:
    """Yield all trials in dataset order, then by repetition, including those that never ran. Holds one in memory."""
    return map(_told, planned_trials(workspace, run))


def _told(one: PlannedTrial) -> TrialDetail:
    item = one.item
    if one.kept is not None:
        return describe_trials(
            one.kept.attempt, one.kept.scores, split=item.split, asked=(item.input, item.expected_output)
        )
    return TrialDetail(
        item_key=item.key,
        repetition=one.repetition,
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
    """Requested parts by name; a part that the score does not have is null."""
    metadata: dict[str, JsonValue]


def list_scores(workspace: Workspace, query: ScoreQuery) -> Iterator[Score]:
    """List scores. `query.run_id` may be a name.

    Raises:
        NotFoundError: The run or run item does not exist.
        UsageError: A filter cannot match any score.
    """
    wanted = _resolved(workspace, query)
    found = workspace.store.experiment_runs.scores(wanted)
    first = next(found, None)
    if first is not None:
        return chain((first,), found)
    _require_scorer(workspace, query, wanted)
    return found


def _resolved(workspace: Workspace, query: ScoreQuery) -> ScoreQuery:
    if query.since is not None and query.until is not None and query.since >= query.until:
        raise UsageError("`since` must be before `until`", fields=("since", "until"))
    if query.run_id is not None:
        query = query.model_copy(update={"run_id": run_named(workspace, query.run_id).id})
    if query.run_item_id is not None:
        item = _run_item(workspace, query)
        query = query.model_copy(update={"run_id": item.run_id, "run_item_id": item.id})
    definitions = workspace.store.experiments
    if query.scorer is not None:
        id = find_by_prefix("scorer", query.scorer, (one.id for one in definitions.scorers()))
        if known := definitions.scorer(query.scorer) or (id and definitions.scorer(id)):
            query = query.model_copy(update={"scorer": known.id})
    if (version := query.scorer_version_id) is not None:
        ids = dict.fromkeys(one.spec.id for one in _bindings(workspace, query.run_id))
        if version not in ids and (id := find_by_prefix("scorer version", version, ids)):
            query = query.model_copy(update={"scorer_version_id": id})
    return query


def _run_item(workspace: Workspace, query: ScoreQuery) -> RunItem:
    store, named = workspace.store.experiment_runs, query.run_item_id or ""
    id = named if store.attempt(named) else find_by_prefix("run item", named, store.ids("item", named))
    attempt = store.attempt(id) if id else None
    if attempt is None:
        raise NotFoundError(
            f"run item {query.run_item_id!r} not found; `evalscribe experiments runs failures RUN` lists failed ones"
        )
    if query.run_id not in (None, attempt.item.run_id):
        raise UsageError(f"run item {query.run_item_id} belongs to run {attempt.item.run_id}, not to {query.run_id}")
    return attempt.item


def _require_scorer(workspace: Workspace, asked: ScoreQuery, query: ScoreQuery) -> None:
    """Check an empty result. Raises `UsageError`, listing the scorers of the run, if the scorer is not one of them."""
    bindings = _bindings(workspace, query.run_id)
    where = f"run {asked.run_id or query.run_id}" if query.run_id else "any run"
    named = {name for one in bindings for name in (one.spec.name, one.scorer_id)}
    if query.scorer is not None and query.scorer not in named:
        there = dict.fromkeys(one.spec.name for one in bindings)
        raise UsageError(
            f"`scorer_id` {asked.scorer!r} is not a scorer of {where}; {_there(there)}", fields=("scorer_id",)
        )
    if query.scorer_version_id not in (None, *(one.spec.id for one in bindings)):
        there = dict.fromkeys(f"{one.spec.id} ({one.spec.name})" for one in bindings)
        raise UsageError(
            f"`scorer_version_id` {query.scorer_version_id!r} is not a scorer version of {where}; {_there(there)}",
            fields=("scorer_version_id",),
        )


def _bindings(workspace: Workspace, run_id: str | None) -> list[Binding]:
    """Return the bindings of the run's version, or of all runs."""
    runs = workspace.store.experiment_runs.runs() if run_id is None else [run_named(workspace, run_id)]
    versions = {run.experiment_version_id: run for run in runs}
    return [one for run in versions.values() for one in version_of_run(workspace, run).bindings]


def _there(names: Collection[str]) -> str:
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
    score, found = store.score(score_id), store.evidence(score_id)
    if score is None or found is None:
        raise NotFoundError(
            f"score {score_id!r} not found; `evalscribe experiments scores list --run-id RUN` lists scores"
        )
    said = found.scorer_output if found.scorer_output is not None else _returned(score)
    shown = {"scorer_input": found.scorer_input, "scorer_output": said, "evidence": found.evidence}
    parts = {part: shown[part] for part in PARTS if part in include}
    return ShownScore.model_construct(score=score, parts=parts, metadata=found.metadata)


def _returned(score: Score) -> JsonValue:
    """Return the result of a score as JSON, which replaces the raw output of scorers that store none."""
    told = score.model_dump(mode="json", include={"status", "value", "passed", "label", "explanation", "error_type"})
    return {name: value for name, value in told.items() if value is not None}

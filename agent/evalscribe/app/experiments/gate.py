"""The gate of a finished run, as its scores are now."""

from collections.abc import Mapping
from contextlib import suppress

from evalscribe.app.experiments.find import run_named, version_of_run
from evalscribe.app.experiments.inspect import summary
from evalscribe.errors import EvalscribeError, NotFoundError
from evalscribe.experiments.compare import new_failures
from evalscribe.experiments.gate import Baseline, decide_gate
from evalscribe.ids import content_id
from evalscribe.model.experiment import ExperimentRun, ExperimentVersion, RunReport
from evalscribe.workspace import Workspace

VERSION = 1
"""Raise by hand when any run may pass or fail its gate where it did not before: other criteria, statistics, or another
way to count tries, errors and baselines. Stored gates of other versions are then decided again."""


def reported(workspace: Workspace, run: ExperimentRun) -> RunReport:
    """What the run came to, with its gate where it has ended, all of it worked out anew."""
    found = summary(workspace, run)
    if not run.terminal:
        return RunReport(summary=found)
    version = version_of_run(workspace, run)
    digest = workspace.store.experiment_runs.scores_digest(run.id)
    return RunReport(summary=found, gate=decide_gate(version.config, found, digest, baselines(workspace, run, version)))


def in_short(workspace: Workspace, run: ExperimentRun) -> bool | None:
    """Whether the gate passed, for lists: worked out once, and again only where something of it changed. None before
    the end."""
    if run.state != "completed":
        return False if run.terminal else None
    version = version_of_run(workspace, run)
    key = _rests_on(workspace, run, version)
    passed = workspace.store.experiment_runs.gate(run.id, key)
    if passed is None:
        found = summary(workspace, run, scored=version.config.max_error_rate is not None)
        passed = decide_gate(version.config, found, "", baselines(workspace, run, version)).passed
        with suppress(EvalscribeError):  # What cannot be kept, as in a store that is only read, is worked out again.
            workspace.store.experiment_runs.keep_gate(run.id, key, passed)
    return passed


def _rests_on(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> str:
    """Content id of what may change the verdict: scores of the run and of its baselines, and what decides."""
    others = {}
    for name in sorted(_named(version)):
        with suppress(EvalscribeError):  # No such run is an answer as well.
            base = run_named(workspace, name)
            others[name] = [base.id, base.revision, base.state]
    return content_id([VERSION, run.revision, others])


def baselines(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion) -> Mapping[str, Baseline]:
    """Those that the gate of this version names."""
    return {name: _baseline(workspace, run, version, name) for name in _named(version)}


def _named(version: ExperimentVersion) -> frozenset[str]:
    config = version.config
    named = {config.no_new_failures_vs, config.baseline if config.max_regressions is not None else None}
    return frozenset(name for name in named if name is not None)


def _baseline(workspace: Workspace, run: ExperimentRun, version: ExperimentVersion, named: str) -> Baseline:
    try:
        base = run_named(workspace, named)
        its = version_of_run(workspace, base)
        why_not = _why_not(run, base) or _other_split(version, its) or _other_ruler(version, its)
    except NotFoundError:  # What else there is changes from day to day; what is said of a gate does not.
        return Baseline(why_not=f"no experiment has a run {named!r}")
    except EvalscribeError as error:
        return Baseline(why_not=" ".join(str(error).split()))
    if why_not is not None:
        return Baseline(run_id=base.id, why_not=why_not)
    keys = new_failures(workspace.store.experiment_runs.items(base.id), workspace.store.experiment_runs.items(run.id))
    return Baseline(run_id=base.id, new_failures=keys)


def _why_not(run: ExperimentRun, base: ExperimentRun) -> str | None:
    """A name that the run itself bears says nothing: a run has no failures that are new against itself."""
    if base.id == run.id:
        return "it is this run itself; name another one, or give its id"
    if base.state != "completed":
        return f"run {base.id} is {base.state}"
    if base.dataset_version_id != run.dataset_version_id:
        return f"run {base.id} is over another dataset version, {base.dataset_version_id}"
    return None


def _other_split(version: ExperimentVersion, base: ExperimentVersion) -> str | None:
    """An item that only one of them tried is neither a new failure nor none."""
    if base.config.split == version.config.split:
        return None
    return f"it tried {base.config.tried}, not {version.config.tried}"


def _other_ruler(version: ExperimentVersion, base: ExperimentVersion) -> str | None:
    """What was passed by other scorers is no evidence."""
    ours, theirs = (
        {one.spec.name: (one.spec.id, one.threshold) for one in each.bindings if one.required}
        for each in (version, base)
    )
    other = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return f"it was scored otherwise: {', '.join(other)}" if other else None

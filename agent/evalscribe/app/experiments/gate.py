"""The gate of a finished run, as its scores are now."""

from collections.abc import Mapping

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.app.experiments.find import run_named, version_of_run
from evalscribe.app.experiments.inspect import summary
from evalscribe.errors import EvalscribeError
from evalscribe.evaluate.baseline import Baseline
from evalscribe.evaluate.compare import new_failures
from evalscribe.evaluate.gate import gate
from evalscribe.experiment import ExperimentRun, ExperimentVersion
from evalscribe.run_summary import RunReport


def reported(desk: ExperimentDesk, run: ExperimentRun) -> RunReport:
    """What the run came to, with its gate where it has ended. Nothing of it is stored: a rescore is in it at once."""
    found = summary(desk, run)
    if not run.terminal:
        return RunReport(summary=found)
    version = version_of_run(desk, run)
    digest = desk.runs.scores_digest(run.id)
    return RunReport(summary=found, gate=gate(version.config, found, digest, baselines(desk, run, version)))


def in_short(desk: ExperimentDesk, run: ExperimentRun) -> bool | None:
    """Whether the gate passed, for lists: scores are read only where a clause needs them. None before the end."""
    if not run.terminal:
        return None
    version = version_of_run(desk, run)
    found = summary(desk, run, scored=version.config.max_error_rate is not None)
    return gate(version.config, found, "", baselines(desk, run, version)).passed


def baselines(desk: ExperimentDesk, run: ExperimentRun, version: ExperimentVersion) -> Mapping[str, Baseline]:
    """Those that the gate of this version names."""
    config = version.config
    named = {config.no_new_failures_vs, config.baseline if config.max_regressions is not None else None}
    return {name: _baseline(desk, run, version, name) for name in named if name is not None}


def _baseline(desk: ExperimentDesk, run: ExperimentRun, version: ExperimentVersion, named: str) -> Baseline:
    try:
        base = run_named(desk, named)
        its = version_of_run(desk, base)
        why_not = _why_not(run, base) or _other_split(version, its) or _other_ruler(version, its)
    except EvalscribeError as error:
        return Baseline(why_not=" ".join(str(error).split()))
    if why_not is not None:
        return Baseline(run_id=base.id, why_not=why_not)
    keys = new_failures(desk.runs.items(base.id), desk.runs.items(run.id))
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

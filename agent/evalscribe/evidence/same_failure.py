"""Decide whether two failures are the same, and compare a failure with other models' runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import NamedTuple

from evalscribe.evidence.log import is_stock, normalise_error
from evalscribe.ids import model_folder, model_key, same_experiment
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import CauseKind, Classification, CrossModelFailures
from evalscribe.model.run import TRIAL, Run

Fingerprint = tuple[str, str | None]


class FailureDescription(NamedTuple):
    """A failure as a judge or a report describes it."""

    step: str | None
    classification: Classification | None
    cause: str | None
    error: str | None
    kind: CauseKind | None = None


def same_failure(now: FailureDescription, earlier: FailureDescription) -> bool:
    """Return whether an eval failed twice for the same reason.

    If the earlier failure has a cause name, the cause names or the errors must be equal. Reports written by people have
    no cause names and paraphrase errors. For such reports, the steps must be equal, and either the kinds of cause or
    the labels must be equal. Equal labels are not required, because people can label the same failure differently. An
    unknown step counts as equal, and so does an unknown label of the earlier failure.
    """
    if earlier.cause is not None:
        return earlier.cause == now.cause or _same_error(now.error or "", earlier.error or "")
    same_step = earlier.step is None or now.step is None or earlier.step == now.step
    same_kind = earlier.kind is not None and earlier.kind == now.kind
    return same_step and (same_kind or earlier.classification in (None, now.classification))


def _same_error(a: str, b: str) -> bool:
    """Return whether two errors are equal after normalisation.

    Stock messages never count as equal, even for the same eval.
    """
    return not is_stock(a) and normalise_error(a) == normalise_error(b)


def same_version(a: FailureFingerprint, b: FailureFingerprint) -> bool:
    """Return whether two runs had the same experiment, task and grader. Unknown values never count as equal."""
    complete = a.experiment and b.experiment and a.task and a.grader
    return bool(complete) and _same_experiment(a, b) and (a.task, a.grader) == (b.task, b.grader)


def same_fingerprint(a: FailureFingerprint, b: FailureFingerprint) -> bool:
    """Return whether two failures have the same fingerprint.

    A failure that happened before the model's work has no fingerprint.
    """
    first = fingerprint(a)
    return first is not None and first == fingerprint(b)


def fingerprint(failure: FailureFingerprint) -> Fingerprint | None:
    """Return the values that two failures must share to count as the same.

    Returns None if the failure happened before the model's work was judged, if no error was located, or if the log
    hides the compared values and it is not known which tests failed.
    """
    if failure.signature is None or not failure.judged:
        return None
    if not failure.hidden:
        return failure.signature, None
    # The log hides the values that a test compared. One message can then have several causes, so the failed tests must
    # match too.
    return (failure.signature, failure.checks) if failure.checks else None


class CompactFailure(NamedTuple):
    """The values of a failure that are needed to compare it with other failures.

    Objects of this class take little memory, because there can be many runs with thousands of failures.
    """

    run: str
    model: str
    """Provider and model as `provider/model`, as in the path of the model's reports folder."""
    key: str
    """Normalised model name without the provider. A model that several providers serve is therefore counted once."""
    experiment: str
    eval: str
    step: str | None
    fingerprint: Fingerprint | None
    version: tuple[str, str] | None
    """Versions of the task and the grader; None if one of them is unknown."""
    judged: bool


def compact_failure(failure: FailureFingerprint) -> CompactFailure:
    """Convert a fingerprint to its compact form.

    Equal strings are stored only once, because the same eval can fail for many models.
    """
    version = (intern(failure.task), intern(failure.grader)) if failure.task and failure.grader else None
    values = fingerprint(failure)
    return CompactFailure(
        run=intern(failure.run),
        model=model_name(failure),
        key=_key(failure.provider, failure.model),
        experiment=intern(failure.experiment),
        eval=intern(failure.eval),
        step=failure.step and intern(failure.step),
        fingerprint=(intern(values[0]), values[1]) if values else None,
        version=version,
        judged=failure.judged,
    )


def compare_across_models(
    failure: CompactFailure, other_failures: Sequence[CompactFailure], passed: Mapping[str, str]
) -> CrossModelFailures | None:
    """Count the other models that fail in the same way, or did in an earlier version of the eval.

    Returns None if there are no such models. A model counts once, regardless of its number of runs and providers. A
    model fails in the same way if one of its runs has the same failure with the same eval version. The total also
    includes models whose work was judged in this version and failed differently, and models with a complete run in
    which the eval passed. The version of a passed eval is unknown, because passed evals are not stored. The comparison
    assumes that the version of a passed eval is the same. If this assumption is wrong, the reported share of failing
    models is too low.

    Args:
        failure: The failure to compare.
        other_failures: Failures of the same eval in other runs.
        passed: Model (`provider/model`) by run id, for each complete run that includes the eval. The eval passed in a
            run unless `other_failures` has a failure of that run.
    """
    comparable = [
        other
        for other in other_failures
        if other.key != failure.key and other.eval == failure.eval and _comparable(other, failure)
    ]
    same_version_failures = [other for other in comparable if other.version == failure.version]
    failing = {other.key: other.model for other in same_version_failures if other.fingerprint == failure.fingerprint}
    earlier = {
        other.key: other.model
        for other in comparable
        if other.version != failure.version and other.fingerprint == failure.fingerprint
    }
    if failure.fingerprint is None or not (failing or earlier):
        return None
    failed_in = {other.run for other in other_failures}
    clean = {_key(*_split(name)) for run, name in passed.items() if run not in failed_in and run != failure.run}
    counted_models = {failure.key, *failing, *(other.key for other in same_version_failures if other.judged), *clean}
    return CrossModelFailures(
        alike=tuple(sorted(failing.values())),
        models=len(counted_models),
        earlier=tuple(sorted(name for key, name in earlier.items() if key not in failing)),
    )


def describe_across_models(across: CrossModelFailures | None) -> str:
    """Describe the comparison with other models for a judge, without naming models; empty for None.

    Example: `It fails the same way for 5 of 7 models …`.
    """
    if across is None:
        return ""
    count = len(across.earlier) + across.more_earlier
    models = "one other model" if count == 1 else f"{count} other models"
    earlier = f"It failed the same way for {models} in an earlier version of this eval." if count else ""
    if across.failing == 1:
        return earlier
    sentence = f"It fails the same way for {across.failing} of {across.models} models in the same experiment"
    return f"{sentence}, with the same task and grader. {earlier}".rstrip()


class CompleteRun(NamedTuple):
    """A run whose list of failures is complete."""

    run: str
    model: str
    evals: frozenset[str] | None
    """Paths of all evals of the run, without trial numbers; None if the source does not list them."""


@dataclass(frozen=True)
class OtherRuns:
    """Other stored runs of the same experiment, with their failures of the evals that are being compared."""

    failures: Mapping[str, Sequence[CompactFailure]]
    """Failures in the other runs, by the eval's path."""
    complete_runs: Sequence[CompleteRun]

    def across(self, failure: CompactFailure) -> CrossModelFailures | None:
        """Count the other models that fail in the same way; None if there are none."""
        other_failures = self.failures.get(failure.eval, ())
        # If no other model has this fingerprint, the passed runs do not have to be looked up.
        if failure.fingerprint is None or all(
            other.fingerprint != failure.fingerprint or other.key == failure.key for other in other_failures
        ):
            return None
        return compare_across_models(failure, other_failures, self._passed(failure.eval))

    def passed(self, eval: str) -> bool:
        """Return whether the eval passed in at least one of the other runs."""
        return bool(self._passed(eval).keys() - {other.run for other in self.failures.get(eval, ())})

    def _passed(self, eval: str) -> dict[str, str]:
        return {run: model for run, model, evals in self.complete_runs if evals is None or eval in evals}


def complete_runs(run: Run) -> Iterator[CompleteRun]:
    """Yield the run if its list of failures is complete.

    In a complete run, every eval that is not in the list has passed.
    """
    if run.status == "completed" and run.incomplete == 0 and len(run.failures) >= run.failed:
        evals = None if run.evals is None else frozenset(TRIAL.sub("", path) for path in run.evals)
        yield CompleteRun(run.id, model_name(run), evals)


def model_name(holder: FailureFingerprint | Run) -> str:
    """Return the model's name as `provider/model`, as in the path of its reports folder."""
    return "/".join(model_folder(holder.provider, holder.model))


def _key(provider: str, model: str) -> str:
    return model_key(provider, model)[-1]


def _split(name: str) -> tuple[str, str]:
    provider, _, model = name.partition("/")
    return provider, model


def _same_experiment(a: FailureFingerprint, b: FailureFingerprint) -> bool:
    return bool(a.experiment and b.experiment) and same_experiment(a.experiment, b.experiment)


def _comparable(a: CompactFailure, b: CompactFailure) -> bool:
    """Return whether both failures belong to the same experiment and have a known eval version."""
    complete = a.version and b.version and a.experiment and b.experiment
    return bool(complete) and (a.experiment == b.experiment or same_experiment(a.experiment, b.experiment))

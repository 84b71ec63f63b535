"""A failed eval as it is compared with the same eval in runs of other models."""

import re

from evalscribe.gather.digest import before_output
from evalscribe.gather.pack import diagnose
from evalscribe.ids import content_id
from evalscribe.judging.rules.infrastructure import came_to_the_code
from evalscribe.model.evidence import (
    Diagnosis,
    Evidence,
    FailureFingerprint,
    LocatedError,
    UnreadableEvidence,
    files_digest,
)
from evalscribe.model.run import Eval, Run
from evalscribe.signature.locate import signature

METHOD = 2
"""Raised when this or `signature` would find something else: stored sightings are then made anew."""
_HIDDEN = re.compile(r"…|\.\.\.|\{ ?Object \(|\[(?:Object|Array)\b|\[object \w+\]")
"""How test runners cut a value short."""


def sighting(
    run: Run, evidence: Evidence | UnreadableEvidence, diagnosis: Diagnosis | None = None
) -> FailureFingerprint:
    """Describe a failure for comparison with other runs. Unreadable evidence only says that it failed.

    Args:
        run: The run that it failed in.
        evidence: What is known of the failure.
        diagnosis: What was found in the evidence; None to look now.
    """
    seen = _failed(run, evidence.eval)
    if isinstance(evidence, UnreadableEvidence):
        return seen
    diagnosis = diagnosis or diagnose(evidence)
    located = diagnosis.located
    names = sorted(test.name for test in diagnosis.tests.failures)
    return seen.model_copy(
        update={
            "passed": tuple(step.name for step in evidence.steps if step.status == "passed"),
            "signature": signature(evidence.eval.failed_step, located),
            "checks": content_id(names) if names else None,
            "hidden": located is not None and _hides(located),
            "judged": not before_output(evidence) and came_to_the_code(evidence, diagnosis),
            "task": files_digest(evidence.documents, "task"),
            "grader": files_digest(evidence.documents, "grader"),
        }
    )


def _failed(run: Run, eval: Eval) -> FailureFingerprint:
    return FailureFingerprint(
        run=run.id,
        provider=run.provider,
        model=run.model,
        experiment=run.experiment,
        eval=f"{eval.category}/{eval.name}" if eval.category else eval.name,
        eval_id=eval.id,
        step=eval.failed_step,
        judged=False,
        method=METHOD,
    )


def _hides(located: LocatedError) -> bool:
    """Compilers and linters quote code; only what a test compares can be hidden by cutting it short."""
    return located.test is not None and _HIDDEN.search(located.error) is not None

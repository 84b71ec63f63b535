"""Prepare failures: fetch and store evidence, compute fingerprints, and group failures that share a verdict."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from evalscribe.evidence.locate import signature
from evalscribe.evidence.log import failed_log
from evalscribe.ids import content_id, share_field_names
from evalscribe.judging.pack import diagnose, prepare
from evalscribe.judging.rules.infrastructure import came_to_the_code
from evalscribe.judging.rules.transcripts import Transcripts
from evalscribe.model.evidence import (
    Diagnosis,
    Document,
    Evidence,
    FailedScore,
    FailureFingerprint,
    GatheredEvidence,
    LocatedError,
    PackedEvidence,
    PreparedFailure,
    UnreadableEvidence,
)
from evalscribe.model.finding import FailureGroup
from evalscribe.model.protocols import RunSource
from evalscribe.model.record import SCORES_LOG
from evalscribe.model.reference_runs import read_reference_runs
from evalscribe.model.run import Eval, Run

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore


# Ports, durations, times of day, temporary files and long numbers differ between trials with the same output.
_ACCIDENTS = re.compile(r"\bport \d+|:\d{4,5}\b|\b\d+(?:\.\d+)?\s?m?s\b|\b\d{1,2}:\d{2}:\d{2}\b|/tmp/\S+|\b\d{9,}\b")
_STATUS = re.compile(r"\b[1-5]\d\d\b")


def evidence_fingerprint(evidence: Evidence, prepared: PreparedFailure) -> str:
    """Return a content id of everything about a failure that a judge can read. Failures with equal ids share a verdict.

    If the eval failed before the model produced output, only the failed step, the error and HTTP status codes count.
    """
    located = prepared.diagnosis.located
    if located is not None and ended_before_output(evidence):
        # The signature replaces numbers with `<n>`, but a status of 429 has a different cause from 503.
        statuses = _STATUS.findall(evidence.eval.reason or "")
        return content_id(["before output", signature(evidence.eval.failed_step, located), statuses])
    return content_id(["alike", *_judge_input(evidence, prepared.packed)])


def ended_before_output(evidence: Evidence) -> bool:
    """Return whether an eval failed before the model produced any output.

    An eval failed before any output if no step passed, and no output, log or transcript shows work of the
    model. If the source reports an error of the harness, the log is ignored.
    """
    # If the harness failed, it wrote the log itself, so the log shows no work of the model.
    log = () if evidence.eval.status == "error" else evidence.of("log")
    did = any(document.text.strip() for document in (*evidence.of("output"), *log)) or Transcripts(evidence).by_model
    return not did and not any(step.status == "passed" for step in evidence.steps)


def _judge_input(evidence: Evidence, packed: PackedEvidence) -> list[object]:
    """Return everything that a judge can read: the packed evidence, its source documents, and the failed step's log.

    Ports, times and temporary file names are ignored in the log and in the recorded reason. Elsewhere, only whitespace
    at line ends is ignored.
    """
    log = failed_log(evidence)
    return [
        evidence.eval.failed_step,
        _ACCIDENTS.sub("<n>", _trimmed(evidence.eval.reason or "").rstrip()),
        # Numbers in code matter, so accidents are replaced only in the reason above and in the log below.
        [[excerpt.role, excerpt.path, _trimmed(excerpt.text)] for excerpt in packed.excerpts if excerpt.role != "log"],
        packed.differences,
        [_written(document) for document in evidence.of("output", "transcript", "known_gaps", "grader", "expected")],
        _ACCIDENTS.sub("<n>", log.text) if log else None,
    ]


def _written(document: Document) -> list[str]:
    return [document.role, document.path, _trimmed(document.text)]


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


RECORD_VERSION = 2
"""Version of the fingerprints.

Increase this version by hand when `failure_record` or `signature` starts to return different values. Stored
fingerprints with an older version are then recomputed.
"""
_HIDDEN = re.compile(r"…|\.\.\.|\{ ?Object \(|\[(?:Object|Array)\b|\[object \w+\]")
"""Matches the signs that a test runner shortened a value in a message, such as `…` and `[Object`."""


def failure_record(
    run: Run, evidence: Evidence | UnreadableEvidence, diagnosis: Diagnosis | None = None
) -> FailureFingerprint:
    """Return the fingerprint by which a failure is compared with failures of other runs.

    If the evidence is unreadable, most fields of the fingerprint are empty.

    Args:
        run: Run in which the eval failed.
        evidence: Evidence of the failure.
        diagnosis: Diagnosis of the evidence; None to compute it.
    """
    record = _failed(run, evidence.eval)
    if isinstance(evidence, UnreadableEvidence):
        return record
    diagnosis = diagnosis or diagnose(evidence)
    located = diagnosis.located
    names = sorted(test.name for test in diagnosis.tests.failures)
    record = record.model_copy(
        update={
            "passed": tuple(step.name for step in evidence.steps if step.status == "passed"),
            "signature": signature(evidence.eval.failed_step, located),
            "checks": content_id(names) if names else None,
            "hidden": located is not None and _hides(located),
            # An outage, such as a timeout of the package index, says nothing about the eval.
            "judged": not ended_before_output(evidence) and came_to_the_code(evidence, diagnosis),
            "task": evidence.version_of("task"),
            "grader": evidence.version_of("grader"),
        }
    )
    # A run can have thousands of fingerprints.
    return share_field_names(record)


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
        method=RECORD_VERSION,
    )


def _hides(located: LocatedError) -> bool:
    """Return whether a test's message hides the values that the test compared.

    Compilers and linters quote code, so their messages hide nothing.
    """
    return located.test is not None and _HIDDEN.search(located.error) is not None


FETCHES = 8
"""Maximum number of evals whose evidence is fetched concurrently."""


async def fetch_evidence(
    source: RunSource, run: Run, store: "AnalysisStore", on_progress: Callable[[int, int], None] | None = None
) -> tuple[GatheredEvidence, ...]:
    """Fetch and store the evidence of every failed eval of the run, and return a summary of each, in the run's order.

    `on_progress` receives the number of fetched evals and the total. An error that affects all evals stops the fetching
    and is raised. Evidence that was already fetched stays in the store.
    """
    gathered: dict[str, GatheredEvidence] = {}
    waiting = iter(run.failures)

    async def fetch() -> None:
        # All workers take from one iterator, so each eval is fetched once.
        for eval in waiting:
            gathered[eval.id] = await _fetch_summary(source, run, store, eval)
            if on_progress:
                on_progress(len(gathered), len(run.failures))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(FETCHES, len(run.failures))):
                group.create_task(fetch())
    except BaseExceptionGroup as failed:
        # The class of the error decides the exit code of a command, so the group around it is removed.
        raise next(_leaves(failed)) from None
    return tuple(gathered[eval.id] for eval in run.failures)


async def _fetch_summary(source: RunSource, run: Run, store: "AnalysisStore", eval: Eval) -> GatheredEvidence:
    evidence = await source.evidence(eval)
    if isinstance(evidence, UnreadableEvidence) and isinstance(stored := store.get_evidence(run.id, eval.id), Evidence):
        evidence = stored  # evidence never changes, so it stays valid if the source can no longer provide it
    store.put_evidence(run.id, evidence)
    await asyncio.sleep(0)  # without this pause, a source that never waits would delay the handling of signals
    return summarise_evidence(evidence, run)


def summarise_evidence(evidence: Evidence | UnreadableEvidence, run: Run | None = None) -> GatheredEvidence:
    """Summarise the evidence of one failed eval for the later stages.

    The fingerprint is only computed if `run` is given.
    """
    if isinstance(evidence, UnreadableEvidence):
        # The eval id keeps unreadable failures apart: nothing shows that two of them failed alike.
        digest = content_id(["unreadable", evidence.eval.id, evidence.reason])
        return GatheredEvidence(
            eval_id=evidence.eval.id,
            digest=digest,
            likeness=digest,
            fingerprint=failure_record(run, evidence) if run else None,
        )
    prepared = prepare(evidence)
    diagnosis = prepared.diagnosis
    return GatheredEvidence(
        eval_id=evidence.eval.id,
        digest=prepared.digest,
        likeness=evidence_fingerprint(evidence, prepared),
        signature=signature(evidence.eval.failed_step, diagnosis.located),
        fingerprint=failure_record(run, evidence, diagnosis) if run else None,
        failed_step=evidence.eval.failed_step,
        missing=evidence.missing,
        reference_passes=any(
            answer.kind == "reference answer" and answer.passed > 0
            for answer in read_reference_runs(evidence.documents)
        ),
        scored=failed_score(evidence, run.threshold if run else None),
        agent_run=Transcripts(evidence).is_agent_run,
        prepared=prepared.compressed,
    )


# The numbers of digits are limited, because a number of hundreds of digits would become infinite, which JSON cannot
# hold.
_SCORE = r"(-?\d{1,15}(?:\.\d{1,15})?(?:e-?\d{1,2})?)"
_BELOW = re.compile(rf"\bscore {_SCORE}, threshold {_SCORE}")
"""Matches the score and the threshold in a step's error."""


def failed_score(evidence: Evidence, threshold: float | None) -> FailedScore | None:
    """Return the failed step's score and the threshold that it did not reach; None if either is unknown.

    Args:
        evidence: Evidence that contains a log of scores, or a step's error with both numbers.
        threshold: The run's lowest passing score; None if the user chose none.
    """
    step = next((step for step in evidence.steps if step.status == "failed"), None)
    name = evidence.eval.failed_step or (step.name if step else None)
    reported = _BELOW.search((step.error if step else None) or evidence.eval.reason or "")
    log = evidence.document("log", SCORES_LOG)
    result: FailedScore | None = None
    if reported:
        result = FailedScore(score=float(reported[1]), threshold=float(reported[2]))
    elif log and name and threshold is not None:
        line = re.search(rf"^{re.escape(name)}: failed {_SCORE}(?:$|[: (])", log.text, re.MULTILINE)
        result = FailedScore(score=float(line[1]), threshold=threshold) if line else None
    # A score that reaches the threshold is not the reason why the step failed.
    return result if result and result.score < result.threshold else None


def _leaves(failed: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in failed.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def group_failures(gathered: Iterable[GatheredEvidence]) -> tuple[FailureGroup, ...]:
    """Group failures that share a verdict. Groups are in the order of their first failures.

    Every eval is in exactly one group. The failures of a group either look the same to a judge, or have the same error
    and happened before any output of the model. Failures with equal signatures but different evidence are judged
    separately and reported as a pattern.
    """
    members: dict[str, list[GatheredEvidence]] = {}
    for failure in gathered:
        members.setdefault(failure.likeness, []).append(failure)
    return tuple(_group(likeness, group) for likeness, group in members.items())


def _group(likeness: str, group: Sequence[GatheredEvidence]) -> FailureGroup:
    return share_field_names(
        FailureGroup(id=likeness, eval_ids=tuple(failure.eval_id for failure in group), signature=group[0].signature)
    )

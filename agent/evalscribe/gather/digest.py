"""When two failures look the same to a judge: their evidence without the accidents of one execution."""

import re

from evalscribe.ids import content_id
from evalscribe.judging.rules.transcripts import Transcripts
from evalscribe.model.evidence import Document, Evidence, PackedEvidence, PreparedFailure
from evalscribe.signature.locate import signature
from evalscribe.signature.log import failed_log

_ACCIDENTS = re.compile(r"\bport \d+|:\d{4,5}\b|\b\d+(?:\.\d+)?\s?m?s\b|\b\d{1,2}:\d{2}:\d{2}\b|/tmp/\S+|\b\d{9,}\b")
_STATUS = re.compile(r"\b[1-5]\d\d\b")


def likeness(evidence: Evidence, prepared: PreparedFailure) -> str:
    """Content id of what two failures have in common that one verdict may answer for.

    For those that ended before the model produced any output, the located error is all there is.
    """
    located = prepared.diagnosis.located
    if located is not None and before_output(evidence):
        statuses = _STATUS.findall(evidence.eval.reason or "")
        return content_id(["before output", signature(evidence.eval.failed_step, located), statuses])
    return content_id(["alike", *_read(evidence, prepared.packed)])


def before_output(evidence: Evidence) -> bool:
    """Whether no step passed and neither output nor log nor transcript says that the model did anything.

    Where the source says that the harness broke, a log is the harness's.
    """
    log = () if evidence.eval.status == "error" else evidence.of("log")
    did = any(document.text.strip() for document in (*evidence.of("output"), *log)) or Transcripts(evidence).by_model
    return not did and not any(step.status == "passed" for step in evidence.steps)


def _read(evidence: Evidence, packed: PackedEvidence) -> list[object]:
    """What a judge may read: the packed evidence, the documents it was packed from, and the failed step's log.

    In the log ports, times and temporary files do not count; anywhere else every character does but white space at
    line ends, because a number in code is no accident.
    """
    log = failed_log(evidence)
    return [
        evidence.eval.failed_step,
        _ACCIDENTS.sub("<n>", _trimmed(evidence.eval.reason or "").rstrip()),
        [[excerpt.role, excerpt.path, _trimmed(excerpt.text)] for excerpt in packed.excerpts if excerpt.role != "log"],
        packed.differences,
        [_written(document) for document in evidence.of("output", "transcript", "known_gaps", "grader", "expected")],
        _ACCIDENTS.sub("<n>", log.text) if log else None,
    ]


def _written(document: Document) -> list[str]:
    return [document.role, document.path, _trimmed(document.text)]


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))

"""The lines of a log that say why the step failed."""

from collections.abc import Iterator, Sequence

from evalscribe.gather.pieces import Range, excerpts
from evalscribe.model import evidence
from evalscribe.model.evidence import Evidence, Excerpt
from evalscribe.signature import log as signature_log
from evalscribe.signature import wording

TAIL = 8
"""Lines from the end of the failed step's part where it holds no reason."""
ALIKE = 2
"""How many errors that differ only in numbers and ids are shown."""
ERRORS = 12


def log_excerpts(evidence: Evidence, located: Sequence[evidence.LocatedError]) -> list[Excerpt]:
    """The located errors' lines; without any, the end of the failed step's part."""
    part = signature_log.failed_log(evidence)
    log = evidence.document("log", part.path) if part else None
    if part is None or log is None:
        return []
    ranges = list(_errors(located))
    if not ranges:
        last = part.first + len(part.text.rstrip().split("\n")) - 1
        ranges = [(max(part.first, last - TAIL + 1), last)]
    return list(excerpts(log, ranges))


def _errors(located: Sequence[evidence.LocatedError]) -> Iterator[Range]:
    seen: dict[str, int] = {}
    for one in located:
        alike = wording.normalised(one.error)
        seen[alike] = seen.get(alike, 0) + 1
        if one.citation and seen[alike] <= ALIKE and len(seen) <= ERRORS:
            yield one.citation.first, one.citation.last

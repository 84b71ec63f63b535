"""The labels that a report by people gives."""

from evalscribe.reports import reading

MODEL, STRICT, AMBIGUOUS, GAP = "MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"


def read_labels(text: str) -> dict[str, str | None]:
    found = reading.read_report(text, "r.md").findings
    told = {one.eval: one.classification for one in found}
    assert len(told) == len(found)
    return told

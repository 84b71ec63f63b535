"""Recommendations and patterns that a person wrote or reworded, kept as notes of their section."""

from collections.abc import Iterator

from evalscribe.pattern import Recommendation
from evalscribe.report import Note, Report


def reworded(old: Report, written: Report | None, new: Report) -> Iterator[Note]:
    """Texts that are neither what was written last nor what is written now."""
    ours = {item.text for report in (written, new) if report for item in report.recommendations}
    for item in old.recommendations:
        if item.text and item.text not in ours and (written or _by_a_person(item, old, new)):
            yield Note(section="recommendations", text=f"{item.id}: {item.text}" if item.id else item.text)
    said = {pattern.text for report in (written, new) if report for pattern in report.patterns}
    for pattern in old.patterns if written else ():
        if pattern.text and pattern.text not in said:
            yield Note(section="patterns", text=f"{pattern.name}: {pattern.text}")


def _by_a_person(item: Recommendation, old: Report, new: Report) -> bool:
    """Without the text last written: the same judges on the same evidence would have proposed it again, unless a
    correction has overtaken it."""
    corrected = {path for entry in old.entries if entry.reviewed for path in entry.paths}
    same_question = (old.judges, old.evidence) == (new.judges, new.evidence)
    return item.id is not None and same_question and not corrected.intersection(item.evals)

"""Recommendations and patterns that a person wrote or reworded, kept as notes of their section."""

from collections.abc import Iterator

from evalscribe.report import Note, Report


def reworded(old: Report, written: Report | None, new: Report) -> Iterator[Note]:
    """Texts that are neither what was written last nor what is written now.

    Where the text last written is not known, every recommendation that the new report no longer has is kept.
    """
    current = {item.text for item in new.recommendations}
    ours = {item.text for item in written.recommendations} if written else set()
    for item in old.recommendations:
        if item.text and item.text not in current | ours and (written or item.id):
            yield Note(section="recommendations", text=f"{item.id}: {item.text}" if item.id else item.text)
    said = {pattern.text for report in (written, new) if report for pattern in report.patterns}
    for pattern in old.patterns if written else ():
        if pattern.text and pattern.text not in said:
            yield Note(section="patterns", text=f"{pattern.name}: {pattern.text}")

"""Write a person's label into a report, where the file stands."""

from pathlib import Path

from evalscribe.app.reports.reading import found, name_of, text_of
from evalscribe.ids import Frozen
from evalscribe.model.finding import CauseKind, Classification
from evalscribe.model.protocols import Library
from evalscribe.reports.corrections import label_in_force, write_label
from evalscribe.reports.markdown.labels import render
from evalscribe.reports.markdown.places import locate_findings


class Corrected(Frozen):
    """What a correction did to a report."""

    report: str
    """Name of the report."""
    path: Path
    """Its file."""
    number: int
    subject: str
    before: str
    """The label that was in force."""
    after: str
    said: str | None
    """The `Reviewer:` line that was added."""
    changed: bool


def correct(
    library: Library,
    name: str,
    n: int,
    label: Classification,
    *,
    kind: CauseKind | None = None,
    note: str | None = None,
) -> Corrected:
    """Label finding `n` of a report. Raises `NotFoundError`, `DataError`, and `UsageError` outside the folder."""
    file = found(library, name)
    below = name_of(library, file)
    text = text_of(file)
    new = write_label(text, n, label, kind=kind, note=note)
    if new != text:
        library.write(below, new)
    before, after = locate_findings(text)[n], locate_findings(new)[n]
    added = [line for line in after.reviewer if line not in before.reviewer]
    return Corrected(
        report=below,
        path=file.path,
        number=n,
        subject=after.subject,
        before=render(label_in_force(before)),
        after=render(after.label),
        said=added[-1] if added else None,
        changed=new != text,
    )

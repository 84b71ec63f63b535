"""Write a person's label into a report, where the file stands."""

from evalscribe.app.reports import found
from evalscribe.errors import DataError, UsageError
from evalscribe.finding import CauseKind, Classification
from evalscribe.ids import Frozen
from evalscribe.ports import Library, ReportFile
from evalscribe.report_markdown import label_text, places
from evalscribe.review.correct import corrected, in_force


class Corrected(Frozen):
    """What a correction did to a report."""

    report: str
    """Name of the report."""
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
    below = _name(library, file)
    text = _text(file)
    new = corrected(text, n, label, kind=kind, note=note)
    if new != text:
        library.write(below, new)
    before, after = places(text)[n], places(new)[n]
    added = [line for line in after.reviewer if line not in before.reviewer]
    return Corrected(
        report=below,
        number=n,
        subject=after.subject,
        before=label_text(in_force(before)),
        after=label_text(after.label),
        said=added[-1] if added else None,
        changed=new != text,
    )


def _name(library: Library, file: ReportFile) -> str:
    own = (one.name for one in library.all() if one.path.resolve() == file.path.resolve())
    name = next(own, None)
    if name is None:
        raise UsageError(f"{file.path} is not below the reports folder; say which one with --reports DIR")
    return name


def _text(file: ReportFile) -> str:
    """With its own line ends and byte order mark: a correction changes nothing else."""
    try:
        return file.path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file.name} is no UTF-8 text (byte {error.start}); save it as such") from None

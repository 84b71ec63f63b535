"""Choose the file into which the report on a run is written."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from evalscribe.errors import DataError
from evalscribe.ids import Frozen, choose_folder, path_part, report_stems, run_id_prefix
from evalscribe.model.repository import ReportFile
from evalscribe.model.run import Run
from evalscribe.reports.blocks import ConflictingEdits
from evalscribe.reports.reading import PageSource, read_page, run_of, source_of
from evalscribe.text import name as printed

BESIDE = ".evalscribe.md"
"""Suffix of a new report's file if the report is written beside an existing file that must not be overwritten."""


KIND_LINE = "\nkind: evalscribe-report/"
"""Line that every report from evalscribe contains. The search for it also succeeds if a person added text before the
front matter.
"""


class ReportPlacement(Frozen):
    """The file into which a report is written."""

    name: str
    """Path of the file, relative to the reports folder."""
    current: PageSource | None = None
    """Text and data of the existing file. None if the file does not exist yet."""
    message: str | None = None
    """Reason why the report is not written to its usual file. None if it is written there."""


def place_report(run: Run, date: str, files: Sequence[ReportFile], last_written: str | None = None) -> ReportPlacement:
    """Return the file of the run's report. If the run has no report yet, return a new file that is named after the
    date.

    A run has only one file, even if it is analysed again on another date. If this file cannot be read, it is not
    changed, and the report is written to a new file beside it.
    """
    of_run = sorted((file for file in files if _is_of(run, file)), key=lambda file: file.name)
    refused = {file.name: reason for file in of_run if (reason := _unreadable(file, last_written))}
    readable = next((file for file in of_run if file.name not in refused), None)
    message = "; ".join(f"{name} cannot be read and is left as it is: {reason}" for name, reason in refused.items())
    if readable:
        return ReportPlacement(name=readable.name, current=source_of(readable), message=message or None)
    if refused:
        return ReportPlacement(
            name=_free_name(of_run[0].name, files), message=f"{message}; the new report is beside it"
        )
    return _new(run, date, files)


def folder_of(run: Run, files: Sequence[ReportFile]) -> str:
    """Return the folder for the run's report, relative to the reports folder.

    If a report on the run already exists, its folder is returned. Otherwise, the folder of the model's reports is
    returned.

    Args:
        files: Reports on the run's model.
    """
    of_run = sorted(file.name for file in files if _is_of(run, file))
    name = next(iter(of_run), None)
    return name.rpartition("/")[0] if name else choose_folder(run.provider, run.model, (file.name for file in files))


def _is_of(run: Run, file: ReportFile) -> bool:
    """Return whether a file is the run's report.

    The file's front matter names the run. If the front matter cannot be parsed, the file's name decides.
    """
    run_id = run_of(file.text)
    torn = run_id is None and KIND_LINE in file.text
    # A report with broken front matter must be found, so that the problem is reported and the file is not overwritten.
    return run_id == printed(run.id) or (torn and PurePosixPath(file.name).name.startswith(f"{run_id_prefix(run.id)}_"))


def _unreadable(file: ReportFile, last_written: str | None) -> str | None:
    try:
        read_page(source_of(file), [last_written] if last_written is not None else [])
    except ConflictingEdits:
        return None  # the page can be read; merging it will report the contradiction
    except DataError as error:
        return str(error)
    return None


def _new(run: Run, date: str, files: Sequence[ReportFile]) -> ReportPlacement:
    folder = PurePosixPath(folder_of(run, files))
    # The ids of two runs can begin with the same eight characters.
    stem = next(stem for stem in report_stems(run.id) if not _of_another(folder, stem, files))
    name = str(folder / f"{stem}_{path_part(date)}.md")
    if not _taken(name, files):
        return ReportPlacement(name=name)
    message = f"{name} was not written by evalscribe and is left as it is; the new report is beside it"
    return ReportPlacement(name=_free_name(name, files), message=message)


def _of_another(folder: PurePosixPath, stem: str, files: Sequence[ReportFile]) -> bool:
    """Return whether another run already has a report whose name has this stem, with any date."""
    same = (file for file in files if file.name.startswith(f"{folder}/{stem}_"))
    return any(run_of(file.text) is not None for file in same)


def beside(placement: ReportPlacement, files: Sequence[ReportFile], reason: str) -> ReportPlacement:
    """Return a new file beside an existing page.

    The new page is written there because the edits of the existing page cannot be merged into it.
    """
    message = (
        f"{placement.name} keeps its edits and is left as it is: {reason}; the new page, with the labels, is beside it"
    )
    return ReportPlacement(name=_free_name(placement.name, files), message=message)


def _free_name(name: str, files: Sequence[ReportFile]) -> str:
    """Return a name that is not taken, for a new file beside the file `name`."""
    stem = name.removesuffix(".md").removesuffix(".evalscribe")
    candidates = (f"{stem}{f'-{number}' if number > 1 else ''}{BESIDE}" for number in range(1, len(files) + 2))
    return next(candidate for candidate in candidates if not _taken(candidate, files))


def _taken(name: str, files: Sequence[ReportFile]) -> bool:
    # On file systems that ignore case, both names are the same file.
    return any(file.name.casefold() == name.casefold() for file in files)

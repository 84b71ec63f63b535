"""Look at the reports: list and read them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.analysis import Analysis
from evalscribe.model.protocols import Library
from evalscribe.model.repository import ReportFile, is_report
from evalscribe.reports.reading import read_report


class Listed(Frozen):
    """A report, or the reason why it cannot be read as one."""

    name: str
    analysis: Analysis | None = None
    problem: str | None = None


def listed(library: Library, model: str | None = None) -> tuple[Listed, ...]:
    """Every report of the folder, by name; of one model (`provider/model`, in any spelling) where it is given."""
    return tuple(_listed(file) for file in _files(library, model))


def _listed(file: ReportFile) -> Listed:
    try:
        return Listed(name=file.name, analysis=read_report(file.text, file.name.rpartition("/")[2]))
    except DataError as error:
        return Listed(name=file.name, problem=str(error))


def found(library: Library, name: str) -> ReportFile:
    """The report that a person means: a path, a name below the reports folder, or the start of a run id.

    Raises `NotFoundError` where there is none or more than one.
    """
    try:
        path = Path(name)
        if path.is_file():
            return ReportFile(path=path.resolve(), name=path.name, text=path.read_text("utf-8", errors="replace"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotFoundError(f"{name[:80]!r} cannot be read as a file: {reason}") from None
    return below(library, name)


def below(library: Library, name: str) -> ReportFile:
    """As `found`, of what lies below the reports folder: whoever asks may read nothing else."""
    files = [file for file in library.all() if _means(name, file)] or list(_document(library, name))
    if len(files) != 1:
        several = ", ".join(file.name for file in files[:5]) or "none"
        raise NotFoundError(f"no single report is called {name!r} (found: {several}); see `evalscribe reports list`")
    return files[0]


def _document(library: Library, name: str) -> Iterator[ReportFile]:
    """A document of another kind, a comparison for one, by its name below the reports folder."""
    for whole in (name, f"{name}.md"):
        with suppress(DataError):
            if is_report(whole) and (text := library.document(whole)) is not None:
                yield ReportFile(path=library.root / whole, name=whole, text=text)


def again(file: ReportFile) -> ReportFile:
    """The report as it is now. Raises `NotFoundError` where it cannot be read any more."""
    try:
        return file.model_copy(update={"text": file.path.read_text("utf-8", errors="replace")})
    except OSError as error:
        raise NotFoundError(f"{file.name} cannot be read any more: {error.strerror}") from None


def _means(name: str, file: ReportFile) -> bool:
    return file.name in (name, f"{name}.md") or file.name.rpartition("/")[2].startswith(name)


def name_of(library: Library, file: ReportFile) -> str:
    """The report's name below the reports folder. Raises `UsageError` where it lies elsewhere."""
    own = (one.name for one in library.all() if one.path.resolve() == file.path.resolve())
    name = next(own, None)
    if name is None:
        raise UsageError(f"{file.path} is not below the reports folder; say which one with --reports DIR")
    return name


def text_of(file: ReportFile) -> str:
    """What the file holds now, with its own line ends and byte order mark, for an edit that changes nothing else."""
    try:
        return file.path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file.name} is no UTF-8 text (byte {error.start}); save it as such") from None
    except OSError as error:
        raise NotFoundError(f"{file.path} cannot be read: {error.strerror}") from None


def parsed(file: ReportFile) -> Analysis:
    """What a report says. Raises `DataError` for what is no readable report."""
    return read_report(file.text, file.name.rpartition("/")[2]).model_copy(update={"report_path": file.name})


def _files(library: Library, model: str | None) -> Sequence[ReportFile]:
    files: Iterable[ReportFile] = library.all()
    if model is not None:
        provider, _, name = model.partition("/")
        if not name:
            raise UsageError(f"{model!r} names no model: give provider/model")
        files = library.of_model(provider, name)
    return sorted(files, key=lambda file: file.name)

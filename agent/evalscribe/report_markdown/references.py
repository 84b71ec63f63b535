"""References to failed evals: an entry's number where all of its evals are meant, else paths."""

from collections.abc import Sequence

from evalscribe.model.report import ReportEntry
from evalscribe.report_markdown import inline


def render(paths: Sequence[str], entries: Sequence[ReportEntry]) -> list[str]:
    """One reference each, in the order of the entries; paths have the report's order already."""
    left = dict.fromkeys(paths)
    references = []
    for number, entry in enumerate(entries, 1):
        meant = [path for path in entry.paths if path in left]
        references += [str(number)] if len(meant) == len(entry.evals) else [inline.path(path) for path in meant]
    reported = {path for entry in entries for path in entry.paths}
    return references + [inline.path(path) for path in left if path not in reported]


def parse(references: Sequence[str], entries: Sequence[ReportEntry]) -> list[str]:
    """Paths. Raises `LookupError` for a number that no entry has."""
    paths: list[str] = []
    for reference in references:
        if not reference.isdecimal():
            paths.append(inline.uncode(reference))
        elif 1 <= int(reference) <= len(entries):
            paths += entries[int(reference) - 1].paths
        else:
            raise LookupError(f"there is no finding {reference}")
    return paths

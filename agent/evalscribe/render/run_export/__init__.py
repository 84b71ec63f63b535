"""A run of an experiment as files for other programs and for people, line by line."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from evalscribe.errors import UsageError
from evalscribe.model.experiment import RunReport, TrialDetail
from evalscribe.render.run_export import cells, html, json_lines, junit, markdown

Tries = Callable[[], Iterable[TrialDetail]]
"""Every try of the run, from the first one on each time it is called."""
WRITERS: Mapping[str, Callable[[RunReport, Iterable[TrialDetail]], Iterator[str]]] = {
    "csv": cells.lines,
    "json": json_lines.document,
    "jsonl": json_lines.lines,
    "junit": junit.lines,
    "md": markdown.lines,
    "html": html.lines,
}


def written(form: str, report: RunReport, tries: Tries) -> Iterator[str]:
    """Lines without their end; the page begins with what did not pass. Raises `UsageError` for an unknown format."""
    if form not in WRITERS:
        raise UsageError(f"--artifact-format {form!r} is none of {', '.join(WRITERS)}")
    return WRITERS[form](report, _worst_first(tries) if form == "html" else tries())


def _worst_first(tries: Tries) -> Iterator[TrialDetail]:
    """Read twice, so that no more than one is in memory."""
    yield from (one for one in tries() if one.verdict != "passed")
    yield from (one for one in tries() if one.verdict == "passed")

"""Regenerate the table of formats in the documentation: `cd tests && python -m sample.formats`."""

from collections.abc import Iterator
from pathlib import Path

from evalscribe.sources.formats import formats
from evalscribe.sources.recognition import Format

PAGE = Path(__file__).parents[2] / "agent/docs/formats.md"
START, END = "<!-- made from the readers: cd tests && python -m sample.formats -->", "<!-- end -->"


def _cell(text: str) -> str:
    return text.replace("|", "\\|") or "–"


def _summary(one: Format) -> str:
    cells = (one.title, f"`{one.name}`", one.a_run, one.an_eval, one.passed, one.versions)
    return f"| {' | '.join(map(_cell, cells))} |"


def _fields(one: Format) -> Iterator[str]:
    yield f"### {one.title[:1].upper()}{one.title[1:]}"
    yield ""
    yield "| field | becomes |"
    yield "|---|---|"
    yield from (f"| {_cell(field)} | {_cell(becomes)} |" for field, becomes in one.fields.items())
    yield ""


def table() -> str:
    """Return the tables of formats and their fields, with the start and end markers."""
    lines = ["| format | name | a run is | an eval is | passed | versions tested |", "|---|---|---|---|---|---|"]
    lines += [*map(_summary, formats()), "", "## What each field becomes", ""]
    lines += [line for one in formats() if one.fields for line in _fields(one)]
    return "\n".join([START, "", *lines, END])


def replaced(page: str) -> str:
    """Return the page with its table regenerated."""
    before, _, rest = page.partition(START)
    return before + table() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text("utf-8")), "utf-8")

"""Every eval in every run: as a page, and as CSV."""

import csv
import io
from collections.abc import Iterator, Sequence

from evalscribe.model.comparison import Matrix, MatrixColumn, MatrixRow
from evalscribe.report_markdown import inline
from evalscribe.report_markdown.comparison.document import document
from evalscribe.report_markdown.comparison.sentences import percent
from evalscribe.text import one_line, pluralise, prose

MOST_ROWS = 300
RISKY = ("=", "+", "-", "@", "\t")
"""With these a spreadsheet begins a formula."""


def matrix_page(found: Matrix) -> str:
    lines = [
        f"# {pluralise(len(found.rows) + found.unnamed, 'eval')} in {len(found.columns)} runs",
        "",
        _answer(found),
        "",
        *_columns(found),
    ]
    telling = [row for row in found.rows if row.discriminates]
    if telling:
        lines += ["", "## Evals that tell the runs apart", *_table(telling, found.columns)]
    for title, rows in (("Passed everywhere", _same(found, 1.0)), ("Failed everywhere", _same(found, 0.0))):
        if rows:
            lines += ["", f"## {title}", _names([row.eval for row in rows])]
    if found.changed:
        lines += ["", "## Task or grader not the same everywhere", _names(found.changed)]
    if found.notes:
        lines += ["", "## Limits", *(f"- {prose(note)}" for note in found.notes)]
    runs = [run for column in found.columns for run in column.runs]
    return document(runs[:1], runs[1:], None, lines)


def as_csv(found: Matrix) -> str:
    """A line for each eval; a cell is the share that passed, empty where it was not tried or not judged."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["eval", *(_cell_text(one_line(column.name)) for column in found.columns), "rate", "discriminates"])
    for row in found.rows:
        cells = ["" if cell is None else f"{cell[0] / cell[1]:g}" for cell in row.cells]
        rate = "" if row.rate is None else f"{row.rate:.4g}"
        table.writerow([_cell_text(one_line(row.eval)), *cells, rate, "yes" if row.discriminates else "no"])
    return text.getvalue()


def _cell_text(text: str) -> str:
    return f"'{text}" if text.startswith(RISKY) else text


def _answer(found: Matrix) -> str:
    telling = sum(row.discriminates for row in found.rows)
    flaky = sum(any(cell and 0 < cell[0] < cell[1] for cell in row.cells) for row in found.rows)
    steady = f"; {pluralise(flaky, 'eval')} passed only sometimes in one of them" if flaky else ""
    return (
        f"**{pluralise(telling, 'eval')} of {len(found.rows) + found.unnamed} tell the runs apart**; "
        f"{len(_same(found, 1.0)) + found.unnamed} passed "
        f"everywhere, {len(_same(found, 0.0))} failed everywhere{steady}."
    )


def _same(found: Matrix, rate: float) -> list[MatrixRow]:
    return [row for row in found.rows if row.rate == rate]


def _columns(found: Matrix) -> Iterator[str]:
    yield from ("| # | Run | Passed | Rate | Always | Sometimes | Never |", "|--:|---|--:|--:|--:|--:|--:|")
    for number, one in enumerate(found.columns, 1):
        rate = percent(one.passed / one.trials) if one.trials else ""
        counts = " | ".join(map(str, (one.always, one.sometimes, one.never)))
        name = inline.cell(inline.name(one_line(one.name)))
        yield f"| {number} | {name} | {one.passed} of {one.trials} | {rate} | {counts} |"


def _table(rows: Sequence[MatrixRow], columns: Sequence[MatrixColumn]) -> Iterator[str]:
    yield f"| Eval | {' | '.join(map(str, range(1, len(columns) + 1)))} | Rate |"
    yield f"|---|{':-:|' * len(columns)}--:|"
    for row in rows[:MOST_ROWS]:
        cells = " | ".join(_cell(cell) for cell in row.cells)
        yield f"| {inline.cell(inline.path(one_line(row.eval)))} | {cells} | {percent(row.rate or 0.0)} |"
    if len(rows) > MOST_ROWS:
        yield f"\nAnd {len(rows) - MOST_ROWS} more, which `--csv` and `--json` have."


def _cell(cell: tuple[int, int] | None) -> str:
    if cell is None:
        return ""
    passed, trials = cell
    return ("✓" if passed else "✗") if trials == 1 else f"{passed}/{trials}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_ROWS} more" if len(names) > MOST_ROWS else ""
    return inline.paths(map(one_line, names[:MOST_ROWS])) + more

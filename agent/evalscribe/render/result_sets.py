"""Result sets and their results as text."""

from collections.abc import Iterator

from evalscribe.model.result import Result, ResultCounts, ResultSet
from evalscribe.render.results import citations_line, field
from evalscribe.text import one_line, pluralise


def set_line(made: ResultSet, counts: ResultCounts) -> str:
    """`failures/causes/v1  29 results, 1 error, 2 pending  2026-11-21`."""
    told = [pluralise(counts.results, "result")]
    told += [pluralise(counts.errors, "error")] if counts.errors else []
    told += [f"{counts.pending} pending"] if counts.pending else []
    return f"{one_line(made.name)}  {', '.join(told)}  {made.created_at[:10]}"


def result_text(result: Result) -> str:
    """`7  task: 3` and what was answered, or why nothing was."""
    return "\n".join(_lines(result))


def _lines(result: Result) -> Iterator[str]:
    about = "; ".join(f"{name}: {value}" for name, value in result.user_metadata.items())
    yield f"{result.number}  {one_line(about)}".rstrip()
    if result.output is None:
        yield f"  no answer: {one_line(result.error)}" if result.error else "  not asked yet"
        return
    if set(result.output) == {"output", "citations"}:
        yield from field("answer", {"text": result.output["output"], "citations": result.output["citations"]})
    else:
        yield from (line for name, value in result.output.items() for line in field(name, value))
    yield f"  citations: {citations_line(result.citations)}"

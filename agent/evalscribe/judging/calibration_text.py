"""Render the agreement of judges with people as tables for a terminal."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from evalscribe.model.chat import Usage
from evalscribe.statistics.calibration import Calibration
from evalscribe.statistics.intervals import Interval
from evalscribe.text import dollars, printable

NONE = "-"
"""Shown for a share of nothing."""


def confusion(found: Calibration, corner: str) -> list[str]:
    """Render the confusion matrix: rows are people's labels, columns the judge's."""
    labels = [printable(label) for label in found.labels]
    first = max(map(len, (corner, *labels)))
    rows = ([str(found.confusion(truth, said)) for said in found.labels] for truth in found.labels)
    lines = zip((corner, *labels), (labels, *rows), strict=True)
    return [_row(name.ljust(first), cells, labels) for name, cells in lines]


def _row(name: str, cells: Iterable[str], heads: Iterable[str]) -> str:
    """Render a row with its cells right-aligned under their headings."""
    return name + "".join(f"  {cell.rjust(len(head))}" for cell, head in zip(cells, heads, strict=True))


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def span(interval: Interval) -> str:
    return ", ".join(f"{round(end, 2) + 0.0:.2f}" for end in interval)


def agreement(found: Calibration) -> str:
    """Render the agreement as `0.80 [0.38, 0.96]`; a dash if nothing was judged."""
    return NONE if found.agreement is None else f"{found.agreement:.2f} [{span(found.interval)}]"


def beyond_luck(found: Calibration) -> str:
    """Render kappa as `0.76 [0.64, 0.88]`; a dash if it is undefined."""
    return NONE if found.kappa is None else f"{found.kappa.value:.2f} [{span(found.kappa.interval)}]"


def side_by_side(judges: Mapping[str, Calibration], costs: Mapping[str, Usage] | None = None) -> list[str]:
    """Render a column for each judge: its agreement, per label too, and its cost if known."""
    rows = [["", *judges], *_figures(judges.values()), *_per_label(judges)]
    rows += _costs([costs[name] for name in judges]) if costs else []
    widths = [max(len(row[column]) for row in rows) for column in range(len(judges) + 1)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _figures(judges: Collection[Calibration]) -> Iterator[list[str]]:
    yield ["judged", *(f"{found.judged} of {len(found.pairs)}" for found in judges)]
    yield ["agreement", *map(agreement, judges)]
    yield ["agreement over all", *(share(found.agreement_over_all) for found in judges)]
    yield ["balanced accuracy", *(share(found.balanced) for found in judges)]
    yield ["Cohen's kappa", *map(beyond_luck, judges)]
    yield ["always the commonest", *(share(found.commonest) for found in judges)]


def _per_label(judges: Mapping[str, Calibration]) -> Iterator[list[str]]:
    labels = dict.fromkeys(label for found in judges.values() for label in found.labels)
    for label in labels:
        scores = [found.score(label) for found in judges.values()]
        yield [f"recall {printable(label)}", *(_part(one.hits, one.truths, one.recall) for one in scores)]
        yield [f"precision {printable(label)}", *(_part(one.hits, one.saids, one.precision) for one in scores)]


def _part(hits: int, number: int, value: float | None) -> str:
    return NONE if value is None else f"{value:.2f} ({hits}/{number})"


def _costs(usages: Collection[Usage]) -> Iterator[list[str]]:
    yield ["calls", *(str(usage.calls) for usage in usages)]
    yield ["tokens", *(f"{usage.input_tokens + usage.output_tokens:,}" for usage in usages)]
    yield ["cost", *(dollars(usage.cost_usd) for usage in usages)]

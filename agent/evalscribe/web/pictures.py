"""Diagrams as SVG, rendered on the server. Classes of the style sheet set the colours for light and dark pages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

from evalscribe.statistics.intervals import Interval, wilson_interval
from evalscribe.text import cut, one_line
from evalscribe.web.site import shown

WIDTH = 480
"""Width of a picture in SVG units. A unit is at most one CSS pixel."""
MOST_SERIES = 8
"""Maximum number of lines in one picture. The style sheet has a class for each: `series-0`, `series-1` and so on."""
MOST_BARS = 12
LONGEST_NAME = 30
CalibrationBin = tuple[float, float, float, float | None, int]
"""One range of confidence: lower bound, upper bound, mean stated confidence, observed agreement, number of verdicts.

The agreement is None if it is unknown.
"""


_interval = lru_cache(4096)(wilson_interval)  # Cached: every view of a page draws the same pictures, in 3 ms otherwise.


class RatePoint(NamedTuple):
    """The pass rate of one run."""

    date: str
    passed: int
    total: int

    @property
    def rate(self) -> float:
        return self.passed / self.total

    @property
    def interval(self) -> Interval:
        return _interval(self.passed, self.total)


class CountBar(NamedTuple):
    name: str
    value: int
    style: str = ""
    """CSS class of the bar, such as the name of a label."""


class _Frame(NamedTuple):
    """The area of a plot whose axes go from 0 to 1."""

    left: float
    top: float
    width: float
    height: float

    def x(self, value: float) -> float:
        return self.left + self.width * value

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value)


def percent(share: float) -> str:
    """Format a share as `62 %`, or as `62.5 %` if it is not a whole percentage."""
    return f"{share * 100:.1f}".removesuffix(".0") + " %"


def rates_over_time(series: Sequence[tuple[str, Sequence[RatePoint]]]) -> Markup:
    """Draw the pass rate of each model's runs with 95 % intervals.

    The runs are evenly spaced, in the order of their dates.

    Args:
        series: Name of each model with its runs. Only the first `MOST_SERIES` are drawn.
    """
    drawn = [(name, [point for point in points if point.total]) for name, points in series]
    drawn = [(name, points) for name, points in drawn if points][:MOST_SERIES]
    order = sorted(
        (point.date, number, at) for number, (_, points) in enumerate(drawn) for at, point in enumerate(points)
    )
    place = {(number, at): (index + 0.5) / len(order) for index, (_, number, at) in enumerate(order)}
    legend = list(_legend([name for name, _ in drawn]))
    frame = _Frame(46, 12, WIDTH - 58, 190)
    parts = [*_rate_axis(frame), *_dates(frame, [date for date, _, _ in order])]
    for number, (name, points) in enumerate(drawn):
        xs = [frame.x(place[number, at]) for at in range(len(points))]
        if len(points) > 1:
            line = " ".join(f"{x:.1f},{frame.y(point.rate):.1f}" for x, point in zip(xs, points, strict=True))
            parts.append(_element("polyline", {"points": line, "class": f"line series-{number}"}))
        for x, point in zip(xs, points, strict=True):
            text = f"{name}, {point.date}: {percent(point.rate)}, {point.passed} of {point.total} passed"
            low, high = point.interval
            bar = {"x1": x, "x2": x, "y1": frame.y(low), "y2": frame.y(high), "class": f"interval series-{number}"}
            parts.append(_group(_title(text), _element("line", bar), _marker(number, x, frame.y(point.rate))))
    runs = sum(len(points) for _, points in drawn)
    return _picture(
        "Pass rate over time",
        f"Pass rates of {runs} runs of {len(drawn)} models with 95 % intervals, by date. The table has the numbers.",
        246 + 20 * len(legend),
        [
            *parts,
            *(
                Markup('<g transform="translate(0 {})">{}</g>').format(246 + 20 * n, row)
                for n, row in enumerate(legend)
            ),
        ],
    )


def bars(title: str, rows: Sequence[CountBar]) -> Markup:
    """Draw a bar and its number for each row. Only the first `MOST_BARS` rows are drawn."""
    drawn = rows[:MOST_BARS]
    most = max((row.value for row in drawn), default=0) or 1
    left = 12 + max((_width(row.name) for row in drawn), default=0)
    parts = []
    for n, row in enumerate(drawn):
        top, width = 6 + n * 26, (WIDTH - left - 48) * row.value / most
        bar = {"x": left, "y": top, "width": width, "height": 18, "rx": 2, "class": f"bar {row.style}".strip()}
        parts.append(
            _group(
                _title(f"{row.name}: {row.value}"),
                _text(left - 8, top + 14, _short(row.name), "name"),
                _element("rect", bar),
                _text(left + width + 6, top + 14, str(row.value), "value"),
            )
        )
    described = "; ".join(f"{_short(row.name)}: {row.value}" for row in drawn)
    return _picture(title, f"{described}.", 12 + 26 * len(drawn), parts)


def calibration_curve(bins: Sequence[CalibrationBin]) -> Markup:
    """Draw stated confidence against the share of verdicts with which people agree, with 95 % intervals.

    A point on the diagonal means, for example, that verdicts with a confidence of 80 % are right 80 % of the time.
    """
    frame = _Frame(52, 12, 288, 240)
    parts = [*_rate_axis(frame)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_text(frame.x(share), frame.y(0) + 18, percent(share), "tick middle"))
    diagonal = {"x1": frame.x(0), "y1": frame.y(0), "x2": frame.x(1), "y2": frame.y(1), "class": "diagonal"}
    parts.append(_group(_title("Confidence and agreement are equal"), _element("line", diagonal)))
    measured = [(*item[:3], item[3], item[4]) for item in bins if item[3] is not None and item[4]]
    points = [(frame.x(confidence), frame.y(agreement)) for _, _, confidence, agreement, _ in measured]
    if len(points) > 1:
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(_element("polyline", {"points": line, "class": "line series-0"}))
    for (x, y), (low, high, confidence, agreement, number) in zip(points, measured, strict=True):
        text = (
            f"Confidence {percent(low)} to {percent(high)}: {percent(confidence)} on average, "
            f"agreement {percent(agreement)} of {number}"
        )
        ends = _interval(round(agreement * number), number)
        bar = {"x1": x, "x2": x, "y1": frame.y(ends.low), "y2": frame.y(ends.high), "class": "interval series-0"}
        parts.append(_group(_title(text), _element("line", bar), _marker(0, x, y)))
    parts.append(_text(frame.x(0.5), 288, "stated confidence", "axis middle"))
    parts.append(
        Markup('<g transform="translate(12 {}) rotate(-90)">{}</g>').format(
            f"{frame.y(0.5):.1f}", _text(0, 0, "people agree", "axis middle")
        )
    )
    return _picture(
        "Calibration",
        f"Stated confidence against agreement in {len(measured)} ranges of confidence; points below the diagonal are "
        "overconfident. The table has the numbers.",
        298,
        parts,
        width=360,
    )


def paired_differences(
    broke: int, fixed: int, unchanged: int, *, names: tuple[str, str] = ("broke", "fixed")
) -> Markup:
    """Draw a bar on each side of a line: evals that got worse on the left, evals that got better on the right.

    A text below states how many evals did not change.
    """
    most = max(broke, fixed, 1)
    middle, room = WIDTH / 2, WIDTH / 2 - 44
    parts = []
    for value, sign, style, name in ((broke, -1, "bad", names[0]), (fixed, 1, "good", names[1])):
        width = room * value / most
        bar = {"x": middle - width if sign < 0 else middle, "y": 28, "width": width, "height": 26, "rx": 2}
        parts.append(
            _group(
                _title(f"{value} {name}"),
                _element("rect", {**bar, "class": f"bar {style}"}),
                _text(middle + sign * (width + 8), 46, str(value), "value start" if sign > 0 else "value end"),
                _text(middle + sign * 8, 18, f"← {name}" if sign < 0 else f"{name} →", "start" if sign > 0 else "end"),
            )
        )
    parts.append(_element("line", {"x1": middle, "x2": middle, "y1": 6, "y2": 62, "class": "axis"}))
    parts.append(_text(middle, 80, f"{unchanged} unchanged", "tick middle"))
    title = f"{broke} {names[0]}, {fixed} {names[1]}"
    return _picture(title, f"{title}, {unchanged} unchanged.", 90, parts)


def _picture(title: str, description: str, height: float, parts: Iterable[Markup], *, width: int = WIDTH) -> Markup:
    return Markup(
        '<svg class="picture" xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {} {}" width="{}" height="{}" '
        'aria-label="{}"><title>{}</title><desc>{}</desc>{}</svg>'
    ).format(
        width,
        round(height),
        width,
        round(height),
        shown(title),
        shown(title),
        shown(description),
        Markup("").join(parts),
    )


def _element(name: str, attributes: Mapping[str, object], *children: Markup) -> Markup:
    pairs = Markup("").join(
        Markup(' {}="{}"').format(key, f"{value:.1f}".removesuffix(".0") if isinstance(value, float | int) else value)
        for key, value in attributes.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, pairs, Markup("").join(children))


def _group(*children: Markup) -> Markup:
    return Markup("<g>{}</g>").format(Markup("").join(children))


def _title(text: str) -> Markup:
    return Markup("<title>{}</title>").format(shown(one_line(text)))


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(f"{x:.1f}", f"{y:.1f}", style, shown(text))


def _short(name: str) -> str:
    return cut(one_line(name), LONGEST_NAME)


def _width(name: str) -> float:
    """Return the approximate width of a name in SVG units, assuming a font of common width."""
    return sum(10.0 if c.isupper() or c in "_mwMW@%" or not c.isascii() else 7.4 for c in _short(name))


def _rate_axis(frame: _Frame) -> Iterator[Markup]:
    """Draw horizontal lines at the quarters of a vertical axis from 0 to 100 %."""
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = frame.y(share)
        yield _element("line", {"x1": frame.x(0), "x2": frame.x(1), "y1": y, "y2": y, "class": "grid"})
        yield _text(frame.left - 6, y + 4, percent(share), "tick end")


def _dates(frame: _Frame, dates: Sequence[str]) -> Iterator[Markup]:
    """Write each date below the first run of that day. Dates for which there is no room are left out."""
    free = frame.left - 99.0
    for index, date in enumerate(dates):
        x = min(max(frame.x((index + 0.5) / len(dates)), frame.left + 30), frame.x(1) - 30)
        # An ISO date is about 74 units wide, by the estimate of `_width`, so 84 leaves a gap.
        if (index == 0 or date != dates[index - 1]) and x - free >= 84:
            yield _text(x, frame.y(0) + 18, _short(date), "tick middle")
            free = x


def _legend(names: Sequence[str]) -> Iterator[Markup]:
    row: list[Markup] = []
    x = 46.0
    for number, name in enumerate(names):
        width = 30 + _width(name)
        if row and x + width > WIDTH:
            yield _group(*row)
            row, x = [], 46.0
        row += [_marker(number, x, -4), _text(x + 10, 0, _short(name), "")]
        x += width
    if row:
        yield _group(*row)


def _marker(number: int, x: float, y: float) -> Markup:
    """Draw the marker of a series.

    There are four shapes, each filled or open; the series' CSS class sets the colour.
    """
    style = f"mark series-{number}{' open' if number >= 4 else ''}"
    if number % 4 == 0:
        return _element("circle", {"cx": x, "cy": y, "r": 4.5, "class": style})
    if number % 4 == 1:
        return _element("rect", {"x": x - 4, "y": y - 4, "width": 8, "height": 8, "class": style})
    corners = ((0, -5.5), (5, 4), (-5, 4)) if number % 4 == 2 else ((0, -6), (6, 0), (0, 6), (-6, 0))
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return _element("polygon", {"points": points, "class": style})

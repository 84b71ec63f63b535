"""Charts are well-formed SVG with escaped text."""

from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from evalscribe.web.pictures import (
    CalibrationBin,
    CountBar,
    RatePoint,
    bars,
    calibration_curve,
    paired_differences,
    rates_over_time,
)

HOSTILE = "</text><script>alert(1)</script>\u202e\"'&\x00\x1b[31m\ud800 onload=x"
SVG = "{http://www.w3.org/2000/svg}"


def parse(svg: Markup) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title") is not None
    assert root.find(f"{SVG}desc") is not None
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in {
            *("svg", "title", "desc", "g", "text", "line", "polyline", "polygon", "rect", "circle")
        }
        assert not {name for name in element.attrib if name == "style" or name.startswith("on") or "href" in name}
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def titles(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.findall(f".//{SVG}g/{SVG}title")]


def test_calibration_curve_has_a_point_for_each_range_with_decisions() -> None:
    bins: list[CalibrationBin] = [(0.5, 0.6, 0.55, 0.4, 5), (0.8, 0.9, 0.86, None, 3), (0.9, 1.0, 0.97, 0.975, 40)]
    root = parse(calibration_curve(bins))
    assert titles(root) == [
        "Confidence and agreement are equal",
        "Confidence 50 % to 60 %: 55 % on average, agreement 40 % of 5",
        "Confidence 90 % to 100 %: 97 % on average, agreement 97.5 % of 40",
    ]
    assert len(root.findall(f".//{SVG}circle")) == 2


def test_pass_rates_are_drawn_per_model_in_date_order() -> None:
    series = [
        ("a/one", [RatePoint("2026-01-01", 3, 4), RatePoint("2026-03-01", 4, 4)]),
        (HOSTILE, [RatePoint("2026-02-01", 1, 3), RatePoint("2026-02-02", 0, 0)]),
    ]
    root = parse(rates_over_time(series))
    assert [title for title in titles(root) if title.startswith("a/one")] == [
        "a/one, 2026-01-01: 75 %, 3 of 4 passed",
        "a/one, 2026-03-01: 100 %, 4 of 4 passed",
    ]
    circles = [float(circle.get("cx", "")) for circle in root.findall(f".//{SVG}circle")]
    squares = [float(square.get("x", "")) for square in root.findall(f".//{SVG}rect")]
    assert circles[0] < squares[0] < circles[1]
    assert {"2026-01-01", "2026-02-01", "2026-03-01", "a/one"} <= set(texts(root))


def test_bars_show_their_numbers() -> None:
    root = parse(bars("Failures", [CountBar("MODEL_FAULT", 12, "MODEL_FAULT"), CountBar(HOSTILE, 3)]))
    assert {"12", "3", "MODEL_FAULT"} <= set(texts(root))
    widths = [float(bar.get("width", "")) for bar in root.findall(f".//{SVG}rect")]
    assert widths[0] == pytest.approx(4 * widths[1], rel=0.01)


def test_paired_differences_show_both_directions() -> None:
    assert set(texts(parse(paired_differences(3, 1, 20)))) == {"3", "1", "← broke", "fixed →", "20 unchanged"}


@pytest.mark.parametrize(
    "svg", [rates_over_time([]), bars("none", []), calibration_curve([]), paired_differences(0, 0, 0)]
)
def test_charts_without_data_are_well_formed(svg: Markup) -> None:
    parse(svg)

from math import pi

import area
import pytest


def test_areas():
    assert area.circle(1) == pytest.approx(pi)
    assert area.square(3) == 9


def test_docstrings_are_one_line():
    for function in (area.circle, area.square):
        assert len(function.__doc__.strip().splitlines()) == 1


def test_negative_lengths_are_refused():
    with pytest.raises(ValueError):
        area.circle(-1)

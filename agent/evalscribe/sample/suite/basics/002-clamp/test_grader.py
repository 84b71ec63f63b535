import pytest
from clamp import clamp


@pytest.mark.parametrize(("value", "expected"), [(-1, 0), (0, 0), (5, 5), (10, 10), (11, 10)])
def test_stays_in_bounds(value, expected):
    assert clamp(value, 0, 10) == expected


def test_refuses_crossed_bounds():
    with pytest.raises(ValueError):
        clamp(1, 3, 2)

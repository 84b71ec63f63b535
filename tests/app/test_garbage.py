import gc

import pytest

from evalscribe.app.garbage import seldom_collected


def test_cycles_are_searched_for_as_before_whatever_happens() -> None:
    before = gc.get_threshold()
    with seldom_collected():
        assert gc.get_threshold()[0] >= 100_000
    with pytest.raises(ZeroDivisionError), seldom_collected():
        _ = 1 / 0
    assert gc.get_threshold() == before

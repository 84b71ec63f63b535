import gc

import pytest

from evalscribe.collections.importing import rare_garbage_collection


def test_cycles_are_searched_for_as_before_whatever_happens() -> None:
    before = gc.get_threshold()
    with rare_garbage_collection():
        assert gc.get_threshold()[0] >= 100_000
    with pytest.raises(ZeroDivisionError), rare_garbage_collection():
        _ = 1 / 0
    assert gc.get_threshold() == before

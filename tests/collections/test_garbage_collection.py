import gc

import pytest

from evalscribe.collections.importing import rare_garbage_collection


def test_garbage_collection_threshold_is_restored_after_an_error() -> None:
    before = gc.get_threshold()
    with rare_garbage_collection():
        assert gc.get_threshold()[0] >= 100_000
    with pytest.raises(ZeroDivisionError), rare_garbage_collection():
        _ = 1 / 0
    assert gc.get_threshold() == before

"""Python's search for cycles, kept out of the way of work that makes a million values and no cycle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 200_000
"""Values more than before that start a search; with the usual 700 a fifth of an import is searching."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(max(_SELDOM, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)

"""Programs and packages that tests require."""

import os
from typing import NoReturn

import pytest

REQUIRED = frozenset(os.environ.get("EVALSCRIBE_REQUIRE", "").split(","))


def skip_or_fail(need: str, missing: str = "") -> NoReturn:
    """Skip the test. If `EVALSCRIBE_REQUIRE` names the missing requirement, fail the test instead."""
    if need in REQUIRED:
        pytest.fail(f"{need} is required here and missing {missing}")
    pytest.skip(f"{need} is not installed {missing}")

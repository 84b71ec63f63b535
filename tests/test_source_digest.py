"""What of our own code decides something, as a content id."""

from pathlib import Path

import pytest

from evalscribe.source_digest import source_digest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "lint.py").write_text("LEAST = 1\n")
    (tmp_path / "ids.py").write_text("")
    return tmp_path


def test_a_change_below_a_package_changes_the_digest(package: Path) -> None:
    before = source_digest("rules", "ids", package=package)
    source_digest.cache_clear()
    assert source_digest("ids", "rules", package=package) == before
    (package / "rules" / "lint.py").write_text("LEAST = 2\n")
    source_digest.cache_clear()
    assert source_digest("rules", "ids", package=package) != before
    assert source_digest("ids", package=package) != before


def test_what_was_compiled_elsewhere_is_no_source(package: Path) -> None:
    before = source_digest("rules", package=package)
    (package / "rules" / "__pycache__").mkdir()
    (package / "rules" / "__pycache__" / "lint.cpython-311.pyc").write_bytes(b"\0")
    source_digest.cache_clear()
    assert source_digest("rules", package=package) == before


def test_a_module_that_there_is_not_is_refused(package: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no module gone"):
        source_digest("gone", package=package)

"""Files of other tools that hold whole runs. What a file is, its content says, never its name alone."""

from pathlib import Path

from evalscribe.ports import Records
from evalscribe.sources.imports.overrides import RunOverrides

__all__ = ["RunOverrides", "open_records"]


def open_records(path: Path, overrides: RunOverrides) -> Records:
    """The runs of a file. Raises `NotFoundError`, `AccessError`, or `DataError` naming what is understood."""
    from evalscribe.sources.imports.formats import opened

    return opened(path, overrides)

"""Settings to ports: the only module that names adapters. Each is imported where it is chosen."""

import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.ports import Library
from evalscribe.settings import Options, Settings, load
from evalscribe.wiring.stores import checkpoints, has_store, store

if TYPE_CHECKING:
    from evalscribe.sources.snapshot import SnapshotWriter

__all__ = ["Calendar", "checkpoints", "has_store", "library", "settings", "snapshot_writer", "store"]


class Calendar:
    """`ports.Clock` of this machine."""

    def today(self) -> date:
        return date.today()


def settings(options: Options) -> Settings:
    return load(options, Path.cwd(), os.environ)


def library(found: Settings) -> Library:
    from evalscribe.library import ReportsFolder

    return ReportsFolder(found.reports.value)


def snapshot_writer(folder: Path, run_id: str) -> "SnapshotWriter":
    from evalscribe.sources.snapshot import SnapshotWriter

    return SnapshotWriter(folder, run_id)

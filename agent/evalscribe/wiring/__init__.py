"""Settings to ports: the only module that names adapters. Each is imported where it is chosen."""

import os
from pathlib import Path

from evalscribe.ports import Library
from evalscribe.settings import Options, Settings, load
from evalscribe.wiring.stores import checkpoints, has_store, store
from evalscribe.workspace import Workspace

__all__ = ["checkpoints", "has_store", "library", "settings", "store", "workspace_of"]


def settings(options: Options) -> Settings:
    return load(options, Path.cwd(), os.environ)


def library(found: Settings) -> Library:
    from evalscribe.library import ReportsFolder

    return ReportsFolder(found.reports.value)


def workspace_of(found: Settings) -> Workspace:
    """A workspace with settings that were read already, for callers that do not take a workspace yet."""
    workspace = Workspace(folder=found.root)
    workspace.settings = found
    return workspace

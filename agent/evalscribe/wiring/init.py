"""What `evalscribe init` works with."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from evalscribe.app.init import Files
from evalscribe.library.new_files import NewFiles
from evalscribe.prompts import shipped

NAME = "evalscribe"


def files(folder: Path) -> Files:
    """Raises `DataError` for what can be no folder."""
    return NewFiles(folder)


def skills() -> Mapping[str, str]:
    """The text of every file of the skills that came with the package, by its path below their folder."""
    top = shipped("skills")
    found = (path for path in top.rglob("*") if path.is_file() and path.suffix in (".md", ".py"))
    return {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in found}


def command(folder: Path) -> str:
    """How editors start this evalscribe: by its path in a virtual environment of the workspace, else by its name."""
    script = shutil.which(NAME, path=str(Path(sys.executable).parent))
    inside = os.path.realpath(folder)
    if script and os.path.commonpath([inside, os.path.abspath(script)]) == inside:
        return Path(os.path.relpath(script, inside)).as_posix()
    return NAME

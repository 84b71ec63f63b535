"""The summary of a step in GitHub Actions: what a run came to, appended to the file that the runner names."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalscribe.model.experiment import ExperimentRun, RunReport
    from evalscribe.workspace import Workspace

VARIABLE = "GITHUB_STEP_SUMMARY"
MOST = 900_000
"""Bytes of the whole file; GitHub drops one of more than 1 MiB altogether."""
LEAST = 20_000
"""Bytes that are left for a run whatever else is in the file, as long as it stays below GitHub's own limit."""


def append(workspace: "Workspace", run: "ExperimentRun", report: "RunReport") -> None:
    """Nothing without such a file. One that cannot be written is told, and changes nothing else."""
    from evalscribe.cli.display import finish

    named = os.environ.get(VARIABLE)
    if not named:
        return
    try:
        _append(workspace, run, report, Path(named))
    except OSError as error:
        finish.say(f"Note: the step's summary cannot be written: {error.strerror or error}", file=sys.stderr)


def _append(workspace: "Workspace", run: "ExperimentRun", report: "RunReport", path: Path) -> None:
    from evalscribe.app.experiments.inspect import failures
    from evalscribe.experiments import run_pages

    room = MOST - (path.stat().st_size if path.exists() else 0)
    if room < LEAST:
        return
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in run_pages.markdown_lines(report, failures(workspace, run), room))

"""The sample: a small real eval suite, a recorded run of an imagined model, and an earlier report about that model;
two recorded runs of a small agent, a checkpoint each; and another agent in two builds, with tickets to try them on.
"""

from collections.abc import Iterable
from pathlib import Path

from evalscribe.settings.config import ReplayTable

HERE = Path(__file__).parent


def snapshot_folder() -> Path:
    """The recorded run, in the shape that the snapshot source reads."""
    return HERE / "run"


def suite_folder() -> Path:
    """The tasks with their reference answers and graders: `<category>/<name>/`."""
    return HERE / "suite"


GRADED_WITH = ("mypy", "pytest", "ruff")
"""Packages that grade an answer of the sample."""


def replay_table() -> ReplayTable:
    """Return the settings with which one answer of the sample is graded again."""
    # The commands end within a second. The limit only stops them on a machine that is starved of CPU time.
    return ReplayTable(command="{python} {suite}/grade.py {eval} {attempt}", suite=".", time_limit=1200)


def outputs_folder() -> Path:
    """What the imagined model wrote: `<category>/<name>/`."""
    return HERE / "outputs"


def checkpoints_file() -> Path:
    """Two checkpoints of a small agent, three trials of twelve tasks each, as `evalscribe export` writes runs."""
    return HERE / "checkpoints.jsonl"


def tickets_file() -> Path:
    """Questions to `support_agent` with what should be answered, as `evalscribe datasets upload` reads them."""
    return HERE / "tickets.jsonl"


def earlier_reports() -> Iterable[tuple[str, str]]:
    """Name, relative to a reports folder, and text of each earlier report."""
    folder = HERE / "reports"
    for path in sorted(folder.rglob("*.md")):
        yield path.relative_to(folder).as_posix(), path.read_text("utf-8")


def is_shipped(model_folder: str) -> bool:
    """Whether this folder below the reports folder is of a model of the sample."""
    return model_folder.startswith("example/sample-")

"""Which format a file has, by its content."""

from pathlib import Path

from evalscribe.errors import DataError
from evalscribe.ports import Records
from evalscribe.sources.imports.json_text import JsonText
from evalscribe.sources.imports.reading import Reading
from evalscribe.sources.imports.wish import Wish

UNDERSTOOD = (
    "Understood are tau-bench trajectories, Inspect logs (.eval, .json), JUnit XML, snapshots of Convex runs, "
    "and JSON lines of agent runs or of `evalscribe export`."
)


def opened(path: Path, wish: Wish) -> Records:
    """Raises `DataError` naming what is understood."""
    from evalscribe.sources.imports.export_lines import is_ours
    from evalscribe.sources.imports.exported import Exported
    from evalscribe.sources.imports.tau_bench import TauBench

    with Reading(path) as reading:
        text = JsonText(reading, str(path))
        first = text.peek()
        if first == "[":
            return TauBench(path, wish)
        if first == "{" and is_ours(text.value()):
            return Exported(path, wish)
    raise DataError(f"{path} holds no runs. {UNDERSTOOD}")

"""Which format a file has, by its content."""

from contextlib import closing
from pathlib import Path

from evalscribe.errors import DataError
from evalscribe.ports import Records
from evalscribe.sources.imports.json_text import JsonText
from evalscribe.sources.imports.reading import Reading
from evalscribe.sources.imports.wish import Wish
from evalscribe.sources.imports.zip_members import MAGIC, open_members

UNDERSTOOD = (
    "Understood are tau-bench trajectories, Inspect logs (.eval, .json), JUnit XML, snapshots of Convex runs, "
    "and JSON lines of agent runs or of `evalscribe export`."
)


def opened(path: Path, wish: Wish) -> Records:
    """Raises `DataError` naming what is understood."""
    with Reading(path) as reading:
        first = reading.read(4)
    if first == MAGIC:
        return _zipped(path, wish)
    with Reading(path) as reading:
        text = JsonText(reading, str(path))
        if text.peek() == "[":
            return _listed(path, wish, text)
        if text.peek() == "{":
            return _one(path, wish, text)
    raise DataError(f"{path} holds no runs. {UNDERSTOOD}")


def _zipped(path: Path, wish: Wish) -> Records:
    from evalscribe.sources.imports.inspect_log import HEADER, SAMPLES, START, EvalFile

    with closing(open_members(path)) as members:
        if any(name in (HEADER, START) or name.startswith(SAMPLES) for name in members.names):
            return EvalFile(path, wish)
    raise DataError(f"{path} is a zip file, but no Inspect log. {UNDERSTOOD}")


def _listed(path: Path, wish: Wish, text: JsonText) -> Records:
    from evalscribe.sources.imports.tau_bench import TauBench

    return TauBench(path, wish)


def _one(path: Path, wish: Wish, text: JsonText) -> Records:
    from evalscribe.sources.imports.export_lines import is_ours
    from evalscribe.sources.imports.exported import Exported
    from evalscribe.sources.imports.inspect_log import JsonFile

    if is_ours(text.value()):
        return Exported(path, wish)
    return JsonFile(path, wish)

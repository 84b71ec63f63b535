"""Which format a file has, by its content."""

from collections.abc import Container, Iterator
from contextlib import closing
from pathlib import Path

from evalscribe.errors import DataError
from evalscribe.ports import Records
from evalscribe.sources.imports.json_text import JsonText, decode
from evalscribe.sources.imports.overrides import RunOverrides
from evalscribe.sources.imports.reading import Reading
from evalscribe.sources.imports.zip_members import MAGIC, open_members

UNDERSTOOD = (
    "Understood are tau-bench trajectories and results of tau2-bench, Inspect logs (.eval, .json), JUnit XML, "
    "snapshots of Convex runs, and JSON lines of agent runs or of `evalscribe export`."
)


MOST_KEYS = 64
"""How many names of an object are looked at."""


def opened(path: Path, overrides: RunOverrides) -> Records:
    """Raises `DataError` naming what is understood."""
    with Reading(path) as reading:
        first = reading.read(4)
    if first == MAGIC:
        return _zipped(path, overrides)
    with Reading(path) as reading:
        text = JsonText(reading, str(path))
        begins = text.peek()
        found = {"<": _xml, "[": _listed, "{": _object}.get(begins)
        records = found(path, overrides, text) if found else None
    if records is None:
        raise DataError(f"{path} {'holds no runs' if begins else 'is empty'}. {UNDERSTOOD}")
    return records


def _zipped(path: Path, overrides: RunOverrides) -> Records:
    from evalscribe.sources.imports.inspect_log import HEADER, SAMPLES, START, EvalFile

    with closing(open_members(path)) as members:
        if any(name in (HEADER, START) or name.startswith(SAMPLES) for name in members.names):
            return EvalFile(path, overrides)
    raise DataError(f"{path} is a zip file, but no Inspect log. {UNDERSTOOD}")


def _xml(path: Path, overrides: RunOverrides, _: JsonText) -> Records | None:
    from evalscribe.sources.imports.junit import JUnit
    from evalscribe.sources.imports.xml_events import Start, events

    with Reading(path) as reading:
        root = next(events(reading, str(path)), None)
    return JUnit(path, overrides) if isinstance(root, Start) and root.tag in ("testsuites", "testsuite") else None


def _listed(path: Path, overrides: RunOverrides, text: JsonText) -> Records | None:
    first = next(text.elements(), None)
    if not isinstance(first, dict):
        return None
    if "traj" in first or ("task_id" in first and "reward" in first):
        from evalscribe.sources.imports.tau_bench import TauBench

        return TauBench(path, overrides)
    return _agent_runs(path, overrides, first, by_line=False)


def _object(path: Path, overrides: RunOverrides, text: JsonText) -> Records | None:
    """One object, whose names tell what it is, or one a line."""
    names = dict.fromkeys(_names(text))
    if "eval" in names and names.keys() & {"samples", "plan", "status"}:
        return _inspect(path, overrides)
    if "simulations" in names:
        from evalscribe.sources.imports.tau2_bench import Tau2Bench

        return Tau2Bench(path, overrides)
    if "run" in names and "failedEvals" in names:
        raise DataError(f"{path} is part of a snapshot: name its folder")
    return _by_line(path, overrides) or _agent_runs(path, overrides, names, by_line=False)


def _by_line(path: Path, overrides: RunOverrides) -> Records | None:
    """None where the first line is no whole object."""
    from evalscribe.sources.imports.export_lines import is_ours
    from evalscribe.sources.imports.exported import Exported
    from evalscribe.sources.imports.lines import first_line

    try:
        first = decode(first_line(path) or "")
    except DataError:
        return None
    if not isinstance(first, dict):
        return None
    return Exported(path, overrides) if is_ours(first) else _agent_runs(path, overrides, first, by_line=True)


def _inspect(path: Path, overrides: RunOverrides) -> Records:
    from evalscribe.sources.imports.inspect_log import JsonFile

    return JsonFile(path, overrides)


def _agent_runs(path: Path, overrides: RunOverrides, names: Container[str], *, by_line: bool) -> Records | None:
    from evalscribe.sources.imports.agent_runs import AgentRuns

    return AgentRuns(path, overrides, by_line=by_line) if "transcripts" in names or "messages" in names else None


def _names(text: JsonText) -> Iterator[str]:
    """The first names of an object, as far as they can be read."""
    try:
        for number, name in enumerate(text.names()):
            yield name
            if number == MOST_KEYS or name in ("samples", "simulations"):
                return
            text.skip()
    except DataError:
        return

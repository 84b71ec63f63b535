"""Open a file of runs, detecting the format by content."""

import os
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import closing
from pathlib import Path

from evalscribe.errors import AccessError, DataError, NotFoundError
from evalscribe.model.record import Record, Records
from evalscribe.model.run import Run
from evalscribe.sources.address import SUMMARY, RunOverrides
from evalscribe.sources.agent_runs import AgentRuns
from evalscribe.sources.export import ExportFile, is_export_line
from evalscribe.sources.files import ZIP_MAGIC, FileReader, first_line, open_members
from evalscribe.sources.inspect_log import HEADER, SAMPLES, START, EvalFile, JsonFile
from evalscribe.sources.junit import JUnit
from evalscribe.sources.streams import JsonStream, StartTag, decode_json, read_xml
from evalscribe.sources.tau_bench import Tau2Bench, TauBench

SUPPORTED = (
    "Supported formats: tau-bench trajectories and results of tau2-bench, Inspect logs (.eval, .json), JUnit XML, "
    "snapshots of Convex runs, and JSON lines of agent runs or of `evalscribe export`."
)


MAX_KEYS = 64
"""Maximum names of an object that are checked."""


def open_format(path: Path, overrides: RunOverrides) -> Records:
    """Open the file with the matching reader. Raises `DataError` listing the supported formats."""
    with FileReader(path) as reading:
        first = reading.read(4)
    if first == ZIP_MAGIC:
        return _zipped(path, overrides)
    with FileReader(path) as reading:
        text = JsonStream(reading, str(path))
        begins = text.peek()
        found = {"<": _xml, "[": _listed, "{": _object}.get(begins)
        records = found(path, overrides, text) if found else None
    if records is None:
        raise DataError(f"{path} {'contains no runs' if begins else 'is empty'}. {SUPPORTED}")
    return records


def _zipped(path: Path, overrides: RunOverrides) -> Records:

    with closing(open_members(path)) as members:
        if any(name in (HEADER, START) or name.startswith(SAMPLES) for name in members.names):
            return EvalFile(path, overrides)
    raise DataError(f"{path} is a zip file but not an Inspect log. {SUPPORTED}")


def _xml(path: Path, overrides: RunOverrides, _: JsonStream) -> Records | None:

    with FileReader(path) as reading:
        root = next(read_xml(reading, str(path)), None)
    return JUnit(path, overrides) if isinstance(root, StartTag) and root.tag in ("testsuites", "testsuite") else None


def _listed(path: Path, overrides: RunOverrides, text: JsonStream) -> Records | None:
    first = next(text.elements(), None)
    if not isinstance(first, dict):
        return None
    if "traj" in first or ("task_id" in first and "reward" in first):
        return TauBench(path, overrides)
    return _agent_runs(path, overrides, first, by_line=False)


def _object(path: Path, overrides: RunOverrides, text: JsonStream) -> Records | None:
    """Open a single object, identified by its names, or one object per line."""
    names = dict.fromkeys(_names(text))
    if "eval" in names and names.keys() & {"samples", "plan", "status"}:
        return _inspect(path, overrides)
    if "simulations" in names:
        return Tau2Bench(path, overrides)
    if "run" in names and "failedEvals" in names:
        raise DataError(f"{path} is part of a snapshot: give its folder")
    return _by_line(path, overrides) or _agent_runs(path, overrides, names, by_line=False)


def _by_line(path: Path, overrides: RunOverrides) -> Records | None:
    """Open a file with one object per line; None if the first line is not a complete object."""

    try:
        first = decode_json(first_line(path) or "")
    except DataError:
        return None
    if not isinstance(first, dict):
        return None
    return ExportFile(path, overrides) if is_export_line(first) else _agent_runs(path, overrides, first, by_line=True)


def _inspect(path: Path, overrides: RunOverrides) -> Records:

    return JsonFile(path, overrides)


def _agent_runs(path: Path, overrides: RunOverrides, names: Container[str], *, by_line: bool) -> Records | None:

    return AgentRuns(path, overrides, by_line=by_line) if "transcripts" in names or "messages" in names else None


def _names(text: JsonStream) -> Iterator[str]:
    """Yield the first names of an object, as far as they can be read."""
    try:
        for number, name in enumerate(text.names()):
            yield name
            if number == MAX_KEYS or name in ("samples", "simulations"):
                return
            text.skip()
    except DataError:
        return


def open_records(path: Path, overrides: RunOverrides) -> Records:
    """Open the runs of a file. Raises `NotFoundError`, `AccessError`, or `DataError` listing the supported formats."""

    return open_format(path, overrides)


def run_files(path: Path) -> tuple[Path, ...]:
    """Return every file below a folder, sorted by name, skipping links and hidden files.

    A snapshot counts as one entry.

    Raises:
        AccessError: A folder may not be read.
        NotFoundError: The folder contains no files.
    """
    found = tuple(_below(path))
    if not found:
        raise NotFoundError(f"{path} has no files")
    return found


def _below(folder: Path) -> list[Path]:
    if (folder / SUMMARY).is_file():
        return [folder]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except PermissionError:
        raise AccessError(f"no permission to read {folder}") from None
    found: list[Path] = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            found += _below(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            found.append(Path(entry.path))
    return found


EXPLICIT = ("evalscribe",)
"""Formats whose files describe their run completely."""


def keep_stated_models(
    read: Iterator[Run | Record], known: Callable[[str], Run | None], said: Collection[str]
) -> Iterator[Run | Record]:
    """Give runs that are already stored their stored provider, model and experiment, unless the user overrode them."""
    agents: dict[str, tuple[Run, Run]] = {}
    for one in read:
        if isinstance(one, Run):
            kept = _kept(one, known(one.id), said)
            agents[one.id] = (one, kept)
            yield kept
        else:
            yield _of(one, *agents[one.run_id]) if one.run_id in agents else one


def _kept(run: Run, known: Run | None, said: Collection[str]) -> Run:
    if known is None:
        return run
    stays = {"provider": known.provider, "model": known.model, "experiment": known.experiment}
    return run.model_copy(update={name: value for name, value in stays.items() if name not in said})


def _of(record: Record, read: Run, kept: Run) -> Record:
    """Update the agent named by a record with its run's, if the reader took it from the run."""
    if record.metadata.get("agent") != _agent(read) or _agent(read) == _agent(kept):
        return record
    return record.model_copy(update={"metadata": {**record.metadata, "agent": _agent(kept)}})


def _agent(run: Run) -> dict[str, str]:
    return {"model_name": run.model, "provider": run.provider}

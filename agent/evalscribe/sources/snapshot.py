"""Runs kept as files: `failed_evals.json` and `debug/<evalId>.json` in one folder. Nothing else there is read."""

import asyncio
import json
import os
import re
import stat
import tempfile
from pathlib import Path

from evalscribe.errors import AccessError, DataError, NotFoundError, UsageError
from evalscribe.evidence import Unreadable
from evalscribe.sources.address import SUMMARY
from evalscribe.sources.json_value import members, optional_text, parse
from evalscribe.sources.links import Links
from evalscribe.sources.payload_source import OneEvalFailed, PayloadSource

DEBUG = "debug"
LARGEST = 64 * 1024 * 1024
"""Bytes; a deployment's answers end at 16 MiB before escaping."""
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def open_snapshot(folder: Path, links: Links) -> PayloadSource:
    return PayloadSource(SnapshotPayloads(folder), links, str(folder / SUMMARY))


class SnapshotPayloads:
    """Reads a snapshot; neither eval ids nor symbolic links lead out of its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder.resolve()

    async def summary(self) -> object:
        return await asyncio.to_thread(_read_summary, self._root, self._folder)

    async def debug(self, eval_id: str) -> object:
        return await asyncio.to_thread(_read_debug, self._root, eval_id)

    async def close(self) -> None:
        return None


class SnapshotWriter:
    """Writes one run's redacted payloads; each file whole or not at all, the summary last."""

    def __init__(self, folder: Path, run_id: str) -> None:
        """Raises `UsageError` where the folder holds another run or is no folder."""
        self._folder = folder
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file: name a new folder")
        if (folder / DEBUG).is_symlink():
            raise UsageError(f"{folder / DEBUG} leads elsewhere: name a new folder")
        held = _held_run(folder)
        if held not in (None, run_id):
            raise UsageError(f"{folder} holds run {held}, not {run_id}: name a new folder")

    def put(self, eval_id: str, payload: object | Unreadable) -> None:
        """One eval; what could not be read is kept as the reason, so that reading the snapshot says the same."""
        if isinstance(payload, Unreadable):
            payload = {"error": payload.reason}
        _write(self._folder / DEBUG / _debug_name(eval_id), payload)

    def finish(self, summary: object) -> None:
        """The summary, which makes the folder a snapshot."""
        _write(self._folder / SUMMARY, summary)


def _held_run(folder: Path) -> str | None:
    if not (folder / SUMMARY).exists():
        return None
    try:
        summary = members(_read_summary(folder.resolve(), folder), SUMMARY)
        return optional_text(members(summary.get("run"), "`run`"), "_id") or "without an id"
    except DataError as error:
        raise UsageError(f"{folder} holds an unreadable {SUMMARY} ({error}): name a new folder") from None


def _read_summary(root: Path, folder: Path) -> object:
    path = root / SUMMARY
    try:
        return parse(_read(path, root))
    except FileNotFoundError:
        raise NotFoundError(f"{folder} is no snapshot of a run: it has no {SUMMARY}") from None
    except PermissionError:
        raise AccessError(f"{folder / SUMMARY} may not be read") from None
    except (OSError, DataError) as error:
        raise DataError(f"{folder / SUMMARY}: {_reason(error)}") from None


def _read_debug(root: Path, eval_id: str) -> object:
    try:
        return parse(_read(root / DEBUG / _debug_name(eval_id), root))
    except FileNotFoundError:
        raise OneEvalFailed(f"the snapshot has no {DEBUG}/{eval_id}.json") from None
    except (OSError, DataError) as error:
        raise OneEvalFailed(f"the snapshot's file for this eval: {_reason(error)}") from None


def _debug_name(eval_id: str) -> str:
    if not _FILE_NAME.fullmatch(eval_id):
        raise DataError("its id cannot be a file name")
    return f"{eval_id}.json"


def _read(path: Path, root: Path) -> bytes:
    """A regular file inside `root`, of bounded size. A pipe is opened without waiting for its other end."""
    if not path.resolve().is_relative_to(root):
        raise DataError("a symbolic link leads out of the snapshot")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DataError("no regular file")
        if status.st_size > LARGEST:
            raise DataError(f"larger than {LARGEST // 1024 // 1024} MiB")
        return file.read()


def _write(path: Path, payload: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(payload, file, ensure_ascii=False, indent=2)
            file.write("\n")
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)

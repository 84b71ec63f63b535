"""Read and write runs that are stored locally, in snapshot folders or in the store."""

import asyncio
import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.errors import AccessError, DataError, NotFoundError, UsageError
from evalscribe.json_data import optional_text_field, parse_json, require_object
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.record import evidence_of
from evalscribe.model.run import Eval, Run
from evalscribe.sources.address import SUMMARY, Links
from evalscribe.sources.convex_payload import EvalPayloadError, PayloadSource

# Importing the store loads SQLAlchemy, which takes 0.3 s. A snapshot is read without the store.
if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore
    from evalscribe.store.records import RunStore

DEBUG = "debug"
LARGEST = 64 * 1024 * 1024
"""Maximum number of bytes in a snapshot file.

A deployment's answer has at most 16 MiB before escape sequences make it longer.
"""
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def open_snapshot(folder: Path, links: Links) -> PayloadSource:
    return PayloadSource(SnapshotPayloads(folder), links, str(folder / SUMMARY))


class SnapshotPayloads:
    """Reads a snapshot.

    Neither an eval id nor a symbolic link can lead to a file outside the snapshot's folder.
    """

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
    """Writes the redacted payloads of one run.

    Each file is written atomically, and the summary is written last.
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        """Check the folder. Raises `UsageError` if it contains a different run or is not a folder."""
        self._folder = folder
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file: give a new folder")
        if (folder / DEBUG).is_symlink():
            raise UsageError(f"{folder / DEBUG} points outside the folder: give a new folder")
        existing_run_id = snapshot_run_id(folder)
        if existing_run_id not in (None, run_id):
            raise UsageError(f"{folder} contains run {existing_run_id}, not {run_id}: give a new folder")

    def put(self, eval_id: str, payload: object | UnreadableEvidence) -> None:
        """Write the payload of an eval, or the reason why its evidence is unreadable.

        Reading the snapshot then has the same result as reading the source.
        """
        if isinstance(payload, UnreadableEvidence):
            payload = {"error": payload.reason}
        _write(self._folder / DEBUG / _debug_name(eval_id), payload)

    def finish(self, summary: object) -> None:
        """Write the summary. The folder becomes a snapshot only when it contains the summary."""
        _write(self._folder / SUMMARY, summary)


def snapshot_run_id(folder: Path) -> str | None:
    """Return the id of the run in a snapshot; None if the folder is not a snapshot.

    Raises `UsageError` if the snapshot is unreadable.
    """
    if not (folder / SUMMARY).exists():
        return None
    try:
        summary = require_object(_read_summary(folder.resolve(), folder), SUMMARY)
        return optional_text_field(require_object(summary.get("run"), "`run`"), "_id") or "without an id"
    except DataError as error:
        raise UsageError(f"{folder} contains an unreadable {SUMMARY} ({error}): give a new folder") from None


def _read_summary(root: Path, folder: Path) -> object:
    path = root / SUMMARY
    try:
        return parse_json(_read(path, root))
    except FileNotFoundError:
        raise NotFoundError(f"{folder} is not a snapshot of a run: it has no {SUMMARY}") from None
    except PermissionError:
        raise AccessError(f"no permission to read {folder / SUMMARY}") from None
    except (OSError, DataError) as error:
        raise DataError(f"{folder / SUMMARY}: {_reason(error)}") from None


def _read_debug(root: Path, eval_id: str) -> object:
    try:
        return parse_json(_read(root / DEBUG / _debug_name(eval_id), root))
    except FileNotFoundError:
        raise EvalPayloadError(f"the snapshot has no {DEBUG}/{eval_id}.json") from None
    except (OSError, DataError) as error:
        raise EvalPayloadError(f"the snapshot's file for this eval: {_reason(error)}") from None


def _debug_name(eval_id: str) -> str:
    if not _FILE_NAME.fullmatch(eval_id):
        raise DataError("the id of the eval cannot be a file name")
    return f"{eval_id}.json"


def _read(path: Path, root: Path) -> bytes:
    """Read a regular file of at most `LARGEST` bytes inside `root`. Does not block if the path is a pipe."""
    if not path.resolve().is_relative_to(root):
        raise DataError("a symbolic link points outside the snapshot")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DataError("not a regular file")
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
        # Replacing a file is atomic. It also replaces a symbolic link instead of writing to the link's target.
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


class StoredSource:
    """Reads a run from the store only. The content of the store is already redacted."""

    def __init__(self, store: "AnalysisStore", run_store: "RunStore", run_id: str) -> None:
        """Store the arguments. The caller remains responsible for closing `store` and `run_store`."""
        self._store = store
        self._run_store = run_store
        self._run_id = run_id

    async def run(self) -> Run:
        run = self._store.get_run(self._run_id)
        if run is None:
            raise NotFoundError(f"run {self._run_id} not found in the store")
        return run

    async def evidence(self, eval: Eval) -> Evidence | UnreadableEvidence:
        """Return the evidence of an eval.

        For an imported eval, the evidence comes from the imported record. For any other eval, the evidence comes from
        an earlier analysis.
        """
        record = self._run_store.record(eval.id, run_id=self._run_id)
        if record is not None:
            return evidence_of(record)
        stored = self._store.get_evidence(self._run_id, eval.id)
        return stored or UnreadableEvidence(eval=eval, reason="its evidence is not in the store")

    async def close(self) -> None:
        return None

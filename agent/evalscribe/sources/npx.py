"""The original way: `npx convex run --prod …` in a folder where somebody is logged in."""

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Literal

from evalscribe.errors import AccessError, DataError, UsageError
from evalscribe.sources.deployment import DeploymentPayloads, FunctionFailed, NoAnswer
from evalscribe.sources.json_value import parse
from evalscribe.sources.links import Links
from evalscribe.sources.payload_source import PayloadSource
from evalscribe.sources.shown import shown

TIMEOUT = 180.0
"""Seconds for one call; a first call may have to install the command."""
AT_ONCE = 4
_NOT_LOGGED_IN = ("no convex_deployment set", "not logged in", "npx convex login", "missingaccesstoken", "badadminkey")


def open_npx(folder: Path, run_id: str, links: Links, timeout: float = TIMEOUT) -> PayloadSource:
    """Raises `UsageError` where `npx convex run` cannot work in the folder."""
    if not folder.is_dir():
        raise UsageError(f"--convex-dir {folder} is no folder")
    if not (folder / "package.json").is_file():
        raise UsageError(f"{folder} has no package.json: --convex-dir names the folder in which `npx convex run` works")
    functions = ConvexNpx(folder, timeout)
    return PayloadSource(DeploymentPayloads(functions, run_id), links, functions.where)


class ConvexNpx:
    """Calls functions by the command line tool, without a shell (`deployment.Functions`)."""

    has_key = True
    """Whoever is logged in there counts as one."""

    def __init__(self, folder: Path, timeout: float = TIMEOUT) -> None:
        self.where = f"npx convex in {folder}"
        self._folder = folder
        self._timeout = timeout
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def call(
        self,
        kind: Literal["query", "action"],  # noqa: ARG002
        path: str,
        args: dict[str, str],
    ) -> object:
        """See `Functions`; the tool finds out for itself whether `path` is a query or an action."""
        async with self._slots:
            code, output, errors = await self._run(path, json.dumps(args))
        if code != 0:
            raise self._failure(errors.decode("utf-8", "replace"))
        if not output.strip():
            return None  # how the tool prints null
        try:
            return parse(output)
        except DataError as error:
            raise NoAnswer(f"npx convex printed something else than the result: {error}") from None

    async def close(self) -> None:
        return None

    async def _run(self, path: str, args: str) -> tuple[int, bytes, bytes]:
        process = await self._start(path, args)
        try:
            async with asyncio.timeout(self._timeout):
                output, errors = await process.communicate()
        except TimeoutError:
            raise NoAnswer(f"npx convex did not end within {self._timeout:g} s") from None
        finally:
            await _end(process)
        return process.returncode or 0, output, errors

    async def _start(self, path: str, args: str) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *("npx", "convex", "run", "--prod", path, args),
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "CI": "1"},  # without CI the tool reports its use to a third party
                start_new_session=True,
            )
        except FileNotFoundError:
            raise UsageError(
                "npx is not installed: install Node.js, or set CONVEX_DEPLOY_KEY and leave out --via"
            ) from None
        except OSError as error:
            raise UsageError(f"npx cannot be started: {error.strerror}") from None

    def _failure(self, message: str) -> Exception:
        if any(sign in message.lower() for sign in _NOT_LOGGED_IN):
            return AccessError(f"{self.where} has no access: {shown(message)}\nrun `npx convex login` there first")
        return FunctionFailed(shown(message) or "it gives no reason")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the process and of those it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

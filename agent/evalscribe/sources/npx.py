"""Read runs with the command `npx convex run`.

The command works in a folder with a Convex login, or in a folder that sets a deployment and its key.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError, UsageError
from evalscribe.json_data import optional_text_field, parse_json
from evalscribe.redaction.redact import safe_message
from evalscribe.settings.access import DEPLOY_KEYS, SELF_HOSTED_URL, missing_key
from evalscribe.settings.config import ENV_FILES, FOLDER, read_env_file
from evalscribe.sources.address import Links
from evalscribe.sources.convex import DeploymentPayloads, FunctionFailed, FunctionUnavailable, refuses_access
from evalscribe.sources.convex_payload import PayloadSource

TIMEOUT = 180.0
"""Time limit for one call, in seconds."""
AT_ONCE = 4
MOST_WARNINGS = 100
"""Maximum number of positions in the standard output from which `_result` tries to parse a value.

There can be several positions, because warnings can precede the value.
"""
_DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_NOISE = re.compile(r"npm (?:notice|warn)\b|Ignoring `--prod`|This is determined by the permissions|\(node:\d+\)", re.I)
"""Matches lines of standard error that are not part of the reason for an error.

Such lines are written by npm, by Node.js or by the Convex command line tool.
"""
_WRAPPER = re.compile(r'Failed to run function "[^"\n]*":\n(?:Error: )?')
_ANSWER = re.compile(r'^\{"code": *".*\}$', re.DOTALL)
"""Matches the answer of a deployment that refused a call. The tool prints such an answer unchanged."""
# The tool's exit code is 1 for every failure. Only a refusal by the deployment states a code, as part of its text.
_LOGIN = re.compile(
    r"No CONVEX_DEPLOYMENT set|not logged in|npx convex login|MissingAccessToken|AccessTokenInvalid"
    r"|Authenticate with|401 Unauthorized",
    re.IGNORECASE,
)
_KEY = ("BadAdminKey", "BadDeployKey", "InvalidAdminKey", "InvalidAuthHeader", "403 Forbidden")
_PERMISSION = "You do not have permission"
_SETTING = (
    "CONVEX_DEPLOYMENT must not be set",
    "Please set CONVEX_DEPLOY_KEY",
    "did not contain environment variables",
    "cannot be used with a self-hosted deployment",
    "add `convex` to your package.json",
    "could not determine executable",
    "npx canceled",
)
_NO_NETWORK = re.compile(r"fetch failed|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def open_npx(
    folder: Path,
    run_id: str,
    links: Links,
    timeout: float = TIMEOUT,
    *,
    settings: Mapping[str, str] | None = None,
    env_path: Path | None = None,
) -> PayloadSource:
    """Return a source that reads a run with `npx convex run` in a folder.

    Args:
        settings: CONVEX_* variables for the tool. These variables take precedence over variables that are set in files
            of the folder.
        env_path: A file of variables that is used instead of the environment and the folder's .env files.

    Raises:
        UsageError: `npx convex run` cannot work in the folder.
        AccessError: The key is still a placeholder.
    """
    _require_convex(folder)
    functions = ConvexNpx(folder, timeout, settings=settings, env_path=env_path)
    return PayloadSource(DeploymentPayloads(functions, run_id), links, functions.where)


def _require_convex(folder: Path) -> None:
    """Raise `UsageError` unless the package `convex` is installed.

    If `convex` were not installed, npx would download a package with that name.
    """
    if not folder.is_dir():
        raise UsageError(f"`convex_dir` {folder} is not a folder", fields=("convex_dir",))
    package = folder / "package.json"
    if not package.is_file():
        raise UsageError(
            f"{folder} has no package.json: `convex_dir` must be the folder where `npx convex run` works",
            fields=("convex_dir",),
        )
    try:
        package_json = parse_json(package.read_bytes())
    except (OSError, DataError):
        raise UsageError(
            f"{package} cannot be read: `convex_dir` must be a folder with a package.json", fields=("convex_dir",)
        ) from None
    tables = [package_json.get(name) for name in _DEPENDENCIES] if isinstance(package_json, dict) else []
    if not any(isinstance(table, dict) and "convex" in table for table in tables):
        raise UsageError(
            f"{package} does not list `convex`: `convex_dir` must be a folder whose package.json lists `convex`",
            fields=("convex_dir",),
        )
    installed = (parent / "node_modules" / "convex" for parent in (folder.resolve(), *folder.resolve().parents))
    if not any(path.is_dir() for path in installed):
        raise UsageError(
            f"`convex` is not installed in {folder}\nrun `npm install` (or `bun install`) in that folder first"
        )


class ConvexNpx:
    """Calls Convex functions with the command line tool. Implements `ConvexFunctions`.

    No shell is involved.
    """

    has_key = True
    """Always True, because a login in the folder counts as a key."""
    chosen_by = ".env.local in `convex_dir`"

    def __init__(
        self,
        folder: Path,
        timeout: float = TIMEOUT,
        *,
        settings: Mapping[str, str] | None = None,
        env_path: Path | None = None,
    ) -> None:
        self.where = f"npx convex in {folder}"
        self._folder = folder
        self._timeout = timeout
        self._slots = asyncio.Semaphore(AT_ONCE)
        # Without CI, the tool sends usage data to a third party.
        self._environment = {**os.environ, **(settings or {}), "CI": "1"}
        self._options = self._deployment_options(env_path)

    async def call(
        self,
        kind: Literal["query", "action"],  # noqa: ARG002
        path: str,
        args: dict[str, str],
    ) -> object:
        """Call a function, as described in `ConvexFunctions`.

        The tool itself finds out whether `path` is a query or an action.
        """
        async with self._slots:
            code, output, errors = await self._run(path, json.dumps(args))
        if code != 0:
            raise self._failure(errors.decode("utf-8", "replace"))
        if not output.strip():
            # The tool prints nothing for null.
            return None
        return _result(output)

    async def close(self) -> None:
        return None

    def _deployment_options(self, env_path: Path | None) -> tuple[str, ...]:
        """Return the command line options that select the deployment.

        Like the tool, this function looks for keys first in the environment, then in .env.local, and finally in .env.
        """
        names = (*DEPLOY_KEYS, SELF_HOSTED_URL)
        paths = [env_path] if env_path else [self._folder / name for name in ENV_FILES]
        places = [read_env_file(path, str(path), FOLDER, names) for path in paths if env_path or path.is_file()]
        values = {name: setting.value for place in reversed(places) for name in names if (setting := place.get(name))}
        if env_path is None:
            values |= {name: self._environment[name] for name in names if name in self._environment}
        key = next((value for name in DEPLOY_KEYS if (value := values.get(name))), "")
        if problem := missing_key(key):
            raise AccessError(f"{self.where}: {problem}")
        env_options = ("--env-file", str(env_path.resolve())) if env_path else ()
        # With a login, the tool uses the development deployment unless `--prod` is given. A deploy key names its own
        # deployment, and the tool refuses the option for a self-hosted one.
        names_itself = key.startswith(("prod:", "dev:")) or bool(values.get(SELF_HOSTED_URL))
        return env_options if names_itself else (*env_options, "--prod")

    async def _run(self, path: str, args: str) -> tuple[int, bytes, bytes]:
        starting = asyncio.ensure_future(self._start(path, args))
        try:
            # Without the shield, asyncio would only kill npx itself when this task is cancelled here.
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(UsageError):
                await _end(await starting)
            raise
        try:
            async with asyncio.timeout(self._timeout):
                output, errors = await process.communicate()
        except TimeoutError:
            raise FunctionUnavailable(f"npx convex did not end within {self._timeout:g} s") from None
        finally:
            await _end(process)
        return process.returncode or 0, output, errors

    async def _start(self, path: str, args: str) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                # npx must not download a package named `convex` and run it.
                *("npx", "--no-install", "convex", "run", *self._options, path, args),
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                # npx starts further processes. In a session of their own, `_end` can kill all of them.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise UsageError(
                "npx is not installed: install Node.js, or set CONVEX_DEPLOY_KEY and leave out `via`", fields=("via",)
            ) from None
        except OSError as error:
            raise UsageError(f"npx cannot be started: {error.strerror}") from None

    def _failure(self, stderr: str) -> EvalscribeError | FunctionFailed | FunctionUnavailable:
        """Return the error for a failed call, based on the tool's output.

        The error is the same as for a failed call over HTTP.
        """
        message, ran = _reason(stderr)
        if message.startswith("[Request ID"):
            # The function itself raised this error, so its text can be anything.
            return FunctionFailed(message)
        safe_reason = safe_message(message) or "no reason given"
        if _PERMISSION in message or any(code in message for code in _KEY):
            return refuses_access(self.where, safe_reason.removesuffix('"}'))
        if _LOGIN.search(message):
            return AccessError(
                f"{self.where} is not logged in: {safe_reason}\nrun `npx convex login` in that folder, or set "
                "CONVEX_DEPLOY_KEY"
            )
        if any(sign in message for sign in _SETTING):
            return UsageError(f"{self.where}: {safe_reason}")
        if _NO_NETWORK.search(message):
            return UnavailableError(f"{self.where} cannot reach the deployment: {safe_reason}\ncheck the network")
        return FunctionFailed(safe_reason) if ran else FunctionUnavailable(safe_reason)


def _reason(stderr: str) -> tuple[str, bool]:
    """Return the reason in the tool's output, and whether the function itself failed.

    If the deployment refused the call, the tool prints the refusal as JSON. The reason is then `code: message`, the
    same as over HTTP.
    """
    lines = [line for line in _COLOUR.sub("", stderr).splitlines() if line.strip() and not _NOISE.match(line.strip())]
    text = "\n".join(line.removeprefix("✖ ") for line in lines).strip()
    ran = _WRAPPER.search(text)
    message = text[ran.end() :].strip() if ran else text
    if not _ANSWER.match(message):
        return message, bool(ran)
    try:
        answer = parse_json(message.encode())
    except DataError:
        return message, False
    pair = (
        (optional_text_field(answer, "code"), optional_text_field(answer, "message"))
        if isinstance(answer, dict)
        else ()
    )
    return ": ".join(filter(None, pair)) or message, False


def _result(output: bytes) -> object:
    """Parse the value that the tool printed.

    Warnings can precede the value. The value starts at the beginning of a line and extends to the end of the output.
    Raises `FunctionUnavailable` if there is no value.
    """
    text = output.decode("utf-8", "replace").strip()
    starts = [0, *(match.start() + 1 for match in re.finditer(r"\n(?=[{\[n])", text))]
    for start in starts[:MOST_WARNINGS]:
        with contextlib.suppress(DataError):
            return parse_json(text[start:].encode())
    raise FunctionUnavailable(f"npx convex printed something other than a result: {safe_message(text[:200])}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a process and all processes that it started."""
    # The process can have ended before its children, which then hold its output open.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()

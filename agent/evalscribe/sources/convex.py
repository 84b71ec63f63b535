"""Read runs from a Convex deployment over HTTP."""

import asyncio
import random
import re
from collections.abc import Mapping
from typing import Literal, Protocol

import httpx2
from pydantic import SecretStr

from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError, UnavailableError
from evalscribe.ids import Frozen
from evalscribe.json_data import JsonObject, optional_text_field, parse_json
from evalscribe.redaction.redact import safe_message
from evalscribe.settings.http import MIB, AnswerLimits, AnswerTooLarge, explain_connection_errors, limit_answers
from evalscribe.sources.address import Links, is_document_id
from evalscribe.sources.convex_payload import EvalPayloadError, PayloadSource

SUMMARY = "debugQueries:getFailedEvalsForRun"
DEBUG = "debug:getEvalDebugInfo"
UNKNOWN_RUN, UNKNOWN_EVAL = "jn700000000000000000000000001rx8", "jh700000000000000000000000001rmp"
"""Ids that no document has.

These ids have valid checksums and the table numbers of `runs` and `evals` in convex-evals' deployment (10005 and
10004). A function can handle a call with such an id, whereas a malformed id is rejected before the function runs.
"""
_NO_FUNCTION = re.compile(r"could not find (?:public )?function", re.IGNORECASE)
_BAD_ID = re.compile(r"ArgumentValidationError|does not match the table name|Unable to decode ID", re.IGNORECASE)
_REQUEST = re.compile(r"\[Request ID: \w+\] Server Error\s*(?=\S)")
"""Matches the part at the beginning of an error message that contains a request id.

This part is removed, because request ids would make reports differ between calls.
"""
_WITHHELD = re.compile(r"\[Request ID: \w+\] (?=Server Error$)")
"""Matches an error message without a reason. Deployments with `--redact-logs-to-client` send only such messages."""
_PERMISSION = ("OperationNotPermitted", "You do not have permission")
_IN_A_ROW = 5
"""Number of consecutive evals without an answer after which the whole deployment is considered unavailable."""


class FunctionFailed(Exception):
    """Raised if the called function itself raised an error.

    The message comes from the deployment, which can hide the reason.
    """


class FunctionUnavailable(Exception):
    """Raised if a call got no usable answer, even after retries. A later call might succeed."""


_CHOOSING = ("deployment", "convex_dir")
"""Names of the settings that select the deployment."""


class ConvexFunctions(Protocol):
    """Calls functions of a Convex deployment."""

    where: str
    """Name of the deployment or folder whose functions are called, for use in messages."""
    has_key: bool
    chosen_by: str
    """Name of the setting or file that selects the deployment, for use in messages."""

    async def call(self, kind: Literal["query", "action"], path: str, args: dict[str, str]) -> object:
        """Call a function and return its value.

        Raises:
            FunctionFailed: The function raised an error.
            FunctionUnavailable: The call got no usable answer.
            EvalscribeError: The problem affects all calls.
        """

    async def close(self) -> None: ...


def refuses_access(where: str, reason: str, *, has_key: bool = True) -> AccessError:
    """Return the error for a key that is missing or wrong, or that lacks a permission.

    `reason` is the deployment's message.
    """
    message = f"{where} denied access: {reason}"
    # A read-only deploy key can run the query, but not the action, for which Convex answers `OperationNotPermitted`.
    if any(sign in reason for sign in _PERMISSION):
        return AccessError(
            f"{message}\nthe key has permission to run queries but not actions: use a deploy key with both permissions"
        )
    if not has_key:
        return AccessError(f"{message}\nno key was sent: set CONVEX_DEPLOY_KEY to a deploy key of this deployment")
    return AccessError(
        f"{message}\nset CONVEX_DEPLOY_KEY to a deploy key of this deployment, including the part before `|`"
    )


async def check_deployment(functions: ConvexFunctions) -> str:
    """Check that the key is allowed to run the query and the action that read runs.

    The calls ask for ids that do not exist, so no data is read.

    Returns:
        A note on anything that could not be checked, else an empty string.

    Raises:
        EvalscribeError: The same error that reading a run would raise.
    """
    payloads = DeploymentPayloads(functions, UNKNOWN_RUN)
    in_doubt = ""
    calls: tuple[tuple[Literal["query", "action"], str, dict[str, str]], ...] = (
        ("query", SUMMARY, {"runId": UNKNOWN_RUN}),
        ("action", DEBUG, {"evalId": UNKNOWN_EVAL}),
    )
    for kind, path, args in calls:
        try:
            value = await functions.call(kind, path, args)
        except FunctionUnavailable as failure:
            raise UnavailableError(f"{functions.where} did not respond: {failure}") from None
        except FunctionFailed as failure:
            message = str(failure)
            if _is_withheld(message) and functions.has_key:
                # The tables of another deployment can have different numbers, so the id might have been refused.
                in_doubt = "; the deployment hides the reasons for errors, so it may lack the functions"
            elif not _BAD_ID.search(message):
                raise await payloads.refused(message, path) from None
        else:
            # For an unknown id, the query returns null, and the action returns an object with `error`.
            if not (value is None or (isinstance(value, dict) and "error" in value)):
                raise UnavailableError(f"{functions.where}: {path} is not the function that convex-evals defines")
    return in_doubt


class DeploymentPayloads:
    """Fetches the payloads of one run from a deployment. Implements `PayloadReader`."""

    def __init__(self, functions: ConvexFunctions, run_id: str) -> None:
        self._functions = functions
        self._run_id = run_id
        self._unanswered = 0

    async def summary(self) -> object:
        where = self._functions.where
        try:
            value = await self._functions.call("query", SUMMARY, {"runId": self._run_id})
        except FunctionUnavailable as failure:
            raise UnavailableError(f"{where} did not respond to a request for run {self._run_id}: {failure}") from None
        except FunctionFailed as failure:
            raise await self.refused(str(failure)) from None
        if value is None:
            raise NotFoundError(
                f"{where} has no run {self._run_id}\ncheck the id and the deployment ({self._functions.chosen_by})",
                fields=_CHOOSING,
            )
        return value

    async def debug(self, eval_id: str) -> object:
        try:
            value = await self._functions.call("action", DEBUG, {"evalId": eval_id})
        except FunctionUnavailable as failure:
            raise self._count_unanswered(str(failure)) from None
        except FunctionFailed as failure:
            if _NO_FUNCTION.search(str(failure)):
                raise self._no_function(DEBUG) from None
            # One eval can have files that cannot be read, such as a corrupt archive or a result of more than 16 MiB.
            # The other evals are still readable.
            raise EvalPayloadError(f"the deployment cannot read the eval: {_reason(str(failure))}") from None
        self._unanswered = 0
        if value is None:
            raise EvalPayloadError("the deployment has no eval with this id")
        return value

    async def close(self) -> None:
        await self._functions.close()

    async def refused(self, message: str, path: str = SUMMARY) -> EvalscribeError:
        """Return the error to raise if a function failed with the given error message."""
        where = self._functions.where
        if _NO_FUNCTION.search(message):
            return self._no_function(path)
        if _BAD_ID.search(message):
            return NotFoundError(
                f"{where} has no run {self._run_id!r}: {_reason(message)}\ncopy the run's id from the URL of the run"
            )
        if not self._functions.has_key:
            return refuses_access(where, safe_message(message), has_key=False)
        if _is_withheld(message):
            return await self._withheld(safe_message(message))
        return UnavailableError(f"{where} could not list the failures of run {self._run_id}: {safe_message(message)}")

    async def _withheld(self, message: str) -> EvalscribeError:
        """Return the error to raise if the deployment hides the reason for an error.

        Either the run id is wrong, or the deployment has different functions. The key cannot be the reason, because
        Convex reports a wrong key with a different error.
        """
        where = self._functions.where
        if not is_document_id(self._run_id):
            return NotFoundError(
                f"{where} has no run {self._run_id!r}: the text is not a Convex id ({message})\n"
                "copy the run's id from the URL of the run"
            )
        if await self._answers_about_runs():
            return NotFoundError(
                f"{where} has no run {self._run_id!r}: the id does not belong to a run ({message})\n"
                "give the id of a run, not the id of an eval; the deployment hides the reasons for errors"
            )
        return UnavailableError(
            f"{where} could not list the failures of run {self._run_id}, and hides the reason: {message}\n"
            f"check that the id is the id of a run, and that the deployment ({self._functions.chosen_by}) has the "
            "functions of convex-evals",
            fields=_CHOOSING,
        )

    async def _answers_about_runs(self) -> bool:
        try:
            return await self._functions.call("query", SUMMARY, {"runId": UNKNOWN_RUN}) is None
        except (FunctionFailed, FunctionUnavailable):
            return False

    def _count_unanswered(self, reason: str) -> Exception:
        self._unanswered += 1
        if self._unanswered < _IN_A_ROW:
            return EvalPayloadError(reason)
        return UnavailableError(f"{self._functions.where} did not answer {self._unanswered} times in a row: {reason}")

    def _no_function(self, path: str) -> EvalscribeError:
        where = self._functions.where
        # Convex also reports a function as not found if the key is missing.
        if not self._functions.has_key:
            return AccessError(
                f"{where} has no accessible function {path}: the key is missing, or the function is not deployed\n"
                "set CONVEX_DEPLOY_KEY to a deploy key of this deployment, or name another deployment "
                f"({self._functions.chosen_by})",
                fields=_CHOOSING,
            )
        return UnavailableError(
            f"{where} has no function {path}: the function is not deployed, or the key is not an admin key\n"
            f"check that the key belongs to the deployment that holds the runs ({self._functions.chosen_by})",
            fields=_CHOOSING,
        )


def _is_withheld(message: str) -> bool:
    return bool(_WITHHELD.match(message.strip()))


def _reason(message: str) -> str:
    """Return the reason that the deployment gave for an error, without the request id."""
    return safe_message(_WITHHELD.sub("", _REQUEST.sub("", message.strip())))


MAX_ANSWER_BYTES = 64 * MIB
"""Maximum number of bytes in one answer, the same as for a snapshot file.

The maximum is higher than Convex's limit of 16 MiB for a result, because escape sequences make an answer longer. For
example, `\\u00e9` takes three times the bytes of its character.
"""
SHORTEST_KEY = 12
"""Minimum length of a key that is removed from answers. A shorter text could be an ordinary word."""
_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_REFUSED = (401, 403)


class ConvexRetryPolicy(Frozen):
    """Maximum number of attempts per call, and time limits in seconds."""

    attempts: int = 4
    first_pause: float = 0.5
    """Pause before the first retry. The pause doubles with every further retry."""
    longest_pause: float = 20.0
    """Maximum pause between two attempts, even if the server asks for a longer one."""
    connect: float = 10.0
    read: float = 60.0
    """Maximum time without receiving a byte."""
    total: float = 180.0
    """Maximum time for one call, including all attempts and pauses."""


def open_convex(
    url: str,
    key: SecretStr | None,
    run_id: str,
    links: Links,
    patience: ConvexRetryPolicy | None = None,
    concurrency: int = 8,
) -> PayloadSource:
    functions = ConvexHttp(url, key, patience or ConvexRetryPolicy(), concurrency)
    return PayloadSource(DeploymentPayloads(functions, run_id), links, functions.where)


class _TryAgain(Exception):
    """Raised if a call should be repeated, because the deployment is overloaded or cannot be reached.

    `pause` is the number of seconds that the server asks clients to wait.
    """

    def __init__(self, reason: str, pause: float | None = None, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.pause = pause
        self.unreachable = unreachable


# Convex's Python clients (version 0.8.1) are not used: with a wrong key or an unreachable host, `ConvexClient`
# reconnects forever, and `ConvexHttpClient` has no time limit.
class ConvexHttp:
    """Calls Convex functions by HTTP POST. Implements `ConvexFunctions`.

    The key is sent only to `url`, because redirects are not followed.
    """

    chosen_by = "`deployment`"

    def __init__(self, url: str, key: SecretStr | None, patience: ConvexRetryPolicy, concurrency: int = 8) -> None:
        self.where = url
        self.has_key = key is not None
        self._secret = key.get_secret_value() if key else ""
        # An answer can repeat the whole key, or only the secret after `|`.
        self._key_parts = [part for part in (self._secret, self._secret.partition("|")[2]) if len(part) >= SHORTEST_KEY]
        self._patience = patience
        self._slots = asyncio.Semaphore(concurrency)
        with explain_connection_errors():
            self._client = httpx2.AsyncClient(
                # `total` limits the whole call, so waiting for a free connection needs no limit of its own.
                timeout=httpx2.Timeout(patience.read, connect=patience.connect, pool=None),
                headers={"Authorization": f"Convex {self._secret}"} if key else {},
                follow_redirects=False,
                event_hooks={"response": [limit_answers(AnswerLimits(body=MAX_ANSWER_BYTES))]},
            )

    async def call(self, kind: Literal["query", "action"], path: str, args: dict[str, str]) -> object:
        """Call a function, as described in `ConvexFunctions`.

        At most `concurrency` calls run at once. The time limit includes all retries.
        """
        body: dict[str, object] = {"path": path, "args": args, "format": "json"}
        async with self._slots:
            try:
                async with asyncio.timeout(self._patience.total):
                    return await self._persist(f"{self.where}/api/{kind}", body)
            except TimeoutError:
                raise FunctionUnavailable(f"no complete response within {self._patience.total:g} s") from None

    async def close(self) -> None:
        await self._client.aclose()

    async def _persist(self, url: str, body: Mapping[str, object]) -> object:
        for attempt in range(1, self._patience.attempts + 1):
            try:
                status, content = await self._post(url, body)
                return self._value(status, content)
            except _TryAgain as failure:
                if attempt == self._patience.attempts:
                    raise self._final_error(failure) from None
                await asyncio.sleep(self._pause(attempt, failure))
        raise AssertionError("no attempt was allowed")

    def _final_error(self, failure: _TryAgain) -> Exception:
        if not failure.unreachable:
            return FunctionUnavailable(str(failure))
        return UnavailableError(
            f"{self.where} cannot be reached: {failure}\ncheck the network and `deployment`", fields=("deployment",)
        )

    def _pause(self, attempt: int, failure: _TryAgain) -> float:
        # A random part keeps calls that failed together from being repeated at the same moment.
        grown: float = self._patience.first_pause * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311
        return min(max(grown, failure.pause or 0), self._patience.longest_pause)

    async def _post(self, url: str, body: Mapping[str, object]) -> tuple[int, bytes]:
        try:
            async with self._client.stream("POST", url, json=body) as response:
                content = self._without_key(await response.aread())
                if response.status_code in _RETRIED:
                    reason = f"{response.status_code} {self._error(content)}"
                    raise _TryAgain(reason, _seconds(response.headers.get("retry-after")))
                if response.is_redirect:
                    raise UnavailableError(
                        f"{self.where} redirects to another address: give the deployment's own address (`deployment`)",
                        fields=("deployment",),
                    )
                return response.status_code, content
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise _TryAgain(safe_message(str(error)) or type(error).__name__, unreachable=True) from None
        except AnswerTooLarge as error:
            raise FunctionUnavailable(f"the deployment sent {error}") from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _TryAgain(_broken(error)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise UnavailableError(f"{self.where} cannot be called: {safe_message(str(error), self._secret)}") from None

    def _without_key(self, content: bytes) -> bytes:
        """Remove the deploy key from an answer, so that the key cannot get into a snapshot or a report."""
        for part in self._key_parts:
            content = content.replace(part.encode(), b"[redacted:key]")
        return content

    def _value(self, status: int, content: bytes) -> object:
        """Return the value that a function returned.

        If the answer has no value, raises an error that does not lead to a retry.
        """
        # Convex answers 401 or 403 to a wrong key, but 400 to a key without the part before `|`.
        if status in _REFUSED or (status == 400 and b"InvalidAdminKey" in content):
            raise refuses_access(self.where, self._error(content) or str(status), has_key=self.has_key)
        answer = _members(content)
        if answer is None or (status < 400 and answer.get("status") not in ("success", "error")):
            raise UnavailableError(
                f"{self.where} answered {status} with something that is not from a Convex deployment: "
                f"{self._error(content)}\nname the deployment itself (https://NAME.convex.cloud), not the dashboard "
                "or the site"
            )
        # Convex reports errors of a function with status 200.
        if answer.get("status") == "error":
            raise FunctionFailed(
                safe_message(optional_text_field(answer, "errorMessage") or "no reason given", self._secret)
            )
        if status >= 400:
            raise UnavailableError(f"{self.where} answered {status} {self._error(content)}")
        return answer.get("value")

    def _error(self, content: bytes) -> str:
        """Return `code: message` of an error answer.

        If the answer has neither a code nor a message, return its beginning.
        """
        answer = _members(content) or {}
        code, message = optional_text_field(answer, "code"), optional_text_field(answer, "message")
        text = ": ".join(filter(None, (code, message))) or content[:200].decode("utf-8", "replace")
        return safe_message(text, self._secret)


def _members(content: bytes) -> JsonObject | None:
    try:
        answer = parse_json(content)
    except DataError:
        return None
    return answer if isinstance(answer, dict) else None


def _seconds(retry_after: str | None) -> float | None:
    """Return the number of seconds in a `retry-after` header.

    Returns None if the header is missing or contains a date. Dates are not supported.
    """
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None


def _broken(error: httpx2.RequestError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "the deployment stopped answering"
    return f"the connection broke ({safe_message(str(error)) or type(error).__name__})"

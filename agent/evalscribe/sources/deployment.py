"""A run on a Convex deployment, whichever way its functions are called.

What an answer means is decided here, once for both ways: what concerns one eval is `OneEvalFailed`, what concerns all
of them ends the command.
"""

import re
from typing import Literal, Protocol

from evalscribe.errors import AccessError, EvalscribeError, NotFoundError, UnavailableError
from evalscribe.sources.payload_source import OneEvalFailed
from evalscribe.sources.shown import shown

SUMMARY = "debugQueries:getFailedEvalsForRun"
DEBUG = "debug:getEvalDebugInfo"
UNKNOWN_RUN, UNKNOWN_EVAL = "jn700000000000000000000000001rx8", "jh700000000000000000000000001rmp"
"""Ids of no document, with valid checksums and the table numbers of `runs` and `evals` in convex-evals' deployment
(10005 and 10004). A function that gets them answers; with a malformed id it would not run."""
_NO_FUNCTION = re.compile(r"could not find (?:public )?function", re.IGNORECASE)
_BAD_ID = re.compile(r"ArgumentValidationError|does not match the table name|Unable to decode ID", re.IGNORECASE)
_REQUEST = re.compile(r"\[Request ID: \w+\] Server Error\s*(?=\S)")
"""Stands before every reason and differs from call to call, so a report that kept it would never be unchanged."""
_WITHHELD = re.compile(r"\[Request ID: \w+\] (?=Server Error$)")
"""The whole error message of a deployment that hides reasons (`--redact-logs-to-client`)."""
_PERMISSION = ("OperationNotPermitted", "You do not have permission")
_IN_A_ROW = 5
"""So many evals in a row without an answer are no longer a matter of one eval."""


class FunctionFailed(Exception):
    """The function was called and threw; the message is the deployment's and may be withheld."""


class NoAnswer(Exception):
    """No usable answer to this one call, after the retries; another call may fare better."""


class Functions(Protocol):
    """A way to call the functions of a deployment."""

    where: str
    """What is called, for messages."""
    has_key: bool
    chosen_by: str
    """The option or file that names the deployment, for messages."""

    async def call(self, kind: Literal["query", "action"], path: str, args: dict[str, str]) -> object:
        """The returned value. Raises `FunctionFailed`, `NoAnswer`, or `EvalscribeError` for what concerns all calls."""

    async def close(self) -> None: ...


def refuses_access(where: str, reason: str, *, has_key: bool = True) -> AccessError:
    """Return the error for a key that is missing, wrong or lacks a permission. `reason` is the deployment's own."""
    message = f"{where} refuses access: {reason}"
    if any(sign in reason for sign in _PERMISSION):
        return AccessError(f"{message}\nthe key may run queries but not actions: use a deploy key that may run both")
    if not has_key:
        return AccessError(f"{message}\nno key was sent: set CONVEX_DEPLOY_KEY to a deploy key of this deployment")
    return AccessError(
        f"{message}\nset CONVEX_DEPLOY_KEY to a deploy key of this deployment, including the part before `|`"
    )


async def check(functions: Functions) -> str:
    """Check that the key may run the query and the action that reading a run takes.

    Asks for ids that cannot exist, so no data is read.

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
        except NoAnswer as failure:
            raise UnavailableError(f"{functions.where} gave no answer: {failure}") from None
        except FunctionFailed as failure:
            message = str(failure)
            if _is_withheld(message) and functions.has_key:
                # The tables of another deployment may have other numbers, so the id may be refused.
                in_doubt = "; it hides the reasons for errors, so it is not known whether it has the functions"
            elif not _BAD_ID.search(message):
                raise await payloads.refused(message, path) from None
        else:
            if not (value is None or (isinstance(value, dict) and "error" in value)):
                raise UnavailableError(f"{functions.where}: {path} is not the function of convex-evals")
    return in_doubt


class DeploymentPayloads:
    """The payloads of one run (`payload_source.Payloads`)."""

    def __init__(self, functions: Functions, run_id: str) -> None:
        self._functions = functions
        self._run_id = run_id
        self._unanswered = 0

    async def summary(self) -> object:
        where = self._functions.where
        try:
            value = await self._functions.call("query", SUMMARY, {"runId": self._run_id})
        except NoAnswer as failure:
            raise UnavailableError(f"{where} gave no answer about run {self._run_id}: {failure}") from None
        except FunctionFailed as failure:
            raise await self.refused(str(failure)) from None
        if value is None:
            raise NotFoundError(
                f"{where} has no run {self._run_id}\ncheck the id and the deployment ({self._functions.chosen_by})"
            )
        return value

    async def debug(self, eval_id: str) -> object:
        try:
            value = await self._functions.call("action", DEBUG, {"evalId": eval_id})
        except NoAnswer as failure:
            raise self._one_more_unanswered(str(failure)) from None
        except FunctionFailed as failure:
            if _NO_FUNCTION.search(str(failure)):
                raise self._no_function(DEBUG) from None
            raise OneEvalFailed(f"the deployment cannot read it: {_reason(str(failure))}") from None
        self._unanswered = 0
        if value is None:
            raise OneEvalFailed("the deployment has no such eval")
        return value

    async def close(self) -> None:
        await self._functions.close()

    async def refused(self, message: str, path: str = SUMMARY) -> EvalscribeError:
        """Return the error to raise for a function's error message."""
        where = self._functions.where
        if _NO_FUNCTION.search(message):
            return self._no_function(path)
        if _BAD_ID.search(message):
            return NotFoundError(
                f"{where} knows no run {self._run_id!r}: {_reason(message)}\ncopy the id from the run's address"
            )
        if not self._functions.has_key:
            return refuses_access(where, shown(message), has_key=False)
        if _is_withheld(message):
            return await self._withheld(shown(message))
        return UnavailableError(f"{where} could not list the failures of run {self._run_id}: {shown(message)}")

    async def _withheld(self, message: str) -> EvalscribeError:
        """Explain an error without a reason: the id or functions are at fault, as a wrong key has another message."""
        where = self._functions.where
        if not _is_well_formed(self._run_id):
            return NotFoundError(
                f"{where} knows no run {self._run_id!r}: it is not a Convex id ({message})\n"
                "copy the id from the run's address"
            )
        if await self._answers_about_runs():
            return NotFoundError(
                f"{where} knows no run {self._run_id!r}: it is the id of something else ({message})\n"
                "name the run, not one of its evals; the deployment hides the reasons for errors"
            )
        return UnavailableError(
            f"{where} could not list the failures of run {self._run_id}, and hides the reason: {message}\n"
            f"check that the id is a run's, and that the deployment ({self._functions.chosen_by}) has the functions"
        )

    async def _answers_about_runs(self) -> bool:
        try:
            return await self._functions.call("query", SUMMARY, {"runId": UNKNOWN_RUN}) is None
        except (FunctionFailed, NoAnswer):
            return False

    def _one_more_unanswered(self, reason: str) -> Exception:
        self._unanswered += 1
        if self._unanswered < _IN_A_ROW:
            return OneEvalFailed(reason)
        return UnavailableError(f"{self._functions.where} left {self._unanswered} evals in a row unanswered: {reason}")

    def _no_function(self, path: str) -> EvalscribeError:
        """An unknown function and a missing key have one and the same answer."""
        where = self._functions.where
        if not self._functions.has_key:
            return AccessError(
                f"{where} shows no function {path}: the key is missing, or the function is not deployed\n"
                "set CONVEX_DEPLOY_KEY to a deploy key of this deployment, or name another one "
                f"({self._functions.chosen_by})"
            )
        return UnavailableError(
            f"{where} has no function {path}: it is not deployed there, or the key is no admin key\n"
            f"check that the key belongs to the deployment that holds the runs ({self._functions.chosen_by})"
        )


def _is_withheld(message: str) -> bool:
    return bool(_WITHHELD.match(message.strip()))


_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"


def _is_well_formed(document_id: str) -> bool:
    """Whether this can be a document id: base32 of a table number, 16 bytes and a Fletcher-16 checksum of both.

    Used only to explain a refusal; the deployment decides whether an id is valid.
    """
    bits = "".join(f"{_BASE32.find(character):05b}" for character in document_id if character in _BASE32)
    content = [int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)]
    if len(bits) != 5 * len(document_id) or not 19 <= len(content) <= 23:
        return False
    first = second = 0
    for byte in content[:-2]:
        first = (first + byte) % 256
        second = (second + first) % 256
    return content[-2:] == [first, second]


def _reason(message: str) -> str:
    """What the deployment says of one eval, without the number of the request."""
    return shown(_WITHHELD.sub("", _REQUEST.sub("", message.strip())))

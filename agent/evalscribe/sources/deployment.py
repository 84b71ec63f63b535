"""A run on a Convex deployment, whichever way its functions are called.

What an answer means is decided here, once for both ways: what concerns one eval is `OneEvalFailed`, what concerns all
of them ends the command.
"""

import re
from typing import Literal, Protocol

from evalscribe.errors import AccessError, NotFoundError, UnavailableError
from evalscribe.sources.payload_source import OneEvalFailed
from evalscribe.sources.shown import shown

SUMMARY = "debugQueries:getFailedEvalsForRun"
DEBUG = "debug:getEvalDebugInfo"
_NO_FUNCTION = re.compile(r"could not find (?:public )?function", re.IGNORECASE)
_BAD_ID = re.compile(r"ArgumentValidationError|does not match the table name|Unable to decode ID", re.IGNORECASE)
_REQUEST = re.compile(r"\[Request ID: \w+\] Server Error\s*(?=\S)")
"""Stands before every reason and differs from call to call, so a report that kept it would never be unchanged."""
_WITHHELD = re.compile(r"\[Request ID: \w+\] (?=Server Error$)")
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

    async def call(self, kind: Literal["query", "action"], path: str, args: dict[str, str]) -> object:
        """The returned value. Raises `FunctionFailed`, `NoAnswer`, or `EvalscribeError` for what concerns all calls."""

    async def close(self) -> None: ...


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
            raise self._refused(str(failure)) from None
        if value is None:
            raise NotFoundError(f"{where} has no run {self._run_id}\ncheck the id and the deployment (--deployment)")
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

    def _one_more_unanswered(self, reason: str) -> Exception:
        self._unanswered += 1
        if self._unanswered < _IN_A_ROW:
            return OneEvalFailed(reason)
        return UnavailableError(f"{self._functions.where} left {self._unanswered} evals in a row unanswered: {reason}")

    def _refused(self, message: str) -> Exception:
        if _NO_FUNCTION.search(message):
            return self._no_function(SUMMARY)
        if _BAD_ID.search(message):
            return NotFoundError(f"{self._functions.where} knows no run {self._run_id!r}: {shown(message)}")
        reason = f"{self._functions.where} could not list the failures of run {self._run_id}: {shown(message)}"
        return UnavailableError(
            reason if self._functions.has_key else f"{reason}\nno key was sent: set CONVEX_DEPLOY_KEY"
        )

    def _no_function(self, path: str) -> Exception:
        """An unknown function and a missing key have one and the same answer."""
        where = self._functions.where
        if not self._functions.has_key:
            return AccessError(
                f"{where} shows no function {path}: the key is missing, or the function is not deployed\n"
                "set CONVEX_DEPLOY_KEY to a deploy key of this deployment, or name another one with --deployment"
            )
        return UnavailableError(
            f"{where} has no function {path}: it is not deployed there, or the key is no admin key\n"
            "check that the key belongs to the deployment that holds the runs, and --deployment"
        )


def _reason(message: str) -> str:
    """What the deployment says of one eval, without the number of the request."""
    return shown(_WITHHELD.sub("", _REQUEST.sub("", message.strip())))

"""What a provider's failure means: for this call, for all calls, or only for now.

401 402 403                       AccessError        ends the command
404                               UsageError         ends the command
no connection, after the retries  UnavailableError   ends the command
408 409 429 5xx 529, reset, late  Transient          tried again, then this call is given up
everything else                   CallFailed         this call is given up
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

from evalscribe.chat import CallFailed
from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError
from evalscribe.http_limits import AnswerTooLarge
from evalscribe.ids import Frozen
from evalscribe.llm.transient import Transient
from evalscribe.settings.providers import Provider

PASSING = frozenset({408, 409, 429, 499})
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""Causes that leave no connection to send anything over."""
LONGEST_MESSAGE = 200
TOO_LONG = (
    "prompt is too long",
    "context window",
    "context limit",
    "context length",
    "context size",
    "context_length_exceeded",
    "exceed_context_size",
    "exceeds the maximum number of tokens",
    "string_above_max_length",
)
"""How services word a 400 for a prompt beyond the context; few have a code of their own for it."""
UNPAID = ("insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active")
WRONG_KEY = ("invalid_api_key", "api_key_invalid", "api key not valid")
NO_MODEL = ("model_not_found", "is not a valid model id")
FLAGGED = ("flagged", "requires moderation")


class TooLong(CallFailed):
    """The prompt does not fit the model, and never will."""

    cause = "answer"


class AnswerRefused(CallFailed):
    """The answer is too large to read; asking again would return just as much."""


class Asked(Frozen):
    """Who was asked for what."""

    provider: Provider
    model: str
    """The provider's own name of it."""
    host: str


class Refusal(Frozen):
    """An error that came as an answer."""

    status: int
    words: str = ""
    """The service's own, in one short line; nothing where it sent a page instead."""
    code: str = ""
    """Kinds and codes that the service gave beside its words, in one line."""
    after: float | None = None
    """Seconds that it asks to wait."""

    @property
    def said(self) -> str:
        return f": {self.words}" if self.words else ""

    def has(self, *signs: str) -> bool:
        text = f"{self.words} {self.code}".lower()
        return any(sign in text for sign in signs)


def of_answer(refusal: Refusal, asked: Asked) -> CallFailed | EvalscribeError:
    """What an error that came as an answer means. Where it came before any work was done, it is free."""
    told = f"({refusal.status}{refusal.said})"
    ended = _ends_all(refusal, asked, told)
    if ended is not None:
        return ended
    if refusal.status == 413 or (refusal.status in (400, 422, 500) and refusal.has(*TOO_LONG)):
        return TooLong(f"the question is too long for {asked.host} {told}", free=True)
    if refusal.status in PASSING or refusal.status >= 500:
        limited = refusal.status == 429
        name = "is overloaded" if refusal.status == 529 else "limits the rate" if limited else "failed"
        return Transient(f"{asked.host} {name} {told}", free=True, after=refusal.after, limited=limited)
    if 200 <= refusal.status < 300:
        return CallFailed(f"{asked.host} broke off its answer {told}")
    return CallFailed(f"{asked.host} turned the question away {told}", free=True, cause="answer")


def _ends_all(refusal: Refusal, asked: Asked, told: str) -> EvalscribeError | None:
    key = asked.provider.key_name
    if refusal.status == 402 or refusal.has(*UNPAID):
        return AccessError(f"{asked.host} wants to be paid {told}. See the account's billing.")
    if refusal.status == 401 or refusal.has(*WRONG_KEY):
        return AccessError(f"{asked.host} refused the key {told}. Check {key}.")
    if refusal.status == 404 or refusal.has(*NO_MODEL):
        return UsageError(f"{asked.host} knows no model {asked.model} {told}. Name another, as PROVIDER/MODEL.")
    if refusal.status == 403 and not refusal.has(*FLAGGED):
        return AccessError(f"{asked.host} does not allow this key to do that {told}. Check {key}.")
    return None


def of_connection(error: Exception, asked: Asked, *, late: bool) -> Transient:
    """`late`: nothing came in time."""
    host = asked.host
    if isinstance(error.__cause__, NEVER_SENT):
        ends_all = UnavailableError(f"{host} cannot be reached. Check the network and {asked.provider.url_name}.")
        return Transient(f"{host} cannot be reached", free=True, ends_all=ends_all)
    if late:
        return Transient(f"{host} did not answer in time")
    return Transient(f"{host} closed the connection without an answer")


def of_size(error: Exception, asked: Asked) -> AnswerRefused | None:
    """Map an error caused by the size of the answer, possibly wrapped by an SDK; None for any other error."""
    cause = error if isinstance(error, AnswerTooLarge) else error.__cause__
    return AnswerRefused(f"{asked.host} sent {cause}, which is not read") if isinstance(cause, AnswerTooLarge) else None


def unreadable(error: Exception, asked: Asked) -> CallFailed:
    return CallFailed(f"{asked.host} sent an answer that cannot be read ({type(error).__name__})")


def in_one_line(words: object) -> str:
    return " ".join(words.split())[:LONGEST_MESSAGE] if isinstance(words, str) else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after` in seconds or as a date; None where there is none that can be read."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds()) if moment.tzinfo else None

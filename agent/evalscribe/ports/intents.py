"""Batches of questions that were sent."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from evalscribe.chat import Reply
from evalscribe.ids import Frozen


class Intent(Frozen):
    """Questions that go out as one batch, written down before they do."""

    id: str
    keys: tuple[str, ...]
    """Content ids of the questions, which name them in the batch too."""
    created: datetime
    """Not later than the batch; with a time zone."""
    batch_id: str | None = None
    """None until the service has named it, and where we do not know whether it has."""


class Unanswered(Frozen):
    """What a batch says of a question that it did not answer."""

    reason: str
    charged: bool = False
    """Whether it may have been charged for all the same: whoever takes this first counts it."""


class Intents(Protocol):
    """The batches that were sent or are about to be, and what they answered; shared by processes."""

    def claim(self, intent_id: str) -> AbstractContextManager[bool]:
        """Whether this process, and no other while it lives, may submit the intent or look for its batch."""

    def add(self, intent: Intent) -> Intent:
        """Write it down with those of its keys that no other intent has; where none is left, nothing is."""

    def of(self, key: str) -> Intent | None:
        """The intent with this question."""

    def submitted(self, intent_id: str, batch_id: str) -> None: ...
    def drop(self, intent_id: str) -> None:
        """Forget an intent of which there is no batch; what was answered stays."""

    def batch_ids(self) -> frozenset[str]:
        """Every batch whose intent is known."""

    def settle(self, outcomes: Mapping[str, Reply | Unanswered]) -> None:
        """Keep what a batch says of its questions."""

    def outcome(self, key: str) -> Reply | Unanswered | None: ...
    def take(self, key: str) -> bool:
        """Whether nobody took the question's answer before: it is billed once, however often it is asked for."""

    def release(self, key: str) -> None:
        """Forget an answer that was taken, so that the question can be asked anew; one that nobody took stays."""

    def close(self) -> None: ...

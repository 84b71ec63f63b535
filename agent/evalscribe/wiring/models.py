"""Which models are asked."""

from typing import TYPE_CHECKING

from evalscribe.ports import Intents, Models
from evalscribe.settings import Settings

if TYPE_CHECKING:
    from evalscribe.llm.budget import Budget


def purse(found: Settings) -> "Budget":
    """What one command may spend, as it is set."""
    from evalscribe.llm.budget import Budget

    return Budget(usd=found.budget.value, tokens=found.max_tokens.value)


def models(found: Settings, budget: "Budget | None" = None, *, batch: bool = False, fresh: bool = False) -> Models:
    """Every model that these settings give access to, within this budget or the one that they set.

    `batch`: each call waits for a Message Batch, up to a day: call many at once, and bound the time of none.
    `fresh`: what an earlier batch answered is asked anew.
    """
    from evalscribe.llm.service import Service

    window = found.context_tokens.value
    intents = _intents(found) if batch else None
    return Service(found.provider, budget or purse(found), context_tokens=window, intents=intents, fresh=fresh)


def _intents(found: Settings) -> Intents:
    from evalscribe.store.batches import open_intents

    return open_intents(found.store_place)

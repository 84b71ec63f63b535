"""Which models are asked, and as what."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from evalscribe.chat import Usage
from evalscribe.errors import AccessError, UsageError
from evalscribe.ports import Intents, Model, Models
from evalscribe.rubric import DEFAULT_MODEL
from evalscribe.settings import Settings
from evalscribe.settings.providers import PROVIDERS

if TYPE_CHECKING:
    from evalscribe.llm.budget import Budget

RULES = "rules"


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


def bounded_models(found: Settings, tokens: int, usd: float | None) -> Models:
    """As `models`, within these bounds in place of the settings'. Both hold, so that no price is needed."""
    from evalscribe.llm.budget import Budget
    from evalscribe.llm.service import Service

    return Service(found.provider, Budget(usd=usd, tokens=tokens), context_tokens=found.context_tokens.value)


def cost_of(model: Model, *, batch: bool = False) -> Callable[[Usage], float] | None:
    """What one call costs, in a batch or alone; None where the model has no price."""
    from evalscribe.llm.prices import price

    cost = price(model.id)
    if cost is None:
        return None
    return cost.batch().cost if batch else cost.cost


def _intents(found: Settings) -> Intents:
    from evalscribe.store.batches import open_intents

    return open_intents(found.store_place)


def judge_name(found: Settings) -> str:
    """`rules` or `provider/name`. Raises `UsageError` for anything else."""
    name = found.judge.value or (DEFAULT_MODEL.id if found.provider(DEFAULT_MODEL.provider) else RULES)
    provider, _, model = name.partition("/")
    if name != RULES and (provider not in PROVIDERS or not model):
        known = ", ".join(PROVIDERS)
        raise UsageError(
            f"--judge {name} is not known: rules, or PROVIDER/MODEL of {known}, such as {DEFAULT_MODEL.id}"
        )
    return name


def judge_model(asked: Models, name: str) -> Model:
    """The model that judges. Raises `EvalscribeError` where it cannot be asked."""
    try:
        return asked.open(name, "judge")
    except AccessError as error:
        raise AccessError(f"{error}\nor let the rules judge, without key and network: --judge rules") from None

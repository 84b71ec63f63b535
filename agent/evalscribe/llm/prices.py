"""What a model's tokens cost, from one dated file."""

import re
import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from evalscribe.chat import Usage
from evalscribe.ids import Frozen
from evalscribe.ports import Model

MILLION = 1_000_000
OF_A_BATCH = 0.5
"""What a token costs in a Message Batch, beside a single call: half, cached or not."""


class Rate(Frozen):
    """US dollars per million tokens, for prompts of more than `above` tokens."""

    above: int = 0
    input: float
    output: float
    cache_write: float
    cache_read: float

    def cost(self, usage: Usage) -> float:
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return (
            max(0, fresh) * self.input
            + usage.cache_write_tokens * self.cache_write
            + usage.cache_read_tokens * self.cache_read
            + usage.output_tokens * self.output
        ) / MILLION

    def times(self, factor: float) -> "Rate":
        rates = {name: getattr(self, name) * factor for name in ("input", "output", "cache_write", "cache_read")}
        return self.model_copy(update=rates)


class Price(Frozen):
    """What one model costs; the longest prompt it was asked decides which rate holds."""

    model: str
    rates: tuple[Rate, ...]
    """By `above`, rising; the first holds from 0."""

    def cost(self, usage: Usage) -> float:
        """US dollars of one call."""
        rate = max((r for r in self.rates if r.above < max(1, usage.input_tokens)), key=lambda r: r.above)
        return rate.cost(usage)

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        """The most that a call of this size can cost: all of its prompt written to the cache."""
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        written = usage.model_copy(update={"cache_write_tokens": input_tokens})
        return max(self.cost(usage), self.cost(written))

    def batch(self) -> "Price":
        """The price of the same model in a batch."""
        return self.model_copy(update={"rates": tuple(rate.times(OF_A_BATCH) for rate in self.rates)})


def price(model: str) -> Price | None:
    """The price of `provider/name`, dated names (`…-20261007`) included; None where the file has none."""
    return _prices().get(re.sub(r"-\d{8}$", "", model))


def cost_of(model: Model, *, batch: bool = False) -> Callable[[Usage], float] | None:
    """What one call costs in US dollars, in a batch or alone; None where the model has no price."""
    cost = price(model.id)
    if cost is None:
        return None
    return cost.batch().cost if batch else cost.cost


@cache
def _prices() -> dict[str, Price]:
    table = tomllib.loads(files("evalscribe.llm").joinpath("prices.toml").read_text(encoding="utf-8"))
    rates: dict[str, list[Rate]] = {}
    for row in table["price"]:
        rates.setdefault(row.pop("model"), []).append(Rate(**row))
    return {model: Price(model=model, rates=tuple(sorted(r, key=lambda x: x.above))) for model, r in rates.items()}

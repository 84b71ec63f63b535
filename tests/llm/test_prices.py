"""Prices of calls."""

import pytest

from evalscribe.llm.budget import price_of
from evalscribe.model.chat import Usage


def cost(model: str, **tokens: int) -> float:
    price = price_of(model)
    assert price is not None
    return price.cost(Usage(**tokens))


@pytest.mark.parametrize(
    ("model", "tokens", "usd"),
    [
        ("anthropic/claude-opus-5-5", {"input_tokens": 1_000_000}, 4.0),
        ("anthropic/claude-opus-5-5", {"output_tokens": 1_000_000}, 20.0),
        ("anthropic/claude-opus-5-5", {"input_tokens": 1000, "cache_read_tokens": 1000}, 0.0002),
        ("anthropic/claude-opus-5-5", {"input_tokens": 1000, "cache_write_tokens": 1000}, 0.005),
        ("anthropic/claude-haiku-5-5", {"input_tokens": 100_000}, 0.01),
        ("anthropic/claude-haiku-5-5", {"input_tokens": 100_001, "output_tokens": 1000}, 0.0500005 + 0.0025),
        ("anthropic/claude-haiku-5-5-20261007", {"output_tokens": 1_000_000}, 0.5),
        ("anthropic/claude-opus-5-5", {}, 0.0),
    ],
)
def test_cost_of_a_call_by_model_and_token_kind(model: str, tokens: dict[str, int], usd: float) -> None:
    assert cost(model, **tokens) == pytest.approx(usd)


def test_unknown_model_has_no_price() -> None:
    assert price_of("anthropic/claude-unheard-of") is None
    assert price_of("elsewhere/claude-opus-5-5") is None


def test_worst_case_prices_all_input_as_cache_writes() -> None:
    price = price_of("anthropic/claude-opus-5-5")
    assert price is not None
    assert price.worst(1_000_000, 0) == pytest.approx(5.0)


def test_batch_price_is_half_of_the_full_price() -> None:
    price = price_of("anthropic/claude-haiku-5-5")
    assert price is not None
    short = Usage(calls=1, input_tokens=90_000, output_tokens=1000, cache_read_tokens=10_000, cache_write_tokens=5_000)
    for usage in (short, short.model_copy(update={"input_tokens": 200_000})):
        assert price.batch().cost(usage) == pytest.approx(price.cost(usage) / 2)

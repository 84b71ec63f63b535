"""Models and judges."""

from collections.abc import Callable, Mapping
from typing import Protocol

from evalscribe.chat import Reply, Request, Usage
from evalscribe.finding import Case, Unclassified, Verdict
from evalscribe.ids import Frozen
from evalscribe.prose import dollars

OnText = Callable[[str], None]
"""Hears an answer piece by piece as it is written."""


class Estimate(Frozen):
    """What judging one case may cost at most, and what it is likely to."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None where the model has no price."""

    @property
    def summary(self) -> str:
        """`about 120,000 tokens, $1.20`."""
        tokens = f"about {self.input_tokens + self.output_tokens:,} tokens"
        return tokens if self.cost_usd is None else f"{tokens}, {dollars(self.cost_usd)}"

    def __add__(self, other: "Estimate") -> "Estimate":
        """A sum with something unpriced has no price."""
        priced = self.cost_usd is not None and other.cost_usd is not None
        return Estimate(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if priced else None,
        )


class Model(Protocol):
    """A chat model with tools."""

    id: str
    """`provider/name`."""
    context_tokens: int
    """How many tokens prompt and answer may have together."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """One answer. Raises `llm` errors mapped to `EvalscribeError` or `chat.CallFailed`.

        `on_text` hears the answer's text, and no thinking, as it comes; the pieces joined are `Reply.text`. Where an
        attempt broke off after it was heard, nothing is tried again: `CallFailed`.
        """

    def forget(self, request: Request) -> None:
        """The answer led nowhere: whoever asks the same later is to be answered anew, as most models do anyway."""

    async def close(self) -> None: ...


class Models(Protocol):
    """Every model that may be asked; all spend from one budget."""

    def open(self, name: str, stage: str) -> Model:
        """The model `provider/name`, for one stage of the work (`judge`, `tag`, `observe` …), closed with the others.

        Raises `UsageError` for an unknown provider or a missing package, `AccessError` for a missing key.
        """

    def spent(self) -> Mapping[str, Usage]:
        """What each stage consumed so far, in the order of their first calls."""

    async def close(self) -> None: ...


class Judge(Protocol):
    """Decides one case."""

    id: str
    """With its version: `rules@1`, `anthropic/claude-opus-5-5`."""

    def key(self, case: Case) -> str:
        """Content id of the question: rubric, prompt, model, parameters, evidence. Equal keys, equal question."""

    def estimate(self, case: Case) -> Estimate: ...

    async def judge(self, case: Case) -> Verdict | Unclassified:
        """What concerns this case is a value; raises `EvalscribeError` only for what concerns all of them."""

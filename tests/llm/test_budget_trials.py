"""Random trials of the budget against what the server billed, including answers that never reached the client."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace

from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.budget import Budget, BudgetedModel, Price, price_of, worst_case
from evalscribe.llm.service import RetryingModel, RetryPolicy
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Tool, Usage
from support.messages_server import Answer, Call, MessagesServer, failure, message, page
from support.waiting import PATIENCE_S

TRIALS = 200
AT_ONCE = 12
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")
STAGES = ("tag", "observe", "judge")
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}, "additionalProperties": False}
TOOL = Tool(name="submit", description="Submit the verdict.", input_schema=SCHEMA)
WORDS = ("return x == 1;\n", '{"a": [1, 2]}', "0f3a9c7e", "The task asks for 2. ", "überprüft ", "評価する", "🙂")
PATIENCE = RetryPolicy(attempts=4, first_wait_s=0.001, longest_wait_s=0.004, total_s=60)
TIMEOUT_S = 2.0
"""Only withheld answers take that long."""
BILLED = ("whole",) * 10 + ("half", "reset", "late", "page", "no usage")
"""Kinds of answers that the server bills, whether or not the client receives them."""
FREE = (429, 529, 500, 400)
EVERY = (*dict.fromkeys(BILLED), *FREE)


@dataclass
class Ledger:
    """Amounts that the server billed, by trial."""

    usage: dict[int, Usage] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    begun: set[int] = field(default_factory=set)
    """Trials from which a call has arrived."""

    def answer(self, call: Call) -> Answer:
        trial = int(call.body["system"][0]["text"].split()[1])
        chance = random.Random(trial * 100_003 + call.number)
        # The first calls of the trials cover every kind, even if a busy machine makes few calls.
        first = EVERY[trial % len(EVERY)] if trial not in self.begun else None
        self.begun.add(trial)
        if isinstance(first, int) or (first is None and chance.random() < 0.2):
            status = first if isinstance(first, int) else chance.choice(FREE)
            self.kinds[str(status)] += 1
            return failure(status)
        bill = billed(call, chance)
        self.usage[trial] = self.usage.get(trial, Usage()) + priced(call, bill)
        kind = first if isinstance(first, str) else chance.choice(BILLED)
        self.kinds[kind] += 1
        return billed_answer(kind, bill)


def billed(call: Call, chance: random.Random) -> dict[str, int]:
    """Draw a bill: at most one token per two ASCII bytes or other byte, plus at most `max_tokens`; part is cached."""
    parts = [call.body.get(name) for name in ("system", "messages", "tools", "output_config")]
    raw = json.dumps(parts, ensure_ascii=False)
    plain = len(raw.encode("ascii", "ignore"))
    most = plain // 2 + len(raw.encode()) - plain
    share = chance.choice((1.0, 1.0, chance.random()))
    prompt, answer = int(most * share), int(call.body["max_tokens"] * share)
    written = chance.choice((0, prompt, prompt // 2))
    read = chance.choice((0, (prompt - written) // 2))
    return {
        "input_tokens": prompt - written - read,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": answer,
    }


def priced(call: Call, bill: dict[str, int]) -> Usage:
    written, read = bill["cache_creation_input_tokens"], bill["cache_read_input_tokens"]
    usage = Usage(
        calls=1,
        input_tokens=bill["input_tokens"] + written + read,
        output_tokens=bill["output_tokens"],
        cache_write_tokens=written,
        cache_read_tokens=read,
    )
    return usage.model_copy(update={"cost_usd": cost_of(call.body["model"]).cost(usage)})


def billed_answer(kind: str, bill: dict[str, int]) -> Answer:
    whole = message({"type": "text", "text": "Done."}, usage=bill)
    if kind in ("half", "reset"):
        return replace(whole, cut=kind)
    if kind == "late":
        return replace(whole, held=True)
    if kind == "no usage":
        return Answer(body=json.dumps({**json.loads(whole.body), "usage": None}).encode())
    return page() if kind == "page" else whole


def cost_of(name: str) -> Price:
    price = price_of(f"anthropic/{name}")
    assert price is not None
    return price


@dataclass
class Trial:
    """One command: several stages, models and concurrent calls on one budget; some answers are streamed."""

    number: int
    adapters: dict[str, AnthropicModel]

    def __post_init__(self) -> None:
        self.chance = random.Random(self.number)
        self.requests = [self.request() for _ in range(self.chance.choice((2, 3, 4, 12)))]
        self.cancels = self.chance.random() < 0.5
        self.told = Usage()
        """Usage reported to the callers by replies and failures."""
        self.budget = self.of_some(self.chance.choice(("usd", "tokens", "both")))

    def request(self) -> Request:
        text = "".join(self.chance.choices(WORDS, k=self.chance.randint(1, 400)))
        return Request(
            system=f"trial {self.number} {self.chance.choice(WORDS)}",
            messages=(Message(role="user", text=text),),
            tools=self.chance.choice(((), (TOOL,))),
            answer_schema=self.chance.choice((None, SCHEMA)),
            max_tokens=self.chance.randint(1, 2000),
        )

    def of_some(self, kind: str) -> Budget:
        """Return a budget for only some of the worst-case calls, so that it is binding."""
        worst = [worst_case(request, cost_of(self.chance.choice(MODELS))) for request in self.requests]
        share = self.chance.uniform(0.1, 1.2)
        usd = sum(one.cost_usd for one in worst) * share
        tokens = int(sum(one.input_tokens + one.output_tokens for one in worst) * share)
        return Budget(usd=None if kind == "tokens" else usd, tokens=None if kind == "usd" else tokens)

    async def run(self) -> None:
        """Make all calls, 2 to 16 at a time; some are cancelled after a moment."""
        slots = asyncio.Semaphore(self.chance.randint(2, 16))
        await asyncio.gather(*(self.call(request, slots, self.model()) for request in self.requests))

    def model(self) -> RetryingModel:
        name, stage = self.chance.choice(MODELS), self.chance.choice(STAGES)
        return RetryingModel(BudgetedModel(self.adapters[name], self.budget, cost_of(name), stage), PATIENCE)

    async def call(self, request: Request, slots: asyncio.Semaphore, model: RetryingModel) -> None:
        patience = self.chance.choice((None, None, self.chance.uniform(0.0, 0.1))) if self.cancels else None
        pieces: list[str] = []
        on_text = self.chance.choice((None, pieces.append))
        async with slots:
            try:
                async with asyncio.timeout(patience):
                    usage = (await model.complete(request, on_text)).usage
                self.told += usage
            except CallFailed as error:
                self.told += error.usage
            except TimeoutError:
                pass


def within(budget: Budget, usage: Usage) -> bool:
    """Return whether the usage fits; dollars may exceed by 1e-11, since float sums depend on the order."""
    in_dollars = budget.usd is None or usage.cost_usd <= budget.usd + 1e-11
    return in_dollars and (budget.tokens is None or usage.input_tokens + usage.output_tokens <= budget.tokens)


async def play(trials: list[Trial]) -> None:
    """Run the trials, some at a time and each with a time limit, so that an endless wait fails the test."""
    open_now = asyncio.Semaphore(AT_ONCE)

    async def one(trial: Trial) -> None:
        async with open_now, asyncio.timeout(PATIENCE_S):
            await trial.run()

    await asyncio.gather(*map(one, trials))


async def test_budget_is_never_exceeded_in_random_trials() -> None:
    ledger = Ledger()
    with MessagesServer(ledger.answer, latency_s=0.01) as server:
        adapters = {
            name: AnthropicModel(name, "key", server.url, cost_of(name), timeout_s=TIMEOUT_S) for name in MODELS
        }
        trials = [Trial(number, adapters) for number in range(TRIALS)]
        await play(trials)
        for adapter in adapters.values():
            await adapter.close()
    refused = 0
    for trial in trials:
        bill, spent = ledger.usage.get(trial.number, Usage()), trial.budget.spent
        assert within(trial.budget, bill), f"trial {trial.number} was billed {bill}, of {vars(trial.budget)}"
        assert within(trial.budget, spent), trial.number
        assert within(Budget(usd=spent.cost_usd, tokens=spent.input_tokens + spent.output_tokens), bill), trial.number
        assert same(spent, sum(trial.budget.by_stage.values(), Usage()))
        if not trial.cancels:
            assert same(trial.told, spent), f"trial {trial.number}: told {trial.told}, counted {spent}"
        refused += spent.calls < len(trial.requests)
    print(f"\n{TRIALS} trials, {len(server.calls)} calls, {dict(ledger.kinds)}, up to {server.peak} at once")
    assert refused > TRIALS / 4, "the budget binds in many of them"
    assert all(ledger.kinds[str(kind)] for kind in EVERY), "everything that can happen does"
    assert server.peak > 1


def same(one: Usage, other: Usage) -> bool:
    rounded = [usage.model_copy(update={"cost_usd": round(usage.cost_usd, 9)}) for usage in (one, other)]
    return rounded[0] == rounded[1]


async def test_unpriced_reply_without_usage_counts_its_worst_case() -> None:
    class Silent:
        id = "compatible/model"
        context_tokens = 1000

        async def complete(self, request: Request, on_text: object = None) -> Reply:
            return Reply(text="x", stop="end", usage=Usage())

        async def close(self) -> None: ...

    request = Request(system="s", messages=(Message(role="user", text="q"),))
    budget = Budget(tokens=10_000)
    reply = await RetryingModel(BudgetedModel(Silent(), budget, None, "judge")).complete(request)
    assert reply.usage == budget.spent == worst_case(request, None)

"""A discussion with a model: each question a bounded loop of reading and one answer, its citations resolved."""

import asyncio
from collections.abc import Callable
from functools import cached_property
from io import StringIO

from evalscribe.discuss.answer import Answer
from evalscribe.discuss.citations import HELP, Resolver
from evalscribe.discuss.dossier import Dossier
from evalscribe.discuss.history import Exchange, History
from evalscribe.discuss.tools import TOOLS, Tools
from evalscribe.ids import canonical_json
from evalscribe.judging.prompt_text import estimate_tokens, number_lines
from evalscribe.judging.tool_loop import TurnBounds, Turns, answer_calls, echo, estimate_conversation
from evalscribe.model.chat import CallFailed, Reply, Request, Usage
from evalscribe.model.protocols import Estimate, Model, OnText
from evalscribe.prompts.templates import Prompts

FOLDER = "discuss"
LAST = "This is your last turn for this question: answer now, with what you know, and call no tool."
LIKELY_TURNS = 3
LIKELY_READING = 2_000
LIKELY_ANSWER = 400
REPORT_SHARE = 3
"""The report is shown whole at first where it takes no more than one part in so many of the window."""
GAVE_UP = {
    "refusal": "the model refused to answer",
    "context_exceeded": "the discussion is too long for the model; begin a new one",
}


class Bounds(TurnBounds):
    """What one question may take at most."""

    answer_tokens: int = 4_000
    seconds: float = 300.0


class Conversation:
    """Questions and answers about one report, each in the light of those before it."""

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        dossier: Dossier,
        bounds: Bounds | None = None,
        *,
        cost: Callable[[Usage], float] | None = None,
    ) -> None:
        """`cost` prices one call in dollars. Raises `UsageError` for a broken template."""
        self._model = model
        self._prompts = prompts
        self._dossier = dossier
        self._bounds = bounds or Bounds()
        self._cost = cost
        self._tools = Tools(dossier)
        room = (
            model.context_tokens
            - self._bounds.answer_tokens
            - estimate_tokens(self._system)
            - estimate_tokens(canonical_json(TOOLS))
        )
        self._history = History(self._opening(), room * 9 // 10)

    def about(self, dossier: Dossier) -> None:
        """Go on about the report as it is now."""
        self._dossier = dossier
        self._tools = Tools(dossier)
        self._history.reopen(self._opening())

    def estimate(self) -> Estimate:
        """What the next question is likely to take."""
        first = estimate_tokens(self._system) + estimate_tokens(canonical_json(TOOLS)) + self._history.tokens
        return estimate_conversation(
            first, self._cost, turns=LIKELY_TURNS, reading=LIKELY_READING, answer=LIKELY_ANSWER
        )

    async def ask(self, question: str, on_text: OnText) -> Answer:
        """What concerns this question only is told in the answer; raises `EvalscribeError` for what concerns all.

        Cancelled, what was shown of the answer is part of the discussion all the same.
        """
        asked = _Asked(self._model, self._history.begin(question), self._tools, self._dossier, self._bounds, on_text)
        reason: str | None = "stopped"
        try:
            async with asyncio.timeout(self._bounds.seconds):
                reason = await asked.run(self._request)
        except TimeoutError:
            reason = f"no whole answer within {self._bounds.seconds:g} s"
        finally:
            asked.flush()
            self._history.end(asked.exchange, asked.written, whole=reason is None)
        resolved = asked.resolver
        return Answer(
            question=question,
            text=resolved.text,
            citations=tuple(resolved.citations),
            usage=asked.usage,
            broken_off=reason,
        )

    def _request(self, exchange: Exchange) -> Request:
        messages = self._history.messages(exchange)
        return Request(system=self._system, messages=messages, tools=TOOLS, max_tokens=self._bounds.answer_tokens)

    @cached_property
    def _system(self) -> str:
        return self._prompts.render(f"{FOLDER}/system.md.j2", citations=HELP)

    def _opening(self) -> str:
        """The report as data, whole where it has room, and what evidence there is."""
        lines = self._dossier.text.split("\n")
        room = self._model.context_tokens // REPORT_SHARE
        shown, used = 0, 0
        while shown < len(lines) and used <= room:
            used += estimate_tokens(lines[shown]) + 2
            shown += 1
        fence = self._dossier.fence
        missing = "\n".join(f"{n}: {reason}" for n, reason in self._dossier.missing())
        return self._prompts.render(
            f"{FOLDER}/opening.md.j2",
            tag=fence.tag,
            report=fence.block(
                f"the report, lines 1 to {shown} of {len(lines)}", number_lines(1, "\n".join(lines[:shown]))
            ),
            missing=fence.block("findings without evidence here", missing) if missing else "",
        ).strip()


class _Asked:
    """One question on its way to an answer."""

    def __init__(
        self, model: Model, exchange: Exchange, tools: Tools, dossier: Dossier, bounds: Bounds, on_text: OnText
    ) -> None:
        self.exchange = exchange
        self.resolver = Resolver(dossier, lambda: tools.at_hand)
        self._written = StringIO()
        self._turns = Turns(model, bounds, LAST)
        self._tools = tools
        self._bounds = bounds
        self._on_text = on_text

    @property
    def written(self) -> str:
        """The answer in the model's own words, as far as it came."""
        return self._written.getvalue()

    async def run(self, request: Callable[[Exchange], Request]) -> str | None:
        """Why there is no whole answer; None where there is."""
        while not self._turns.last:
            self._part()
            try:
                reply = await self._turns.ask(request(self.exchange), self._hear)
            except CallFailed as error:
                return error.reason
            self.flush()
            ended, reason = self._take(reply)
            if ended:
                return reason
        return f"no answer within {self._turns.taken}"

    @property
    def usage(self) -> Usage:
        return self._turns.usage

    def flush(self) -> None:
        """Show what was held back."""
        self._show(self.resolver.end())

    def _hear(self, piece: str) -> None:
        self._written.write(piece)
        self._show(self.resolver.feed(piece))

    def _show(self, words: str) -> None:
        if words:
            self._on_text(words)

    def _part(self) -> None:
        """What is said before and after reading are two paragraphs."""
        if self.written and not self.written.endswith("\n\n"):
            self._written.write("\n\n")
            self._show(self.resolver.say("\n\n"))

    def _take(self, reply: Reply) -> tuple[bool, str | None]:
        """Whether the question is done with, and why without an answer."""
        if reply.stop in GAVE_UP:
            return True, GAVE_UP[reply.stop]
        if reply.stop == "max_tokens":
            return True, f"the answer was cut off at {self._bounds.answer_tokens} tokens"
        self.exchange.turns += echo(reply)
        if reply.stop == "pause":
            return False, None
        if reply.tool_calls:
            self.exchange.turns.append(answer_calls(reply, self._tools.answer))
            return False, None
        return True, None if self.written.strip() else "the model gave no answer"

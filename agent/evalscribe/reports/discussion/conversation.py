"""Discuss a report, either with a model or by lookup without one.

The model answers and calls tools a limited number of times.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field, ValidationError

from evalscribe.errors import AccessError, ConsentError, DataError, NotFoundError
from evalscribe.ids import canonical_json
from evalscribe.judging.classifier_tools import READING_TOOLS
from evalscribe.judging.prompt_text import estimate_tokens, number_lines, one_line, quote_json
from evalscribe.judging.tool_loop import (
    ToolFields,
    TurnBounds,
    Turns,
    answer_calls,
    describe_misuse,
    estimate_conversation,
    reply_messages,
    tool_of,
)
from evalscribe.llm.budget import cost_of
from evalscribe.model.analysis import StageUsage
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Tool, ToolCall, ToolResult, Usage
from evalscribe.model.protocols import Estimate, Model, OnText
from evalscribe.model.repository import ReportFile
from evalscribe.prompts.templates import Prompts
from evalscribe.redaction.redact import redact
from evalscribe.reports.discussion.citations import HELP, AnswerResolver
from evalscribe.reports.discussion.dossier import (
    MOST_LOOKED_AT,
    DiscussionAnswer,
    EvidenceMissing,
    ReportEvidence,
    search_report,
)
from evalscribe.reports.discussion.lookup import LookupDiscussion
from evalscribe.reports.outline import spent_summary
from evalscribe.reports.reading import find_report, load_analysis, reload_report
from evalscribe.settings import RULES
from evalscribe.settings.consent import Consent
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore


BROKEN_OFF = "[broken off]"


class Exchange:
    """One question and the chat turns that followed it."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.answer = ""
        """Empty until the answer is complete."""
        self.turns: list[Message] = []
        """Turns after the question; empty when only the answer is kept."""

    def messages(self) -> list[Message]:
        question = Message(role="user", text=self.question)
        if self.turns or not self.answer:
            return [question, *self.turns]
        return [question, Message(role="assistant", text=self.answer)]

    @property
    def tokens(self) -> int:
        return estimate_tokens(canonical_json(self.messages()))


class DiscussionHistory:
    def __init__(self, opening: str, room: int) -> None:
        """Start a conversation. `opening` precedes the first question.

        `room` is the maximum number of tokens of all messages.
        """
        self._opening = opening
        self._room = room
        self._past: list[Exchange] = []

    @property
    def tokens(self) -> int:
        return estimate_tokens(self._opening) + sum(exchange.tokens for exchange in self._past)

    def begin(self, question: str) -> Exchange:
        return Exchange(question)

    def reopen(self, opening: str) -> None:
        """Replace the opening. Questions and answers of earlier exchanges stay, but their tool calls are dropped."""
        self._opening = opening
        for exchange in self._past:
            exchange.turns = []

    def end(self, exchange: Exchange, answer: str, *, complete: bool) -> None:
        """Finish an exchange.

        It is dropped if it has no text. If it was interrupted, the text so far is kept.
        """
        if not answer.strip():
            return
        if not complete:
            exchange.turns = []
        exchange.answer = answer.strip() if complete else f"{answer.strip()} {BROKEN_OFF}"
        self._past.append(exchange)

    def messages(self, exchange: Exchange) -> tuple[Message, ...]:
        """Return the messages of earlier exchanges and of the current one, within the limit `room`."""
        self._make_room(exchange.tokens)
        first, *others = [message for past in (*self._past, exchange) for message in past.messages()]
        return (first.model_copy(update={"text": f"{self._opening}\n\n{first.text}"}), *others)

    def _make_room(self, needed: int) -> None:
        for exchange in self._past:
            if self.tokens + needed <= self._room:
                return
            exchange.turns = []
        while self._past and self.tokens + needed > self._room:
            del self._past[0]


MOST_LINES = 300
MOST_HITS = 30
_NUMBER = {"type": "integer", "description": "Number of the finding in the report."}


class ReadReport(ToolFields):
    """Read lines of the report, with their numbers."""

    first: Annotated[int, Field(ge=1, description="First line, counted from 1.")]
    last: Annotated[int, Field(ge=1, description=f"Last line; {MOST_LINES} lines at most are shown at once.")]


class Find(ToolFields):
    """Find the places in the report and in the evidence of every finding that hold all of the given words."""

    words: Annotated[str, Field(min_length=1, max_length=200, description="Plain words, capitals or not.")]


def _of_finding(tool: Tool) -> Tool:
    """Return a tool for reading a failure's evidence, extended by an argument with the finding's number."""
    schema = tool.input_schema
    fields = {"finding": _NUMBER, **schema["properties"]}
    return tool.model_copy(update={"input_schema": {**schema, "properties": fields, "required": list(fields)}})


REPORT_TOOLS: dict[str, type[BaseModel]] = {"read_report": ReadReport, "find": Find}
TOOLS = (*(tool_of(name, fields) for name, fields in REPORT_TOOLS.items()), *map(_of_finding, READING_TOOLS))
_EVIDENCE = frozenset(tool.name for tool in READING_TOOLS)


class DiscussionTools:
    """The model's tools for reading the report and its evidence.

    Results are delimited, so that the model reads them as data.
    """

    def __init__(self, dossier: ReportEvidence) -> None:
        self.at_hand: int | None = next(iter(dossier.topics)) if len(dossier.topics) == 1 else None
        """Number of the finding whose evidence was read last, or of the only finding."""
        self._dossier = dossier

    def answer(self, call: ToolCall) -> ToolResult:
        """Return the result of a tool call. Never raises: an invalid call returns an error text."""
        if call.name in _EVIDENCE:
            return self._of_evidence(call)
        if call.name not in REPORT_TOOLS:
            names = ", ".join(tool.name for tool in TOOLS)
            return _refused(call, f"There is no tool {quote_json(call.name[:80])}; there are {names}.")
        try:
            arguments = REPORT_TOOLS[call.name].model_validate(call.input)
        except ValidationError as error:
            return _refused(call, describe_misuse(error))
        about, lines = self._report(arguments) if isinstance(arguments, ReadReport) else self._find(arguments)
        return ToolResult(call_id=call.id, text=self._dossier.delimiter.block(about, "\n".join(lines)))

    def _of_evidence(self, call: ToolCall) -> ToolResult:
        number = call.input.get("finding")
        if not isinstance(number, int) or number not in self._dossier.topics:
            return _refused(call, f"There is no such finding; the report has {_range(self._dossier.topics)}.")
        try:
            toolbox = self._dossier.toolbox(number)
        except EvidenceMissing as absent:
            return _refused(call, f"There is no evidence of finding {number} here: {one_line(str(absent))}")
        self.at_hand = number
        fields = {name: value for name, value in call.input.items() if name != "finding"}
        result = toolbox.answer(call.model_copy(update={"input": fields}))
        return result.model_copy(update={"text": f"Finding {number}:\n{result.text}"})

    def _report(self, arguments: ReadReport) -> tuple[str, Iterable[str]]:
        lines = self._dossier.text.split("\n")
        first = min(arguments.first, len(lines))
        last = min(max(first, arguments.last), len(lines), first + MOST_LINES - 1)
        about = f"the report, lines {first} to {last} of {len(lines)}"
        return about, [number_lines(first, "\n".join(lines[first - 1 : last]))]

    def _find(self, arguments: BaseModel) -> tuple[str, Iterable[str]]:
        words = arguments.words.split() if isinstance(arguments, Find) else []
        hits = search_report(self._dossier, words, MOST_HITS)
        texts = [
            f"{'report' if hit.finding is None else f'finding {hit.finding}, {one_line(hit.place)}'}\n"
            f"{number_lines(hit.first, chr(10).join(hit.lines))}"
            for hit in hits
        ]
        return "found", texts or ["nothing holds all of these words"]


def _range(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    return f"findings {ordered[0]} to {ordered[-1]}" if ordered else "none"


def _refused(call: ToolCall, reason: str) -> ToolResult:
    return ToolResult(call_id=call.id, text=reason, is_error=True)


FOLDER = "discuss"
LAST = "This is your last turn for this question: answer now, with what you know, and call no tool."
LIKELY_TURNS = 3
LIKELY_READING = 2_000
LIKELY_ANSWER = 400
REPORT_SHARE = 3
"""Divisor of the context window: lines of the report fill at most `1 / REPORT_SHARE` of it."""
GAVE_UP = {
    "refusal": "the model refused to answer",
    "context_exceeded": "the discussion is too long for the model; begin a new one",
}


class DiscussionLimits(TurnBounds):
    """Limits of one question."""

    answer_tokens: int = 4_000
    seconds: float = 300.0


class ModelDiscussion:
    """A conversation about one report."""

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        dossier: ReportEvidence,
        bounds: DiscussionLimits | None = None,
        *,
        cost: Callable[[Usage], float] | None = None,
    ) -> None:
        """Load the prompt templates. `cost` returns the price of a call in USD.

        Raises `UsageError` for a broken template.
        """
        self._model = model
        self._prompts = prompts
        self._dossier = dossier
        self._bounds = bounds or DiscussionLimits()
        self._cost = cost
        self._tools = DiscussionTools(dossier)
        room = (
            model.context_tokens
            - self._bounds.answer_tokens
            - estimate_tokens(self._system)
            - estimate_tokens(canonical_json(TOOLS))
        )
        self._history = DiscussionHistory(self._opening(), room * 9 // 10)

    def about(self, dossier: ReportEvidence) -> None:
        """Continue the conversation with the current version of the report."""
        self._dossier = dossier
        self._tools = DiscussionTools(dossier)
        self._history.reopen(self._opening())

    def estimate(self) -> Estimate:
        """Estimate the usage of the next question."""
        first = estimate_tokens(self._system) + estimate_tokens(canonical_json(TOOLS)) + self._history.tokens
        return estimate_conversation(
            first, self._cost, turns=LIKELY_TURNS, reading=LIKELY_READING, answer=LIKELY_ANSWER
        )

    async def ask(self, question: str, on_text: OnText) -> DiscussionAnswer:
        """Answer a question.

        If only this question fails, the answer states the problem. Raises `EvalscribeError` if no question can be
        answered.
        If the call is cancelled, the text displayed so far stays part of the conversation.
        """
        pending = _PendingQuestion(
            self._model, self._history.begin(question), self._tools, self._dossier, self._bounds, on_text
        )
        reason: str | None = "stopped"
        try:
            async with asyncio.timeout(self._bounds.seconds):
                reason = await pending.run(self._request)
        except TimeoutError:
            reason = f"no complete answer within {self._bounds.seconds:g} s"
        finally:
            pending.flush()
            self._history.end(pending.exchange, pending.answer_text, complete=reason is None)
        resolved = pending.resolver
        return DiscussionAnswer(
            question=question,
            text=resolved.text,
            citations=tuple(resolved.citations),
            usage=pending.usage,
            broken_off=reason,
        )

    def _request(self, exchange: Exchange) -> Request:
        messages = self._history.messages(exchange)
        return Request(system=self._system, messages=messages, tools=TOOLS, max_tokens=self._bounds.answer_tokens)

    @cached_property
    def _system(self) -> str:
        return self._prompts.render(f"{FOLDER}/system.md.j2", citations=HELP)

    def _opening(self) -> str:
        """Render the beginning of the conversation: the report as data, and the findings whose evidence is missing."""
        lines = self._dossier.text.split("\n")
        room = self._model.context_tokens // REPORT_SHARE
        count, used = 0, 0
        while count < len(lines) and used <= room:
            used += estimate_tokens(lines[count]) + 2
            count += 1
        delimiter = self._dossier.delimiter
        missing = "\n".join(f"{n}: {reason}" for n, reason in self._dossier.missing())
        return self._prompts.render(
            f"{FOLDER}/opening.md.j2",
            tag=delimiter.tag,
            report=delimiter.block(
                f"the report, lines 1 to {count} of {len(lines)}", number_lines(1, "\n".join(lines[:count]))
            ),
            missing=delimiter.block("findings without evidence here", missing) if missing else "",
        ).strip()


class _PendingQuestion:
    """A question while it is being answered."""

    def __init__(
        self,
        model: Model,
        exchange: Exchange,
        tools: DiscussionTools,
        dossier: ReportEvidence,
        bounds: DiscussionLimits,
        on_text: OnText,
    ) -> None:
        self.exchange = exchange
        self.resolver = AnswerResolver(dossier, lambda: tools.at_hand)
        self._answer_text = StringIO()
        self._turns = Turns(model, bounds, LAST)
        self._tools = tools
        self._bounds = bounds
        self._on_text = on_text

    @property
    def answer_text(self) -> str:
        """The answer so far, as the model wrote it."""
        return self._answer_text.getvalue()

    async def run(self, request: Callable[[Exchange], Request]) -> str | None:
        """Ask the question. Return the reason if the answer stays incomplete, else None."""
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
        """Display the text that has been held back."""
        self._show(self.resolver.end())

    def _hear(self, piece: str) -> None:
        self._answer_text.write(piece)
        self._show(self.resolver.feed(piece))

    def _show(self, words: str) -> None:
        if words:
            self._on_text(words)

    def _part(self) -> None:
        """Start a new paragraph after a tool call if the answer already has text."""
        if self.answer_text and not self.answer_text.endswith("\n\n"):
            self._answer_text.write("\n\n")
            self._show(self.resolver.say("\n\n"))

    def _take(self, reply: Reply) -> tuple[bool, str | None]:
        """Process a reply. Return whether the question is finished, and, if it got no answer, the reason."""
        if reply.stop in GAVE_UP:
            return True, GAVE_UP[reply.stop]
        if reply.stop == "max_tokens":
            return True, f"the answer was cut off at {self._bounds.answer_tokens} tokens"
        self.exchange.turns += reply_messages(reply)
        if reply.stop == "pause":
            return False, None
        if reply.tool_calls:
            self.exchange.turns.append(answer_calls(reply, self._tools.answer))
            return False, None
        return True, None if self.answer_text.strip() else "the model gave no answer"


NO_MODEL = (
    "No model is asked; findings and evidence are looked up. `help` lists what you can type. "
    "To have a model answer, run `evalscribe discuss REPORT --judge PROVIDER/MODEL` with a key, "
    "such as ANTHROPIC_API_KEY."
)


STAGE = "discuss"
"""Name of the stage under which the usage of the model calls is counted."""


def open_discussion(workspace: Workspace, name: str) -> "Discussion":
    """Open a discussion of a report with the configured model, or without any model.

    Args:
        workspace: Provides the report, its evidence and the models.
        name: Report name as in `find_report`.

    Raises:
        EvalscribeError: The report does not exist, or the model cannot be used.
    """
    file = find_report(workspace, name)
    model = _model(workspace)
    cost = cost_of(model) if model else None
    budget = workspace.budget
    tokens = f" and {budget.tokens:,} tokens" if budget.tokens is not None else ""
    bound = f"at most ${budget.usd:g}{tokens} in all"
    store, prompts, consent = workspace.store.analyses, workspace.prompts, workspace.consent
    if model:
        consent.check(model.id)
    return Discussion(file, store, prompts, model, cost=cost, budget=bound, consent=consent)


def _model(workspace: Workspace) -> Model | None:
    name = workspace.settings.judge_name
    if name == RULES:
        return None
    try:
        return workspace.models.open(name, STAGE)
    except AccessError as error:
        raise AccessError(
            f"{error}\nor search report and evidence without a model: `judge` rules", fields=(*error.fields, "judge")
        ) from None


def stage_usage(spent: Mapping[str, Usage]) -> tuple[StageUsage, ...]:
    """Return the usage of each stage in which calls were made."""
    return tuple(stage for stage in spent_summary(spent).stages if stage.calls)


class Discussion:
    """A report and the conversation about it."""

    def __init__(
        self,
        file: ReportFile,
        store: "AnalysisStore",
        prompts: Prompts,
        model: Model | None = None,
        *,
        cost: Callable[[Usage], float] | None = None,
        budget: str = "",
        consent: Consent | None = None,
    ) -> None:
        """Load the report.

        Args:
            file: The report.
            store: The store with its evidence.
            prompts: The prompt templates.
            model: The model that answers; None to answer by lookup.
            cost: Returns the price of a usage in USD.
            budget: The budget as text for display.
            consent: The user's consent to call the model, checked before each question; None if it was given.

        Raises:
            DataError: The report cannot be read.
            UsageError: A template is broken.
        """
        self.report = file
        self._store = store
        self._dossier = _dossier(file, store)
        self._overrides_prompts = bool(prompts.overrides("discuss"))
        self._conversation = ModelDiscussion(model, prompts, self._dossier, cost=cost) if model else None
        self._model = model
        self._budget = budget
        self._consent = consent or Consent(agreed=True)

    def introduction(self) -> tuple[str, ...]:
        """Return the lines to print before the first question."""
        lookup = () if self._conversation else LookupDiscussion(self._dossier).suggestions()
        return tuple(line for line in (self._model_note(), *lookup, *self._prompts_note(), *self._missing()) if line)

    async def ask(self, question: str, on_text: OnText) -> DiscussionAnswer:
        """Answer a question with resolved citations, and stream the text to `on_text`.

        Without consent to call the model, this and later questions are answered by lookup in report and evidence.

        First reloads the report, because people might have edited it. The model gets the new text. Raises
        `EvalscribeError` if no question can be answered; other problems are in `DiscussionAnswer.broken_off`.
        """
        self._read_again()
        question = redact(question)
        if self._conversation and self._model:
            try:
                self._consent.require(self._model.id, estimate=self._conversation.estimate())
            except ConsentError:
                self._conversation = None
                on_text(f"{NO_MODEL}\n\n")
        if self._conversation:
            return await self._conversation.ask(question, on_text)
        return await LookupDiscussion(self._dossier).ask(question, on_text)

    def _read_again(self) -> None:
        """Reload the report. If it cannot be read now, keep the version that was read last."""
        with suppress(NotFoundError, DataError):
            file = reload_report(self.report)
            if file.text != self.report.text:
                self._dossier = _dossier(file, self._store)
                self.report = file
                if self._conversation:
                    self._conversation.about(self._dossier)

    def _model_note(self) -> str:
        if not self._conversation or not self._model:
            return NO_MODEL
        bound = f"; {self._budget}" if self._budget else ""
        return f"{self._model.id} answers, {self._conversation.estimate().summary} a question{bound}."

    def _prompts_note(self) -> list[str]:
        if not (self._overrides_prompts and self._conversation):
            return []
        return ["The workspace's own prompts are used in place of the shipped ones."]

    def _missing(self) -> list[str]:
        missing = self._dossier.missing()
        if not missing:
            return []
        return [f"The evidence {self._whose([n for n, _ in missing])}is missing: {missing[0][1]}"]

    def _whose(self, missing: Sequence[int]) -> str:
        """Return `of findings 1, 2` if the evidence of these is missing; empty if all evidence is missing."""
        if len(missing) >= min(len(self._dossier.topics), MOST_LOOKED_AT):
            return ""
        several = "findings" if len(missing) > 1 else "finding"
        return f"of {several} {', '.join(map(str, missing[:10]))}{' …' if len(missing) > 10 else ''} "


def _dossier(file: ReportFile, store: "AnalysisStore") -> ReportEvidence:
    """Load the evidence, and redact the report, because a person could have added a secret to it."""
    return ReportEvidence(file.name, redact(file.text), load_analysis(file), store)

"""Discuss a report with a model or, if no model is used, by lookup.

For each question, the model can call tools a limited number of times.
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
        """Text of the answer. It stays empty until the exchange ends."""
        self.turns: list[Message] = []
        """Messages after the question, including tool calls. Empty if only the answer is kept."""

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
        """Start a conversation.

        `opening` is the text before the first question. `room` is the maximum number of tokens of all messages
        together.
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
        """Replace the opening text.

        The questions and answers of earlier exchanges are kept, but the tool calls in them are dropped.
        """
        self._opening = opening
        for exchange in self._past:
            exchange.turns = []

    def end(self, exchange: Exchange, answer: str, *, complete: bool) -> None:
        """Finish an exchange and add it to the history.

        An exchange without answer text is not added. If the answer was interrupted, its text so far is added.
        """
        if not answer.strip():
            return
        # The unfinished turns can end with a tool call that has no result.
        if not complete:
            exchange.turns = []
        exchange.answer = answer.strip() if complete else f"{answer.strip()} {BROKEN_OFF}"
        self._past.append(exchange)

    def messages(self, exchange: Exchange) -> tuple[Message, ...]:
        """Return the messages of all earlier exchanges and of the current exchange.

        If the messages would exceed the token limit, the oldest tool calls are dropped first, then the oldest
        exchanges.
        """
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
    """Return a copy of a tool that reads a failure's evidence, with the finding's number as an additional argument."""
    schema = tool.input_schema
    fields = {"finding": _NUMBER, **schema["properties"]}
    return tool.model_copy(update={"input_schema": {**schema, "properties": fields, "required": list(fields)}})


REPORT_TOOLS: dict[str, type[BaseModel]] = {"read_report": ReadReport, "find": Find}
TOOLS = (*(tool_of(name, fields) for name, fields in REPORT_TOOLS.items()), *map(_of_finding, READING_TOOLS))
_EVIDENCE = frozenset(tool.name for tool in READING_TOOLS)


class DiscussionTools:
    """Tools with which the model reads the report and its evidence.

    Results are enclosed in delimiters, so that the model treats them as data.
    """

    def __init__(self, dossier: ReportEvidence) -> None:
        self.at_hand: int | None = next(iter(dossier.topics)) if len(dossier.topics) == 1 else None
        """Number of the finding whose evidence was read last. If no evidence has been read, the number of the report's
        only finding, or None if the report has several findings.
        """
        self._dossier = dossier

    def answer(self, call: ToolCall) -> ToolResult:
        """Return the result of a tool call.

        An invalid call raises no exception; its result is an error message for the model.
        """
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
"""Lines of the report fill at most `1 / REPORT_SHARE` of the model's context window."""
GAVE_UP = {
    "refusal": "the model refused to answer",
    "context_exceeded": "the discussion is too long for the model; begin a new one",
}


class DiscussionLimits(TurnBounds):
    """Limits for answering a single question."""

    answer_tokens: int = 4_000
    seconds: float = 300.0


class ModelDiscussion:
    """A conversation with a model about one report."""

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        dossier: ReportEvidence,
        bounds: DiscussionLimits | None = None,
        *,
        cost: Callable[[Usage], float] | None = None,
    ) -> None:
        """Store the arguments and load the prompt templates.

        `cost` returns the price of a usage in USD. Raises `UsageError` if a template is broken.
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
        # Numbers of tokens are estimates, so a tenth of the window stays free.
        self._history = DiscussionHistory(self._opening(), room * 9 // 10)

    def about(self, dossier: ReportEvidence) -> None:
        """Continue the conversation with a new version of the report."""
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

        If only this question fails, the reason is in `broken_off` of the answer. Raises `EvalscribeError` if no further
        question could be answered either. If the call is cancelled, the text displayed so far stays part of the
        conversation.
        """
        pending = _PendingQuestion(
            self._model, self._history.begin(question), self._tools, self._dossier, self._bounds, on_text
        )
        # If this call is cancelled, the text so far is recorded as incomplete.
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
        """Render the text that opens the conversation.

        The opening has the report as delimited data, and the list of findings whose evidence is missing.
        """
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
        """The answer received so far, as the model wrote it."""
        return self._answer_text.getvalue()

    async def run(self, request: Callable[[Exchange], Request]) -> str | None:
        """Ask the model until the question is answered.

        Returns None if the answer is complete, otherwise the reason why it is not.
        """
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
        """Display text that was held back because it could have been the start of a citation."""
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
        """Process one reply of the model.

        Returns whether the question is finished. If it is finished without a complete answer, also returns the reason.
        """
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
"""Name of the stage under which the model calls of discussions are counted."""


def open_discussion(workspace: Workspace, name: str) -> "Discussion":
    """Open a discussion of a report with the configured model. If the judge is `rules`, no model is used.

    Args:
        workspace: Provides the report, its evidence and the models.
        name: Name of the report, in any form that `find_report` accepts.

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
            f"{error}\nor set `judge` to `rules` to search the report and its evidence without a model",
            fields=(*error.fields, "judge"),
        ) from None


def stage_usage(spent: Mapping[str, Usage]) -> tuple[StageUsage, ...]:
    """Return the usage of each stage that made model calls."""
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
            file: File of the report.
            store: The store with the evidence of the report's run.
            prompts: The prompt templates.
            model: The model that answers. If None, questions are answered by lookup.
            cost: Function that returns the price of a usage in USD.
            budget: Description of the budget, for display.
            consent: The user's consent to call the model, which is checked before each question. None means that the
                user has agreed.

        Raises:
            DataError: The report cannot be parsed.
            UsageError: A prompt template is broken.
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
        """Answer a question, resolve the citations in the answer, and stream the answer's text to `on_text`.

        If the user does not consent to calling the model, this question and all later ones are answered by lookup in
        the report and its evidence.

        The report is reloaded first, because people might have edited it. The model then sees the new text. Raises
        `EvalscribeError` if no question can be answered. Any other problem is in `DiscussionAnswer.broken_off`.
        """
        self._read_again()
        # A person can paste a secret into a question.
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
        """Reload the report. If the report cannot be read, keep the version that was loaded before."""
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
        """Return a phrase such as `of findings 1, 2`, which names the findings without evidence.

        Returns an empty string if the evidence of all findings is missing.
        """
        if len(missing) >= min(len(self._dossier.topics), MOST_LOOKED_AT):
            return ""
        several = "findings" if len(missing) > 1 else "finding"
        return f"of {several} {', '.join(map(str, missing[:10]))}{' …' if len(missing) > 10 else ''} "


def _dossier(file: ReportFile, store: "AnalysisStore") -> ReportEvidence:
    """Return the report with access to its evidence. The text of the report is redacted."""
    # A person could have added a secret to the report.
    return ReportEvidence(file.name, redact(file.text), load_analysis(file), store)

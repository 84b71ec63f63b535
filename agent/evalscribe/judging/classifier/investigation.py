"""The conversation about one failure: a bounded loop of answers, tool results and at last a submission."""

from collections.abc import Sequence

from evalscribe.chat import CallFailed, Message, Reply, Request, ToolCall, ToolResult, Usage
from evalscribe.evidence import Evidence
from evalscribe.finding import Classification, Unclassified, Verdict
from evalscribe.ids import Frozen
from evalscribe.judging.classifier.submission import Submission, doubts, parse, verdict, verified
from evalscribe.judging.classifier.tools import SUBMIT, Toolbox
from evalscribe.ports import Model

MOST_CALLS = 8
"""Tool calls of one answer that are served."""
NUDGE = "That was no verdict. Call `submit` with your verdict, or another tool if you still need to read."
LAST = "This is your last turn: call `submit` now, with what you know."
CUT_OFF = "Your last answer was cut off because it was too long. Think less, and call `submit` now."


class Bounds(Frozen):
    """What one failure may take at most."""

    turns: int = 12
    tokens: int = 400_000
    """Input and output of all turns together, as the model counts them."""
    seconds: float | None = 600.0
    """None where an answer may take a day."""
    answer_tokens: int = 8_000
    """Longest single answer, thinking included."""
    nudges: int = 2
    """Answers without a tool call, or cut off, that are asked again."""
    submissions: int = 3
    """Submissions that break the schema before the failure is given up."""


class Investigation:
    """One conversation; used once."""

    def __init__(
        self,
        model: Model,
        opening: Request,
        evidence: Evidence,
        toolbox: Toolbox,
        bounds: Bounds,
        *,
        judge: str,
        labels: Sequence[Classification],
    ) -> None:
        """`judge` is who the verdict is by, `labels` those that its rubric has."""
        self.usage = Usage()
        self._judge = judge
        self._labels = labels
        self._model = model
        self._opening = opening
        self._messages = list(opening.messages)
        self._asked: list[Request] = []
        self._evidence = evidence
        self._toolbox = toolbox
        self._bounds = bounds
        self._nudges = 0
        self._broken = 0
        self._doubted = False
        self._last = bounds.turns <= 1
        self._longest_input = 0

    async def run(self) -> Verdict | Unclassified:
        """Raises `EvalscribeError` only for what concerns all failures."""
        for turn in range(1, self._bounds.turns + 1):
            self._last = turn == self._bounds.turns or self._short_of_tokens()
            try:
                outcome = self._take(await self._ask())
            except CallFailed as error:
                self.usage += error.usage
                return self.unclassified(error.reason)
            if outcome is not None:
                return outcome
            if self._last:
                break
        return self._useless(f"no verdict within {turn} turns and {self._spent()} tokens")

    def unclassified(self, reason: str, *, final: bool = False) -> Unclassified:
        return Unclassified(reason=reason, judge=self._judge, final=final, usage=self.usage)

    def _useless(self, reason: str) -> Unclassified:
        """Given up for what was answered; where a call failed, the answers before it are still good."""
        for request in self._asked:
            self._model.forget(request)
        return self.unclassified(reason)

    async def _ask(self) -> Reply:
        messages = self._messages
        if self._last and messages[-1].role == "user":
            said = "\n\n".join(filter(None, (messages[-1].text, LAST)))
            messages = [*messages[:-1], messages[-1].model_copy(update={"text": said})]
        self._asked.append(self._opening.model_copy(update={"messages": tuple(messages)}))
        reply = await self._model.complete(self._asked[-1])
        self.usage += reply.usage
        self._longest_input = max(self._longest_input, reply.usage.input_tokens)
        return reply

    def _take(self, reply: Reply) -> Verdict | Unclassified | None:
        """What one answer comes to; None where the conversation goes on."""
        match reply.stop:
            case "refusal":
                return self.unclassified("the model refused to judge this failure", final=True)
            case "context_exceeded":
                return self.unclassified("the evidence is too long for the model", final=True)
            case "max_tokens":
                # An answer that was cut off is not echoed: its last tool call has no end.
                return self._nudge(CUT_OFF, f"the answer was cut off at {self._bounds.answer_tokens} tokens")
            case "pause":
                self._echo(reply)
                return None
        if not reply.tool_calls:
            self._echo(reply)
            return self._nudge(NUDGE, "the model gave no verdict")
        return self._serve(reply)

    def _serve(self, reply: Reply) -> Verdict | Unclassified | None:
        results: list[ToolResult] = []
        for n, call in enumerate(reply.tool_calls):
            answer = self._submit(call) if call.name == SUBMIT else self._read(call, n)
            if not isinstance(answer, ToolResult):
                return answer
            results.append(answer)
        self._echo(reply)
        self._messages.append(Message(role="user", tool_results=tuple(results)))
        return None

    def _read(self, call: ToolCall, n: int) -> ToolResult:
        if n >= MOST_CALLS:
            return ToolResult(call_id=call.id, text=f"At most {MOST_CALLS} calls at once.", is_error=True)
        return self._toolbox.answer(call)

    def _submit(self, call: ToolCall) -> Verdict | Unclassified | ToolResult:
        submission = parse(call.input, Submission, self._labels)
        if isinstance(submission, list):
            self._broken += 1
            if self._last or self._broken >= self._bounds.submissions:
                return self._useless(f"the verdict stayed invalid: {'; '.join(submission)[:200]}")
            return _sent_back(call, submission)
        citations = verified(submission, self._evidence)
        questions = [] if self._doubted or self._last else doubts(submission, citations)
        if questions:
            self._doubted = True
            return _sent_back(call, questions)
        return verdict(submission, citations, self._judge, self.usage)

    def _nudge(self, words: str, given_up: str) -> Unclassified | None:
        self._nudges += 1
        if self._nudges > self._bounds.nudges:
            return self._useless(given_up)
        self._messages.append(Message(role="user", text=words))
        return None

    def _echo(self, reply: Reply) -> None:
        if reply.raw or reply.text:
            self._messages.append(Message(role="assistant", text="" if reply.raw else reply.text, raw=reply.raw))

    def _spent(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens

    def _short_of_tokens(self) -> bool:
        """Whether a turn after this one might go over the bound: each turn asks all of the one before again."""
        return self._spent() + 2 * self._longest_input + self._bounds.answer_tokens > self._bounds.tokens


def _sent_back(call: ToolCall, problems: list[str]) -> ToolResult:
    return ToolResult(call_id=call.id, text="Correct this and submit again:\n" + "\n".join(problems), is_error=True)

"""The conversation about one failure: a bounded loop of answers, tool results and at last a submission."""

from collections.abc import Sequence

from evalscribe.judging.classifier.submission import Submission, doubts, parse, verdict, verified
from evalscribe.judging.classifier.tools import SUBMIT, Toolbox
from evalscribe.judging.turns import TurnBounds, Turns, echoed, served
from evalscribe.model.chat import CallFailed, Message, Reply, Request, ToolCall, ToolResult
from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import Classification, NoVerdictCause, Unclassified, Verdict
from evalscribe.model.protocols import Model

NUDGE = "That was no verdict. Call `submit` with your verdict, or another tool if you still need to read."
LAST = "This is your last turn: call `submit` now, with what you know."
CUT_OFF = "Your last answer was cut off because it was too long. Think less, and call `submit` now."


class Bounds(TurnBounds):
    """What one failure may take at most."""

    seconds: float | None = 600.0
    """None where an answer may take a day."""
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
        self._turns = Turns(model, bounds, LAST)
        self._judge = judge
        self._labels = labels
        self._opening = opening
        self._messages = list(opening.messages)
        self._evidence = evidence
        self._toolbox = toolbox
        self._bounds = bounds
        self._nudges = 0
        self._broken = 0
        self._doubted = False

    async def run(self) -> Verdict | Unclassified:
        """Raises `EvalscribeError` only for what concerns all failures."""
        while not self._turns.last:
            try:
                outcome = self._take(await self._turns.ask(self._request()))
            except CallFailed as error:
                return self.unclassified(error.reason, cause=error.cause)
            if outcome is not None:
                return outcome
        return self._useless(f"no verdict within {self._turns.taken}")

    def unclassified(self, reason: str, *, final: bool = False, cause: NoVerdictCause = "answer") -> Unclassified:
        return Unclassified(reason=reason, judge=self._judge, final=final, cause=cause, usage=self._turns.usage)

    def _useless(self, reason: str) -> Unclassified:
        """Given up for what was answered; where a call failed, the answers before it are still good."""
        self._turns.forget()
        return self.unclassified(reason)

    def _request(self) -> Request:
        return self._opening.model_copy(update={"messages": tuple(self._messages)})

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
                self._messages += echoed(reply)
                return None
        if not reply.tool_calls:
            self._messages += echoed(reply)
            return self._nudge(NUDGE, "the model gave no verdict")
        results: Message | Verdict | Unclassified = served(reply, self._answer)
        if not isinstance(results, Message):
            return results
        self._messages += [*echoed(reply), results]
        return None

    def _answer(self, call: ToolCall) -> ToolResult | Verdict | Unclassified:
        return self._submit(call) if call.name == SUBMIT else self._toolbox.answer(call)

    def _submit(self, call: ToolCall) -> Verdict | Unclassified | ToolResult:
        submission = parse(call.input, Submission, self._labels)
        if isinstance(submission, list):
            self._broken += 1
            if self._turns.last or self._broken >= self._bounds.submissions:
                return self._useless(f"the verdict stayed invalid: {'; '.join(submission)[:200]}")
            return _sent_back(call, submission)
        citations = verified(submission, self._evidence)
        questions = [] if self._doubted or self._turns.last else doubts(submission, citations)
        if questions:
            self._doubted = True
            return _sent_back(call, questions)
        return verdict(submission, citations, self._judge, self._turns.usage)

    def _nudge(self, words: str, given_up: str) -> Unclassified | None:
        self._nudges += 1
        if self._nudges > self._bounds.nudges:
            return self._useless(given_up)
        self._messages.append(Message(role="user", text=words))
        return None


def _sent_back(call: ToolCall, problems: list[str]) -> ToolResult:
    return ToolResult(call_id=call.id, text="Correct this and submit again:\n" + "\n".join(problems), is_error=True)

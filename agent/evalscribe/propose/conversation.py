"""The conversation that ends in a patch: a bounded loop of answers, tool results and at last a submission."""

from evalscribe import prose
from evalscribe.chat import CallFailed, Message, Reply, Request, ToolCall, ToolResult, Usage
from evalscribe.errors import DataError, UnavailableError
from evalscribe.ids import Frozen
from evalscribe.patch import Edit, Proposal
from evalscribe.ports import Model
from evalscribe.propose.edits import Refusal, changes
from evalscribe.propose.files import Files
from evalscribe.propose.scope import Scope
from evalscribe.propose.tools import Misused, NoChange, SubmitPatch, Toolbox, fields_of
from evalscribe.redaction import redact

MOST_CALLS = 8
"""Tool calls of one answer that are served."""
LONGEST_SUMMARY = 90
NUDGE = "That was no patch. Call `submit_patch`, `no_change`, or another tool if you still need to read."
LAST = "This is your last turn: call `submit_patch` or `no_change` now."
CUT_OFF = "Your last answer was cut off because it was too long. Think less, and submit a smaller patch now."


class Bounds(Frozen):
    """What one proposal may take at most."""

    turns: int = 16
    tokens: int = 400_000
    """Input and output of all turns together."""
    seconds: float = 600.0
    answer_tokens: int = 16_000
    nudges: int = 2
    broken: int = 2
    """Patches that do not apply and are sent back."""
    forbidden: int = 1
    """Patches that touch what the recommendation does not concern and are sent back."""


class Conversation:
    """One conversation; used once."""

    def __init__(
        self, model: Model, opening: Request, files: Files, scope: Scope, toolbox: Toolbox, bounds: Bounds
    ) -> None:
        self.usage = Usage()
        self._model = model
        self._opening = opening
        self._messages = list(opening.messages)
        self._asked: list[Request] = []
        self._files = files
        self._scope = scope
        self._toolbox = toolbox
        self._bounds = bounds
        self._nudges = 0
        self._broken = 0
        self._forbidden = 0
        self._longest_input = 0

    async def run(self) -> Proposal:
        """Raises `DataError` where the model comes to no patch that applies, `UnavailableError` where it cannot be
        asked."""
        for turn in range(1, self._bounds.turns + 1):
            last = turn == self._bounds.turns or self._short_of_tokens()
            proposal = self._take(await self._ask(last))
            if proposal is not None:
                return proposal
            if last:
                break
        raise self._given_up(f"no patch within {turn} turns and {self._spent():,} tokens")

    async def _ask(self, last: bool) -> Reply:
        messages = self._messages
        if last and messages[-1].role == "user":
            said = "\n\n".join(filter(None, (messages[-1].text, LAST)))
            messages = [*messages[:-1], messages[-1].model_copy(update={"text": said})]
        self._asked.append(self._opening.model_copy(update={"messages": tuple(messages)}))
        try:
            reply = await self._model.complete(self._asked[-1])
        except CallFailed as error:
            raise UnavailableError(f"{self._model.id} proposed nothing: {error.reason}\nNothing was changed.") from None
        self.usage += reply.usage
        self._longest_input = max(self._longest_input, reply.usage.input_tokens)
        return reply

    def _take(self, reply: Reply) -> Proposal | None:
        match reply.stop:
            case "refusal":
                raise self._given_up("it refused")
            case "context_exceeded":
                raise self._given_up("what it read is too long for it")
            case "max_tokens":
                self._nudge(CUT_OFF, f"its answer was cut off at {self._bounds.answer_tokens} tokens")
                return None
            case "pause":
                self._echo(reply)
                return None
        if not reply.tool_calls:
            self._echo(reply)
            self._nudge(NUDGE, "it submitted no patch")
            return None
        return self._serve(reply)

    def _serve(self, reply: Reply) -> Proposal | None:
        results: list[ToolResult] = []
        for n, call in enumerate(reply.tool_calls):
            answer = self._answer(call, n)
            if isinstance(answer, Proposal):
                return answer
            results.append(answer)
        self._echo(reply)
        self._messages.append(Message(role="user", tool_results=tuple(results)))
        return None

    def _answer(self, call: ToolCall, n: int) -> ToolResult | Proposal:
        if n >= MOST_CALLS:
            return ToolResult(call_id=call.id, text=f"At most {MOST_CALLS} calls at once.", is_error=True)
        try:
            asked = fields_of(call)
        except Misused as misused:
            return ToolResult(call_id=call.id, text=str(misused), is_error=True)
        match asked:
            case SubmitPatch():
                return self._submitted(call, asked)
            case NoChange(reason=reason):
                raise self._given_up(f"it says that no change of these files can do it: {_said(reason, 400)}")
        return self._toolbox.answer(call, asked)

    def _submitted(self, call: ToolCall, patch: SubmitPatch) -> ToolResult | Proposal:
        edits = tuple(Edit(path=one.path, old=one.old, new=one.new) for one in patch.edits)
        made = changes(edits, self._scope, self._files.raw)
        if not isinstance(made, Refusal):
            return Proposal(edits=edits, summary=_said(patch.summary, LONGEST_SUMMARY) or "Change the eval")
        self._broken += not made.forbidden
        self._forbidden += made.forbidden
        told = "; ".join(made.problems[:5])
        if self._forbidden > self._bounds.forbidden:
            raise self._given_up(f"its patch touches what the recommendation does not concern: {_said(told, 400)}")
        if self._broken > self._bounds.broken:
            raise self._given_up(f"its patch does not apply: {_said(told, 400)}")
        text = "\n".join(("Nothing of the patch was taken. Correct this and submit the whole patch again:", told))
        return ToolResult(call_id=call.id, text=text, is_error=True)

    def _given_up(self, reason: str) -> DataError:
        """What was answered led nowhere: who asks again is to be answered anew."""
        for request in self._asked:
            self._model.forget(request)
        return DataError(f"{self._model.id} proposed nothing that can be applied: {reason}.\nNothing was changed.")

    def _nudge(self, words: str, given_up: str) -> None:
        self._nudges += 1
        if self._nudges > self._bounds.nudges:
            raise self._given_up(given_up)
        self._messages.append(Message(role="user", text=words))

    def _echo(self, reply: Reply) -> None:
        if reply.raw or reply.text:
            self._messages.append(Message(role="assistant", text="" if reply.raw else reply.text, raw=reply.raw))

    def _spent(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens

    def _short_of_tokens(self) -> bool:
        """Whether a turn after this one might go over the bound: each turn asks all of the one before again."""
        return self._spent() + 2 * self._longest_input + self._bounds.answer_tokens > self._bounds.tokens


def _said(text: str, limit: int) -> str:
    return prose.cut(redact(prose.one_line(text)), limit).rstrip(" .")

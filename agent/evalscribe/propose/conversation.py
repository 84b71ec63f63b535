"""The conversation that ends in a patch: a bounded loop of answers, tool results and at last a submission."""

from evalscribe import text as prose
from evalscribe.errors import DataError, UnavailableError
from evalscribe.judging.tool_loop import TurnBounds, Turns, answer_calls, echo
from evalscribe.model.chat import CallFailed, Message, Reply, Request, ToolCall, ToolResult
from evalscribe.model.protocols import Model
from evalscribe.model.repository import Edit, Proposal
from evalscribe.propose.edits import Refusal, changes
from evalscribe.propose.files import Files
from evalscribe.propose.scope import Scope
from evalscribe.propose.tools import Misused, NoChange, SubmitPatch, Toolbox, fields_of
from evalscribe.redaction.redact import redact

LONGEST_SUMMARY = 90
NUDGE = "That was no patch. Call `submit_patch`, `no_change`, or another tool if you still need to read."
LAST = "This is your last turn: call `submit_patch` or `no_change` now."
CUT_OFF = "Your last answer was cut off because it was too long. Think less, and submit a smaller patch now."


class Bounds(TurnBounds):
    """What one proposal may take at most."""

    turns: int = 16
    answer_tokens: int = 16_000
    seconds: float = 600.0
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
        self._turns = Turns(model, bounds, LAST)
        self._model = model.id
        self._opening = opening
        self._messages = list(opening.messages)
        self._files = files
        self._scope = scope
        self._toolbox = toolbox
        self._bounds = bounds
        self._nudges = 0
        self._broken = 0
        self._forbidden = 0

    async def run(self) -> Proposal:
        """Raises `DataError` where the model comes to no patch that applies, `UnavailableError` where it cannot be
        asked."""
        while not self._turns.last:
            request = self._opening.model_copy(update={"messages": tuple(self._messages)})
            try:
                reply = await self._turns.ask(request)
            except CallFailed as error:
                reason = f"{self._model} proposed nothing: {error.reason}\nNothing was changed."
                raise UnavailableError(reason) from None
            proposal = self._take(reply)
            if proposal is not None:
                return proposal
        raise self._given_up(f"no patch within {self._turns.taken}")

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
                self._messages += echo(reply)
                return None
        if not reply.tool_calls:
            self._messages += echo(reply)
            self._nudge(NUDGE, "it submitted no patch")
            return None
        results = answer_calls(reply, self._answer)
        if isinstance(results, Proposal):
            return results
        self._messages += [*echo(reply), results]
        return None

    def _answer(self, call: ToolCall) -> ToolResult | Proposal:
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
        self._turns.forget()
        return DataError(f"{self._model} proposed nothing that can be applied: {reason}.\nNothing was changed.")

    def _nudge(self, words: str, given_up: str) -> None:
        self._nudges += 1
        if self._nudges > self._bounds.nudges:
            raise self._given_up(given_up)
        self._messages.append(Message(role="user", text=words))


def _said(text: str, limit: int) -> str:
    return prose.cut(redact(prose.one_line(text)), limit).rstrip(" .")

"""Ask a model for the change that a recommendation calls for; what it proposed once is known from then on."""

import asyncio
from collections.abc import Sequence

from evalscribe.errors import DataError, UnavailableError
from evalscribe.ids import content_id
from evalscribe.model.chat import Effort, Message, Request
from evalscribe.model.finding import Recommendation
from evalscribe.model.protocols import Model
from evalscribe.model.repository import FileChange, Patch, Proposal
from evalscribe.model.storage import Store
from evalscribe.prompts.templates import Prompts
from evalscribe.propose.conversation import Bounds, Conversation
from evalscribe.propose.edits import Refusal, changes
from evalscribe.propose.files import Files
from evalscribe.propose.question import Concern, fence_of, instructions, question
from evalscribe.propose.scope import Scope
from evalscribe.propose.tools import TOOLS, Toolbox

EFFORT: Effort = "high"


class Proposer:
    """One recommendation, the files of one commit, and whom to ask."""

    def __init__(
        self,
        recommendation: Recommendation,
        concerns: Sequence[Concern],
        scope: Scope,
        files: Files,
        *,
        model: Model,
        prompts: Prompts,
        bounds: Bounds | None = None,
    ) -> None:
        self._scope = scope
        self._files = files
        self._model = model
        self._bounds = bounds or Bounds()
        fence = fence_of(recommendation, concerns, scope, files)
        self._toolbox = Toolbox(files, scope, fence)
        asked = question(prompts, recommendation, concerns, scope, files, fence)
        self._opening = Request(
            system=instructions(prompts),
            messages=(Message(role="user", text=asked),),
            tools=TOOLS,
            max_tokens=self._bounds.answer_tokens,
            effort=EFFORT,
        )

    @property
    def key(self) -> str:
        """Content id of the question. What is known of an equal one is taken where it still applies to the files."""
        return content_id([self._model.id, self._opening, self._scope.files])

    async def propose(self, store: Store, *, fresh: bool = False) -> Proposal:
        """What was proposed before, unless `fresh`, or what the model proposes now.

        Raises `DataError` where the model comes to no patch that applies, `UnavailableError` where none answers."""
        known = None if fresh else store.proposal(self.key)
        if known is not None and not isinstance(self._changes(known), Refusal):
            return known
        talk = Conversation(self._model, self._opening, self._files, self._scope, self._toolbox, self._bounds)
        try:
            async with asyncio.timeout(self._bounds.seconds):
                proposal = await talk.run()
        except TimeoutError:
            raise UnavailableError(
                f"{self._model.id} proposed no patch within {self._bounds.seconds:g} s. Nothing was changed."
            ) from None
        store.put_proposal(self.key, proposal)
        return proposal

    def patch(self, proposal: Proposal, *, run: str, recommendation: str, base: str) -> Patch:
        """The proposal against the files of the commit `base`, which this was made with."""
        made = self._changes(proposal)
        if isinstance(made, Refusal):
            raise DataError(f"the proposal does not apply: {'; '.join(made.problems)}. Nothing was changed.")
        return Patch(
            run=run,
            recommendation=recommendation,
            base=base,
            changes=made,
            summary=proposal.summary,
            judge=self._model.id,
        )

    def _changes(self, proposal: Proposal) -> tuple[FileChange, ...] | Refusal:
        return changes(proposal.edits, self._scope, self._files.raw)

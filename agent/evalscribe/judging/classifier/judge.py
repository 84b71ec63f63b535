"""The model judge: one case in, one verdict or the reason why there is none."""

import asyncio
from collections.abc import Callable
from functools import cached_property

from evalscribe.across import in_words
from evalscribe.ids import canonical_json, content_id
from evalscribe.judging.classifier.investigation import Bounds, Investigation
from evalscribe.judging.classifier.question import FOLDER, instructions, question
from evalscribe.judging.classifier.tools import READING, Toolbox, submit_tool
from evalscribe.judging.failure_rubric import judge_id, labels, shipped_rubric
from evalscribe.judging.fence import Fence
from evalscribe.judging.precedents import shown
from evalscribe.judging.turns import likely
from evalscribe.model.chat import Effort, Message, Request, Usage
from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.model.protocols import Estimate, Model
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts
from evalscribe.tokens import estimate

VERSION = 1
"""Raised when the same question would be asked in another way than templates and tools show."""
LIKELY_TURNS = 3
LIKELY_ANSWER = 1_200
"""Tokens of one answer, thinking included."""
LIKELY_READING = 1_500
"""Tokens that one turn of tool results adds."""


class ModelJudge:
    """A `Judge` that lets a model investigate each failure within bounds."""

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        *,
        rubric: Rubric | None = None,
        bounds: Bounds | None = None,
        effort: Effort | None = "high",
        cost: Callable[[Usage], float] | None = None,
    ) -> None:
        """`rubric` says what to decide, the shipped one where it is None; `cost` prices one call in dollars.

        Raises `UsageError` for a rubric with other labels.
        """
        self.rubric = rubric or shipped_rubric()
        self.id = judge_id(model.id, self.rubric)
        self._labels = labels(self.rubric)
        self._tools = (*READING, submit_tool(labels=self._labels))
        self._model = model
        self._prompts = prompts
        self._bounds = bounds or Bounds()
        self._effort = effort
        self._cost = cost

    def key(self, case: Failure) -> str:
        """Content id of templates, rubric, tools, model, effort, evidence and what is shown of it and beside it."""
        return content_id(
            [
                VERSION,
                self._prompts.digest(FOLDER),
                self.rubric.digest,
                self._tools,
                self._model.id,
                self._effort,
                case.evidence.digest,
                case.packed,
                shown(case.precedents),
                *([models] if (models := in_words(case.across)) else []),
                *([case.examples] if case.examples else []),
            ]
        )

    def estimate(self, case: Failure) -> Estimate:
        """What the case is likely to take: a few turns, each reading the ones before from the cache."""
        first = self._first_tokens + estimate(question(self._prompts, case, Fence.of(case)))
        return likely(first, self._cost, turns=LIKELY_TURNS, reading=LIKELY_READING, answer=LIKELY_ANSWER)

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        fence = Fence.of(case)
        opening = Request(
            system=self._system,
            messages=(Message(role="user", text=question(self._prompts, case, fence)),),
            tools=self._tools,
            max_tokens=self._bounds.answer_tokens,
            effort=self._effort,
        )
        toolbox = Toolbox(case.evidence, fence)
        investigation = Investigation(
            self._model, opening, case.evidence, toolbox, self._bounds, judge=self.id, labels=self._labels
        )
        try:
            async with asyncio.timeout(self._bounds.seconds):
                return await investigation.run()
        except TimeoutError:
            return investigation.unclassified(f"no verdict within {self._bounds.seconds:g} s", cause="service")

    @cached_property
    def _system(self) -> str:
        """The same for every case, so that the provider's cache holds it together with the tools."""
        return instructions(self._prompts, self.rubric)

    @cached_property
    def _first_tokens(self) -> int:
        return estimate(self._system) + estimate(canonical_json(self._tools))

"""The first pass: one call of a cheap model that answers, says whether it is sure, and tags what might apply."""

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property

from evalscribe.across import in_words
from evalscribe.ids import canonical_json, content_id
from evalscribe.judging.classifier.question import FOLDER, instructions, question
from evalscribe.judging.classifier.submission import FirstSubmission, parse, verdict, verified
from evalscribe.judging.classifier.tools import SUBMIT, submit_tool
from evalscribe.judging.failure_rubric import judge_id, labels
from evalscribe.judging.fence import Fence
from evalscribe.judging.precedents import shown
from evalscribe.model.cascade import Tag
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Usage
from evalscribe.model.finding import UNCERTAIN_CONFIDENCE, Failure, Unclassified, Verdict
from evalscribe.model.protocols import Estimate, Model
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts
from evalscribe.tokens import estimate

VERSION = 1
TEMPLATE = "judging/tag.md.j2"
LONGEST_ANSWER = 4_000
"""Tokens of the one answer."""
LIKELY_ANSWER = 500
SECONDS = 50.0
"""So that the stage after it still has its whole time."""
GAVE_UP = {
    "refusal": "the model refused to judge this failure",
    "context_exceeded": "the evidence is too long for the model",
    "max_tokens": "the answer was cut off",
}


class FirstPass:
    """A `Judge` whose verdicts have tags; one that is not proven by its quotations is uncertain."""

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        rubric: Rubric,
        tags: Sequence[Tag],
        *,
        cost: Callable[[Usage], float] | None = None,
        seconds: float | None = SECONDS,
    ) -> None:
        """`cost` prices one call in dollars, `seconds` bound it. Raises `UsageError` for a rubric without labels."""
        self.id = judge_id(model.id, rubric)
        self._model = model
        self._prompts = prompts
        self._rubric = rubric
        self._tags = tuple(tags)
        self._labels = labels(rubric)
        self._tool = submit_tool(FirstSubmission, self._labels, [tag.name for tag in tags])
        self._cost = cost
        self._seconds = seconds

    def key(self, case: Failure) -> str:
        """Content id of instructions, tool, model, evidence and what is shown of it and beside it."""
        asked = [self._system, self._prompts.digest(FOLDER), self._rubric.digest, self._tool, self._model.id]
        models = in_words(case.across)
        read = [case.evidence.digest, case.packed, shown(case.precedents), *([models] if models else [])]
        return content_id(["first pass", VERSION, asked, *read, *([case.examples] if case.examples else [])])

    def estimate(self, case: Failure) -> Estimate:
        """One call; its instructions are read from the cache after the first."""
        shared = estimate(self._system) + estimate(canonical_json(self._tool))
        read = shared + estimate(question(self._prompts, case, Fence.of(case)))
        usage = Usage(calls=1, input_tokens=read, output_tokens=LIKELY_ANSWER, cache_read_tokens=shared)
        cost = self._cost(usage) if self._cost else None
        return Estimate(input_tokens=read, output_tokens=LIKELY_ANSWER, cost_usd=cost)

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        request = self._request(case)
        try:
            async with asyncio.timeout(self._seconds):
                reply = await self._model.complete(request)
        except CallFailed as error:
            return Unclassified(reason=error.reason, judge=self.id, cause=error.cause, usage=error.usage)
        except TimeoutError:
            return Unclassified(reason=f"no answer within {self._seconds:g} s", judge=self.id, cause="service")
        found = self._taken(reply, case)
        if isinstance(found, Unclassified) and not found.final:
            self._model.forget(request)
        return found

    def _request(self, case: Failure) -> Request:
        asked = Message(role="user", text=question(self._prompts, case, Fence.of(case)))
        return Request(system=self._system, messages=(asked,), tools=(self._tool,), max_tokens=LONGEST_ANSWER)

    def _taken(self, reply: Reply, case: Failure) -> Verdict | Unclassified:
        """What the one answer comes to: nothing is sent back, for the next stage asks better."""
        if reply.stop in GAVE_UP:
            final = reply.stop != "max_tokens"
            return Unclassified(reason=GAVE_UP[reply.stop], judge=self.id, final=final, usage=reply.usage)
        call = next((call for call in reply.tool_calls if call.name == SUBMIT), None)
        submission = parse(call.input, FirstSubmission, self._labels) if call else ["the model gave no verdict"]
        if isinstance(submission, list):
            return Unclassified(reason="; ".join(submission)[:200], judge=self.id, usage=reply.usage)
        citations = verified(submission, case.evidence)
        held = sum(citation.status != "unverified" for citation in citations)
        proven = held == len(citations) and held >= max(1, self._rubric.min_citations)
        found = verdict(submission, citations, self.id, reply.usage)
        tags = tuple(tag.name for tag in self._tags if tag.name in submission.tags)
        unsure = {"uncertain": True, "confidence": min(found.confidence, UNCERTAIN_CONFIDENCE)}
        return found.model_copy(update={"tags": tags} | ({} if submission.sure and proven else unsure))

    @cached_property
    def _system(self) -> str:
        """The same for every case, so that the provider's cache holds it."""
        words = self._prompts.render(TEMPLATE, tags=self._tags, rest="").strip()
        return instructions(self._prompts, self._rubric, first_pass=words)

"""How many conversations decide about one subject, and how: one, a majority, or a majority of second thoughts."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evalscribe.ids import Frozen
from evalscribe.judging.rubric.reflection import reflected
from evalscribe.judging.rubric.rollout import Conversation, Rollout
from evalscribe.judging.rubric.vote import Election, elected
from evalscribe.judging.subject.item import Subject
from evalscribe.model.chat import Request, Usage
from evalscribe.model.protocols import Model
from evalscribe.model.rubric import JudgeVariant, Rubric


class Decision(Frozen):
    """What the rollouts about one subject came to."""

    election: Election | None
    """None where every rollout failed."""
    subject: Subject
    """What the winner could cite: with the first answers where it is a reflection."""
    metadata: dict[str, Any]
    """Of the deciding stage, and of the other one under its name."""
    usage: Usage
    """Of all stages."""
    reason: str | None = None
    """Why there is no result, in one line."""
    final: bool = False
    """Of a failure: asking the same again is pointless."""
    too_long: bool = False
    """Of a failure: the prompt is beyond the model's window."""


@dataclass(frozen=True)
class Panel:
    """Who is asked, and what: the same for every rollout about one subject."""

    model: Model
    rubric: Rubric
    subject: Subject
    """Whole, also where the prompt shows only what was observed in it."""
    opening: Request
    timeout_s: float | None
    """Of one rollout."""

    async def rollouts(self, opening: Request) -> tuple[Rollout, ...]:
        """All at once. Raises `EvalscribeError` for what concerns all of them, and then none goes on."""
        n = self.rubric.n_rollouts_per_input
        asked = [self._ask(opening.model_copy(update={"rollout": number})) for number in range(n)]
        if len(asked) == 1:
            return (await asked[0],)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one) for one in asked]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return tuple(task.result() for task in tasks)

    async def _ask(self, opening: Request) -> Rollout:
        return await Conversation(self.model, opening, self.rubric, self.subject).run(self.timeout_s)


def reflects(rubric: Rubric) -> bool:
    """Whether there is a second stage: a single answer has nothing to be compared with."""
    return rubric.judge_variant is JudgeVariant.MULTI_REFLECT and rubric.n_rollouts_per_input > 1


def undecided(subject: Subject, reason: str, usage: Usage | None = None, *, final: bool = False) -> Decision:
    """Nobody could be asked."""
    metadata = {"errors": [reason], "n_rollouts": 0, "failed": 0, "rollouts": []}
    return Decision(
        election=None, subject=subject, metadata=metadata, usage=usage or Usage(), reason=reason, final=final
    )


async def decided(panel: Panel) -> Decision:
    """The rubric's variant, carried out. Raises `EvalscribeError` for what concerns all subjects."""
    answers = await panel.rollouts(panel.opening)
    first = _decision(answers, panel.subject, panel.rubric)
    if first.election is None or not reflects(panel.rubric):
        return first
    subject, turn = reflected(panel.subject, answers)
    opening = panel.opening.model_copy(update={"messages": (*panel.opening.messages, turn)})
    second = _decision(await panel.rollouts(opening), subject, panel.rubric)
    return _of_both(first, second)


def _of_both(first: Decision, second: Decision) -> Decision:
    """The reflections decide; where all of them failed, the first answers do."""
    usage = first.usage + second.usage
    if second.election is None:
        told = {"decided_by": "answers", "fallback": second.reason, "reflections": second.metadata}
        return first.model_copy(update={"metadata": {**first.metadata, **told}, "usage": usage})
    told = {"decided_by": "reflections", "answers": first.metadata}
    return second.model_copy(update={"metadata": {**second.metadata, **told}, "usage": usage})


def _decision(rollouts: Sequence[Rollout], subject: Subject, rubric: Rubric) -> Decision:
    election = elected(rollouts, rubric.output_schema)
    return Decision(
        election=election,
        subject=subject,
        metadata=_metadata(rollouts, election),
        usage=sum((one.usage for one in rollouts), Usage()),
        reason=None if election else _reason(rollouts),
        final=election is None and all(one.final for one in rollouts),
        too_long=election is None and any(one.too_long for one in rollouts),
    )


def _metadata(rollouts: Sequence[Rollout], election: Election | None) -> dict[str, Any]:
    failed = [one.reason for one in rollouts if one.output is None]
    counted = {"n_rollouts": len(rollouts), "failed": len(failed), "rollouts": [_told(one) for one in rollouts]}
    if election is None:
        return {"errors": failed, **counted}
    return {
        "agt_keys": list(election.votes),
        "votes": election.votes,
        "agreement": election.agreement,
        "tie": election.tie,
        **counted,
    }


def _told(one: Rollout) -> dict[str, Any]:
    came_to = {"error": one.reason} if one.output is None else {"output": one.output}
    return {"rollout": one.number, **came_to, "full_output": one.full_output}


def _reason(rollouts: Sequence[Rollout]) -> str:
    reasons = "; ".join(dict.fromkeys(one.reason or "" for one in rollouts))
    return reasons if len(rollouts) == 1 else f"all {len(rollouts)} rollouts failed: {reasons}"

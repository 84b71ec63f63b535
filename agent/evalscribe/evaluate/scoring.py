"""Scores of one try: every scorer in order, each with what it is given and what it says."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.evaluate.trace import trace_of
from evalscribe.evaluate.verdict import judged
from evalscribe.model.dataset import Item, short_id
from evalscribe.model.experiment import ItemTrial, RunItem
from evalscribe.model.experiment_storage import ScorerRunner
from evalscribe.model.score import Binding, Score, ScoreEvidence, ScoreResult, ScorerRequest
from evalscribe.model.transcript_text import render_transcript


class Scored(NamedTuple):
    """What one scorer said of one try."""

    binding: Binding
    seen: JsonValue
    """The request, as JSON; the same object where several scorers saw the same."""
    result: ScoreResult


class Panel:
    """The scorers of an experiment, in topological order of what they depend on."""

    def __init__(self, bindings: Sequence[Binding], runners: Sequence[ScorerRunner]) -> None:
        """Each runner is called as its binding."""
        by_name = {binding.spec.name: binding for binding in bindings}
        self._members = [(by_name[runner.name], runner) for runner in runners]

    async def scored(
        self, item: Item, attempt: ItemTrial, peers: Mapping[str, ScoreResult] | None = None
    ) -> tuple[Scored, ...]:
        """`peers`: results of scorers that are not of this panel. Raises `EvalscribeError` for what concerns all."""
        request = _request(item, attempt)
        shared: JsonValue = request.model_dump(mode="json")
        said = dict(peers or {})
        found = []
        for binding, runner in self._members:
            asked, seen = request, shared
            if runner.depends_on:
                known = {name: said[name] for name in runner.depends_on if name in said}
                asked = request.model_copy(update={"peer_scores": known})
                seen = asked.model_dump(mode="json")
            said[runner.name] = judged(await runner.score(asked), binding)
            found.append(Scored(binding, seen, said[runner.name]))
        return tuple(found)


def stored(
    scored: Scored, item: RunItem, now: str, *, supersedes: str | None = None, reason: str | None = None
) -> tuple[Score, ScoreEvidence]:
    """As it is kept. The id is made of what it scores, so that the same try is never scored twice over."""
    binding, seen, result = scored
    score = Score(
        id=short_id("score", [item.id, binding.spec.name, supersedes]),
        run_id=item.run_id,
        run_item_id=item.id,
        item_key=item.item_key,
        repetition=item.repetition,
        scorer=binding.spec.name,
        scorer_version_id=binding.spec.id,
        required=binding.required,
        status=result.status,
        value=result.value,
        passed=result.passed,
        label=result.label,
        explanation=result.explanation,
        error_type=result.error_type,
        cost_usd=result.usage.cost_usd,
        supersedes=supersedes,
        reason=reason,
        created_at=now,
    )
    evidence = ScoreEvidence.model_construct(  # Of what was checked already: to look at all of it again takes long.
        scorer_input=seen,
        scorer_output=result.output,
        evidence=result.evidence,
        metadata={**result.metadata, "config": binding.spec.config},
    )
    return score, evidence


def as_result(score: Score) -> ScoreResult:
    """What a stored score said, for the verdict and for scorers that depend on it."""
    return ScoreResult(
        status=score.status,
        value=score.value,
        passed=score.passed,
        label=score.label,
        explanation=score.explanation,
        error_type=score.error_type,
    )


def _request(item: Item, attempt: ItemTrial) -> ScorerRequest:
    return ScorerRequest(
        input=item.input,
        output=attempt.output,
        expected=item.expected_output,
        metadata=item.metadata,
        trace=trace_of(attempt),
        transcript=render_transcript(attempt.transcript) if attempt.transcript else None,
    )

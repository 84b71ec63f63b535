"""A cascade over the failures of a run: rules, a cheap model that tags, an expensive one that investigates."""

from collections.abc import Mapping
from typing import Protocol

from evalscribe.ids import content_id
from evalscribe.model.cascade import Stage
from evalscribe.model.chat import Usage
from evalscribe.model.finding import UNCERTAIN_CONFIDENCE, Failure, Unclassified, Verdict
from evalscribe.model.protocols import Estimate, Judge

VERSION = 1
"""Raised when the stages hand on in another way."""


class Rules(Protocol):
    """Decides at once and free of charge."""

    id: str

    def key(self, case: Failure) -> str: ...
    def decide(self, case: Failure) -> Verdict: ...


class Kept(Protocol):
    """Where the answer of each stage is kept by its question; `Store` is one."""

    def get_verdict(self, key: str) -> Verdict | Unclassified | None: ...
    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None: ...


class CaseCascade:
    """A `Judge`: each stage decides what it is sure of and hands on the rest."""

    def __init__(
        self,
        first: Judge,
        tagged: Mapping[str, Judge],
        judge: Judge,
        *,
        rules: Rules | None = None,
        kept: Kept | None = None,
        fresh: bool = False,
    ) -> None:
        """`first` tags; of several tags the first of `tagged` decides which judge looks closer, `judge` where none is.

        `fresh`: ask again what `kept` knows.
        """
        self.judges = tuple(dict.fromkeys([*([rules.id] if rules else []), first.id, judge.id, *_ids(tagged)]))
        self.id = " > ".join(self.judges)
        self.alone = judge
        """Who would judge every failure without a cascade."""
        self.first = first
        self._rules = rules
        self._tagged = dict(tagged)
        self._kept = kept
        self._fresh = fresh

    def key(self, case: Failure) -> str:
        stages = [self._rules, self.first, *self._tagged.values(), self.alone]
        return content_id(
            ["cascade", VERSION, list(self._tagged), [stage.key(case) if stage else "" for stage in stages]]
        )

    def estimate(self, case: Failure) -> Estimate:
        """The most that the stages are likely to take together."""
        stages = self.estimates(case).values()
        return sum(stages, Estimate())

    def estimates(self, case: Failure) -> dict[Stage, Estimate]:
        """By stage: nothing where the rules are sure, else the cheap call and the dearest that may follow."""
        if self._rules and not self._rules.decide(case).uncertain:
            return {}
        closer = [judge.estimate(case) for judge in (self.alone, *self._tagged.values())]
        return {"tag": self.first.estimate(case), "judge": max(closer, key=lambda one: one.input_tokens)}

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        guess = self._rules.decide(case) if self._rules else None
        if guess is not None and not guess.uncertain:
            return guess.model_copy(update={"stage": "rules"})
        first = await self._ask(self.first, case)
        known = first if isinstance(first, Verdict) else None
        if known and not known.tags and not known.uncertain:
            return known.model_copy(update={"stage": "tag"})
        tags = known.tags if known else ()
        closer = next((judge for tag, judge in self._tagged.items() if tag in tags), self.alone)
        second = await self._ask(closer, case)
        whole: dict[str, object] = {"usage": first.usage + second.usage}
        if isinstance(second, Verdict):
            told = {"stage": "judge", "tags": tags, "before": first.usage}
            return second.model_copy(update=whole | told)
        best = known.model_copy(update={"stage": "tag"}) if known else guess
        return _undecided(best, second, first.usage + second.usage) if best else second.model_copy(update=whole)

    async def _ask(self, judge: Judge, case: Failure) -> Verdict | Unclassified:
        """The kept answer to the same question, else the stage's own, kept at once."""
        key = judge.key(case)
        known = self._kept.get_verdict(key) if self._kept is not None and not self._fresh else None
        if isinstance(known, Verdict) or (known and known.final):
            return known
        answer = await judge.judge(case)
        if self._kept is not None:
            self._kept.put_verdict(key, answer)
        return answer


def _ids(tagged: Mapping[str, Judge]) -> list[str]:
    return [judge.id for judge in tagged.values()]


def _undecided(best: Verdict, asked: Unclassified, usage: Usage) -> Verdict:
    """The best that is known where the expensive stage gave no verdict; uncertain, and asked again where that helps."""
    return best.model_copy(
        update={
            "stage": best.stage or "rules",
            "confidence": min(best.confidence, UNCERTAIN_CONFIDENCE),
            "uncertain": True,
            "reasoning": f"{best.reasoning.rstrip()} Nobody looked closer: {asked.reason.rstrip('.')}.",
            "provisional": not asked.final,
            "gave_up": asked,
            "usage": usage,
            "before": usage,
        }
    )

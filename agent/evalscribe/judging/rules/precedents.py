"""Apply people's earlier conclusions about the same failure, and other models' results on the same eval."""

import re
from collections.abc import Sequence
from dataclasses import replace

from evalscribe.evidence import log
from evalscribe.evidence.same_failure import describe_across_models
from evalscribe.judging.rules import checks, code, quote
from evalscribe.judging.rules.code import terms
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.model.finding import (
    UNCERTAIN_CONFIDENCE,
    CauseKind,
    Classification,
    CrossModelFailures,
    Precedent,
    Verdict,
)

KINDS: dict[Classification, CauseKind] = {
    "MODEL_FAULT": "model",
    "OVERLY_STRICT": "grader",
    "AMBIGUOUS_TASK": "task",
    "KNOWN_GAP": "model",
}


def people_said_before(facts: Facts) -> RuleDecision | None:
    """A person labelled an earlier failure of this eval with the same step and error, and no one disagreed."""
    same = _of_the_same(facts)
    if not same or _opinions(same):
        return None
    return _as_before(facts, *same[0])


def beside_disagreement(facts: Facts, decision: RuleDecision) -> RuleDecision:
    """If people labelled the same failure differently, make the decision uncertain and report their labels."""
    opinions = _opinions(_of_the_same(facts)) if facts.case.precedents else {}
    if not opinions:
        return decision
    said = ", ".join(f"{who} says {label} in `{report}`" for who, (label, report) in sorted(opinions.items()))
    return replace(
        decision,
        uncertain=True,
        confidence=min(decision.confidence, UNCERTAIN_CONFIDENCE),
        reasoning=f"{decision.reasoning} People disagree about the same failure: {said}.",
    )


def _of_the_same(facts: Facts) -> list[tuple[Precedent, Classification]]:
    """Return people's labels of the same failure, newest first."""
    told = ((one, one.classification) for one in facts.case.precedents if one.by_person)
    return [(one, label) for one, label in told if label and (one.alike or _same_failure(facts, one))]


def _opinions(same: Sequence[tuple[Precedent, Classification]]) -> dict[str, tuple[Classification, str]]:
    """Return the newest label of each known reviewer, with its report, if reviewers disagree; else nothing."""
    newest = {one.reviewer: (label, one.report) for one, label in reversed(same) if one.reviewer}
    return newest if len({label for label, _ in newest.values()}) > 1 else {}


def _as_before(facts: Facts, precedent: Precedent, label: Classification) -> RuleDecision:
    lint = facts.check == "lint" and label != "MODEL_FAULT"
    codes = list(dict.fromkeys(error.code for error in facts.errors if error.code))
    said = precedent.error or precedent.cause or precedent.reasoning or "the same failure"
    what = quote.cut(re.split(r"(?<=[.!?])\s", " ".join(said.split()))[0], 160).rstrip(".")
    return RuleDecision(
        label=label,
        kind="lint" if lint else KINDS[label],
        cause=code.kebab(precedent.cause or (facts.first.code if facts.first and facts.first.code else what)),
        confidence=0.8,
        why=what,
        reasoning=f"{quote.sentence(what)} `{precedent.report}` has the same failure{_elsewhere(precedent)}, which "
        f"{_who(precedent)} labelled {label}.",
        citations=(*(quote.blamed(facts) or quote.suspects(facts, 1)), *quote.log(facts)),
        fix=checks.relax(codes) if lint and codes else None,
        would_pass=bool(lint and facts.outcome.all_passed and len(codes) == 1),
        by_error_text=True,
    )


def _who(precedent: Precedent) -> str:
    return precedent.reviewer or "people"


def _elsewhere(precedent: Precedent) -> str:
    return f" with {precedent.model}" if precedent.model else ""


def _same_failure(facts: Facts, precedent: Precedent) -> bool:
    """Return whether step and error are equal; if a person described the error, a shared name or rule is enough."""
    if precedent.step and facts.evidence.eval.failed_step and precedent.step != facts.evidence.eval.failed_step:
        return False
    if precedent.cause and precedent.error:
        return _same_error(facts, precedent.error)
    now = facts.said + "\n" + code.joined(line.text for line in (facts.blamed or facts.introduced))
    return any(_stands_in(term, now) for term in _terms(precedent))


def _same_error(facts: Facts, theirs: str) -> bool:
    """Return whether an error that a report quotes equals one of these errors. A stock message never does."""
    if log.is_stock(theirs):
        return False
    earlier = log.normalise_error(theirs)
    return any(earlier in now or now in earlier for now in (log.normalise_error(e.error) for e in facts.errors) if now)


def _terms(precedent: Precedent) -> tuple[str, ...]:
    text = " ".join(part for part in (precedent.error, precedent.cause, precedent.reasoning) if part)
    return terms(text)


def _stands_in(term: str, text: str) -> bool:
    bare = code.fold(term).rstrip("().;,!").rsplit("/", 1)[-1]
    return len(bare) > 3 and bare in code.fold(text)


SAID = people_said_before.__name__.replace("_", "-")


def beside_others(verdict: Verdict, across: CrossModelFailures | None) -> Verdict:
    """Make a verdict uncertain if it blames this model and at least half of the models fail this eval in the same way.

    A human label of the same failure stays certain, because people see more than this number.
    """
    if across is None or not across.most_fail or verdict.classification != "MODEL_FAULT" or verdict.rule == SAID:
        return verdict
    return verdict.doubted(f"{describe_across_models(across)} So the eval itself may be at fault.")

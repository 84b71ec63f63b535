"""Apply people's corrections of the same failure, and other models' results on the same eval."""

import re
from collections.abc import Sequence
from dataclasses import replace

from evalscribe.evidence import log
from evalscribe.evidence.same_failure import describe_across_models
from evalscribe.judging.rules import checks, code, doubts, quote
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
from evalscribe.text import join_first

UNNAMED = "a reviewer"
"""Stands for the name of a reviewer whose correction is not merged."""
MOST_NAMED = 3
KINDS: dict[Classification, CauseKind] = {
    "MODEL_FAULT": "model",
    "OVERLY_STRICT": "grader",
    "AMBIGUOUS_TASK": "task",
    "KNOWN_GAP": "model",
}


def people_said_before(facts: Facts) -> RuleDecision | None:
    """A person labelled an earlier failure of this eval with the same step and error, and no one disagreed."""
    same = _of_the_same(facts)
    if not same or _disagree(same):
        return None
    return _as_before(facts, same)


def people_agree(facts: Facts) -> RuleDecision | None:
    """People agree on the label of a failure that is known to be the same: same task, grader, error and failed
    tests.

    Without failed tests, only the error's text is the same, which must not come from the code under test.
    """
    same = _known_same(facts.case.precedents)
    decision = _as_before(facts, same) if same and not _disagree(same) else None
    return decision if decision and not doubts.checked(facts, decision).uncertain else None


def beside_disagreement(facts: Facts, decision: RuleDecision) -> RuleDecision:
    """If people labelled the same failure differently, make the decision uncertain and report their labels."""
    said = _described(_of_the_same(facts)) if facts.case.precedents else ""
    if not said:
        return decision
    return replace(
        decision,
        uncertain=True,
        confidence=min(decision.confidence, UNCERTAIN_CONFIDENCE),
        reasoning=f"{decision.reasoning} {said}",
    )


def describe_disagreement(precedents: Sequence[Precedent]) -> str:
    """Return a sentence that says who gave the same failure which label how often; empty if people agree."""
    return _described(_known_same(precedents))


def _known_same(precedents: Sequence[Precedent]) -> list[tuple[Precedent, Classification]]:
    """Return people's labels of failures that are known to be the same, newest first."""
    told = ((one, one.classification) for one in precedents if one.by_person and one.alike)
    return [(one, label) for one, label in told if label]


def _of_the_same(facts: Facts) -> list[tuple[Precedent, Classification]]:
    """Return people's labels of the same failure, newest first."""
    told = ((one, one.classification) for one in facts.case.precedents if one.by_person)
    return [(one, label) for one, label in told if label and (one.alike or _same_failure(facts, one))]


def _opinions(same: Sequence[tuple[Precedent, Classification]]) -> dict[str, Classification]:
    """Return the newest label of each reviewer. All reviewers that git does not name count as one."""
    return {one.reviewer or UNNAMED: label for one, label in reversed(same)}


def _disagree(same: Sequence[tuple[Precedent, Classification]]) -> bool:
    return len(set(_opinions(same).values())) > 1


def _described(same: Sequence[tuple[Precedent, Classification]]) -> str:
    if not _disagree(same):
        return ""
    said = (_opinion(who, label, same) for who, label in sorted(_opinions(same).items()))
    return f"People disagree about the same failure: {', '.join(said)}."


def _opinion(who: str, label: Classification, same: Sequence[tuple[Precedent, Classification]]) -> str:
    """Render `Ada says KNOWN_GAP 3 times, last in `r3.md``; `same` is newest first."""
    reports = [one.report for one, other in same if (one.reviewer or UNNAMED, other) == (who, label)]
    times = f" {len(reports)} times, last" if len(reports) > 1 else ""
    return f"{who} says {label}{times} in `{reports[0]}`"


def _as_before(facts: Facts, same: Sequence[tuple[Precedent, Classification]]) -> RuleDecision:
    """Return the newest label of the same failure."""
    precedent, label = same[0]
    lint = facts.check == "lint" and label != "MODEL_FAULT"
    codes = list(dict.fromkeys(error.code for error in facts.errors if error.code))
    said = precedent.error or precedent.cause or precedent.reasoning or "the same failure"
    what = quote.cut(re.split(r"(?<=[.!?])\s", " ".join(said.split()))[0], 160).rstrip(".")
    return RuleDecision(
        label=label,
        kind=precedent.cause_kind or ("lint" if lint else KINDS[label]),
        cause=code.kebab(precedent.cause or (facts.first.code if facts.first and facts.first.code else what)),
        confidence=0.8,
        why=what,
        reasoning=f"{quote.sentence(what)} `{precedent.report}` has the same failure{_elsewhere(precedent)}, which "
        f"{_who(same)} labelled {label}.",
        citations=(*(quote.blamed(facts) or quote.suspects(facts, 1)), *quote.log(facts)),
        fix=checks.relax(codes) if lint and codes else None,
        would_pass=bool(lint and facts.outcome.all_passed and len(codes) == 1),
        by_error_text=not (precedent.alike and facts.outcome.failures),
    )


def _who(same: Sequence[tuple[Precedent, Classification]]) -> str:
    """Return the reviewers whose newest label this is."""
    names = [who for who, label in _opinions(same).items() if label == same[0][1] and who != UNNAMED]
    return join_first(sorted(names), MOST_NAMED) if names else "people"


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

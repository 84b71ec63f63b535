"""Apply people's corrections of the same failure, and other models' results on the same eval."""

import re
from collections.abc import Sequence

from evalscribe.evidence import log
from evalscribe.evidence.same_failure import describe_across_models
from evalscribe.judging.rules import checks, code, doubts, quote
from evalscribe.judging.rules.code import terms
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.model.finding import (
    CauseKind,
    Classification,
    CrossModelFailures,
    Precedent,
    Verdict,
)
from evalscribe.text import join_first

UNNAMED = "a reviewer"
"""Shown in place of an unknown reviewer. The reviewer is unknown until the correction is merged."""
MOST_NAMED = 3
KINDS: dict[Classification, CauseKind] = {
    "MODEL_FAULT": "model",
    "OVERLY_STRICT": "grader",
    "AMBIGUOUS_TASK": "task",
    "KNOWN_GAP": "model",
}


def people_said_before(facts: Facts) -> RuleDecision | None:
    """Judge failures that occurred before, with the same step and error, and that people labelled then.

    The rule applies only if these people agree on the label.
    """
    labelled = _labels_of_same(facts)
    if not labelled or _disagree(labelled):
        return None
    return _label_again(facts, labelled)


def people_agree(facts: Facts) -> RuleDecision | None:
    """Judge failures that people have already labelled, if these people agree on the label.

    An earlier failure is the same if it has the same task, grader, error and failed tests. If there are no failed
    tests, only the text of the error identifies the failure, so the code under test must not have written this text.
    """
    labelled = _labels_of_same_failures(facts.case.precedents)
    decision = _label_again(facts, labelled) if labelled and not _disagree(labelled) else None
    return decision if decision and not doubts.checked(facts, decision).uncertain else None


def beside_disagreement(facts: Facts, decision: RuleDecision) -> RuleDecision:
    """If people gave earlier occurrences of the failure different labels, mark the decision as uncertain and say so."""
    disagreement = _disagreement_text(_labels_of_same(facts)) if facts.case.precedents else ""
    return decision.doubted(disagreement) if disagreement else decision


def describe_disagreement(precedents: Sequence[Precedent]) -> str:
    """Return a sentence with each person's labels of earlier occurrences of the failure; empty if people agree."""
    return _disagreement_text(_labels_of_same_failures(precedents))


def _labels_of_same_failures(precedents: Sequence[Precedent]) -> list[tuple[Precedent, Classification]]:
    """Return people's labels of failures that are known to be the same, newest first."""
    labelled = (
        (precedent, precedent.classification) for precedent in precedents if precedent.by_person and precedent.alike
    )
    return [(precedent, label) for precedent, label in labelled if label]


def _labels_of_same(facts: Facts) -> list[tuple[Precedent, Classification]]:
    """Return people's labels of the same failure, newest first.

    An earlier failure counts if it is known to be the same, or if its step and error are equal.
    """
    labelled = ((precedent, precedent.classification) for precedent in facts.case.precedents if precedent.by_person)
    return [
        (precedent, label)
        for precedent, label in labelled
        if label and (precedent.alike or _same_failure(facts, precedent))
    ]


def _opinions(labelled: Sequence[tuple[Precedent, Classification]]) -> dict[str, Classification]:
    """Return the newest label of each reviewer. All reviewers with unknown names count as one reviewer."""
    return {precedent.reviewer or UNNAMED: label for precedent, label in reversed(labelled)}


def _disagree(labelled: Sequence[tuple[Precedent, Classification]]) -> bool:
    return len(set(_opinions(labelled).values())) > 1


def _disagreement_text(labelled: Sequence[tuple[Precedent, Classification]]) -> str:
    if not _disagree(labelled):
        return ""
    opinions = (_opinion(reviewer, label, labelled) for reviewer, label in sorted(_opinions(labelled).items()))
    return f"People disagree about the same failure: {', '.join(opinions)}."


def _opinion(reviewer: str, label: Classification, labelled: Sequence[tuple[Precedent, Classification]]) -> str:
    """Render one reviewer's label as `Ada says KNOWN_GAP 3 times, last in `r3.md``.

    `labelled` is sorted, newest first.
    """
    reports = [
        precedent.report
        for precedent, other_label in labelled
        if (precedent.reviewer or UNNAMED, other_label) == (reviewer, label)
    ]
    times = f" {len(reports)} times, last" if len(reports) > 1 else ""
    return f"{reviewer} says {label}{times} in `{reports[0]}`"


def _label_again(facts: Facts, labelled: Sequence[tuple[Precedent, Classification]]) -> RuleDecision:
    """Return a decision with the newest label that people gave to the same failure."""
    precedent, label = labelled[0]
    lint = facts.check == "lint" and label != "MODEL_FAULT"
    codes = list(dict.fromkeys(error.code for error in facts.errors if error.code))
    summary = precedent.error or precedent.cause or precedent.reasoning or "the same failure"
    first_sentence = quote.cut(re.split(r"(?<=[.!?])\s", " ".join(summary.split()))[0], 160).rstrip(".")
    return RuleDecision(
        label=label,
        kind=precedent.cause_kind or ("lint" if lint else KINDS[label]),
        cause=code.kebab(precedent.cause or (facts.first.code if facts.first and facts.first.code else first_sentence)),
        confidence=0.8,
        why=first_sentence,
        reasoning=f"{quote.sentence(first_sentence)} `{precedent.report}` has the same failure{_by_model(precedent)}, "
        f"which {_reviewers(labelled)} labelled {label}.",
        citations=(*(quote.blamed(facts) or quote.suspects(facts, 1)), *quote.log(facts)),
        fix=checks.relax(codes) if lint and codes else None,
        would_pass=bool(lint and facts.outcome.all_passed and len(codes) == 1),
        # Without failed tests, only the text of the error shows that the failures are the same. Code that runs in a
        # build can throw any text, including one that people excused in a published report.
        by_error_text=not (precedent.alike and facts.outcome.failures),
    )


def _reviewers(labelled: Sequence[tuple[Precedent, Classification]]) -> str:
    """Return the names of the reviewers whose newest label is the label of the decision."""
    names = [
        reviewer for reviewer, label in _opinions(labelled).items() if label == labelled[0][1] and reviewer != UNNAMED
    ]
    return join_first(sorted(names), MOST_NAMED) if names else "people"


def _by_model(precedent: Precedent) -> str:
    return f" with {precedent.model}" if precedent.model else ""


def _same_failure(facts: Facts, precedent: Precedent) -> bool:
    """Return whether a precedent has the same step and error as this failure.

    If a person described the error in their own words, a common name or rule is enough.
    """
    if precedent.step and facts.evidence.eval.failed_step and precedent.step != facts.evidence.eval.failed_step:
        return False
    if precedent.cause and precedent.error:
        return _same_error(facts, precedent.error)
    text = facts.error_text + "\n" + code.joined(line.text for line in (facts.blamed or facts.introduced))
    return any(_contains_term(term, text) for term in _terms(precedent))


def _same_error(facts: Facts, quoted_error: str) -> bool:
    """Return whether an error quoted in a report equals one of this failure's errors.

    Stock messages never count as equal.
    """
    if log.is_stock(quoted_error):
        return False
    earlier = log.normalise_error(quoted_error)
    return any(
        earlier in current or current in earlier
        for current in (log.normalise_error(e.error) for e in facts.errors)
        if current
    )


def _terms(precedent: Precedent) -> tuple[str, ...]:
    text = " ".join(part for part in (precedent.error, precedent.cause, precedent.reasoning) if part)
    return terms(text)


def _contains_term(term: str, text: str) -> bool:
    folded = code.fold(term).rstrip("().;,!").rsplit("/", 1)[-1]
    return len(folded) > 3 and folded in code.fold(text)


PRECEDENT_RULE = people_said_before.__name__.replace("_", "-")


def doubt_shared_failure(verdict: Verdict, across: CrossModelFailures | None) -> Verdict:
    """Mark a verdict as uncertain if it blames this model although at least half of the models fail in the same way.

    A verdict that repeats people's label of the same failure is not marked, because people know more than such a
    number shows.
    """
    if (
        across is None
        or not across.most_fail
        or verdict.classification != "MODEL_FAULT"
        or verdict.rule == PRECEDENT_RULE
    ):
        return verdict
    return verdict.doubted(f"{describe_across_models(across)} So the eval itself may be at fault.")

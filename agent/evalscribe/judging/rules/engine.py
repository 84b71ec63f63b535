"""The rules as a judge. The first rule that decides a failure gives the verdict."""

from evalscribe.evidence.same_failure import describe_across_models
from evalscribe.ids import content_id
from evalscribe.judging.rules import (
    agents,
    checks,
    doubts,
    endings,
    extraction,
    infrastructure,
    known_gaps,
    model_faults,
    patches,
    precedents,
    quote,
    references,
    silent_tests,
    simulated_users,
)
from evalscribe.judging.rules.facts import Facts, Rule, RuleDecision
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import NO_REASON, PEOPLE_JUDGE, Failure, Verdict
from evalscribe.model.protocols import Estimate
from evalscribe.model.record import CHOICES_LOG, FILTERS_LOG, SCORES_LOG
from evalscribe.model.run import TARGET

VERSION = 6
"""Version of the rules. Stored verdicts of other versions are computed again at no cost.

Increase this number by hand after a change that might alter the label, cause, confidence, error or quotations of a
failure, or the meaning of the explanation.

Decisions also depend on code outside this package: located errors, diffs, redaction, and results across models.
`tests/judging/rules/test_version.py` pins the decisions of this version on known runs. Rewording that does not change
the meaning needs no new version.
"""
ID = f"rules@{VERSION}"
"""Id of the rules judge in verdicts and reports."""
KEY_PREFIX = (ID, "sha256:6a9bfafa0b50917c1f260b9d2ee4fc84470e5256b75217356eb97e1c9ad9bb55")
"""Prefix of the keys of all verdicts by the rules.

The digest is a hash of the source code of version 1, and must never change. A cascade's key contains the key of its
rules, so with another digest, stored verdicts of cascades could no longer be found. Some of these verdicts come from
models and were paid for.
"""
RULES: tuple[Rule, ...] = (
    endings.target_gave_no_answer,
    # The class of an exception shows its origin more reliably than words of its message, which the next rule reads.
    infrastructure.ended_by_an_exception,
    endings.harness_broke,
    infrastructure.marked_by_the_runner,
    infrastructure.answer_without_files,
    infrastructure.provider_gave_nothing,
    infrastructure.runner_ran_out_of_time,
    infrastructure.environment_not_reached,
    infrastructure.reference_not_set_up,
    infrastructure.tests_never_started,
    silent_tests.connection_broke,
    precedents.people_said_before,
    extraction.error_for_an_answer,
    extraction.no_answer_extracted,
    extraction.chooses_otherwise,
    patches.reference_fails_too,
    patches.no_patch,
    patches.patch_not_applied,
    patches.no_test_counted,
    patches.tests_of_a_patch,
    references.reference_fails,
    references.verifier_is_flaky,
    references.tests_do_not_load,
    endings.never_answers,
    endings.cut_off,
    # A fault of the simulated user explains missing calls, for which `does_otherwise` would blame the model.
    simulated_users.withholds_who_it_is,
    simulated_users.ends_too_early,
    simulated_users.invents_an_id,
    agents.does_otherwise,
    endings.goes_round_in_circles,
    endings.refuses,
    extraction.ends_in_repetition,
    agents.never_says,
    agents.answers_otherwise,
    endings.scorer_says_why,
    known_gaps.gap_names_the_lint,
    known_gaps.gap_names_the_error,
    known_gaps.gap_names_what_is_written,
    known_gaps.gap_names_what_is_missing,
    known_gaps.undocumented_fields,
    checks.taste_only,
    silent_tests.reference_fails_alike,
    checks.reference_would_fail_too,
    checks.fails_what_nobody_asked_for,
    checks.lint_finds_a_fault,
    silent_tests.asked_for_by_name,
    silent_tests.nothing_was_tested,
    # Words of a note are only a suspicion, so the rules that rest on errors or names come first.
    known_gaps.gap_may_mean_what_differs,
    known_gaps.gap_may_mean_the_failed_lines,
    model_faults.does_not_compile,
    model_faults.behaves_otherwise,
    model_faults.cannot_load,
    model_faults.uses_unknown_name,
    references.tests_of_the_work_fail,
    agents.grader_says_why,
    model_faults.only_a_test_says,
)
"""Rules in the order in which they are tried.

The rules for failures that were not judged come first. Rules for precedents, known gaps, checks that are too strict,
ambiguous tasks and model faults follow.
"""


class RulesJudge:
    """A deterministic judge that costs nothing. Its rules are about steps, errors, references, notes and tasks."""

    id = ID

    def __init__(self, rules: tuple[Rule, ...] = RULES) -> None:
        self._rules = rules

    def key(self, case: Failure) -> str:
        """Return the key under which the verdict on a case is stored.

        The key is the content id of the rules' version, the evidence, the precedents that people labelled, the
        results of other models, whether nobody passed the task, and the verdicts on other trials.
        """
        people = [p for p in case.precedents if p.by_person and p.classification]
        models = describe_across_models(case.across)
        unpassed = ["never passed"] if case.passable is False else []
        other_trials = [case.others] if case.others else []
        return content_id(
            # A part without a value is left out, so that it does not change the keys of stored verdicts. The keys of
            # cascades, whose models were paid for, include this key.
            [*KEY_PREFIX, case.evidence.digest, people, *([models] if models else []), *unpassed, *other_trials]
        )

    def estimate(self, case: Failure) -> Estimate:  # noqa: ARG002 - every `Judge` takes the case; rules cost nothing
        return Estimate()

    async def judge(self, case: Failure) -> Verdict:
        return self.decide(case)

    def decide(self, case: Failure) -> Verdict:
        """Return the verdict of the first rule that applies.

        If no rule applies, return a guess that is marked as uncertain.
        """
        return agents.doubt_outlier(
            precedents.doubt_shared_failure(self._first_decision(case), case.across), case.others
        )

    def _first_decision(self, case: Failure) -> Verdict:
        facts = Facts(case)
        for rule in self._rules:
            if decision := rule(facts):
                return _verdict(facts, decision, rule.__name__.replace("_", "-"))
        return _verdict(facts, model_faults.unexplained(facts), None)


def decided_by_people(case: Failure) -> Verdict | None:
    """Return the verdict that follows from people's earlier labels of the same failure. No judge is then needed.

    Return None if no precedent is known to be the same failure, or if people disagree about its label.
    """
    if not any(precedent.alike for precedent in case.precedents):
        return None
    facts = Facts(case)
    decision = precedents.people_agree(facts)
    if decision is None:
        return None
    return _verdict(facts, decision, precedents.PRECEDENT_RULE).model_copy(
        update={"judge": PEOPLE_JUDGE, "confidence": 1.0}
    )


def _verdict(facts: Facts, decision: RuleDecision, rule: str | None) -> Verdict:
    decision = agents.unless_confirmed(facts, decision, rule)
    decision = doubts.checked(facts, precedents.beside_disagreement(facts, decision))
    return Verdict(
        classification=decision.label,
        cause=decision.cause,
        cause_kind=decision.kind,
        confidence=decision.confidence,
        uncertain=decision.uncertain,
        error=_error(facts, decision),
        why=quote.cut(decision.why),
        reasoning=" ".join(decision.reasoning.split()),
        citations=_unique(decision.citations),
        judge=ID,
        rule=rule,
        fix=decision.fix,
        would_pass=decision.would_pass,
        message=decision.message,
        first_mistake=decision.first_mistake,
    )


def _error(facts: Facts, decision: RuleDecision) -> str:
    """Return the error of a verdict.

    The located error is preferred, because it identifies the failure. Without a located error, the rule's error is
    returned. If a target gave no answer, the rule's error takes precedence, because it states the complete reason.
    """
    if decision.located:
        return decision.located.error
    if facts.first and (decision.error is None or facts.step != TARGET):
        return facts.first.error
    if decision.error:
        return decision.error
    if facts.outcome.failures:
        return f"{facts.outcome.failures[0].name}: the log does not say why"
    if any(document.path in (SCORES_LOG, FILTERS_LOG, CHOICES_LOG) for document in facts.evidence.of("log")):
        return f"{facts.step} failed; the source gives no reason"  # a source with such a document has no log
    return f"{facts.step} failed; {NO_REASON}"


def _unique(citations: tuple[Citation, ...]) -> tuple[Citation, ...]:
    return tuple({(c.role, c.path, c.first, c.last): c for c in citations if c.text.strip()}.values())

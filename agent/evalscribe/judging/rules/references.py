"""Rules for tests of an agent's work. These rules use the results of the reference answer in the same tests."""

import re
from collections.abc import Sequence

from evalscribe.evidence.log import first_log
from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import code, quote
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.model.evidence import Citation, Document
from evalscribe.model.reference_runs import (
    ENDINGS,
    PATH,
    VERIFIER,
    AnswerKind,
    GradedAnswer,
    failed_parts,
    prints_the_same,
    read_reference_runs,
)
from evalscribe.text import pluralise

ENOUGH = 2
"""Minimum number of trials of the reference answer. The result of fewer trials might be due to chance."""
SHOWN = 6
"""Maximum number of lines that are quoted from a verifier's output."""
NOT_LOADED = re.compile(
    r"_ ERROR collecting \S|Interrupted: \d+ errors? during collection|Failed to load test|^ERROR \S+\.py(?: - |$)"
)
LOADING = re.compile(r"\S+ did not load: ")
_WANTED = r"expected|wanted|wants?|should be"
_GOT = r"actual|got|received|found"
VALUES = re.compile(
    rf"^\W*(?P<label>{_WANTED})\b\s*[:=]?\s*(?P<wanted>\S.*?),?\s+(?:but )?(?:{_GOT})\b\s*[:=]?\s*(?P<got>\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches the expected and the actual value in a verifier's output. The two values can be on one line or on two."""
MOST_VALUE = 40
"""Maximum characters of a value that is quoted in a sentence."""
ABOVE = 8
"""Maximum number of lines that are searched above a printed message for the condition under which it is printed."""
CONDITION = re.compile(r"^\s*(?:\}?\s*(?:el)?if\b|elif\b|assert\b|case\b|while\b|\[\[? )")


def reference_fails(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the reference answer fails the same tests in every trial.

    These tests show nothing about the model.
    """
    reference = _graded(facts, "reference answer")
    if reference is None or reference.passed or facts.evidence.eval.status != "failed":
        return None
    always_failed = set.intersection(*(set(trial.failed_at) for trial in reference.trials))
    own_failures = [part for part in _failed_names(facts) if part not in always_failed]
    same_output = not own_failures and _prints_as(facts, reference)
    # The answer fails exactly like an empty one, so the agent may have delivered nothing.
    if not same_output and _prints_as(facts, _graded(facts, "empty answer")):
        return None
    certain = not own_failures and (same_output or reference.total >= ENOUGH)
    often = f"{reference.total} of {pluralise(reference.total, 'trial')}"
    values = _values(facts) if same_output else None
    lines = _deciding(facts) if not own_failures else ()
    position = f" ({lines[0].path}:{lines[0].first})" if lines else ""
    answer_name = "the reference answer itself" if reference.judged else "the reference answer"
    whose = "it says" if reference.judged else "this answer and the reference say"
    if values:
        explanation = f"The verifier wants {values[0]}; {whose} {values[1]}."
    elif same_output and not reference.judged:
        explanation = "The verifier prints the same for both answers, so it cannot tell this one from the reference."
    elif own_failures:
        explanation = f"But this answer also fails `{quote.cut(own_failures[0], 80)}`, which the reference passes."
    else:
        explanation = "Nobody can pass before that is settled: the verifier, the reference or the environment is wrong."
    failure_name = quote.cut(_failure_name(facts), 80)
    fix = f"correct the verifier{position} or the reference: the reference answer fails `{failure_name}`"
    if values and not reference.judged:
        fix = f"correct the verifier{position}: it wants {values[0]}, and the reference says {values[1]} like the model"
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="reference-answer-fails-too",
        confidence=(0.9 if same_output and reference.total >= ENOUGH else 0.8) if certain else 0.5,
        uncertain=not certain,
        why=f"{answer_name} fails{'' if reference.judged else ' too'}, in {often}",
        reasoning=f"{answer_name[0].upper()}{answer_name[1:]} fails{'' if reference.judged else ' as well'}, in {often}"
        f"{': that points at the task' if reference.judged else ''}. {explanation}{_of_the_empty_answer(facts)}",
        citations=(
            *lines,
            *_cite_output(facts),
            *_cite_trials(facts, "reference answer", failed=None if same_output else True),
        ),
        fix=fix,
        would_pass=same_output,
    )


def verifier_is_flaky(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the reference answer fails the same tests in some of its trials."""
    reference = _graded(facts, "reference answer")
    if reference is None or reference.passed in (0, reference.total) or facts.evidence.eval.status != "failed":
        return None
    flaky = {part for trial in reference.trials for part in trial.failed_at}
    if not set(_failed_names(facts)) <= flaky:
        return None
    passes = f"{reference.passed} of {pluralise(reference.total, 'trial')}"
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="verifier-is-flaky",
        confidence=0.5,
        uncertain=True,
        why=f"the verifier is flaky: the reference answer passes {passes}",
        reasoning=(
            f"This is the reference answer itself, which passes only {passes}: chance decides these tests."
            if reference.judged
            else f"The reference answer passes only {passes}, and fails with the same message. Chance decides these "
            "tests, so they do not show whether this answer is right."
        ),
        citations=(
            *_deciding(facts),
            *_cite_output(facts),
            *_cite_trials(facts, "reference answer", failed=None if _prints_as(facts, reference) else True),
        ),
        fix="make the verifier accept every answer that the task allows: the reference answer passes only " + passes,
    )


def tests_do_not_load(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the test file could not be loaded, so that no test judged the agent's work."""
    message = facts.first.error if facts.first else ""
    log = first_log(facts.evidence)
    line = next((n for n, text in enumerate(log.lines, 1) if NOT_LOADED.search(text)), None) if log else None
    if (
        facts.evidence.eval.status != "failed"
        or facts.check != "tests"
        or (line is None and not LOADING.search(message))
    ):
        return None
    if any(step.status == "passed" for step in facts.evidence.steps) or len(_failed_names(facts)) != 1:
        return None
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="tests-do-not-load",
        confidence=0.5,
        uncertain=True,
        why=quote.cut(f"no test ran: {message}"),
        reasoning="The file of the tests could not be loaded, so no test ran. Either the file is broken, or it imports "
        f"something that the answer should have provided. {_fairness(_graded(facts, 'reference answer'))}",
        citations=(cite_lines(log, line, min(line + 2, len(log.lines))),) if log and line else (),
        fix="load the answer inside the tests, so that a broken answer fails a test, not the test file",
    )


def tests_of_the_work_fail(facts: Facts) -> RuleDecision | None:
    """Judge failures in which tests of an agent's work fail.

    The decision is certain only if the reference answer passes in every one of at least `ENOUGH` trials, and an empty
    answer never passes.
    """
    failed_names = _failed_names(facts)
    reference, empty = _graded(facts, "reference answer"), _graded(facts, "empty answer")
    of_an_agent = facts.transcripts.by_model or reference or empty
    if not failed_names or not of_an_agent or facts.evidence.eval.status != "failed" or not _output(facts):
        return None
    # A verifier that passes an empty answer does not show that a failed answer is wrong.
    fair = reference is not None and reference.passed == reference.total >= ENOUGH and not (empty and empty.passed)
    undone = _prints_as(facts, empty)
    message = facts.first.error if facts.first else failed_names[0]
    passed_steps = [step for step in facts.evidence.steps if step.status == "passed"]
    count_text = (
        f"{len(passed_steps)} of {pluralise(len(passed_steps) + len(failed_names), 'test')} passed. "
        if passed_steps
        else ""
    )
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="nothing-delivered" if undone else "fails-" + code.kebab(_failure_name(facts)),
        confidence=0.7 if fair else 0.5,
        uncertain=not fair,
        why="the empty answer fails, as it has to"
        if empty and empty.judged
        else quote.cut(f"fails like an empty answer: {message}" if undone else message),
        reasoning=f"`{facts.step}` failed. {count_text}" + _fairness(reference) + _of_the_empty_answer(facts),
        citations=(
            *_cite_output(facts),
            *_cite_trials(facts, "empty answer", failed=True) * undone,
            *_cite_trials(facts, "reference answer", failed=False),
        ),
    )


def _graded(facts: Facts, kind: AnswerKind) -> GradedAnswer | None:
    answers = read_reference_runs(facts.evidence.of("log"))
    return next((answer for answer in answers if answer.kind == kind and answer.total and answer.trials), None)


def _prints_as(facts: Facts, answer: GradedAnswer | None) -> bool:
    """Return whether the verifier's output for the failed answer is the same as for one of the trials of `answer`."""
    return any(prints_the_same(_output(facts), trial.output) for trial in answer.trials) if answer else False


def _failed_names(facts: Facts) -> tuple[str, ...]:
    return failed_parts(step for step in facts.evidence.steps if not step.name.endswith(ENDINGS))


def _failure_name(facts: Facts) -> str:
    """Return the name of the failed test. If the verifier names no tests, return the error that it printed."""
    step = facts.step
    return (facts.first.error if facts.first else step) if step.endswith(VERIFIER) else step


def _output(facts: Facts) -> str:
    log = first_log(facts.evidence)
    return log.text if log else ""


def _fairness(reference: GradedAnswer | None) -> str:
    if reference is None:
        return "No rule can tell whether the tests ask for more than the task says."
    if not reference.passed:
        return "The reference answer fails as well, in another way."
    if reference.passed < reference.total:
        return f"The reference answer passes only {reference.passed} of {pluralise(reference.total, 'trial')}."
    is_single = reference.total < ENOUGH
    passes = "once" if is_single else f"in {reference.total} of {reference.total} trials"
    return f"The reference answer passes {passes}, so the task can be done as it is graded."


def _of_the_empty_answer(facts: Facts) -> str:
    empty = _graded(facts, "empty answer")
    if empty is None or not empty.passed:
        return ""
    return f" But an empty answer passes {empty.passed} of {pluralise(empty.total, 'trial')}: the verifier is suspect."


def _cite_output(facts: Facts) -> tuple[Citation, ...]:
    """Quote the verifier's output. If the output is long, quote only the lines about the failure."""
    log = first_log(facts.evidence)
    return _cite_around(log, _failure_name(facts), facts.first.error if facts.first else "") if log else ()


def _values(facts: Facts) -> tuple[str, str] | None:
    """Return the expected and the actual value as code; None unless both values are short and they differ."""
    match = VALUES.search(_output(facts))
    values = (match["wanted"].strip(), match["got"].strip()) if match else ("", "")
    if values[0] == values[1] or any("`" in value or len(value) > MOST_VALUE for value in values):
        return None
    return f"`{values[0]}`", f"`{values[1]}`"


def _deciding(facts: Facts) -> tuple[Citation, ...]:
    """Quote the grader's line that computes the expected value.

    If there is no such line, quote the condition under which the message is printed.
    """
    label = VALUES.search(_output(facts))
    message = re.sub(r"^\W*(?:FAIL(?:ED)?|ERROR)\b\W*", "", _failure_name(facts))[:30]
    for document in facts.evidence.of("grader"):
        if not quote.is_code(document):
            continue
        # The pattern `(?!)` never matches.
        pattern = rf"(?:echo|print|log|assert|raise|throw)[^\n]*?{label['label']}\W{{1,8}}(\w+)" if label else "(?!)"
        match = re.search(pattern, document.text, re.IGNORECASE)
        computed = rf"\s*(?:(?:local|export|const|let|var)\s+)?{match[1]}\s*:?=[^=]" if match else None
        if computed and (at := _line_like(document, computed)):
            return (cite_lines(document, at, at),)
        if message and (at := _line_like(document, rf".*{re.escape(message)}")):
            lines = range(at, max(0, at - ABOVE), -1)
            condition = next((n for n in lines if CONDITION.match(document.lines[n - 1])), None)
            return (cite_lines(document, condition, condition),) if condition else ()
    return ()


def _line_like(document: Document, pattern: str) -> int | None:
    return next((n for n, line in enumerate(document.lines, 1) if re.match(pattern, line)), None)


def _cite_trials(facts: Facts, kind: AnswerKind, *, failed: bool | None) -> tuple[Citation, ...]:
    """Quote how many trials of another answer passed.

    If `failed` is True, quote what the verifier printed for a failed trial instead. If `failed` is False and no trial
    passed, quote nothing.
    """
    document = facts.evidence.document("log", PATH)
    if document is None or _graded(facts, kind) is None:
        return ()
    prefix = f"{kind}, trial "
    heads = ((n, line) for n, line in enumerate(document.lines, 1) if line.startswith(prefix))
    first = next((n for n, line in heads if failed is None or (" failed at [" in line) == failed), None)
    if first is None:
        return ()
    last = first
    while last < len(document.lines) and document.lines[last].startswith(" "):
        last += 1
    if not failed:
        first = last = next(n for n, line in enumerate(document.lines, 1) if line.startswith(f"{kind} ("))
    return (cite_lines(document, first, min(last, first + SHOWN)),)


def _cite_around(log: Document, *names: str) -> tuple[Citation, ...]:
    texts: Sequence[str] = log.text.rstrip().split("\n")
    if len(texts) <= SHOWN:
        return (cite_lines(log, 1, len(texts)),)
    for name in names:
        if name and (at := next((n for n, text in enumerate(texts, 1) if name[:60] in text), None)):
            return (cite_lines(log, at, min(at + 2, len(texts))),)
    return (cite_lines(log, max(1, len(texts) - 2), len(texts)),)

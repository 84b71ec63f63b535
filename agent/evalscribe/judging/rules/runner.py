"""Rules on evals that the runner itself ended: its marks, its time limits, and its setup of the reference answer.

They use only text that the runner wrote: the recorded reason of a step that never ran the code, a reason that consists
of the runner's own sentence, and headings in its log. Output of the code under test proves nothing about the grader.
"""

import re

from evalscribe.judging.cite import cite
from evalscribe.judging.rules import provenance, quote, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.signature import log as signature_log

MARKED = re.compile(r"\[(?P<mark>infrastructure|rate_limit|preflight|zero_tokens)\]\s*(?P<said>.*)", re.DOTALL)
"""Prefix of the Convex runner's reason for an eval that it does not count."""
EMPTY_ANSWER = re.compile(r"empty provider response\b")
UNREADABLE = re.compile(r"(?:Error: )?(?:empty parsed model output|invalid filesystem output)\b", re.IGNORECASE)
TIME_LIMIT = re.compile(r"(?:Error: )?(?P<what>[^\n]{1,300}?) timed out after (?P<limit>\d+ ?m?s)")
ANSWERS = ("raw_model_response.md",)
"""Files in which the Convex runner keeps an answer that it could not extract files from."""
REFUSAL = re.compile(
    r"\b(?:i|we)(?:['’]m| am| are)? (?:can['’]t|cannot|can not|won['’]t|will not|unable to|not able to)\b", re.I
)


def marked_by_the_runner(facts: Facts) -> Decision | None:
    """The runner marked the eval as an outage before any code of the model ran."""
    said = _recorded(facts)
    match = MARKED.match(said)
    if match is None or facts.check not in ("install", "other"):
        return None
    empty = EMPTY_ANSWER.match(match["said"]) is not None
    message = wording.cut(match["said"], 120) or match["mark"]
    return Decision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="no-answer-came" if empty else f"runner-says-{match['mark'].replace('_', '-')}",
        confidence=0.5 if empty else 0.9,
        uncertain=empty,
        why=wording.cut(f"not judged; the runner says: {message}"),
        reasoning=f"The runner marks this eval `{match['mark']}`: {message.rstrip('.')}. No model code was judged."
        + (
            " An empty answer can also come from a content filter, or from a model that spent all its tokens on "
            "reasoning. The cause is not stored."
            if empty
            else ""
        ),
        citations=quote.log(facts),
        by_error_text=True,
    )


def answer_without_files(facts: Facts) -> Decision | None:
    """The model answered, but the runner found no files in the required layout."""
    said = _recorded(facts)
    if not UNREADABLE.match(said) or facts.check in ("tests", "lint", "build"):
        return None
    answer = next((d for d in facts.evidence.of("output") if wording.basename(d.path) in ANSWERS), None)
    refused = answer is not None and REFUSAL.search(answer.text[:2000]) is not None
    unseen = answer is None and "invalid filesystem" not in said.lower()  # a path outside the project speaks for itself
    doubtful = refused or unseen
    line = next((n for n, text in enumerate(answer.lines, 1) if text.strip()), 1) if answer else 1
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="answer-refused" if refused else "answer-without-files",
        confidence=0.5 if doubtful else 0.7,
        uncertain=doubtful,
        why=wording.cut(said.removeprefix("Error: ")),
        reasoning=f"The model answered, but the runner could not extract files: {wording.cut(said, 120)}. "
        + (
            "The answer looks like a refusal."
            if refused
            else f"See `{answer.path}`."
            if answer
            else "The answer itself is not stored: it may also be a refusal, or have been cut."
            if unseen
            else "The answer itself is not stored."
        ),
        citations=(*((cite(answer, line, min(line + 2, len(answer.lines))),) if answer else ()), *quote.log(facts)),
    )


def runner_ran_out_of_time(facts: Facts) -> Decision | None:
    """A command of the runner hit the runner's time limit, and only that is recorded."""
    match = TIME_LIMIT.fullmatch(_recorded(facts).strip())
    if match is None or facts.check == "other" or (facts.check == "tests" and facts.outcome.runner):
        return None
    what, tests = wording.cut(match["what"].split(" (")[0], 40), facts.check == "tests"
    alike = facts.same_as_reference
    open_question = {
        "tests": "The cause may be an endless loop in the code or a backend that never answers: no output of the "
        "tests is stored.",
        "build": "The cause may be a slow machine or types that are too deep to check.",
    }
    unsure = tests or (facts.check == "build" and facts.step_checks_types)
    return Decision(
        label="KNOWN_GAP" if not tests else "OVERLY_STRICT" if alike else "MODEL_FAULT",
        kind="infrastructure" if not tests else "harness" if alike else "model",
        cause=f"{facts.check}-timed-out",
        confidence=0.5 if unsure else 0.8,
        uncertain=unsure,
        why=wording.cut(f"`{what}` hit the runner's time limit of {match['limit']}"),
        reasoning=f"`{what}` was stopped by the runner after {match['limit']}, and nothing else is recorded. "
        + (
            open_question[facts.check]
            if unsure
            else "All tests passed."
            if facts.check == "lint" and facts.outcome.all_passed
            else "No code of the model was judged; the eval may pass when the run is repeated."
        ),
        citations=quote.log(facts),
        by_error_text=True,  # a script of the output may have taken the time
    )


def reference_not_set_up(facts: Facts) -> Decision | None:
    """The runner could not install or deploy the reference answer, which the tests need."""
    headings = signature_log.reference_errors(facts.evidence)
    if facts.check != "tests" or not headings:
        return None
    said = wording.cut(headings[0].text.removeprefix(signature_log.REFERENCE), 120)
    log = next(iter(facts.evidence.of("log")), None)
    line = headings[0].number
    proven = provenance.only_runner_marks(facts)
    return Decision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="reference-not-set-up",
        confidence=0.85 if proven else 0.5,
        uncertain=not proven,
        error=f"the reference was not set up: {said}",
        why=wording.cut(f"the reference answer was not set up: {said}"),
        reasoning=f"The runner failed to set up the reference answer (log line {line}): {said.rstrip('.')}. It "
        "runs the tests anyway, and they cannot pass without the reference: the model's work was not judged."
        + ("" if proven else " But the code under test may have printed that line."),
        citations=(*((cite(log, line, line),) if log else ()), *quote.log(facts)),
        fix="end the eval as an outage when the reference answer cannot be installed or deployed",
        would_pass=False,
    )


def tests_never_started(facts: Facts) -> Decision | None:
    """The runner prints a heading for the test runner's output, but no output follows, not even a banner."""
    log = next(iter(facts.evidence.of("log")), None)
    if facts.check != "tests" or log is None or facts.first or facts.outcome.runner is not None:
        return None
    part = signature_log.failed_log(facts.evidence)
    if not facts.produced or part is None or not part.text.lstrip().startswith("[error]"):
        return None
    said = [line.strip() for line in part.text.split("\n") if line.strip()]
    if len(said) > 1 or not said[0].endswith(":"):
        return None
    proven = provenance.ran_elsewhere(facts)
    return Decision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="tests-never-started",
        confidence=0.6 if proven else 0.5,
        uncertain=not proven,
        error="the test runner did not start: it printed nothing",
        why="the test runner did not start: the log has no output of it",
        reasoning="The tests step failed, and the log has no output below its heading, not even the test runner's "
        "banner. No test judged the model's work."
        + ("" if proven else " But code that runs in the tests' process can end it before it prints anything."),
        citations=quote.log(facts),
        fix="record the exit code and stderr of the test runner, and end the eval as an outage when it does not start",
        would_pass=False,
    )


def _recorded(facts: Facts) -> str:
    """Return the recorded reason of the failed step, else of the eval."""
    evidence = facts.evidence
    own = (s.error for s in evidence.steps if s.status == "failed" and s.name == evidence.eval.failed_step and s.error)
    return next(own, None) or evidence.eval.reason or ""

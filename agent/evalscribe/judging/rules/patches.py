"""Rules for patches that are judged by the tests of a repository."""

import re

from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import code, quote
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.model.evidence import Citation, Document
from evalscribe.model.reference_runs import PATH, read_reference_runs

WANTED, KEPT = "FAIL_TO_PASS", "PASS_TO_PASS"
DOCUMENT = "tests"
"""Name of the log document that lists the failed tests."""
FAILED = re.compile(rf"(?P<group>{WANTED}|{KEPT}) failed: (?P<test>.+)")
"""Matches a line of the document `tests`."""
MALFORMED = re.compile(r"malformed|corrupt patch|unrecognized input|patch fragment without header", re.I)
UNLOADED = re.compile(r"\b(?:SyntaxError|IndentationError|ImportError|ModuleNotFoundError|NameError|AttributeError)\b")
CHANGED = re.compile(r"^\+\+\+ (?:b/)?(?P<path>\S+)", re.MULTILINE)
DJANGO = re.compile(r"\w+ \((?P<module>[\w.]+)\)")
MOST_LINES = 3


def reference_fails_too(facts: Facts) -> RuleDecision | None:
    """Judge failures in which all failed tests also fail with the reference patch.

    The tests or their environment are broken.
    """
    failed_tests, reference_failures = _lines(facts), _failed_by_reference(facts)
    if not failed_tests or not reference_failures or not reference_failures.issuperset(failed_tests):
        return None
    log = facts.evidence.document("log", PATH)
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="reference-fails-too",
        confidence=0.9,
        why=quote.cut(f"the reference patch fails too: {_step_errors(facts)}"),
        reasoning="Every test that fails here fails with the reference patch as well, so no answer can pass.",
        citations=(*((cite_lines(log, 1, min(2, len(log.lines))),) if log else ()), *_failing(facts)),
        fix="leave the eval out of the result, or repair its tests or environment until the reference patch passes",
        would_pass=True,
    )


def no_patch(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the agent submitted no change, so that there was nothing to test."""
    error = _error(facts, "patch") or ("" if facts.transcripts.turns else _error(facts, "limit"))
    if "patch was submitted" not in error:
        return None
    form = "FormatError" in error or "exit_format" in error
    has_transcript = bool(facts.transcripts.by_model)
    last_turns = facts.transcripts.by_model[-1:]
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="answers-in-another-form" if form else "no-patch",
        confidence=0.75 if has_transcript else 0.5,
        uncertain=not has_transcript,
        error=error,
        why=quote.cut(error),
        reasoning=(
            "The agent's answers were not in the form that its harness reads, until it gave up."
            if form
            else "The agent left no change behind, so no test was run."
        )
        + ("" if has_transcript else " There is no transcript that shows why."),
        citations=tuple(turn.header(MOST_LINES) if turn.turn.kind == "calls" else turn.quoted() for turn in last_turns),
    )


def patch_not_applied(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the patch could not be applied to the repository, so that no test was run."""
    error = _error(facts, "patch")
    if "does not apply" not in error:
        return None
    malformed = MALFORMED.search(error) is not None
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="malformed-patch" if malformed else "patch-does-not-apply",
        confidence=0.7 if malformed else 0.5,
        uncertain=not malformed,
        error=error,
        why=quote.cut(error),
        reasoning=(
            "The submitted text is no valid patch, so no test was run."
            if malformed
            else "The patch does not fit the files of the repository. The model may have invented the context lines, "
            "or the harness may have started from another state."
        ),
        citations=(*_log_line(facts, error), *quote.cells(facts, "output")),
    )


def no_test_counted(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the tests were started, but no test result was counted.

    Something failed before the first test.
    """
    error = _error(facts, "tests")
    if not error.startswith("no test was counted"):
        return None
    broken_import = _broken_import(facts)
    if broken_import is None:
        return RuleDecision(
            label="OVERLY_STRICT",
            kind="harness",
            cause="no-test-counted",
            confidence=0.5,
            uncertain=True,
            error=error,
            why=quote.cut(error),
            reasoning="The tests were started and no result was found in their output, so nothing of the patch was "
            "judged. The environment may be broken, or the patch may keep the tests from loading.",
            citations=quote.log(facts),
            fix="run the reference patch in the same environment: if it gives no result either, repair the environment",
        )
    path, citation = broken_import
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="breaks-loading",
        confidence=0.75,
        error=citation.text.strip(),
        why=quote.cut(f"`{path}` does not load: {citation.text.removeprefix('E ').strip()}"),
        reasoning=f"No test was counted, because `{path}`, which the patch changes, does not load.",
        citations=(citation, *quote.cells(facts, "output")),
    )


def tests_of_a_patch(facts: Facts) -> RuleDecision | None:
    """Judge failures in which tests of the patched code fail.

    These are tests that the patch should repair, or tests that passed before the patch.
    """
    tests = _tests(facts)
    if not tests:
        return None
    unrepaired = [test for group, test in tests if group == WANTED]
    newly_failing = [test for group, test in tests if group == KEPT]
    reference_failures = _failed_by_reference(facts)
    # Tests that the patch should repair can ask for more than the task says, even if the reference patch passes them.
    proven = reference_failures is not None and reference_failures.isdisjoint(_lines(facts)) and not unrepaired
    unrun = [test for test in newly_failing if facts.transcripts.calls and not _is_run_by_agent(facts, test)]
    half = any(
        step.status == "failed" and step.name.startswith(WANTED) and not _is_all(step.error)
        for step in facts.evidence.steps
    )
    reasons = {
        "breaks-tests": "Every test that should be repaired passes; tests that passed before fail now.",
        "solves-a-part": "Some of the tests that should be repaired pass, and others still fail.",
        "not-repaired": "The tests that should be repaired still fail.",
    }
    cause = "breaks-tests" if not unrepaired else "solves-a-part" if half else "not-repaired"
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=cause,
        confidence=0.75 if proven else 0.5,
        uncertain=not proven,
        why=quote.cut(_step_errors(facts)),
        reasoning=reasons[cause]
        + (f" {len(newly_failing)} that passed before fail as well." if unrepaired and newly_failing else "")
        + (f" No command of the agent names `{_name(unrun[0])}`, so it did not see that." if unrun else "")
        + (
            " The reference patch passes these tests in the same environment."
            if proven
            else " Without a run of the reference, a broken environment or a flaky test cannot be excluded."
            if not unrepaired and reference_failures is None
            else " No rule can tell whether the tests ask for more than the task says."
        ),
        citations=(*quote.log(facts), *_failing(facts)),
        fix="evaluate the reference patches (model `gold`) in the same environment, and name that run as reference run"
        if not unrepaired and reference_failures is None
        else None,
    )


def _failed_by_reference(facts: Facts) -> set[str] | None:
    """Return the tests that the reference patch fails, as lines of the document `tests`.

    Return None if the reference patch was not graded.
    """
    answers = (
        answer_run
        for answer_run in read_reference_runs(facts.evidence.of("log"))
        if answer_run.kind == "reference answer"
    )
    answer = next(answers, None)
    return None if answer is None else {part for trial in answer.trials for part in trial.failed_at}


def _lines(facts: Facts) -> set[str]:
    return {f"{group} failed: {test}" for group, test in _tests(facts)}


def _step_errors(facts: Facts) -> str:
    return "; ".join(step.error for step in facts.evidence.steps if step.status == "failed" and step.error)


def _error(facts: Facts, step: str) -> str:
    """Return the error of the failed step with this name; empty if no such step failed."""
    errors = (
        candidate.error for candidate in facts.evidence.steps if candidate.name == step and candidate.status == "failed"
    )
    return next(errors, None) or ""


def _document(facts: Facts) -> Document | None:
    return facts.evidence.document("log", DOCUMENT)


def _tests(facts: Facts) -> list[tuple[str, str]]:
    document = _document(facts)
    matches = (FAILED.fullmatch(line) for line in document.lines) if document else ()
    return [(match["group"], match["test"]) for match in matches if match]


def _failing(facts: Facts) -> tuple[Citation, ...]:
    """Quote the first failed tests."""
    document = _document(facts)
    first = next((n for n, line in enumerate(document.lines, 1) if FAILED.fullmatch(line)), None) if document else None
    if document is None or first is None:
        return ()
    return (cite_lines(document, first, min(first + MOST_LINES - 1, len(document.lines))),)


def _is_all(error: str | None) -> bool:
    """Return whether an error such as "8 of 8 tests still fail" concerns all of the tests."""
    counts = re.match(r"(\d+) of (\d+) ", error or "")
    return counts is not None and counts[1] == counts[2]


def _name(test: str) -> str:
    """Return the file of a test. For a test in Django's format, return its module."""
    django = DJANGO.fullmatch(test)
    return django["module"].rsplit(".", 1)[0] if django else test.partition("::")[0]


def _is_run_by_agent(facts: Facts, test: str) -> bool:
    """Return whether a command of the agent contains the name of a test's file, module or folder."""
    name = _name(test).removesuffix(".py")
    parts = [part for part in re.split(r"[/.]", name) if part not in ("", "tests", "test")]
    commands = "\n".join(
        code.joined(str(value) for value in call.call.turn.arguments.values()) for call in facts.transcripts.calls
    )
    return any(re.search(rf"\b{re.escape(part)}\b", commands) for part in parts[-2:])


def _broken_import(facts: Facts) -> tuple[str, Citation] | None:
    """Return a file of the patch that the log names shortly before a loading error, and a quotation of the error."""
    paths = [path for document in facts.evidence.of("output") for path in CHANGED.findall(document.text)]
    for document in facts.evidence.of("log"):
        for number, line in enumerate(document.lines, 1):
            if UNLOADED.search(line):
                nearby_text = "\n".join(document.lines[max(0, number - 6) : number])
                if path := next((path for path in paths if path in nearby_text), None):
                    return path, cite_lines(document, number, number)
    return None


def _log_line(facts: Facts, error: str) -> tuple[Citation, ...]:
    """Quote the line of a log from which an error was taken."""
    reason = error.partition("apply: ")[2]
    for document in facts.evidence.of("log"):
        for number, line in enumerate(document.lines, 1):
            if reason and reason in " ".join(line.split()):
                return (cite_lines(document, number, number),)
    return ()

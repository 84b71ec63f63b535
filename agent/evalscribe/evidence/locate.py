"""Locate the errors of the failed step and compute the error signature."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from evalscribe.evidence.error_formats import (
    ReportedFailure,
    RunnerOutput,
    diagnostics,
    error_lines,
    errors_below_heading,
    first_informative,
    installers,
    parse_runner_output,
    raised_errors,
    refused_pushes,
    tracebacks,
)
from evalscribe.evidence.log import (
    LogLine,
    ParsedError,
    failed_sections,
    first_log,
    is_stock,
    lines_of,
    names_failed_step,
    names_tests,
    normalise_error,
    plain_lines,
    shorten_error,
    strip_prefixes,
)
from evalscribe.model.evidence import Citation, Document, Evidence, FailedTest, LocatedError, OutputLine, TestOutcome
from evalscribe.text import cut, one_line

MAX_LOCATED = 50
MAX_NAMED = 12
MAX_LINE = 300
"""Maximum characters of the line that `telling_line` returns."""
NAMES_ONLY = "failed tests: "
"""Prefix of an error that only lists the names of the failed tests.

Such an error is used if the log has no message for any failed test.
"""
_SAYS_FAILED = re.compile(r"\W{0,3}(?:FAIL(?:ED|URE)?|not ok)\b[: ]\s*(?=\S)", re.IGNORECASE)
"""Matches the beginning of a line in a grader's output that reports a failure, such as `FAILED: ` or `not ok `."""
_ASSERTION = re.compile(
    r"(?:assert\b|AssertionError|expect(?:ed)?\b|promise\b|fetch failed$|test timed out)", re.IGNORECASE
)


_PANICKED = re.compile(r"thread '.*' (?:\(\d+\) )?panicked at ")
"""Matches the line in which Rust prints the location of a failed assertion.

The assertion's message is on the next line.
"""


_LEGEND = re.compile(r"[+-] (?:actual|expected) [+-] (?:actual|expected)$")
"""Matches the legend above a diff of two values, such as `+ actual - expected`."""
_FRAME = re.compile(r"at \S")
MAX_BELOW = 4
"""Maximum number of lines that are added to a failed test's message whose first line ends in a colon."""


def locate_all(evidence: Evidence) -> tuple[LocatedError, ...]:
    """Return the errors of the failed step, at most fifty. Errors come before warnings.

    If there are more than fifty, the first error of each rule or error code is preferred. If the log contains no error,
    the reason that the source recorded is returned instead, without a citation. A stock message is not returned as a
    reason.
    """
    log = first_log(evidence)
    has_failed_step = names_failed_step(evidence)
    # If the log does not contain the failed step, its errors explain a different step. The recorded reason is then used
    # first.
    errors = [] if has_failed_step else list(_parsed_reason(evidence))
    if errors:
        log = None
    elif not _graded_afterwards(evidence):
        errors = list(_parsed_errors(failed_sections(evidence)))
    if not errors and has_failed_step:
        log, errors = None, list(_parsed_reason(evidence))
    errors.sort(key=lambda error: error.severity == "warning")
    return tuple(_located(error, log, evidence) for error in _limited(errors))


def _limited(errors: Sequence[ParsedError]) -> Iterator[ParsedError]:
    """Yield at most `MAX_LOCATED` errors in their original order.

    If some errors must be left out, the first error of each code is preferred.
    """
    if len(errors) <= MAX_LOCATED:
        return iter(errors)
    # If only the first errors were kept, fifty style violations before a defect would hide it, and the rules would
    # excuse the model with certainty. The model controls the number of violations.
    first = {error.code: at for at, error in reversed(list(enumerate(errors)))}
    chosen = sorted(range(len(errors)), key=lambda at: (first[errors[at].code] != at, at))[:MAX_LOCATED]
    return (errors[at] for at in sorted(chosen))


def locate(evidence: Evidence) -> LocatedError | None:
    """Return the first error of `locate_all`, which explains the failure best; None if no error was located."""
    return next(iter(locate_all(evidence)), None)


def signature(step: str | None, located: LocatedError | None) -> str | None:
    """Return the error signature, which is the failed step and the normalised error; None if no error was located.

    Two failures without a signature never count as equal.
    """
    if located is None:
        return None
    error_text = located.error.casefold() if located.exact else normalise_error(located.error)
    return f"{step or 'before grading'}: {error_text}"


def telling_line(output: str) -> str:
    """Return the line of a grader's output that best explains the failure; the last line if no such line is found."""
    lines = plain_lines(output)
    runner_output = parse_runner_output(lines)
    for failure in runner_output.failures if runner_output else ():
        if failure.message:
            return cut(f"{failure.name}: {' '.join(failure.message)}", MAX_LINE)
    texts = [one_line(line.text).strip() for line in lines if line.text.strip()]
    failed = next((text[match.end() :] for text in texts if (match := _SAYS_FAILED.match(text))), None)
    if failed is None:
        failed = next((strip_prefixes(error.error) for error in (*tracebacks(lines), *error_lines(lines))), None)
    return cut(failed or (texts[-1] if texts else ""), MAX_LINE)


def tests(evidence: Evidence) -> TestOutcome:
    """Return the test runner's results. If the log has no results, return only the recorded status of the test step."""
    statuses = [step.status for step in evidence.steps if names_tests(step.name)]
    step = "failed" if "failed" in statuses else next(iter(statuses), None)
    log = first_log(evidence)
    outcome = parse_runner_output(lines_of(log)) if log else None
    if log is None or outcome is None:
        return TestOutcome(step=step)
    failures = tuple(
        FailedTest(
            name=shorten_error(failure.name),
            message="\n".join(failure.message),
            citation=_cited(log, failure.first, failure.last),
            milliseconds=failure.milliseconds,
            frames=tuple(path for path, _ in failure.places),
        )
        for failure in outcome.failures
    )
    return TestOutcome(
        runner=outcome.runner,
        passed=outcome.passed,
        failed=outcome.failed,
        failures=failures,
        skipped=outcome.skipped,
        step=step,
        summary=_cited(log, *outcome.summary) if outcome.summary else None,
    )


def _graded_afterwards(evidence: Evidence) -> bool:
    """Return whether a grader judged an agent's work after the agent had finished.

    If the work was graded afterwards, the agent's log does not explain the failure. If the log reports failed tests,
    False is returned.
    """
    if not evidence.of("transcript") or evidence.eval.status == "error" or not evidence.eval.reason:
        return False
    log = first_log(evidence) if names_tests(evidence.eval.failed_step) else None
    runner_output = parse_runner_output(lines_of(log)) if log else None
    return runner_output is None or not (runner_output.failures or runner_output.unstarted)


def _parsed_errors(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Try the parsers in order, and yield all errors of the first parser that finds an error."""
    runner_output = parse_runner_output(lines)
    if runner_output and (runner_output.failures or runner_output.unstarted):
        # Any other error in the log was printed by the tests or by the code under test.
        yield from _of_tests(runner_output)
        return
    parsers: tuple[Iterable[ParsedError], ...] = (
        raised_errors(lines),
        diagnostics(lines),
        tracebacks(lines),
        installers(lines),
        refused_pushes(lines),
        error_lines([line for line in lines if line.mark in ("", "error")]),
        () if runner_output else errors_below_heading(lines),  # a test runner's banner and counts do not give a reason
    )
    for parser in parsers:
        errors = list(parser)
        # Warnings alone do not explain why a step failed, so the next parser is tried.
        if any(error.severity == "error" for error in errors):
            yield from errors
            return


def _parsed_reason(evidence: Evidence) -> Iterator[ParsedError]:
    """Parse the recorded reason of the failed step.

    If the reason contains no error, try the reasons of the other failed steps, and then the eval's reason.
    """
    failed = sorted(
        (step for step in evidence.steps if step.status == "failed"),
        key=lambda step: step.name != evidence.eval.failed_step,
    )
    reasons = [step.error for step in failed] + [evidence.eval.reason]
    for reason in reasons:
        lines = plain_lines(reason or "")
        errors = list(_parsed_errors(lines)) or [error for error in [first_informative(lines)] if error]
        if errors:
            yield from errors
            return


def _of_tests(output: RunnerOutput) -> Iterator[ParsedError]:
    """Yield an error for each failed test that has a message.

    If no test has a message, yield a single error that lists the names of all failed tests. If no test finished, yield
    an error with the reason.
    """
    silent = True
    for failure in output.failures:
        if message := _reason(failure):
            silent = False
            # The message of an assertion, such as `expected 3 to be 4`, means little without the name of the test.
            error = f"{failure.name}: {message}" if _ASSERTION.match(message) else message
            yield ParsedError(
                output.runner, error, failure.first, failure.last, places=failure.places, test=failure.name
            )
    if silent and output.failures:
        first, last = output.failures[0], output.failures[min(len(output.failures), MAX_NAMED) - 1]
        names = "; ".join(failure.name for failure in output.failures)
        yield ParsedError(output.runner, f"{NAMES_ONLY}{names}", first.first, last.last, test=first.name)
    elif output.unstarted:
        yield ParsedError(output.runner, output.unstarted.message[0], output.unstarted.first, output.unstarted.last)


def _reason(failure: ReportedFailure) -> str | None:
    """Return the first line of a failed test's message that is not a stock message; None if there is no such line.

    If the line ends in a colon, the lines below it are appended. After a Rust panic, the message is the line below the
    panic.
    """
    lines = [line for line in failure.message if not is_stock(line)]
    message = strip_prefixes(lines[0]) if lines else None
    until_frame = takewhile(lambda line: not _FRAME.match(line), lines[1:])
    below = [line for line in until_frame if not _LEGEND.match(line)][:MAX_BELOW]
    if message and message.endswith(":") and below:
        return strip_prefixes(below[0]) if _PANICKED.match(message) else " ".join([message, *below])
    # The first line of a Jest message names only the matcher. The two values are on lines of their own.
    values = [line for line in failure.message if line.startswith(("Expected", "Received"))]
    if not message or not message.startswith("expect(") or not values:
        return message
    return " ".join([message.partition(" // ")[0], *values[:2]])


def _located(parsed: ParsedError, log: Document | None, evidence: Evidence) -> LocatedError:
    return LocatedError(
        error=shorten_error(parsed.error),
        tool=parsed.tool or None,
        code=parsed.code,
        severity=parsed.severity,
        citation=_cited(log, parsed.first, parsed.last) if log else None,
        places=tuple(_places(parsed.places, evidence)),
        test=shorten_error(parsed.test) if parsed.test else None,
        exact=log is None and _graded_afterwards(evidence),
    )


def _cited(log: Document, first: int, last: int) -> Citation:
    text = "\n".join(log.lines[first - 1 : last])
    return Citation(role="log", path=log.path, first=first, last=last, text=text, status="verified")


def _places(path_lines: Iterable[tuple[str, int]], evidence: Evidence) -> Iterator[OutputLine]:
    """Yield the lines of output documents that the log refers to.

    A logged path is skipped if it matches a reference document whose path is longer than the output document's path.
    """
    yielded = set()
    for path, line in path_lines:
        document = _best_fit(path, evidence.of("output"))
        if document is None or _means_reference(path, document, evidence):
            continue
        if line <= len(document.lines) and (document.path, line) not in yielded:
            yielded.add((document.path, line))
            yield OutputLine(path=document.path, line=line)


def _means_reference(path: str, document: Document, evidence: Evidence) -> bool:
    bare = _bare(path)
    return any(
        bare.endswith("/" + reference.path) and len(reference.path) > len(document.path)
        for reference in evidence.of("expected")
    )


def _best_fit(path: str, documents: Sequence[Document]) -> Document | None:
    """Return the document whose path is the longest suffix of the logged path.

    If no document matches in this way, return the only document whose own path ends with the logged path. If there are
    several such documents, return None.
    """
    bare = _bare(path)
    inner = [document for document in documents if bare.endswith("/" + document.path)]
    if inner:
        return max(inner, key=lambda document: len(document.path))
    outer = [document for document in documents if ("/" + document.path).endswith(bare)]
    return outer[0] if len(outer) == 1 else None


def _bare(path: str) -> str:
    return "/" + re.sub(r"^(?:\.{1,2}[\\/])+", "", path).replace("\\", "/").lstrip("/")

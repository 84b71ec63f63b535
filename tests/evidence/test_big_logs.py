"""Logs with many errors are read in linear time.

The time limit of the test run guards this. When the bodies of unittest failures overlapped, reading half a megabyte of
them took more than eight minutes.
"""

import pytest

from evalscribe.evidence import locate, log
from evalscribe.evidence.log import MAX_LINES
from support.tool_output import evidence

SIZE = 2_000_000
LOGS = {
    "unittest failures without rules": ("Ran 3 tests in 1s\nFAILED (failures=1)\n", "FAIL: test_a (b.C)\n"),
    "pytest headings": ("=== FAILURES ===\n", "____ test_a ____\n"),
    "tsc": ("", "src/a.ts(1,2): error TS2345: " + "x" * 300 + "\n" + "  Type x is not assignable.\n" * 16),
    "eslint": ("", "/x/a.ts\n  1:1  error  Bad thing here  no-bad\n\n"),
    "tracebacks": (
        "",
        'Traceback (most recent call last):\n  File "/x/a.py", line 3, in f\n    g()\nValueError: bad\n',
    ),
    "error sections": ("", "[cmd] vitest run\n[error] tests: failed\n"),
}
"""Header and repeated lines."""


@pytest.mark.parametrize(("header", "unit"), LOGS.values(), ids=LOGS)
def test_two_megabytes_of_errors_give_a_bounded_number_of_results(header: str, unit: str) -> None:
    log_evidence = evidence("[error] tests: failed\n" + header + unit * (SIZE // len(unit)), "tests")
    assert len(locate.locate_all(log_evidence)) <= 50
    assert len(locate.tests(log_evidence).failures) <= MAX_LINES
    assert log.failed_log(log_evidence) is not None


def test_unittest_failures_without_separators_keep_their_own_messages() -> None:
    failure_text = "FAIL: test_a (b.C)\nValueError: one\nFAIL: test_d (b.C)\nValueError: two\n"
    log = f"{failure_text}Ran 2 tests in 1s\nFAILED (failures=2)\n"
    failures = locate.tests(evidence(log, "tests")).failures
    assert [(failure.name, failure.message) for failure in failures] == [
        ("test_a", "ValueError: one"),
        ("test_d", "ValueError: two"),
    ]

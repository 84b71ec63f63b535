"""Logs with many errors: the time to read them grows linearly with their size.

Guarded by the time limit of the tests: when the bodies of unittest failures overlapped, half a megabyte of them took
more than eight minutes.
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
def test_a_log_of_many_errors_is_read(header: str, unit: str) -> None:
    given = evidence("[error] tests: failed\n" + header + unit * (SIZE // len(unit)), "tests")
    assert len(locate.locate_all(given)) <= 50
    assert len(locate.tests(given).failures) <= MAX_LINES
    assert log.failed_log(given) is not None


def test_failures_without_rules_between_them_have_bodies_of_their_own() -> None:
    said = "FAIL: test_a (b.C)\nValueError: one\nFAIL: test_d (b.C)\nValueError: two\n"
    log = f"{said}Ran 2 tests in 1s\nFAILED (failures=2)\n"
    failures = locate.tests(evidence(log, "tests")).failures
    assert [(failure.name, failure.message) for failure in failures] == [
        ("test_a", "ValueError: one"),
        ("test_d", "ValueError: two"),
    ]

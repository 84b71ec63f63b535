"""Test that the time to locate the errors of a log grows in proportion to the length of the log."""

import time

import pytest

from evalscribe.evidence import locate
from support.tool_output import evidence

UNITS = {
    "tsc": "src/a.ts(1,2): error TS2345: Argument of type 'a' is not assignable.\n",
    "eslint": "/x/a.ts\n  1:1  error  Bad thing here  no-bad\n\n",
    "tracebacks": 'Traceback (most recent call last):\n  File "/x/a.py", line 3, in f\n    g()\nValueError: bad\n',
    "pytest": "=== FAILURES ===\n____ test_a ____\nE   assert 1 == 2\n",
    "unittest": "Ran 3 tests in 1s\nFAILED (failures=1)\nFAIL: test_a (b.C)\n",
}
FEW, MANY = 2_000, 8_000
"""Numbers of repetitions. They are small enough that the whole log is examined, not only its ends."""


def seconds(log: str) -> float:
    """Return the CPU seconds of this process, the best of three measurements."""
    taken = []
    for number in range(3):
        given = evidence(f"[error] tests: failed\nattempt {number}\n{log}", "tests")
        start = time.process_time()
        locate.locate_all(given)
        locate.tests(given)
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.benchmark
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_time_grows_with_the_size_of_the_log(unit: str) -> None:
    few, many = seconds(unit * FEW), seconds(unit * MANY)
    print(f"{few:.3f} s, {many:.3f} s: {many / few:.1f} times as long for {MANY // FEW} times as many")
    assert many < 2 * MANY / FEW * few

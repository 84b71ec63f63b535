"""Where a failure says why: the located error, its signature, and what the test runner reported."""

from evalscribe.evidence import FailedTest, Located, Place, Severity, TestOutcome
from evalscribe.signature.locate import NAMES_ONLY, locate, locate_all, signature, tests
from evalscribe.signature.log import REFERENCE, failed_log, names_tests, reference_errors
from evalscribe.signature.wording import is_refused_push, is_stock, normalised, quoted

__all__ = [
    "NAMES_ONLY",
    "REFERENCE",
    "FailedTest",
    "Located",
    "Place",
    "Severity",
    "TestOutcome",
    "failed_log",
    "is_refused_push",
    "is_stock",
    "locate",
    "locate_all",
    "names_tests",
    "normalised",
    "quoted",
    "reference_errors",
    "signature",
    "tests",
]

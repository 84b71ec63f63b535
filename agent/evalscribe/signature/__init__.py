"""Where a failure says why: the located error, its signature, and what the test runner reported."""

from evalscribe.signature.locate import locate, locate_all, signature, tests
from evalscribe.signature.located import FailedTest, Located, Place, Severity, TestOutcome
from evalscribe.signature.log import failed_log, names_tests
from evalscribe.signature.wording import is_stock, normalised, quoted

__all__ = [
    "FailedTest",
    "Located",
    "Place",
    "Severity",
    "TestOutcome",
    "failed_log",
    "is_stock",
    "locate",
    "locate_all",
    "names_tests",
    "normalised",
    "quoted",
    "signature",
    "tests",
]

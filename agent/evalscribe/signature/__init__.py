"""Where a failure says why: the located error, its signature, and what the test runner reported."""

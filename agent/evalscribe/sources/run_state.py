"""What the runner's words about a whole run mean. Pure.

A run that stopped early has a `failureReason` that begins with the runner's marks. They are explained in front of the
runner's own words, because the counts beside them mean something else in each case.
"""

import re

_MEANINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (
            r"\[infrastructure\] \[preflight\]",
            "stopped before the first eval, because a test request to the provider failed",
        ),
        (
            r"\[infrastructure\] \[zero_tokens\]",
            "all evals ran, but no tokens were used for one of them, so the runner takes the whole result as void",
        ),
        (
            r"\[infrastructure\] \[(?:install|deploy|tsc|eslint|tests|filesystem)\]",
            "stopped in the middle by an outage in one step, so later evals never ran",
        ),
        (
            r"\[infrastructure\] Convex backend health check",
            "stopped in the middle, because the local Convex backend no longer answered, so later evals never ran",
        ),
        (r"\[infrastructure\]", "stopped by an outage of what the evals run on, not by the model"),
        (r"\[rate_limit\]", "stopped by the provider's rate limit, so later evals never ran"),
        (
            r"\[answer_validation\]",
            "a check of the reference answers that asked no model, so what fails is the eval's",
        ),
        (
            r'Run stuck in "pending" state',
            "the runner stopped without a word and the run was closed later",
        ),
        (r"Only \d+/\d+ evals completed", "ended before all its evals did"),
    )
)


def explained(reason: str) -> str:
    """What the runner's reason means, and the reason; only the reason if it has no known mark."""
    meaning = next((meaning for pattern, meaning in _MEANINGS if pattern.match(reason)), None)
    return f"{meaning}; the runner says: {reason}" if meaning else reason

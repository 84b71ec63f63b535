"""Explain the runner's reason for the state of a run. Pure.

The `failureReason` of a run that stopped early begins with the runner's marks. An explanation is put in front of it,
because the counts beside it mean something different in each case.
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
            "all evals ran, but one of them used no tokens, so the runner discards the whole result",
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
            "a check of the reference answers without a model, so its failures are the eval's",
        ),
        (
            r'Run stuck in "pending" state',
            "the runner stopped without a message and the run was closed later",
        ),
        (r"Only \d+/\d+ evals completed", "ended before all its evals had"),
    )
)


def explained(reason: str) -> str:
    """Put an explanation in front of the runner's reason if it has a known mark."""
    meaning = next((meaning for pattern, meaning in _MEANINGS if pattern.match(reason)), None)
    return f"{meaning}; the runner says: {reason}" if meaning else reason

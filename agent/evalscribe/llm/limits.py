"""Size limits for answers of model providers."""

from httpx2 import Request

from evalscribe.http_limits import MIB, AnswerLimits

ANSWER = AnswerLimits(whole=8 * MIB, lines=32 * MIB)
"""An answer of 128,000 tokens with every character escaped has 3 MB; a stream has 150 to 500 bytes per few tokens."""
RESULTS = AnswerLimits(whole=8 * MIB, lines=1024 * MIB, json_lines=True)
"""For the results of a batch: a thousand answers, one per line."""


def limits_of(request: Request) -> AnswerLimits:
    """Choose the limits by path, because batch results have no content type of their own."""
    return RESULTS if request.url.path.endswith("/results") else ANSWER

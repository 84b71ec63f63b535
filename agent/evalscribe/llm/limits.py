"""How large an answer of a model's provider may be."""

from httpx2 import Request

from evalscribe.http_limits import MIB, Limits

ANSWER = Limits(whole=8 * MIB, lines=32 * MIB)
"""An answer of 128,000 tokens, every character of it escaped, has 3 MB. As a stream it comes in events of 150 to 500
bytes for some tokens each."""
RESULTS = Limits(whole=8 * MIB, lines=1024 * MIB, json_lines=True)
"""Of a batch of a thousand answers, one a line."""


def limits_of(request: Request) -> Limits:
    """The results of a batch have no content type of their own, only an address."""
    return RESULTS if request.url.path.endswith("/results") else ANSWER

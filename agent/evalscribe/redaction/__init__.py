"""Takes secrets out of text as it is read, so that nothing behind a source ever holds one.

Two kinds of evidence for a secret: a shape that only keys have (a provider's prefix, PEM, JWT, a password in a URL),
and a random-looking literal that is assigned to a name such as `token`. Ids, hashes and code stay as they are.
Every pattern is linear: a run of token characters is tried from its first character only, and what precedes is bounded.
"""

from evalscribe.redaction.text import NONE, Hints, hints_in, redact
from evalscribe.redaction.values import redact_json

__all__ = ["NONE", "Hints", "hints_in", "redact", "redact_json"]

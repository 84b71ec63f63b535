"""Takes secrets out of text as it is read, so that nothing behind a source ever holds one.

Three kinds of evidence for a secret: a shape that only keys have (`shapes`, found by `tokens`), the place where it
stands (`places`: URLs, cookies, `.netrc`, private key blocks), and a random-looking literal that is assigned to a name
such as `token` (`assigned`, `names`). Ids, hashes and code stay as they are.
Every pattern is linear: it is tried only where a word or a long run of characters stands, and what it looks at from
there is bounded. `tests/benchmarks/redaction.py` measures misses, false alarms and time.
"""

from evalscribe.redaction.text import NONE, Hints, hints_in, redact
from evalscribe.redaction.values import redact_json

__all__ = ["NONE", "Hints", "hints_in", "redact", "redact_json"]

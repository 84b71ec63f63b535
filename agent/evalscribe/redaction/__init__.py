"""Remove secrets from text when it is read, so that no other part of evalscribe ever gets a secret.

A secret is recognised by a format that only keys have (`keys`), by its place (URLs, cookies, `.netrc`, private key
blocks), or as a random-looking literal assigned to a name such as `token` (both in `patterns`). Ids, hashes and code
are not changed. Matching takes linear time: a pattern is tried only at certain words or long runs of characters, and
the length of its match is bounded. `tests/benchmarks/redaction.py` measures misses, false alarms and time.
"""

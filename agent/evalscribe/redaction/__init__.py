"""Remove secrets from text while it is read, so that no other part of evalscribe ever sees a secret.

A secret is recognised in three ways. `keys` recognises it by a format that only keys have. `patterns` recognises it by
its place (URLs, cookies, `.netrc`, private key blocks), or as a random-looking literal that is assigned to a name such
as `token`. Ids, hashes and code are left unchanged. Matching takes linear time, because a pattern is only tried at
certain words or long runs of characters, and the length of a match is limited. `tests/benchmarks/redaction.py` measures
misses, false alarms and time.
"""

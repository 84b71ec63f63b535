"""Remove secrets from text as it is read, so that no other part of evalscribe ever sees one.

A secret is recognised in three ways: by a format that only keys have (`keys`), by its place (URLs, cookies, `.netrc`,
private key blocks), or as a random-looking literal that is assigned to a name such as `token` (the last two in
`patterns`). Ids, hashes and code are left as they are. Matching takes linear time, because a pattern is tried only at
certain words or long runs of characters, and the length of its match is limited. `tests/benchmarks/redaction.py`
measures misses, false alarms and time.
"""

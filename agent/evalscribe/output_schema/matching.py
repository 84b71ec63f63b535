"""Whether a text fits a rubric's regular expression: such an expression may take longer than anybody lives."""

import json
import re
import subprocess
import sys
from functools import lru_cache

LONGEST_S = 2.0
SHORT = 1_000
"""Characters in which an expression with a single repetition is done in milliseconds."""
_REPEATS = re.compile(r"[*+?{|]")
_SEARCH = "import json, re, sys; sys.exit(0 if re.search(*json.load(sys.stdin)) else 3)"


@lru_cache(maxsize=256)
def matches(pattern: str, text: str) -> bool | None:
    """None where it cannot be told within `LONGEST_S` seconds.

    `re` stops for nothing once it began, not even for Ctrl-C, so what may take long is done where it can be ended.
    """
    if len(text) <= SHORT and len(_REPEATS.findall(pattern)) <= 1:
        return bool(re.search(pattern, text))
    command = [sys.executable, "-I", "-S", "-c", _SEARCH]
    question = json.dumps([pattern, text]).encode()
    try:
        done = subprocess.run(command, input=question, capture_output=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return {0: True, 3: False}.get(done.returncode)

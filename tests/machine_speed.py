"""How slow this machine is now, for bounds on time: it varies by itself, and others may use its processors as well."""

import hashlib
import json
import time
import zlib

USUAL_S = 0.02
"""What a piece of work takes on the machine, and at the moment, that bounds were measured on."""
_CALLS = [{"id": str(n), "arguments": {"order": n, "rows": [n] * 5}} for n in range(300)]
_TALK = [{"role": "user", "content": f"Where is order {n}?", "tool_calls": [call]} for n, call in enumerate(_CALLS)]


def slowness() -> float:
    """Times slower than that, the best of a few tries; at least 1."""
    return max(1.0, min(_worked() for _ in range(5)) / USUAL_S)


def _worked() -> float:
    """Seconds for such work as imports and runs do: JSON, digests, packing."""
    began = time.perf_counter()
    for _ in range(12):
        text = json.dumps(_TALK)
        hashlib.sha256(text.encode()).digest()
        zlib.compress(text.encode())
        {message["content"]: [*message["tool_calls"]] for message in json.loads(text)}
    return time.perf_counter() - began

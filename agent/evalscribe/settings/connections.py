"""What the environment says of connections, which every HTTP client reads by itself: proxies and certificates."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from evalscribe.errors import UsageError

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@contextmanager
def as_environment_says() -> Iterator[None]:
    """Around the making of a client. Raises `UsageError` where it cannot be made as these variables are set."""
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        told = [name for name in NAMES if os.environ.get(name) or os.environ.get(name.lower())]
        if not told:
            raise
        raise UsageError(f"nothing can be reached with {', '.join(told)} as set in the environment: {error}") from None

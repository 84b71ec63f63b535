"""A failed attempt that may pass when it is tried again."""

from evalscribe.chat import CallFailed
from evalscribe.errors import EvalscribeError


class Transient(CallFailed):
    """`after`: seconds that the service asked to wait. `limited`: it takes fewer calls than it gets.

    `ends_all`: what to raise once the retries are spent.
    """

    def __init__(
        self,
        reason: str,
        *,
        free: bool = False,
        after: float | None = None,
        limited: bool = False,
        ends_all: EvalscribeError | None = None,
    ) -> None:
        super().__init__(reason, free=free)
        self.after = after
        self.limited = limited
        self.ends_all = ends_all

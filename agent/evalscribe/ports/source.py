"""Where runs come from."""

from typing import Protocol

from evalscribe.evidence import Evidence, Unreadable
from evalscribe.run import Eval, Run


class Source(Protocol):
    """Where a run comes from."""

    async def run(self) -> Run:
        """The run with its failed evals. Raises `EvalscribeError`."""

    async def evidence(self, eval: Eval) -> Evidence | Unreadable:
        """The redacted evidence of one failed eval. Raises only what concerns all evals (no key, host gone)."""

    async def close(self) -> None: ...

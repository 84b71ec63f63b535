"""What a use case works with: ports, chosen by `wiring`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evalscribe.chat import Usage
from evalscribe.graph.deps import TIMEOUT_S
from evalscribe.judging.cascade import CaseCascade
from evalscribe.ports import Clock, Judge, Library, Source, Store


@dataclass(frozen=True)
class Desk:
    """The ports of one analysis."""

    source: Source
    store: Store
    library: Library
    judge: Judge
    clock: Clock
    checkpoints: Path | str
    """Where LangGraph keeps its checkpoints: a file, or the address of a database."""
    concurrency: int = 4
    timeout_s: float | None = TIMEOUT_S
    """For one failure."""
    adviser: Judge | None = None
    """A judge that could decide what `judge` is not sure of; only its estimate is asked for."""
    own_prompts: bool = False
    """Whether the judge's prompts or its rubric are the workspace's own."""
    cascade: CaseCascade | None = None
    """The judge, where it is a cascade."""
    spent: Callable[[], Mapping[str, Usage]] | None = None
    """What each stage consumed so far, retries included; None where no model is asked."""
    notes: tuple[str, ...] = ()
    """What the user should know of the judge's rubrics."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Ids of all that may decide."""
        return self.cascade.judges if self.cascade else (self.judge.id,)

"""What a use case works with: ports, chosen by `wiring`."""

from dataclasses import dataclass
from pathlib import Path

from evalscribe.ports import Clock, Judge, Library, Source, Store


@dataclass(frozen=True)
class Desk:
    """The ports of one analysis."""

    source: Source
    store: Store
    library: Library
    judge: Judge
    clock: Clock
    checkpoints: Path
    """Where LangGraph keeps its checkpoints."""
    concurrency: int = 4
    adviser: Judge | None = None
    """A judge that could decide what `judge` is not sure of; only its estimate is asked for."""
    own_prompts: bool = False
    """Whether the judge's prompts are the workspace's own."""

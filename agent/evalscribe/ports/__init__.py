"""What the stages consume, defined by the consumer. Adapters have these shapes; only `wiring` chooses them.

A port is imported when it is first named: its nouns are many, and a command speaks to few ports.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalscribe.ports.archive import Added, Archive, Forgotten, Records, Rows, Tables
    from evalscribe.ports.engine import Ask, Clerk, Crew, Engine, Factory, Lost, Worker
    from evalscribe.ports.experiments import (
        Datasets,
        Definitions,
        ExperimentRuns,
        ItemRows,
        ScoreQuery,
        ScorerRunner,
        Target,
    )
    from evalscribe.ports.git import Forge, Library, Repository
    from evalscribe.ports.intents import Intent, Intents, Unanswered
    from evalscribe.ports.model import Estimate, Judge, Model, Models, OnText
    from evalscribe.ports.results import ResultSets
    from evalscribe.ports.shelf import Shelf
    from evalscribe.ports.source import Source
    from evalscribe.ports.store import Store

__all__ = [
    "Added",
    "Archive",
    "Ask",
    "Clerk",
    "Crew",
    "Datasets",
    "Definitions",
    "Engine",
    "Estimate",
    "ExperimentRuns",
    "Factory",
    "Forge",
    "Forgotten",
    "Intent",
    "Intents",
    "ItemRows",
    "Judge",
    "Library",
    "Lost",
    "Model",
    "Models",
    "OnText",
    "Records",
    "Repository",
    "ResultSets",
    "Rows",
    "ScoreQuery",
    "ScorerRunner",
    "Shelf",
    "Source",
    "Store",
    "Tables",
    "Target",
    "Unanswered",
    "Worker",
]
_HOMES = {
    "archive": ("Added", "Archive", "Forgotten", "Records", "Rows", "Tables"),
    "engine": ("Ask", "Clerk", "Crew", "Engine", "Factory", "Lost", "Worker"),
    "experiments": ("Datasets", "Definitions", "ExperimentRuns", "ItemRows", "ScoreQuery", "ScorerRunner", "Target"),
    "git": ("Forge", "Library", "Repository"),
    "intents": ("Intent", "Intents", "Unanswered"),
    "model": ("Estimate", "Judge", "Model", "Models", "OnText"),
    "results": ("ResultSets",),
    "shelf": ("Shelf",),
    "source": ("Source",),
    "store": ("Store",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found

"""What the stages consume, defined by the consumer. Adapters have these shapes; only `wiring` chooses them."""

from evalscribe.ports.archive import Added, Archive, Forgotten, Records, Rows, Tables
from evalscribe.ports.clock import Clock
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
    "Clock",
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

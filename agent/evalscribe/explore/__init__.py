"""Explore: what many agent runs have in common, observed batch by batch, clustered, and answered from that."""

from evalscribe.explore.answer import answered, answering
from evalscribe.explore.batches import Shown, packed, room_of
from evalscribe.explore.causes import Failure, by_cause, in_figures, observations_of
from evalscribe.explore.clusters import Clustered, Node, clustered, rehearsal
from evalscribe.explore.made import clusters_of, silent
from evalscribe.explore.observations import numbered, observed
from evalscribe.explore.wording import FOLDER, answering_rubric, clustering_rubric, observing_rubric

__all__ = [
    "FOLDER",
    "Clustered",
    "Failure",
    "Node",
    "Shown",
    "answered",
    "answering",
    "answering_rubric",
    "by_cause",
    "clustered",
    "clustering_rubric",
    "clusters_of",
    "in_figures",
    "numbered",
    "observations_of",
    "observed",
    "observing_rubric",
    "packed",
    "rehearsal",
    "room_of",
    "silent",
]

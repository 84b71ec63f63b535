"""Observations on many agent runs, and clusters of observations with the same meaning."""

from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.chat import Usage


class Member(Frozen):
    """Facts about an explored agent run, without its transcripts."""

    id: str
    run_id: str
    eval: str
    """Path of the eval, with the trial if the eval has several."""
    provider: str
    model: str
    task: str
    trial: int
    status: str

    @property
    def failed(self) -> bool:
        return self.status in ("failed", "error")


class Passage(Frozen):
    """A verified quotation from an agent run."""

    agent_run_id: str
    run_id: str
    eval: str
    transcript_id: str | None = None
    block: int | None = None
    """Index of the quoted message in the transcript, from 0."""
    place: str
    """The quoted place as displayed: `T0B3`, `R0M.scores.reward`, `log run.log:3-5`."""
    text: str
    """The text at `place`; empty if a whole message or value is cited."""
    status: Literal["verified", "relocated"] = "verified"
    """`relocated`: the quotation is not at the place that was cited, but at this other place of the same agent run."""


class Observation(Frozen):
    """An observation, with the agent runs whose quotations support it."""

    id: str
    """`O0`, `O1` … within one exploration."""
    text: str
    agent_runs: tuple[str, ...] = ()
    """Ids of the agent runs with a verified quotation. If there are none, the observation is not counted."""
    passages: tuple[Passage, ...] = ()
    invented: int = 0
    """Number of the observation's citations that could not be verified."""


class ClusterShare(Frozen):
    """The share of one model's, task's or trial's agent runs that are in a cluster."""

    of: Literal["model", "task", "trial"]
    name: str
    agent_runs: int
    """Number of agent runs of this task, model or trial in the cluster."""
    among: int
    """Number of all explored agent runs of this task, model or trial."""


class Cluster(Frozen):
    """Observations with the same meaning."""

    name: str
    text: str
    agent_runs: tuple[str, ...]
    """Ids without duplicates."""
    observations: tuple[str, ...]
    """Ids of the observations. An observation is in at most one cluster."""
    parts: tuple[str, ...] = ()
    """Names of the clusters that were merged into this one."""
    passages: tuple[Passage, ...] = ()
    """Example quotations. The first ones are from different agent runs."""
    shares: tuple[ClusterShare, ...] = ()
    """The models, tasks and trials in which the cluster is most frequent."""


class Gap(Frozen):
    """Agent runs that could not be read, and why."""

    agent_runs: tuple[str, ...]
    reason: str


class Exploration(Frozen):
    """One question about many agent runs, with its answer."""

    question: str
    collection: str
    """Name of the collection."""
    collection_id: str
    where: str | None = None
    """Condition that selects agent runs; None for all agent runs."""
    max_runs: int | None = None
    """Maximum number of agent runs to read."""
    judge: str
    """Id of the model, or `rules@1`."""
    members: tuple[Member, ...] = ()
    """The explored agent runs, sorted by id."""
    answer: str | None = None
    """Text that cites clusters by number, `(1)`; None if there is no answer."""
    clusters: tuple[Cluster, ...] = ()
    """Clusters with the most agent runs first."""
    observations: tuple[Observation, ...] = ()
    """Observations with a verified citation."""
    unverified: tuple[Observation, ...] = ()
    """Observations without a verified citation. They are in no cluster and are not counted."""
    other: tuple[str, ...] = ()
    """Ids of observations without a cluster."""
    silent: tuple[str, ...] = ()
    """Ids of agent runs without observations on the question."""
    gaps: tuple[Gap, ...] = ()
    left_out: int = 0
    """Number of selected agent runs that were not read because of `max_runs`."""
    notes: tuple[str, ...] = ()
    """Limitations of the answer, one sentence each."""
    usage: Usage = Usage()
    """Usage of every step, including answers that were already stored."""

"""Define observations on many agent runs, and clusters of observations with the same meaning."""

from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.chat import Usage


class Member(Frozen):
    """Description of an explored agent run, without its transcripts."""

    id: str
    run_id: str
    eval: str
    """Path of the eval. The path includes the number of the trial if the eval has several trials."""
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
    """Index of the quoted message in the transcript, starting at 0."""
    place: str
    """The quoted place in the form in which it is displayed, such as `T0B3`, `R0M.scores.reward` or `log run.log:3-5`.
    """
    text: str
    """The quoted text at `place`; empty if a whole message or value is cited."""
    status: Literal["verified", "relocated"] = "verified"
    """Status of the quotation. `relocated`: the judge cited a place that does not contain the quotation. The quotation
    was found at `place` in the same agent run."""


class Observation(Frozen):
    """One observation, with the agent runs whose quotations support the observation."""

    id: str
    """Id of the observation, unique in one exploration: `O0`, `O1` and so on."""
    text: str
    agent_runs: tuple[str, ...] = ()
    """Ids of the agent runs with a verified quotation. An observation without such agent runs is not counted."""
    passages: tuple[Passage, ...] = ()
    invented: int = 0
    """Number of the observation's citations that could not be verified."""


class ClusterShare(Frozen):
    """How many of the agent runs of one model, task or trial are in a cluster."""

    of: Literal["model", "task", "trial"]
    name: str
    agent_runs: int
    """Number of agent runs of the model, task or trial that are in the cluster."""
    among: int
    """Number of all explored agent runs of the model, task or trial."""


class Cluster(Frozen):
    """Observations with the same meaning."""

    name: str
    text: str
    agent_runs: tuple[str, ...]
    """Ids of the agent runs in the cluster, without duplicates."""
    observations: tuple[str, ...]
    """Ids of the observations in the cluster. Each observation is in at most one cluster."""
    parts: tuple[str, ...] = ()
    """Names of the clusters that were merged into this cluster."""
    passages: tuple[Passage, ...] = ()
    """Example quotations: first one from each agent run, then further ones."""
    shares: tuple[ClusterShare, ...] = ()
    """The models, tasks and trials in which the cluster is most frequent."""


class Gap(Frozen):
    """Agent runs that could not be read, and the reason."""

    agent_runs: tuple[str, ...]
    reason: str


class Exploration(Frozen):
    """One question about many agent runs, with its answer."""

    question: str
    collection: str
    """Name of the collection."""
    collection_id: str
    where: str | None = None
    """Condition that selects the agent runs; None if all agent runs are selected."""
    max_runs: int | None = None
    """Maximum number of agent runs to read."""
    judge: str
    """Id of the judge: a model, or `rules@1`."""
    members: tuple[Member, ...] = ()
    """The explored agent runs, sorted by id."""
    answer: str | None = None
    """Answer to the question. It cites clusters by number, as in `(1)`. It is None if there is no answer."""
    clusters: tuple[Cluster, ...] = ()
    """Clusters of observations. The cluster with the most agent runs comes first."""
    observations: tuple[Observation, ...] = ()
    """Observations that have a verified citation."""
    unverified: tuple[Observation, ...] = ()
    """Observations that have no verified citation. They are in no cluster and are not counted."""
    other: tuple[str, ...] = ()
    """Ids of the observations that are in no cluster."""
    silent: tuple[str, ...] = ()
    """Ids of the agent runs in which the judge observed nothing about the question."""
    gaps: tuple[Gap, ...] = ()
    left_out: int = 0
    """Number of selected agent runs that were not read because of `max_runs`."""
    notes: tuple[str, ...] = ()
    """Limitations of the answer, one sentence each."""
    usage: Usage = Usage()
    """Model usage of all steps, including the usage of answers that were already stored."""

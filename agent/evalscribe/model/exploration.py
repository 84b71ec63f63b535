"""What many agent runs have in common: observations and clusters."""

from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.chat import Usage


class Member(Frozen):
    """An agent run, without its transcripts."""

    id: str
    run_id: str
    eval: str
    """Path, with the trial if there are several."""
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
    """Message of the transcript, from 0."""
    place: str
    """Place for readers: `T0B3`, `R0M.scores.reward`, `log run.log:3-5`."""
    text: str
    """The actual text at that place; empty if the whole item is cited."""
    status: Literal["verified", "relocated"] = "verified"
    """`relocated`: found at another place of the same agent run than the one cited."""


class Observation(Frozen):
    """An observation, with the agent runs whose quotations support it."""

    id: str
    """`O0`, `O1` … within one exploration."""
    text: str
    agent_runs: tuple[str, ...] = ()
    """Ids; empty if no citation was verified, in which case the observation is not counted."""
    passages: tuple[Passage, ...] = ()
    invented: int = 0
    """Number of its citations that could not be verified."""


class ClusterShare(Frozen):
    """Share of a cluster that belongs to one task, model or trial."""

    of: Literal["model", "task", "trial"]
    name: str
    agent_runs: int
    """Number of agent runs in the cluster."""
    among: int
    """Number of all explored agent runs."""


class Cluster(Frozen):
    """Observations with the same meaning."""

    name: str
    text: str
    agent_runs: tuple[str, ...]
    """Ids, each once."""
    observations: tuple[str, ...]
    """Ids; each observation is in at most one cluster."""
    parts: tuple[str, ...] = ()
    """Names of the clusters that were merged into it."""
    passages: tuple[Passage, ...] = ()
    """Examples, from different agent runs first."""
    shares: tuple[ClusterShare, ...] = ()
    """The models, tasks and trials in which it is most frequent."""


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
    """Condition that selects agent runs; None for all."""
    max_runs: int | None = None
    """Maximum number of agent runs to read."""
    judge: str
    """Id of the model, or `rules@1`."""
    members: tuple[Member, ...] = ()
    """The explored agent runs, by id."""
    answer: str | None = None
    """Text that cites clusters by number, `(1)`; None if there is no answer."""
    clusters: tuple[Cluster, ...] = ()
    """Clusters with the most agent runs first."""
    observations: tuple[Observation, ...] = ()
    """Observations with a verified citation."""
    unverified: tuple[Observation, ...] = ()
    """Observations without a verified citation; in no cluster and no count."""
    other: tuple[str, ...] = ()
    """Ids of observations without a cluster."""
    silent: tuple[str, ...] = ()
    """Ids of agent runs without observations on the question."""
    gaps: tuple[Gap, ...] = ()
    left_out: int = 0
    """Number of agent runs beyond `max_runs`."""
    notes: tuple[str, ...] = ()
    """Limitations of the answer, one sentence each."""
    usage: Usage = Usage()
    """Usage of every step, including stored answers."""

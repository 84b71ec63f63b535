"""What many agent runs have in common: observations and clusters."""

from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.chat import Usage


class Member(Frozen):
    """An agent run, without what was said in it."""

    id: str
    run_id: str
    eval: str
    """Path, with the trial where there are several."""
    provider: str
    model: str
    task: str
    trial: int
    status: str

    @property
    def failed(self) -> bool:
        return self.status in ("failed", "error")


class Passage(Frozen):
    """Words of an agent run that were looked up where they are said to stand."""

    agent_run_id: str
    run_id: str
    eval: str
    transcript_id: str | None = None
    block: int | None = None
    """Message of the transcript, from 0."""
    place: str
    """As one reads it: `T0B3`, `R0M.scores.reward`, `log run.log:3-5`."""
    text: str
    """What really stands there; empty where all of the place is meant."""
    status: Literal["verified", "relocated"] = "verified"
    """`relocated`: in another place of the same agent run than was said."""


class Observation(Frozen):
    """An observation, with the agent runs whose quotations support it."""

    id: str
    """`O0`, `O1` … within one exploration."""
    text: str
    agent_runs: tuple[str, ...] = ()
    """Ids; empty where no citation holds: then it is somebody's word, and counts for nothing."""
    passages: tuple[Passage, ...] = ()
    invented: int = 0
    """Citations of it that do not hold."""


class ClusterShare(Frozen):
    """How much of a cluster is of one task, model or trial."""

    of: Literal["model", "task", "trial"]
    name: str
    agent_runs: int
    """Of the cluster."""
    among: int
    """Of all that were explored."""


class Cluster(Frozen):
    """Observations that say the same."""

    name: str
    text: str
    agent_runs: tuple[str, ...]
    """Ids, each once."""
    observations: tuple[str, ...]
    """Ids; each observation is in one cluster or in none."""
    parts: tuple[str, ...] = ()
    """Names of the clusters that it was made of."""
    passages: tuple[Passage, ...] = ()
    """Some that show it, of different agent runs first."""
    shares: tuple[ClusterShare, ...] = ()
    """What stands out: the models, tasks and trials with the most of it."""


class Gap(Frozen):
    """Agent runs that nothing is known of, and why."""

    agent_runs: tuple[str, ...]
    reason: str


class Exploration(Frozen):
    """One question, asked of many agent runs."""

    question: str
    collection: str
    """Its name."""
    collection_id: str
    where: str | None = None
    """Which of its agent runs were asked about; None for all."""
    max_runs: int | None = None
    """How many of these were to be read at most."""
    judge: str
    """Id of the model, or `rules@1`."""
    members: tuple[Member, ...] = ()
    """Everything that was explored, by id."""
    answer: str | None = None
    """In prose; clusters are cited by their number, `(1)`. None where nobody could say."""
    clusters: tuple[Cluster, ...] = ()
    """Of the most agent runs first."""
    observations: tuple[Observation, ...] = ()
    """All that have something to hold them up."""
    unverified: tuple[Observation, ...] = ()
    """What was said and nothing holds up: in no cluster, in no count."""
    other: tuple[str, ...] = ()
    """Ids of observations that no cluster has."""
    silent: tuple[str, ...] = ()
    """Ids of agent runs in which nothing was seen that speaks to the question."""
    gaps: tuple[Gap, ...] = ()
    left_out: int = 0
    """Agent runs beyond the most that were to be read."""
    notes: tuple[str, ...] = ()
    """What limits the answer, a sentence each."""
    usage: Usage = Usage()
    """Of every step, whenever it was asked."""

"""Evals as files tell of them, with all that they hold: what an import reads and the archive keeps."""

from pydantic import Field, JsonValue

from evalscribe.agent_run import AgentRun, Transcript
from evalscribe.evidence import Document
from evalscribe.ids import Frozen
from evalscribe.run import Eval, Step

SCORES_LOG = "scores.log"
"""The document of a try of our own experiments in which each scorer says in a line how it judged, and why."""


class Record(Frozen):
    """One eval with all that its file says of it. Redacted by the source that read it."""

    run_id: str
    eval: Eval
    """Its `id` is that of its agent run, and unique among all runs."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """What SQL reads as `metadata_json`: `task`, `scores` (name to number), `agent` (`model_name` …), and the rest."""
    transcripts: tuple[Transcript, ...] = ()
    steps: tuple[Step, ...] = ()
    documents: tuple[Document, ...] = ()
    """Of every role but `transcript`: those are made of the transcripts."""
    missing: tuple[str, ...] = ()
    """What the file could not give, one phrase each."""

    @property
    def agent_run(self) -> AgentRun:
        """The eval as judges and the SDK see it; without transcripts it has one that is empty."""
        transcripts = self.transcripts or (Transcript(id=f"{self.eval.id}-0"),)
        return AgentRun(id=self.eval.id, name=self.eval.path, transcripts=transcripts, metadata=self.metadata)


class Graded(Frozen):
    """An eval and how it was graded, without what was said in it."""

    run_id: str
    eval: Eval
    scores: dict[str, float] = Field(default_factory=dict)
    task: str | None = None
    """Content id of the task's text; None where the source has none."""
    grader: str | None = None
    """Content id of the grader's files; None where the source has none."""

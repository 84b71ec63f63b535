"""Evals with everything that an imported file says about them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from pydantic import Field, JsonValue

from evalscribe.ids import Frozen, content_id
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.run import Eval, Run, Step
from evalscribe.model.transcript import AgentRun, Transcript, render_transcript
from evalscribe.text import cut, join_first, one_line

TASK_VERSION = "task_version"
"""Metadata key for the source's own version of an eval, which changes with its task and its grader."""
SCORES_LOG = "scores.log"
"""Document of a trial of our own experiments, with one line per scorer: its result, and why."""

FILTERS_LOG = "filters"
"""Document with what each filter extracted from an answer, and its score: `strict (acc 0) extracted: B`."""
CHOICES_LOG = "choices"
"""Document with the choices of a question, each with its likelihood or letter: `A yes  <- chosen, target`."""


NO_OUTPUT = "output: the table has no column for it"
"""The missing evidence of every eval in a table of results without answers."""


class Record(Frozen):
    """One eval with everything that its file says about it, redacted by the source that read it."""

    run_id: str
    eval: Eval
    """The eval; its `id` is that of its agent run, and unique among all runs."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Metadata, `metadata_json` in SQL: `task`, `scores` (name to number), `agent` (`model_name` …), and the rest."""
    transcripts: tuple[Transcript, ...] = ()
    steps: tuple[Step, ...] = ()
    documents: tuple[Document, ...] = ()
    """Documents of every role except `transcript`, which are derived from the transcripts."""
    missing: tuple[str, ...] = ()
    """Evidence that the file lacks, one phrase each."""

    @property
    def version(self) -> str | None:
        """The source's own version of the eval, hashed; None if it has none."""
        version = self.metadata.get(TASK_VERSION)
        return content_id(version) if isinstance(version, str) and version else None

    @property
    def agent_run(self) -> AgentRun:
        """The eval as judges and the SDK see it, with an empty transcript if it has none."""
        transcripts = self.transcripts or (Transcript(id=f"{self.eval.id}-0"),)
        return AgentRun(id=self.eval.id, name=self.eval.path, transcripts=transcripts, metadata=self.metadata)


class GradedEval(Frozen):
    """An eval and its grading, without its transcripts."""

    run_id: str
    eval: Eval
    scores: dict[str, float] = Field(default_factory=dict)
    task: str | None = None
    """Content id of the task's text, or of the source's own version of the eval; None if it has neither."""
    grader: str | None = None
    """Content id of the grader's files, or of the source's own version of the eval; None if it has neither."""
    trial_name: str | None = None
    """The source's own name of the trial."""


class TableReading(Frozen):
    """How a table of results was read."""

    columns: dict[str, str]
    """The column of each field: `{"input": "question"}`."""
    unused: tuple[str, ...] = ()
    """Columns that are not read as a field; they become metadata."""
    likely: dict[str, str] = Field(default_factory=dict)
    """Unused columns that may be meant for a field without a column, by field."""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line: `columns: input=question, output, passed=correct; as metadata: source`; may name `map`."""
        named = (field if field == name else f"{field}={_cell(name)}" for field, name in self.columns.items())
        parts = [f"columns: {', '.join(named)}"]
        if self.unused:
            parts.append(f"as metadata: {join_first([_cell(name) for name in self.unused], 8)}")
        missing = {name: self.likely.get(name) for name in ("input", "output") if name not in self.columns}
        for field, name in {**self.likely, **missing}.items():
            hint = f"; did you mean `map` {field}={_cell(name)}?" if name else " (name one with `map`)"
            parts.append(f"no column {field}{hint}")
        return "; ".join((*parts, *self.notes))


def _cell(name: str) -> str:
    return cut(one_line(name), 40)


class Records(Protocol):
    """A file of runs, read and redacted once from beginning to end, and never entirely in memory."""

    format: str
    """Name of the format for the user: `tau-bench`, `inspect` …"""

    @property
    def left_out(self) -> Mapping[str, int]:
        """Parts of the file that records leave out, as phrases with counts; complete after reading."""

    @property
    def table(self) -> TableReading | None:
        """How the columns of a table of results are read; complete after reading, None for other formats."""

    @property
    def lost(self) -> Sequence[str]:
        """The part of `left_out` that is whole evals, or damaged lines of them, with counts."""

    @property
    def progress(self) -> float:
        """The fraction of the file that was read, from 0 to 1."""

    def read(self) -> Iterator[Run | Record]:
        """Yield each run, without failures, before its records. A bad record is counted in `left_out`.

        Raises:
            DataError: The file cannot be read further; names the place.
            NotFoundError: The file does not exist.
            AccessError: The file may not be read.
        """


class AddedCounts(Frozen):
    """Numbers of stored records or items by outcome."""

    new: int = 0
    changed: int = 0
    same: int = 0

    def __add__(self, other: "AddedCounts") -> "AddedCounts":
        return AddedCounts(new=self.new + other.new, changed=self.changed + other.changed, same=self.same + other.same)


class SweptRows(Frozen):
    """Unused rows of one kind."""

    kind: str
    """Name of their table."""
    rows: int
    bytes: int
    """Size of their content, not their size on disk."""


def evidence_of(record: Record) -> Evidence:
    """Return the record's documents in order, then a document of role `transcript` for each transcript."""
    return Evidence(
        eval=record.eval,
        steps=record.steps,
        documents=(*record.documents, *_transcripts(record.transcripts)),
        missing=record.missing,
        version=record.version,
    )


def _transcripts(transcripts: tuple[Transcript, ...]) -> Iterator[Document]:
    """Yield transcripts as documents. The path is the name, because ids may change whenever a file is read."""
    seen: Counter[str] = Counter()
    for transcript in transcripts:
        name = transcript.name or "transcript"
        seen[name] += 1
        path = name if seen[name] == 1 else f"{name}-{seen[name]}"
        yield Document(role="transcript", path=path, text=render_transcript(transcript))

"""Imported evals with their documents, transcripts and metadata, and protocols for reading files of evals."""

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
"""Metadata key for the version that a source gives an eval. The version changes whenever the task or grader changes."""
SCORES_LOG = "scores.log"
"""Path of the document with the scores of an evalscribe trial. Each line has the result and reason of one scorer."""

FILTERS_LOG = "filters"
"""Path of the document with the text that each filter extracted from an answer, and the text's score:
`strict (acc 0) extracted: B`."""
CHOICES_LOG = "choices"
"""Path of the document with the choices of a question, each with its likelihood or letter:
`A yes  <- chosen, target`."""


NO_OUTPUT = "output: the table has no column for it"
"""Entry in `missing` for every eval of a table that has no column for the model's output."""


class Record(Frozen):
    """One eval with all its data from the imported file. The source that read the file has redacted secrets."""

    run_id: str
    eval: Eval
    """The eval. Its `id` is also the id of its agent run, and is unique among all runs."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Metadata, in SQL the column `metadata_json`. It has `task`, `scores` (numbers by name), `agent` (`model_name` …)
    and all other data."""
    transcripts: tuple[Transcript, ...] = ()
    steps: tuple[Step, ...] = ()
    documents: tuple[Document, ...] = ()
    """Documents of all roles except `transcript`. Documents of that role are derived from `transcripts`."""
    missing: tuple[str, ...] = ()
    """One phrase for each kind of evidence that the file lacks."""

    @property
    def version(self) -> str | None:
        """Hash of the version that the source gives the eval; None if the source gives none."""
        version = self.metadata.get(TASK_VERSION)
        return content_id(version) if isinstance(version, str) and version else None

    @property
    def agent_run(self) -> AgentRun:
        """The eval as judges and the SDK see it. An eval without transcripts gets an empty one."""
        transcripts = self.transcripts or (Transcript(id=f"{self.eval.id}-0"),)
        return AgentRun(id=self.eval.id, name=self.eval.path, transcripts=transcripts, metadata=self.metadata)


class GradedEval(Frozen):
    """An eval and its grading, without its transcripts."""

    run_id: str
    eval: Eval
    scores: dict[str, float] = Field(default_factory=dict)
    task: str | None = None
    """Content id of the task's text, or of the source's version of the eval; None if the eval has neither."""
    grader: str | None = None
    """Content id of the grader's files, or of the source's version of the eval; None if the eval has neither."""
    trial_name: str | None = None
    """Name of the trial in the source."""


class AgentRunPlace(Frozen):
    """Location of an imported agent run in the store."""

    collection_id: str
    run_id: str
    eval_id: str
    path: str
    transcripts: tuple[str, ...]
    """Ids of its transcripts, in order."""


class TableReading(Frozen):
    """Interpretation of a table of results."""

    columns: dict[str, str]
    """The column of each field: `{"input": "question"}`."""
    unused: tuple[str, ...] = ()
    """Columns that belong to no field. They become metadata."""
    likely: dict[str, str] = Field(default_factory=dict)
    """For each field without a column, an unused column that might be meant for it."""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The reading in one line, such as `columns: input=question, output, passed=correct; as metadata: source`."""
        columns = (field if field == name else f"{field}={_cell(name)}" for field, name in self.columns.items())
        parts = [f"columns: {', '.join(columns)}"]
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
    """A file of runs. It is read and redacted as a stream, so that memory never holds the whole file."""

    format: str
    """Name of the file's format, such as `tau-bench` or `inspect`."""

    @property
    def left_out(self) -> Mapping[str, int]:
        """Number of skipped parts of the file, by description. Complete only after the whole file was read."""

    @property
    def table(self) -> TableReading | None:
        """How the columns of a table of results are interpreted.

        Complete only after the whole file was read; None for other formats.
        """

    @property
    def lost(self) -> Sequence[str]:
        """The entries of `left_out` that stand for whole evals or damaged ones, each as a phrase with its count."""

    @property
    def progress(self) -> float:
        """The fraction of the file that was read, from 0 to 1."""

    def read(self) -> Iterator[Run | Record]:
        """Yield each run, with no `failures`, and then its records. A bad record is counted in `left_out` instead.

        Raises:
            DataError: The rest of the file cannot be read; the message names the place.
            NotFoundError: The file does not exist.
            AccessError: The file may not be read.
        """


class AddedCounts(Frozen):
    """Numbers of new, changed and unchanged records or items that were stored."""

    new: int = 0
    changed: int = 0
    same: int = 0

    def __add__(self, other: "AddedCounts") -> "AddedCounts":
        return AddedCounts(new=self.new + other.new, changed=self.changed + other.changed, same=self.same + other.same)


class SweptRows(Frozen):
    """Unused rows of one table of the store."""

    kind: str
    """Name of the table."""
    rows: int
    bytes: int
    """Size of the rows' content, not their size on disk."""


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
    """Yield transcripts as documents.

    Paths are derived from the transcripts' names, because ids can change when a file is read again.
    """
    counts: Counter[str] = Counter()
    for transcript in transcripts:
        name = transcript.name or "transcript"
        counts[name] += 1
        path = name if counts[name] == 1 else f"{name}-{counts[name]}"
        yield Document(role="transcript", path=path, text=render_transcript(transcript))

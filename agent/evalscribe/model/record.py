"""Define imported evals with their documents, transcripts and metadata.

Also define the protocol for reading a file of runs.
"""

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
"""Metadata key for the version that a source gives an eval. The version changes whenever the eval's task or grader
changes."""
SCORES_LOG = "scores.log"
"""Path of the document with the scores of an evalscribe trial. Each line contains the result of one scorer and the
reason for it."""

FILTERS_LOG = "filters"
"""Path of the document that lists, for each filter, the text extracted from an answer and the score of this text. A
line looks like `strict (acc 0) extracted: B`."""
CHOICES_LOG = "choices"
"""Path of the document that lists the choices of a question, each with its likelihood or letter. A line looks like `A
yes <- chosen, target`."""


NO_OUTPUT = "output: the table has no column for it"
"""Entry in `missing` for the evals of a table that has no column for the model's output."""


class Record(Frozen):
    """One eval with all its data from the imported file. The source that read the file has redacted secrets."""

    run_id: str
    eval: Eval
    """The eval. Its `id` is also the id of its agent run. The id is unique among the evals of all runs."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Metadata of the eval; the column `metadata_json` in SQL. It contains `task`, `scores` (numbers by name), `agent`
    (such as `model_name`) and all other data from the file."""
    transcripts: tuple[Transcript, ...] = ()
    steps: tuple[Step, ...] = ()
    documents: tuple[Document, ...] = ()
    """Documents of all roles except `transcript`. Documents of the role `transcript` are derived from `transcripts`."""
    missing: tuple[str, ...] = ()
    """One phrase for each kind of evidence that the file lacks."""

    @property
    def version(self) -> str | None:
        """Hash of the version that the source gives the eval; None if the source gives no version."""
        version = self.metadata.get(TASK_VERSION)
        return content_id(version) if isinstance(version, str) and version else None

    @property
    def agent_run(self) -> AgentRun:
        """The eval as judges and the SDK see it. An eval without transcripts gets an empty transcript."""
        transcripts = self.transcripts or (Transcript(id=f"{self.eval.id}-0"),)
        return AgentRun(id=self.eval.id, name=self.eval.path, transcripts=transcripts, metadata=self.metadata)


class GradedEval(Frozen):
    """An eval and its grading. Transcripts are not included."""

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
    """Ids of the agent run's transcripts, in order."""


class TableReading(Frozen):
    """How the columns of a table of results are interpreted."""

    columns: dict[str, str]
    """For each field, the name of the column from which it is read, such as `{"input": "question"}`."""
    unused: tuple[str, ...] = ()
    """Columns from which no field is read. Their values become metadata."""
    likely: dict[str, str] = Field(default_factory=dict)
    """For each field without a column, the unused column that might be meant for this field."""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Describe the interpretation in one line, such as `columns: input=question, output, passed=correct; as
        metadata: source`."""
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
    """A file of runs. The file is read and redacted as a stream, so it is never in memory as a whole."""

    format: str
    """Name of the file's format, such as `tau-bench` or `inspect`."""

    @property
    def left_out(self) -> Mapping[str, int]:
        """Number of skipped parts of the file, by description.

        The numbers are complete once the whole file has been read.
        """

    @property
    def table(self) -> TableReading | None:
        """How the columns of a table of results are interpreted; None if the file has another format.

        The interpretation is complete once the whole file has been read.
        """

    @property
    def lost(self) -> Sequence[str]:
        """The entries of `left_out` that stand for skipped or damaged evals. Each is a phrase with a count."""

    @property
    def progress(self) -> float:
        """The fraction of the file that has been read, from 0 to 1."""

    def read(self) -> Iterator[Run | Record]:
        """Yield each run, without its `failures`, followed by the records of the run.

        A record that cannot be read is counted in `left_out` instead.

        Raises:
            DataError: The rest of the file cannot be read. The message names the place of the problem.
            NotFoundError: The file does not exist.
            AccessError: The file may not be read.
        """


class AddedCounts(Frozen):
    """How many of the stored records or items are new, changed and unchanged."""

    new: int = 0
    changed: int = 0
    same: int = 0

    def __add__(self, other: "AddedCounts") -> "AddedCounts":
        return AddedCounts(new=self.new + other.new, changed=self.changed + other.changed, same=self.same + other.same)


class SweptRows(Frozen):
    """Number and size of the unused rows in one table of the store."""

    kind: str
    """Name of the table."""
    rows: int
    bytes: int
    """Size of the content of the rows, in bytes. Their size on disk can be different."""


def evidence_of(record: Record) -> Evidence:
    """Return the record's documents in order, followed by one document of the role `transcript` for each
    transcript of the record."""
    return Evidence(
        eval=record.eval,
        steps=record.steps,
        documents=(*record.documents, *_transcripts(record.transcripts)),
        missing=record.missing,
        version=record.version,
    )


def _transcripts(transcripts: tuple[Transcript, ...]) -> Iterator[Document]:
    counts: Counter[str] = Counter()
    for transcript in transcripts:
        # Do not use the transcript's id, which can change when the file is read again.
        name = transcript.name or "transcript"
        counts[name] += 1
        path = name if counts[name] == 1 else f"{name}-{counts[name]}"
        yield Document(role="transcript", path=path, text=render_transcript(transcript))

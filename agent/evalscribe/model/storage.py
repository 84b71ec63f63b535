"""Protocols of storage for analyses, imported runs and batches."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Literal, Protocol

from pydantic import JsonValue

from evalscribe.ids import Frozen
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.chat import Reply
from evalscribe.model.evidence import Document, Evidence, FailureFingerprint, UnreadableEvidence
from evalscribe.model.finding import HumanLabel, Unclassified, Verdict
from evalscribe.model.record import GradedEval, Record
from evalscribe.model.repository import Patch, Proposal, StoredReport
from evalscribe.model.run import EvalStatus, Run


class Store(Protocol):
    """What is finished, kept by content id. Every operation is short and whole."""

    def put_run(self, run: Run) -> None:
        """What was imported of it stays."""

    def get_run(self, run_id: str) -> Run | None:
        """With its failures: those that were imported, and those that it lists."""

    def run_ids(self, prefix: str = "") -> tuple[str, ...]:
        """Ids of the stored runs that begin so, in order; of none the newest run of an experiment that is called so."""

    def put_evidence(self, run_id: str, evidence: Evidence | UnreadableEvidence) -> None: ...
    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | UnreadableEvidence | None: ...
    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None: ...
    def get_verdict(self, key: str) -> Verdict | Unclassified | None: ...
    def put_report(self, run_id: str, report: StoredReport) -> None: ...
    def get_report(self, run_id: str) -> StoredReport | None: ...
    def put_findings(self, run_id: str, findings: Sequence[FindingSummary]) -> None:
        """What the run's report says, in place of what it said before."""

    def put_sightings(self, run_id: str, sightings: Sequence[FailureFingerprint]) -> None:
        """All of a run, in place of those it had."""

    def sightings(self, run_id: str) -> tuple[FailureFingerprint, ...]:
        """In the order that they were put in; none where nothing was put in."""

    def put_labels(self, labels: Mapping[str, Sequence[HumanLabel]]) -> None:
        """Per run all labels that people gave, in place of those it had; of other runs they stay."""

    def labels(self) -> tuple[HumanLabel, ...]:
        """By run, in the order that they were put in."""

    def put_proposal(self, key: str, proposal: Proposal) -> None:
        """What a model proposed, by the content id of what it was asked: never paid for twice."""

    def proposal(self, key: str) -> Proposal | None: ...
    def request_approval(self, patch: Patch) -> bool:
        """Record that a person is asked to approve a patch.

        Returns:
            Whether this replaces an unanswered request for another patch of the same recommendation.
        """

    def take_approval(self, patch: Patch) -> bool:
        """Close the request for exactly this patch; False if there is none. Each request is answered once."""

    def drop_approval(self, patch: Patch) -> None:
        """Forget whatever is asked about the patch's recommendation."""

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        """Held while a run is analysed; dies with its process. Raises `UnavailableError` naming the holder."""

    def close(self) -> None: ...


class Records(Protocol):
    """A file that holds runs, read once from beginning to end and never whole at once. Redacted as it is read."""

    format: str
    """`tau-bench`, `inspect` …, as it is told to the user."""

    @property
    def left_out(self) -> Mapping[str, int]:
        """What the file holds and a record does not, one phrase each with how often; complete at the end."""

    @property
    def progress(self) -> float:
        """How much of the file was read, from 0 to 1."""

    def read(self) -> Iterator[Run | Record]:
        """Each run, without failures, before its records. A record that is no good is counted in `left_out`.

        Raises `DataError` with the place for what ends the reading, `NotFoundError`, `AccessError`.
        """


class AddedCounts(Frozen):
    """What became of records that were put into the archive."""

    new: int = 0
    changed: int = 0
    same: int = 0

    def __add__(self, other: "AddedCounts") -> "AddedCounts":
        return AddedCounts(new=self.new + other.new, changed=self.changed + other.changed, same=self.same + other.same)


class SweptRows(Frozen):
    """Rows of one kind that nobody needs any more."""

    kind: str
    """As their table is called."""
    rows: int
    bytes: int
    """Of what they hold, not of the disk."""


class EvalStore(Protocol):
    """Runs with all that their files said. A run is stored once, however many collections have it."""

    def add(self, collection_id: str, runs: Sequence[Run], records: Sequence[Record]) -> AddedCounts:
        """All of it or nothing. What is there with the same content is not written again; what differs is replaced.

        Counts of a run (`passed`, `failed`, `total`) are taken from its records. Raises `NotFoundError` for an unknown
        collection, `DataError` for a record of an unknown run.
        """

    def runs(self, collection_id: str) -> tuple[Run, ...]:
        """In the order they were added, without their failures."""

    def run(self, run_id: str) -> Run | None:
        """Whatever collections have it; without its failures."""

    def graded(self, run_id: str) -> tuple[GradedEval, ...]:
        """Every eval of a run that is known, in the source's order; only the failures of one that was not imported."""

    def record(self, eval_id: str, collection_id: str | None = None, *, run_id: str | None = None) -> Record | None:
        """By its eval's id, in one collection or in any; of one run, where files tell of the same eval in several."""

    def records(self, run_id: str, status: EvalStatus | None = None) -> Iterator[Record]:
        """One at a time, in the source's order."""

    def transcript(self, transcript_id: str, collection_id: str | None = None) -> Record | None:
        """The record of a transcript, with only this one."""

    def documents(self, run_id: str, eval_id: str) -> tuple[Document, ...]:
        """What is known of an eval beside its transcripts."""

    def remove(self, collection_id: str, run_id: str) -> None:
        """Take a run out of a collection; `sweep` forgets what no collection has."""

    def sweep(self, *, dry_run: bool) -> tuple[SweptRows, ...]:
        """Forget runs that no collection has and nobody analysed or judged, evidence of evals that are gone, and texts
        that nothing refers to; a dry run only counts them. Others may read and write meanwhile."""

    def give_back(self) -> int:
        """Give room that nothing takes any more back to the disk, as far as nobody else is at work; bytes."""

    def close(self) -> None: ...


class QueryRows(Frozen):
    """What a SELECT gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    truncated: bool = False
    """Whether there were more rows than were asked for."""


class Tables(Protocol):
    """The database, to be read by a statement that was checked and is in its own dialect."""

    dialect: Literal["sqlite", "postgres"]

    def select(
        self, statement: str, values: Mapping[str, str | float], *, most_rows: int, timeout_s: float
    ) -> QueryRows:
        """`values` stand for `:name` in the statement. The engine's own guards hold as well; `columns` is left empty,
        for the statement's author knows them.

        Raises `UsageError` for what the engine refuses, with its words, `UnavailableError` when the time is up.
        """

    def close(self) -> None: ...


class BatchIntent(Frozen):
    """Questions that go out as one batch, written down before they do."""

    id: str
    keys: tuple[str, ...]
    """Content ids of the questions, which name them in the batch too."""
    created: datetime
    """Not later than the batch; with a time zone."""
    batch_id: str | None = None
    """None until the service has named it, and where we do not know whether it has."""


class UnansweredQuestion(Frozen):
    """What a batch says of a question that it did not answer."""

    reason: str
    charged: bool = False
    """Whether it may have been charged for all the same: whoever takes this first counts it."""


class BatchStore(Protocol):
    """The batches that were sent or are about to be, and what they answered; shared by processes."""

    def claim(self, intent_id: str) -> AbstractContextManager[bool]:
        """Whether this process, and no other while it lives, may submit the intent or look for its batch."""

    def add(self, intent: BatchIntent) -> BatchIntent:
        """Write it down with those of its keys that no other intent has; where none is left, nothing is."""

    def of(self, key: str) -> BatchIntent | None:
        """The intent with this question."""

    def submitted(self, intent_id: str, batch_id: str) -> None: ...
    def drop(self, intent_id: str) -> None:
        """Forget an intent of which there is no batch; what was answered stays."""

    def batch_ids(self) -> frozenset[str]:
        """Every batch whose intent is known."""

    def settle(self, outcomes: Mapping[str, Reply | UnansweredQuestion]) -> None:
        """Keep what a batch says of its questions."""

    def outcome(self, key: str) -> Reply | UnansweredQuestion | None: ...
    def take(self, key: str) -> bool:
        """Whether nobody took the question's answer before: it is billed once, however often it is asked for."""

    def release(self, key: str) -> None:
        """Forget an answer that was taken, so that the question can be asked anew; one that nobody took stays."""

    def close(self) -> None: ...

"""Whole runs, kept in collections: every eval with its transcripts, passed ones too."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

from pydantic import JsonValue

from evalscribe.evidence import Document
from evalscribe.ids import Frozen
from evalscribe.record import Graded, Record
from evalscribe.run import EvalStatus, Run


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


class Added(Frozen):
    """What became of records that were put into the archive."""

    new: int = 0
    changed: int = 0
    same: int = 0

    def __add__(self, other: "Added") -> "Added":
        return Added(new=self.new + other.new, changed=self.changed + other.changed, same=self.same + other.same)


class Forgotten(Frozen):
    """Rows of one kind that nobody needs any more."""

    kind: str
    """As their table is called."""
    rows: int
    bytes: int
    """Of what they hold, not of the disk."""


class Archive(Protocol):
    """Runs with all that their files said. A run is stored once, however many collections have it."""

    def add(self, collection_id: str, runs: Sequence[Run], records: Sequence[Record]) -> Added:
        """All of it or nothing. What is there with the same content is not written again; what differs is replaced.

        Counts of a run (`passed`, `failed`, `total`) are taken from its records. Raises `NotFoundError` for an unknown
        collection, `DataError` for a record of an unknown run.
        """

    def runs(self, collection_id: str) -> tuple[Run, ...]:
        """In the order they were added, without their failures."""

    def run(self, run_id: str) -> Run | None:
        """Whatever collections have it; without its failures."""

    def graded(self, run_id: str) -> tuple[Graded, ...]:
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

    def sweep(self, *, dry_run: bool) -> tuple[Forgotten, ...]:
        """Forget runs that no collection has and nobody analysed or judged, evidence of evals that are gone, and texts
        that nothing refers to; a dry run only counts them. Others may read and write meanwhile."""

    def give_back(self) -> int:
        """Give room that nothing takes any more back to the disk, as far as nobody else is at work; bytes."""

    def close(self) -> None: ...


class Rows(Frozen):
    """What a SELECT gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[JsonValue, ...], ...]
    truncated: bool = False
    """Whether there were more rows than were asked for."""


class Tables(Protocol):
    """The database, to be read by a statement that was checked and is in its own dialect."""

    dialect: Literal["sqlite", "postgres"]

    def select(self, statement: str, values: Mapping[str, str | float], *, most_rows: int, timeout_s: float) -> Rows:
        """`values` stand for `:name` in the statement. The engine's own guards hold as well; `columns` is left empty,
        for the statement's author knows them.

        Raises `UsageError` for what the engine refuses, with its words, `UnavailableError` when the time is up.
        """

    def close(self) -> None: ...

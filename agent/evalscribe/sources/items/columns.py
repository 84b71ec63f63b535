"""Which columns of a table hold what."""

from evalscribe.ids import Frozen


class Columns(Frozen):
    """Names of columns; where the table has no header, their numbers from 1."""

    input: tuple[str, ...]
    """Of several an object is made."""
    expected: str | None = None
    """An empty cell: nothing is expected."""
    metadata: tuple[str, ...] = ()
    split: str | None = None
    cluster: str | None = None
    key: str | None = None
    events: str | None = None
    """Holds a JSON list."""
    tags: str | None = None
    """Holds a JSON list, or words with commas between them; they become `metadata.tags`."""
    source_run_id: str | None = None
    delimiter: str = ","
    header: bool = True
    json_cells: bool = False
    """Whether a cell that is JSON is read as such; else it is a text."""

    @property
    def asked(self) -> tuple[tuple[str, str], ...]:
        """The option and the name of every column that is wanted."""
        several = [("--input-column", name) for name in self.input]
        several += [("--metadata-column", name) for name in self.metadata]
        single = {
            "--expected-column": self.expected,
            "--split-column": self.split,
            "--cluster-column": self.cluster,
            "--key-column": self.key,
            "--events-column": self.events,
            "--tags-column": self.tags,
            "--source-run-id-column": self.source_run_id,
        }
        return (*several, *((option, name) for option, name in single.items() if name is not None))

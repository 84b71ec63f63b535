"""What a path on the command line names by itself: the sample, and the collection of a file."""

from pathlib import Path

SAMPLE = "sample"
"""What ships with the package: to import, two runs of a small agent."""
PACKED = (".gz", ".jsonl", ".json", ".eval", ".xml", ".ndjson")
"""Ends of file names that are no part of a collection's name."""


def collection_name(path: str) -> str:
    """A file's or folder's name without its ends; the last part of an address."""
    name = path.rstrip("/").rpartition("/")[2] or path
    name = Path.cwd().name if name in (".", "..", "") else name
    while end := next((end for end in PACKED if name.lower().endswith(end) and len(name) > len(end)), None):
        name = name[: -len(end)]
    return name

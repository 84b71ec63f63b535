"""What is known of a failed eval out of its record: its documents, and its transcripts as text."""

from collections import Counter
from collections.abc import Iterator

from evalscribe.agent_run import Transcript
from evalscribe.agent_run.told import told
from evalscribe.evidence import Document, Evidence
from evalscribe.record import Record


def evidence_of(record: Record) -> Evidence:
    """Documents in the record's order, then a document of role `transcript` for each transcript."""
    return Evidence(
        eval=record.eval,
        steps=record.steps,
        documents=(*record.documents, *_transcripts(record.transcripts)),
        missing=record.missing,
    )


def _transcripts(transcripts: tuple[Transcript, ...]) -> Iterator[Document]:
    """A transcript's path is its name, never its id: that may be made anew whenever a file is read."""
    seen: Counter[str] = Counter()
    for transcript in transcripts:
        name = transcript.name or "transcript"
        seen[name] += 1
        path = name if seen[name] == 1 else f"{name}-{seen[name]}"
        yield Document(role="transcript", path=path, text=told(transcript))

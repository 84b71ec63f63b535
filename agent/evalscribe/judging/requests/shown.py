"""What references lead to, as items of a prompt: agent runs `R0`, transcripts `T0`, results `A0`."""

from collections.abc import Iterator, Sequence

from evalscribe.judging.fence import quoted
from evalscribe.judging.requests.earlier import told
from evalscribe.judging.subject.agent_runs import metadata_items, transcript_items
from evalscribe.judging.subject.item import Item, in_parts
from evalscribe.model.evidence import Document
from evalscribe.model.record import Record
from evalscribe.model.result import CitationTarget, Result
from evalscribe.model.transcript import AgentRun, Transcript


def run_items(number: int, first: int, record: Record) -> Iterator[Item]:
    """All of an agent run; its transcripts are called `T<first>` and so on, its documents are one more."""
    run = record.agent_run
    yield _run(f"R{number}", record)
    yield from metadata_items(f"R{number}M", run.model_copy(update={"name": None}))
    for at, transcript in enumerate(record.transcripts, first):
        yield from one_transcript(f"T{at}", transcript, run, f" of R{number}")
    if record.documents:
        yield from _documents(f"T{first + len(record.transcripts)}", record.documents, run, f" of R{number}")


def one_transcript(mark: str, transcript: Transcript, run: AgentRun, whose: str = "") -> Iterator[Item]:
    about = f"transcript{whose}, {len(transcript.messages)} blocks"
    target = CitationTarget(kind="transcript", item=mark, agent_run_id=run.id, transcript_id=transcript.id)
    yield Item(mark=mark, about=about, text=transcript.name or run.name or "", target=target)
    yield from transcript_items(mark, transcript.model_copy(update={"name": None}), run)


def result_item(mark: str, result: Result) -> Item:
    """An answer as text. Its citations lead into another prompt: what they quote stands in their places."""
    target = CitationTarget(kind="result", item=mark, result_id=result.id)
    return Item(mark=mark, about="earlier result", text=told(result.output or {}), target=target)


def transcripts_of(record: Record) -> int:
    """How many names beginning with `T` the items of a run take."""
    return len(record.transcripts) + bool(record.documents)


def _run(mark: str, record: Record) -> Item:
    judged = record.eval
    steps = "\n".join(f"{step.name} {step.status}" + (f": {step.error}" if step.error else "") for step in record.steps)
    facts = {
        "eval": judged.path,
        "status": judged.status,
        "failed step": judged.failed_step,
        "steps": steps,
        "recorded reason": judged.reason,
        "not here": "\n".join(record.missing),
    }
    text, labels = in_parts([(label, fact) for label, fact in facts.items() if fact])
    target = CitationTarget(kind="agent_run", item=mark, agent_run_id=judged.id)
    return Item(mark=mark, about="agent run", text=text, labels=labels, target=target)


def _documents(mark: str, documents: Sequence[Document], run: AgentRun, whose: str) -> Iterator[Item]:
    """A block each: several runs have documents of the same names, which could not be told apart by these."""
    target = CitationTarget(kind="transcript", item=mark, agent_run_id=run.id)
    yield Item(mark=mark, about=f"documents{whose}, {len(documents)} blocks", text="", target=target)
    for block, document in enumerate(documents):
        name = f"{mark}B{block}"
        held = CitationTarget(kind="document", item=name, agent_run_id=run.id, role=document.role, path=document.path)
        yield Item(mark=name, about=f"{document.role} {quoted(document.path)}", text=document.text, target=held)

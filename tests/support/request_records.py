"""Records to which requests refer."""

from collections.abc import Iterable

from evalscribe.model.evidence import Document
from evalscribe.model.record import Record
from evalscribe.model.run import Eval, EvalStatus, Run
from evalscribe.model.transcript import AssistantMessage, Transcript, UserMessage

RUN = Run(id="run", provider="example", model="m1")


def make_record(
    id: str, status: EvalStatus = "failed", said: str | None = None, documents: Iterable[Document] = (), parts: int = 1
) -> Record:
    """Build the record of an eval whose agent is asked for a refund and replies."""
    messages = (UserMessage(content="I want my money back."), AssistantMessage(content=said or f"Done by {id}."))
    return Record(
        run_id=RUN.id,
        eval=Eval(id=id, category="shop", name=id, status=status),
        metadata={"task": "refund", "scores": {"reward": float(status == "passed")}},
        transcripts=tuple(Transcript(id=f"{id}-t{n}", messages=messages) for n in range(parts)),
        documents=tuple(documents),
    )

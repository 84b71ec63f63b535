"""Example records with every kind of content, and a function that makes many of them."""

from evalscribe.model.evidence import Document
from evalscribe.model.record import Record
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Eval, EvalStatus, Run, Step
from evalscribe.model.transcript import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    Transcript,
    TranscriptToolCall,
    UserMessage,
)

HERE = Collection(id="c1", name="here")
THERE = Collection(id="c2", name="there")
RUN = Run(id="r1", provider="example", model="m", experiment="e", url="https://x.example/r1")
TRANSCRIPT = Transcript(
    id="r1-e1-t",
    name="main",
    messages=(
        SystemMessage(content="be kind \U0001f600"),
        UserMessage(content="zeile\r\n\u2028 ünï", metadata={"n": [1, 2.5, None, {"a": "b"}]}),
        AssistantMessage(
            content="",
            reasoning="hm",
            model="m",
            tool_calls=(TranscriptToolCall(id="c", function="f", arguments={"a": 1}),),
        ),
        ToolMessage(content="x" * 5000, tool_call_id="c", function="f", error="timeout"),
    ),
    metadata={"turns": 2},
)
FULL_RECORD = Record(
    run_id="r1",
    eval=Eval(
        id="e1",
        category="a",
        name="one",
        trial=2,
        trials=4,
        status="error",
        failed_step="tests",
        reason="it broke",
        url="https://x.example/e1",
    ),
    metadata={"task": "one", "scores": {"reward": 0.5, "tries": 3, "note": "n/a"}, "agent": {"model_name": "m"}},
    transcripts=(TRANSCRIPT, Transcript(id="r1-e1-u", messages=())),
    steps=(Step(name="build", status="passed"), Step(name="tests", status="failed", error="1 of 2")),
    documents=(
        Document(role="task", path="TASK.txt", text="do it\r\n"),
        Document(role="output", path="../../etc/passwd\x07", text=""),
        Document(role="output", path="again", text=""),
    ),
    missing=("one image",),
)


def make_record(n: int, status: EvalStatus = "passed", run_id: str = "r1", **fields: object) -> Record:
    plain = Record(
        run_id=run_id,
        eval=Eval(id=f"{run_id}-{n}", category="a", name=f"{n:03d}", status=status),
        metadata={"task": f"{n}", "scores": {"reward": 1.0 * (status == "passed")}},
        transcripts=(Transcript(id=f"{run_id}-{n}-t", messages=(UserMessage(content=f"hello {n}"),)),),
        documents=(Document(role="task", path="TASK.txt", text="the same for all"),),
    )
    return plain.model_copy(update=fields)

"""Regenerate the collection of two checkpoints: `python tests/sample/checkpoints.py [FILE]`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.model.evidence import Document
from evalscribe.model.record import Record
from evalscribe.model.run import Eval, Run, Step
from evalscribe.model.tool_calls import Action, compare_calls, describe_difference
from evalscribe.model.transcript import Transcript, TranscriptToolCall, render_calls
from evalscribe.sample import checkpoints_file
from evalscribe.sources.export import render_line
from sample.room_desk import AGENTS, Agent, Conversation, Request, conversations, reached

TRIALS = 3


def text() -> str:
    return "".join(render_line(one) + "\n" for agent in AGENTS for one in _of(agent))


def _of(agent: Agent) -> Iterator[Run | Record]:
    run = Run(id=f"room-desk-{agent.name.rpartition('-')[2]}", provider="example", model=agent.name)
    run = run.model_copy(update={"experiment": "room-desk"})
    yield run
    for request, trial, conversation in conversations(agent, TRIALS):
        yield _record(run, agent, request, trial, conversation)


def _record(run: Run, agent: Agent, request: Request, trial: int, conversation: Conversation) -> Record:
    steps = (_actions(request, conversation), *_outputs(request, conversation))
    failed = next((step for step in steps if step.status == "failed"), None)
    eval = Eval(
        id=f"{run.id}-{request.name}-{trial}",
        category="room-desk",
        name=request.name,
        trial=trial,
        trials=TRIALS,
        status="failed" if failed else "passed",
        failed_step=failed.name if failed else None,
        reason=failed.error if failed else None,
    )
    return Record(
        run_id=run.id,
        eval=eval,
        metadata={
            "task": request.name,
            "scores": {"reward": 0.0 if failed else 1.0},
            "agent": {"model_name": agent.name},
        },
        transcripts=(Transcript(id=f"{eval.id}-0", messages=tuple(conversation.messages)),),
        steps=steps,
        documents=tuple(_documents(request)),
    )


def _actions(request: Request, conversation: Conversation) -> Step:
    """Grade the final bookings of the desk, regardless of the calls that led to them."""
    if conversation.desk.bookings == reached(request).bookings:
        return Step(name="actions", status="passed")
    expected = [Action(tool, arguments) for tool, arguments in request.expected]
    actual = [Action(*call) for call in conversation.calls]
    return Step(
        name="actions", status="failed", error=describe_difference(compare_calls(expected, actual)[0], expected, actual)
    )


def _outputs(request: Request, conversation: Conversation) -> Iterator[Step]:
    if request.outputs:
        missing = [text for text in request.outputs if text not in conversation.said]
        error = f"the user was never told {missing[0]}" if missing else None
        yield Step(name="outputs", status="failed" if missing else "passed", error=error)


def _documents(request: Request) -> Iterator[Document]:
    yield Document(role="task", path="request", text=request.text)
    calls = [TranscriptToolCall(function=tool, arguments=arguments) for tool, arguments in request.expected]
    if calls:
        yield Document(role="expected", path="actions", text=render_calls(calls))
    if request.outputs:
        yield Document(role="expected", path="outputs.json", text=json.dumps(request.outputs))


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else checkpoints_file()).write_text(text(), "utf-8")

"""A panel of judges that answer as a test scripts them. Each rollout has its own script and its own timing."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalscribe.judging.subjects import Subject, agent_run_subject
from evalscribe.model.chat import Reply, Request, Usage
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AgentRun, AssistantMessage, Transcript, UserMessage
from support.scripted_model import text_reply

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["pass", "fail", "unsure"]},
        "helped": {"type": "boolean"},
        "why": {"type": "string", "citations": True},
    },
    "required": ["label", "why"],
    "additionalProperties": False,
}
USAGE = Usage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.5)
RUN = AgentRun(
    id="run-1",
    transcripts=(
        Transcript(
            messages=(
                UserMessage(content="What is the capital of France?"),
                AssistantMessage(content="The capital of France is Paris."),
            )
        ),
    ),
)
Step = Reply | Exception | Callable[[Request], Reply]


def subject() -> Subject:
    return agent_run_subject(RUN)


def rubric(**fields: Any) -> Rubric:
    return Rubric(**{"rubric_text": "Was it right?", "output_schema": SCHEMA, "id": "right", **fields})


def output(label: str = "pass", why: str = "It is Paris [T0B1].", **fields: Any) -> dict[str, Any]:
    return {"label": label, "why": why, **fields}


def answer(label: str = "pass", why: str = "It is Paris [T0B1].", **fields: Any) -> Reply:
    """Return a reply with an answer in a `<response>` tag."""
    return text_reply(f"I think.\n<response>{json.dumps(output(label, why, **fields))}</response>", usage=USAGE)


class Panelists:
    """A `Model` with a script for each rollout.

    The answers of the rollouts in `first` come first, in that order. The others follow.
    """

    def __init__(
        self,
        *scripts: Sequence[Step],
        first: Sequence[int] = (),
        context_tokens: int = 200_000,
    ) -> None:
        self.id = "scripted/panel"
        self.context_tokens = context_tokens
        self.requests: list[Request] = []
        self.forgotten: list[Request] = []
        self._scripts: Mapping[int, list[Step]] = {number: list(script) for number, script in enumerate(scripts)}
        self._first = list(first)
        self._turn = asyncio.Condition()

    def asked(self, rollout: int) -> list[Request]:
        return [request for request in self.requests if request.rollout == rollout]

    async def complete(self, request: Request, on_text: object = None) -> Reply:
        self.requests.append(request)
        async with self._turn:
            await self._turn.wait_for(lambda: self._first[:1] in ([], [request.rollout]))
            self._first = self._first[1:]
            self._turn.notify_all()
        step = self._scripts[request.rollout].pop(0)
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, Reply) else step(request)

    def forget(self, request: Request) -> None:
        self.forgotten.append(request)

    async def close(self) -> None:
        return None

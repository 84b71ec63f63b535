"""Measure evalscribe's CPU time per verdict, compared with a bare loop that sends the same bodies to the same server.

    python tests/benchmarks/overhead.py          100 verdicts from each provider, five times

The server runs in a separate process, so that only the client's time is counted. In each round, evalscribe and the loop
run one after the other. The shortest times of all rounds count, because load on the machine can only add time.
"""

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.judging.rubric_judge import RubricJudge
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.openai import OpenAIModel
from evalscribe.model.protocols import Model
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AgentRun, AssistantMessage, ToolMessage, Transcript, UserMessage
from evalscribe.settings.access import OPENAI
from support import chat_server, messages_server
from support.scripted_server import ScriptedServer

KEY = "k" * 40
VERDICTS = 100
ROUNDS = 5
TURNS = 20
"""Number of pairs of an assistant's message and a tool's answer, about 25 kB of prompt in total."""
SAID = "The test still fails [T0B2:<RANGE>FAILED test_page.py::test_last - 3 != 4</RANGE>], as [T0B1] foresaw."
ANSWER = f"Step by step.\n<response>{json.dumps({'label': 'match', 'explanation': SAID})}</response>"
SERVERS: dict[str, Callable[[], ScriptedServer]] = {
    "anthropic": lambda: messages_server.MessagesServer(messages_server.says(ANSWER)),
    "openai": lambda: chat_server.ChatServer(chat_server.says(ANSWER)),
}
MODELS: dict[str, Callable[[str], Model]] = {
    "anthropic": lambda url: AnthropicModel("claude-x", KEY, url),
    "openai": lambda url: OpenAIModel("gpt-x", KEY, OPENAI, url),
}


@dataclass(frozen=True)
class Overhead:
    """CPU milliseconds for one verdict."""

    judge: float
    bare: float

    @property
    def added(self) -> float:
        return self.judge - self.bare


def agent_run() -> AgentRun:
    messages: list[Any] = [UserMessage(content="Let the last page hold what is left.")]
    for turn in range(TURNS):
        code = "    page += 1\n" * 40
        messages.append(AssistantMessage(content=f"I change the paging again, attempt {turn}.\n{code}"))
        messages.append(ToolMessage(content="FAILED test_page.py::test_last - 3 != 4\n" + f"line {turn}\n" * 40))
    return AgentRun(transcripts=(Transcript(messages=tuple(messages)),))


def serve(provider: str, pipe: Connection) -> None:
    with SERVERS[provider]() as server:
        pipe.send(server.url)
        pipe.recv()


@contextmanager
def served(provider: str) -> Iterator[str]:
    """Yield the address of a server in a separate process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(provider, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("done")
        process.join()
        process.close()
        ours.close()
        theirs.close()


async def sent(provider: str, run: AgentRun) -> tuple[str, bytes]:
    """Return the path and the body of the request that the judge sends for a run."""
    with SERVERS[provider]() as server:
        model = MODELS[provider](server.url)
        await RubricJudge(Rubric(rubric_text="Did it work?"), model)(run)
        await model.close()
        return server.calls[0].path, json.dumps(server.calls[0].body).encode()


async def cpu_ms(ask: Callable[[], Awaitable[object]], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        await ask()
    return (time.process_time() - start) * 1000 / times


async def measure(provider: str, verdicts: int = VERDICTS, rounds: int = ROUNDS) -> Overhead:
    import httpx2

    run = agent_run()
    path, body = await sent(provider, run)
    with served(provider) as url:
        model = MODELS[provider](url)
        judge = RubricJudge(Rubric(rubric_text="Did it work?"), model)
        async with httpx2.AsyncClient() as client:

            async def bare() -> object:
                headers = {"content-type": "application/json"}
                return (await client.post(url + path, content=body, headers=headers)).json()

            async def judged() -> object:
                result = await judge(run)
                assert result.citations.verified == 2, result
                return result

            await cpu_ms(bare, 5), await cpu_ms(judged, 5)
            pairs = [(await cpu_ms(judged, verdicts), await cpu_ms(bare, verdicts)) for _ in range(rounds)]
        await model.close()
    return Overhead(judge=min(ours for ours, _ in pairs), bare=min(theirs for _, theirs in pairs))


def main() -> None:
    for provider in SERVERS:
        cost = asyncio.run(measure(provider))
        print(f"{provider:9}  {cost.judge:.2f} ms a verdict, {cost.bare:.2f} ms bare, {cost.added:.2f} ms added")


if __name__ == "__main__":
    main()

"""A process that calls servers and prints how each call ended, and the process's peak memory.

Usage: `python bomb_client.py CLIENT=URL ...`.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from pydantic import SecretStr

from evalscribe.errors import EvalscribeError
from evalscribe.experiments.http_target import HttpTarget
from evalscribe.git.github import GitHubForge
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.llm.batch_api import BatchApi
from evalscribe.llm.openai import OpenAIModel
from evalscribe.llm.service import RetryingModel, RetryPolicy
from evalscribe.model.chat import CallFailed, Message, Request
from evalscribe.model.protocols import Model
from evalscribe.model.target import TargetCall
from evalscribe.settings.access import OPENAI
from evalscribe.sources.convex import ConvexHttp, FunctionUnavailable
from evalscribe.sources.convex import ConvexRetryPolicy as ConvexPatience

REQUEST = Request(system="", messages=(Message(role="user", text="Judge."),), max_tokens=100)
QUICK = {"first_pause": 0.0, "longest_pause": 0.0}


async def complete(model: Model, *, streamed: bool) -> str:
    persistent = RetryingModel(model, RetryPolicy(attempts=3, first_wait_s=0.0, longest_wait_s=0.0))
    try:
        reply = await persistent.complete(REQUEST, (lambda text: None) if streamed else None)
        return f"reply of {len(reply.text)} characters"
    finally:
        await persistent.close()


async def call_server(client: str, url: str) -> str:
    if client.startswith("anthropic"):
        return await complete(AnthropicModel("claude-x", "key", url), streamed=client.endswith("stream"))
    if client.startswith("openai"):
        model = OpenAIModel("gpt-x", "key", OPENAI, f"{url}/v1")
        return await complete(model, streamed=client.endswith("stream"))
    if client == "check":
        await AnthropicModel("claude-x", "key", url).check()
    if client == "results":
        api = BatchApi(AnthropicModel("claude-x", "key", url), None)
        return f"{[len(some) async for some in api.results('msgbatch_1')]} results"
    if client == "convex":
        functions = ConvexHttp(url, SecretStr("prod:a|0123456789abcdef"), ConvexPatience(attempts=3, **QUICK))
        return f"value {await functions.call('query', 'a:b', {})!r:.100}"
    if client == "target":
        call = TargetCall(run_id="r", item_key="i", repetition=1, input="x")
        return repr(await HttpTarget(url, {}, 4).answer(call))[:300]
    if client == "github":
        GitHubForge(url, "token", "ada/evals").check()
    return "no complaint"


def describe_call(client: str, url: str) -> str:
    """Call a server and return a description of how the call ended."""
    try:
        return asyncio.run(call_server(client, url))
    except (CallFailed, EvalscribeError, FunctionUnavailable) as error:
        return f"{type(error).__name__}: {error}"


def peak_mib() -> int:
    """Return the peak memory of this process in MiB.

    On Linux, `ru_maxrss` also counts the memory of the process that started this one, so `/proc` is read instead.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) // 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 * 1024 if sys.platform == "darwin" else 1024)


def main(*clients_and_urls: str) -> None:
    answers = [describe_call(*one.split("=", 1)) for one in clients_and_urls]
    print(json.dumps({"told": answers, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main(*sys.argv[1:])

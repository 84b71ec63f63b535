"""Measure the cost of judging stored agent runs: CPU of `evalscribe judge` per run of 10 kB, including HTTP.

    python tests/benchmarks/judge_speed.py [RUNS] [PROFILE]     default: 1,000; cProfile writes to PROFILE.PROVIDER

OpenAI's protocol and Anthropic's are measured. The model is on loopback, in a separate process, and answers at once. A
separate command judges the first ten runs. Its time is subtracted, so that the fixed cost of a command (imports,
opening the store) is not counted.
"""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.collections.import_all import show_nothing
from evalscribe.collections.importing import import_file
from evalscribe.model.rubric import Collection
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from evalscribe.store.collections import open_collections
from evalscribe.store.records import open_collection_records
from support import chat_server, messages_server
from support.scripted_server import ScriptedServer

FIRST = 10
RUNS = 1_000
RUBRIC = """\
rubric_text: Was the agent polite?
output_schema:
  type: object
  properties:
    label: {type: string, enum: [polite, rude]}
    because: {type: string, citations: true}
  required: [label, because]
  additionalProperties: false
"""
OUTPUT = {"label": "polite", "because": "It greets [T0B1:<RANGE>Good morning</RANGE>]."}
ANSWER = f"I think so.\n<response>{json.dumps(OUTPUT)}</response>"
MODELS = {"openai": "openai/gpt-x", "anthropic": "anthropic/claude-x"}
"""The judge for each provider whose protocol is measured."""
COLLECTION = Collection(id="c", name="c")


def cpu_ms(folder: Path, provider: str, runs: int = RUNS, profile: str | None = None) -> float:
    """Import runs into a store in the folder, and judge them.

    Returns:
        CPU milliseconds (user and system) per run, without the fixed cost of a command.
    """
    _import(folder, 2 * FIRST + runs)
    (folder / "polite.yaml").write_text(RUBRIC)
    with _answering(provider) as url:
        first = _judge(folder, provider, url, "first", FIRST)
        rest = _judge(folder, provider, url, "rest", FIRST + runs, profile)
    return 1000 * (rest - first) / runs


def _judge(folder: Path, provider: str, url: str, category: str, count: int, profile: str | None = None) -> float:
    """Judge the runs of a category, and return the CPU seconds."""
    profiled = ("-m", "cProfile", "-o", profile) if profile else ()
    words = (
        "judge",
        "polite.yaml",
        "--max-tokens",
        "1000000000",
        "--collection",
        "c",
        "--where",
        f"category = '{category}'",
        "--json",
    )
    prefix = provider.upper()
    environment = os.environ | {f"{prefix}_API_KEY": "k" * 40, f"{prefix}_BASE_URL": url}
    with (folder / f"{category}.json").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *profiled, "-m", "evalscribe", *words, "--judge", MODELS[provider]],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    results = json.loads((folder / f"{category}.json").read_text())
    assert [result["output"]["label"] for result in results] == ["polite"] * count
    return used.ru_utime + used.ru_stime


def _import(folder: Path, runs: int) -> None:
    file, store = folder / "runs.jsonl", folder / ".evalscribe"
    with file.open("w") as lines:
        lines.write(
            json.dumps({"run": {"id": "r", "provider": "example", "model": "m", "experiment": "default"}}) + "\n"
        )
        lines.writelines(json.dumps(_eval(n)) + "\n" for n in range(runs))
    with closing(open_collections(store)) as collections:
        collections.add_collection(COLLECTION)
    with closing(open_collection_records(store)) as records:
        asyncio.run(import_file(records, None, open_records(file, RunOverrides()), COLLECTION, show_nothing))


def _eval(n: int) -> dict[str, object]:
    """Return an eval with a conversation of ten kB."""
    messages = [{"role": "user", "content": f"Book flight {n} for two, please."}]
    for turn in range(9):
        text = f"Good morning. I look for seats on flight {n}, page {turn}. " + "There are some left in row 12. " * 34
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"And on page {turn + 1}?"}]
    return {
        "eval": {"id": f"r-{n}", "category": "first" if n < FIRST else "rest", "name": f"task-{n}", "status": "failed"},
        "transcripts": [{"id": f"r-{n}-0", "messages": messages}],
    }


@contextmanager
def _answering(provider: str) -> Iterator[str]:
    """Yield the address of a model in a separate process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(provider, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("done")
        process.join()


def _serve(provider: str, pipe: Connection) -> None:
    server: ScriptedServer
    if provider == "anthropic":
        server = messages_server.MessagesServer(messages_server.says(ANSWER))
    else:
        server = chat_server.ChatServer(chat_server.says(ANSWER))
    with server:
        pipe.send(server.url)
        pipe.recv()


def main(arguments: Sequence[str]) -> None:
    runs, profile = (int(arguments[0]) if arguments else RUNS), (arguments[1] if len(arguments) > 1 else None)
    for provider in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{Path(profile).absolute()}.{provider}" if profile else None
            cost = cpu_ms(Path(folder), provider, runs, path)
        print(f"{provider}: {cost:.2f} ms of CPU for each of {runs} runs{', profiled' if profile else ''}")


if __name__ == "__main__":
    main(sys.argv[1:])

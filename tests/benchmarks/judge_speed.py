"""What it costs to judge stored agent runs: CPU of `evalscribe judge` for each run of 10 kB, HTTP included.

    python tests/benchmarks/judge_speed.py [RUNS] [PROFILE]     1,000 when not said; with PROFILE, a file for cProfile

The model is on loopback, in a process of its own, and answers at once. The first ten runs are judged by a command of
their own, so that what every command costs (imports, opening the store) is not counted for each run.
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

from benchmarks.import_speed import Silent
from evalscribe.collections.importing import import_file
from evalscribe.model.rubric import Collection
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from evalscribe.store.collections import open_collections
from evalscribe.store.records import open_collection_records
from support import chat_server

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
ANSWER = {"label": "polite", "because": "It greets [T0B1:<RANGE>Good morning</RANGE>]."}
COLLECTION = Collection(id="c", name="c")


def cpu_ms(folder: Path, runs: int = RUNS, profile: str | None = None) -> float:
    """Import runs into a store below the folder and judge them.

    Returns:
        Milliseconds of CPU, user and system, of each run after the first ten.
    """
    _import(folder, 2 * FIRST + runs)
    (folder / "polite.yaml").write_text(RUBRIC)
    with _answering() as url:
        first = _judge(folder, url, "first", FIRST)
        rest = _judge(folder, url, "rest", FIRST + runs, profile)
    return 1000 * (rest - first) / runs


def _judge(folder: Path, url: str, category: str, count: int, profile: str | None = None) -> float:
    """Judge the runs of a category. Returns seconds of CPU."""
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
    environment = os.environ | {"OPENAI_API_KEY": "k" * 40, "OPENAI_BASE_URL": url}
    with (folder / f"{category}.json").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *profiled, "-m", "evalscribe", *words, "--judge", "openai/gpt-x"],
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
        asyncio.run(import_file(records, None, open_records(file, RunOverrides()), COLLECTION, Silent()))


def _eval(n: int) -> dict[str, object]:
    """Ten kB of conversation."""
    messages = [{"role": "user", "content": f"Book flight {n} for two, please."}]
    for turn in range(9):
        text = f"Good morning. I look for seats on flight {n}, page {turn}. " + "There are some left in row 12. " * 34
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"And on page {turn + 1}?"}]
    return {
        "eval": {"id": f"r-{n}", "category": "first" if n < FIRST else "rest", "name": f"task-{n}", "status": "failed"},
        "transcripts": [{"id": f"r-{n}-0", "messages": messages}],
    }


@contextmanager
def _answering() -> Iterator[str]:
    """The address of a model in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("done")
        process.join()


def _serve(pipe: Connection) -> None:
    answer = chat_server.says(f"I think so.\n<response>{json.dumps(ANSWER)}</response>")
    with chat_server.ChatServer(answer) as server:
        pipe.send(server.url)
        pipe.recv()


def main(arguments: Sequence[str]) -> None:
    runs, profile = (int(arguments[0]) if arguments else RUNS), (arguments[1] if len(arguments) > 1 else None)
    with tempfile.TemporaryDirectory() as folder:
        cost = cpu_ms(Path(folder), runs, str(Path(profile).absolute()) if profile else None)
    print(f"{cost:.2f} ms of CPU for each of {runs} runs{', profiled' if profile else ''}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Read damaged files of other tools, and files that are larger than the memory.

    python tests/benchmarks/formats.py damage [SEEDS] [NAME ...]   200 damaged copies of each real file or folder
    python tests/benchmarks/formats.py size [MB] [NAME ...]        1,024 MB of each format with one record per line

Needs `EVALSCRIBE_REAL_DATA`. The exit code is 1 if reading raised an error that is not evalscribe's own, took more than
a minute for a damaged copy, or used more memory than `MAX_MB`.
"""

import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.errors import EvalscribeError
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, run_files
from support.mutations import DAMAGED, mutate_copy

MAX_MB = 300
MAX_S = 60


class Wrong(NamedTuple):
    source: str
    seed: int
    error: str


def damage(seeds: int, names: list[str]) -> bool:
    """Read damaged copies of the real files. Return whether every copy was handled correctly."""
    every = [name for name in DAMAGED if not names or name in names]
    right = True
    with multiprocessing.Pool(maxtasksperchild=50) as pool:
        for name in every:
            wrong = [one for one in pool.starmap(_damaged, [(name, seed) for seed in range(seeds)]) if one]
            print(f"{name}: {seeds - len(wrong)} of {seeds} as they should be", flush=True)
            for one in wrong:
                print(f"    seed {one.seed}: {one.error}", flush=True)
            right = right and not wrong
    return right


def _damaged(name: str, seed: int) -> Wrong | None:
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(MAX_S)
    try:
        with tempfile.TemporaryDirectory() as folder:
            copy, damaged = mutate_copy(_data() / name, Path(folder), seed)
            for path in run_files(copy) if copy.is_dir() else [copy]:
                if path == damaged or path in damaged.parents:
                    with suppress(EvalscribeError):
                        for one in open_records(path, RunOverrides()).read():
                            one.model_dump_json()
    except Exception as error:
        return Wrong(name, seed, f"{type(error).__name__}: {error}"[:300])
    finally:
        signal.alarm(0)
    return None


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {MAX_S} s")


def size(megabytes: int, names: list[str]) -> bool:
    """Read a large file of each format. Return whether reading never used more memory than `MAX_MB`."""
    right = True
    for name, lines in _LINES.items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = _write(Path(folder), lines, megabytes * 1024 * 1024)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                read = pool.apply(_read, (path,))
        print(f"{name}: {read}", flush=True)
        right = right and read.peak < MAX_MB
    return right


class _Read(NamedTuple):
    format: str
    megabytes: float
    runs: int
    evals: int
    seconds: float
    before: float
    """Memory in use before reading, in megabytes."""
    peak: float

    def __str__(self) -> str:
        return (
            f"read as {self.format}, {self.megabytes:,.0f} MB, {self.runs} runs, {self.evals:,} evals, "
            f"{self.seconds:.0f} s CPU ({self.megabytes / self.seconds:.1f} MB/s), peak {self.peak:.0f} MB "
            f"({self.before:.0f} MB before)"
        )


def _read(path: Path) -> _Read:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began, runs, evals = time.process_time(), 0, 0
    records = open_records(path, RunOverrides())
    for one in records.read():
        runs, evals = (runs + 1, evals) if isinstance(one, Run) else (runs, evals + 1)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return _Read(records.format, path.stat().st_size / 2**20, runs, evals, seconds, before, peak)


def _write(folder: Path, lines: "_Lines", characters: int) -> Path:
    """Write lines until the file is large enough, and copy the files that must be beside it."""
    source = _data() / lines.source if lines.source else None
    path = folder / (source.name if source else "file.jsonl")
    if source and lines.beside:
        for other in source.parent.glob(lines.beside):
            shutil.copyfile(other, folder / other.name)
    with path.open("w", encoding="utf-8") as file:
        written = 0
        for line in lines.make(source.read_text("utf-8").splitlines() if source else []):
            written += file.write(line + "\n")
            if written >= characters:
                return path
    raise AssertionError("the lines end")


def _data() -> Path:
    return Path(os.environ["EVALSCRIBE_REAL_DATA"])


class _Lines(NamedTuple):
    make: Callable[[list[str]], Iterator[str]]
    """Yields an endless series of lines, made from the lines of the source."""
    source: str | None = None
    beside: str = ""
    """Pattern of the files that must be beside the source."""


def _numbered(pattern: str, replacement: str) -> Callable[[list[str]], Iterator[str]]:
    """Repeat the lines of a source with new ids.

    In the pattern, `{n}` or `{n:032x}` is the number of the repetition.
    """
    found = re.compile(pattern)

    def make(lines: list[str]) -> Iterator[str]:
        for n in count():
            given = replacement.format(n=n)
            for line in lines:
                yield found.sub(lambda match, given=given: match.expand(given), line)

    return make


def _session(kinds: tuple[str, ...]) -> Callable[[list[str]], Iterator[str]]:
    """Repeat the messages of a session as if the session continued."""

    def make(lines: list[str]) -> Iterator[str]:
        yield from lines
        again = [line for line in lines if json.loads(line).get("type") in kinds]
        last: Any = None
        for n in count():
            for line in again:
                one = json.loads(line)
                if "uuid" in one:
                    one["parentUuid"], one["uuid"] = last or one["parentUuid"], f"{one['uuid']}-{n}"
                    last = one["uuid"]
                yield json.dumps(one)

    return make


def _made(line: Callable[[int], str], header: str = "") -> Callable[[list[str]], Iterator[str]]:
    def make(_: list[str]) -> Iterator[str]:
        if header:
            yield header
        yield from map(line, count())

    return make


_TEXT = "the quick brown fox jumps over the lazy dog " * 20
_PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n" * 20
_RUN = json.dumps({"run": {"id": "r", "provider": "example", "model": "model-1", "experiment": "default"}})
_LINES = {
    "evalscribe export": _Lines(
        _made(
            lambda n: json.dumps(
                {
                    "eval": {"id": f"e{n}", "category": "c", "name": f"task-{n}", "status": "failed"},
                    "transcripts": [{"id": f"t{n}", "messages": [{"role": "user", "content": _TEXT}]}],
                }
            ),
            _RUN,
        )
    ),
    "agent runs": _Lines(
        _made(lambda n: json.dumps({"name": f"task-{n}", "messages": [{"role": "user", "content": _TEXT}]}))
    ),
    "table of lines": _Lines(
        _made(lambda n: json.dumps({"id": n, "input": f"{n} {_TEXT}", "output": "a", "expected": "b", "score": n % 2}))
    ),
    "CSV": _Lines(_made(lambda n: f"{n},{_TEXT},a,b,{n % 2}", "id,input,output,expected,score")),
    "SWE-bench predictions": _Lines(
        _made(
            lambda n: json.dumps({"instance_id": f"o__r-{n}", "model_name_or_path": "model-1", "model_patch": _PATCH})
        )
    ),
    "promptfoo": _Lines(_numbered(r"(\"country\":\"\w+)", r"\1 {n}"), "formats/promptfoo/echo/results.jsonl"),
    "lm-eval": _Lines(
        _numbered(r"\"doc_id\": (\d+)", r'"doc_id": 1\g<1>{n:07}'),
        "formats/lm_eval/real/samples_math_perturbed_full_2026-01-21T03-44-18.458309.jsonl",
        "results_*.json",
    ),
    "Every Eval Ever": _Lines(
        _numbered(r"\"sample_id\": \"(\w+)\"", r'"sample_id": "\1-{n}"'),
        "formats/every_eval_ever/converted/inspect/ai2_arc/ollama/qwen2.5-0.5b/"
        "8a4d24a7-e2db-4ead-9f30-5892f9c61560_samples.jsonl",
        "*.json",
    ),
    "OpenTelemetry": _Lines(
        _numbered(r"(\"traceId\": \"\w{16})\w{16}\"", r'\g<1>{n:016x}"'), "formats/otlp/genai-spans.jsonl"
    ),
    "Claude Code": _Lines(_session(("user", "assistant")), "formats/claude_code/tool_call_conversation.jsonl"),
    "Codex": _Lines(
        _session(("response_item",)),
        "formats/codex/rollout-2026-05-11T11-26-55-019e1625-789d-76c0-80ab-3724b5ddb799.jsonl",
    ),
}


def main(what: str, number: str | None = None, *names: str) -> bool:
    """Run one of the two measurements."""
    if what == "damage":
        return damage(int(number or 200), list(names))
    if what == "size":
        return size(int(number or 1024), list(names))
    raise SystemExit(__doc__)


if __name__ == "__main__":
    raise SystemExit(0 if main(*(sys.argv[1:] or [""])) else 1)

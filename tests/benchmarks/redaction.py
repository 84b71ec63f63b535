"""Measure redaction: planted keys that remain, texts that are mistaken for keys, and time per megabyte.

    python tests/benchmarks/redaction.py [--before COMMIT] [--sample] [PATH ...]

Every text file in the paths is searched for false alarms. The default paths are Python's standard library, the
installed packages, and the data at `$EVALSCRIBE_REAL_DATA`. With `--before`, the redaction of that commit of this
repository is also loaded. Both versions are timed in turns, so that load on the machine affects them equally.
`--sample` prints one line for each redacted text.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalscribe.redaction.redact import redact, redact_json
from support.planted_keys import CONTEXTS, planted

LARGEST = 2_000_000
ROUNDS = 5
ENDINGS = (
    ".py",
    ".pyi",
    ".js",
    ".mjs",
    ".ts",
    ".json",
    ".jsonl",
    ".md",
    ".txt",
    ".log",
    ".html",
    ".css",
    ".toml",
    ".c",
)


SIZES = (500_000, 4_000_000)
HOSTILE = (
    ("assignments", "key="),
    ("names", "passphrase"),
    ("quotes", 'key"'),
    ("long values", "key=" + "a1" * 3990 + " "),
    ("key blocks", "-----BEGIN PRIVATE " + "KEY-----\n"),
    ("parts", "a" * 20 + "/"),
    ("dots", "M" + "a" * 23 + "."),
    ("one word", "a"),
    ("keys", "AK" + "IAZ3ZZZ4ZZZ5ZZZ6ZZZ "),
    ("cookies", "cookie: [a="),
    ("netrc", "default login a account b password "),
    ("logins", "://a:" + "b" * 390),
    ("colors", "a\x1b[31m"),
    ("bars", "prod:aa|aaaaaaaa"),
)


class Redaction(NamedTuple):
    redact: Callable[[str], str]
    redact_json: Callable[[object], object]


class Texts(NamedTuple):
    name: str
    texts: list[str]

    @property
    def megabytes(self) -> float:
        return sum(map(len, self.texts)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--before")
    parser.add_argument("--sample", action="store_true")
    wish = parser.parse_args()
    misses()
    corpora = [Texts(str(path), list(texts_below(path))) for path in wish.paths or default_paths()]
    false_alarms(corpora, wish.sample)
    with tempfile.TemporaryDirectory() as folder:
        before = redaction_at(wish.before, Path(folder)) if wish.before else None
        if before:
            misses(before.redact)
        speed(corpora, before)
    hostile()


def misses(redacted: Callable[[str], str] = redact) -> None:
    survived = Counter(
        key.kind
        for key in planted()
        for context in CONTEXTS
        if any(part in redacted(context.text(key.text)) for part in key.parts)
    )
    kinds = len({key.kind for key in planted()})
    print(f"planted: {kinds} kinds in {len(CONTEXTS)} contexts; {len(survived)} kinds survive somewhere")
    for kind, times in survived.most_common():
        print(f"  {kind}: {times} of {len(CONTEXTS)}")


def false_alarms(corpora: list[Texts], sample: bool) -> None:
    for corpus in corpora:
        finds = [find for text in corpus.texts for find in found_in(text)]
        size = corpus.megabytes
        print(f"{corpus.name}: {size:.1f} MB, {len(finds)} redacted, {len(finds) / max(size, 1e-9):.2f} per MB")
        for find in finds if sample else finds[:5]:
            print(f"  {find[:200]}")


def found_in(text: str) -> Iterator[str]:
    """Yield the lines that redaction changes."""
    shown = redact(text)
    if shown != text:
        lines = zip(text.split("\n"), shown.split("\n"), strict=True)
        yield from (f"{after.strip()[:90]}   <-   {before.strip()[:100]}" for before, after in lines if before != after)


def speed(corpora: list[Texts], before: Redaction | None) -> None:
    payloads = [json.loads(path.read_text()) for path in payload_paths()]
    size = sum(path.stat().st_size for path in payload_paths()) / 1e6
    timed("payloads as JSON", size, payloads, redact_json, before.redact_json if before else None)
    for corpus in corpora:
        texts = corpus.texts[:400]
        timed(corpus.name, sum(map(len, texts)) / 1e6, texts, redact, before.redact if before else None)


def hostile() -> None:
    """Time texts that provoke backtracking. The time must grow in proportion to the length of the text."""
    worst = {
        name: [seconds(redact, unit * (size // len(unit))) / size * 1e6 for size in SIZES] for name, unit in HOSTILE
    }
    for name, (small, large) in sorted(worst.items(), key=lambda item: -max(item[1]))[:8]:
        print(
            f"made to be slow, {name}: {small:.2f} s per MB, {large:.2f} where it is {SIZES[1] // SIZES[0]} times that"
        )


def seconds(function: Callable[[Any], object], value: object) -> float:
    begun = time.process_time()
    function(value)
    return time.process_time() - begun


def timed(
    name: str,
    size: float,
    values: Sequence[Any],
    now: Callable[[Any], object],
    before: Callable[[Any], object] | None,
) -> None:
    """Print the best time of several rounds, so that load on the machine has little effect."""
    if not values:
        return
    rounds = [[sum(seconds(one, value) for value in values) for one in (now, before) if one] for _ in range(ROUNDS)]
    best = [min(times) for times in zip(*rounds, strict=True)]
    ratio = f", {best[0] / best[1]:.2f} of before" if before else ""
    print(f"{name}: {best[0] / size * 1000:.1f} ms per MB{ratio}")


def redaction_at(commit: str, folder: Path) -> Redaction:
    """Import the redaction of a commit under another name."""
    archive = subprocess.run(
        ["git", "archive", commit, "agent/evalscribe/redaction"],
        cwd=Path(__file__).parent.parent.parent,
        check=True,
        capture_output=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    package = folder / "redaction_before"
    (folder / "agent" / "evalscribe" / "redaction").rename(package)
    for path in package.glob("*.py"):
        path.write_text(path.read_text().replace("evalscribe.redaction", "redaction_before"))
    sys.path.insert(0, str(folder))
    module = import_module("redaction_before")
    return Redaction(module.redact, module.redact_json)


def default_paths() -> list[Path]:
    real = os.environ.get("EVALSCRIBE_REAL_DATA")
    folders = [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]
    return [*folders, *(path for path in sorted(Path(real).iterdir()) if path.is_dir())] if real else folders


def payload_paths() -> list[Path]:
    real = os.environ.get("EVALSCRIBE_REAL_DATA")
    return sorted((Path(real) / "convex-runs").glob("*/debug/*.json")) if real else []


def texts_below(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).parts
        if path.suffix in ENDINGS and path.is_file() and path.stat().st_size < LARGEST and "site-packages" not in inner:
            yield path.read_text("utf-8", errors="replace")


if __name__ == "__main__":
    main()

"""Grades one folder of files as the sample suite does: really runs pip, ruff, mypy, pytest and keeps what they say."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT

from evalscribe.sample import suite_folder

TIMED = {"files": 4, "install": 310, "lint": 120, "types": 1900, "tests": 640}
"""Milliseconds that the recorded run gives each step: fixed, so that remaking it changes nothing."""
HASH_SEED = "3"
"""The order of sets in the recorded run; another seed, and the flaky test passes."""
PORT = 35275
ONE_AT_A_TIME = threading.Lock()
"""Evals are graded side by side and share mypy's cache; two processes that write it at once sometimes fail."""


@dataclass(frozen=True)
class Graded:
    """What grading one folder gave: `(step, reason or None)` in order, and the log."""

    steps: tuple[tuple[str, str | None], ...]
    log: str

    @property
    def failed(self) -> tuple[str, str] | None:
        """The first step that failed, with its reason."""
        return next(((name, reason) for name, reason in self.steps if reason is not None), None)


def expected_files(eval_path: str, suite: Path) -> list[str]:
    """Names of the files that an output needs, as the reference answer has them."""
    answer = suite / eval_path / "answer"
    return sorted(path.relative_to(answer).as_posix() for path in answer.rglob("*.*") if path.suffix != ".pyc")


def given_files(eval_path: str, suite: Path | None = None) -> list[Path]:
    """What the suite lays beside the output: the grader, and here and there a module."""
    return sorted(((suite or suite_folder()) / eval_path).glob("*.py"))


def grade(eval_path: str, files: Path, work: Path, index_url: str, suite: Path | None = None) -> Graded:
    """Copy `files` into the empty folder `work` and take them through all steps; pip asks `index_url`.

    `suite` is where the eval is, by default the sample's.
    """
    suite = suite or suite_folder()
    shutil.copytree(files, work, dirs_exist_ok=True)
    steps: list[tuple[str, str | None]] = []
    log = [f"=== Eval: {eval_path} ==="]
    for name, commands in plan(eval_path, work, suite).items():
        reason, lines = run_step(name, commands, work, index_url, suite)
        steps.append((name, reason))
        log += lines
        if reason and name in ("files", "install"):
            break
        if name == "install":
            for given in given_files(eval_path, suite):
                shutil.copy(given, work)
    return Graded(tuple(steps), "\n".join(log) + "\n")


def plan(eval_path: str, work: Path, suite: Path) -> dict[str, list[list[str]]]:
    """The commands of each step; lint and types see only what the model wrote."""
    sources = [name for name in expected_files(eval_path, suite) if name.endswith(".py")]
    pinned = (work / "requirements.txt").exists()
    return {
        "files": [["test", "-f", name] for name in expected_files(eval_path, suite)],
        "install": [["pip", "install", "-r", "requirements.txt"]] if pinned else [],
        "lint": [["ruff", "check", *sources]],
        "types": [["mypy", *sources]],
        "tests": [["pytest", "test_grader.py"]],
    }


def run_step(
    name: str, commands: list[list[str]], work: Path, index_url: str, suite: Path
) -> tuple[str | None, list[str]]:
    """The reason why the step failed, if it did, and its part of the log."""
    lines: list[str] = []
    for command in commands:
        with ONE_AT_A_TIME if command[0] == "mypy" else nullcontext():
            done = subprocess.run(
                real(command, suite),
                cwd=work,
                env=environment(work, index_url),
                stdout=PIPE,
                stderr=STDOUT,
                text=True,
                check=False,
            )
        said = neutral(done.stdout, work)
        lines += [f"[cmd] {' '.join(command)}", *said.rstrip("\n").splitlines()]
        if done.returncode:
            share = f" ({passed_share(said)}%)" if name == "tests" else ""
            return f"{name} failed{share}", [*lines, f"[error] {name}: {command[0]} failed"]
    return None, [*lines, f"[ok] {name}"]


def real(command: list[str], suite: Path) -> list[str]:
    """The command with the flags that the log leaves out, run by this Python."""
    flags = {
        "pip": ["--disable-pip-version-check", "--no-cache-dir", "--target=site", "--timeout=1", "--retries=1"],
        "ruff": ["--no-cache", "--output-format=concise", f"--config={suite / 'ruff.toml'}"],
        "mypy": [f"--config-file={suite / 'mypy.ini'}"],
        "pytest": ["-q", "--no-header", "-p", "no:cacheprovider", "--rootdir=.", "-c", os.devnull],
    }
    if command[0] not in flags:
        return command
    return [sys.executable, "-m", *command, *flags[command[0]]]


def environment(work: Path, index_url: str) -> Mapping[str, str]:
    """Nothing of the machine but where programs are."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index_url,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": HASH_SEED,
        "MYPY_CACHE_DIR": str(work.parent.parent / ".mypy_cache"),
    }


def neutral(text: str, work: Path) -> str:
    """Without this machine's folders, and without what differs from one time to the next."""
    text = text.replace(f"{work}/", "").replace(str(work), ".")
    text = re.sub(r" in \d+\.\d\ds\b", " in 0.12s", text)
    text = re.sub(r"127\.0\.0\.1(:|', port=)\d+", rf"127.0.0.1\g<1>{PORT + 1}", text)
    text = re.sub(r"0x[0-9a-f]{8,}", "0x7f2a5c31d6c0", text)
    return re.sub(r"listening on \d+", f"listening on {PORT}", text)


def passed_share(said: str) -> int:
    """Percent of the tests that passed, by pytest's last line."""
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", said)}
    return 100 * counts.get("passed", 0) // max(1, sum(counts.values()))

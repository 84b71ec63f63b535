"""Grade one answer as the sample suite does: really run pip, ruff, mypy and pytest, and print what they say.

    python grade.py CATEGORY/NAME [ATTEMPT]

The answer is in the working folder, which the grader's files are copied into. Ends with 0 if every step passes. ATTEMPT
is the seed of Python's hashes, so that an attempt can be repeated and another one may differ.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SUITE = Path(__file__).parent
NO_INDEX = "http://127.0.0.1:9/simple"
"""A package index where nobody listens: the suite needs none."""


@dataclass(frozen=True)
class Graded:
    """What grading one folder gave: `(step, reason or None)` in order, and the log."""

    steps: tuple[tuple[str, str | None], ...]
    log: str

    @property
    def failed(self) -> tuple[str, str] | None:
        """The first step that failed, with its reason."""
        return next(((name, reason) for name, reason in self.steps if reason is not None), None)


def grade(eval_path: str, work: Path, environment: Mapping[str, str], suite: Path = SUITE) -> Graded:
    """Take the answer in the folder `work` through all steps.

    Args:
        eval_path: `category/name`.
        work: The answer; the suite's own files are copied into it.
        environment: Variables of the tools, as `tool_environment` makes them.
        suite: Folder with the eval.
    """
    steps: list[tuple[str, str | None]] = []
    log = [f"=== Eval: {eval_path} ==="]
    for name, commands in plan(eval_path, work, suite).items():
        reason, lines = run_step(name, commands, work, environment, suite)
        steps.append((name, reason))
        log += lines
        if reason and name in ("files", "install"):
            break
        if name == "install":
            for given in given_files(eval_path, suite):
                shutil.copy(given, work)
    return Graded(tuple(steps), "\n".join(log) + "\n")


def expected_files(eval_path: str, suite: Path = SUITE) -> list[str]:
    """Names of the files that an output needs, as the reference answer has them."""
    answer = suite / eval_path / "answer"
    return sorted(path.relative_to(answer).as_posix() for path in answer.rglob("*.*") if path.suffix != ".pyc")


def given_files(eval_path: str, suite: Path = SUITE) -> list[Path]:
    """What the suite lays beside the output: the grader, and here and there a module."""
    return sorted((suite / eval_path).glob("*.py"))


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
    name: str, commands: list[list[str]], work: Path, environment: Mapping[str, str], suite: Path
) -> tuple[str | None, list[str]]:
    """The reason why the step failed, if it did, and its part of the log."""
    lines: list[str] = []
    for command in commands:
        done = subprocess.run(
            real(command, suite),
            cwd=work,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
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


def tool_environment(home: Path, index_url: str, hash_seed: str, cache: Path) -> dict[str, str]:
    """Nothing of the machine but where programs are."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "COLUMNS": "110",
        "NO_COLOR": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index_url,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": hash_seed,
        "MYPY_CACHE_DIR": str(cache),
    }


def neutral(text: str, work: Path) -> str:
    """Without this machine's folders."""
    return text.replace(f"{work}/", "").replace(str(work), ".")


def passed_share(said: str) -> int:
    """Percent of the tests that passed, by pytest's last line."""
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", said)}
    return 100 * counts.get("passed", 0) // max(1, sum(counts.values()))


def main(eval_path: str, attempt: str = "1") -> int:
    work = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        graded = grade(eval_path, work, tool_environment(work, NO_INDEX, attempt, Path(scratch)))
    print(graded.log, end="")
    return 1 if graded.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

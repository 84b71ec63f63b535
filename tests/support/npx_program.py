"""A fake `npx` that runs as a real process: a small program that comes first on PATH, and a folder for it."""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAM = """#!{python}
import json, os, sys
from pathlib import Path
with open({calls!r}, "a") as calls:
    named = {{name: value for name, value in os.environ.items() if name.startswith("CONVEX") or name == "CI"}}
    calls.write(json.dumps([os.getcwd(), sys.argv[1:], named]) + "\\n")
answers = json.loads(Path({answers!r}).read_text())
(asked,) = json.loads(sys.argv[-1]).values()
code, out, err = answers.get(asked, answers["*"])
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


class NpxOutput(NamedTuple):
    """Exit code and output of the fake `npx`."""

    code: int = 0
    out: str = ""
    err: str = ""


class Npx:
    """Puts the fake `npx` on PATH. `answer` sets its output for each id."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._calls, self._answers = folder / "calls", folder / "answers"
        program = folder / "bin" / "npx"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM.format(python=sys.executable, calls=str(self._calls), answers=str(self._answers)))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        for name in [name for name in os.environ if name.startswith("CONVEX")]:
            monkeypatch.delenv(name)
        self.answer({})

    def answer(self, answers: dict[str, NpxOutput], otherwise: NpxOutput | None = None) -> None:
        """Set the output for each requested id, and `otherwise` for all other ids.

        By default, it is empty, which means null.
        """
        self._answers.write_text(json.dumps({"*": otherwise or NpxOutput(), **answers}))

    @property
    def calls(self) -> list[tuple[str, list[str], dict[str, str]]]:
        """Working folder, arguments and CONVEX_* variables of each call to the program."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [tuple(json.loads(line)) for line in lines]  # type: ignore[misc]


def package(folder: Path, *, listed: bool = True, installed: bool = True) -> Path:
    """Create a folder that lists and has installed the package `convex`, unless arguments say otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"dependencies": {"convex": "^1.48.0"} if listed else {}}))
    if installed:
        (folder / "node_modules" / "convex").mkdir(parents=True, exist_ok=True)
    return folder

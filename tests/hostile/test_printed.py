"""Hostile text in printed output: harmless on a terminal and in a CI job's log, unchanged in files and pipes."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
import tty
from pathlib import Path

import pytest

from evalscribe.cli import run, streams
from evalscribe.model.score import ScoreQuery
from support.fork_server import fork_server
from support.hostile_runs import ESCAPES, hostile
from support.stored_experiment import StoredExperiment, make_items
from support.terminal import TerminalCommand
from support.waiting import PATIENCE_S

CI_ATTACK = (
    "\n::error file=a::owned\n  ::add-mask::e\r::stop-commands::x ##[error]no ##vso[task.setvariable variable=PATH]x"
)
TEXT = f"say{ESCAPES}{CI_ATTACK}"
OWN_CODES = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[12]?[AK]|\r")
"""Colours, the cursor and cleared lines, as `rich` writes them. `ESCAPES` has none of them."""
CI = ({"CI": "true"}, {"GITHUB_ACTIONS": "true"}, {"TF_BUILD": "True"}, {"TEAMCITY_VERSION": "2026.1"})
COMMANDS = (
    *(("sql", "SELECT content, agent_run_id FROM messages", "--format", form) for form in ("table", "csv", "json")),
    ("sql", f"SELECT '{TEXT}' AS x, '{TEXT}' AS \"y\" FROM agent_runs", "--format", "csv"),
    ("sql", f'SELECT "{TEXT}" FROM agent_runs'),
    ("sql", "--tables"),
    ("export",),
    ("export", TEXT),
    ("collections", "list"),
    ("collections", "show", TEXT),
    ("analyze", "run", "--judge", "rules"),
    ("analyze", "run", "--judge", "rules", "--json"),
    ("analyze", "one.json", "--judge", "rules", "--dry-run"),
    ("explain", "run", "e1", "--judge", "rules"),
    ("explain", "run", TEXT, "--judge", "rules"),
    ("explore", TEXT, "--judge", "rules", "--no-report"),
    ("compare", "one.json", "two.json", "--judge", "rules", "--no-report"),
    ("compare", TEXT, TEXT),
    ("discuss", "planted", "--judge", "rules", "--ask", TEXT),
    ("reports", "list"),
    ("reports", "show", "planted"),
    ("reports", "parse", "planted"),
    ("reports", "parse", "planted", "--json"),
    ("reports", "check"),
    *(("experiments", "runs", "export", "RUN", "-f", form) for form in ("csv", "json", "jsonl", "junit", "md", "html")),
    *(("reports", name, "RUN") for name in ("summary", "failures", "ci")),
    ("experiments", "runs", "summary", "RUN", "--format", "json"),
    ("experiments", "scores", "list", "--run-id", "RUN"),
    ("experiments", "scores", "evidence", "SCORE"),
    ("experiments", "list"),
    ("experiments", "show", "quality"),
    ("experiments", "show", TEXT),
    ("experiments", "runs", "list", "quality"),
    ("experiments", "runs", "show", "RUN"),
    ("experiments", "runs", "compare", "RUN", "RUN"),
    ("datasets", "list"),
    ("datasets", "show", "tickets"),
    ("datasets", "examples", "list", "tickets"),
    ("datasets", "versions", "export", "tickets", "1"),
    ("datasets", "versions", "export", "tickets", "1", "--format", "csv"),
    ("experiments", "prompts", "list"),
    ("experiments", "prompts", "show", "ask"),
    ("rubrics", "show", "polite"),
    ("rubrics", "list"),
    ("rubrics", "validate", f"no{CI_ATTACK}.yaml"),
    ("review", "accuracy"),
    ("results", "show", TEXT),
    ("experiments", "scorers", "show", TEXT),
    ("experiments", "deployments", "show", TEXT),
    ("recurring",),
    ("doctor",),
    (TEXT,),
    ("sql", f"--{TEXT}"),
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A workspace with hostile text everywhere that a model, a dataset or a report can put text."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / ".git").mkdir()
    (folder / "evalscribe.toml").write_text('collection_id = "trip"\n')
    hostile(folder / "run")
    page = folder / "reports" / "example" / "m"
    page.mkdir(parents=True)
    (page / "planted_2026-01-01.md").write_text(
        f"# m-1 {ESCAPES}\n\n## Findings\n\n### 1. c/n: MODEL_FAULT\n\n{TEXT}\n"
    )
    for name in ("one", "two"):
        trials = [
            {"task_id": n, "trial": 0, "reward": 0.0, "info": {}, "traj": [{"role": "user", "content": TEXT}]}
            for n in range(3)
        ]
        (folder / f"{name}.json").write_text(json.dumps(trials))
    (folder / "prompt.yaml").write_text(
        json.dumps({"model": "anthropic/claude-opus-5-5", "text": f"{{{{input}}}} {TEXT}"})
    )
    rubrics = folder / "prompts" / "rubrics"
    rubrics.mkdir(parents=True)
    (rubrics / "polite.yaml").write_text(json.dumps({"rubric_text": f"Was it polite? {TEXT}"}))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run(["import", "one.json", "--collection", "trip", "--model", "example/m"]) == 0
        assert run(["rubric", "create", "polite"]) == 0
        assert run(["prompts", "create", "prompt.yaml", "--name", "ask"]) == 0
    experiment = StoredExperiment(folder / ".evalscribe", make_items("a", f"b{TEXT}"))
    one = experiment.run("pf", name=f"run{TEXT}", outputs={"a": TEXT, f"b{TEXT}": {TEXT: TEXT}})
    score = next(experiment.runs.scores(ScoreQuery(run_id=one.id))).id
    experiment.close()
    return folder, {"RUN": one.id, "SCORE": score}


class Terminal:
    """A pseudo terminal that replaces standard output and standard error of commands in this process."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        self._shown = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._stream = os.fdopen(slave, "w", encoding="utf-8", errors="replace")
        patched.setattr(sys, "stdout", self._stream)
        patched.setattr(sys, "stderr", self._stream)

    def shown(self) -> str:
        """Close the terminal and return everything written to it."""
        self._stream.close()
        self._reader.join()
        os.close(self._master)
        return self._shown.decode()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 65_536)
            except OSError:  # closed by the last writer
                return
            if not piece:
                return
            self._shown += piece


def terminal_escapes(shown: str) -> set[str]:
    return {char for char in OWN_CODES.sub("", shown) if not streams.is_visible(char)}


def ci_commands(shown: str) -> list[str]:
    return [
        line for line in re.split(r"\r\n|\r|\n", shown) if line.strip().startswith("::") or re.search(r"##\w*\[", line)
    ]


def with_ids(words: tuple[str, ...], ids: dict[str, str]) -> list[str]:
    return [ids.get(word, word) for word in words]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:40].encode("ascii", "ignore").decode())
def test_no_command_writes_terminal_escape_codes(
    planted: tuple[Path, dict[str, str]], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ids = planted
    with monkeypatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("TERM", "xterm")
        terminal = Terminal(patched)
        code = run(with_ids(words, ids))
        shown = terminal.shown()
    assert shown.strip()
    assert not terminal_escapes(shown)
    assert code in (0, 2, 64, 65, 66, 69), shown


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:40].encode("ascii", "ignore").decode())
def test_no_command_prints_ci_commands(
    planted: tuple[Path, dict[str, str]],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder, ids = planted
    # Standard output is a pipe in a CI job; `capfd` would give a file, whose data stay unchanged.
    reading, writing = os.pipe()
    chunks: list[bytes] = []
    with monkeypatch.context() as patched, os.fdopen(reading, "rb") as pipe:
        reader = threading.Thread(target=lambda: chunks.append(pipe.read()))
        reader.start()
        with os.fdopen(writing, "w", encoding="utf-8", errors="replace") as stream:
            patched.chdir(folder)
            patched.setenv("CI", "true")
            patched.setattr(sys, "stdout", stream)
            run(with_ids(words, ids))
        reader.join()
    printed = capfd.readouterr().err + chunks[0].decode()
    assert printed.strip()
    assert not ci_commands(printed)


@pytest.fixture
def folder(planted: tuple[Path, dict[str, str]]) -> Path:
    return planted[0]


def piped(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = ["-m", "evalscribe", *words]
    done = fork_server.run(program, folder, {**os.environ, **environment}, timeout=PATIENCE_S, text=False)
    return subprocess.CompletedProcess(program, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_escape_codes_are_printed_escaped_on_a_terminal(folder: Path) -> None:
    at = TerminalCommand(folder, "sql", "SELECT content FROM messages LIMIT 1", "--format", "csv")
    assert at.ended() == 0
    assert "say\\u001b]0;pwned\\u0007\\u001b[2J\\u009b31m\\u007f\\u202e\\u2066\\u0008" in at.shown
    assert not terminal_escapes(at.shown)


def test_json_on_a_terminal_parses_to_the_original_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.chdir(folder)
        terminal = Terminal(patched)
        run(["sql", "SELECT content FROM messages LIMIT 1", "--format", "json"])
        shown = terminal.shown()
    assert json.loads(shown[: shown.rindex("}") + 1])["rows"] == [[TEXT]]


def test_data_in_a_pipe_or_a_file_is_unchanged(folder: Path) -> None:
    query = ("sql", "SELECT content FROM messages LIMIT 1", "--format")
    assert list(csv.reader(io.StringIO(piped(folder, *query, "csv").stdout, newline=""))) == [["content"], [TEXT]]
    with (folder / "out.csv").open("wb") as file:
        command = [sys.executable, "-m", "evalscribe", *query, "csv"]
        subprocess.run(
            command, cwd=folder, env={**os.environ, "CI": "true"}, stdout=file, timeout=PATIENCE_S, check=True
        )
    with (folder / "out.csv").open(newline="") as written:
        assert list(csv.reader(written)) == [["content"], [TEXT]]


@pytest.mark.parametrize("environment", CI, ids=lambda each: next(iter(each)))
def test_json_lines_in_a_ci_log_keep_their_values(folder: Path, environment: dict[str, str]) -> None:
    plain = piped(folder, "export").stdout
    assert "##vso[" in plain
    logged = piped(folder, "export", **environment).stdout
    assert not ci_commands(logged)
    assert [json.loads(line) for line in logged.splitlines()] == [json.loads(line) for line in plain.splitlines()]


def test_errors_in_a_ci_job_contain_no_ci_commands(folder: Path) -> None:
    ended = piped(folder, "experiments", "show", f"x{CI_ATTACK}", GITHUB_ACTIONS="true")
    assert ended.returncode == 66
    assert "owned" in ended.stderr
    assert not ci_commands(ended.stderr)


@pytest.mark.parametrize("cut", range(1, 9))
def test_ci_command_written_in_pieces_is_broken_up(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "1")
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    text = "\n \t::error::a\n##[b]\r::c\n\n::d # # #vso[\n#####vso[::\n"
    with streams.guarded():
        for start in range(0, len(text), cut):
            sys.stderr.write(text[start : start + cut])
        streams.command("::notice::ours", sys.stderr)
    shown = written.getvalue()
    assert ci_commands(shown) == ["::notice::ours"]
    assert shown.replace(" ", "") == f"{text}::notice::ours\n".replace(" ", "")


def test_output_outside_terminals_and_ci_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "false")
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    with streams.guarded():
        print(TEXT, end="")
    assert written.getvalue() == TEXT

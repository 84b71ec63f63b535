"""Escape codes in data are never printed, and proposed commands quote hostile names."""

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.hostile_runs import ESCAPES, RUN_ID, SHELL, Command, evalscribe, failed, hostile, payload, snapshot
from support.waiting import PATIENCE_S


def control_characters(output: bytes) -> set[str]:
    return {char for char in output.decode() if not char.isprintable() and char not in "\n\t"}


COMMANDS = (
    ("analyze", "RUN", "--judge", "rules"),
    ("analyze", "RUN", "--judge", "rules", "--json"),
    ("analyze", "RUN", "--judge", "rules", "--dry-run"),
    ("explain", "RUN", "e1", "--judge", "rules"),
    ("explain", "RUN", "e2", "--judge", "rules", "--json"),
    ("explain", "RUN", "none", "--judge", "rules"),
    ("fetch", "RUN", "-o", "copy"),
    ("reports", "list"),
    ("reports", "check"),
    ("reports", "show", "planted"),
    ("reports", "parse", "planted"),
    ("reports", "parse", "planted", "--json"),
    ("reports", "show", ESCAPES.replace("\x00", "")),
    ("recurring",),
    ("recurring", "--json"),
    ("doctor",),
)


def test_no_command_prints_an_escape_code(tmp_path: Path, command: Command) -> None:
    run = hostile(tmp_path / "run")
    (tmp_path / ".env").write_text(f"EVALSCRIBE_JUDGE='rules{ESCAPES}'\n")
    folder = tmp_path / "reports" / f"example{ESCAPES}" / "m"
    folder.mkdir(parents=True)
    planted = f"# m-1 {ESCAPES}\n\n## Findings\n\n### 1. c/n{ESCAPES}: MODEL_FAULT\n\n{ESCAPES} text\n"
    (folder / f"planted{ESCAPES}_2026-01-01.md").write_text(planted)
    (folder / f"broken{ESCAPES}.md").write_text(f"---\nkind: evalscribe-report/1\nrun: {ESCAPES}\n---\n# x\n")
    for words in COMMANDS:
        done = command(tmp_path, *(str(run) if word == "RUN" else word for word in words))
        assert not control_characters(done.stdout) | control_characters(done.stderr), words
        assert done.returncode in (0, 64, 65, 66), (words, done.stderr)


def test_report_on_a_terminal_contains_only_escape_codes_of_rich(tmp_path: Path) -> None:
    """`rich` formats a report with its own escape codes; those in the report text are removed."""
    folder = tmp_path / "reports" / "example" / "m"
    folder.mkdir(parents=True)
    (folder / "planted.md").write_text(f"# Title\n\n{ESCAPES}[x](javascript:alert(1)) words\n\n    {ESCAPES}\n")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "evalscribe", "reports", "show", "planted"]
    subprocess.run(
        command, cwd=tmp_path, stdout=slave, env={**os.environ, "TERM": "xterm"}, timeout=PATIENCE_S, check=True
    )
    os.close(slave)
    shown = os.read(master, 100_000).decode()
    os.close(master)
    assert "words" in shown
    assert not {"\x07", "\x9b", "\x7f", "\u202e", "\u2066", "\x08"} & set(shown)
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown


def test_proposed_command_quotes_hostile_names(tmp_path: Path) -> None:
    run = snapshot(tmp_path / f"run {SHELL.replace('/', '')}", {"e1": payload(failed("e1", name=SHELL))})
    done = evalscribe(tmp_path, "analyze", str(run), "--judge", "rules")
    line = next(line for line in done.stdout.decode().splitlines() if line.startswith("Next: "))
    proposed = line.removeprefix("Next: `").partition("`, or correct")[0]
    assert shlex.split(proposed) == ["evalscribe", "explain", str(run), f"cat/{SHELL}", "--judge", "rules"]


@pytest.mark.parametrize("line", [f'"{ESCAPES[:4]}" = 1', '"\\u001b]0;x\\u0007" = 1', 'judge = "\\u009b2J"'])
def test_escape_codes_in_settings_are_not_printed(line: str, tmp_path: Path, command: Command) -> None:
    (tmp_path / "evalscribe.toml").write_text(line)
    for words in (("doctor",), ("analyze", RUN_ID)):
        done = command(tmp_path, *words)
        assert not control_characters(done.stdout) | control_characters(done.stderr)

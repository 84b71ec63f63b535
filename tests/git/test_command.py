"""The runner of git commands."""

from pathlib import Path

import pytest

from evalscribe.git import command
from evalscribe.git.command import Git


def test_command_that_ignores_the_request_to_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "GRACE_S", 0.1)
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do :; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = Git(tmp_path).run("status", at_most_s=0.2)
    assert (done.code, done.err) == (1, "no response within 0.2 seconds")

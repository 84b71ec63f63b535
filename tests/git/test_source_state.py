"""State of the source code in a folder, with and without git."""

import subprocess
from pathlib import Path

from evalscribe.git.repository import source_state


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_state_outside_git_depends_on_the_python_files(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("A = 1\n")
    first = source_state(tmp_path)
    assert (first.commit, first.dirty) == (None, None)
    for other in ("notes.txt", ".hidden/b.py", "__pycache__/c.py"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_text("x")
    assert source_state(tmp_path) == first
    (tmp_path / "a.py").write_text("A = 2\n")
    assert source_state(tmp_path) != first


def test_state_in_git_depends_on_the_commit_and_on_uncommitted_changes(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "ä b.py").write_text("A = 1\n")
    git(tmp_path, "init", "-q")
    assert source_state(tmp_path).commit is None  # no commit yet
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = source_state(tmp_path / "inner")
    assert clean.commit
    assert (clean.dirty, clean.code) == (False, None)

    (tmp_path / "outside.py").write_text("x")
    (tmp_path / "inner" / "reports").mkdir()
    (tmp_path / "inner" / "reports" / "r.md").write_text("x")
    (tmp_path / "inner" / "__pycache__").mkdir()
    (tmp_path / "inner" / "__pycache__" / "a.pyc").write_text("x")
    assert source_state(tmp_path / "inner", [tmp_path / "inner" / "reports"]) == clean

    (tmp_path / "inner" / "new.py").write_text("x")
    new = source_state(tmp_path / "inner", [tmp_path / "inner" / "reports"])
    assert (new.commit, new.dirty) == (clean.commit, True)
    (tmp_path / "inner" / "ä b.py").unlink()
    changed = source_state(tmp_path / "inner", [tmp_path / "inner" / "reports"])
    assert len({clean.code, new.code, changed.code}) == 3

"""Reports that branches and the working tree have otherwise than what is merged."""

import os
from collections.abc import Iterator
from pathlib import Path

from evalscribe.git.command import Repository
from evalscribe.library.git_history import inside, text_of
from evalscribe.model.repository import UnmergedReport, is_report

MOST_BRANCHES = 100
"""Those with the newest commits; an old repository may have thousands."""


def unmerged(repo: Repository, folder: Path, tip: str) -> Iterator[UnmergedReport]:
    """Reports below `folder` that are changed in the working tree or on a branch since it left `tip`."""
    below = inside(repo, folder)
    yield from _in_working_tree(repo, folder, below, tip)
    for branch in _branches(repo, tip):
        base = _parting(repo, tip, branch)
        for path, was, now in _changed(repo, base, branch, below):
            text = text_of(repo, now)
            if text is not None:
                yield UnmergedReport(branch=branch, name=path, text=text, base=text_of(repo, was) if was else None)


def _in_working_tree(repo: Repository, folder: Path, below: str, tip: str) -> Iterator[UnmergedReport]:
    base = _parting(repo, tip, "HEAD")
    for path, was, _ in _changed(repo, base, None, below):
        file = folder / path
        if file.is_file() and file.resolve().is_relative_to(folder.resolve()):
            text = file.read_bytes().decode("utf-8-sig", "replace")
            before = text_of(repo, was) if was else None
            if text != before:
                yield UnmergedReport(branch=None, name=path, text=text, base=before)


def _branches(repo: Repository, tip: str) -> list[str]:
    where = ("refs/heads", "refs/remotes")
    options = ("--sort=-committerdate", f"--count={MOST_BRANCHES}", "--format=%(refname)")
    return repo.text("for-each-ref", f"--no-merged={tip}", *options, *where).split()


def _parting(repo: Repository, tip: str, branch: str) -> str | None:
    """Where they parted; None where they never met."""
    return repo.ask("merge-base", tip, branch) or None


def _changed(
    repo: Repository, base: str | None, branch: str | None, below: str
) -> Iterator[tuple[str, str | None, str]]:
    """Names below the folder, and the blobs of then and now, the latter of no meaning in the working tree."""
    empty = repo.text("hash-object", "-t", "tree", os.devnull)
    trees = [base or empty, *([branch] if branch else [])]
    command = [
        "-c",
        "diff.autoRefreshIndex=false",
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "-M",
        "--raw",
        "-z",
        "--no-abbrev",
    ]
    options = ["--no-color", "--no-relative", "--ignore-submodules=all"]
    out = repo.output(*command, *options, *trees, "--", _only(below))
    fields = iter(out.split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            _, mode, was, now, status = field[1:].split()
            path = [os.fsdecode(next(fields)) for _ in range(2 if status[:1] in b"RC" else 1)][-1].removeprefix(below)
            if mode.startswith(b"100") and is_report(path):
                yield path, was.decode() if was.strip(b"0") else None, now.decode()
    if branch is None:
        yield from ((path, None, "") for path in _unknown(repo, below) if is_report(path))


def _unknown(repo: Repository, below: str) -> Iterator[str]:
    """Files that git does not know yet."""
    out = repo.output("ls-files", "--others", "--exclude-standard", "-z", "--", _only(below))
    return (os.fsdecode(path).removeprefix(below) for path in out.split(b"\0") if path)


def _only(below: str) -> str:
    """A pathspec that means this folder, whatever characters its name has."""
    return f":(literal){below}" if below else "."

"""Repeated analysis of a run: human edits stay, and an unchanged report is not rewritten."""

import json
import subprocess
from pathlib import Path

import pytest

from support.command import NEXT, Workspace, known

FIRST = "000-fundamentals/000-task_0"


@pytest.fixture
def analyzed(workspace: Workspace, made: Path) -> Path:
    """The report of a first analysis."""
    workspace.run("analyze", made, "--judge", "rules", "--date", "2026-11-02")
    return workspace.report


def edit(report: Path, *changes: tuple[str, str]) -> str:
    text = report.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    report.write_text(text)
    return text


def test_unchanged_report_is_not_rewritten(workspace: Workspace, made: Path, analyzed: Path) -> None:
    before = (analyzed.read_bytes(), analyzed.stat().st_mtime_ns, analyzed.stat().st_ino)
    again = workspace.run("analyze", made, "--judge", "rules", "--date", "2026-12-24")
    assert f"Report: {analyzed} (unchanged)" in again.out
    assert again.out.splitlines()[-1].startswith(NEXT)
    assert known(again) == 8
    assert (analyzed.read_bytes(), analyzed.stat().st_mtime_ns, analyzed.stat().st_ino) == before
    workspace.run("analyze", made, "--judge", "rules", "--fresh")
    assert workspace.report.read_bytes() == before[0]
    document = json.loads(workspace.run("analyze", made, "--judge", "rules", "--json").out)
    assert (document["changed"], document["revision"]) == (False, 1)


def test_report_is_unchanged_after_its_store_is_deleted(workspace: Workspace, made: Path, analyzed: Path) -> None:
    before = analyzed.read_bytes()
    subprocess.run(["rm", "-r", ".evalscribe"], cwd=workspace.folder, check=True)
    assert "(unchanged)" in workspace.run("analyze", made, "--judge", "rules").out
    assert workspace.report.read_bytes() == before


def test_correction_overrides_the_judge_whose_label_stays_visible(
    workspace: Workspace, made: Path, analyzed: Path
) -> None:
    edit(
        analyzed,
        (f"### 1. {FIRST}\n**MODEL_FAULT**", f"### 1. {FIRST}\n**AMBIGUOUS_TASK**"),
        ("\n```ts\n", "\nReviewer: the task names no type\n```ts\n"),
        ("## Actions taken\nNone.", "## Actions taken\n- The task now says which type."),
    )
    first = json.loads(workspace.run("analyze", made, "--judge", "rules", "--json").out)
    text = analyzed.read_text()
    again = json.loads(workspace.run("analyze", made, "--judge", "rules", "--json").out)
    assert analyzed.read_text() == text
    assert [(d["changed"], d["revision"]) for d in (first, again)] == [(True, 2), (False, 2)]
    for document in (first, again, json.loads(workspace.run("reports", "parse", analyzed, "--json").out)):
        finding = document["findings"][0]
        assert finding["classification"] == "AMBIGUOUS_TASK"
        assert finding["reviewer"] == {"label": "AMBIGUOUS_TASK", "note": "the task names no type"}
        assert finding["judge"]["classification"] == "MODEL_FAULT"
        assert document["findings"][1]["reviewer"] is None
    assert "The task now says which type." in text
    assert f"### 1. {FIRST}\n**AMBIGUOUS_TASK** · " in text
    assert "· judge said MODEL_FAULT: " in text


def test_contradicting_edits_are_refused_with_both_line_numbers(
    workspace: Workspace, made: Path, analyzed: Path
) -> None:
    text = edit(
        analyzed,
        (f"### 1. {FIRST}\n**MODEL_FAULT**", f"### 1. {FIRST}\n**AMBIGUOUS_TASK**"),
        (f"### 1. {FIRST}\n", f"### 1. {FIRST}: KNOWN_GAP\n"),
    )
    heading = text.splitlines().index(f"### 1. {FIRST}: KNOWN_GAP") + 1
    refused = workspace.run("analyze", made, "--judge", "rules", code=65)
    assert f"lines {heading} and {heading + 1}" in refused.err
    assert NEXT not in refused.out
    assert analyzed.read_text() == text
    checked = workspace.run("reports", "check", code=65)
    assert f"lines {heading} and {heading + 1}" in checked.out
    assert "1 report checked, 1 with problems" in checked.out


def test_free_form_file_at_the_report_path_is_not_overwritten(workspace: Workspace, made: Path) -> None:
    folder = workspace.folder / "reports" / "example" / "sample-model-2"
    folder.mkdir(parents=True)
    existing = folder / "jn7made0_2026-11-02.md"
    existing.write_text("# My own notes\n\nNothing to see.\n")
    out = workspace.run("analyze", made, "--judge", "rules", "--date", "2026-11-02").out
    assert existing.read_text() == "# My own notes\n\nNothing to see.\n"
    assert (folder / "jn7made0_2026-11-02.evalscribe.md").exists()
    assert "was not written by evalscribe and is left as it is" in out
    quiet = workspace.run("analyze", made, "--judge", "rules", "--quiet", "--date", "2026-11-02")
    assert quiet.out.strip().endswith("jn7made0_2026-11-02.evalscribe.md")


def test_unreadable_report_is_not_overwritten(workspace: Workspace, made: Path, analyzed: Path) -> None:
    text = analyzed.read_text()
    broken = text.replace("**MODEL_FAULT**", "**MY FAULT**", 1)
    analyzed.write_text(broken)
    ended = workspace.run("analyze", made, "--judge", "rules", "--json")
    assert analyzed.read_text() == broken
    (beside,) = [path for path in workspace.reports if path != analyzed]
    assert beside.name == "jn7made0_2026-11-02.evalscribe.md" or beside.name.endswith(".evalscribe.md")
    assert "cannot be read and is left as it is" in ended.err


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(workspace: Workspace) -> Workspace:
    git(workspace.folder, "init", "-q", "-b", "main")
    git(workspace.folder, "config", "user.name", "Ada")
    git(workspace.folder, "config", "user.email", "ada@example.org")
    (workspace.folder / "own.txt").write_text("old\n")
    git(workspace.folder, "add", ".")
    git(workspace.folder, "commit", "-q", "-m", "start")
    return workspace


def test_commit_contains_only_the_report_files(repository: Workspace, made: Path) -> None:
    (repository.folder / "own.txt").write_text("staged\n")
    git(repository.folder, "add", "own.txt")
    (repository.folder / "own.txt").write_text("and more\n")
    (repository.folder / "new.txt").write_text("untracked\n")
    before = git(repository.folder, "status", "--porcelain")
    ended = repository.run("analyze", made, "--judge", "rules", "--commit")
    assert ended.out.splitlines()[-1].startswith(NEXT)
    changed = git(repository.folder, "show", "--name-status", "--format=", "HEAD")
    page = repository.report.relative_to(repository.folder).as_posix()
    report_files = ("reports/.gitattributes", f"{page.removesuffix('.md')}.json", page, "reports/labels.md")
    assert sorted(changed.split("\n")) == sorted(f"A\t{name}" for name in report_files)
    assert git(repository.folder, "rev-parse", "HEAD")[:12] in ended.err
    assert git(repository.folder, "status", "--porcelain") == before, "neither index nor store is touched"
    repository.run("analyze", made, "--judge", "rules", "--commit")
    assert git(repository.folder, "rev-list", "--count", "HEAD") == "2", "nothing new, no second commit"


@pytest.mark.parametrize(
    "reason", ["HEAD is detached", "merge", "ignores", "no author is configured", "not in a git repository"]
)
def test_impossible_commit_is_refused_before_judging(
    reason: str, repository: Workspace, made: Path, tmp_path: Path
) -> None:
    folder = repository.folder
    workspace = repository
    if reason == "HEAD is detached":
        git(folder, "checkout", "-q", "--detach")
    elif reason == "merge":
        (folder / ".git" / "MERGE_HEAD").write_text(git(folder, "rev-parse", "HEAD") + "\n")
    elif reason == "ignores":
        (folder / ".gitignore").write_text("reports/\n")
    elif reason == "no author is configured":
        git(folder, "config", "--unset", "user.name")
        git(folder, "config", "--unset", "user.email")
    else:
        (tmp_path / "elsewhere").mkdir()
        workspace = Workspace(tmp_path / "elsewhere")
    head = git(folder, "rev-parse", "HEAD")
    ended = workspace.run("analyze", made, "--judge", "rules", "--commit", code=64, GIT_CONFIG_GLOBAL="/dev/null")
    assert reason in ended.err
    assert workspace.reports == []
    assert ended.out == ""
    assert git(folder, "rev-parse", "HEAD") == head


def test_edits_survive_in_a_clone_without_the_store(repository: Workspace, made: Path) -> None:
    repository.run("analyze", made, "--judge", "rules", "--commit")
    subprocess.run(["rm", "-r", ".evalscribe"], cwd=repository.folder, check=True)
    edit(repository.report, ("\n**", "\n**A zebra.** **"), ("\n## Net impact", "\nAn okapi.\n\n## Net impact"))
    repository.run("analyze", made, "--judge", "rules")
    text = repository.report.read_text()
    assert "**A zebra.** **" in text
    assert "> An okapi.\n" in text
    assert "An okapi." in repository.report.with_suffix(".json").read_text()
    assert "(unchanged" in repository.run("analyze", made, "--judge", "rules").out


def test_conflicting_edits_stay_and_the_new_report_is_written_beside_them(
    workspace: Workspace, made: Path, analyzed: Path
) -> None:
    text = edit(
        analyzed,
        (f"### 1. {FIRST}\n**MODEL_FAULT**", f"### 1. {FIRST}\n**AMBIGUOUS_TASK**"),
        ("# sample", "# Our sample"),
    )
    title = next(line for line in text.split("\n") if line.startswith("# "))
    edit(analyzed, ("\n**", "\nWe think: **"))
    edited = analyzed.read_text()
    ended = workspace.run("analyze", made, "--judge", "rules")
    assert analyzed.read_text() == edited
    (beside,) = [path for path in workspace.reports if path != analyzed]
    assert "keeps its edits and is left as it is" in ended.out
    assert str(beside.name) in ended.out
    assert f"### 1. {FIRST}\n**AMBIGUOUS_TASK**" in beside.read_text()
    assert title not in beside.read_text()


def test_missing_data_file_is_named_and_the_report_is_not_overwritten(
    workspace: Workspace, made: Path, analyzed: Path
) -> None:
    analyzed.with_suffix(".json").unlink()
    text = analyzed.read_text()
    ended = workspace.run("analyze", made, "--judge", "rules")
    assert analyzed.read_text() == text
    assert f"{analyzed.with_suffix('.json').name} is missing" in ended.out
    assert len(workspace.reports) == 2
    checked = workspace.run("reports", "check", analyzed, code=65)
    assert f"{analyzed.with_suffix('.json').name} is missing" in checked.out


@pytest.mark.parametrize("written", ["data only", "page only"])
def test_interrupted_write_is_completed(workspace: Workspace, made: Path, analyzed: Path, written: str) -> None:
    """A kill between the writes of the page and of its data file leaves only one of them updated."""
    before = {path: path.read_bytes() for path in (analyzed, analyzed.with_suffix(".json"))}
    edit(analyzed, (f"### 1. {FIRST}\n**MODEL_FAULT**", f"### 1. {FIRST}\n**AMBIGUOUS_TASK**"))
    workspace.run("analyze", made, "--judge", "rules")
    after = {path: path.read_bytes() for path in before}
    stale = analyzed if written == "data only" else analyzed.with_suffix(".json")
    stale.write_bytes(before[stale])
    workspace.run("analyze", made, "--judge", "rules")
    page, data = (path.read_text().replace("revision: 3", "revision: 2") for path in before)
    assert page.split("written:")[1][30:] == after[analyzed].decode().split("written:")[1][30:]
    assert '"classification": "AMBIGUOUS_TASK"' in data
    assert len(workspace.reports) == 1

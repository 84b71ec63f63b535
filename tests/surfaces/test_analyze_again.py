"""The second analysis of a run: what people wrote stays, and what did not change is not written."""

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


def test_nothing_changed_nothing_written(workspace: Workspace, made: Path, analyzed: Path) -> None:
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


def test_without_its_store_it_is_the_same(workspace: Workspace, made: Path, analyzed: Path) -> None:
    before = analyzed.read_bytes()
    subprocess.run(["rm", "-r", ".evalscribe"], cwd=workspace.folder, check=True)
    assert "(unchanged)" in workspace.run("analyze", made, "--judge", "rules").out
    assert workspace.report.read_bytes() == before


def test_a_correction_is_in_force_and_the_judge_stays_visible(workspace: Workspace, made: Path, analyzed: Path) -> None:
    edit(
        analyzed,
        (f"### 1. {FIRST}: MODEL_FAULT\n", f"### 1. {FIRST}: AMBIGUOUS_TASK\n"),
        ("- Seen: new\n", "- Seen: new\n- Reviewer: the task names no type\n"),
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
    assert f"| 1 | {FIRST} | deploy | AMBIGUOUS_TASK |" in text


def test_edits_that_contradict_are_refused_with_both_lines(workspace: Workspace, made: Path, analyzed: Path) -> None:
    text = edit(
        analyzed,
        (f"### 1. {FIRST}: MODEL_FAULT\n", f"### 1. {FIRST}: AMBIGUOUS_TASK\n"),
        (f"| 1 | {FIRST} | deploy | MODEL_FAULT |", f"| 1 | {FIRST} | deploy | KNOWN_GAP |"),
    )
    lines = text.splitlines()
    heading, row = (next(n for n, line in enumerate(lines, 1) if line.startswith(s)) for s in ("### 1. ", "| 1 | "))
    refused = workspace.run("analyze", made, "--judge", "rules", code=65)
    assert str(heading) in refused.err
    assert str(row) in refused.err
    assert NEXT not in refused.out
    assert analyzed.read_text() == text
    checked = workspace.run("reports", "check", code=65)
    assert str(heading) in checked.out
    assert str(row) in checked.out
    assert "1 report checked, 1 with problems" in checked.out


def test_a_free_form_file_in_its_place_is_left_alone(workspace: Workspace, made: Path) -> None:
    folder = workspace.folder / "reports" / "example" / "sample-model-2"
    folder.mkdir(parents=True)
    taken = folder / "jn7made0_2026-11-02.md"
    taken.write_text("# My own notes\n\nNothing to see.\n")
    out = workspace.run("analyze", made, "--judge", "rules", "--date", "2026-11-02").out
    assert taken.read_text() == "# My own notes\n\nNothing to see.\n"
    assert (folder / "jn7made0_2026-11-02.evalscribe.md").exists()
    assert "is not a report of evalscribe and is left as it is" in out
    quiet = workspace.run("analyze", made, "--judge", "rules", "--quiet", "--date", "2026-11-02")
    assert quiet.out.strip().endswith("jn7made0_2026-11-02.evalscribe.md")


def test_a_report_edited_into_something_unreadable_is_left_alone(
    workspace: Workspace, made: Path, analyzed: Path
) -> None:
    text = analyzed.read_text()
    broken = text.replace("## Findings", "## What I found").replace("### 1. ", "#### one ")
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


def test_a_commit_holds_only_the_report(repository: Workspace, made: Path) -> None:
    (repository.folder / "own.txt").write_text("staged\n")
    git(repository.folder, "add", "own.txt")
    (repository.folder / "own.txt").write_text("and more\n")
    (repository.folder / "new.txt").write_text("untracked\n")
    before = git(repository.folder, "status", "--porcelain")
    ended = repository.run("analyze", made, "--judge", "rules", "--commit")
    assert ended.out.splitlines()[-1].startswith(NEXT)
    changed = git(repository.folder, "show", "--name-status", "--format=", "HEAD")
    assert changed == f"A\t{repository.report.relative_to(repository.folder).as_posix()}"
    assert git(repository.folder, "rev-parse", "HEAD")[:12] in ended.err
    assert git(repository.folder, "status", "--porcelain") == before, "neither index nor store is touched"
    repository.run("analyze", made, "--judge", "rules", "--commit")
    assert git(repository.folder, "rev-list", "--count", "HEAD") == "2", "nothing new, no second commit"


@pytest.mark.parametrize(
    "reason", ["HEAD is detached", "merge", "ignores", "no author is configured", "not in a git repository"]
)
def test_a_commit_that_cannot_be_is_refused_before_anything_is_judged(
    reason: str, repository: Workspace, made: Path, tmp_path: Path
) -> None:
    folder = repository.folder
    where = repository
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
        where = Workspace(tmp_path / "elsewhere")
    head = git(folder, "rev-parse", "HEAD")
    ended = where.run("analyze", made, "--judge", "rules", "--commit", code=64, GIT_CONFIG_GLOBAL="/dev/null")
    assert reason in ended.err
    assert where.reports == []
    assert ended.out == ""
    assert git(folder, "rev-parse", "HEAD") == head


def test_in_a_clone_without_the_store_git_tells_what_people_wrote(repository: Workspace, made: Path) -> None:
    repository.run("analyze", made, "--judge", "rules", "--commit")
    clone = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["rm", "-r", ".evalscribe"], cwd=repository.folder, check=True)
    written = repository.report.read_text()
    repository.report.write_text(written.replace("\n**", "\n**A zebra.** **", 1))
    subprocess.run([*clone, "commit", "-qam", "shorter"], cwd=repository.folder, check=True)
    line = next(at for at, text in enumerate(written.split("\n"), 1) if text.startswith("**"))
    assert f"line {line}" in repository.run("analyze", made, "--judge", "rules", code=65).err
    edit(repository.report, ("**A zebra.** ", ""), ("\n## Patterns", "\nA zebra.\n\n## Patterns"))
    said = repository.run("analyze", made, "--judge", "rules")
    assert "> A zebra.\n" in repository.report.read_text()
    assert "nobody knows" not in said.err


def test_a_finding_that_a_person_took_out_is_told_of(workspace: Workspace, made: Path, analyzed: Path) -> None:
    text = analyzed.read_text()
    number = max(
        int(line.split(".")[0][4:]) for line in text.split("\n") if line.startswith("### ") and line[4].isdigit()
    )
    row = next(line for line in text.split("\n") if line.startswith(f"| {number} |"))
    finding = text[text.index(f"### {number}. ") : text.index("## Patterns")]
    rest = text.replace(finding, "").replace(f"{row}\n", "")
    analyzed.write_text(
        "\n".join(line for line in rest.split("\n") if not (line.startswith("- ") and str(number) in line))
    )
    said = workspace.run("analyze", made, "--judge", "rules")
    assert "by a person and back in it, because they still fail: " in said.out + said.err

"""`evalscribe review label` on the command line."""

import json
from pathlib import Path

import pytest

from support.command import Workspace
from support.repository_states import git


@pytest.fixture
def analyzed(workspace: Workspace, made: Path) -> Workspace:
    workspace.run("analyze", made, "--judge", "rules", "--date", "2026-11-02")
    return workspace


def test_label_is_written_printed_and_kept_by_the_next_analysis(analyzed: Workspace, made: Path) -> None:
    report = analyzed.report
    output = analyzed.run(
        "review", "label", report.stem, "1", "known-gap", "--kind", "harness", "--note", "we know"
    ).out
    head, line, following = output.splitlines()  # no advice to commit outside a git repository
    assert head.startswith("Finding 1, ")
    assert head.endswith(" → KNOWN_GAP (harness)")
    assert line == "Reviewer: we know"
    assert following.startswith("The label applies now. ")
    text = report.read_text()
    assert "\n**KNOWN_GAP** (harness) · " in text
    again = analyzed.run("review", "label", report, "1", "KNOWN_GAP", "--kind", "harness", "--note", "we know").out
    assert "(unchanged)\nThe report already has this label." in again
    assert report.read_text() == text
    analyzed.run("analyze", made, "--judge", "rules")
    again = report.read_text()
    assert "\nReviewer: we know\n" in again
    assert "\n**KNOWN_GAP** (harness) · " in again


def test_label_accepts_a_run_and_an_eval_name(analyzed: Workspace, made: Path) -> None:
    eval = json.loads(analyzed.report.with_suffix(".json").read_text())["findings"][0]["eval"]
    words = (made, eval.rpartition("/")[2], "KNOWN_GAP", "--reason", "we know")
    output = analyzed.run("review", "label", *words).out
    assert output.startswith("Finding 1, ")
    assert "\nReviewer: we know\n" in output


def test_label_in_a_git_repository_advises_to_commit(analyzed: Workspace) -> None:
    git(analyzed.folder, "init", "-q")
    git(analyzed.folder, "config", "user.name", "Ada")
    git(analyzed.folder, "config", "user.email", "ada@x.example")
    *_, following = analyzed.run("review", "label", analyzed.report, "1", "KNOWN_GAP").out.splitlines()
    assert following.startswith(f"Next: commit {analyzed.report.relative_to(analyzed.folder)}; ")
    assert "evalscribe review sync" in following


def test_label_keeps_bom_and_line_endings_of_the_report(analyzed: Workspace) -> None:
    report = analyzed.report
    bytes_before = b"\xef\xbb\xbf" + report.read_bytes().replace(b"\n", b"\r\n")
    report.write_bytes(bytes_before)
    analyzed.run("review", "label", report, "1", "AMBIGUOUS_TASK")
    after = report.read_bytes().split(b"\r\n")
    before = bytes_before.split(b"\r\n")
    assert len(after) == len(before) + 1
    assert len([line for line in after if line not in before]) == 2
    report.write_bytes(bytes_before + b"\xff")
    analyzed.run("review", "label", report, "1", "MODEL_FAULT", code=65)
    assert report.read_bytes() == bytes_before + b"\xff"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("99", "MODEL_FAULT"), 65, "no finding 99"),
        (("1", "MODEL_FALUT"), 64, "is not a label"),
        (("1", "KNOWN_GAP", "--kind", "hamster"), 64, "is not a kind of cause"),
        (("one", "KNOWN_GAP"), 66, "no finding about 'one'"),
    ],
)
def test_invalid_label_arguments_are_reported_and_write_nothing(
    words: tuple[str, ...], code: int, message: str, analyzed: Workspace
) -> None:
    text = analyzed.report.read_text()
    assert message in analyzed.run("review", "label", analyzed.report, *words, code=code).err
    assert analyzed.report.read_text() == text


def test_report_outside_the_reports_folder_is_not_written(analyzed: Workspace) -> None:
    copy = analyzed.folder / "copy.md"
    copy.write_text(analyzed.report.read_text())
    assert "--reports" in analyzed.run("review", "label", copy, "1", "KNOWN_GAP", code=64).err
    assert copy.read_text() == analyzed.report.read_text()
    analyzed.run("review", "label", "nothing", "1", "KNOWN_GAP", code=66)


def test_check_and_analyze_accept_a_label_changed_again_by_hand(analyzed: Workspace, made: Path) -> None:
    """The stored copy shows that only the heading was edited, although the table now differs from it."""
    report = analyzed.report
    analyzed.run("review", "label", report, "1", "OVERLY_STRICT")
    analyzed.run("analyze", made, "--judge", "rules")
    text = report.read_text()
    assert "\n**OVERLY_STRICT**" in text
    report.write_text(text.replace("\n**OVERLY_STRICT**", "\n**KNOWN_GAP**", 1))
    analyzed.run("reports", "check")
    analyzed.run("analyze", made, "--judge", "rules")
    assert "\n**KNOWN_GAP** · " in report.read_text()
    analyzed.run("reports", "check")

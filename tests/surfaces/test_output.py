"""Output of `analyze`: for people, for programs, and on limited terminals."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evalscribe.model.analysis import Analysis
from support import run_snapshots
from support.command import NEXT, Workspace
from support.report_pages import report_at
from support.waiting import PATIENCE_S

DOCUMENT = (
    "kind date judges own_prompts page_url evidence earlier incomplete_evals actions_text notes agreement "
    "run report_path revision changed findings patterns resolved follow_ups recommendations net_impact actions_taken "
    "proofs cascade usage"
)
RUN = (
    "id provider model experiment status status_reason passed failed incomplete total listed names_all url started_at "
    "duration_s input_tokens output_tokens cost_usd trials unread"
)
FINDING = (
    "n eval eval_id category step url group classification cause cause_kind confidence uncertain judge error reasoning "
    "why basis notes trials recurrence across missing reviewer output_snippet expected_snippet citations unclassified "
    "replay contradicted scored message first_mistake never_passed"
)


def analyzed(workspace: Workspace, *arguments: str | Path) -> dict[str, Any]:
    """Run `analyze --json` and return the validated document."""
    out = workspace.run("analyze", *arguments, "--judge", "rules", "--json").out
    Analysis.model_validate_json(out)
    document: dict[str, Any] = json.loads(out)
    return document


def test_json_output_is_one_document_of_the_published_shape(workspace: Workspace, made: Path) -> None:
    document = analyzed(workspace, made, "--date", "2026-11-02")
    assert set(document) == set(DOCUMENT.split())
    assert set(document["run"]) == set(RUN.split())
    assert document["run"]["incomplete"] == 0
    for finding in document["findings"]:
        assert set(finding) == set(FINDING.split())
        assert set(finding["judge"]) == {"id", "classification", "confidence", "stage"}
        assert set(finding["recurrence"]) == {"kind", "reports", "action"}
        assert finding["eval"].startswith(f"{finding['category']}/")
        for citation in finding["citations"]:
            assert set(citation) == {"role", "path", "first", "last", "text", "status"}
            assert citation["last"] - citation["first"] == citation["text"].count("\n")
    assert {r["group"] for r in document["recommendations"]} <= {"eval", "lint", "model", "none"}
    assert set(document["usage"]) == {"calls", "input_tokens", "output_tokens", "cost_usd", "stages"}
    assert [finding["eval_id"] for finding in document["findings"]] == [run_snapshots.eval_id(n) for n in range(8)]
    assert (document["changed"], document["revision"]) == (True, 1)
    assert Path(document["report_path"]) == workspace.report
    assert workspace.report.name == "jn7made0_2026-11-02.md"


def test_report_schema_matches_the_json_output(workspace: Workspace) -> None:
    schema = json.loads(workspace.run("schema", "report").out)
    assert set(schema["properties"]) == set(DOCUMENT.split())
    assert set(schema["$defs"]["FindingSummary"]["properties"]) == set(FINDING.split())
    assert set(schema["$defs"]["AnalyzedRun"]["properties"]) == set(RUN.split())


def test_text_output_shows_analysis_report_path_and_next_step(workspace: Workspace, made: Path) -> None:
    short = workspace.run("analyze", made, "--judge", "rules").out.splitlines()
    assert "Print all 8 findings with --full." in short
    assert "## Failures" not in short
    ended = workspace.run("analyze", made, "--judge", "rules", "--full", "--fresh")
    lines = ended.out.splitlines()
    assert lines[:8] == short[:8]
    assert lines[0] == "# sample-model-2: 8 of 16 evals failed"
    assert lines[-1].startswith(NEXT)
    assert f"Report: {workspace.report} (unchanged)" in lines
    (how,) = [line for line in lines if line.startswith("Next: ")]
    assert f"`evalscribe explain {made} " in how
    assert "2 uncertain: anthropic/claude-opus-5-5 would take about" in how
    assert "$" in how
    for part in ("## Failures", "## Recommendations", "## Net impact", "## Actions taken"):
        assert part in lines
    progress = [line for line in ended.err.splitlines() if " of 8 judged, 0:" in line]
    assert len(progress) == 1, "few verdicts of rules take no time worth a line each"
    assert "\x1b" not in ended.err


def test_proposed_command_works(workspace: Workspace, made: Path) -> None:
    out = workspace.run("analyze", made, "--judge", "rules").out
    (how,) = [line for line in out.splitlines() if line.startswith("Next: ")]
    proposed = how.partition("`evalscribe ")[2].partition("`")[0].split(" ")
    assert proposed[-2:] == ["--judge", "rules"]
    assert "003-mutations/003-task_3: MODEL_FAULT (model), uncertain" in workspace.run(*proposed).out


def test_quiet_prints_only_the_report_path(workspace: Workspace, made: Path) -> None:
    ended = workspace.run("analyze", made, "--judge", "rules", "--quiet")
    assert ended.out == f"{workspace.report}\n"
    assert ended.err == ""


def test_dry_run_writes_no_report(workspace: Workspace, made: Path) -> None:
    ended = workspace.run("analyze", made, "--judge", "rules", "--dry-run")
    assert "Verdicts needed: 8, of which 0 are stored" in ended.out
    assert "rules@" in ended.out
    assert workspace.reports == []
    assert NEXT not in ended.out


@pytest.mark.parametrize("command", [("analyze", "sample", "--dry-run"), ("explain", "sample", "query/007-range")])
def test_dry_run_and_explain_create_no_reports_folder(workspace: Workspace, command: tuple[str, ...]) -> None:
    workspace.run(*command, "--judge", "rules")
    assert not (workspace.folder / "reports").exists()


def test_dry_run_with_a_model_estimates_the_cost_without_a_request(workspace: Workspace, made: Path) -> None:
    where = {"ANTHROPIC_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    out = workspace.run("analyze", made, "--dry-run", **where).out
    assert "anthropic/claude-opus-5-5 for 8: about" in out
    assert "$" in out
    assert workspace.reports == []


def test_provider_and_model_options_are_used(workspace: Workspace, made: Path) -> None:
    document = analyzed(workspace, made, "--provider", "Own House", "--model", "m/9:beta")
    assert (document["run"]["provider"], document["run"]["model"]) == ("Own House", "m/9:beta")
    below = workspace.report.relative_to(workspace.folder / "reports")
    assert all(part.isascii() and not set(part) & set(" :") for part in below.parts)


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"NO_COLOR": "1", "TERM": "dumb"},
        {"COLUMNS": "20", "TERM": "xterm-256color"},
    ],
    ids=["ascii", "c-locale", "no-color", "narrow"],
)
def test_limited_terminals_get_plain_output(environment: dict[str, str], workspace: Workspace, made: Path) -> None:
    ended = workspace.run("analyze", made, "--judge", "rules", **environment)
    assert ended.out.splitlines()[-1].startswith(NEXT)
    assert "\x1b" not in ended.out + ended.err
    assert "sample-model-2: 8 of 16 evals failed" in ended.out
    assert len(report_at(workspace.report).entries) == 8


def test_no_color_variable_disables_colors(workspace: Workspace, made: Path) -> None:
    plain, colored = (output_on_a_terminal(workspace, made, **more) for more in ({"NO_COLOR": "1"}, {}))
    assert "\x1b[36m" in colored or "\x1b[31m" in colored
    assert not any(f"\x1b[{code}m" in plain for code in range(30, 50))


def output_on_a_terminal(workspace: Workspace, run: Path, **environment: str) -> str:
    """Run `analyze` on a pseudo terminal and return its output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "evalscribe", "analyze", str(run), "--judge", "rules"]
    environ = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen(
        command, cwd=workspace.folder, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    got = b""
    try:
        while block := os.read(ours, 65536):
            got += block
    except OSError:
        """The other end is closed: the process is over."""
    os.close(ours)
    assert process.wait(timeout=PATIENCE_S) == 0, got
    return got.decode()


@pytest.mark.parametrize("arguments", [["analyze", "sample", "--judge", "rules"], ["schema", "report"], []])
def test_closed_output_pipe_is_no_error(arguments: list[str], workspace: Workspace) -> None:
    process = workspace.start(*arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=PATIENCE_S) == 0, err
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_findings_link_to_the_visualizer(workspace: Workspace, made: Path) -> None:
    (workspace.folder / "evalscribe.toml").write_text('[sources.convex]\nvisualizer = "https://evals.example"\n')
    document = analyzed(workspace, made)
    assert document["run"]["url"].startswith("https://evals.example/")
    first = document["findings"][0]
    assert first["url"].startswith("https://evals.example/")
    assert first["eval_id"] in first["url"]
    assert f"· [deploy]({first['url']})" in workspace.report.read_text()


def test_report_links_to_its_published_page(workspace: Workspace, made: Path) -> None:
    (workspace.folder / "evalscribe.toml").write_text('page_url = "https://evals.example/pages/"\n')
    document = analyzed(workspace, made)
    address = f"https://evals.example/pages/index.html#{document['run']['id']}"
    assert document["page_url"] == address
    assert f"| In the browser | [evidence and history]({address}) |" in workspace.report.read_text()
    assert workspace.run("reports", "check").code == 0
    (workspace.folder / "evalscribe.toml").write_text("")
    assert analyzed(workspace, made)["page_url"] is None
    assert "In the browser" not in workspace.report.read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"run": {"status": {"kind": "running"}}}, ["running"], id="running"),
        pytest.param(
            {"run": {"status": {"kind": "failed", "failureReason": "quota was used up"}}},
            ["quota was used up"],
            id="broken-off",
        ),
        pytest.param({"totalEvals": 19, "passedCount": 8}, ["3 never completed"], id="incomplete"),
        pytest.param({"failedCount": 11, "totalEvals": 19}, ["8", "11", "list"], id="short-list"),
    ],
)
def test_first_lines_say_why_a_run_is_incomplete(
    changes: dict[str, Any], words: list[str], workspace: Workspace
) -> None:
    folder = run_snapshots.write(workspace.folder / "run", 8, **changes)
    out = workspace.run("analyze", folder, "--judge", "rules").out
    first = out.partition("\n## ")[0].lower()
    for word in words:
        assert word in first
    assert out.splitlines()[-1].startswith(NEXT)


def test_unreadable_failure_is_unclassified_and_the_others_are_judged(workspace: Workspace) -> None:
    folder = run_snapshots.write(workspace.folder / "run", 4)
    (folder / "debug" / f"{run_snapshots.eval_id(1)}.json").write_text("{")
    (folder / "debug" / f"{run_snapshots.eval_id(2)}.json").unlink()
    document = analyzed(workspace, folder)
    reasons = {finding["eval"]: finding["unclassified"] for finding in document["findings"]}
    assert [reasons[run_snapshots.eval_path(n)] is None for n in range(4)] == [True, False, False, True]
    assert sum(finding["classification"] is None for finding in document["findings"]) == 2
    text = workspace.report.read_text()
    assert text.count("\n**UNCLASSIFIED**") == 2
    assert "2 undecided" in text.partition("| | |")[0]


def test_failed_trials_of_one_eval_are_numbered(workspace: Workspace) -> None:
    folder = run_snapshots.write(workspace.folder / "run", 3)
    summary = json.loads((folder / "failed_evals.json").read_text())
    for listed in summary["failedEvals"]:
        listed |= {"evalPath": "a/b", "category": "a", "name": "b"}
    (folder / "failed_evals.json").write_text(json.dumps(summary))
    document = analyzed(workspace, folder)
    assert [finding["eval"] for finding in document["findings"]] == ["a/b#1", "a/b#2", "a/b#3"]
    assert "a/b#2" in workspace.report.read_text()

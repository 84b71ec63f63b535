"""`reports check` on the command line, and the documented workflows run as a GitHub runner would."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from support import run_snapshots
from support.command import InProcessCommand, Workspace
from support.github_server import GitHubServer, problem

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "agent/docs/ci.md").read_text("utf-8")
WORKFLOWS = {
    name: yaml.safe_load(source)
    for name, source in re.findall(r"`\.github/workflows/(\S+)\.yml`:\n\n```yaml\n(.*?)```\n", PAGE, re.DOTALL)
}
OUTCOME = "**4 model faults** (1, 2, 6, 10), **3 eval problems** (4, 5, 7), **2 known gaps** (8, 9), **1 outage** (3)."
REVIEWED = ("\n- Error: `TypeError", "\nReviewer: I agree\n- Error: `TypeError")
NAME = "reports/example/sample-model-1/smp7q2ka_2026-11-02.md"
DATA = NAME.replace(".md", ".json")
QUOTED = 'every("each second", run=noop, seconds=1)'
FORGED = 'every("each minute", run=noop, minutes=1)'
EXPRESSIONS = {
    "github.token": "gh-test-token",
    "inputs.run": "sample",
    "secrets.CONVEX_DEPLOY_KEY": "",
    "secrets.ANTHROPIC_API_KEY": "",
}


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    result = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return result.stdout.strip()


class Runner:
    """A clone with the merge commit of a pull request checked out, and the variables that Actions sets."""

    def __init__(self, folder: Path, server: GitHubServer) -> None:
        self.folder = folder
        self.server = server
        self.origin = folder / "origin.git"
        self.clone = folder / "clone"
        self.summary = folder / "summary.md"
        git(folder, "init", "--bare", "-q", str(self.origin))
        git(folder, "clone", "-q", str(self.origin), str(self.clone))
        shutil.copytree(ROOT / "reports/example", self.clone / "reports/example")
        for name in ("labels.md", ".gitattributes"):
            shutil.copy(ROOT / "reports" / name, self.clone / "reports" / name)
        for name in (NAME, DATA):
            (self.clone / name).unlink()
        self.commit("earlier report")
        git(self.clone, "push", "-q", "origin", "HEAD:main")
        self.base = git(self.clone, "rev-parse", "HEAD")
        for name in (NAME, DATA):
            shutil.copy(ROOT / name, self.clone / name)
        bin_ = folder / "bin"
        bin_.mkdir()
        pip = bin_ / "pip"
        pip.write_text(f'#!/bin/sh\necho "$@" >> {folder / "installed"}\n')
        pip.chmod(pip.stat().st_mode | stat.S_IXUSR)

    def commit(self, message: str) -> None:
        git(self.clone, "add", "-A")
        git(self.clone, "commit", "-q", "-m", message)

    def edit(self, old: str, new: str, file: str = NAME) -> int:
        """Replace text once and return the number of the changed line."""
        text = (self.clone / file).read_text()
        assert old in text
        (self.clone / file).write_text(text.replace(old, new, 1))
        return text[: text.index(old)].count("\n") + 1

    def run(self, workflow: str, code: int = 0, **changes: str) -> str:
        """Run the `run:` steps of the workflow's job in order and return their output."""
        (job,) = WORKFLOWS[workflow]["jobs"].values()
        out = ""
        steps = [step for step in job["steps"] if "run" in step]
        for number, step in enumerate(steps, 1):
            assert "${{" not in step["run"], "an expression in a script can be injected into"
            environment = {key: self.value(value) for key, value in step.get("env", {}).items()}
            result = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.clone,
                env={**self.environment(), **environment, **changes},
                capture_output=True,
                text=True,
            )
            out += result.stdout
            expected_code = code if number == len(steps) else 0
            assert result.returncode == expected_code, (step, result.stdout[-3000:], result.stderr[-3000:])
        return out

    def value(self, source: str) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: EXPRESSIONS[match[1]], source)

    def environment(self) -> Mapping[str, str]:
        event = self.folder / "event.json"
        event.write_text(json.dumps({"pull_request": {"number": 7, "base": {"sha": self.base}, "title": "::error::x"}}))
        (self.folder / "temp").mkdir(exist_ok=True)
        path = os.pathsep.join((str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
        return {
            "PATH": path,
            "HOME": os.environ["HOME"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # set when testing a work tree other than the installed one
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.server.api,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_REPOSITORY": self.server.repository,
            "GITHUB_SERVER_URL": self.server.root,
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_WORKSPACE": str(self.clone),
            "RUNNER_TEMP": str(self.folder / "temp"),
        }

    @property
    def comment(self) -> str:
        (only,) = self.server.comments[7]
        return str(only["body"])


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with GitHubServer() as server:
        yield Runner(tmp_path, server)


def annotations(out: str) -> list[tuple[str, str, int, str]]:
    """Return level, file, line and message of each annotation, as a runner reads them."""
    matches = re.findall(r"^::(error|warning|notice) file=([^,:]*),line=(\d+),title=[^:]*::(.*)$", out, re.MULTILINE)
    return [(level, file, int(line), message) for level, file, line, message in matches]


def test_documented_workflows_use_safe_triggers_actions_and_permissions() -> None:
    assert list(WORKFLOWS) == ["experiment", "reports-check", "analyze", "review-sync", "pages"]
    for workflow in WORKFLOWS.values():
        assert "pull_request_target" not in str(workflow)
        for step in (step for job in workflow["jobs"].values() for step in job["steps"]):
            assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
    assert "secrets." not in str(WORKFLOWS["reports-check"]) + str(WORKFLOWS["experiment"])
    assert WORKFLOWS["reports-check"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert WORKFLOWS["review-sync"]["permissions"] == WORKFLOWS["experiment"]["permissions"] == {"contents": "read"}


def test_valid_report_gets_one_comment_per_pull_request(runner: Runner) -> None:
    runner.commit("report")
    out = runner.run("reports-check")
    assert annotations(out) == []
    assert "2 reports checked, 0 with problems" in out
    assert "sample-model-1: 10 of 24 evals failed" in runner.comment
    assert OUTCOME in runner.comment
    assert "smp5c1zz" not in runner.comment.partition(OUTCOME)[0], "only what the pull request changes"
    assert "0 with problems" in runner.summary.read_text()
    runner.edit(*REVIEWED)
    runner.commit("review")
    (accepted,) = annotations(runner.run("reports-check"))
    assert accepted[0] == "notice"
    assert "1 finding edited by people; the data is updated when the report is written again" in accepted[3]
    assert len(runner.server.comments[7]) == 1
    assert (runner.folder / "installed").read_text().splitlines() == [
        "install evalscribe[github] @ git+https://git.example/your-team/evalscribe"
    ] * 2


def test_broken_table_and_forged_citation_are_annotated_at_their_lines(runner: Runner) -> None:
    total = runner.edit("13 passed, 10 failed", "13 passed, 9 failed")
    forged = runner.edit(QUOTED, FORGED)
    runner.commit("report")
    out = runner.run("reports-check", code=65)
    marked = annotations(out)
    assert ("error", NAME, forged) in [one[:3] for one in marked]
    assert "forged" in next(message for _, _, line, message in marked if line == forged)
    assert ("error", NAME, total) in [one[:3] for one in marked]
    assert "1 with problems" in runner.comment
    assert f"{NAME}:{forged}" in runner.comment


def test_fork_without_secrets_gets_the_same_check_result(runner: Runner) -> None:
    runner.commit("report")
    runner.server.refuse = lambda request: problem(403, "Resource not accessible by integration")
    out = runner.run("reports-check")
    assert "::notice title=evalscribe::not commented: " in out
    assert OUTCOME in runner.summary.read_text()
    assert f"  | > {OUTCOME}" in out
    line = runner.edit(QUOTED, FORGED)
    runner.commit("forged")
    out = runner.run("reports-check", code=65, GITHUB_TOKEN="")
    assert ("error", NAME, line) in [one[:3] for one in annotations(out)]
    assert "not commented" in out
    assert runner.server.comments == {}


def test_check_without_evidence_reports_quotations_as_not_compared(
    runner: Runner, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = Workspace(runner.clone, InProcessCommand(runner.clone, monkeypatch, capsys))
    workspace.run("analyze", made, "--judge", "rules", "--quiet", "--date", "2026-11-02")
    (report,) = runner.clone.glob("reports/example/sample-model-2/*.md")
    text = report.read_text()
    quoted = next(line for line in text.splitlines() if re.search(r"  (#|//|--) output ", line))
    report.write_text(text.replace(quoted, "forged_by_somebody()" + quoted[quoted.index("  ") :], 1))
    line = text[: text.index(quoted)].count("\n") + 1
    at_hand = workspace.run("reports", "check", report, code=65)
    assert f"{report.relative_to(runner.clone)}:{line}: forged or outdated" in at_hand.out
    shutil.rmtree(runner.clone / ".evalscribe")
    for arguments in ((), ("--fetch",)):
        out = workspace.run("reports", "check", report, *arguments, code=65).out
        assert f":{line}: this line is generated from the data and was changed" in out
        assert "forged or outdated" not in out
        assert "notice: The quotations of 1 report were not compared with the evidence: " in out
    shutil.rmtree(runner.clone / ".evalscribe", ignore_errors=True)
    with_evidence = workspace.run("reports", "check", report, "--evidence", made, code=65)
    assert f":{line}: forged or outdated" in with_evidence.out
    assert not (runner.clone / ".evalscribe").exists(), "a check leaves nothing behind"
    document = json.loads(
        workspace.run("reports", "check", report, "--evidence", made, "--format", "json", code=65).out
    )
    assert {(one["line"], one["level"]) for one in document["problems"]} == {(line, "error")}


def test_analyze_workflow_pushes_the_report_to_a_branch(runner: Runner) -> None:
    runner.commit("report")
    (runner.clone / NAME).unlink()
    (runner.clone / DATA).unlink()
    runner.run("analyze")
    branches = git(runner.origin, "for-each-ref", "--format=%(refname:short)").split()
    (branch,) = set(branches) - {"main"}
    assert "smp7q2ka" in branch
    changed = git(runner.origin, "diff", "--name-only", "main", branch).splitlines()
    assert [name for name in changed if "smp7q2ka" in name]


def test_review_sync_workflow_summarises_merged_corrections(runner: Runner) -> None:
    runner.commit("report")
    runner.edit(*REVIEWED)
    runner.commit("review")
    git(runner.clone, "push", "-q", "origin", "HEAD:main")
    git(runner.clone, "fetch", "-q", "origin")
    runner.run("review-sync")
    assert runner.summary.read_text().startswith("```text\n")
    assert runner.summary.read_text().rstrip().endswith("```")
    assert len(runner.summary.read_text().splitlines()) > 2


HOSTILE = (
    "::error file=x::owned",
    "%0A::error::owned",
    "##[error]owned",
    "::stop-commands::x",
    "@admin ![x](http://h)",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_report_text_cannot_inject_workflow_commands(inside: InProcessCommand, text: str) -> None:
    folder = inside.folder / "reports" / "example" / "m"
    folder.mkdir(parents=True)
    page, data = (ROOT / NAME).read_text(), (ROOT / DATA).read_text()
    pages = {
        "::error file=a,line=1::owned": page.replace("**MODEL_FAULT**", f"**{text}**", 1),
        "smp7q2ka_2026-11-02": page.replace("| Result |", f"| {text} | 7 |\n| Result |"),
    }
    for name, edited in pages.items():
        (folder / f"{name}.md").write_text(edited)
        (folder / f"{name}.json").write_text(data)
    summary = inside.folder / "summary.md"
    summary.touch()
    for output in ("github", "text", "json"):
        environment = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
        out = inside.run("reports", "check", "--format", output, "--comment", code=65, **environment).out
        for line in out.splitlines():
            assert "##[" not in line
            if line.strip().startswith("::"):
                assert output == "github"
                assert re.match(r"::(error|warning|notice) (file=[^,:]*,line=\d+,)?title=evalscribe::", line)
    assert "@admin" not in re.sub(r"`[^`]*`", "", summary.read_text())
    assert "![" not in re.sub(r"`[^`]*`", "", summary.read_text())


def test_ten_errors_are_annotated_and_the_rest_stay_in_the_log(inside: InProcessCommand) -> None:
    folder = inside.folder / "reports" / "example" / "m"
    folder.mkdir(parents=True)
    page, data = (ROOT / NAME).read_text(), (ROOT / DATA).read_text()
    for number in range(14):
        (folder / f"smp{number:05}_2026-11-02.md").write_text(page.replace("**OVERLY_STRICT**", "**OVERLY**", 1))
        (folder / f"smp{number:05}_2026-11-02.json").write_text(data)
    out = inside.run("reports", "check", code=65, GITHUB_ACTIONS="true").out
    assert out.count("\n::error ") + out.startswith("::error ") == 10
    assert "4 more of level error are only in this log" in out
    assert out.count("is not a label") == 14


def test_reports_written_by_people_pass_the_check(inside: InProcessCommand, real_data: Path) -> None:
    for number, report in enumerate(sorted(real_data.rglob("report.md"))):
        folder = inside.folder / "reports" / "someone" / f"m{number}"
        folder.mkdir(parents=True)
        shutil.copy(report, folder / "notes_2026-01-01.md")
    out = inside.run("reports", "check").out
    assert re.search(r"^\d+ reports checked, 0 with problems", out, re.MULTILINE)


def test_fetch_loads_missing_evidence_once(workspace: Workspace, made: Path) -> None:
    from support.convex_server import Deployment, success

    server = Deployment()
    try:
        ids = {run_snapshots.eval_id(n): n for n in range(3)}
        server.answer = lambda path, args: success(
            run_snapshots.summary(3) if path == "/api/query" else run_snapshots.payload(ids[args["evalId"]])
        )
        access = {"CONVEX_DEPLOY_KEY": "prod:a|b"}
        run = run_snapshots.RUN_ID
        workspace.run("analyze", run, "--judge", "rules", "--quiet", "--deployment", server.url, **access)
        shutil.rmtree(workspace.folder / ".evalscribe")
        out = workspace.run("reports", "check", "--fetch", "--deployment", server.url, **access).out
        assert out == "1 report checked, 0 with problems\n"
        requests_before = len(server.requests)
        again = workspace.run("reports", "check", "--fetch", "--deployment", server.url, **access).out
        assert (again, len(server.requests)) == (out, requests_before)
    finally:
        server.close()

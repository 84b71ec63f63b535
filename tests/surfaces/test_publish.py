"""`evalscribe publish` with a bare repository as remote and a GitHub server on loopback."""

import json
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.command import CompletedCommand, InProcessCommand, Workspace
from support.github_server import Answer, GitHubServer, Request, problem
from support.repository_states import WorkingClone, disarrange, git, make_clone, repository_state
from support.waiting import PATIENCE_S, wait_until

SAMPLES = Path(__file__).parents[2] / "reports"
OWN = ["reports/.gitattributes", "reports/labels.md"]
LABEL = "\n**MODEL_FAULT** · Leaves out the empty `args`"
RUN = "smp7q2ka"
BRANCH = f"evalscribe/example/sample-model-1/{RUN}"
REF = f"refs/heads/{BRANCH}"


@dataclass(frozen=True)
class Desk:
    workspace: Workspace
    work: WorkingClone
    server: GitHubServer

    @property
    def report(self) -> Path:
        return next((self.work.folder / "reports/example/sample-model-1").glob(f"{RUN}_*.md"))

    @property
    def path(self) -> str:
        return self.report.relative_to(self.work.folder).as_posix()

    @property
    def files(self) -> list[str]:
        """The page and its data, as paths in the repository."""
        return [self.path.replace(".md", ".json"), self.path]

    @property
    def environment(self) -> dict[str, str]:
        return {"GITHUB_TOKEN": self.server.token, "GITHUB_API_URL": self.server.api}

    def publish(self, *options: str, code: int = 0) -> CompletedCommand:
        return self.workspace.run("publish", RUN, *options, code=code, **self.environment)

    def correct(self, n: int, label: str, note: str = "") -> None:
        self.workspace.run("review", "label", RUN, str(n), label, *(["--note", note] if note else []))

    @property
    def published(self) -> str:
        return self.work.shown(REF, self.path)

    def edited(self, folder: Path, branch: str, old: str, new: str) -> None:
        """Edit the report on a branch in another clone, as a reviewer would, and push it."""
        there = folder if folder.exists() else self.work.other(folder)
        git(there, "fetch", "-q")
        git(there, "switch", "-q", "-C", branch, f"origin/{branch}")
        text = (there / self.path).read_text()
        assert old in text
        (there / self.path).write_text(text.replace(old, new, 1))
        git(there, "commit", "-q", "-a", "-m", "Grace looked")
        git(there, "push", "-q", "origin", branch)

    def merged(self, folder: Path, *how: str) -> None:
        there = folder if folder.exists() else self.work.other(folder)
        git(there, "fetch", "-q")
        git(there, "switch", "-q", "-C", "main", "origin/main")
        git(there, "merge", "-q", *how, f"origin/{BRANCH}")
        if "--squash" in how:
            git(there, "commit", "-q", "-m", "squashed")
        git(there, "push", "-q", "origin", "main")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    work = make_clone(tmp_path)
    shutil.copytree(SAMPLES / "example", work.folder / "reports/example")
    with GitHubServer() as server:
        git(work.folder, "remote", "set-url", "origin", server.url)
        git(work.folder, "config", f"url.{work.remote}.insteadOf", server.url)
        yield Desk(Workspace(work.folder, InProcessCommand(work.folder, monkeypatch, capsys)), work, server)


@pytest.mark.parametrize("seed", range(100, 105))
def test_publish_leaves_the_state_of_the_working_repository_unchanged(desk: Desk, seed: int) -> None:
    before_text, files = desk.report.read_text(), desk.files
    texts = {path: (desk.work.folder / path).read_text() for path in files}
    done = disarrange(desk.work.folder, seed)
    for path, text in texts.items():
        if not (desk.work.folder / path).exists():  # `disarrange` may have stashed it with other new files
            (desk.work.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (desk.work.folder / path).write_text(text)
    before = repository_state(desk.work.folder)
    desk.publish()
    assert repository_state(desk.work.folder) == before, done
    assert desk.published == before_text
    assert sorted(desk.work.refs) == [REF, "refs/heads/main"]
    assert git(desk.work.remote, "diff", "--name-only", "main", BRANCH).split() == sorted([*files, *OWN])
    assert len(desk.server.open) == 1


def test_publish_reports_new_then_unchanged_then_updated(desk: Desk) -> None:
    said = desk.publish("--draft").out
    assert f"Pushed {BRANCH} to origin" in said
    assert f"Pull request (draft): {desk.server.root}/ada/evals/pull/1 (new)" in said
    first = desk.work.refs[REF]
    assert "(unchanged)" in desk.publish().out
    assert desk.work.refs[REF] == first
    desk.correct(1, "AMBIGUOUS_TASK", "the task says nothing about args")
    assert "(updated)" in desk.publish().out
    assert "the task says nothing about args" in desk.published
    assert git(desk.work.remote, "rev-parse", f"{BRANCH}^").strip() == first
    (pull,) = desk.server.open
    assert pull["draft"]
    assert pull["base"]["ref"] == "main"
    assert pull["title"] == f"Analyze sample-model-1, run {RUN}: 10 of 24 evals failed"
    assert "an earlier fix did not hold" in pull["body"]


def test_reviewer_edit_on_the_published_branch_is_kept(desk: Desk, tmp_path: Path) -> None:
    desk.publish()
    reason = "Reviewer: the port is computed"
    desk.edited(tmp_path / "grace", BRANCH, "\n- Error: ", f"\n{reason}\n- Error: ")
    theirs = desk.work.refs[REF]
    local = desk.report.read_text()
    taken_over(desk, desk.publish().out)
    assert reason in desk.report.read_text()
    desk.report.write_text(local)
    assert desk.work.refs[REF] == theirs
    desk.correct(5, "OVERLY_STRICT", "agreed in the meeting")
    mine = desk.report.read_text()
    said = desk.publish().out
    assert "people edited the report on origin" in said
    assert "agreed in the meeting" in desk.published
    assert reason in desk.published
    assert git(desk.work.remote, "rev-parse", f"{BRANCH}^").strip() == theirs
    assert desk.report.read_text() == mine != local
    assert git(desk.work.remote, "log", "-2", "--format=%an", BRANCH).split() == ["Ada", "Grace"]


def taken_over(desk: Desk, said: str) -> None:
    """Run the git command that `publish` advises, while the report is untracked."""
    (advice,) = re.findall(r"To get them: (.*)", said)
    assert desk.report.name in advice
    subprocess.run(advice, shell=True, cwd=desk.work.folder, check=True, capture_output=True)


def test_link_to_an_earlier_report_missing_on_the_remote_is_reported(desk: Desk, tmp_path: Path) -> None:
    earlier = next(path for path in desk.report.parent.iterdir() if path.name.startswith("smp5c1zz"))
    name = earlier.relative_to(desk.work.folder).as_posix()
    assert f"the report links to {name}, which main of origin does not have" in desk.publish().out
    there = desk.work.other(tmp_path / "grace")
    (there / name).parent.mkdir(parents=True)
    (there / name).write_text(earlier.read_text())
    git(there, "add", name)
    git(there, "commit", "-q", "-m", "An earlier report")
    git(there, "push", "-q", "origin", "main")
    assert "links to" not in desk.publish().out


def test_conflicting_labels_are_not_published(desk: Desk, tmp_path: Path) -> None:
    desk.publish()
    desk.edited(tmp_path / "grace", BRANCH, LABEL, LABEL.replace("MODEL_FAULT", "KNOWN_GAP"))
    theirs = desk.work.refs[REF]
    desk.correct(1, "AMBIGUOUS_TASK")
    mine = desk.report.read_text()
    said = desk.publish(code=65).err
    assert BRANCH in said
    assert "line" in said
    assert (desk.work.refs[REF], desk.report.read_text()) == (theirs, mine)


def test_publish_after_a_merge_starts_a_new_branch_from_main(desk: Desk, tmp_path: Path) -> None:
    desk.publish()
    desk.merged(tmp_path / "grace", "--no-ff")
    desk.server.close(1, merged=True)
    assert "main of origin already has this report" in desk.publish().out
    assert not desk.server.open
    desk.edited(tmp_path / "grace", "main", "\n- Error: ", "\nReviewer: seen on main\n- Error: ")
    taken_over(desk, desk.publish().out)
    assert "seen on main" in desk.report.read_text()
    git(desk.work.folder, "pull", "-q", "--ff-only")
    desk.correct(2, "KNOWN_GAP")
    assert "(new)" in desk.publish().out
    assert [pull["number"] for pull in desk.server.open] == [2]
    main = desk.work.refs["refs/heads/main"]
    assert git(desk.work.remote, "rev-parse", f"{BRANCH}^").strip() == main
    git(desk.work.remote, "update-ref", "-d", REF)
    desk.publish()
    assert git(desk.work.remote, "rev-parse", f"{BRANCH}^").strip() == main


def test_publish_after_a_squash_merge_and_an_edit_on_main_merges_cleanly(desk: Desk, tmp_path: Path) -> None:
    """The branch still has commits that main lacks; the next published version must merge without a conflict."""
    desk.publish()
    desk.merged(tmp_path / "grace", "--squash")
    desk.server.close(1, merged=True)
    assert "main of origin already has this report" in desk.publish().out
    desk.edited(tmp_path / "grace", "main", "\n- Error: ", "\nReviewer: seen on main\n- Error: ")
    desk.correct(5, "OVERLY_STRICT", "mine")
    desk.publish()
    assert "Reviewer: seen on main" in desk.published
    assert "Reviewer: mine" in desk.published
    assert git(desk.work.remote, "diff", "--name-only", "main", BRANCH).split() == desk.files
    desk.merged(tmp_path / "grace", "--no-ff")
    assert "main of origin already has this report" in desk.publish().out


def test_concurrent_publishes_create_one_pull_request(desk: Desk) -> None:
    running = [desk.workspace.start("publish", RUN, **desk.environment) for _ in range(2)]
    ended = [(process.communicate(timeout=PATIENCE_S), process.returncode) for process in running]
    assert [code for _, code in ended] == [0, 0], ended
    assert len(desk.server.open) == 1
    assert git(desk.work.remote, "rev-list", "--count", f"main..{BRANCH}").strip() == "1"


def test_killed_publish_succeeds_when_run_again(desk: Desk, tmp_path: Path) -> None:
    hook, reached = desk.work.remote / "hooks/pre-receive", tmp_path / "reached"
    before, killed, over = repository_state(desk.work.folder), threading.Event(), tmp_path / "over"

    def dropped() -> Answer:
        reached.touch()
        killed.wait(PATIENCE_S)
        return Answer(0, None, drop=True)

    def at_the_push() -> None:
        hook.write_text(f"#!/bin/sh\ntouch '{reached}'\nuntil [ -e '{over}' ]; do sleep 0.05; done\n")
        hook.chmod(0o755)

    def after_the_push() -> None:
        hook.unlink()
        desk.server.refuse = lambda request: dropped()

    def after_the_pull_request() -> None:
        def made_but_not_told(request: Request) -> Answer | None:
            if request.method != "POST":
                return None
            desk.server._create_pull(request)
            return dropped()

        desk.server.refuse = made_but_not_told

    for moment in (at_the_push, after_the_push, after_the_pull_request):
        reached.unlink(missing_ok=True)
        killed.clear()
        moment()
        process = desk.workspace.start("publish", RUN, **desk.environment)
        wait_until(lambda it=process: reached.exists() or it.poll() is not None, moment.__name__)
        assert process.poll() is None, (moment.__name__, process.communicate())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed.set()
        over.touch()
        wait_until(lambda: not (desk.work.remote / f"{REF}.lock").exists(), "git's own end")
        assert repository_state(desk.work.folder) == before, moment.__name__
    desk.server.refuse = lambda request: None
    desk.publish()
    assert desk.published == desk.report.read_text()
    assert len(desk.server.open) == 1
    assert repository_state(desk.work.folder) == before
    git(desk.work.folder, "fsck", "--strict")


def test_publish_without_a_token_prints_the_pull_request_url(desk: Desk) -> None:
    said = desk.workspace.run("publish", RUN, GITHUB_API_URL=desk.server.api).out
    assert f"Open its pull request: {desk.server.root}/ada/evals/compare/main...{BRANCH}" in said
    assert "GITHUB_TOKEN" in said
    assert not desk.server.requests
    said = desk.workspace.run("publish", RUN, GITHUB_TOKEN="for-github.com-only").out
    assert "Open its pull request" in said
    assert not desk.server.requests


def test_token_is_not_sent_to_an_api_url_from_a_file_of_the_folder(desk: Desk) -> None:
    (desk.work.folder / "evalscribe.toml").write_text(f'[github]\napi_url = "{desk.server.api}"\n')
    said = desk.workspace.run("publish", RUN, GITHUB_TOKEN=desk.server.token, code=64).err
    assert "the key is not sent there" in said
    assert not desk.server.requests
    assert REF not in desk.work.refs
    desk.workspace.run("publish", RUN, "--api-url", desk.server.api, GITHUB_TOKEN=desk.server.token)
    assert len(desk.server.open) == 1
    (desk.work.folder / ".env").write_text(f"GH_TOKEN={desk.server.token}\n")
    assert "(unchanged)" in desk.workspace.run("publish", RUN).out


def test_branch_stays_pushed_when_github_refuses_the_pull_request(desk: Desk) -> None:
    desk.server.refuse = lambda request: problem(403, "Resource not accessible by integration")
    said = desk.publish(code=77).err
    assert f"the branch {BRANCH} is pushed; open the pull request by hand: http" in said
    assert desk.published == desk.report.read_text()
    assert desk.server.token not in said


def test_refused_push_and_unreachable_remote_are_reported(desk: Desk) -> None:
    hook = desk.work.remote / "hooks/update"
    hook.write_text("#!/bin/sh\necho only robots push here >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "only robots push here" in desk.publish(code=65).err
    git(desk.work.folder, "config", f"url.{desk.work.remote}-gone.insteadOf", desk.server.url)
    git(desk.work.folder, "config", "--unset", f"url.{desk.work.remote}.insteadOf")
    assert "cannot reach origin" in desk.publish(code=69).err
    assert not desk.server.requests


def test_dry_run_prints_the_plan_and_changes_nothing(desk: Desk) -> None:
    before = repository_state(desk.work.folder)
    said = desk.publish("--dry-run").out
    assert f"Branch: {BRANCH} of origin, to be merged into main" in said
    assert f"Files: {desk.path}" in said
    assert "Look first at" in said
    assert repository_state(desk.work.folder) == before
    assert (list(desk.work.refs), desk.server.requests) == (["refs/heads/main"], [])


def test_json_output_is_one_document(desk: Desk) -> None:
    told = json.loads(desk.publish("--json").out)
    assert told["pull_request"]["state"] == "new"
    assert sorted(told["files"]) == sorted([*desk.files, *OWN])
    assert told["commit"] == desk.work.refs[REF]


def test_publish_refuses_foreign_reports_and_folders_without_a_remote(desk: Desk, tmp_path: Path) -> None:
    free = desk.work.folder / "reports/free.md"
    free.write_text("# Why did it fail\n\nNobody knows.\n")
    said = desk.workspace.run("publish", str(free), code=65).err
    assert "free.md is a report that people wrote; evalscribe publishes only its own.\nCommit it with git" in said
    free.write_text(desk.report.read_text())
    assert "cannot be read as a report of evalscribe" in desk.workspace.run("publish", str(free), code=65).err
    outside = tmp_path / "outside.md"
    outside.write_text(desk.report.read_text())
    outside.with_suffix(".json").write_text(desk.report.with_suffix(".json").read_text())
    said = desk.workspace.run("publish", str(outside), code=64).err
    assert said.startswith(f"evalscribe: {tmp_path} is not in a git repository with a working tree.\nWork in a clone")
    desk.workspace.run("publish", "nothing-like-it", code=66)
    assert "remote 'up' not found" in desk.publish("--remote", "up", code=64).err
    git(desk.work.folder, "remote", "remove", "origin")
    assert "has no remote" in desk.publish(code=64).err


def test_new_analysis_is_published_on_top_of_reviewer_edits(desk: Desk, tmp_path: Path) -> None:
    """The branch has reviewer edits that the local file lacks."""
    desk.publish()
    desk.edited(tmp_path / "grace", BRANCH, "\n- Error: ", "\nReviewer: I looked\n- Error: ")
    desk.workspace.run("analyze", "sample", "--judge", "rules", "--quiet")
    desk.publish()
    assert "Reviewer: I looked" in desk.published


def test_crlf_line_endings_are_not_published_as_an_edit(desk: Desk) -> None:
    text = desk.report.read_bytes()
    desk.report.write_bytes(text.replace(b"\n", b"\r\n"))
    desk.publish()
    shown = ["git", "cat-file", "-p", f"{BRANCH}:{desk.path}"]
    assert subprocess.run(shown, cwd=desk.work.remote, capture_output=True).stdout == text

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
class PublishContext:
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
        clone = folder if folder.exists() else self.work.other(folder)
        git(clone, "fetch", "-q")
        git(clone, "switch", "-q", "-C", branch, f"origin/{branch}")
        text = (clone / self.path).read_text()
        assert old in text
        (clone / self.path).write_text(text.replace(old, new, 1))
        git(clone, "commit", "-q", "-a", "-m", "Grace looked")
        git(clone, "push", "-q", "origin", branch)

    def merged(self, folder: Path, *how: str) -> None:
        clone = folder if folder.exists() else self.work.other(folder)
        git(clone, "fetch", "-q")
        git(clone, "switch", "-q", "-C", "main", "origin/main")
        git(clone, "merge", "-q", *how, f"origin/{BRANCH}")
        if "--squash" in how:
            git(clone, "commit", "-q", "-m", "squashed")
        git(clone, "push", "-q", "origin", "main")


@pytest.fixture
def context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[PublishContext]:
    work = make_clone(tmp_path)
    shutil.copytree(SAMPLES / "example", work.folder / "reports/example")
    with GitHubServer() as server:
        git(work.folder, "remote", "set-url", "origin", server.url)
        git(work.folder, "config", f"url.{work.remote}.insteadOf", server.url)
        yield PublishContext(Workspace(work.folder, InProcessCommand(work.folder, monkeypatch, capsys)), work, server)


@pytest.mark.parametrize("seed", range(100, 105))
def test_publish_leaves_the_state_of_the_working_repository_unchanged(context: PublishContext, seed: int) -> None:
    before_text, files = context.report.read_text(), context.files
    texts = {path: (context.work.folder / path).read_text() for path in files}
    changes = disarrange(context.work.folder, seed)
    for path, text in texts.items():
        if not (context.work.folder / path).exists():  # `disarrange` may have stashed it with other new files
            (context.work.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (context.work.folder / path).write_text(text)
    before = repository_state(context.work.folder)
    context.publish()
    assert repository_state(context.work.folder) == before, changes
    assert context.published == before_text
    assert sorted(context.work.refs) == [REF, "refs/heads/main"]
    assert git(context.work.remote, "diff", "--name-only", "main", BRANCH).split() == sorted([*files, *OWN])
    assert len(context.server.open) == 1


def test_publish_reports_new_then_unchanged_then_updated(context: PublishContext) -> None:
    output = context.publish("--draft").out
    assert f"Pushed {BRANCH} to origin" in output
    assert f"Pull request (draft): {context.server.root}/ada/evals/pull/1 (new)" in output
    first = context.work.refs[REF]
    assert "(unchanged)" in context.publish().out
    assert context.work.refs[REF] == first
    context.correct(1, "AMBIGUOUS_TASK", "the task says nothing about args")
    assert "(updated)" in context.publish().out
    assert "the task says nothing about args" in context.published
    assert git(context.work.remote, "rev-parse", f"{BRANCH}^").strip() == first
    (pull,) = context.server.open
    assert pull["draft"]
    assert pull["base"]["ref"] == "main"
    assert pull["title"] == f"Analyze sample-model-1, run {RUN}: 10 of 24 evals failed"
    assert "an earlier fix did not hold" in pull["body"]


def test_reviewer_edit_on_the_published_branch_is_kept(context: PublishContext, tmp_path: Path) -> None:
    context.publish()
    reason = "Reviewer: the port is computed"
    context.edited(tmp_path / "grace", BRANCH, "\n- Error: ", f"\n{reason}\n- Error: ")
    theirs = context.work.refs[REF]
    local = context.report.read_text()
    run_advice(context, context.publish().out)
    assert reason in context.report.read_text()
    context.report.write_text(local)
    assert context.work.refs[REF] == theirs
    context.correct(5, "OVERLY_STRICT", "agreed in the meeting")
    mine = context.report.read_text()
    output = context.publish().out
    assert "people edited the report on origin" in output
    assert "agreed in the meeting" in context.published
    assert reason in context.published
    assert git(context.work.remote, "rev-parse", f"{BRANCH}^").strip() == theirs
    assert context.report.read_text() == mine != local
    assert git(context.work.remote, "log", "-2", "--format=%an", BRANCH).split() == ["Ada", "Grace"]


def run_advice(context: PublishContext, output: str) -> None:
    """Run the git command that `publish` advises, while the report is untracked."""
    (advice,) = re.findall(r"To get them: (.*)", output)
    assert context.report.name in advice
    subprocess.run(advice, shell=True, cwd=context.work.folder, check=True, capture_output=True)


def test_link_to_an_earlier_report_missing_on_the_remote_is_reported(context: PublishContext, tmp_path: Path) -> None:
    earlier = next(path for path in context.report.parent.iterdir() if path.name.startswith("smp5c1zz"))
    name = earlier.relative_to(context.work.folder).as_posix()
    assert f"the report links to {name}, which main of origin does not have" in context.publish().out
    clone = context.work.other(tmp_path / "grace")
    (clone / name).parent.mkdir(parents=True)
    (clone / name).write_text(earlier.read_text())
    git(clone, "add", name)
    git(clone, "commit", "-q", "-m", "An earlier report")
    git(clone, "push", "-q", "origin", "main")
    assert "links to" not in context.publish().out


def test_conflicting_labels_are_not_published(context: PublishContext, tmp_path: Path) -> None:
    context.publish()
    context.edited(tmp_path / "grace", BRANCH, LABEL, LABEL.replace("MODEL_FAULT", "KNOWN_GAP"))
    theirs = context.work.refs[REF]
    context.correct(1, "AMBIGUOUS_TASK")
    mine = context.report.read_text()
    output = context.publish(code=65).err
    assert BRANCH in output
    assert "line" in output
    assert (context.work.refs[REF], context.report.read_text()) == (theirs, mine)


def test_publish_after_a_merge_starts_a_new_branch_from_main(context: PublishContext, tmp_path: Path) -> None:
    context.publish()
    context.merged(tmp_path / "grace", "--no-ff")
    context.server.close(1, merged=True)
    assert "main of origin already has this report" in context.publish().out
    assert not context.server.open
    context.edited(tmp_path / "grace", "main", "\n- Error: ", "\nReviewer: seen on main\n- Error: ")
    run_advice(context, context.publish().out)
    assert "seen on main" in context.report.read_text()
    git(context.work.folder, "pull", "-q", "--ff-only")
    context.correct(2, "KNOWN_GAP")
    assert "(new)" in context.publish().out
    assert [pull["number"] for pull in context.server.open] == [2]
    main = context.work.refs["refs/heads/main"]
    assert git(context.work.remote, "rev-parse", f"{BRANCH}^").strip() == main
    git(context.work.remote, "update-ref", "-d", REF)
    context.publish()
    assert git(context.work.remote, "rev-parse", f"{BRANCH}^").strip() == main


def test_publish_after_a_squash_merge_and_an_edit_on_main_merges_cleanly(
    context: PublishContext, tmp_path: Path
) -> None:
    """The branch still has commits that main lacks; the next published version must merge without a conflict."""
    context.publish()
    context.merged(tmp_path / "grace", "--squash")
    context.server.close(1, merged=True)
    assert "main of origin already has this report" in context.publish().out
    context.edited(tmp_path / "grace", "main", "\n- Error: ", "\nReviewer: seen on main\n- Error: ")
    context.correct(5, "OVERLY_STRICT", "mine")
    context.publish()
    assert "Reviewer: seen on main" in context.published
    assert "Reviewer: mine" in context.published
    assert git(context.work.remote, "diff", "--name-only", "main", BRANCH).split() == context.files
    context.merged(tmp_path / "grace", "--no-ff")
    assert "main of origin already has this report" in context.publish().out


def test_concurrent_publishes_create_one_pull_request(context: PublishContext) -> None:
    running = [context.workspace.start("publish", RUN, **context.environment) for _ in range(2)]
    results = [(process.communicate(timeout=PATIENCE_S), process.returncode) for process in running]
    assert [code for _, code in results] == [0, 0], results
    assert len(context.server.open) == 1
    assert git(context.work.remote, "rev-list", "--count", f"main..{BRANCH}").strip() == "1"


def test_killed_publish_succeeds_when_run_again(context: PublishContext, tmp_path: Path) -> None:
    hook, reached = context.work.remote / "hooks/pre-receive", tmp_path / "reached"
    before, killed, over = repository_state(context.work.folder), threading.Event(), tmp_path / "over"

    def dropped() -> Answer:
        reached.touch()
        killed.wait(PATIENCE_S)
        return Answer(0, None, drop=True)

    def at_the_push() -> None:
        hook.write_text(f"#!/bin/sh\ntouch '{reached}'\nuntil [ -e '{over}' ]; do sleep 0.05; done\n")
        hook.chmod(0o755)

    def after_the_push() -> None:
        hook.unlink()
        context.server.refuse = lambda request: dropped()

    def after_the_pull_request() -> None:
        def made_but_not_told(request: Request) -> Answer | None:
            if request.method != "POST":
                return None
            context.server._create_pull(request)
            return dropped()

        context.server.refuse = made_but_not_told

    for moment in (at_the_push, after_the_push, after_the_pull_request):
        reached.unlink(missing_ok=True)
        killed.clear()
        moment()
        process = context.workspace.start("publish", RUN, **context.environment)
        wait_until(lambda it=process: reached.exists() or it.poll() is not None, moment.__name__)
        assert process.poll() is None, (moment.__name__, process.communicate())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed.set()
        over.touch()
        wait_until(lambda: not (context.work.remote / f"{REF}.lock").exists(), "git's own end")
        assert repository_state(context.work.folder) == before, moment.__name__
    context.server.refuse = lambda request: None
    context.publish()
    assert context.published == context.report.read_text()
    assert len(context.server.open) == 1
    assert repository_state(context.work.folder) == before
    git(context.work.folder, "fsck", "--strict")


def test_publish_without_a_token_prints_the_pull_request_url(context: PublishContext) -> None:
    output = context.workspace.run("publish", RUN, GITHUB_API_URL=context.server.api).out
    assert f"Open its pull request: {context.server.root}/ada/evals/compare/main...{BRANCH}" in output
    assert "GITHUB_TOKEN" in output
    assert not context.server.requests
    output = context.workspace.run("publish", RUN, GITHUB_TOKEN="for-github.com-only").out
    assert "Open its pull request" in output
    assert not context.server.requests


def test_token_is_not_sent_to_an_api_url_from_a_file_of_the_folder(context: PublishContext) -> None:
    (context.work.folder / "evalscribe.toml").write_text(f'[github]\napi_url = "{context.server.api}"\n')
    error = context.workspace.run("publish", RUN, GITHUB_TOKEN=context.server.token, code=64).err
    assert "the key is not sent to that host" in error
    assert not context.server.requests
    assert REF not in context.work.refs
    context.workspace.run("publish", RUN, "--api-url", context.server.api, GITHUB_TOKEN=context.server.token)
    assert len(context.server.open) == 1
    (context.work.folder / ".env").write_text(f"GH_TOKEN={context.server.token}\n")
    assert "(unchanged)" in context.workspace.run("publish", RUN).out


def test_branch_stays_pushed_when_github_refuses_the_pull_request(context: PublishContext) -> None:
    context.server.refuse = lambda request: problem(403, "Resource not accessible by integration")
    error = context.publish(code=77).err
    assert f"the branch {BRANCH} is pushed; open the pull request by hand: http" in error
    assert context.published == context.report.read_text()
    assert context.server.token not in error


def test_refused_push_and_unreachable_remote_are_reported(context: PublishContext) -> None:
    hook = context.work.remote / "hooks/update"
    hook.write_text("#!/bin/sh\necho only robots push here >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "only robots push here" in context.publish(code=65).err
    git(context.work.folder, "config", f"url.{context.work.remote}-gone.insteadOf", context.server.url)
    git(context.work.folder, "config", "--unset", f"url.{context.work.remote}.insteadOf")
    assert "cannot reach origin" in context.publish(code=69).err
    assert not context.server.requests


def test_dry_run_prints_the_plan_and_changes_nothing(context: PublishContext) -> None:
    before = repository_state(context.work.folder)
    output = context.publish("--dry-run").out
    assert f"Branch: {BRANCH} of origin, to be merged into main" in output
    assert f"Files: {context.path}" in output
    assert "Look first at" in output
    assert repository_state(context.work.folder) == before
    assert (list(context.work.refs), context.server.requests) == (["refs/heads/main"], [])


def test_json_output_is_one_document(context: PublishContext) -> None:
    document = json.loads(context.publish("--json").out)
    assert document["pull_request"]["state"] == "new"
    assert sorted(document["files"]) == sorted([*context.files, *OWN])
    assert document["commit"] == context.work.refs[REF]


def test_publish_refuses_foreign_reports_and_folders_without_a_remote(context: PublishContext, tmp_path: Path) -> None:
    free = context.work.folder / "reports/free.md"
    free.write_text("# Why did it fail\n\nNobody knows.\n")
    error = context.workspace.run("publish", str(free), code=65).err
    assert (
        "free.md was written by a person; evalscribe publishes only reports that it wrote itself.\nCommit it with git"
        in error
    )
    free.write_text(context.report.read_text())
    assert "is not a report that evalscribe can read" in context.workspace.run("publish", str(free), code=65).err
    outside = tmp_path / "outside.md"
    outside.write_text(context.report.read_text())
    outside.with_suffix(".json").write_text(context.report.with_suffix(".json").read_text())
    error = context.workspace.run("publish", str(outside), code=64).err
    assert error.startswith(f"evalscribe: {tmp_path} is not in a git repository with a working tree.\nWork in a clone")
    context.workspace.run("publish", "nothing-like-it", code=66)
    assert "remote 'up' not found" in context.publish("--remote", "up", code=64).err
    git(context.work.folder, "remote", "remove", "origin")
    assert "has no remote" in context.publish(code=64).err


def test_new_analysis_is_published_on_top_of_reviewer_edits(context: PublishContext, tmp_path: Path) -> None:
    """The branch has reviewer edits that the local file lacks."""
    context.publish()
    context.edited(tmp_path / "grace", BRANCH, "\n- Error: ", "\nReviewer: I looked\n- Error: ")
    context.workspace.run("analyze", "sample", "--judge", "rules", "--quiet")
    context.publish()
    assert "Reviewer: I looked" in context.published


def test_crlf_line_endings_are_not_published_as_an_edit(context: PublishContext) -> None:
    text = context.report.read_bytes()
    context.report.write_bytes(text.replace(b"\n", b"\r\n"))
    context.publish()
    shown = ["git", "cat-file", "-p", f"{BRANCH}:{context.path}"]
    assert subprocess.run(shown, cwd=context.work.remote, capture_output=True).stdout == text

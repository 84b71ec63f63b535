"""The `evalscribe view` command: start, invalid arguments, shutdown, and the bundle folder."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import Workspace, end
from support.repository_states import git
from support.served_page import ServedPage, serving

REPORT = "smp7q2ka_2026-11-02.md"


@pytest.fixture
def open_connections(page: ServedPage) -> Iterator[None]:
    """Three open connections: one idle, one with half a request sent, one with half a body sent."""
    cookie = page.sign_in()
    head = f"POST /decide HTTP/1.1\r\nHost: {page.host}\r\nCookie: {cookie}\r\nX-Evalscribe-Token: {page.token}\r\n"
    texts = ("", "GET / HT", f"{head}Content-Length: 100\r\n\r\n{{")
    connections = [page.connect() for _ in texts]
    for connection, text in zip(connections, texts, strict=True):
        connection.sendall(text.encode())
    assert page.request("GET", "/", ("Host", page.host), ("Cookie", cookie)).status == 200
    yield
    for connection in connections:
        connection.close()


@pytest.mark.usefixtures("open_connections")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_stops_the_server_despite_open_connections(number: signal.Signals, code: int, page: ServedPage) -> None:
    result, _ = end(page.process, number)
    assert result.code == code
    assert "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) <= 2


def test_error_names_the_port_already_in_use(page: ServedPage, sample: Path) -> None:
    result = Workspace(sample).run("view", "--no-open", "--port", str(page.port), code=69)
    assert result.err.strip() == (
        f"evalscribe: port {page.port} cannot be used: Address already in use; --port 0 selects a free one"
    )
    assert page.request("GET", "/", ("Host", page.host)).status == 403


def inbox_html(folder: Path, *arguments: str | Path) -> str:
    """Start `view` with these arguments and return the HTML of the inbox."""
    with serving(folder, *arguments) as served:
        answer = served.request("GET", "/", ("Host", served.host), ("Cookie", served.sign_in()))
        assert answer.status == 200
        return answer.body.decode()


def test_view_without_git_and_reports_shows_an_empty_inbox(tmp_path: Path) -> None:
    assert "Nothing to decide" in inbox_html(tmp_path)
    assert list(tmp_path.iterdir()) == [], "looking makes no store and no folder"


def test_view_outside_git_shows_findings_and_creates_no_store(sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "outside"
    shutil.copytree(sample / "reports", folder / "reports")
    page = inbox_html(folder)
    assert "to decide</h1>" in page
    assert not (folder / ".evalscribe").exists()


def test_view_is_limited_to_the_given_run_report_or_folder(sample: Path, tmp_path: Path) -> None:
    run = "smp7q2kax0d4m81v"
    (report,) = (sample / "reports").glob(f"*/*/{REPORT}")
    below = report.relative_to(sample)
    other = sample / "reports/other/model"
    other.mkdir(parents=True)
    for suffix in (".md", ".json"):
        text = report.with_suffix(suffix).read_text("utf-8").replace(run, "smp9other0d4m81v")
        (other / f"smp9othe_2026-11-02{suffix}").write_text(text, "utf-8")
    both, one = 'data-run="smp9other0d4m81v"', f'data-run="{run}"'
    everything = inbox_html(sample)
    assert both in everything
    assert one in everything
    for argument in (run, run[:8], below, report, below.parent, "reports/example"):
        shown = inbox_html(sample, argument)
        assert one in shown, argument
        assert both not in shown, argument
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert one in inbox_html(elsewhere, "--reports", sample / "reports")
    assert one in inbox_html(elsewhere, run, "--reports", sample / "reports")


@pytest.mark.parametrize("unknown", ["smp7q2kb", "nothing", "no/such/report.md", "x" * 5000, "../outside"])
def test_unknown_run_exits_with_code_66(unknown: str, sample: Path) -> None:
    result = Workspace(sample).run("view", "--no-open", unknown, code=66)
    assert "Traceback" not in result.err
    if unknown == "smp7q2kb":
        assert "smp7q2ka" in result.err, "the nearest is named"


def write_bundle(sample: Path, folder: Path, code: int = 0) -> str:
    return Workspace(sample).run("view", "--bundle", folder, code=code).err


def test_bundle_is_rewritten_but_never_replaces_other_files(sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "bundle"
    write_bundle(sample, folder)
    first = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (folder / "run" / "stale.html").write_text("x")
    write_bundle(sample, folder)
    assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == first
    git(folder, "init", "-q")  # as when the bundle is published from a branch
    assert ".git" in write_bundle(sample, folder, code=65)
    assert (folder / ".git/HEAD").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("x")
    assert "has files that do not belong to a bundle" in write_bundle(sample, other, code=65)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]
    assert "is not a folder" in write_bundle(sample, other / "thesis.txt", code=65)


def test_bundle_is_written_to_the_current_folder_and_through_a_symlink(sample: Path, tmp_path: Path) -> None:
    here, link = tmp_path / "here", tmp_path / "link"
    here.mkdir()
    link.symlink_to(here)
    for _ in range(2):
        Workspace(here).run("view", "--bundle", ".", "--reports", sample / "reports")
        write_bundle(sample, link)
    assert link.is_symlink()
    assert (here / "index.html").is_file()


def test_unwritable_bundle_folder_is_reported_without_traceback(sample: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        closed = Path("/proc/self")  # root can write to every other folder
    else:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
    result = Workspace(sample).start("view", "--bundle", closed / "bundle")
    _, errors = result.communicate()
    assert result.returncode in (65, 77)
    assert "cannot write" in errors
    assert "Traceback" not in errors


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk")
def test_full_disk_leaves_no_partial_bundle(sample: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        folder = disk / "bundle"
        write_bundle(sample, folder, code=69)
        assert list(disk.rglob("*.html")) == [], "what was begun is removed"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_bundle_and_port_options_together_are_refused(sample: Path) -> None:
    result = Workspace(sample).run("view", "--bundle", "x", "--port", "8000", code=64)
    assert "leave out --port" in result.err

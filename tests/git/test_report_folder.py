"""Finding reports under any spelling of the model, and writing them whole and only inside the folder."""

import errno
import os
from pathlib import Path

import pytest

from evalscribe.errors import AccessError, DataError, EvalscribeError, UnavailableError, write_error
from evalscribe.git.report_folder import ReportsFolder


@pytest.fixture
def folder(tmp_path: Path) -> ReportsFolder:
    return ReportsFolder(tmp_path / "reports")


def test_report_is_written_into_new_folders_and_read_back(folder: ReportsFolder) -> None:
    path = folder.write("openai/gpt-5/a_2026-01-01.md", "text é\n")
    (report,) = folder.all()
    assert path == report.path == folder.root.resolve() / "openai/gpt-5/a_2026-01-01.md"
    assert (report.name, report.text) == ("openai/gpt-5/a_2026-01-01.md", "text é\n")
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_data_may_be_larger_than_a_page(folder: ReportsFolder) -> None:
    """The data of 10,000 failures takes 17 MB."""
    page, data = "---\nkind: evalscribe-report/2\n---\n", " " * 17_000_000
    folder.write("p/m/a_2026-01-01.json", data)
    folder.write("p/m/a_2026-01-01.md", page)
    (report,) = folder.all()
    assert report.data == data
    folder.write("p/m/a_2026-01-01.md", page + data)
    assert list(folder.all()) == []


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_rewriting_keeps_permissions_and_leaves_no_temporary_file(folder: ReportsFolder) -> None:
    path = folder.write("p/m/a.md", "one")
    path.chmod(0o640)
    folder.write("p/m/a.md", "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == ["a.md"]


@pytest.mark.parametrize(
    ("provider", "model", "names"),
    [
        ("google", "gemini-3.1-pro", ["google/gemini-3-1-pro/a.md", "google/gemini-3.1-pro/b.md"]),
        ("google", "google/gemini-3-1-pro", ["google/gemini-3-1-pro/a.md", "google/gemini-3.1-pro/b.md"]),
        ("openrouter", "arcee-ai/trinity", ["openrouter/arcee-ai/trinity/c.md"]),
        ("openrouter", "arcee-ai", []),
        ("google", "gemini", []),
    ],
)
def test_reports_of_a_model_are_found_by_any_spelling(
    folder: ReportsFolder, provider: str, model: str, names: list[str]
) -> None:
    for name in (
        "google/gemini-3-1-pro/a.md",
        "google/gemini-3.1-pro/b.md",
        "openrouter/arcee-ai/trinity/c.md",
        "README.md",
        "google/README.md",
    ):
        folder.write(name, "x")
    assert [report.name for report in folder.of_model(provider, model)] == names


@pytest.mark.parametrize(
    ("provider", "model", "names"),
    [
        (
            "anthropic",
            "anthropic/claude-4.6",
            [
                "anthropic/claude-4-6/a.md",
                "google-vertex/anthropic/claude-4.6/b.md",
                "openrouter/claude-4-6/c.md",
                "somebody/claude-4.6/d.md",
            ],
        ),
        (
            "anthropic",
            "claude-4-6",
            [
                "anthropic/claude-4-6/a.md",
                "google-vertex/anthropic/claude-4.6/b.md",
                "openrouter/claude-4-6/c.md",
            ],
        ),
        ("other", "other/claude-4.6", ["openrouter/claude-4-6/c.md", "other/claude-4.6/e.md"]),
        ("other", "claude-4.6", ["openrouter/claude-4-6/c.md", "other/claude-4.6/e.md"]),
        ("openrouter", "unknown-model", ["openrouter/unknown-model/f.md"]),
        ("anthropic", "anthropic/claude", []),
    ],
)
def test_reports_of_a_model_are_found_under_vendor_and_serving_provider(
    folder: ReportsFolder, provider: str, model: str, names: list[str]
) -> None:
    for name in (
        "anthropic/claude-4-6/a.md",
        "google-vertex/anthropic/claude-4.6/b.md",
        "openrouter/claude-4-6/c.md",
        "somebody/claude-4.6/d.md",
        "other/claude-4.6/e.md",
        "openrouter/unknown-model/f.md",
        "azure/unknown-model/g.md",
    ):
        vendor = name.partition("/")[0]
        folder.write(name, "Model: anthropic/claude-4-6" if vendor == "somebody" else "x")
    assert [report.name for report in folder.of_model(provider, model)] == names


def test_reports_of_a_run_are_found_in_any_folder(folder: ReportsFolder) -> None:
    run_id = "jn7em9ag4xxa9s37nhh83rxw913phxtt"
    for name, text in (
        ("old/place/jn7em9ag_2026-11-02.md", f"Run {run_id}"),
        ("old/place/jn7em9_2026-11-02.md", f"Run {run_id}"),
        ("old/place/jn7em9ag_2026-11-03.md", "another run of this prefix"),
        ("old/place/notes.md", f"mentions {run_id}"),
    ):
        folder.write(name, text)
    report_names = [report.name for report in folder.of_model("p", "m", run_id)]
    assert report_names == ["old/place/jn7em9_2026-11-02.md", "old/place/jn7em9ag_2026-11-02.md"]
    assert folder.of_model("p", "m") == []


def test_only_regular_markdown_files_are_read_as_reports(folder: ReportsFolder, tmp_path: Path) -> None:
    folder.write("p/m/a.md", "a")
    model_folder = folder.root / "p/m"
    (model_folder / "latin.md").write_bytes(b"caf\xe9")
    (model_folder / "bom.md").write_bytes(b"\xef\xbb\xbf---\n")
    (model_folder / "note.txt").write_text("x")
    (model_folder / ".hidden.md").write_text("x")
    (model_folder / "folder.md").mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (model_folder / "link.md").symlink_to(tmp_path / "secret.md")
    (model_folder / "gone.md").symlink_to(model_folder / "nothing.md")
    os.mkfifo(model_folder / "pipe.md")
    texts = {report.path.name: report.text for report in folder.all()}
    assert texts == {"a.md": "a", "latin.md": "caf\ufffd", "bom.md": "---\n"}


def test_missing_folder_has_no_reports(folder: ReportsFolder) -> None:
    assert list(folder.all()) == []
    assert folder.of_model("p", "m") == []


@pytest.mark.parametrize("name", ["../a.md", "/etc/a.md", "p/../../a.md", "", "a\0.md", "..\\a.md"])
def test_report_name_outside_the_folder_is_refused(folder: ReportsFolder, name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        folder.write(name, "x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_link_out_of_the_folder_is_refused(folder: ReportsFolder, tmp_path: Path) -> None:
    folder.write("p/m/a.md", "a")
    (tmp_path / "outside").mkdir()
    (folder.root / "q").symlink_to(tmp_path / "outside")
    (folder.root / "p/m/b.md").symlink_to(tmp_path / "outside/b.md")
    (folder.root / "p/m/loop.md").symlink_to(folder.root / "p/m/loop.md")
    for name in ("q/m/a.md", "p/m/b.md", "p/m/loop.md"):
        with pytest.raises(DataError):
            folder.write(name, "x")
    assert os.listdir(tmp_path / "outside") == []


def test_link_within_the_folder_is_followed(folder: ReportsFolder) -> None:
    target = folder.write("p/m/a.md", "a")
    (folder.root / "p/m/b.md").symlink_to(target)
    assert folder.write("p/m/b.md", "new") == target
    assert target.read_text() == "new"
    assert (folder.root / "p/m/b.md").is_symlink()


def test_writing_below_an_existing_file_is_refused(folder: ReportsFolder) -> None:
    folder.write("p/m.md", "a")
    with pytest.raises(DataError, match="cannot write"):
        folder.write("p/m.md/a.md", "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_write_permission_raises_access_error(folder: ReportsFolder) -> None:
    folder.write("p/m/a.md", "a")
    (folder.root / "p/m").chmod(0o500)
    with pytest.raises(AccessError):
        folder.write("p/m/b.md", "x")


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.EACCES, AccessError, "writable"),
        (errno.EROFS, AccessError, "writable"),
        (errno.ENOSPC, UnavailableError, "Make room"),
        (errno.EDQUOT, UnavailableError, "Make room"),
        (errno.ENAMETOOLONG, DataError, ""),
    ],
)
def test_write_error_has_the_class_and_advice_of_its_errno(
    number: int, kind: type[EvalscribeError], advice: str
) -> None:
    error = write_error("cannot write r.md", OSError(number, os.strerror(number)), "Make it writable.")
    assert type(error) is kind
    assert str(error).startswith(f"cannot write r.md: {os.strerror(number)}")
    assert advice in str(error)

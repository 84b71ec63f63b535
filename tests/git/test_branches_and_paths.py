"""Branch tips and links as read from a repository."""

from pathlib import Path

from evalscribe.git.repository import open_repository
from support.suite_repository import SuiteRepository


def test_branch_tip_has_commit_message_and_changed_files(tmp_path: Path) -> None:
    suite = SuiteRepository(tmp_path / "suite")
    repository = open_repository(suite.root)
    first = repository.tip("main")
    assert first is not None
    assert (first.commit, first.message.strip()) == (suite.git("rev-parse", "main"), "The suite")
    assert "ruff.toml" in first.files
    suite.write("ä b/ruff.toml", "x")
    suite.git("mv", "ruff.toml", "renamed.toml")
    suite.save("Subject\n\nBody\n\nKey: value")
    tip = repository.tip("main")
    assert tip is not None
    assert tip.message.strip() == "Subject\n\nBody\n\nKey: value"
    assert set(tip.files) == {"ä b/ruff.toml", "ruff.toml", "renamed.toml"}
    assert repository.tip("no/such") is None
    assert repository.tip("--all") is None


def test_symlinks_and_submodules_are_listed_as_links_and_not_as_files(tmp_path: Path) -> None:
    suite = SuiteRepository(tmp_path / "suite")
    (suite.root / "style/link").symlink_to("../README.md")
    commit = suite.save()
    suite.git("update-index", "--add", "--cacheinfo", f"160000,{commit},vendored")
    suite.git("commit", "-q", "-m", "A submodule")
    repository = open_repository(suite.root)
    assert repository.links(repository.head()) == ("style/link", "vendored")
    assert not {"style/link", "vendored"} & set(repository.files(repository.head()))

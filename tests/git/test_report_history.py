"""Versions of a report with their authors, read from real repositories."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from evalscribe.errors import DataError, UsageError
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.model.repository import FileVersion
from support.machine_speed import slowness
from support.report_clones import Clone, clone_of_server, git, repository_without_remote

NAME = "p/m/a.md"
BODY = "".join(f"line {number}\n" for number in range(20))


@pytest.fixture
def work(tmp_path: Path) -> Clone:
    return repository_without_remote(tmp_path)


def versions(clone: Clone, name: str = NAME, ref: str | None = None) -> list[FileVersion]:
    return list(ReportsFolder(clone.reports).versions(name, ref))


def authors_and_texts(clone: Clone, name: str = NAME) -> list[tuple[str, str | None]]:
    return [(version.author, version.text) for version in versions(clone, name)]


def test_versions_are_listed_oldest_first_with_author_and_date(work: Clone) -> None:
    first = work.commit("one", day="2026-11-01")
    work.commit("elsewhere", name="p/m/b.md")
    second = work.commit("two", "Ben Ö", day="2026-11-02")
    assert versions(work) == [
        FileVersion(commit=first, author="Ada", email="ada@example.org", date="2026-11-01", text="one"),
        FileVersion(
            commit=second,
            author="Ben Ö",
            email="ben.ö@example.org",
            date="2026-11-02",
            text="two",
            before=(first,),
            age=2,
        ),
    ]


def test_version_has_the_data_of_its_commit(work: Clone) -> None:
    page = "---\nkind: evalscribe-report/2\n---\n"
    data = work.reports / "p/m/a.json"
    data.parent.mkdir(parents=True)
    data.write_text("old")
    work.commit(page)
    work.commit(f"{page}corrected\n", "Ben")
    data.write_text("new")
    work.commit(f"{page}written again\n")
    work.git("mv", "reports/p/m/a.md", "reports/p/m/b.md")
    work.git("mv", "reports/p/m/a.json", "reports/p/m/b.json")
    work.commit_staged()
    assert [version.data for version in versions(work, "p/m/b.md")] == ["old", "old", "new"]
    data.with_name("b.json").unlink()
    work.commit("---\nkind: evalscribe-report/2\n---\nwithout\n", name="p/m/b.md")
    assert [version.data for version in versions(work, "p/m/b.md")] == ["old", "old", "new", None]


def test_mailmap_merges_two_addresses_of_one_person(work: Clone) -> None:
    work.commit("one", "ada lovelace")
    (work.folder / ".mailmap").write_text("Ada <ada@example.org> <ada.lovelace@example.org>\n")
    work.commit("two")
    assert [(version.author, version.email) for version in versions(work)] == [("Ada", "ada@example.org")] * 2


def test_email_is_lowercased_and_replaced_by_the_name_if_empty(work: Clone) -> None:
    for number, (who, email) in enumerate((("Ada", "Ada@Example.org"), ("Ben", ""), ("Cy", ""))):
        (work.reports / "p/m").mkdir(parents=True, exist_ok=True)
        (work.reports / NAME).write_text(f"{number}\n")
        work.git("add", ".")
        git(work.folder, "commit", "-qm", "x", env={"GIT_AUTHOR_NAME": who, "GIT_AUTHOR_EMAIL": email})
    assert [(version.author, version.email) for version in versions(work)] == [
        ("Ada", "ada@example.org"),
        ("Ben", "Ben"),
        ("Cy", "Cy"),
    ]


@pytest.mark.parametrize(
    ("author", "others", "expected"),
    [
        ("ci[bot]", ["Ben Ö <Ben@example.org>"], ("Ben Ö", "ben@example.org")),
        ("ci[bot]", ["x[bot] <x@example.org>", "Ben <b@example.org>", "B. <B@example.org>"], ("B.", "b@example.org")),
        ("ci[bot]", ["Ben <b@example.org>", "Cy <c@example.org>"], ("ci[bot]", "ci[bot]@example.org")),
        ("ci[bot]", ["nobody", " <>"], ("ci[bot]", "ci[bot]@example.org")),
        ("Ada", ["Ben <b@example.org>"], ("Ada", "ada@example.org")),
    ],
)
def test_bot_commit_is_attributed_to_its_only_human_co_author(
    work: Clone, author: str, others: list[str], expected: tuple[str, str]
) -> None:
    work.commit("one", author)
    trailers = "\n".join(f"Co-authored-by: {other}" for other in others)
    (work.reports / NAME).write_text("two")
    work.git("add", ".")
    work.commit_staged(author, message=f"Analyze (#3)\n\n{trailers}")
    assert (versions(work)[1].author, versions(work)[1].email) == expected


@pytest.mark.parametrize("new", ["p/m/b.md", "q/n/é b.md"])
def test_a_renamed_report_keeps_its_history(work: Clone, new: str) -> None:
    first = work.commit(BODY)
    (work.reports / new).parent.mkdir(parents=True, exist_ok=True)
    work.git("mv", f"reports/{NAME}", f"reports/{new}")
    work.commit_staged()
    assert [version.commit for version in versions(work, new)] == [first]
    work.git("mv", f"reports/{new}", f"reports/{NAME}")
    last = work.commit(BODY + "and more\n", "Ben")
    assert [version.commit for version in versions(work)] == [first, last]


def test_report_moved_in_from_outside_the_folder_keeps_its_history(work: Clone) -> None:
    (work.folder / "old.md").write_text(BODY)
    work.git("add", ".")
    first = work.commit_staged("Ben")
    (work.reports / "p/m").mkdir(parents=True)
    work.git("mv", "old.md", f"reports/{NAME}")
    work.commit_staged()
    assert [version.commit for version in versions(work)] == [first]


def test_removal_of_a_report_is_a_version_without_text(work: Clone) -> None:
    work.commit("one")
    work.commit(None, "Ben")
    work.commit("three", "Cy")
    assert authors_and_texts(work) == [("Ada", "one"), ("Ben", None), ("Cy", "three")]
    assert versions(work)[2].before == (versions(work)[1].commit,)


def branched(work: Clone) -> tuple[str, str, str]:
    """Create Ada's text, changed at its end by Ben on `pr` and at its start by Cy on main."""
    first = work.commit(BODY)
    work.git("checkout", "-q", "-b", "pr")
    theirs = work.commit(BODY + "by Ben\n", "Ben")
    work.git("checkout", "-q", "main")
    ours = work.commit("by Cy\n" + BODY, "Cy")
    return first, theirs, ours


def test_merge_of_two_changes_is_a_version_with_both_as_parents(work: Clone) -> None:
    first, theirs, ours = branched(work)
    work.git("merge", "-q", "pr", "-m", "merge")
    by_commit = {version.commit: version for version in versions(work)}
    merge = work.git("rev-parse", "HEAD")
    assert set(by_commit) == {first, theirs, ours, merge}
    assert by_commit[merge].before == (ours, theirs)
    assert by_commit[ours].before == by_commit[theirs].before == (first,)
    assert by_commit[merge].text == "by Cy\n" + BODY + "by Ben\n"


def test_merge_that_takes_one_side_is_not_a_version(work: Clone) -> None:
    first = work.commit("one")
    work.git("checkout", "-q", "-b", "pr")
    theirs = work.commit("two", "Ben")
    work.git("checkout", "-q", "main")
    work.commit("x", name="p/m/other.md")
    work.git("merge", "-q", "--no-ff", "pr", "-m", "merge")
    assert [version.commit for version in versions(work)] == [first, theirs]


def test_conflict_resolution_is_attributed_to_the_author_of_the_merge(work: Clone) -> None:
    work.commit("one\n")
    work.git("checkout", "-q", "-b", "pr")
    work.commit("two\n", "Ben")
    work.git("checkout", "-q", "main")
    work.commit("three\n", "Cy")
    subprocess.run(["git", "merge", "-q", "pr"], cwd=work.folder, capture_output=True, check=False)
    work.commit("two and three\n", "Dan")
    assert authors_and_texts(work)[-1] == ("Dan", "two and three\n")
    assert len(versions(work)[-1].before) == 2


def test_rename_and_change_on_two_branches_keep_the_history(work: Clone) -> None:
    first = work.commit(BODY)
    work.git("checkout", "-q", "-b", "pr")
    theirs = work.commit(BODY + "by Ben\n", "Ben")
    work.git("checkout", "-q", "main")
    work.git("mv", f"reports/{NAME}", "reports/p/m/b.md")
    work.commit_staged("Cy")
    work.git("merge", "-q", "pr", "-m", "merge")
    assert [version.commit for version in versions(work, "p/m/b.md")] == [first, theirs]


def test_squashed_branch_is_attributed_to_the_author_of_the_squash(work: Clone) -> None:
    work.commit(BODY)
    work.git("checkout", "-q", "-b", "pr")
    work.commit(BODY + "one\n", "Ben")
    work.commit(BODY + "two\n", "Ben")
    work.git("checkout", "-q", "main")
    work.git("merge", "-q", "--squash", "pr")
    work.commit_staged("Dan")
    assert authors_and_texts(work)[1:] == [("Dan", BODY + "two\n")]


def test_merged_reports_are_those_on_the_remotes_main_branch(tmp_path: Path) -> None:
    work = clone_of_server(tmp_path)
    work.commit("one")
    folder = ReportsFolder(work.reports)
    assert folder.merged().ref == "refs/remotes/origin/main"
    assert (folder.merged().reports, list(folder.versions(NAME))) == ((), [])
    work.git("push", "-q")
    work.git("checkout", "-q", "-b", "pr", "HEAD^")
    assert (folder.merged().reports, len(list(folder.versions(NAME)))) == ((NAME,), 1)
    assert folder.merged("HEAD").reports == ()
    work.git("remote", "set-head", "origin", "--delete")
    assert folder.merged().ref == "refs/remotes/origin/main"


def test_shallow_clone_is_reported_as_shallow(tmp_path: Path) -> None:
    work = clone_of_server(tmp_path)
    work.commit("one")
    work.commit("two", "Ben")
    work.git("push", "-q")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path}/server.git", "shallow")
    shallow = Clone(tmp_path / "shallow")
    assert ReportsFolder(shallow.reports).merged().shallow
    assert not ReportsFolder(work.reports).merged().shallow
    assert authors_and_texts(shallow) == [("Ben", "two")]


def test_symlink_has_no_text_and_undecodable_bytes_are_replaced(work: Clone) -> None:
    work.commit(b"\xef\xbb\xbfgr\xfcn\r\n")
    (work.reports / NAME).unlink()
    (work.reports / NAME).symlink_to("/etc/passwd")
    work.git("add", "-A")
    work.commit_staged()
    assert [version.text for version in versions(work)] == ["gr�n\r\n", None]


def test_report_name_need_not_be_utf8(work: Clone) -> None:
    name = os.fsdecode(b"p/m/\xff [a]*.md")
    work.commit("one", name=name)
    folder = ReportsFolder(work.reports)
    assert folder.merged().reports == (name,)
    assert [version.text for version in folder.versions(name)] == ["one"]


@pytest.mark.parametrize("ref", ["nowhere", "--all", "", "HEAD:reports"])
def test_ref_that_is_not_a_commit_is_refused_unless_empty(work: Clone, ref: str) -> None:
    work.commit("one")
    if ref:
        with pytest.raises(UsageError, match="no commit"):
            versions(work, ref=ref)
    else:
        assert len(versions(work, ref=ref)) == 1


def test_missing_repository_or_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in a git repository"):
        ReportsFolder(tmp_path / "reports").merged()
    work = repository_without_remote(tmp_path)
    with pytest.raises(UsageError, match="this repository has no commits yet"):
        ReportsFolder(work.reports).merged()


def test_git_settings_of_the_user_do_not_change_the_versions(work: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    work.commit(BODY)
    work.commit(BODY + "x\n", "Ben")
    expected = versions(work)
    for name, value in {
        "log.follow": "true",
        "log.showSignature": "true",
        "log.date": "relative",
        "diff.renames": "false",
        "core.quotePath": "true",
        "diff.noprefix": "true",
        "color.ui": "always",
        "diff.relative": "true",
    }.items():
        work.git("config", name, value)
    monkeypatch.setenv("GIT_DIR", str(work.folder / "nowhere"))
    assert versions(work) == expected


def test_uncommitted_reports_and_reports_on_branches_are_unmerged(work: Clone) -> None:
    work.commit(BODY)
    work.git("checkout", "-q", "-b", "pr")
    work.commit(BODY + "by Ben\n", "Ben")
    work.git("checkout", "-q", "main")
    work.commit("by Cy\n" + BODY, "Cy")
    (work.reports / "p/m/new.md").write_text("new\n")
    (work.reports / ".hidden.md").write_text("no report\n")
    unmerged = {one.branch: (one.name, one.base, one.text) for one in ReportsFolder(work.reports).unmerged()}
    assert unmerged == {
        None: ("p/m/new.md", None, "new\n"),
        "refs/heads/pr": (NAME, BODY, BODY + "by Ben\n"),
    }


def test_listing_unmerged_reports_does_not_write_the_index(work: Clone) -> None:
    work.commit(BODY)
    os.utime(work.reports / NAME, (1, 1))
    before = (work.folder / ".git/index").read_bytes()
    list(ReportsFolder(work.reports).unmerged())
    assert (work.folder / ".git/index").read_bytes() == before


def import_commits(work: Clone, commits: int, reports: int) -> None:
    """Import commits that each change one of the reports."""
    lines = []
    for number in range(commits):
        text = BODY + f"{number}\n"
        who = f"Ada <ada@example.org> {1760000000 + number} +0000"
        lines += ["commit refs/heads/main", f"committer {who}", "data 1", "x"]
        lines += [f"M 100644 inline reports/p/m/{number % reports}.md", f"data {len(text)}", text]
    feed = "\n".join(lines).encode()
    subprocess.run(["git", "fast-import", "--quiet"], cwd=work.folder, input=feed, check=True)


@pytest.mark.benchmark
def test_history_of_500_commits_and_100_reports_is_read_within_the_limit(work: Clone) -> None:
    import_commits(work, commits=500, reports=100)
    folder = ReportsFolder(work.reports)
    began = time.monotonic()
    names = folder.merged().reports
    version_count = sum(len(list(folder.versions(name))) for name in names)
    took = time.monotonic() - began
    assert (len(names), version_count) == (100, 500)
    assert took < 10 * slowness()


def test_histories_of_many_reports_take_as_many_git_processes_as_one(
    work: Clone, caplog: pytest.LogCaptureFixture
) -> None:
    import_commits(work, commits=60, reports=20)
    caplog.set_level("DEBUG", logger="evalscribe.git.command")
    names = ReportsFolder(work.reports).merged().reports
    processes = []
    for some in (names[:1], names):
        caplog.clear()
        histories = dict(ReportsFolder(work.reports).versions_of(some))
        processes.append(len(caplog.records))
        assert [len(versions) for versions in histories.values()] == [3] * len(some)
    assert (len(names), processes[0]) == (20, processes[1])


def test_author_names_are_shortened_and_stripped_of_control_characters(work: Clone) -> None:
    work.commit("one", "Ada \x1b[31m\u202e" + "B" * 4000)
    (name,) = (version.author for version in versions(work))
    assert name.startswith("Ada [31mBBB")
    assert len(name) < 300


def test_error_names_a_missing_git_object(work: Clone) -> None:
    work.commit("one")
    lost = work.git("rev-parse", f"HEAD:reports/{NAME}")
    work.commit("two")
    (work.folder / ".git/objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(DataError, match=f"cannot read the history.*{lost}"):
        versions(work)


def test_missing_git_program_is_reported(work: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for read in (versions, lambda work: ReportsFolder(work.reports).merged()):
        with pytest.raises(UsageError, match="git is not installed"):
            read(work)

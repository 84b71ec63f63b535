"""Files that a recommendation may change, and files that no patch may touch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalscribe.model.evidence import Document
from evalscribe.reports.patch import PatchScope, holds_secrets, patch_scope, protected_reason
from support.machine_speed import cpu_below

FILES = (
    "README.md",
    "ruff.toml",
    "package-lock.json",
    ".github/workflows/ci.yml",
    "evals/mypy.ini",
    "evals/lib/helpers.ts",
    "evals/style/002-loop/TASK.txt",
    "evals/style/002-loop/answer/headings.py",
    "evals/style/002-loop/output/headings.py",
    "evals/style/002-loop/.env",
    "evals/style/002-loop/uv.lock",
    "evals/style/002-loop-more/TASK.txt",
    "evals/style/003-other/TASK.txt",
    "evals/style/003-other/ruff.toml",
    "evals/query/001-yaml.yaml",
    "evals/query/001-yaml.grader.py",
    "outputs/style/002-loop/headings.py",
    "runs/2026/style/002-loop/headings.py",
    "002-loop/other.txt",
)
EVAL = ("style/002-loop",)
NOT_CONCERNED = "not what the recommendation concerns"


def test_scope_is_the_folder_whose_path_ends_with_the_eval_name() -> None:
    scope = patch_scope(FILES, "eval", EVAL)
    assert scope.files == ("evals/style/002-loop/TASK.txt", "evals/style/002-loop/answer/headings.py")
    assert scope.folders == ("evals/style/002-loop",)


def test_trial_has_the_scope_of_its_eval_and_an_eval_may_be_a_file() -> None:
    assert patch_scope(FILES, "eval", ["style/002-loop#3"]).files == patch_scope(FILES, "eval", EVAL).files
    assert patch_scope(FILES, "eval", ["query/001-yaml"]).files == (
        "evals/query/001-yaml.grader.py",
        "evals/query/001-yaml.yaml",
    )


def test_lint_recommendation_adds_tool_settings_above_the_eval() -> None:
    added = set(patch_scope(FILES, "lint", EVAL).files) - set(patch_scope(FILES, "eval", EVAL).files)
    assert added == {"ruff.toml", "evals/mypy.ini"}


@pytest.mark.benchmark
def test_scope_in_a_large_repository_is_found_in_time_with_settings_first() -> None:
    files = [f"evals/c{n % 50}/{n:05}/f{m}.py" for n in range(5_000) for m in range(10)]
    evals = [f"c{n % 50}/{n:05}" for n in range(300)]
    with cpu_below(5):
        scope = patch_scope(
            [*files, "ruff.toml"], "lint", evals, [Document(role="grader", path="f1.py", text="")] * 200
        )
    assert scope.files[0] == "ruff.toml"
    assert len(scope.files) == 3_001


def test_scope_of_a_subfolder_contains_nothing_outside_it() -> None:
    scope = patch_scope(FILES, "lint", EVAL, subfolder="evals")
    assert "ruff.toml" not in scope.files
    assert "evals/mypy.ini" in scope.files
    assert scope.refusal("ruff.toml") == "outside evals"


@pytest.mark.parametrize(
    ("role", "path", "named"),
    [("grader", "lib/helpers.ts", True), ("output", "lib/helpers.ts", False), ("task", "TASK.txt", False)],
)
def test_grader_document_adds_the_file_that_it_names(role: str, path: str, named: bool) -> None:
    scope = patch_scope(FILES, "eval", EVAL, [Document(role=role, path=path, text="")])
    assert ("evals/lib/helpers.ts" in scope.files) == named
    assert "evals/style/003-other/TASK.txt" not in scope.files


def test_document_of_a_moved_eval_adds_no_file_of_another_eval() -> None:
    files = ("evals/style/003-other/TASK.txt", "evals/style/003-other/answer/a.py")
    documents = [
        Document(role="task", path="TASK.txt", text=""),
        Document(role="expected", path="answer/a.py", text=""),
    ]
    assert patch_scope(files, "eval", EVAL, documents).files == ()


def test_folder_belongs_to_the_eval_with_the_longest_matching_name() -> None:
    files = ("evals/b/c/TASK.txt", "evals/a/b/c/TASK.txt", "evals/b/c/d/TASK.txt", "evals/a/b/c.yaml", "evals/b/c.yaml")
    scope = patch_scope(
        files, "eval", ["b/c"], [Document(role="grader", path="d/TASK.txt", text="")], other_evals=["a/b/c", "c/d"]
    )
    assert scope.files == ("evals/b/c.yaml", "evals/b/c/TASK.txt")
    assert scope.refusal("evals/b/c/new.txt") is None
    assert scope.refusal("evals/a/b/c/new.txt") == scope.refusal("evals/b/c/d/new.txt") == NOT_CONCERNED
    assert patch_scope(files, "eval", ["a/b/c"], other_evals=["b/c"]).files == (
        "evals/a/b/c.yaml",
        "evals/a/b/c/TASK.txt",
    )
    assert patch_scope(files, "eval", ["c/d#2"], other_evals=["b/c"]).files == ("evals/b/c/d/TASK.txt",)


def test_eval_name_without_a_category_matches_only_if_unambiguous() -> None:
    once = ("evals/hello/TASK.txt", "evals/hello.py", "lib/other.py")
    assert patch_scope(once, "eval", ["hello"]).files == ("evals/hello.py", "evals/hello/TASK.txt")
    twice = patch_scope((*once, "lib/hello.py"), "eval", ["hello"])
    assert twice.files == ()
    assert twice.refusal("evals/hello/new.txt") == NOT_CONCERNED


CONCERNED = patch_scope(FILES, "lint", EVAL, links=["evals/style/002-loop/link", "evals/vendored"])


@pytest.mark.parametrize("path", [*CONCERNED.files, "evals/style/002-loop/GAPS.txt", "evals/style/002-loop/a/b/new.py"])
def test_path_in_scope_may_be_changed(path: str) -> None:
    assert CONCERNED.refusal(path) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "no plain path"),
        ("/etc/passwd", "no plain path"),
        ("../x", "no plain path"),
        ("evals/style/002-loop/../003-other/x", "no plain path"),
        ("evals//style/002-loop/x", "no plain path"),
        ("evals/style/002-loop/x/", "no plain path"),
        ("./ruff.toml", "no plain path"),
        ("evals\\style\\002-loop\\x", "no plain path"),
        ("C:/x", "no plain path"),
        ("~/x", "no plain path"),
        ("evals/style/002-loop/x\ny", "no plain path"),
        ("evals/style/002-loop/x\0y", "no plain path"),
        ("evals/style/002-loop/e\u0301.txt", "no plain path"),
        ("evals/style/002-loop/" + "x" * 400, "no plain path"),
        ("evals/style/002-loop/ab\u200bc", "cannot be seen"),
        ("evals/style/002-loop/ab\x9b31m", "cannot be seen"),
        ("evals/style/002-loop/ab\u3164", "cannot be seen"),
        ("evals/style/002-loop/ab\u2028c", "cannot be seen"),
        ("evals/style/002-loop/.g\u200cit/config", "cannot be seen"),
        (".git/config", "git's own"),
        ("evals/style/002-loop/.GIT/config", "git's own"),
        ("evals/style/002-loop/.git./config", "git's own"),
        ("evals/style/002-loop/git~1/config", "git's own"),
        ("evals/style/002-loop/.ｇｉｔ/config", "git's own"),
        ("evals/style/002-loop/.gitattributes", "git's own"),
        (".gitmodules", "git's own"),
        (".github/workflows/ci.yml", "automation"),
        (".GitHub/workflows/new.yml", "automation"),
        ("evals/style/002-loop/.github/workflows/x.yml", "automation"),
        (".gitlab-ci.yml", "automation"),
        ("Jenkinsfile", "automation"),
        ("evals/style/002-loop/.pre-commit-config.yaml", "automation"),
        ("package-lock.json", "lock file"),
        ("evals/style/002-loop/uv.lock", "lock file"),
        ("evals/style/002-loop/.env", "holds keys"),
        ("evals/style/002-loop/.env.local", "holds keys"),
        ("evals/style/002-loop/id_rsa", "holds keys"),
        ("evals/style/002-loop/link", "a link"),
        ("evals/style/002-loop/link/x", "a link"),
        ("evals/vendored/x", "a link"),
        ("README.md", "not what"),
        ("evals/style/003-other/TASK.txt", "not what"),
        ("evals/style/003-other/ruff.toml", "not what"),
        ("evals/style/002-loop/output/headings.py", "not what"),
        ("evals/style/002-loop/output/new.py", "not what"),
        ("evals/style/002-loop/outputs/new.py", "not what"),
        ("outputs/style/002-loop/headings.py", "not what"),
        ("outputs/style/002-loop/new.py", "not what"),
        ("new.toml", "not what"),
        ("evals/style/002-loop/answer", "not what"),
        ("evals/style/002-loop/task.TXT", "spelt differently"),
        ("evals/style/002-loop/Answer/x.py", "spelt differently"),
        ("EVALS/style/002-loop/x", "spelt differently"),
        ("Ruff.toml", "spelt differently"),
    ],
)
def test_path_that_is_protected_or_out_of_scope_is_refused_with_a_reason(path: str, reason: str) -> None:
    assert reason in (CONCERNED.refusal(path) or "nothing against it")


@given(st.text(max_size=60), st.sampled_from(["", "evals/style/002-loop/", "../", ".git/", "/"]))
def test_any_allowed_path_is_in_scope_and_unprotected(name: str, folder: str) -> None:
    path = folder + name
    if CONCERNED.refusal(path) is None:
        assert path in CONCERNED.files or path.startswith("evals/style/002-loop/")
        assert ".git" not in path.casefold().split("/")
        assert ".." not in path.split("/")
        assert protected_reason(path) is None


def test_recommendation_without_matching_files_allows_nothing() -> None:
    nothing = patch_scope(FILES, "eval", ["no/such"])
    assert (nothing.files, nothing.folders) == ((), ())
    assert nothing.refusal("README.md") == "not what the recommendation concerns"
    assert PatchScope(files=(), folders=()).refusal("x") == "not what the recommendation concerns"


@pytest.mark.parametrize("path", [".env", "a/.env.production", "x/server.pem", ".npmrc", "id_ed25519"])
def test_files_with_secrets_are_recognised(path: str) -> None:
    assert holds_secrets(path)
    assert not holds_secrets("environment.md")

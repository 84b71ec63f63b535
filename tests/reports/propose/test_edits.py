"""Edits become one complete patch or are refused with all reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalscribe.model.repository import Edit
from evalscribe.reports.patch import EditRefusal, PatchScope, apply_edits

TEXTS = {
    "a.py": "one\ntwo\ntwo\n",
    "b.py": "one\r\ntwo\r\n",
    "mixed.py": "one\r\ntwo\nthree\n",
    "key.py": "KEY = 'ghp_" + "a1B2" * 9 + "'\n",
    "pem.py": "-----BEGIN PRIVATE KEY-----\ninside\n-----END PRIVATE KEY-----\nafter\n",
    "unseen.py": "o\u200bne\ntwo\n",
    "empty.py": "",
}
FILES = (*TEXTS, "data.bin")
SCOPE = PatchScope(files=FILES, folders=("new",), existing=frozenset(FILES))


def edit(path: str, old: str, new: str) -> Edit:
    return Edit(path=path, old=old, new=new)


def after(*edits: Edit) -> dict[str, str]:
    result = apply_edits(edits, SCOPE, TEXTS.get)
    assert not isinstance(result, EditRefusal), result
    return {change.path: change.after for change in result}


def problems(*edits: Edit) -> str:
    result = apply_edits(edits, SCOPE, TEXTS.get)
    assert isinstance(result, EditRefusal)
    return "; ".join(result.problems)


def test_edits_of_one_file_are_applied_in_order() -> None:
    assert after(edit("a.py", "one", "1"), edit("a.py", "1\n", "uno\n")) == {"a.py": "uno\ntwo\ntwo\n"}


def test_edits_keep_the_line_endings_of_the_file() -> None:
    assert after(edit("b.py", "one\ntwo", "1\n2\n3")) == {"b.py": "1\r\n2\r\n3\r\n"}
    assert after(edit("mixed.py", "two\nthree", "2")) == {"mixed.py": "one\r\n2\n"}


def test_existing_invisible_characters_may_stay_and_an_empty_file_be_filled() -> None:
    assert after(edit("unseen.py", "o\u200bne", "O\u200bne")) == {"unseen.py": "O\u200bne\ntwo\n"}
    assert after(edit("empty.py", "", "text\n")) == {"empty.py": "text\n"}


def test_secrets_near_a_change_are_not_shown() -> None:
    result = apply_edits([edit("pem.py", "after", "behind")], SCOPE, TEXTS.get)
    assert not isinstance(result, EditRefusal)
    assert "inside" not in result[0].shown
    assert "-after\n+behind\n" in result[0].shown
    assert result[0].counts == "+1 -1"


def test_new_file_is_created_with_a_diff() -> None:
    (change,) = apply_edits([edit("new/x.txt", "", "hello\r\n")], SCOPE, TEXTS.get)  # type: ignore[misc]
    assert change.before is None
    assert change.diff == "--- /dev/null\n+++ b/new/x.txt\n@@ -0,0 +1 @@\n+hello\n"


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ((), "no edit"),
        ((edit("a.py", "three", "3"),), "0 times"),
        ((edit("a.py", "two", "2"),), "2 times"),
        ((edit("a.py", "", "x"),), "the file is there"),
        ((edit("new/y.txt", "y", "x"),), "no such text file"),
        ((edit("a.py", "one", "one"),), "nothing is changed"),
        ((edit("a.py", "one\ntwo\ntwo\n", " \n"),), "not deleted"),
        ((edit("new/x.txt", "", "\n"),), "nothing would be left"),
        ((edit("key.py", "[redacted:key]", "x"),), "redacted"),
        ((edit("key.py", "sk-1", "[redacted:key]"),), "redacted"),
        ((edit("a.py", "one", "API_KEY = 'ghp_" + "a1B2" * 9 + "'"),), "looks like a key"),
        ((edit("a.py", "one", "o\u200bne"),), "cannot be seen"),
        ((edit("a.py", "one", "o\x1b[2Jne"),), "cannot be seen"),
        ((edit("a.py", "one", "x" * 100_001),), "too much"),
        (tuple(edit("a.py", "one", "x") for _ in range(61)), "too much"),
        ((edit("a.py", "one", "1"), edit("a.py", "one", "2")), "0 times"),
        ((edit("data.bin", "", "text"),), "the file is there"),
        ((edit("a.py", "one", "# one\u2028evil()"),), "cannot be seen"),
        ((edit("a.py", "one", "# one\revil()"),), "cannot be seen"),
        ((edit("a.py", "one", "o\u3164ne"),), "cannot be seen"),
        ((edit("a.py", "one", "one" + " " * 201 + "evil()"),), "blanks in a row"),
        ((edit("key.py", "KEY", "KEYS"),), "looks like a key"),
        ((edit("pem.py", "inside", "evil()\ninside"),), "stands in one"),
        ((edit("pem.py", "inside\n", ""),), "stands in one"),
        (
            (edit("a.py", "one", "-----BEGIN PRIV"), edit("a.py", "PRIV", "PRIVATE KEY-----\nevil()")),
            "looks like a key",
        ),
    ],
)
def test_invalid_edits_are_refused_with_a_reason(edits: tuple[Edit, ...], reason: str) -> None:
    assert reason in problems(*edits)


def test_one_forbidden_path_refuses_all() -> None:
    result = apply_edits([edit("a.py", "one", "1"), edit("../x", "", "1")], SCOPE, TEXTS.get)
    assert isinstance(result, EditRefusal)
    assert result.forbidden
    assert result.problems == ("'../x' is no plain path with `/` below the repository's root",)


PYPROJECT = """[project]
name = "suite"
[build-system]
requires = ["hatchling"]
[tool.ruff.lint]
select = ["E", "PLW2901"]
[tool.hatch.build]
include = ["a"]
"""
TOX = "[testenv]\ncommands = pytest\n[flake8]\nignore = E1\n"
TABLES = {"pyproject.toml": PYPROJECT, "tox.ini": TOX, "evals/a/b/pyproject.toml": PYPROJECT, "ruff.toml": "x = 1\n"}
SHARED = PatchScope(files=tuple(TABLES), folders=("evals/a/b",), existing=frozenset(TABLES))


@pytest.mark.parametrize(
    ("path", "old", "new", "allowed"),
    [
        ("pyproject.toml", ', "PLW2901"', "", True),
        ("pyproject.toml", "[tool.hatch", "[tool.mypy]\nstrict = true\n[tool.hatch", True),
        ("pyproject.toml", '"hatchling"', '"hatchling", "evil"', False),
        ("pyproject.toml", 'include = ["a"]', 'include = ["a", "b"]', False),
        ("pyproject.toml", 'name = "suite"', 'name = "suite"\nscripts.x = "evil:main"', False),
        ("pyproject.toml", 'name = "suite"', "name =", False),
        ("tox.ini", "ignore = E1", "ignore = E1, E2", True),
        ("tox.ini", "commands = pytest", "commands = evil", False),
        ("tox.ini", "[flake8]", "[DEFAULT]\ncommands = evil\n[flake8]", False),
        ("evals/a/b/pyproject.toml", '"hatchling"', '"setuptools"', True),
        ("ruff.toml", "1", "2", True),
    ],
)
def test_only_tool_tables_of_a_shared_file_may_be_edited(path: str, old: str, new: str, allowed: bool) -> None:
    result = apply_edits([edit(path, old, new)], SHARED, TABLES.get)
    if isinstance(result, EditRefusal):
        assert not allowed
        assert result.forbidden
    else:
        assert allowed


@given(
    st.lists(st.builds(edit, st.sampled_from([*TEXTS, "new/x", ".git/x"]), st.text(max_size=4), st.text(max_size=6)))
)
def test_any_edits_give_a_patch_or_a_refusal(edits: list[Edit]) -> None:
    result = apply_edits(edits, SCOPE, TEXTS.get)
    if isinstance(result, EditRefusal):
        assert result.problems
    else:
        assert all(change.after != change.before and change.after.strip() for change in result)
        assert {change.path for change in result} == {edit.path for edit in edits}

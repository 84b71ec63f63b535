"""Removing comments and docstrings from code, with line numbers kept."""

import pytest

from evalscribe.judging.rules import code
from support.machine_speed import cpu_below


@pytest.mark.parametrize(
    ("path", "text", "kept"),
    [
        ("a.ts", 'const a = "// no comment"; // known gap', 'const a = "// no comment";'),
        ("a.ts", "a(); /* known\n gap */ b();", "a(); b();"),
        ("a.ts", "const url = `http://x/${y}`;", "const url = `http://x/${y}`;"),
        ("a.py", "x = 1  # known gap", "x = 1"),
        ("a.py", 'def f():\n    """known gap"""\n    return "# kept"', 'def f(): return "# kept"'),
        ("a.py", "x = '''kept # too'''", "x = '''kept # too'''"),
    ],
)
def test_comments_are_removed_and_code_is_kept(path: str, text: str, kept: str) -> None:
    bare = code.without_comments(text, path)
    assert " ".join(bare.split()) == " ".join(kept.split())
    assert bare.count("\n") == text.count("\n")


@pytest.mark.benchmark
@pytest.mark.parametrize("text", ["/*" * 50_000, '"' * 100_000, "`" * 99_999, "# " * 60_000, "//" * 50_000])
def test_hostile_text_is_stripped_within_two_cpu_seconds(text: str) -> None:
    with cpu_below(2):
        for path in ("a.ts", "a.py"):
            code.without_comments(text, path)


def test_fold_ignores_formatting() -> None:
    assert code.fold("f(a,\n  b,\n)") == code.fold("f( a, b )")
    assert code.fold("f(a)") != code.fold("f(b)")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("no-explicit-any", "no-explicit-any"),
        ("TS2554 interval", "ts2554-interval"),
        ("by_userId", "by-user-id"),
        ("!!", "unnamed"),
        ("one " * 40, "one-one-one-one-one-one-one-one-one-one-one-one"),
    ],
)
def test_causes_are_kebab_case(text: str, name: str) -> None:
    assert code.kebab(text) == name

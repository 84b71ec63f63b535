"""Shortening texts."""

import pytest

from evalscribe.judging.rules import quote

TYPES = "Id<Tables<{ users: { document: { _id: string; name: string }; keys: 'a' | 'b' } }>>"


@pytest.mark.parametrize(
    ("text", "longest", "short"),
    [("a  b\nc", 20, "a b c"), ("one two three", 9, "one two …"), ("one, two", 6, "one …")],
)
def test_text_is_cut_at_a_word(text: str, longest: int, short: str) -> None:
    assert quote.cut(text, longest) == short


@pytest.mark.parametrize(
    ("said", "brief"),
    [
        (f"Type '{TYPES}' is wrong", "Type 'Id<Tables<{ … }>>' is wrong"),
        (f"a type `{TYPES[:40]}…", "a type `Id<Tables<{ … }`"),
        ("expected { a: 1 } to equal { a: 2 }", "expected { a: 1 } to equal { a: 2 }"),
    ],
)
def test_long_types_are_folded(said: str, brief: str) -> None:
    assert quote.brief(said) == brief

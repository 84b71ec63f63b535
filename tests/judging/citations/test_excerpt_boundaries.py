"""Quotations start and end at whole words, numbers and operators, and never start right after a negation."""

import pytest

from evalscribe.judging.quotations import Haystack, fold_text


def holds(text: str, quote: str) -> bool:
    return any(Haystack([text]).spans(fold_text(quote), 0))


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("the port 35076 is", "port 35076"),
        ("The capital is Paris.", "The capital is Paris"),
        ("It works! Really?", "It works"),
        ('say "hello there" now', "hello there"),
        ("ctx.db.query(users)", "ctx.db.query("),
        ("ctx.db.query(users)", "ctx.db.query"),
        ("f(alpha, beta)", "alpha, beta"),
        ("<error>Not found</error>", "Not found"),
        ("<a><b>text</b></a>", "<b>text</b>"),
        ("**Root cause**: the port", "Root cause"),
        ("see src/main.py:31 there", "main.py:31"),
        ("see src/main.py:31 there", "src/main.py"),
        ("key=value", "value"),
        ("- first item\n- second item", "first item"),
        ("# Heading one", "Heading one"),
        ("a - b + c", "b + c"),
        ("x = foo  \n\n\n   y = bar", "foo\ny = bar"),
        ("a\tb\u00a0c", "a b c"),
        ("它不能在端口上工作。", "端口上工作"),
        ("deleted? yes", "deleted"),
        ("it was 5, then 6", "it was 5"),
        ("at 12:30, then", "12:30"),
        ("the end...", "the end"),
        ("wait -- what", "what"),
        ("caf\u00e9 au lait", "caf\u00e9"),
        ("// comment here", "comment here"),
    ],
)
def test_quotation_of_whole_words_is_accepted(text: str, quote: str) -> None:
    assert holds(text, quote)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("the port 35076 is", "port 350"),
        ("the port 35076 is", "076 is"),
        ("userNames", "user"),
        ("user_names", "names"),
        ("pi is 3.14159", "pi is 3"),
        ("pi is 3.14159", "14159"),
        ("1,000,000 rows", "000 rows"),
        ("1,000,000 rows", "1,000"),
        ("at 12:30", "at 12"),
        ("ratio 16/9 it is", "ratio 16"),
        ("on 2026-11-21", "on 2026"),
        ("on 2026-11-21", "11-21"),
        ("if !ready then", "ready then"),
        ("if ! ready then", "ready then"),
        ("if (!(ready) then", "(ready) then"),
        ("is not valid here", "valid here"),
        ("does not valid", "not valid\nhere"),
        ("it doesn't work", "work"),
        ("it doesn't work", "it doesn"),
        ("it doesn\u2019t work here", "work here"),
        ("It never passes", "passes"),
        ("Cannot connect", "connect"),
        ("non-null value", "null value"),
        ("a non-null value", "a non"),
        ("x = -5 volts", "5 volts"),
        ("x = .5 volts", "5 volts"),
        ("rm --force it", "force it"),
        ("rm --force it", "-force it"),
        ("a != bcd", "= bcd"),
        ("abc != b", "abc !"),
        ("abc <= b", "abc <"),
        ("abc => b", "abc ="),
        ("abc=>b", "abc="),
        ("abc!=def", "abc"),
        ("abc=!def", "def"),
        ("abc === d", "abc =="),
        ("abc++ now", "abc"),
        ("count 5% of", "count 5"),
        ("f(**kwargs)", "kwargs"),
        ("@internal thing", "internal thing"),
        ("$HOME it is", "HOME it is"),
        ("user@example.org", "user"),
        ("user!.name", "user"),
        ("foo(bar)", "(bar)"),
        ('f"text"', '"text"'),
        ("//disabled()", "disabled()"),
        ("https://host/x", "https:/"),
        ("C#sharp", "C#s"),
        ("</div>text", "div>text"),
        ("cafe\u0301 au", "cafe"),
        ("它不能在端口上工作。", "能在端口"),
        ("one two\nthree four", "one two three four"),
        ("one two\nthree four", "two three"),
        ("one two", "one\ntwo"),
        ("onetwo", "one two"),
        ("one two", "onetwo"),
        ("Value: 5", "value: 5"),
    ],
)
def test_cut_or_changed_quotation_is_refused(text: str, quote: str) -> None:
    assert not holds(text, quote)


def test_later_match_is_used_when_the_first_cuts_a_word() -> None:
    text = "ports and port and !port"
    assert list(Haystack([text]).spans("port", 0)) == [(10, 14)]


@pytest.mark.parametrize(
    "text", ["a  b\t\tc", "\x1b[1ma\x1b[0m  b", "  x \r\n\r\n y\t", "\x00a  \x00b", "é  \ud800  ü", "\x1b["]
)
def test_spans_refer_to_the_original_text(text: str) -> None:
    haystack = Haystack(["before  it", text, " after"])
    for word in fold_text(text).split():
        for start, end in haystack.spans(word, 1):
            assert fold_text(text[start:end]) == word
    number, start, end = next(iter(haystack.occurrences("after", 0)))
    assert (number, " after"[start:end]) == (2, "after")


def test_quotation_never_spans_two_texts() -> None:
    haystack = Haystack(["one two", "three four", "[5] six\uffff", "seven"])
    assert [start for _, start, _ in haystack.occurrences("[5] six", 0)] == [0]
    assert list(haystack.occurrences(fold_text("six\uffff\uffffseven"), 0)) == []
    assert list(haystack.occurrences("two three", 0)) == []
    assert list(haystack.occurrences("two\nthree", 0)) == []
    assert list(haystack.spans("three", 0)) == []

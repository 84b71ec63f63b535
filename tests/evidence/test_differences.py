"""Comparing output with reference: pairs of documents, hunks and limits."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalscribe.evidence import differences
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.run import Eval
from support.machine_speed import cpu_below


def evidence(output: dict[str, str], expected: dict[str, str]) -> Evidence:
    documents = [Document(role="output", path=path, text=text) for path, text in output.items()]
    documents += [Document(role="expected", path=path, text=text) for path, text in expected.items()]
    return Evidence(eval=Eval(id="e1", category="c", name="n"), documents=tuple(documents))


def names(pairs: tuple[differences.DocumentPair, ...]) -> list[tuple[str | None, str | None]]:
    return [(p.output.path if p.output else None, p.expected.path if p.expected else None) for p in pairs]


def one_pair(old: str, new: str) -> differences.DocumentPair:
    return differences.DocumentPair(
        output=Document(role="output", path="a.py", text=new),
        expected=Document(role="expected", path="answer/a.py", text=old),
    )


CODE = "\n".join(f"value_{n} = compute({n})" for n in range(30))


def test_files_are_matched_by_path_below_the_reference_folder():
    pairs = differences.pair_documents(
        evidence({"src/a.py": "x", "b.py": "y"}, {"answer/b.py": "1", "answer/src/a.py": "2"})
    )
    assert names(pairs) == [("src/a.py", "answer/src/a.py"), ("b.py", "answer/b.py")]


def test_a_renamed_file_is_matched_by_content():
    pairs = differences.pair_documents(
        evidence({"wrong.py": CODE + "\nmore = 1"}, {"answer/right.py": CODE, "answer/b.py": "b = 1"})
    )
    assert names(pairs) == [("wrong.py", "answer/right.py"), (None, "answer/b.py")]


def test_files_with_nothing_in_common_are_not_paired():
    pairs = differences.pair_documents(evidence({"a.py": "first = 1"}, {"answer/b.py": "second = 2"}))
    assert names(pairs) == [("a.py", None), (None, "answer/b.py")]


def test_nested_reference_file_is_not_paired_with_a_top_level_file():
    pairs = differences.pair_documents(evidence({"a.py": "first = 1"}, {"answer/x/y/a.py": "second = 2"}))
    assert names(pairs) == [("a.py", None), (None, "answer/x/y/a.py")]


def test_planted_output_path_does_not_take_the_pair_of_another_file():
    references = {"answer/a.py": "theirs", "answer/b.py": "other"}
    pairs = differences.pair_documents(evidence({"answer/a.py": "planted", "a.py": "mine", "b.py": "1"}, references))
    assert names(pairs) == [("answer/a.py", None), ("a.py", "answer/a.py"), ("b.py", "answer/b.py")]
    references = {"src/a.py": "theirs", "src/b.py": "other"}
    pairs = differences.pair_documents(evidence({"a.py": "planted", "src/a.py": "mine", "src/b.py": "1"}, references))
    assert names(pairs) == [("a.py", None), ("src/a.py", "src/a.py"), ("src/b.py", "src/b.py")]


def test_references_without_a_common_folder_are_matched_by_full_path():
    pairs = differences.pair_documents(evidence({"a.py": "x", "src/a.py": "y"}, {"src/a.py": "1", "a.py": "2"}))
    assert names(pairs) == [("a.py", "a.py"), ("src/a.py", "src/a.py")]


def test_every_document_is_in_exactly_one_pair_even_with_equal_paths():
    outputs = {f"d{n}/same.py": CODE for n in range(60)}
    references = {f"answer/d{n}/same.py": CODE for n in range(55, 80)}
    pairs = differences.pair_documents(evidence(outputs, references))
    assert sorted(p.output.path for p in pairs if p.output) == sorted(outputs)
    assert sorted(p.expected.path for p in pairs if p.expected) == sorted(references)


def test_a_hunk_has_numbers_of_both_sides_and_five_lines_of_context():
    new = CODE.replace("compute(10)", "compute(99)")
    (hunk,) = differences.diff_hunks(one_pair(CODE, new))
    assert hunk.changes == (
        differences.LineChange(
            expected_first=11,
            expected=("value_10 = compute(10)",),
            output_first=11,
            output=("value_10 = compute(99)",),
        ),
    )
    assert hunk.lines[0] == "6=6| value_5 = compute(5)"
    assert hunk.lines[5:7] == ("-11| value_10 = compute(10)", "+11| value_10 = compute(99)")
    assert len(hunk.lines) == 12


def test_an_unchanged_line_has_the_numbers_of_both_sides():
    new = CODE.replace("value_3 = compute(3)\n", "").replace("value_10 = compute(10)", "a = 1\nb = 2")
    (hunk,) = differences.diff_hunks(one_pair(CODE, new))
    shown = [line for line in hunk.lines if line[0] not in "-+"]
    assert "5=4| value_4 = compute(4)" in shown
    assert "12=12| value_11 = compute(11)" in shown
    for line in shown:
        numbers, _, text = line.partition("| ")
        old_number, _, new_number = numbers.partition("=")
        assert CODE.split("\n")[int(old_number) - 1] == new.split("\n")[int(new_number) - 1] == text


def test_far_changes_are_two_hunks_and_near_ones_are_one():
    far = CODE.replace("compute(2)", "x").replace("compute(25)", "y")
    near = CODE.replace("compute(5)", "x").replace("compute(9)", "y")
    assert len(differences.diff_hunks(one_pair(CODE, far))) == 2
    assert len(differences.diff_hunks(one_pair(CODE, near))) == 1


@pytest.mark.parametrize(
    ("old", "new"), [("a\r\nb\r\n", "a\nb\n"), ("a  \nb", "a\nb"), ("same", "same"), ("a\nb", "a\nb\n")]
)
def test_line_ends_and_trailing_blanks_are_no_difference(old: str, new: str):
    assert differences.diff_hunks(one_pair(old, new)) == ()


def test_a_missing_side_has_no_hunks():
    assert differences.diff_hunks(differences.DocumentPair(output=Document(role="output", path="a", text="x"))) == ()


LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "", "e = 1"]), max_size=30)


@given(LINES, LINES, st.integers(0, 6), st.booleans())
def test_changes_turn_the_reference_into_the_output(old: list[str], new: list[str], context: int, anchored: bool):
    cells = differences.EXACT_CELLS
    try:
        differences.EXACT_CELLS = 0 if anchored else cells
        pair = one_pair("\n".join(old), "\n".join(new))
        hunks = differences.diff_hunks(pair, context)
    finally:
        differences.EXACT_CELLS = cells
    rebuilt, at = [], 0
    source = list(pair.expected.lines[: pair.expected.line_count])
    for change in (change for hunk in hunks for change in hunk.changes):
        rebuilt += source[at : change.expected_first - 1]
        assert len(rebuilt) == change.output_first - 1
        rebuilt += change.output
        at = change.expected_first - 1 + len(change.expected)
    assert rebuilt + source[at:] == list(pair.output.lines[: pair.output.line_count])
    for hunk in hunks:
        numbers = [int(re.split("[=+]", line.partition("|")[0])[-1]) for line in hunk.lines if line[0] != "-"]
        assert numbers == list(range(hunk.output_first, hunk.output_first + len(numbers)))


@pytest.mark.benchmark
def test_large_files_are_compared_within_five_cpu_seconds():
    old = "\n".join(f"line {n % 7} }}" if n % 3 else f"unique {n}" for n in range(40_000))
    new = "\n".join(f"line {n % 5} }}" if n % 3 else f"unique {n + n % 2}" for n in range(40_000))
    with cpu_below(5):
        assert differences.diff_hunks(one_pair(old, new))


def test_one_line_of_megabytes_is_one_change():
    (hunk,) = differences.diff_hunks(one_pair("x" * 5_000_000, "y" * 5_000_000))
    assert len(hunk.changes) == 1

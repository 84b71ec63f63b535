"""Tests of exact_match, contains, levenshtein and regex_match."""

import asyncio
from typing import Any

import pytest

from evalscribe.experiments.scorers.catalogue import scorer_runner, scorer_spec
from evalscribe.experiments.scorers.definition import CannotScore
from evalscribe.experiments.scorers.text_scorers import edit_distance
from evalscribe.model.score import ScorerRequest


@pytest.mark.parametrize(
    ("output", "expected", "passed"),
    [
        pytest.param("Paris", "Paris", True, id="text"),
        pytest.param("paris", "Paris", False, id="case matters"),
        pytest.param(4, 4, True, id="numbers"),
        pytest.param(1, 1.0, True, id="1 is 1.0"),
        pytest.param(4, "4", False, id="a number is no text"),
        pytest.param("4", 4, False, id="text is no number"),
        pytest.param(True, 1, False, id="true is not 1"),
        pytest.param(0, False, False, id="0 is not false"),
        pytest.param([True], [1], False, id="nor inside a list"),
        pytest.param({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True, id="members in any order"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, False, id="a member too many"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, False, id="a null is no missing member"),
        pytest.param([1, 2], [2, 1], False, id="lists have an order"),
        pytest.param([], {}, False, id="an empty list is no empty object"),
        pytest.param(None, "Paris", False, id="no output"),
        pytest.param("", "", True, id="empty text that is expected"),
        pytest.param(10**30, 10**30 + 1, False, id="large numbers are compared whole"),
    ],
)
async def test_exact_match_compares_json_by_type_and_content(
    scored: Any, output: Any, expected: Any, passed: bool
) -> None:
    result = await scored("exact_match", output=output, expected=expected)
    assert (result.status, result.passed, result.value) == ("ok", passed, float(passed))
    assert result.label == ("match" if passed else "mismatch")


async def test_exact_match_without_expected_output_is_an_input_error(scored: Any) -> None:
    result = await scored("exact_match", output=None, expected=None)
    assert (result.status, result.error_type, result.passed, result.value) == ("error", "input_error", None, None)


async def test_exact_match_accepts_null_as_expected_field_value(scored: Any) -> None:
    config = {"expected_field": "expected.cancelled", "output_field": "output.cancelled"}
    result = await scored("exact_match", config, output={"cancelled": None}, expected={"cancelled": None})
    assert result.passed


async def test_case_insensitive_exact_match_folds_values_but_not_keys(scored: Any) -> None:
    config = {"case_sensitive": False}
    assert (await scored("exact_match", config, output={"a": ["STRASSE"]}, expected={"a": ["straße"]})).passed
    assert not (await scored("exact_match", config, output={"A": 1}, expected={"a": 1})).passed


@pytest.mark.parametrize(
    ("output", "expected", "message"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, 'output.a[1].b is "x" instead of "y"'),
        ("4", 4, "the text contains that value as JSON"),
        ({}, {"id": 3}, "output.id is missing, expected 3"),
        ({"id": 3}, {}, "output.id is unexpected: 3"),
        ([1, 2, 3], [1], "output[1] is unexpected: 2; there is 1 other difference"),
        ("a" * 90 + "b", "a" * 90 + "c", "from character 91 on"),
        ([0] * 30, [1] * 30, "there are 19 other differences or more"),
    ],
)
async def test_explanation_locates_the_first_difference(scored: Any, output: Any, expected: Any, message: str) -> None:
    assert message in (await scored("exact_match", output=output, expected=expected)).explanation


async def test_explanation_is_printable_and_short_for_hostile_output(scored: Any) -> None:
    result = await scored("exact_match", output="a\u202eb\x07" + "x" * 10_000, expected={"\u2066": 1})
    assert result.explanation.isprintable()
    assert len(result.explanation) < 400


@pytest.mark.parametrize(
    ("config", "output", "passed"),
    [
        ({"pattern": "refund"}, "your refund is on its way", True),
        ({"pattern": "Refund"}, "your refund", False),
        ({"pattern": "REFUND", "case_sensitive": False}, "your refund", True),
        ({"pattern": '"id":3'}, {"id": 3}, True),
        ({"pattern": "3"}, 13, True),
        ({"pattern": "null"}, None, False),
        ({"pattern": "x"}, "", False),
    ],
)
async def test_contains_searches_text_and_compact_json(scored: Any, config: Any, output: Any, passed: bool) -> None:
    result = await scored("contains", config, output=output)
    assert (result.status, result.passed) == ("ok", passed)


@pytest.mark.parametrize(
    ("config", "output", "expected", "value", "passed"),
    [
        ({}, "hello", "hello", 1.0, True),
        ({}, "zzz", "hello", 0.0, False),
        ({}, "hallo", "hello", 0.8, False),
        ({"threshold": 0.8}, "hallo", "hello", 0.8, True),
        ({"threshold": 0.81}, "hallo", "hello", 0.8, False),
        ({"threshold": 0.5}, "", "", 1.0, True),
        ({"threshold": 0.5}, None, "hello", 0.0, False),
        ({"threshold": 0.5}, 1234, "1235", 0.75, True),
    ],
)
async def test_levenshtein_scores_similarity_against_its_threshold(
    scored: Any, config: Any, output: Any, expected: Any, value: float, passed: bool
) -> None:
    result = await scored("levenshtein", config, output=output, expected=expected)
    assert (result.status, result.passed) == ("ok", passed)
    assert result.value == pytest.approx(value)


async def test_levenshtein_passes_only_equal_texts_by_default(scored: Any) -> None:
    assert scorer_spec("levenshtein", {}).config["threshold"] == 1.0
    assert not (await scored("levenshtein", output="hello ", expected="hello")).passed


async def test_levenshtein_of_too_long_texts_is_an_input_error(scored: Any) -> None:
    result = await scored("levenshtein", output="ab" * 100_000, expected="ba" * 100_000)
    assert (result.status, result.error_type) == ("error", "input_error")
    with pytest.raises(CannotScore):
        edit_distance("a" * 100_001, "b")
    assert edit_distance("x" * 10**6 + "a", "x" * 10**6 + "b") == 1


def test_edit_distance_matches_dynamic_programming() -> None:
    words = ("", "a", "ab", "ba", "abcab", "bacb", "ccc", "abcabcabc", "bbbbbbbbbbbbbbbb")
    for one in words:
        for other in words:
            assert edit_distance(one, other) == _by_table(one, other), (one, other)


def _by_table(one: str, other: str) -> int:
    above = list(range(len(other) + 1))
    for row, character in enumerate(one, 1):
        here = [row]
        for column, wanted in enumerate(other, 1):
            here.append(min(above[column] + 1, here[-1] + 1, above[column - 1] + (character != wanted)))
        above = here
    return above[-1]


@pytest.mark.parametrize(
    ("pattern", "output", "passed"),
    [
        ("b+", "aabbcc", True),
        ("^b+$", "aabbcc", False),
        (r"\d{4}-\d{2}", "on 2026-11-21", True),
        (r'"id":\d+', {"id": 31}, True),
        (r"(?i)REFUND", "a refund", True),
        ("null", None, False),
        ("(ab|c)*d", "ababcd", True),
        ("(ab|c)*d", "x" * 20, False),
    ],
)
async def test_regex_match_searches_anywhere(scored: Any, pattern: str, output: Any, passed: bool) -> None:
    result = await scored("regex_match", {"pattern": pattern}, output=output)
    assert (result.status, result.passed) == ("ok", passed)


async def test_catastrophic_regex_times_out_and_the_next_text_is_scored() -> None:
    ready = scorer_runner(scorer_spec("regex_match", {"pattern": "(a|a)+$"}))
    first = await ready.score(ScorerRequest(input=None, output="a" * 60 + "b"))
    second = await ready.score(ScorerRequest(input=None, output="aaa"))
    await ready.close()
    assert (first.status, first.error_type) == ("error", "timeout_error")
    assert second.passed


async def test_result_of_a_cancelled_search_is_not_used_for_the_next() -> None:
    ready = scorer_runner(scorer_spec("regex_match", {"pattern": "(a|b)*c"}))
    await ready.score(ScorerRequest(input=None, output="c"))
    waiting = asyncio.create_task(ready.score(ScorerRequest(input=None, output="abc" * 10)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    after = await ready.score(ScorerRequest(input=None, output="ddd"))
    await ready.close()
    assert after.passed is False


async def test_long_regex_search_does_not_block_the_event_loop() -> None:
    ready = scorer_runner(scorer_spec("regex_match", {"pattern": "(a|a)+$"}))
    waiting = asyncio.create_task(ready.score(ScorerRequest(input=None, output="a" * 60 + "b")))
    turns = 0
    while not waiting.done():
        await asyncio.sleep(0)
        turns += 1
    await ready.close()
    assert turns > 100

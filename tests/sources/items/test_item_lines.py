"""Rendering and parsing of items as JSON lines, and strict JSON decoding."""

import json

import pytest
from hypothesis import given, settings

from evalscribe.errors import DataError
from evalscribe.json_data import InvalidJson, StrictJson
from evalscribe.model.dataset import Item
from evalscribe.sources.items import make_item_key, parse_item, render_item
from support.item_strategies import ITEMS


@settings(max_examples=60)
@given(item=ITEMS)
def test_rendered_item_parses_to_the_same_item(item: Item) -> None:
    line = render_item(item)
    again = parse_item(StrictJson().decode(line), {"file": "other.jsonl", "line": 7})
    assert again == (item, 0, True)
    assert "\n" not in line
    assert render_item(again.item) == line


def test_null_input_and_false_expected_output_are_values() -> None:
    item = parse_item({"input": None, "expected_output": False, "metadata": None, "key": 17}, {}).item
    assert (item.input, item.expected_output, item.metadata, item.key) == (None, False, {}, "17")
    assert '"expected_output":false' in render_item(item)


def test_item_without_a_key_gets_a_content_hash() -> None:
    one, other = (parse_item({"input": "hi", "metadata": {"n": n}}, {"line": n}).item for n in (1, 2))
    assert one.key == other.key == make_item_key(one)
    assert len(one.key) == 16
    assert one.key != parse_item({"input": "hi", "expected_output": "ho"}, {}).item.key


def test_secrets_are_redacted_and_counted_but_item_keys_are_kept() -> None:
    secret = "sk-ant-api03-" + "Ab1" * 30
    read = parse_item(
        {"key": "9f86d081884c7d65", "input": [secret, {"api_key": "hT7pQ2xZ9mK4vB8nL3wR"}], "source": {}}, {}
    )
    assert read.hidden == 2
    assert read.item.key == "9f86d081884c7d65"
    assert secret not in render_item(read.item)
    assert "hT7pQ2xZ9mK4vB8nL3wR" not in render_item(read.item)
    assert parse_item({"input": "[redacted:key] is only told of"}, {}).hidden == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "not a JSON object"),
        ({"output": 1}, "`output` is unknown; fields: key, input, expected_output"),
        ({"input": 1, "expected": 1, "expected_output": 1}, "`expected` and `expected_output` mean the same"),
        ({"key": "a"}, "`input` is missing"),
        ({"input": 1, "metadata": []}, "`metadata` is not an object"),
        ({"input": 1, "events": {}}, "`events` is not a list"),
        ({"input": 1, "events": [1]}, "`events.0` is not an object"),
        ({"input": 1, "key": ""}, "`key` is not a valid name"),
        ({"input": 1, "key": "a\nb"}, "`key` is not a valid name"),
        ({"input": 1, "key": "a" * 241}, "`key` is not a valid name"),
        ({"input": 1, "split": True}, "`split` is not text"),
        ({"input": {"\ud800": 1}}, "contains half of a surrogate pair"),
    ],
)
def test_error_message_says_why_a_value_is_not_an_item(value: object, said: str) -> None:
    with pytest.raises(DataError, match="^" + said.replace("(", r"\(")):
        parse_item(value, {})


def test_deeply_nested_input_is_refused() -> None:
    deep: object = 1
    for _ in range(120):
        deep = [deep]
    with pytest.raises(DataError, match="nested too deeply"):
        parse_item({"input": deep}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "NaN is not valid JSON"),
        ('{"a": -Infinity}', "-Infinity is not valid JSON"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the member `c` twice"),
        ("1e999", "too large for a float"),
        ("9" * 301, "more than 300 digits"),
        ("[" * 10_000 + "]" * 10_000, "nested too deeply"),
    ],
)
def test_ambiguous_json_is_refused(text: str, said: str) -> None:
    decoder = StrictJson()
    with pytest.raises(DataError, match=said) as error:
        decoder.decode(text)
    assert not isinstance(error.value, InvalidJson)
    assert decoder.decode('{"a": 1}') == {"a": 1}, "the next value stands for itself"


@pytest.mark.parametrize("text", ["", "hello", '{"a": }', "[1", "1 2"])
def test_invalid_json_raises_invalid_json(text: str) -> None:
    with pytest.raises(InvalidJson):
        StrictJson().decode(text)


def test_large_integers_stay_exact() -> None:
    assert StrictJson().decode(json.dumps(10**299)) == 10**299

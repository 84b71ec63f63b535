"""Members of JSON values by name or index, and conversion of values to text."""

import pytest
from pydantic import JsonValue

from evalscribe.json_data import get_member, to_text


@pytest.mark.parametrize(
    ("value", "name", "member"),
    [({"a": None}, "a", None), ({"0": "by name"}, "0", "by name"), ([5, 6], "1", 6), ([5, 6], "٠", 5)],
)
def test_member_is_returned_by_name_or_index(value: JsonValue, name: str, member: JsonValue) -> None:
    assert get_member(value, name) == member


@pytest.mark.parametrize(
    ("value", "name"), [({}, "a"), ([5], "1"), ([5], "-1"), ([5], "9" * 5000), ("text", "0"), (None, "a"), ([5], "")]
)
def test_missing_member_raises_lookup_error(value: JsonValue, name: str) -> None:
    with pytest.raises(LookupError):
        get_member(value, name)


def test_values_are_converted_to_text() -> None:
    assert [to_text(one) for one in ("é", {"b": 1, "a": ["é"]}, None)] == ["é", '{"b": 1, "a": ["é"]}', "null"]

"""Parts of JSON values by name, and values as texts."""

import pytest
from pydantic import JsonValue

from evalscribe.json_data import get_member, to_text


@pytest.mark.parametrize(
    ("value", "name", "found"),
    [({"a": None}, "a", None), ({"0": "by name"}, "0", "by name"), ([5, 6], "1", 6), ([5, 6], "٠", 5)],
)
def test_a_member_by_name_or_number(value: JsonValue, name: str, found: JsonValue) -> None:
    assert get_member(value, name) == found


@pytest.mark.parametrize(
    ("value", "name"), [({}, "a"), ([5], "1"), ([5], "-1"), ([5], "9" * 5000), ("text", "0"), (None, "a"), ([5], "")]
)
def test_what_is_no_member(value: JsonValue, name: str) -> None:
    with pytest.raises(LookupError):
        get_member(value, name)


def test_values_as_texts() -> None:
    assert [to_text(one) for one in ("é", {"b": 1, "a": ["é"]}, None)] == ["é", '{"b": 1, "a": ["é"]}', "null"]

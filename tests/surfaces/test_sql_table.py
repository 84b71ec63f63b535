"""Column widths of query results."""

import pytest

from evalscribe.cli.tables import fit_widths

ID, TEXT = "a" * 64, "a word of many " * 20


@pytest.mark.parametrize(
    ("row", "room", "widths"),
    [
        pytest.param(("ab", "c d"), 80, [2, 3], id="no wider than what they hold"),
        pytest.param((ID, TEXT), 100, [64, 34], id="the rest is the text's"),
        pytest.param((ID, TEXT), 40, [64, 16], id="an id is whole where there is no room"),
        pytest.param((TEXT, TEXT, "1"), 105, [50, 50, 1], id="texts share"),
        pytest.param((TEXT, "as long as twenty !", "1"), 105, [81, 19, 1], id="who wants little gets it"),
        pytest.param(("b" * 65, "c d"), 30, [25, 3], id="a longer word is a text"),
    ],
)
def test_column_widths_fit_the_available_width(row: tuple[str, ...], room: int, widths: list[int]) -> None:
    assert fit_widths([("n",) * len(row), row], room) == widths


def test_columns_without_rows_are_as_wide_as_their_names() -> None:
    assert fit_widths([("status", "n")], 80) == [6, 1]

import pytest
from headings import headings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One", [(1, "One")]),
        ("###### Six", [(6, "Six")]),
        ("####### Seven", []),
        ("#no space", []),
        ("  ## Two  ", [(2, "Two")]),
        ("text\n# A\nmore\n## B", [(1, "A"), (2, "B")]),
        ("```\n# code\n```\n# A", [(1, "A")]),
        ("", []),
    ],
)
def test_headings(text, expected):
    assert headings(text) == expected

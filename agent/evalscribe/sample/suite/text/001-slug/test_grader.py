import pytest
from slug import slug


@pytest.mark.parametrize(
    ("title", "expected"), [("Hello, World!", "hello-world"), ("--a  b--", "a-b"), ("", ""), ("C3PO", "c3po")]
)
def test_slug(title, expected):
    assert slug(title) == expected

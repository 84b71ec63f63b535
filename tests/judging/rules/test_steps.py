import pytest

from evalscribe.judging.rules.facts import check_kind


@pytest.mark.parametrize(
    ("step", "tool", "expected"),
    [
        ("eslint", None, "lint"),
        ("lint", "ruff", "lint"),
        ("tsc", None, "build"),
        ("types", "mypy", "build"),
        ("typecheck", None, "build"),
        ("Type-check (tsc)", "pytest", "build"),
        ("deploy", "tsc", "build"),
        ("tests", "tsc", "tests"),
        ("install", None, "install"),
        ("stage 4", "pytest", "tests"),
        (None, None, "other"),
        ("files", None, "other"),
    ],
)
def test_kind_of_a_step_is_read_from_its_name_or_else_its_tool(
    step: str | None, tool: str | None, expected: str
) -> None:
    assert check_kind(step, tool) == expected

"""The report folder of a model, and model identity."""

import pytest

from evalscribe.ids import choose_folder, same_model


@pytest.mark.parametrize(
    ("provider", "model", "reports", "folder"),
    [
        ("anthropic", "anthropic/claude-4.6", [], "anthropic/claude-4.6"),
        ("anthropic", "anthropic/claude-4.6", ["anthropic/claude-4-6/a.md"], "anthropic/claude-4-6"),
        ("anthropic", "claude-4-6", ["anthropic/claude-4.6/a.md"], "anthropic/claude-4.6"),
        (
            "anthropic",
            "anthropic/claude-4.6",
            ["anthropic/claude-4-6/a.md", "anthropic/claude-4.6/a.md"],
            "anthropic/claude-4.6",
        ),
        ("arcee-ai", "arcee-ai/trinity", ["openrouter/arcee-ai/trinity/a.md"], "openrouter/arcee-ai/trinity"),
        (
            "arcee-ai",
            "arcee-ai/trinity",
            ["openrouter/arcee-ai/trinity/a.md", "arcee-ai/trinity/a.md"],
            "arcee-ai/trinity",
        ),
        ("anthropic", "anthropic/claude-4.6", ["openrouter/claude-4.6/a.md"], "openrouter/claude-4.6"),
        ("anthropic", "claude-4.6", ["openrouter/claude-4.6/a.md"], "anthropic/claude-4.6"),
        ("mine", "anthropic/claude-4.6", ["anthropic/claude-4.6/a.md"], "mine/anthropic/claude-4.6"),
        ("mine", "anthropic/claude-4.6", ["mine/claude-4-6/a.md"], "mine/claude-4-6"),
        ("openrouter", "unknown-model", ["azure/unknown-model/a.md"], "openrouter/unknown-model"),
        ("p", "m", ["a.md", "p/a.md", "q/n/a.md"], "p/m"),
        ("..", "../../etc/passwd", [], "unnamed/unnamed/etc/passwd"),
    ],
)
def test_report_is_filed_with_earlier_reports_of_its_model(
    provider: str, model: str, reports: list[str], folder: str
) -> None:
    assert choose_folder(provider, model, reports) == folder


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("google-vertex", "anthropic/claude-4.6"), ("anthropic", "claude-4-6"), True),
        (("openrouter", "arcee-ai/trinity"), ("arcee-ai", "arcee-ai/trinity"), True),
        (("openrouter", "a/model-1"), ("openrouter", "b/model-1"), False),
        (("p", "m"), ("q", "m"), False),
    ],
)
def test_model_is_identified_by_vendor_and_name(one: tuple[str, str], other: tuple[str, str], same: bool) -> None:
    assert same_model(*one, *other) is same

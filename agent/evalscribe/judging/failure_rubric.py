"""What a rubric must be like to judge failures, and how a judge that uses it is called."""

from functools import cache

from evalscribe.errors import UsageError
from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

DEFAULT = "failure"
"""The shipped rubric for failures."""
FIELD = "classification"


def labels(rubric: Rubric) -> tuple[Classification, ...]:
    """The labels that a rubric for failures gives, in our order. Raises `UsageError` for any other rubric."""
    field = rubric.output_schema.get("properties", {}).get(FIELD)
    given = field.get("enum") if field else None
    if not given:
        raise UsageError(
            f"rubric {rubric.id} judges no failures: its schema has no `{FIELD}` with an enum of labels\n"
            f"(of {', '.join(CLASSIFICATIONS)}); any question can be asked with `evalscribe judge {rubric.id}`"
        )
    unknown = [str(label) for label in given if label not in CLASSIFICATIONS]
    if unknown:
        raise UsageError(
            f"rubric {rubric.id} judges no failures: {FIELD} may be {unknown[0]!r}; "
            f"an analysis knows {', '.join(CLASSIFICATIONS)}"
        )
    return tuple(label for label in CLASSIFICATIONS if label in given)


@cache
def shipped_rubric() -> Rubric:
    """The default rubric as it came with the package."""
    from evalscribe.rubric_file import load_rubric

    return load_rubric(DEFAULT, Prompts())


def judge_id(model: str, rubric: Rubric) -> str:
    """`anthropic/claude-opus-5-5`, and `anthropic/claude-opus-5-5 with unfair-check@2` for any rubric but the shipped
    default."""
    return model if rubric.digest == shipped_rubric().digest else f"{model} with {rubric.id}@{rubric.version}"

"""The label of a rubric that decides, and what each of its values is worth."""

from collections.abc import Mapping
from typing import Any

from evalscribe.errors import UsageError
from evalscribe.model.output_schema import agreement_keys

PREFERRED = "label"
WORTH = {"pass": 1.0, "partial": 0.5, "fail": 0.0, "yes": 1.0, "no": 0.0, "match": 1.0, "no match": 0.0}
"""Of labels that say so themselves; every other one needs `choice_scores`."""
TRUTH = {"true": 1.0, "false": 0.0}


def label_key(schema: Mapping[str, Any], whose: str) -> str:
    """`label`, else the first field that is a boolean or has an enum. Raises `UsageError` where there is none."""
    keys = agreement_keys(dict(schema))
    if not keys:
        raise UsageError(f"{whose} cannot score: its output_schema has no field with an enum, and no yes or no")
    return PREFERRED if PREFERRED in keys else keys[0]


def spelled(value: object) -> str:
    """A label as `choice_scores` names it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def scores_of(schema: Mapping[str, Any], given: Mapping[str, float] | None, whose: str) -> dict[str, float]:
    """What each label is worth, in the schema's order. Raises `UsageError` naming a label without a worth, or extra."""
    field = schema["properties"][label_key(schema, whose)]
    labels = [*map(spelled, field["enum"])] if "enum" in field else ["true", "false"]
    known = {**WORTH, **TRUTH} if given is None else given
    if missing := [label for label in labels if label not in known]:
        raise UsageError(f"choice_scores must say what {missing[0]!r} is worth; {whose} has: {', '.join(labels)}")
    if extra := [label for label in given or () if label not in labels]:
        raise UsageError(f"choice_scores names {extra[0]!r}; {whose} has: {', '.join(labels)}")
    return {label: known[label] for label in labels}

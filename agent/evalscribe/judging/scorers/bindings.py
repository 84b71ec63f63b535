"""A scorer as the command line attaches it: `NAME`, or JSON with its config."""

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field, JsonValue

from evalscribe.errors import DataError, UsageError
from evalscribe.json_data import StrictJson
from evalscribe.judging.scorers.catalogue import reserved
from evalscribe.judging.scorers.config import configured
from evalscribe.judging.scorers.kind import Configured
from evalscribe.judging.scorers.specs import spec
from evalscribe.model.score import Binding, ScorerSpec

Specify = Callable[[str, Mapping[str, JsonValue]], ScorerSpec]


class Written(Configured):
    """What the JSON may hold."""

    name: str
    """Of the scorer."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    as_: str | None = Field(default=None, alias="as", pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,79}$")
    """What its scores are called, where one scorer is attached twice."""
    required: bool = True
    """Whether an item can pass without it."""
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    """Passes from this value on, in place of the scorer's own rule."""


def binding_of(text: str, specify: Specify = spec) -> Binding:
    """`NAME`, or `{"name", "config", "as", "required", "threshold"}`. `specify` makes the spec.

    Raises `UsageError` naming what is wrong.
    """
    written = _written(text.strip())
    made = specify(written.name, written.config)
    if written.as_ is not None:
        if written.as_ != written.name and reserved(written.as_):
            raise UsageError(f"scorer {written.name}: as: {written.as_} is the name of another scorer")
        made = made.model_copy(update={"name": written.as_})
    return Binding(spec=made, required=written.required, threshold=written.threshold)


def _written(text: str) -> Written:
    if not text.startswith("{"):
        return Written(name=text)
    try:
        given = StrictJson().decode(text)
    except DataError as error:
        raise UsageError(f"scorer {text[:60]}: {error}") from error
    assert isinstance(given, dict)
    return configured(Written, str(given.get("name", "without a name"))[:80], given)

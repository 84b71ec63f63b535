"""Which scorer, configured how: what a score rests on, named by content."""

from functools import cached_property
from typing import Self

from pydantic import Field, JsonValue

from evalscribe.dataset import short_id
from evalscribe.ids import Frozen
from evalscribe.rubric import Rubric

CUSTOM = "custom"
"""`ScorerSpec.scorer` of a function of the user's own."""


class ScorerSpec(Frozen):
    """A scorer with its checked configuration. Immutable."""

    name: str
    """As it is shown: the built-in's name as it was asked for (an alias too), or the user's own name."""
    scorer: str
    """Canonical name of a built-in, or `custom`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Complete: defaults are written out."""
    address: str | None = None
    """Of a custom one: `package.module:function`."""
    code: str | None = None
    """Content id of its source; of a built-in without a model its name and the number of its rule: `contains/1`."""
    rubric: Rubric | None = None
    """Of a judge: the stored version that it judges by."""
    model: str | None = None
    """Of a judge: `provider/name`."""
    depends_on: tuple[str, ...] = ()
    """Names of the scorers whose results it is given."""

    @cached_property
    def id(self) -> str:
        """`scv-…`: equal ids, equal scorers."""
        body = self.model_dump(mode="json", exclude={"rubric"})
        return short_id("scv", [body, self.rubric.digest if self.rubric else None])

    def __copy__(self) -> Self:
        """`model_copy` changes what this gives: the id must not come along."""
        copied = super().__copy__()
        copied.__dict__.pop("id", None)
        return copied


class Binding(Frozen):
    """A scorer in an experiment."""

    spec: ScorerSpec
    scorer_id: str | None = None
    """Of a scorer that was created under a name; None for a built-in that was attached directly."""
    required: bool = True
    """Whether an item can pass without it."""
    threshold: float | None = None
    """Passes from this value on, in place of the scorer's own rule."""


class Scorer(Frozen):
    """A scorer that was created under a name; its newest version."""

    id: str
    """`scorer-…`"""
    name: str
    """Unique; usable wherever its id is."""
    description: str = ""
    spec: ScorerSpec
    folder: str = ""
    """Absolute; where a function of the user's own is imported from. No part of the version."""
    number: int = 1
    created_at: str

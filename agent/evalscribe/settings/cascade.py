"""`[cascade]` of evalscribe.toml: which models look first and closer, and what is tagged."""

from typing import Annotated

from pydantic import Field

from evalscribe.cascade import Tag
from evalscribe.ids import Frozen

Text = Annotated[str, Field(min_length=1, strict=True)]
TagName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$")]


class TagTable(Frozen):
    """`[cascade.tags.NAME]`."""

    about: Text
    """What the tag means, for the model that tags."""
    rubric: Text
    """Which rubric the expensive model then uses: `NAME` or `NAME@VERSION`."""


class CascadeTable(Frozen):
    tag: Text = "anthropic/claude-haiku-5-5"
    """The cheap model, `provider/name`."""
    judge: Text = "anthropic/claude-opus-5-5"
    """The expensive model, `provider/name`."""
    rules: Annotated[bool, Field(strict=True)] = True
    """Whether the rules decide first what they are sure of (analyses only)."""
    tags: dict[TagName, TagTable] | None = None
    """In order: of several tags of one failure the first decides. None: those that come with evalscribe."""

    def issues(self) -> tuple[Tag, ...]:
        """The tags that are configured."""
        return tuple(Tag(name=name, about=tag.about, rubric=tag.rubric) for name, tag in (self.tags or {}).items())

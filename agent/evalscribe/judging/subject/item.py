"""A subject and its items. Their texts are hostile: they are shown between delimiters found nowhere in them."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from evalscribe.ids import Frozen, content_id
from evalscribe.judging.fence import Fence, numbered_whole, one_line, visible
from evalscribe.judging.subject.haystack import Haystack
from evalscribe.judging.subject.help import citation_help
from evalscribe.judging.subject.keys import found, value_text
from evalscribe.model.result import CitationTarget


class Item(Frozen):
    """One text of a subject, and how it is cited."""

    mark: str
    """`T0B1`, `R0M`, `A0`, `failure`, `output src/main.py`: what stands between the brackets of a citation."""
    about: str
    """Our words about it, for the delimiter's line. No part of the text, so it can never be quoted."""
    text: str
    """What can be quoted, as it was recorded; offsets of a citation count its code points."""
    target: CitationTarget
    """Where a citation of the whole item leads."""
    numbered: bool = False
    """Whether its lines are shown with numbers and can be cited by them."""
    first: int = 1
    """Number of the first line of `text`."""
    labels: tuple[tuple[int, str], ...] = ()
    """Where in `text` a part begins (a line's start), and our word for it; ascending. Never quotable either."""
    metadata: dict[str, Any] | None = None
    """What the text shows as JSON: its keys can be cited, `R0M.scores.reward`."""


class Subject(Frozen):
    """What one judgement is about."""

    id: str
    """An agent run's id, or `<run id>/<eval path>`."""
    digest: str
    """Content id of all that a judge can see of it."""
    items: tuple[Item, ...]

    @classmethod
    def of(cls, id: str, items: Sequence[Item]) -> "Subject":
        """A subject with the digest of its items."""
        seen = [[item.mark, item.about, item.text, item.numbered, item.first, item.labels] for item in items]
        return cls(id=id, digest=content_id(seen), items=tuple(items))

    def text(self, items: Sequence[Item] | None = None) -> str:
        """Every item between delimiters, for a prompt; or only these, where a prompt has words between them."""
        return "\n".join(self._block(item) for item in (self.items if items is None else items))

    @property
    def citation_help(self) -> str:
        """How to cite here, in the grammar that this subject has."""
        numbered = any(item.numbered for item in self.items)
        return citation_help(tuple(item.mark for item in self.items if not item.numbered), numbered=numbered)

    def item(self, mark: str) -> Item | None:
        number = self.numbers.get(mark)
        return None if number is None else self.items[number]

    def text_of(self, target: CitationTarget) -> str | None:
        """The text that a target's offsets count in: the item's own, or the value's where a metadata key was cited."""
        key = target.metadata_key
        item = self.item(target.item.removesuffix(f".{key}") if key else target.item)
        if item is None or not key:
            return item.text if item else None
        value = found(item.metadata, key)
        return value_text(value.value) if value and value.end == len(key) else None

    def __copy__(self) -> "Subject":
        """Without what was derived: `model_copy` may be about to change the items."""
        return Subject.model_construct(id=self.id, digest=self.digest, items=self.items)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Which item has which mark. Of equal marks the first wins."""
        return {item.mark: number for number, item in reversed(list(enumerate(self.items)))}

    @cached_property
    def haystack(self) -> Haystack:
        """The items' texts, ready to be searched for quotations."""
        return Haystack(tuple(item.text for item in self.items))

    @cached_property
    def _fence(self) -> Fence:
        return Fence(self.digest, [text for item in self.items for text in (item.text, item.about, item.mark)])

    def _block(self, item: Item) -> str:
        return self._fence.block(f"{item.mark} {one_line(item.about)}".rstrip(), "\n".join(self._parts(item)))

    def _parts(self, item: Item) -> Iterator[str]:
        starts = [at for at, _ in item.labels]
        if not starts or starts[0] > 0:
            yield _shown(item, item.text[: starts[0] - 1] if starts else item.text)
        ends = [*starts[1:], len(item.text) + 1]
        for (start, label), end in zip(item.labels, ends, strict=False):
            yield f"<{self._fence.tag} part: {one_line(label)}>"
            yield _shown(item, item.text[start : end - 1])


def _shown(item: Item, text: str) -> str:
    return numbered_whole(item.first, text) if item.numbered else visible(text)


def in_parts(parts: Sequence[tuple[str, str]]) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Text and labels of an item from pairs of label and text; an empty label is none."""
    labels, at = [], 0
    for label, text in parts:
        labels += [(at, label)] if label else []
        at += len(text) + 1
    return "\n".join(text for _, text in parts), tuple(labels)

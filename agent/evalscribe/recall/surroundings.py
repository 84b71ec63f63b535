"""Where in a report one reads: its sections, and what gives a category or label to all that is in it."""

from dataclasses import dataclass, field

from evalscribe.recall.sections import Sections, Topic
from evalscribe.recall.words import Label


@dataclass(slots=True)
class Surroundings:
    sections: Sections = field(default_factory=Sections)
    _labels: dict[int, Label] = field(default_factory=dict)
    """By depth of the list item that is a label with evals below it."""
    _item_categories: dict[int, str] = field(default_factory=dict)
    _heading_categories: dict[int, str] = field(default_factory=dict)
    _heading_labels: dict[int, Label] = field(default_factory=dict)

    def enter_heading(self, level: int, title: str) -> None:
        self.sections.enter(level, title)
        self._labels, self._item_categories = {}, {}
        self._heading_categories = {n: name for n, name in self._heading_categories.items() if n < level}
        self._heading_labels = {n: label for n, label in self._heading_labels.items() if n < level}

    def enter_item(self, depth: int) -> None:
        self._labels = {n: label for n, label in self._labels.items() if n < depth}
        self._item_categories = {n: name for n, name in self._item_categories.items() if n < depth}

    def label_heading(self, level: int, label: Label) -> None:
        """A heading that gives a label to what is in its section: `### Group A: ports — OVERLY_STRICT`."""
        self._heading_labels[level] = label

    def label_item(self, depth: int, label: Label) -> None:
        self._labels[depth] = label

    def categorise(self, name: str, level: int, depth: int) -> None:
        """A heading (by level) or list item (by depth) turned out to name a category."""
        if level:
            self._heading_categories[level] = name
        else:
            self._item_categories[depth] = name

    @property
    def topic(self) -> Topic:
        return self.sections.topic

    @property
    def label(self) -> Label | None:
        inner = next(reversed(self._labels.values()), None) or next(reversed(self._heading_labels.values()), None)
        return inner or self.sections.label

    @property
    def category(self) -> str | None:
        inner = next(reversed(self._item_categories.values()), None)
        return inner or next(reversed(self._heading_categories.values()), None)

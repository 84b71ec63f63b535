"""A finding as far as a free-form report has told it yet."""

import re
from dataclasses import dataclass, field
from typing import Literal

from evalscribe.recall.blocks import Line, plain
from evalscribe.recall.fields import Key
from evalscribe.recall.lead import Lead, Named
from evalscribe.recall.words import NOTHING, Label, blame_in, label_in

Origin = Literal["heading", "field", "table", "list"]
NUMBER = re.compile(r"^\W{0,5}(\d{1,5})[.):\]]\s")
_THEIRS = ("model", "output", "actual", "wrong", "bad", "got")
_OURS = ("expected", "reference", "correct", "good", "right")
_SIDE = re.compile(rf"^\s*(?://|#|--|/\*|<!--|;)+\s*(?:the\s+)?({'|'.join(_THEIRS + _OURS)})\b", re.IGNORECASE)
"""A comment in a fence that says whose lines follow."""


@dataclass(slots=True)
class Draft:
    origin: Origin
    evals: tuple[Named, ...] = ()
    label: Label | None = None
    """As said where the eval is named: in its heading, row or list item."""
    inherited: Label | None = None
    """Of the section or list that it stands in."""
    failing: bool = False
    """Whether its section lists failures."""
    level: int = 0
    depth: int = 0
    number: int | None = None
    unsure: bool = False
    """Whether it tells of a failure only if it has a label of its own."""
    category: str | None = None
    values: dict[Key, list[str]] = field(default_factory=dict)
    fences: list[str] = field(default_factory=list)
    first_key: str = ""
    """The key that opened it, for blocks of fields without headings."""

    @property
    def for_all(self) -> bool:
        return not self.evals

    @property
    def may_be_category(self) -> bool:
        """Whether it names one thing without a path and gives it no label."""
        return len(self.evals) == 1 and "/" not in self.evals[0].name and self.explicit is None and self.number is None

    @property
    def only_named(self) -> bool:
        """Whether nothing is known yet but one name."""
        return self.may_be_category and self.evals[0].remark is None and not self.values and not self.fences

    @property
    def stated(self) -> Label | None:
        """The label that the report gives: in a field of its own, else where the eval is named, else around it."""
        return self.explicit or self.inherited

    @property
    def explicit(self) -> Label | None:
        said = [label for text in self.values.get("classification", ()) if (label := _label_of_field(text))]
        return said[-1] if said else self.label

    @property
    def step(self) -> str | None:
        text = next(iter(self.values.get("step", ())), "")
        word = re.sub(r"\(.*", "", text.replace("`", "")).strip(" .:*").lower()
        return None if word in ("", "none", "null", "n/a", "na", "-", "–", "—", "unknown") or len(word) > 40 else word

    def text(self, key: Key) -> str | None:
        return "\n".join(line for line in self.values.get(key, ()) if line).strip() or None

    def add(self, key: Key, text: str) -> None:
        self.values.setdefault(key, []).append(text)

    def snippet(self, key: Literal["output", "expected"]) -> str | None:
        """A field's text, else the part of a fence that a comment ascribes to that side."""
        said = self.text(key)
        if said and not NOTHING.match(said):
            return said
        return next((part for fence in self.fences if (part := _sides(fence).get(key))), None)


def opened(origin: Origin, line: Line, found: Lead) -> Draft:
    number = NUMBER.match(plain(line))
    return Draft(origin, found.evals, found.label, number=int(number.group(1)) if number else None, unsure=found.unsure)


def _label_of_field(text: str) -> Label | None:
    """The label in the first line of a `Classification` field; a foreign word there is a label too."""
    first = text.split("\n")[0]
    word = re.match(r"[^\w]*([A-Z][A-Z]{3,})\b", first)
    foreign = label_in(f"{word.group(1)}_LABEL{first[word.end() :]}") if word else None
    if foreign and foreign.foreign and word:
        foreign = foreign._replace(foreign=word.group(1))
    return label_in(first) or foreign or blame_in(first)


def _sides(fence: str) -> dict[str, str]:
    side, sides = "", dict[str, list[str]]()
    for line in fence.split("\n"):
        if match := _SIDE.match(line):
            side = "expected" if match.group(1).lower() in _OURS else "output"
        elif side:
            sides.setdefault(side, []).append(line)
    return {side: "\n".join(lines).strip("\n") for side, lines in sides.items()}

"""What a section of a free-form report speaks of, by its title and those above it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from evalscribe.model.finding import RecommendationGroup
from evalscribe.recall.words import LABEL, Label, label_in

Topic = Literal["failures", "actions", "recommendations", "patterns", "aside", "none"]
_TOPICS: dict[Topic, re.Pattern[str]] = {
    "actions": re.compile(
        r"\bactions? taken|\bactions\b|\bchanges (made|applied)|\bfixes applied|\bwhat (was|we) (done|did)", re.I
    ),
    "recommendations": re.compile(r"\brecommend|\bnext steps|\bsuggest|\bto-?do\b|\bpropos|\bimprovements\b", re.I),
    "patterns": re.compile(r"\bpatterns\b|\bthemes?\b|\bcross-cutting|\bobservations?\b|\binsights?\b", re.I),
    "aside": re.compile(
        r"\bcompar|\bvs\.?\b|\bprevious|\bprior\b|\bearlier|\bhistor|\brecurr|\bpass(ed|ing|es)\b|\bresolved|"
        r"\bfixed\b|\bimproved|\bno longer|\bappendix|\blegend|\bglossar|\bdefinition|\bmethod|\brubric|\bimpact|"
        r"\bno action|\bchange(s|log)\b|\bsucce|\breference|\bhow to\b|\bwithout failure",
        re.I,
    ),
    "failures": re.compile(
        r"\bfail|\berror|\baffected|\bclassif|\banaly|\bfinding|\bdetails?\b|\bresults?\b|\bper[- ]eval", re.I
    ),
}
"""The words of a title that tell its topic; the first topic that fits counts."""
_GROUPS: dict[RecommendationGroup, re.Pattern[str]] = {
    "none": re.compile(r"\bno (further )?action|\bnothing to do", re.I),
    "lint": re.compile(r"\blint|\bconfig", re.I),
    "model": re.compile(r"\bmodel", re.I),
    "eval": re.compile(r"\beval|\btask|\bgrader|\brunner|\btest|\bharness|\binfra", re.I),
}
_EVERY = re.compile(r"\b(all|every|each|global|alle)\b", re.IGNORECASE)
_EVALS = re.compile(r"\b(evals?|evaluations?|failures?|failed|failing|tasks?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    title: str
    first: bool = False
    """The document's own title, which says nothing of a section."""


@dataclass(slots=True)
class Sections:
    """The headings above the place that is being read."""

    above: list[Heading] = field(default_factory=list)
    seen: int = 0

    def enter(self, level: int, title: str) -> None:
        self.above = [heading for heading in self.above if heading.level < level]
        self.above.append(Heading(level, title, first=self.seen == 0 and level == 1))
        self.seen += 1

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(heading.title for heading in self.above if not heading.first)

    @property
    def topic(self) -> Topic:
        """The innermost title that says one, but an outer one that is no list of failures goes for all in it."""
        return _topic(self.titles)

    @property
    def around(self) -> Topic:
        """The topic without the innermost title, which may be that of a finding."""
        return _topic(self.titles[:-1])

    @property
    def in_one_pattern(self) -> bool:
        """Whether the innermost title is that of a single pattern, in a section of patterns."""
        return self.topic == "patterns" and topic_of(self.titles[-1]) != "patterns"

    @property
    def label(self) -> Label | None:
        """The label that a section's title gives to all that it lists: `## Known gaps (no action taken)`."""
        return next((label for title in reversed(self.titles) if (label := _titled(title))), None)

    @property
    def group(self) -> RecommendationGroup | None:
        return next((group for title in reversed(self.titles) if (group := group_of(title))), None)


def _topic(titles: Sequence[str]) -> Topic:
    topics = [topic_of(title) for title in titles]
    for topic in topics:
        if topic not in ("none", "failures"):
            return topic
    return "failures" if "failures" in topics else "none"


@lru_cache(maxsize=1024)
def topic_of(title: str) -> Topic:
    """What a title announces; what it adds in parentheses does not count, nor do the names of evals."""
    bare = re.sub(r"\([^()]*\)", "", title)
    bare = " ".join(word for word in bare.split() if not re.search(r"[A-Za-z].*[\d_]|[\d_].*[A-Za-z]", word))
    return next((topic for topic, words in _TOPICS.items() if words.search(bare)), "none")


def group_of(title: str) -> RecommendationGroup | None:
    return next((group for group, words in _GROUPS.items() if words.search(title)), None)


def speaks_of_all(title: str) -> bool:
    """Whether a title or sentence is about every failure of the run."""
    return bool(_EVERY.search(title) and _EVALS.search(title)) and not re.search(
        r"\bnot (all|every|each)\b", title, re.I
    )


def _titled(title: str) -> Label | None:
    """A title that is a label, give or take two words: not one that only mentions it."""
    bare = re.sub(r"\([^()]*\)|[^\w\s]|\b\d+\b", " ", title).strip()
    rest = LABEL.sub("", bare).lower().split()
    denied = {"no", "not", "without", "non", "kein", "keine"} & set(rest)
    return label_in(title) if LABEL.search(bare) and len(rest) <= 2 and not denied else None

"""Recognise the topics of a report's sections, and read patterns, recommendations and actions from the sections."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from evalscribe.model.analysis import ActionTaken, Analysis, FindingSummary, PatternSummary, RecommendationSummary
from evalscribe.model.finding import RecommendationGroup
from evalscribe.reports.freeform.blocks import FreeformBlock, Line, marked, plain, split_blocks
from evalscribe.reports.freeform.lines import LABEL, NOTHING, TOKEN, MentionedEvals, WrittenLabel, label_in

Topic = Literal["failures", "actions", "recommendations", "patterns", "aside", "none"]
_TOPICS: dict[Topic, re.Pattern[str]] = {
    "actions": re.compile(
        r"\bactions? taken|\bactions\b|\bchanges (made|applied)|\bfixes applied|\bwhat (was|we) (done|did)", re.I
    ),
    "recommendations": re.compile(r"\brecommend|\bnext steps|\bsuggest|\bto-?do\b|\bpropos|\bimprovements\b", re.I),
    "patterns": re.compile(r"\bpatterns\b|\bthemes?\b|\bcross-cutting|\bobservations?\b|\binsights?\b", re.I),
    # These sections name evals that passed or that failed in other runs.
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
"""Maps each topic to a pattern for the titles of its sections. If several patterns match a title, the first is used."""
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
    """True if the heading is the title of the document. The document's title begins no section."""


@dataclass(slots=True)
class Sections:
    """Headings of the sections that contain the current block, from the outermost to the innermost."""

    above: list[Heading] = field(default_factory=list)
    heading_count: int = 0

    def enter(self, level: int, title: str) -> None:
        self.above = [heading for heading in self.above if heading.level < level]
        self.above.append(Heading(level, title, first=self.heading_count == 0 and level == 1))
        self.heading_count += 1

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(heading.title for heading in self.above if not heading.first)

    @property
    def topic(self) -> Topic:
        """Topic of the current section.

        The titles are searched from the outermost to the innermost for a topic other than `failures`. If no title has
        such a topic, the result is `failures` if any title has this topic, otherwise `none`.
        """
        return _topic(self.titles)

    @property
    def around(self) -> Topic:
        """Topic of the sections around the innermost title.

        The innermost title is ignored because it can be the heading of a finding.
        """
        return _topic(self.titles[:-1])

    @property
    def in_one_pattern(self) -> bool:
        """True if the innermost title names a single pattern and is inside a section of patterns."""
        return self.topic == "patterns" and topic_of(self.titles[-1]) != "patterns"

    @property
    def label(self) -> WrittenLabel | None:
        """Label in a section's title, as in `## Known gaps (no action taken)`.

        The label applies to all evals in the section.
        """
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
    """Return the topic of a title, ignoring text in parentheses and names of evals."""
    bare = re.sub(r"\([^()]*\)", "", title)
    bare = " ".join(word for word in bare.split() if not re.search(r"[A-Za-z].*[\d_]|[\d_].*[A-Za-z]", word))
    return next((topic for topic, words in _TOPICS.items() if words.search(bare)), "none")


def group_of(title: str) -> RecommendationGroup | None:
    return next((group for group, words in _GROUPS.items() if words.search(title)), None)


def speaks_of_all(title: str) -> bool:
    """Return whether a title or a sentence is about all failures or all evals of the run."""
    return bool(_EVERY.search(title) and _EVALS.search(title)) and not re.search(
        r"\bnot (all|every|each)\b", title, re.I
    )


def _titled(title: str) -> WrittenLabel | None:
    """Return the label that a title states; None if it states none.

    If the title has more than two other words, it only mentions the label and does not state it.
    """
    bare = re.sub(r"\([^()]*\)|[^\w\s]|\b\d+\b", " ", title).strip()
    words = LABEL.sub("", bare).lower().split()
    denied = {"no", "not", "without", "non", "kein", "keine"} & set(words)
    return label_in(title) if LABEL.search(bare) and len(words) <= 2 and not denied else None


@dataclass(slots=True)
class SectionContext:
    sections: Sections = field(default_factory=Sections)
    _labels: dict[int, WrittenLabel] = field(default_factory=dict)
    """Labels of list items that contain other list items with evals, keyed by depth."""
    _item_categories: dict[int, str] = field(default_factory=dict)
    _heading_categories: dict[int, str] = field(default_factory=dict)
    _heading_labels: dict[int, WrittenLabel] = field(default_factory=dict)

    def enter_heading(self, level: int, title: str) -> None:
        self.sections.enter(level, title)
        self._labels, self._item_categories = {}, {}
        self._heading_categories = {n: name for n, name in self._heading_categories.items() if n < level}
        self._heading_labels = {n: label for n, label in self._heading_labels.items() if n < level}

    def enter_item(self, depth: int) -> None:
        self._labels = {n: label for n, label in self._labels.items() if n < depth}
        self._item_categories = {n: name for n, name in self._item_categories.items() if n < depth}

    def label_heading(self, level: int, label: WrittenLabel) -> None:
        """Record a label for all evals below a heading such as `### Group A: ports — OVERLY_STRICT`."""
        self._heading_labels[level] = label

    def label_item(self, depth: int, label: WrittenLabel) -> None:
        self._labels[depth] = label

    def categorise(self, name: str, level: int, depth: int) -> None:
        """Record the name of a category that a heading or a list item names.

        `level` is the level of the heading, or 0 for a list item. `depth` is the depth of the list item.
        """
        if level:
            self._heading_categories[level] = name
        else:
            self._item_categories[depth] = name

    @property
    def topic(self) -> Topic:
        return self.sections.topic

    @property
    def label(self) -> WrittenLabel | None:
        inner = next(reversed(self._labels.values()), None) or next(reversed(self._heading_labels.values()), None)
        return inner or self.sections.label

    @property
    def category(self) -> str | None:
        inner = next(reversed(self._item_categories.values()), None)
        return inner or next(reversed(self._heading_categories.values()), None)


@dataclass(frozen=True, slots=True)
class ReportConclusions:
    patterns: tuple[PatternSummary, ...]
    recommendations: tuple[RecommendationSummary, ...]
    actions: tuple[ActionTaken, ...]


@dataclass(frozen=True, slots=True)
class _Point:
    """One statement in a section: a paragraph, or a list item with everything nested in it."""

    sections: Sections
    topic: Topic
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "\n".join(text for line in self.lines if (text := marked(line)))


def read_conclusions(read: Sequence[FreeformBlock], findings: Sequence[FindingSummary]) -> ReportConclusions:
    """Read the patterns, recommendations and actions of a report.

    Each pattern, recommendation and action has the evals that its text names, provided that `findings` has these evals.
    """
    mentions = MentionedEvals(findings)
    points = [point for point in _points(read) if not NOTHING.match(plain(point.lines[0]))]
    return ReportConclusions(
        tuple(_pattern(point, mentions) for point in points if point.topic == "patterns"),
        tuple(_recommendations(points, mentions)),
        tuple(_action(point, mentions, {}) for point in points if point.topic == "actions"),
    )


def actions_in(markdown: str, report: Analysis) -> tuple[ActionTaken, ...]:
    """Return the actions that people added to a report that evalscribe wrote.

    An action can refer to the report's recommendations by id.
    """
    mentions = MentionedEvals(report.findings)
    evals_by_id = {
        recommendation.id: recommendation.evals for recommendation in report.recommendations if recommendation.id
    }
    # The first heading is taken as the title of the document, which begins no section.
    points = _points(split_blocks(f"# Report\n## Actions taken\n{markdown}"))
    return tuple(_action(point, mentions, evals_by_id) for point in points if not NOTHING.match(plain(point.lines[0])))


def _action(point: _Point, mentions: MentionedEvals, evals_by_id: Mapping[str, Sequence[str]]) -> ActionTaken:
    by_id = (path for token in TOKEN.findall(point.text) for path in evals_by_id.get(token, ()))
    return ActionTaken(text=point.text, evals=tuple(dict.fromkeys([*mentions.in_text(point.text), *by_id])))


def _points(read: Sequence[FreeformBlock]) -> Iterator[_Point]:
    sections, lines = Sections(), list[Line]()
    for block in read:
        inside = block.depth > 1 or block.kind in ("table", "fence") or sections.in_one_pattern
        begins = block.kind == "heading" or not inside
        if begins and lines:
            yield _Point(_copy(sections), sections.topic, tuple(lines))
            lines = []
        if block.kind == "heading":
            sections.enter(block.level, plain(block.lines[0]))
        elif sections.topic in ("actions", "recommendations", "patterns"):
            lines.extend(block.lines)
    if lines:
        yield _Point(_copy(sections), sections.topic, tuple(lines))


def _copy(sections: Sections) -> Sections:
    # A copy is needed because the original's headings change with each block.
    return Sections(list(sections.above), sections.heading_count)


def _pattern(point: _Point, mentions: MentionedEvals) -> PatternSummary:
    lead, colon, _ = plain(point.lines[0]).partition(":")
    strong = lead if colon and any(span.style == "strong" for span in point.lines[0]) else None
    title = re.sub(r"^[\W\d]+", "", point.sections.titles[-1])
    return PatternSummary(
        name=title if point.sections.in_one_pattern else strong or title,
        evals=mentions.in_text(point.text),
        text=point.text,
    )


def _recommendations(points: Sequence[_Point], mentions: MentionedEvals) -> Iterator[RecommendationSummary]:
    """Yield the recommendations whose title names a group, such as `model` or `eval`.

    A recommendation outside any group is skipped, because nothing shows what it proposes to change.
    """
    for point in points:
        group = point.sections.group
        if point.topic == "recommendations" and group is not None:
            yield RecommendationSummary(group=group, text=point.text, evals=mentions.in_text(point.text))

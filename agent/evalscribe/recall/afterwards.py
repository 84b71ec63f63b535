"""What a free-form report says besides its findings: patterns, recommendations, what was done."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalscribe.model.analysis import ActionTaken, Analysis, FindingSummary, PatternSummary, RecommendationSummary
from evalscribe.recall.blocks import Block, Line, blocks, marked, plain
from evalscribe.recall.mentions import TOKEN, Mentions
from evalscribe.recall.sections import Sections, Topic
from evalscribe.recall.words import NOTHING


@dataclass(frozen=True, slots=True)
class Afterwards:
    patterns: tuple[PatternSummary, ...]
    recommendations: tuple[RecommendationSummary, ...]
    actions: tuple[ActionTaken, ...]


@dataclass(frozen=True, slots=True)
class _Point:
    """One thing said in a section: an item with all that is nested in it, or a paragraph."""

    sections: Sections
    topic: Topic
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "\n".join(said for line in self.lines if (said := marked(line)))


def afterwards(read: Sequence[Block], findings: Sequence[FindingSummary]) -> Afterwards:
    """`findings`: of the same report, to tell which of them a sentence names."""
    mentions = Mentions(findings)
    points = [point for point in _points(read) if not NOTHING.match(plain(point.lines[0]))]
    return Afterwards(
        tuple(_pattern(point, mentions) for point in points if point.topic == "patterns"),
        tuple(_recommendations(points, mentions)),
        tuple(_action(point, mentions, {}) for point in points if point.topic == "actions"),
    )


def actions_in(markdown: str, report: Analysis) -> tuple[ActionTaken, ...]:
    """The actions that people wrote into a report of ours, where they may name a recommendation by its id."""
    mentions = Mentions(report.findings)
    meant = {one.id: one.evals for one in report.recommendations if one.id}
    points = _points(blocks(f"# Report\n## Actions taken\n{markdown}"))
    return tuple(_action(point, mentions, meant) for point in points if not NOTHING.match(plain(point.lines[0])))


def _action(point: _Point, mentions: Mentions, meant: Mapping[str, Sequence[str]]) -> ActionTaken:
    by_id = (path for token in TOKEN.findall(point.text) for path in meant.get(token, ()))
    return ActionTaken(text=point.text, evals=tuple(dict.fromkeys([*mentions.in_text(point.text), *by_id])))


def _points(read: Sequence[Block]) -> Iterator[_Point]:
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
    return Sections(list(sections.above), sections.seen)


def _pattern(point: _Point, mentions: Mentions) -> PatternSummary:
    lead, colon, _ = plain(point.lines[0]).partition(":")
    strong = lead if colon and any(span.style == "strong" for span in point.lines[0]) else None
    title = re.sub(r"^[\W\d]+", "", point.sections.titles[-1])
    return PatternSummary(
        name=title if point.sections.in_one_pattern else strong or title,
        evals=mentions.in_text(point.text),
        text=point.text,
    )


def _recommendations(points: Sequence[_Point], mentions: Mentions) -> Iterator[RecommendationSummary]:
    """Those that stand under one of the four groups: without it the report does not say what is to change."""
    for point in points:
        group = point.sections.group
        if point.topic == "recommendations" and group is not None:
            yield RecommendationSummary(group=group, text=point.text, evals=mentions.in_text(point.text))

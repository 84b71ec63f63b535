"""What to change, in four groups."""

import re
from collections.abc import Iterable, Sequence

from evalscribe.model.finding import RECOMMENDATION_GROUPS, Recommendation, RecommendationGroup
from evalscribe.model.report import Report, ReportEntry
from evalscribe.reports.markdown import inline, notes
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport
from evalscribe.text import mask_code

HEADING = "Recommendations"
WITH_ID = re.compile(r"(R\d+)(?: \(([^()]+)\))?:(?: (.*))?")
WITHOUT_ID = re.compile(r"()([^:()]+):(?: (.*))?")
GENERAL = "General"
PASSES = "would pass"


def render(report: Report) -> list[str]:
    lines = [f"## {HEADING}", *notes.of(report, "recommendations")]
    for group, heading in RECOMMENDATION_GROUPS.items():
        items = [f"- {_item(item, report.entries)}" for item in report.recommendations if item.group == group]
        lines += [f"### {heading}", *(items or ["None."])]
    return lines


def _item(item: Recommendation, entries: Sequence[ReportEntry]) -> str:
    concerns = inline.render_references(item.evals, entries)
    if item.id is None:
        return f"{', '.join([*(concerns or [GENERAL]), *_claim(item)])}: {item.text}".rstrip()
    said = ", ".join([*concerns, *_claim(item)])
    return f"{item.id}{f' ({said})' if said else ''}: {item.text}".rstrip()


def _claim(item: Recommendation) -> list[str]:
    return [PASSES] if item.would_pass else []


def group_of(heading: PageBlock) -> RecommendationGroup:
    """Raises `UnreadableReport`."""
    for group, name in RECOMMENDATION_GROUPS.items():
        if name.casefold() == heading.text.strip().casefold():
            return group
    raise UnreadableReport(f"{heading.text!r} is not a group of recommendations", heading.line)


def parse(
    items: Iterable[PageBlock], group: RecommendationGroup, entries: Sequence[ReportEntry]
) -> tuple[list[Recommendation], list[str]]:
    """The group's recommendations, and items that a person added."""
    found: list[Recommendation] = []
    added: list[str] = []
    for item in items:
        mask = mask_code(item.text)
        match = WITH_ID.fullmatch(mask) or WITHOUT_ID.fullmatch(mask)
        evals = _evals(item, match, entries) if match and item.simple else None
        if match is None or evals is None:
            added.append(item.source)
        else:
            found.append(_parse(item, match, group, evals))
    return found, added


def _parse(item: PageBlock, match: re.Match[str], group: RecommendationGroup, evals: list[str]) -> Recommendation:
    text = item.text[slice(*match.span(3))] if match[3] else ""
    claim = PASSES in inline.split(item.text[slice(*match.span(2))], ",") if match[2] else False
    return Recommendation(id=match[1] or None, group=group, text=text, evals=tuple(evals), would_pass=claim)


def _evals(item: PageBlock, match: re.Match[str], entries: Sequence[ReportEntry]) -> list[str] | None:
    """None where what stands in their place is no list of evals: then a person wrote the line."""
    names = inline.split(item.text[slice(*match.span(2))], ",") if match[2] else []
    concerns = [name for name in names if name not in (PASSES, GENERAL)]
    if any(
        not name.isdecimal() and not name.startswith("`") and not inline.PLAIN_PATH.fullmatch(name) for name in concerns
    ):
        return None
    try:
        return inline.parse_references(concerns, entries)
    except LookupError as error:
        raise UnreadableReport(str(error), item.line) from error

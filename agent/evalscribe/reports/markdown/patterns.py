"""What findings have in common, what no longer fails, and whether actions after earlier reports were effective."""

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from evalscribe.model.finding import FollowUp, FollowUpOutcome, Pattern, PatternKind, implied_kind
from evalscribe.model.report import Report, ReportEntry
from evalscribe.reports.markdown import inline, notes
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport
from evalscribe.text import mask_code

LEAD: dict[FollowUpOutcome, str] = {"held": "Held", "did not hold": "Did not hold", "not yet seen": "Not yet seen"}
LINE = re.compile(
    rf"({'|'.join(LEAD.values())}) since (\[[^\[\]]*\]\([^\s()]*\))(?: of [^\s:]+)?"
    r"(?: \(or among the \d+ that never completed\))?: \"(.*)\"(?: \(([^()]*)\))?\."
)


def render_follow_up(one: FollowUp, report: Report) -> str:
    evals = ", ".join(inline.render_references(one.evals, report.entries))
    unless = unless_incomplete(report) if one.outcome == "held" else ""
    since = f"{inline.report_link(one.report)}{_of_model(one.report)}{unless}"
    return f'{LEAD[one.outcome]} since {since}: "{one.text}"{f" ({evals})" if evals else ""}.'


def unless_incomplete(report: Report) -> str:
    """A source that names only failures cannot tell what passed from what never completed."""
    open_ = 0 if report.run.names_all else report.run.incomplete
    return f" (or among the {open_} that never completed)" if open_ else ""


def parse_follow_up(item: PageBlock, entries: Sequence[ReportEntry]) -> FollowUp | None:
    """None for an item that is none. Raises `UnreadableReport` for a number that no entry has."""
    match = LINE.fullmatch(mask_code(item.text))
    if match is None:
        return None
    link, text, evals = (item.text[slice(*match.span(n))] if match[n] else "" for n in (2, 3, 4))
    try:
        paths = inline.parse_references(inline.split(evals, ",") if evals else (), entries)
    except LookupError as error:
        raise UnreadableReport(str(error), item.line) from error
    outcome = next(outcome for outcome, lead in LEAD.items() if lead == match[1])
    return FollowUp(report=inline.parse_report_links(link)[0], text=text, evals=tuple(paths), outcome=outcome)


def _of_model(report: str) -> str:
    """Whose report it is, where it is another model's: the folder that its name leads to."""
    folder = re.sub(r"^(?:\.\./)+", "", posixpath.dirname(report))
    plain = folder if inline.PLAIN_NAME.fullmatch(folder) and ":" not in folder else ""
    return f" of {plain}" if plain else ""


HEADING = "Patterns"
KIND = r"(?:cause|rule|category|known-gaps|recurring|across-models|not-the-model)"
PATTERN = re.compile(rf"([^(]+) \((?:({KIND})(?:: ([^()]+))?|([^()]+))\):(?: (.*))?")
"""Name; its kind, where the name does not tell it; the evals; the text."""
RESOLVED = re.compile(
    r"(?:Resolved|No longer failing)(?: since [\d-]+)?(?: \(or among the \d+ that never completed\))?: (.+)\."
)


class ParsedPatterns(NamedTuple):
    patterns: list[Pattern]
    resolved: list[str]
    """Evals no longer failing."""
    follow_ups: list[FollowUp]
    added: list[str]
    """Items that a person added."""


def render(report: Report) -> list[str]:
    lines = [f"- {_pattern(pattern, report.entries)}" for pattern in report.patterns]
    lines += [f"- {_resolved(report)}"] if report.resolved else []
    lines += [f"- {render_follow_up(one, report)}" for one in report.follow_ups]
    return [f"## {HEADING}", *(lines or ["None."]), *notes.of(report, "patterns")]


def _pattern(pattern: Pattern, entries: Sequence[ReportEntry]) -> str:
    evals = ", ".join(inline.render_references(pattern.evals, entries))
    told = implied_kind(pattern.name) == pattern.kind and evals and not re.match(rf"{KIND}\b", evals)
    about = evals if told else f"{pattern.kind}{': ' if evals else ''}{evals}"
    return f"{pattern.name} ({about}): {pattern.text}".rstrip()


def _resolved(report: Report) -> str:
    """A source that names only failures cannot tell what passed from what never completed."""
    dates = [match[0] for match in map(inline.DATE.search, report.earlier) if match]
    since = f" since {min(dates)}" if dates else ""
    names = inline.paths(report.resolved)
    if report.run.names_all:
        return f"Resolved{since}: {names}."
    return f"No longer failing{since}{unless_incomplete(report)}: {names}."


def parse(items: Iterable[PageBlock], entries: Sequence[ReportEntry]) -> ParsedPatterns:
    patterns: list[Pattern] = []
    resolved: list[str] = []
    followed: list[FollowUp] = []
    added: list[str] = []
    for item in items:
        mask = mask_code(item.text)
        gone, pattern = RESOLVED.fullmatch(mask), PATTERN.fullmatch(mask)
        if gone and item.simple and not resolved:
            resolved = inline.parse_list(item.text[slice(*gone.span(1))])
        elif item.simple and (follow_up := parse_follow_up(item, entries)):
            followed.append(follow_up)
        elif pattern and item.simple and (pattern[2] or implied_kind(pattern[1])):
            patterns.append(_parse(item, pattern, entries))
        else:
            added.append(item.source)
    return ParsedPatterns(patterns, resolved, followed, added)


def _parse(item: PageBlock, match: re.Match[str], entries: Sequence[ReportEntry]) -> Pattern:
    name, few, evals, text = (item.text[slice(*match.span(n))] if match[n] else "" for n in (1, 3, 4, 5))
    evals = evals or few
    try:
        paths = inline.parse_references(inline.split(evals, ",") if evals else (), entries)
    except LookupError as error:
        raise UnreadableReport(str(error), item.line) from error
    return Pattern(name=name, kind=cast(PatternKind, match[2] or implied_kind(name)), evals=tuple(paths), text=text)

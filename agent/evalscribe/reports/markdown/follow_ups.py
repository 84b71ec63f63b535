"""What was done after earlier reports, and whether it held: one line each among the patterns."""

import posixpath
import re
from collections.abc import Sequence

from evalscribe.model.finding import FollowUp, FollowUpOutcome
from evalscribe.model.report import Report, ReportEntry
from evalscribe.reports.markdown import inline
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport
from evalscribe.text import mask_code

LEAD: dict[FollowUpOutcome, str] = {"held": "Held", "did not hold": "Did not hold", "not yet seen": "Not yet seen"}
LINE = re.compile(
    rf"({'|'.join(LEAD.values())}) since (\[[^\[\]]*\]\([^\s()]*\))(?: of [^\s:]+)?"
    r"(?: \(or among the \d+ that never completed\))?: \"(.*)\"(?: \(([^()]*)\))?\."
)


def render(one: FollowUp, report: Report) -> str:
    evals = ", ".join(inline.render_references(one.evals, report.entries))
    unless = unless_incomplete(report) if one.outcome == "held" else ""
    since = f"{inline.report_link(one.report)}{_of_model(one.report)}{unless}"
    return f'{LEAD[one.outcome]} since {since}: "{one.text}"{f" ({evals})" if evals else ""}.'


def unless_incomplete(report: Report) -> str:
    """A source that names only failures cannot tell what passed from what never completed."""
    open_ = 0 if report.run.names_all else report.run.incomplete
    return f" (or among the {open_} that never completed)" if open_ else ""


def parse(item: PageBlock, entries: Sequence[ReportEntry]) -> FollowUp | None:
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

"""Record an applied recommendation: branch, commit message, and the report's actions."""

import re
from collections.abc import Iterator, Sequence

from evalscribe import text as prose
from evalscribe.errors import DataError
from evalscribe.ids import run_id_prefix
from evalscribe.model.finding import Recommendation
from evalscribe.model.report import Report, replaced
from evalscribe.model.repository import BranchTip, Patch
from evalscribe.reports.markdown import blocks, inline, notes
from evalscribe.reports.markdown.page import parse

MOST_EVALS = 8
MOST_BRANCHES = 50
LONGEST_TEXT = 160
SHORT = 10
"""Length of a shortened commit id."""
_ACTED_ON = re.compile(r"(#|@|://|\bGH-|!)(?=\w)", re.IGNORECASE)
"""Text in a message that hosting sites act on: issues to close, people to notify, links."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def branch_names(recommendation: str, run: str) -> Iterator[str]:
    """Yield candidate branch names; the first free one is used."""
    name = f"evalscribe/{recommendation}-{re.sub('[^A-Za-z0-9_-]+', '-', run_id_prefix(run))}"
    yield name
    yield from (f"{name}-{n}" for n in range(2, MOST_BRANCHES))


def commit_message(patch: Patch, evals: Sequence[str], report: str) -> str:
    """Return the commit message, in which nothing closes an issue, skips a check or notifies a person."""
    lines = [
        _harmless(patch.summary),
        "",
        f"{patch.recommendation} of {_harmless(report)}, for",
        *(f"- {_harmless(path)}" for path in evals[:MOST_EVALS]),
        *([f"- and {len(evals) - MOST_EVALS} more"] if len(evals) > MOST_EVALS else []),
        "",
        f"Proposed by {_harmless(patch.judge)}, agreed to by the person who commits.",
        "",
        *_trailers(patch.run, patch.recommendation),
        f"Evalscribe-Patch: {patch.digest}",
    ]
    return "\n".join(lines) + "\n"


def is_of(tip: BranchTip, recommendation: str, run: str) -> bool:
    """Return True if a commit names this recommendation as its own."""
    return set(_trailers(run, recommendation)) <= set(tip.message.rstrip().split("\n\n")[-1].split("\n"))


def _trailers(run: str, recommendation: str) -> list[str]:
    return [f"Evalscribe-Run: {prose.one_line(run)}", f"Evalscribe-Recommendation: {recommendation}"]


def _harmless(text: str) -> str:
    spaced = _ACTED_ON.sub(r"\1 ", prose.one_line(text))
    return spaced.replace("[", "(").replace("]", ")")


def action_text(recommendation: Recommendation, files: Sequence[str], commit: str, branch: str, date: str) -> str:
    """Return the line for `Actions taken`."""
    said = prose.prose(recommendation.text.rstrip(" ."), LONGEST_TEXT)
    evals = [inline.printed_path(path) for path in recommendation.evals[:MOST_EVALS]]
    more = len(recommendation.evals) - MOST_EVALS
    named = ", ".join([*evals, *([f"and {more} more"] if more > 0 else [])])
    where = ", ".join(map(inline.code, files)) + (f" ({named})" if named else "")
    return f"- {date}: {recommendation.id}, {said}: {where}, commit `{commit[:SHORT]}` on {inline.code(branch)}."


def committed_line(text: str, recommendation: str) -> str | None:
    """Return the report's line that records this recommendation as committed; None if there is none."""
    wanted = re.compile(rf"- \d{{4}}-\d\d-\d\d: {recommendation}, .*, commit `[0-9a-f]+` on `[^`]+`\.")
    lines = parse(text).actions_taken.split("\n")
    return next((line for line in lines if wanted.fullmatch(line.strip())), None)


def with_action(text: str, line: str) -> str:
    """Add one line under `Actions taken` and change nothing else.

    Raises `DataError` if the report cannot be read, before or after.
    """
    before = parse(text)
    written = next((page for page in _pages(text, line) if _stands(page, line, before)), None)
    if written is None:
        raise DataError("its section `Actions taken` cannot be added to")
    return written


def _pages(text: str, line: str) -> Iterator[str]:
    """Yield candidate pages: with the line after people's text in the section, and above it, in case that text swallows
    what follows, such as an unclosed comment.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    head, kept, rest = _split(text)
    below = f"{end}{rest}" if rest else ""
    if kept.strip() in ("", "None."):
        yield f"{head}{line}{end}{below}"
        return
    gap = end if kept.rstrip().split("\n")[-1].startswith("- ") else end * 2
    yield f"{head}{kept.rstrip()}{gap}{line}{end}{below}"
    yield f"{head}{line}{end}{end}{kept}{rest}"


def _stands(page: str, line: str, before: Report) -> bool:
    """Return True if the line is a visible item and the rest of the report is unchanged."""
    if replaced(parse(page), actions_taken=before.actions_taken) != before:
        return False
    return any(item.source == line for block in blocks.read(page) for item in block.items)


def _split(text: str) -> tuple[str, str, str]:
    """Split the text into the part up to the heading, which is added if missing; people's text below it; and the rest
    from the next heading on.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    headings = [one for one in blocks.read(text) if one.kind == "heading" and one.level <= 2]
    heading = next((one for one in headings if one.text.strip().casefold() == notes.ACTIONS_HEADING.casefold()), None)
    if heading is None:
        return f"{text.rstrip()}{end}{end}## {notes.ACTIONS_HEADING}{end}", "", ""
    lines = _LINE.findall(text)
    after = next((one.line - 1 for one in headings if one.line > heading.end), len(lines))
    head = "".join(lines[: heading.end])
    return (
        head if head.endswith(("\n", "\r")) else head + end,
        "".join(lines[heading.end : after]),
        "".join(lines[after:]),
    )

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
"""Characters of a commit's id that people read."""
_ACTED_ON = re.compile(r"(#|@|://|\bGH-|!)(?=\w)", re.IGNORECASE)
"""What hosting sites act on in a message: issues to close, people to notify, links."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def branch_names(recommendation: str, run: str) -> Iterator[str]:
    """Names for the branch, the first free one of which is taken."""
    name = f"evalscribe/{recommendation}-{re.sub('[^A-Za-z0-9_-]+', '-', run_id_prefix(run))}"
    yield name
    yield from (f"{name}-{n}" for n in range(2, MOST_BRANCHES))


def commit_message(patch: Patch, evals: Sequence[str], report: str) -> str:
    """The commit's message: no word of it closes an issue, skips a check or calls a person."""
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
    """Whether a commit says that it is this recommendation's."""
    return set(_trailers(run, recommendation)) <= set(tip.message.rstrip().split("\n\n")[-1].split("\n"))


def _trailers(run: str, recommendation: str) -> list[str]:
    return [f"Evalscribe-Run: {prose.one_line(run)}", f"Evalscribe-Recommendation: {recommendation}"]


def _harmless(text: str) -> str:
    spaced = _ACTED_ON.sub(r"\1 ", prose.one_line(text))
    return spaced.replace("[", "(").replace("]", ")")


def action_text(recommendation: Recommendation, files: Sequence[str], commit: str, branch: str, date: str) -> str:
    """The line under `Actions taken`."""
    said = prose.prose(recommendation.text.rstrip(" ."), LONGEST_TEXT)
    evals = [inline.printed_path(path) for path in recommendation.evals[:MOST_EVALS]]
    more = len(recommendation.evals) - MOST_EVALS
    named = ", ".join([*evals, *([f"and {more} more"] if more > 0 else [])])
    where = ", ".join(map(inline.code, files)) + (f" ({named})" if named else "")
    return f"- {date}: {recommendation.id}, {said}: {where}, commit `{commit[:SHORT]}` on {inline.code(branch)}."


def committed_line(text: str, recommendation: str) -> str | None:
    """The line of a report that says that this recommendation was committed; None where there is none."""
    wanted = re.compile(rf"- \d{{4}}-\d\d-\d\d: {recommendation}, .*, commit `[0-9a-f]+` on `[^`]+`\.")
    lines = parse(text).actions_taken.split("\n")
    return next((line for line in lines if wanted.fullmatch(line.strip())), None)


def with_action(text: str, line: str) -> str:
    """The report's text with one line more under `Actions taken`, and nothing else changed.

    Raises `DataError` where the report cannot be read, before or after.
    """
    before = parse(text)
    written = next((page for page in _pages(text, line) if _stands(page, line, before)), None)
    if written is None:
        raise DataError("its section `Actions taken` cannot be added to")
    return written


def _pages(text: str, line: str) -> Iterator[str]:
    """With the line behind what people wrote in the section; else above it, if what they wrote swallows what follows,
    such as a comment without an end."""
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
    """Whether the line is an item that readers see, and the rest of the report what it was."""
    if replaced(parse(page), actions_taken=before.actions_taken) != before:
        return False
    return any(item.source == line for block in blocks.read(page) for item in block.items)


def _split(text: str) -> tuple[str, str, str]:
    """The text up to and with the heading's line, which is made where it is not there; what people wrote below it; and
    what follows from the next heading on."""
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

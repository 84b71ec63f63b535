"""The lines of a finding that name one fact each: error, cause, judge, history, reviewer."""

import re
from collections.abc import Callable, Mapping
from typing import cast

from evalscribe.model.cascade import Stage
from evalscribe.model.finding import CauseKind, Classification, CrossModelFailures, Recurrence, RecurrenceKind
from evalscribe.model.report import JudgeLabel, ReportEntry
from evalscribe.reports.markdown import inline
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.text import mask_code

OWN_PROMPTS = " with the workspace's own prompts"
CAUSE = re.compile(r"([\w.-]*)(?: ?\((model|task|grader|lint|harness|infrastructure)\))?")
JUDGE = re.compile(r"([A-Z_]+), (\d(?:\.\d+)?), (.+?)(?: \((rules|tag|judge)\))?")
SEEN = re.compile(r"(new|repeat|changed|fix-in-doubt)(?:: \"(.*)\")?([^\"]*)")
WHERE: dict[RecurrenceKind, str] = {"repeat": "same cause in", "changed": "another cause in"}
ALIKE = "fails the same way for"
EARLIER = "in an earlier version of this eval:"
MODELS = re.compile(
    rf"{ALIKE} \d+ of (\d+) models(?:, also (.+?)(?: and (\d+) more)?)?(?:; {EARLIER} (.+?)(?: and (\d+) more)?)?"
)
NAMED = r"(?:\s*\((?P<name>[^()]*)\)|\s+(?P<plain>@?[\w.-]+(?: [\w.-]+)?))"
REVIEWER = re.compile(rf"(?:\[[ x]\]\s+)?[*_]*reviewers?[*_]*{NAMED}?[*_]*\s*:[*_]*\s*", re.IGNORECASE)
"""As people write it: with a check box, in bold, with their name, several of them."""


def render(entry: ReportEntry, own_prompts: bool) -> list[str]:
    seen, across = _seen(entry.recurrence, entry.cause), _across(entry.across)
    missing = f"Missing: {entry.missing}" if entry.missing else ""
    facts = (_error(entry), missing, _cause(entry), _judge(entry.judge, own_prompts), seen, across)
    return [*(f"- {fact}" for fact in facts if fact), *(f"- Reviewer: {text}".rstrip() for text in entry.reviewer)]


def _error(entry: ReportEntry) -> str:
    return f"Error: {inline.code(entry.error)}" if entry.error else ""


def _cause(entry: ReportEntry) -> str:
    kind = f"({entry.cause_kind})" if entry.cause_kind else ""
    return f"Cause: {' '.join(filter(None, (entry.cause, kind)))}" if entry.cause or kind else ""


def _judge(judge: JudgeLabel | None, own_prompts: bool) -> str:
    if judge is None:
        return ""
    stage = f" ({judge.stage})" if judge.stage else ""
    own = OWN_PROMPTS if own_prompts and judge.stage != "rules" else ""
    return f"Judge: {judge.classification}, {judge.confidence:.2f}, {inline.name(judge.id)}{stage}{own}"


def _seen(recurrence: Recurrence, cause: str | None) -> str:
    """Without a cause, that of a failure which nobody judged, only the failing is the same."""
    said = f"Seen: {recurrence.kind}"
    if recurrence.action:
        said += f': "{recurrence.action}"'
    if recurrence.reports:
        where = "in" if recurrence.action else WHERE.get(recurrence.kind, "in") if cause else "failed in"
        said += f"{' ' if recurrence.action else ', '}{where} {', '.join(map(inline.report_link, recurrence.reports))}"
    return said + ("; the run may predate the fix" if recurrence.kind == "fix-in-doubt" else "")


def _across(across: CrossModelFailures | None) -> str:
    if across is None:
        return ""
    also = f", also {_models(across.alike, across.more)}" if across.alike else ""
    earlier = f"; {EARLIER} {_models(across.earlier, across.more_earlier)}" if across.earlier else ""
    return f"Models: {ALIKE} {across.failing} of {across.models} models{also}{earlier}"


def _models(named: tuple[str, ...], more: int) -> str:
    return ", ".join(map(inline.name, named)) + (f" and {more} more" if more else "")


def names(text: str) -> str | None:
    """Which fact a list item states, or None."""
    word = text.partition(":")[0]
    return word if word in PARSERS and ":" in text else None


def parse(facts: Mapping[str, tuple[str, int]]) -> dict[str, object]:
    """Fields of `ReportEntry` from the text and line of each fact. Raises `UnreadableReport`."""
    fields: dict[str, object] = {}
    for fact, (text, line) in facts.items():
        fields |= PARSERS[fact](text.partition(":")[2].strip(), line)
    return fields


def _parse_error(text: str, _line: int) -> dict[str, object]:
    return {"error": inline.uncode(text)}


def _parse_missing(text: str, _line: int) -> dict[str, object]:
    return {"missing": text}


def _parse_cause(text: str, line: int) -> dict[str, object]:
    match = CAUSE.fullmatch(text)
    if match is None:
        raise UnreadableReport("`Cause:` wants a short name and a kind in parentheses", line)
    return {"cause": match[1] or None, "cause_kind": cast(CauseKind | None, match[2])}


def _parse_judge(text: str, line: int) -> dict[str, object]:
    match = JUDGE.fullmatch(text.removesuffix(OWN_PROMPTS))
    try:
        if match is None:
            raise ValueError("no judge")
        label = cast(Classification, match[1])
        stage = cast(Stage | None, match[4])
        opinion = JudgeLabel(id=inline.uncode(match[3]), classification=label, confidence=float(match[2]), stage=stage)
        return {"judge": opinion}
    except ValueError as error:
        raise UnreadableReport("`Judge:` wants label, confidence and the judge's id", line) from error


def _parse_seen(text: str, line: int) -> dict[str, object]:
    match = SEEN.fullmatch(mask_code(text))
    if match is None:
        raise UnreadableReport("`Seen:` wants new, repeat, changed or fix-in-doubt", line)
    action = text[slice(*match.span(2))] if match[2] is not None else None
    reports = inline.parse_report_links(text[match.start(3) :])
    return {"recurrence": Recurrence(kind=cast(RecurrenceKind, match[1]), reports=reports, action=action)}


def _parse_across(text: str, line: int) -> dict[str, object]:
    match = MODELS.fullmatch(mask_code(text))
    if match is None:
        raise UnreadableReport("`Models:` wants `fails the same way for 2 of 3 models, also provider/model`", line)
    alike, earlier = (inline.parse_list(text[slice(*match.span(n))]) if match[n] else [] for n in (2, 4))
    more, more_earlier = int(match[3] or 0), int(match[5] or 0)
    said = CrossModelFailures(alike=alike, more=more, models=int(match[1]), earlier=earlier, more_earlier=more_earlier)
    return {"across": said}


PARSERS: dict[str, Callable[[str, int], dict[str, object]]] = {
    "Error": _parse_error,
    "Missing": _parse_missing,
    "Cause": _parse_cause,
    "Judge": _parse_judge,
    "Seen": _parse_seen,
    "Models": _parse_across,
}


def split_reviewer(text: str) -> tuple[list[str], list[str]]:
    """Lines before the first `Reviewer:`, and what each `Reviewer:` says, its further lines joined."""
    own: list[str] = []
    said: list[list[str]] = []
    for line in text.split("\n"):
        match = REVIEWER.match(line.strip())
        if match:
            name = match["name"] or match["plain"]
            said.append([(f"{name}: " if name else "") + line.strip()[match.end() :]])
        elif said:
            said[-1].append(line)
        else:
            own.append(line)
    return own, [" ".join(lines) for lines in said]

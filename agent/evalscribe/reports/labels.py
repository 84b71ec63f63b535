"""Render labels, and parse labels and `Reviewer:` lines in all forms that people write."""

import re
from typing import cast

from evalscribe.ids import Frozen
from evalscribe.model.finding import CAUSE_KINDS, CLASSIFICATIONS, NOT_THE_MODEL, CauseKind, Classification
from evalscribe.model.report import JudgeLabel, ReportEntry
from evalscribe.model.run import TRIAL
from evalscribe.reports import inline
from evalscribe.reports.blocks import UnreadableReport

UNCLASSIFIED = "UNCLASSIFIED"
ADORNED = (
    (re.compile(r"\\(?=[^\sA-Za-z0-9])"), ""),
    (re.compile(r"~~[^~]*~~"), ""),
    (re.compile(r"\[([^\[\]]*)\]\([^\s()]*\)"), r"\1"),
    (re.compile(r"[*`]|__+"), ""),
)
"""Patterns of the markup that is removed from around a label (escapes, struck-out text, links and emphasis), each with
its replacement.
"""
LABEL = re.compile(r"([A-Za-z][A-Za-z_ -]*?)\s*(?:\(\s*([\w-]+)\s*\))?\s*(,\s*uncertain)?", re.IGNORECASE)
KIND_OF: dict[Classification | None, CauseKind | None] = {"MODEL_FAULT": "model", "AMBIGUOUS_TASK": "task"}
"""Kind of cause that is implied by a label from a person."""
NO_STEP = "–"
_NAMED = r"(?:\s*\((?P<name>[^()]*)\)|\s+(?P<plain>@?[\w.-]+(?: [\w.-]+)?))"
_REVIEWER = re.compile(rf"(?:\[[ x]\]\s+)?[*_]*reviewers?[*_]*{_NAMED}?[*_]*\s*:[*_]*\s*", re.IGNORECASE)
"""Matches `Reviewer:` in all forms that people write: with a check box, in bold, with a name, or as `Reviewers:`."""


class PageLabel(Frozen):
    classification: Classification | None
    kind: CauseKind | None = None
    """Kind of cause that is written after the label. evalscribe writes only kinds in `NOT_THE_MODEL`; people can write
    any kind.
    """
    uncertain: bool = False


def of(entry: ReportEntry) -> PageLabel:
    kind = entry.cause_kind if entry.never_judged_the_model else None
    return PageLabel(classification=entry.classification, kind=kind, uncertain=entry.uncertain)


def render(label: PageLabel) -> str:
    kind = f" ({label.kind})" if label.kind else ""
    return f"{label.classification or UNCLASSIFIED}{kind}{', uncertain' if label.uncertain else ''}"


def parse(source: str, line: int) -> PageLabel:
    """Parse a label, including forms such as `overly strict` or `**MODEL_FAULT**`.

    Raises `UnreadableReport` if the text is not a label.
    """
    match = LABEL.fullmatch(_bare(source))
    word = re.sub(r"[ -]", "_", match[1]).upper() if match else ""
    if not match or word not in (*CLASSIFICATIONS, UNCLASSIFIED):
        raise UnreadableReport(
            f"{source!r} is not a label; labels are {', '.join((*CLASSIFICATIONS, UNCLASSIFIED))}", line
        )
    kind = match[2].lower() if match[2] else None
    if kind and kind not in CAUSE_KINDS:
        raise UnreadableReport(f"{kind!r} is not a kind of cause; kinds are {', '.join(CAUSE_KINDS)}", line)
    classification = None if word == UNCLASSIFIED else cast(Classification, word)
    return PageLabel(classification=classification, kind=cast(CauseKind | None, kind), uncertain=bool(match[3]))


def _bare(source: str) -> str:
    for adorned, bare in ADORNED:
        source = adorned.sub(bare, source)
    return source.strip().removesuffix(".").strip()


def kind_in_force(
    label: PageLabel, written: PageLabel | None, judge: JudgeLabel | None, kind: CauseKind | None
) -> CauseKind | None:
    """Return the kind of cause that is in force for a label on the page.

    If the label states a kind, that kind is returned. If the label states no kind, the entry's `kind` is returned,
    unless a person removed the kind from the page. After a removal, the kind that the label implies is returned.

    `written` is the label as evalscribe wrote it last. If `written` states the entry's kind and the label states none,
    a person has removed the kind. If `written` is None, the kind counts as removed if the label differs from the
    judge's label.
    """
    if label.kind or kind not in NOT_THE_MODEL:
        return label.kind or kind
    corrected = judge is None or judge.classification != label.classification
    was_removed = written.kind == kind if written else corrected
    return KIND_OF.get(label.classification) if was_removed else kind


def step_name(step: str | None) -> str:
    return inline.name(step) if step is not None else NO_STEP


def subject(entry: ReportEntry) -> str:
    """Return the name of an entry: an eval's path, a task with trial numbers, or the number of evals in a group."""
    if len(entry.evals) == 1:
        return inline.printed_path(entry.paths[0])
    tasks = {TRIAL.sub("", path) for path in entry.paths}
    if entry.trials and len(tasks) == 1:
        return f"{inline.printed_path(*tasks)}, trials {inline.ranges(trials(entry))} of {entry.trials.total}"
    return f"{len(entry.evals)} evals"


def trials(entry: ReportEntry) -> list[int]:
    """Return the trial numbers of the evals in an entry, in ascending order."""
    return sorted(int(match[0].lstrip("#")) for path in entry.paths if (match := TRIAL.search(path)))


def split_reviewer(text: str) -> tuple[list[str], list[str]]:
    """Return the lines before the first `Reviewer:`, and the text of each `Reviewer:` statement on one line."""
    own_lines: list[str] = []
    statements: list[list[str]] = []
    for line in text.split("\n"):
        match = _REVIEWER.match(line.strip())
        if match:
            name = match["name"] or match["plain"]
            statements.append([(f"{name}: " if name else "") + line.strip()[match.end() :]])
        elif statements:
            statements[-1].append(line)
        else:
            own_lines.append(line)
    return own_lines, [" ".join(lines) for lines in statements]

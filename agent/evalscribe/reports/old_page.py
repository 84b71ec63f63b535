"""Read reports in the older format `evalscribe-report/1`.

The format has no data file, so every line of the page is parsed. evalscribe no longer writes such pages, but it reads
them as history. If the run of an old page is analysed again, the page is replaced by a page in the current format.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from pydantic import ValidationError

from evalscribe.model.cascade import Stage
from evalscribe.model.finding import (
    CAUSE_KINDS,
    NOT_THE_MODEL,
    RECOMMENDATION_GROUPS,
    CauseKind,
    Classification,
    CrossModelFailures,
    FollowUp,
    FollowUpOutcome,
    Pattern,
    PatternKind,
    Recommendation,
    RecommendationGroup,
    Recurrence,
    RecurrenceKind,
)
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, ReportNote, Section
from evalscribe.reports import blocks, inline, labels, snippets
from evalscribe.reports.blocks import ConflictingEdits, PageBlock, UnreadableReport, front_matter
from evalscribe.reports.labels import PageLabel
from evalscribe.reports.page import ACTIONS, NOTHING
from evalscribe.text import mask_code

KIND = "evalscribe-report/1"
_SECTIONS: dict[str, Section] = {
    "Failures by step": "steps",
    "Classification": "classification",
    "Findings": "findings",
    "Patterns": "patterns",
    "Recommendations": "recommendations",
    "Net impact": "net-impact",
}
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^\s()]*)\)")
_TITLE = re.compile(r"(\d{1,9})[.)] +(.+): *([^:/]+|[^:/]*\[[^\[\]]*\]\([^\s()]*\))")
_GROUP = re.compile(r"(\d{1,9}) evals")
# The digits are limited, because Python refuses to convert numbers of more than 4,300 digits.
_NUMBER = re.compile(r"\d{1,9}")
_MEMBERS = re.compile(r"<details><summary>\d+ evals, \d+ categor(?:y|ies)</summary>")


def parse(text: str, written: Report | None = None) -> Report:
    """Return the report that a page contains, with people's edits applied.

    Args:
        text: Text of the page.
        written: The report as evalscribe last wrote it. A label on the page counts as edited if it differs from the
            label in this report. If `written` is None, a label counts as edited if it differs from the judge's label.

    Raises:
        UnreadableReport: The page is not in this format, or a part of it cannot be parsed. The message has the line.
        ConflictingEdits: A finding's label was edited in the heading and also, differently, in the table.
    """
    labels_by_path = {path: labels.of(entry) for entry in (written.entries if written else ()) for path in entry.paths}
    try:
        return _OldPage(text, labels_by_path).report()
    except ValidationError as error:
        first = error.errors()[0]
        raise UnreadableReport(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", 1) from error


class _Row(NamedTuple):
    """A row of the table in the section `Classification`."""

    line: int
    eval: str
    """Printed path of the eval. For a group, the number of its evals."""
    url: str | None
    step: str | None
    label: PageLabel
    why: str


class _OldPage:
    """The blocks of an old page, sorted by section.

    Blocks that evalscribe did not write become people's notes.
    """

    def __init__(self, text: str, written: Mapping[str, PageLabel]) -> None:
        self.written = written
        self.front = front_matter(text)
        if self.front.get("kind") != KIND:
            raise UnreadableReport(f"its front matter says kind {self.front.get('kind')!r}, not {KIND}", 1)
        self.sections: dict[Section, list[PageBlock]] = {"summary": []}
        self.notes: list[ReportNote] = []
        self.actions = ""
        page = blocks.read(text)
        section: Section = "summary"
        is_added = False
        for block in page[1:]:
            blocks.refuse_markers(block)
            if block.kind == "heading" and block.level == 2:
                title = block.text.strip().casefold()
                if title == ACTIONS.casefold():
                    self.actions = blocks.text_below(block, text)
                    break
                new = next((key for name, key in _SECTIONS.items() if name.casefold() == title), None)
                is_added = new is None or new in self.sections  # True in a section that a person added
                if new is not None and not is_added:
                    section = new
                    self.sections[section] = []
                    continue
            if is_added:
                self._keep(section, [block.unquoted])
            else:
                self.sections[section].append(block)
        for name, key in _SECTIONS.items():
            if key not in self.sections:
                added_lines = (block.line for block in page if block.level == 2 and block.text not in _SECTIONS)
                raise UnreadableReport(f"the section {name!r} is missing", next(added_lines, page[-1].end))

    def report(self) -> Report:
        run = self._run()
        rows = _rows(self._table("classification"))
        for section in ("steps", "net-impact"):
            self._table(section)
        entries = tuple(self._entries(rows))
        return Report.model_validate(
            {
                **run,
                **{name: self.front[name] for name in ("revision", "judges", "evidence") if name in self.front},
                "entries": entries,
                **self._patterns(entries),
                "recommendations": tuple(self._recommendations(entries)),
                "actions_taken": self.actions,
                "notes": self.notes,
            }
        )

    def _keep(self, section: Section, texts: Iterable[str]) -> None:
        self.notes += (ReportNote(section=section, text=text) for text in texts if text != NOTHING)

    def _table(self, section: Section) -> Sequence[PageBlock]:
        """Return the rows of the section's first table. Add the section's other blocks to the notes."""
        page = self.sections[section]
        table = next((block for block in page if block.kind == "table"), None)
        self._keep(section, (block.unquoted for block in page if block is not table))
        return table.items[1:] if table else ()

    def _run(self) -> dict[str, Any]:
        page = self.sections["summary"]
        title = next((block for block in page if block.kind == "heading" and block.level == 1), None)
        first = next((block for block in page if block.kind == "paragraph" and block.text.startswith("**")), None)
        self.sections["summary"] = [block for block in page if block is not title and block is not first]
        rows = {row.cells[0]: row for row in self._table("summary") if len(row.cells) == 2}
        return _run_fields(rows, str(self.front.get("run")))

    def _entries(self, rows: Mapping[int, _Row]) -> Iterator[ReportEntry]:
        """Yield the findings in the order of their numbers, because other sections refer to findings by number."""
        page = self.sections["findings"]
        titles = {at: match for at, block in enumerate(page) if (match := _title(block))}
        self._keep("findings", (block.unquoted for block in page[: min(titles, default=len(page))]))
        parts: dict[int, list[Sequence[PageBlock]]] = defaultdict(list)
        for (at, match), end in zip(titles.items(), [*list(titles)[1:], len(page)], strict=False):
            parts[int(match[1])].append(page[at:end])
        for number in range(1, max((*rows, *parts), default=0) + 1):
            if len(parts[number]) != 1 or number not in rows:
                lines = [part[0].line for part in parts[number]]
                lines += [rows[number].line] if number in rows else []
                raise UnreadableReport(
                    f"finding {number} needs one heading `### {number}. category/name: LABEL` and one row in the table",
                    *(lines or [1]),
                )
            yield _entry(parts[number][0], rows[number], self.written)

    def _patterns(self, entries: Sequence[ReportEntry]) -> dict[str, object]:
        """Return the fields `patterns`, `follow_ups` and `resolved`."""
        patterns: list[Pattern] = []
        follow_ups: list[FollowUp] = []
        resolved: tuple[str, ...] = ()
        for block in self.sections["patterns"]:
            if block.kind != "bullet_list":
                self._keep("patterns", [block.unquoted])
            for item in block.items if block.kind == "bullet_list" else ():
                mask = mask_code(item.text) if item.simple else ""
                if (match := _RESOLVED.fullmatch(mask)) and not resolved:
                    resolved = _list(_groups(match, item.text)[0])
                elif match := _FOLLOW_UP.fullmatch(mask):
                    follow_ups.append(_follow_up(_groups(match, item.text), entries, item.line))
                elif (match := _PATTERN.fullmatch(mask)) and (kind := _kind_of(match)):
                    name, _, several, few, text = _groups(match, item.text)
                    evals = _paths(several or few, entries, item.line)
                    patterns.append(Pattern(name=name, kind=kind, evals=evals, text=text))
                else:
                    self._keep("patterns", [item.source])
        return {"patterns": patterns, "follow_ups": follow_ups, "resolved": resolved}

    def _recommendations(self, entries: Sequence[ReportEntry]) -> Iterator[Recommendation]:
        group: RecommendationGroup | None = None
        for block in self.sections["recommendations"]:
            if block.kind == "heading":
                names = RECOMMENDATION_GROUPS.items()
                group = next((key for key, name in names if name.casefold() == block.text.strip().casefold()), None)
            if block.kind == "heading" and group:
                continue
            if block.kind == "bullet_list" and group:
                for item in block.items:
                    if recommendation := _recommendation(item, group, entries):
                        yield recommendation
                    else:
                        self._keep("recommendations", [item.source])
            else:
                self._keep("recommendations", [block.unquoted])


_RUN = re.compile(r": (.+) \((.+)\), experiment (.+)\Z")
_RESULT = re.compile(
    r"(\d+) passed, (\d+) failed, \d+ incomplete, (\d+) in all(, all named)?(?:, (\d+) failures listed)?"
    r"; analysed (\d{4}-\d{2}-\d{2})\Z"
)
_STATUS = re.compile(r"(completed|failed|running|unknown|importing)(?:: (.+))?")


def _run_fields(rows: Mapping[str, PageBlock], run_id: str) -> dict[str, Any]:
    """Convert the rows of the summary table to fields of `Report`."""
    texts = {name: row.cells[1] for name, row in rows.items()}
    line = min((row.line for row in rows.values()), default=1)
    about, status = texts.get("Run", ""), texts.get("Status", "completed")
    names, counts = _RUN.search(mask_code(about)), _RESULT.search(texts.get("Result", ""))
    how = _STATUS.fullmatch(mask_code(status))
    if names is None or counts is None or how is None:
        name = "Run" if names is None else "Result" if counts is None else "Status"
        row_line = rows[name].line if name in rows else line
        raise UnreadableReport(f"the row {name!r} is missing or has an unexpected text", row_line)
    head, url = _link(about[: names.start()])
    if inline.uncode(head) != run_id:
        raise UnreadableReport("front matter and table name different runs", 1, line)
    model, provider, experiment = map(inline.uncode, _groups(names, about))
    run = {"id": run_id, "url": url, "model": model, "provider": provider, "experiment": experiment}
    run |= {"status": how[1], "status_reason": _groups(how, status)[1]}
    run |= {"passed": counts[1], "failed": counts[2], "total": counts[3], "listed": counts[5] or counts[2]}
    return {
        "run": {**run, "names_all": bool(counts[4])},
        "date": counts[6],
        "own_prompts": "Prompts" in texts,
        "incomplete_evals": _list(texts.get("Never completed", "")),
        "earlier": _report_links(texts.get("Earlier reports", "")),
    }


def _rows(table: Sequence[PageBlock]) -> dict[int, _Row]:
    rows: dict[int, _Row] = {}
    for row in table:
        if len(row.cells) < 6 or not _NUMBER.fullmatch(row.cells[0]) or int(row.cells[0]) in rows:
            raise UnreadableReport("a row of the classification table lacks cells or a unique number", row.line)
        number, subject, step, label, _, why, *_ = row.cells
        name, url = _link(subject)
        rows[int(number)] = _Row(
            line=row.line,
            eval=inline.uncode(name),
            url=url,
            step=None if step == labels.NO_STEP else inline.uncode(step),
            label=labels.parse(label, row.line),
            why=why,
        )
    return rows


def _title(block: PageBlock) -> re.Match[str] | None:
    return _TITLE.fullmatch(block.text) if block.kind == "heading" and block.level <= 3 else None


def _entry(part: Sequence[PageBlock], row: _Row, written: Mapping[str, PageLabel]) -> ReportEntry:
    match, line = _title(part[0]), part[0].line
    assert match, "checked by the caller"
    body = _Body(part[1:])
    fields = body.fields()
    evals = _evals(match[2], row, body, line)
    judge, caused = cast(JudgeLabel | None, fields.get("judge")), cast(CauseKind | None, fields.get("cause_kind"))
    before = written.get(evals[0].path)
    label = _label_in_force(labels.parse(match[3], line), row, line, before, judge, caused)
    kind = labels.kind_in_force(label, before, judge, caused)
    reviewer = body.reviewer
    if not reviewer and judge and judge.classification == label.classification and kind != caused:
        # Otherwise the changed kind would not show.
        reviewer = [f"kind {kind}, not {caused}" if kind else f"not of kind {caused}"]
    return ReportEntry.model_validate(
        {
            **fields,
            "evals": evals,
            "step": row.step,
            "why": row.why,
            "classification": label.classification,
            "uncertain": label.uncertain,
            "cause_kind": kind,
            "reasoning": body.reasoning,
            "snippets": body.snippets,
            "reviewer": reviewer,
            "notes": body.notes,
        }
    )


def _evals(subject: str, row: _Row, body: "_Body", line: int) -> Sequence[EvalRef]:
    if group := _GROUP.fullmatch(subject):
        if len(body.members) != int(group[1]):
            raise UnreadableReport(f"the heading says {subject}, but its list has {len(body.members)}", line)
        return body.members
    if inline.uncode(subject) != row.eval:
        raise UnreadableReport("a finding's heading and its row in the table name different evals", line, row.line)
    return (EvalRef(path=row.eval, url=row.url),)


def _label_in_force(
    heading: PageLabel,
    row: _Row,
    line: int,
    written: PageLabel | None,
    judge: JudgeLabel | None,
    kind: CauseKind | None,
) -> PageLabel:
    """Return the label that is in force.

    The heading and the table row both have a label. The label in force is the one that a person edited.
    """
    if heading == row.label:
        return heading
    if written is not None:
        edited = (heading != written, row.label != written)
    elif heading.classification != row.label.classification:
        judged = judge.classification if judge else None
        edited = (heading.classification != judged, row.label.classification != judged)
    else:
        # Both places have the same label, so they differ in the kind of cause or in the certainty.
        printed = kind if kind in NOT_THE_MODEL else None
        edited = (heading.kind != printed, row.label.kind not in (printed, heading.kind))
    if edited == (True, True):
        raise ConflictingEdits(
            f"the heading says {labels.render(heading)}, the classification table {labels.render(row.label)}; "
            "make them equal",
            line,
            row.line,
        )
    return row.label if edited[1] else heading


class _Body:
    """The text below a finding's heading: the parts that evalscribe wrote, and the text that people added."""

    def __init__(self, page: Sequence[PageBlock]) -> None:
        self.facts: dict[str, tuple[str, int]] = {}
        """Text and line number of each item in the list of a finding's facts, keyed by the item's first word."""
        self.reasoning = ""
        self.snippets: list[object] = []
        self.members: list[EvalRef] = []
        self.reviewer: list[str] = []
        self.notes: list[str] = []
        remaining = list(page)
        while remaining:
            self._take(remaining.pop(0), remaining)

    def _take(self, block: PageBlock, remaining: list[PageBlock]) -> None:
        if block.kind == "bullet_list":
            for item in block.items:
                self._item(item)
        elif block.kind in ("paragraph", "heading"):
            self._text(block, remaining[0] if remaining else None)
        elif block.kind == "fence" and not self.snippets and snippets.is_generated(block):
            self.snippets += [quoted.snippet for quoted in snippets.parse(block)]
        elif block.kind == "html_block" and _MEMBERS.match(block.text) and not self.members and remaining:
            self.members = [ref for item in remaining.pop(0).items for ref in _members(item)]
        elif block.source.strip() != "</details>":
            self.notes.append(block.unquoted)

    def _item(self, item: PageBlock) -> None:
        own_lines, statements = labels.split_reviewer(item.text)
        fact = item.text.partition(":")[0]
        if fact in _FACTS and fact not in self.facts and len(own_lines) == 1 and item.outline:
            self.facts[fact] = (own_lines[0].removeprefix(f"{fact}:").strip(), item.line)
        elif own_lines or not statements or not item.outline:
            self.notes.append(dedent(item.source))
            return
        self.reviewer += statements
        for below in item.items:
            self._item(below)

    def _text(self, block: PageBlock, following: PageBlock | None) -> None:
        """Use a paragraph as the finding's reasoning, or add it to the notes.

        The first paragraph is the reasoning, unless a later paragraph stands directly above the quotations. A paragraph
        directly above the quotations is always the reasoning.
        """
        own_lines, statements = labels.split_reviewer(block.text)
        if block.kind == "heading" and (own_lines or not statements):
            self.notes.append(block.source)
            return
        self.reviewer += statements
        above = following is not None and following.line == block.end + 1 and snippets.is_generated(following)
        if own_lines and self.reasoning and not self.snippets and above:
            # A person wrote the paragraph that was read as the reasoning.
            self.notes.insert(0, self.reasoning)
            self.reasoning = " ".join(own_lines)
        elif own_lines and self.reasoning:
            self.notes.append("\n".join(own_lines))
        elif own_lines:
            self.reasoning = " ".join(own_lines)

    def fields(self) -> dict[str, object]:
        """Convert the list under the heading to fields of `ReportEntry`."""
        values: dict[str, object] = {}
        for fact, (text, line) in self.facts.items():
            try:
                values |= _FACTS[fact](text)
            except ValueError as error:
                raise UnreadableReport(f"`{fact}:` is not in the form that evalscribe writes", line) from error
        return values


def _members(item: PageBlock) -> Iterator[EvalRef]:
    """Yield the evals in a list item. Each list item names the evals of a group that belong to one category."""
    head = mask_code(item.text).partition(": ")[0]
    category, names = item.text[: len(head)], item.text[len(head) + 2 :]
    prefix = "" if category == "(no category)" else f"{inline.uncode(category)}/"
    for text, url in map(_link, _split(names, ", ")):
        yield EvalRef(path=prefix + inline.uncode(text), url=url)


_CAUSE = re.compile(rf"([\w.-]*)(?: ?\(({'|'.join(CAUSE_KINDS)})\))?")
_JUDGE = re.compile(
    r"([A-Z_]+), (\d(?:\.\d+)?), (.+?)(?: \((rules|tag|judge)\))?(?: with the workspace's own prompts)?"
)
_SEEN = re.compile(r"(new|repeat|changed|fix-in-doubt)(?:: \"(.*)\")?([^\"]*)")
_MODELS = re.compile(
    r"fails the same way for \d+ of (\d+) models(?:, also (.+?)(?: and (\d+) more)?)?"
    r"(?:; in an earlier version of this eval: (.+?)(?: and (\d+) more)?)?"
)


def _matched(pattern: re.Pattern[str], text: str) -> list[str]:
    """Match a text whose code spans are masked, and return the matched groups with the original text.

    Raises `ValueError` if the text does not match.
    """
    match = pattern.fullmatch(mask_code(text))
    if match is None:
        raise ValueError(text)
    return _groups(match, text)


def _cause(text: str) -> dict[str, object]:
    cause, kind = _matched(_CAUSE, text)
    return {"cause": cause, "cause_kind": kind or None}


def _judge(text: str) -> dict[str, object]:
    label, confidence, judge, stage = _matched(_JUDGE, text)
    return {
        "judge": JudgeLabel(
            id=inline.uncode(judge),
            classification=cast(Classification, label),
            confidence=float(confidence),
            stage=cast(Stage, stage) if stage else None,
        )
    }


def _recurrence(text: str) -> dict[str, object]:
    kind, action, links = _matched(_SEEN, text)
    reports = _report_links(links)
    return {"recurrence": Recurrence(kind=cast(RecurrenceKind, kind), reports=reports, action=action or None)}


def _across(text: str) -> dict[str, object]:
    models, alike_models, more, earlier, more_earlier = _matched(_MODELS, text)
    return {
        "across": CrossModelFailures(
            alike=_list(alike_models),
            more=int(more or 0),
            models=int(models),
            earlier=_list(earlier),
            more_earlier=int(more_earlier or 0),
        )
    }


_FACTS: dict[str, Callable[[str], dict[str, object]]] = {
    "Error": lambda text: {"error": inline.uncode(text)},
    "Missing": lambda text: {"missing": text},
    "Cause": _cause,
    "Judge": _judge,
    "Seen": _recurrence,
    "Models": _across,
}


_RESOLVED = re.compile(
    r"(?:Resolved|No longer failing)(?: since [\d-]+)?(?: \(or among the \d+ that never completed\))?: (.+)\."
)
_OUTCOMES: dict[str, FollowUpOutcome] = {
    "Held": "held",
    "Did not hold": "did not hold",
    "Not yet seen": "not yet seen",
}
_FOLLOW_UP = re.compile(
    rf"({'|'.join(_OUTCOMES)}) since (\[[^\[\]]*\]\([^\s()]*\))(?: of [^\s:]+)?"
    r"(?: \(or among the \d+ that never completed\))?: \"(.*)\"(?: \(([^()]*)\))?\."
)
_PATTERN = re.compile(
    r"([^(]+) \((?:(cause|rule|category|known-gaps|recurring|across-models|not-the-model)(?:: ([^()]+))?|([^()]+))\):"
    r"(?: (.*))?"
)
"""Matches a pattern of the report as printed on the page. The groups are the pattern's name, its kind (if printed), its
evals if a kind is printed, its evals if no kind is printed, and its text.
"""
_PATTERN_NAMES: dict[str, PatternKind] = {
    "Not the model": "not-the-model",
    "Lint decides": "rule",
    "Same cause": "cause",
    "Same error": "rule",
    "Category": "category",
    "Fails in every trial": "trials",
    "Known gaps": "known-gaps",
    "Fails alike for several models": "across-models",
    "Seen in earlier reports": "recurring",
}
"""Maps the beginning of a pattern's name to the kind of pattern that the name implies."""


def _kind_of(pattern: re.Match[str]) -> PatternKind | None:
    implied = (kind for begin, kind in _PATTERN_NAMES.items() if pattern[1].startswith(begin))
    return cast(PatternKind | None, pattern[2]) or next(implied, None)


def _follow_up(parts: Sequence[str], entries: Sequence[ReportEntry], line: int) -> FollowUp:
    outcome, link, text, evals = parts
    report = _report_links(link)[0]
    return FollowUp(report=report, text=text, evals=_paths(evals, entries, line), outcome=_OUTCOMES[outcome])


_CHANGE = re.compile(r"(R\d+)(?: \(([^()]+)\))?:(?: (.*))?")
_REMARK = re.compile(r"()([^:()]+):(?: (.*))?")
_PASSES = "would pass"


def _recommendation(
    item: PageBlock, group: RecommendationGroup, entries: Sequence[ReportEntry]
) -> Recommendation | None:
    """Parse a list item as a recommendation. Return None if a person wrote the item."""
    mask = mask_code(item.text)
    match = (_CHANGE.fullmatch(mask) or _REMARK.fullmatch(mask)) if item.simple else None
    if match is None:
        return None
    id_, concerns, text = _groups(match, item.text)
    names = [name for name in _split(concerns, ",") if name not in ("", _PASSES, "General")]
    if not all(_NUMBER.fullmatch(name) or name.startswith("`") or inline.PLAIN_PATH.fullmatch(name) for name in names):
        return None
    evals = _paths(", ".join(names), entries, item.line)
    claim = _PASSES in _split(concerns, ",")
    return Recommendation(id=id_ or None, group=group, text=text, evals=evals, would_pass=claim)


def _groups(match: re.Match[str], text: str) -> list[str]:
    """Return the original text of each group of a match in masked text.

    The text of a group that did not match is empty.
    """
    return [text[slice(*match.span(n))] if match[n] else "" for n in range(1, match.re.groups + 1)]


def _split(source: str, separator: str) -> list[str]:
    """Split a text at separators outside code spans, and strip the parts."""
    mask, parts, start = mask_code(source), [], 0
    for match in re.finditer(re.escape(separator), mask):
        parts.append(source[start : match.start()].strip())
        start = match.end()
    return [*parts, source[start:].strip()]


def _list(source: str) -> tuple[str, ...]:
    return tuple(inline.uncode(item) for item in _split(source, ",") if item)


def _link(source: str) -> tuple[str, str | None]:
    """Return the text and the address of a link.

    If the source is anything but a single link, return the source as the text, and None as the address.
    """
    match = _LINK.fullmatch(mask_code(source))
    return (source[slice(*match.span(1))], match[2] or None) if match else (source, None)


def _report_links(source: str) -> tuple[str, ...]:
    return tuple(unquote(match[2]) for match in _LINK.finditer(mask_code(source)))


def _paths(source: str, entries: Sequence[ReportEntry], line: int) -> tuple[str, ...]:
    """Return the paths of the evals in a comma-separated list.

    The list refers to each eval by its path or by the number of its finding.
    """
    paths: list[str] = []
    for name in _split(source, ",") if source else ():
        if not _NUMBER.fullmatch(name):
            paths.append(inline.uncode(name))
        elif 1 <= int(name) <= len(entries):
            paths += entries[int(name) - 1].paths
        else:
            raise UnreadableReport(f"there is no finding {name}", line)
    return tuple(paths)

"""Read a free-form report: its run, one finding per eval, patterns, recommendations and actions."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TypeVar

from evalscribe.ids import content_id
from evalscribe.model.analysis import ActionTaken, Analysis, AnalyzedRun, FindingSummary
from evalscribe.reports.blocks import front_values
from evalscribe.reports.freeform.blocks import FreeformBlock, StyledSpan, plain
from evalscribe.reports.freeform.entries import DraftFinding, Entries
from evalscribe.reports.freeform.lines import (
    HEADER_KEYS,
    KINDS,
    NOTHING,
    STEPS,
    Field,
    Key,
    NamedEval,
    WrittenLabel,
    bare_name,
    is_label,
    is_name,
    parse_fields,
)
from evalscribe.reports.freeform.sections import read_conclusions

T = TypeVar("T")
NUMBERED = re.compile(r"\d+[-_]\w")
COUNT = re.compile(r"\d+\s*/\s*\d+$|\d+ (evals?|failures?|failed|tasks?)\b", re.IGNORECASE)
VARIANT = re.compile(r"(with|without|no)[_-]", re.IGNORECASE)
_ORDER = {"heading": 0, "field": 0, "table": 1, "list": 2}


@dataclass(slots=True)
class _Account:
    """All draft findings on one eval, the most detailed first."""

    eval: str
    drafts: list[DraftFinding] = field(default_factory=list)


def merge_drafts(
    drafts: Sequence[DraftFinding], everyone: DraftFinding | None
) -> tuple[tuple[FindingSummary, ...], tuple[ActionTaken, ...]]:
    """Return one finding per eval, in the order of the report, and the actions taken on them."""
    names = _Names(drafts)
    told: dict[str, _Account] = {}
    for draft in sorted((d for d in drafts if _tells_of_failure(d, everyone)), key=lambda d: _ORDER[d.origin]):
        for named in draft.evals:
            path = names.path(draft, named)
            if path is not None and (draft.stated or not names.may_count(path, named)):
                told.setdefault(path, _Account(path)).drafts.append(draft)
    order = {id(draft): number for number, draft in enumerate(drafts)}
    ordered = sorted(told.values(), key=lambda one: min(order[id(draft)] for draft in one.drafts))
    return tuple(_finding(one, everyone) for one in ordered), tuple(_actions(ordered))


def _actions(told: Iterable[_Account]) -> Iterator[ActionTaken]:
    for one in told:
        text = _first(draft.text("action") for draft in one.drafts)
        if text and not NOTHING.match(text):
            yield ActionTaken(text=text, evals=(one.eval,))


def _tells_of_failure(draft: DraftFinding, everyone: DraftFinding | None) -> bool:
    if draft.unsure:
        return draft.explicit is not None
    return bool(draft.stated or draft.step or draft.values.get("error") or draft.failing or everyone)


class _Names:
    """Resolves names to paths of evals, by the categories and paths that the report uses."""

    def __init__(self, drafts: Sequence[DraftFinding]) -> None:
        named = [(draft, one) for draft in drafts for one in draft.evals]
        self.categories = {one.name.rpartition("/")[0] for _, one in named if "/" in one.name}
        self.categories |= {draft.category for draft in drafts if draft.category}
        self.categories |= {one.remark for _, one in named if one.remark and NUMBERED.match(one.remark)}
        self.categories |= _remarked(drafts)
        self.paths: dict[str, set[str]] = {}
        """The paths of evals by bare name."""
        for path in (self._full(draft, one) for draft, one in named):
            if "/" in path:
                self.paths.setdefault(bare_name(path), set()).add(path)
        self.shape = _shape([bare_name(one.name) for draft, one in named if draft.origin != "list" and draft.stated])

    def path(self, draft: DraftFinding, named: NamedEval) -> str | None:
        """Return the eval's path for a name; None if the name is ambiguous or not that of an eval."""
        path = self._full(draft, named)
        if path in self.categories or not self._fits(draft, path):
            return None
        if "/" in path:
            return path
        longer = self.paths.get(path, {path})
        return next(iter(longer)) if len(longer) == 1 else None

    def may_count(self, path: str, named: NamedEval) -> bool:
        """Return whether a name may be a category: it has a count (`queries (24/24)`), or some names are paths."""
        return "/" not in path and bool(self.paths or COUNT.match(named.remark or ""))

    def _full(self, draft: DraftFinding, named: NamedEval) -> str:
        if "/" in named.name:
            return named.name
        category = named.remark if named.remark in self.categories else draft.category
        return f"{category}/{named.name}" if category else named.name

    def _fits(self, draft: DraftFinding, path: str) -> bool:
        """Return whether a path can be an eval's. In lists, which also name files, it must look like others."""
        return draft.origin != "list" or self.shape is None or bool(self.shape.match(bare_name(path)))


def _remarked(drafts: Sequence[DraftFinding]) -> set[str]:
    """Return the categories in a report that adds one to every eval (`001-hello (basics)`); empty for other reports."""
    named = [(draft.evals[0], draft.step) for draft in drafts if draft.origin == "heading" and len(draft.evals) == 1]
    remarks = {one.remark or "" for one, step in named if step}
    steps = {step for _, step in named} | set(STEPS)
    if len(named) < 2 or len(remarks) < 2 or not all(step for _, step in named):
        return set()
    fit = all(
        is_name(word) and not is_label(word) and word not in KINDS and not VARIANT.match(word) for word in remarks
    )
    return remarks if fit and not remarks & steps else set()


def _shape(names: Sequence[str]) -> re.Pattern[str] | None:
    """Return the pattern of numbered names if all names of evals are numbered; else None."""
    return NUMBERED if names and all(NUMBERED.match(name) for name in names) else None


def _finding(told: _Account, everyone: DraftFinding | None) -> FindingSummary:
    sources = [*told.drafts, *([everyone] if everyone else [])]
    label = next((label for source in sources if (label := source.stated)), None)
    return FindingSummary(
        n=_first(draft.number for draft in told.drafts),
        eval=told.eval,
        category=told.eval.rpartition("/")[0] or None,
        step=_first(source.step for source in sources) or _remarked_step(told.drafts),
        group=_group(told, everyone),
        classification=label.classification if label else None,
        cause_kind=label.kind if label else None,
        error=_first(source.text("error") for source in sources),
        reasoning=_reasoning(label, _first(source.text("reasoning") for source in sources)),
        output_snippet=_first(source.snippet("output") for source in sources),
        expected_snippet=_first(source.snippet("expected") for source in sources),
    )


def _reasoning(label: WrittenLabel | None, text: str | None) -> str | None:
    """Return the reasoning. If the report's label is none of the four labels, the label precedes it."""
    if label is None or label.foreign is None:
        return text
    return f"Labelled {label.foreign}. {text}" if text else f"Labelled {label.foreign}."


def _remarked_step(drafts: Sequence[DraftFinding]) -> str | None:
    """Return the step in parentheses after an eval's name, as in `001-hello (deploy)`."""
    remarks = (named.remark for draft in drafts for named in draft.evals if named.remark)
    return next((word for remark in remarks if (word := remark.split()[0].lower()) in STEPS), None)


def _group(told: _Account, everyone: DraftFinding | None) -> str | None:
    """Return an id shared by all failures that the report describes in one entry; None for a single failure."""
    shared = next((draft for draft in told.drafts if len(draft.evals) > 1 and draft.origin != "list"), None)
    if shared is not None:
        return content_id(sorted(named.name for named in shared.evals))
    alone = all(draft.explicit is None for draft in told.drafts)
    return content_id("all") if everyone is not None and alone else None


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


RUN_ID = re.compile(r"\b(?=[a-z0-9]*\d)(?=[a-z0-9]*[a-z])[a-z0-9]{16,64}\b")
RATE = re.compile(r"^\W*(\d{1,7})\s*(?:/|of|von)\s*(\d{1,7})\b")
PERCENT_RATE = re.compile(r"^\d{1,7}/\d{1,7}\s*\(\d+(?:[.,]\d+)?\s*%\)$")
ISO_DATE = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
DATE_FORMATS = ("%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y", "%Y/%m/%d", "%d.%m.%Y")


@dataclass(frozen=True, slots=True)
class FreeformMetadata:
    run: AnalyzedRun
    date: str | None
    """ISO date that the report states; None without one."""
    run_ids: tuple[str, ...]
    """Ids of the runs that the report is about, in the order of the report."""
    other_experiments: tuple[str, ...]
    """Experiments of the runs other than the first."""


def read_metadata(blocks: Sequence[FreeformBlock], first: int | None) -> FreeformMetadata:
    """Read the header: the blocks before `first`, which is the index of the block with the first finding."""
    told: dict[Key, list[Field]] = {}
    for one in (*_front(blocks), *_told(blocks[:first])):
        key = one.means(header=True)
        if key in HEADER_KEYS and one.text:
            told.setdefault(key, []).append(one)
    passed, total = _rate(told, blocks[:first])
    model, provider = _model(told, blocks)
    run_ids = _run_ids(told)
    return FreeformMetadata(
        AnalyzedRun(
            id=next(iter(run_ids), None),
            provider=_word(told, "provider") or provider,
            model=model,
            experiment=_experiment(told),
            status=_word(told, "status"),
            passed=passed if passed is not None else _count(told, "passed"),
            failed=_count(told, "failed"),
            total=total if total is not None else _count(told, "total"),
            url=_word(told, "url"),
        ),
        _date(told),
        run_ids,
        _remarks(told)[1:],
    )


def _told(blocks: Sequence[FreeformBlock]) -> Iterator[Field]:
    heading: Field | None = None
    depth = 0
    for block in blocks:
        if block.quoted:
            continue
        for line in block.lines:
            found = parse_fields(line)
            if not found and heading and block.kind == "item" and block.depth > depth:
                yield Field(heading.key, line)  # `Run IDs:` with a nested list
                continue
            yield from found
            heading, depth = (found[-1], block.depth) if found and not found[-1].text else (None, 0)
        for row in block.rows:
            if len(row) == 2:
                yield Field(plain(row[0]), row[1])


def _front(blocks: Sequence[FreeformBlock]) -> Iterator[Field]:
    """Yield the plain values of the front matter."""
    text = blocks[0].text if blocks and blocks[0].kind == "front" else ""
    for name, value in front_values(text).items():
        if isinstance(value, str | int | float | date):
            yield Field(str(name), (StyledSpan(str(value)),))


def _run_ids(told: dict[Key, list[Field]]) -> tuple[str, ...]:
    """Return texts that look like run ids; without any, the first word of the first field, as ids have any form."""
    found = dict.fromkeys(run_id for one in told.get("run", ()) for run_id in RUN_ID.findall(one.text))
    return tuple(found) or tuple(word for word in [_word(told, "run")] if word)


def _word(told: dict[Key, list[Field]], key: Key) -> str | None:
    for one in told.get(key, ()):
        if word := re.match(r"[^\s,;(]+", one.text.strip("` ")):
            return word.group()
    return None


def _model(told: dict[Key, list[Field]], blocks: Sequence[FreeformBlock]) -> tuple[str | None, str | None]:
    """Return model and provider from `opus-4-6 (anthropic)`, `google/gemini-3.1-pro` or a title `Run Analysis: x`."""
    model = _word(told, "model") or _titled_model(blocks)
    remark = next((re.search(r"\(([a-z][a-z-]*)\)", one.text) for one in told.get("model", ())), None)
    if remark:
        return model, remark.group(1)
    return model, model.partition("/")[0] if model and "/" in model else None


def _titled_model(blocks: Sequence[FreeformBlock]) -> str | None:
    title = next((plain(block.lines[0]) for block in blocks if block.kind == "heading"), "")
    said = re.search(r":\s+([\w.-]+(?:/[\w.-]+)*)\s*(?:\([^()]*\))?$", title)
    return said.group(1) if said and re.search(r"[\d-]", said.group(1)) else None


def _experiment(told: dict[Key, list[Field]]) -> str | None:
    return next((one.text.strip("` ") for one in told.get("experiment", ())), None)


def _remarks(told: dict[Key, list[Field]]) -> tuple[str, ...]:
    """Return the variants that a report on several runs names in keys such as `Run IDs (variant): …`."""
    remarks = (re.search(r"\(([A-Za-z][\w-]*)\)", one.key) for one in told.get("run", ()))
    return tuple(dict.fromkeys(remark.group(1) for remark in remarks if remark))


def _rate(told: dict[Key, list[Field]], header: Sequence[FreeformBlock]) -> tuple[int | None, int | None]:
    """Return passed and total from a rate such as `54/66 (81.8%)`, in a field or else in a table cell."""
    cells = (plain(cell) for block in header for row in block.rows for cell in row)
    for text in (*(one.text for one in told.get("rate", ())), *(c for c in cells if PERCENT_RATE.match(c))):
        if (rate := RATE.match(text)) and int(rate.group(1)) <= int(rate.group(2)):
            return int(rate.group(1)), int(rate.group(2))
    return None, None


def _count(told: dict[Key, list[Field]], key: Key) -> int | None:
    numbers = (re.match(r"\W*(\d{1,7})\b(?!\s*/)", one.text) for one in told.get(key, ()))
    return next((int(number.group(1)) for number in numbers if number), None)


def _date(told: dict[Key, list[Field]]) -> str | None:
    return next((day for one in told.get("date", ()) if (day := iso_date(one.text))), None)


def iso_date(text: str) -> str | None:
    """Return the first valid date in a text in ISO format; None without one."""
    for found in ISO_DATE.findall(text):
        try:
            return date.fromisoformat(found).isoformat()
        except ValueError:
            continue
    for form in DATE_FORMATS:
        try:
            return datetime.strptime(text.strip("` "), form).date().isoformat()
        except ValueError:
            continue
    return None


def read_freeform(blocks: Sequence[FreeformBlock]) -> tuple[Analysis, FreeformMetadata]:
    """Return the content of the report, and the run and date that it states."""
    entries = Entries().read(blocks)
    header = read_metadata(blocks, entries.first)
    found, done = merge_drafts(entries.drafts, entries.everyone)
    told = read_conclusions(blocks, found)
    analysis = Analysis(
        run=header.run,
        findings=found,
        patterns=told.patterns,
        recommendations=told.recommendations,
        actions_taken=(*done, *_told_once(told.actions, done)),
    )
    return analysis, header


def _told_once(listed: Iterable[ActionTaken], done: Iterable[ActionTaken]) -> Iterator[ActionTaken]:
    """Yield the listed actions, without evals whose finding already states one: most are repetitions."""
    known = {eval for action in done for eval in action.evals}
    for action in listed:
        others = tuple(eval for eval in action.evals if eval not in known)
        if others or not action.evals:
            yield action.model_copy(update={"evals": others})

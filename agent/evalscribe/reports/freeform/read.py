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
# A word such as `with_x` in parentheses names a variant of the experiment and not a category.
VARIANT = re.compile(r"(with|without|no)[_-]", re.IGNORECASE)
_ORDER = {"heading": 0, "field": 0, "table": 1, "list": 2}


@dataclass(slots=True)
class _Account:
    """All draft findings about one eval, the most detailed first."""

    eval: str
    drafts: list[DraftFinding] = field(default_factory=list)


def merge_drafts(
    drafts: Sequence[DraftFinding], everyone: DraftFinding | None
) -> tuple[tuple[FindingSummary, ...], tuple[ActionTaken, ...]]:
    """Merge the drafts into one finding per eval, in the report's order, and collect the actions taken on these
    findings.
    """
    names = _Names(drafts)
    accounts: dict[str, _Account] = {}
    for draft in sorted((d for d in drafts if _tells_of_failure(d, everyone)), key=lambda d: _ORDER[d.origin]):
        for item in draft.evals:
            path = names.path(draft, item)
            if path is not None and (draft.stated or not names.may_count(path, item)):
                accounts.setdefault(path, _Account(path)).drafts.append(draft)
    order = {id(draft): number for number, draft in enumerate(drafts)}
    ordered = sorted(accounts.values(), key=lambda account: min(order[id(draft)] for draft in account.drafts))
    return tuple(_finding(account, everyone) for account in ordered), tuple(_actions(ordered))


def _actions(accounts: Iterable[_Account]) -> Iterator[ActionTaken]:
    for account in accounts:
        text = _first(draft.text("action") for draft in account.drafts)
        if text and not NOTHING.match(text):
            yield ActionTaken(text=text, evals=(account.eval,))


def _tells_of_failure(draft: DraftFinding, everyone: DraftFinding | None) -> bool:
    if draft.unsure:
        return draft.explicit is not None
    return bool(draft.stated or draft.step or draft.values.get("error") or draft.failing or everyone)


class _Names:
    """Resolves names of evals to paths, using the categories and paths that occur in the report."""

    def __init__(self, drafts: Sequence[DraftFinding]) -> None:
        pairs = [(draft, item) for draft in drafts for item in draft.evals]
        self.categories = {item.name.rpartition("/")[0] for _, item in pairs if "/" in item.name}
        self.categories |= {draft.category for draft in drafts if draft.category}
        self.categories |= {item.remark for _, item in pairs if item.remark and NUMBERED.match(item.remark)}
        self.categories |= _remarked(drafts)
        self.paths: dict[str, set[str]] = {}
        """The paths of evals, keyed by bare name."""
        for path in (self._full(draft, item) for draft, item in pairs):
            if "/" in path:
                self.paths.setdefault(bare_name(path), set()).add(path)
        self.shape = _shape([bare_name(item.name) for draft, item in pairs if draft.origin != "list" and draft.stated])

    def path(self, draft: DraftFinding, item: NamedEval) -> str | None:
        """Return the path of the eval to which a name refers.

        Returns None if the name is ambiguous or does not refer to an eval.
        """
        path = self._full(draft, item)
        if path in self.categories or not self._fits(draft, path):
            return None
        if "/" in path:
            return path
        longer = self.paths.get(path, {path})
        return next(iter(longer)) if len(longer) == 1 else None

    def may_count(self, path: str, item: NamedEval) -> bool:
        """Return whether a name could be the name of a category instead of an eval.

        A name can be a category if a count follows it, as in `queries (24/24)`, or if the report names other evals by
        path.
        """
        return "/" not in path and bool(self.paths or COUNT.match(item.remark or ""))

    def _full(self, draft: DraftFinding, item: NamedEval) -> str:
        if "/" in item.name:
            return item.name
        category = item.remark if item.remark in self.categories else draft.category
        return f"{category}/{item.name}" if category else item.name

    def _fits(self, draft: DraftFinding, path: str) -> bool:
        """Return whether a path can be the path of an eval.

        A list can also name files. In a list, the path must therefore look like the names of the other evals.
        """
        return draft.origin != "list" or self.shape is None or bool(self.shape.match(bare_name(path)))


def _remarked(drafts: Sequence[DraftFinding]) -> set[str]:
    """Return the categories that a report writes in parentheses after every eval, as in `001-hello (basics)`.

    Returns an empty set if the report does not name categories in this way.
    """
    pairs = [(draft.evals[0], draft.step) for draft in drafts if draft.origin == "heading" and len(draft.evals) == 1]
    remarks = {item.remark or "" for item, step in pairs if step}
    steps = {step for _, step in pairs} | set(STEPS)
    if len(pairs) < 2 or len(remarks) < 2 or not all(step for _, step in pairs):
        return set()
    fit = all(
        is_name(word) and not is_label(word) and word not in KINDS and not VARIANT.match(word) for word in remarks
    )
    return remarks if fit and not remarks & steps else set()


def _shape(names: Sequence[str]) -> re.Pattern[str] | None:
    """Return the pattern of numbered names if the names of all evals begin with a number, otherwise None."""
    return NUMBERED if names and all(NUMBERED.match(name) for name in names) else None


def _finding(account: _Account, everyone: DraftFinding | None) -> FindingSummary:
    sources = [*account.drafts, *([everyone] if everyone else [])]
    label = next((label for source in sources if (label := source.stated)), None)
    return FindingSummary(
        n=_first(draft.number for draft in account.drafts),
        eval=account.eval,
        category=account.eval.rpartition("/")[0] or None,
        step=_first(source.step for source in sources) or _remarked_step(account.drafts),
        group=_group(account, everyone),
        classification=label.classification if label else None,
        cause_kind=label.kind if label else None,
        error=_first(source.text("error") for source in sources),
        reasoning=_reasoning(label, _first(source.text("reasoning") for source in sources)),
        output_snippet=_first(source.snippet("output") for source in sources),
        expected_snippet=_first(source.snippet("expected") for source in sources),
    )


def _reasoning(label: WrittenLabel | None, text: str | None) -> str | None:
    """Return the reasoning of a finding.

    If the report states a label that is not one of evalscribe's four, that label is put before the reasoning.
    """
    if label is None or label.foreign is None:
        return text
    return f"Labelled {label.foreign}. {text}" if text else f"Labelled {label.foreign}."


def _remarked_step(drafts: Sequence[DraftFinding]) -> str | None:
    """Return the step in parentheses after an eval's name, as in `001-hello (deploy)`."""
    remarks = (item.remark for draft in drafts for item in draft.evals if item.remark)
    return next((word for remark in remarks if (word := remark.split()[0].lower()) in STEPS), None)


def _group(account: _Account, everyone: DraftFinding | None) -> str | None:
    """Return an id that is the same for all failures that one entry of the report describes.

    Returns None if the entry describes a single failure.
    """
    shared = next((draft for draft in account.drafts if len(draft.evals) > 1 and draft.origin != "list"), None)
    if shared is not None:
        return content_id(sorted(item.name for item in shared.evals))
    alone = all(draft.explicit is None for draft in account.drafts)
    return content_id("all") if everyone is not None and alone else None


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


# A run id has letters and digits, which excludes long words and long numbers.
RUN_ID = re.compile(r"\b(?=[a-z0-9]*\d)(?=[a-z0-9]*[a-z])[a-z0-9]{16,64}\b")
RATE = re.compile(r"^\W*(\d{1,7})\s*(?:/|of|von)\s*(\d{1,7})\b")
PERCENT_RATE = re.compile(r"^\d{1,7}/\d{1,7}\s*\(\d+(?:[.,]\d+)?\s*%\)$")
ISO_DATE = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
DATE_FORMATS = ("%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y", "%Y/%m/%d", "%d.%m.%Y")


@dataclass(frozen=True, slots=True)
class FreeformMetadata:
    run: AnalyzedRun
    date: str | None
    """Date that the report states, in ISO format. None if it states no date."""
    run_ids: tuple[str, ...]
    """Ids of the runs that the report is about, in the report's order."""
    other_experiments: tuple[str, ...]
    """Experiments of all runs except the first."""


def read_metadata(blocks: Sequence[FreeformBlock], first: int | None) -> FreeformMetadata:
    """Read the report's header, which consists of the blocks before the first finding.

    `first` is the index of the block with the first finding; None if there is no finding.
    """
    fields: dict[Key, list[Field]] = {}
    for item in (*_front(blocks), *_header_fields(blocks[:first])):
        key = item.means(header=True)
        if key in HEADER_KEYS and item.text:
            fields.setdefault(key, []).append(item)
    passed, total = _rate(fields, blocks[:first])
    model, provider = _model(fields, blocks)
    run_ids = _run_ids(fields)
    return FreeformMetadata(
        AnalyzedRun(
            id=next(iter(run_ids), None),
            provider=_word(fields, "provider") or provider,
            model=model,
            experiment=_experiment(fields),
            status=_word(fields, "status"),
            passed=passed if passed is not None else _count(fields, "passed"),
            failed=_count(fields, "failed"),
            total=total if total is not None else _count(fields, "total"),
            url=_word(fields, "url"),
        ),
        _date(fields),
        run_ids,
        _remarks(fields)[1:],
    )


def _header_fields(blocks: Sequence[FreeformBlock]) -> Iterator[Field]:
    heading: Field | None = None
    depth = 0
    for block in blocks:
        if block.quoted:
            continue
        for line in block.lines:
            fields = parse_fields(line)
            if not fields and heading and block.kind == "item" and block.depth > depth:
                yield Field(heading.key, line)  # an item of a list that is nested below a line such as `Run IDs:`
                continue
            yield from fields
            heading, depth = (fields[-1], block.depth) if fields and not fields[-1].text else (None, 0)
        for row in block.rows:
            if len(row) == 2:
                yield Field(plain(row[0]), row[1])


def _front(blocks: Sequence[FreeformBlock]) -> Iterator[Field]:
    """Yield each value in the front matter as a field. Lists and mappings are left out."""
    text = blocks[0].text if blocks and blocks[0].kind == "front" else ""
    for name, value in front_values(text).items():
        # YAML reads an ISO date as a `date`.
        if isinstance(value, str | int | float | date):
            yield Field(str(name), (StyledSpan(str(value)),))


def _run_ids(fields: dict[Key, list[Field]]) -> tuple[str, ...]:
    """Return all texts in run fields that look like run ids.

    If no text looks like a run id, return the first word of the first run field.
    """
    run_ids = dict.fromkeys(run_id for item in fields.get("run", ()) for run_id in RUN_ID.findall(item.text))
    # A run id can have any form.
    return tuple(run_ids) or tuple(word for word in [_word(fields, "run")] if word)


def _word(fields: dict[Key, list[Field]], key: Key) -> str | None:
    for item in fields.get(key, ()):
        if word := re.match(r"[^\s,;(]+", item.text.strip("` ")):
            return word.group()
    return None


def _model(fields: dict[Key, list[Field]], blocks: Sequence[FreeformBlock]) -> tuple[str | None, str | None]:
    """Return the model and the provider.

    The names are read from a field with a text such as `opus-4-6 (anthropic)` or `google/gemini-3.1-pro`, or from a
    title such as `Run Analysis: x`.
    """
    model = _word(fields, "model") or _titled_model(blocks)
    remark = next((re.search(r"\(([a-z][a-z-]*)\)", item.text) for item in fields.get("model", ())), None)
    if remark:
        return model, remark.group(1)
    return model, model.partition("/")[0] if model and "/" in model else None


def _titled_model(blocks: Sequence[FreeformBlock]) -> str | None:
    title = next((plain(block.lines[0]) for block in blocks if block.kind == "heading"), "")
    match = re.search(r":\s+([\w.-]+(?:/[\w.-]+)*)\s*(?:\([^()]*\))?$", title)
    # Without a digit or a hyphen, the word is probably the end of an ordinary title, not the name of a model.
    return match.group(1) if match and re.search(r"[\d-]", match.group(1)) else None


def _experiment(fields: dict[Key, list[Field]]) -> str | None:
    return next((item.text.strip("` ") for item in fields.get("experiment", ())), None)


def _remarks(fields: dict[Key, list[Field]]) -> tuple[str, ...]:
    """Return the variants in keys such as `Run IDs (variant): …`.

    A report on several runs has one such key per variant.
    """
    remarks = (re.search(r"\(([A-Za-z][\w-]*)\)", item.key) for item in fields.get("run", ()))
    return tuple(dict.fromkeys(remark.group(1) for remark in remarks if remark))


def _rate(fields: dict[Key, list[Field]], header: Sequence[FreeformBlock]) -> tuple[int | None, int | None]:
    """Return the number of passed evals and the number of all evals, as stated by a rate such as `54/66 (81.8%)`.

    The rate is read from a field or, if there is none, from a table cell.
    """
    cells = (plain(cell) for block in header for row in block.rows for cell in row)
    for text in (*(item.text for item in fields.get("rate", ())), *(c for c in cells if PERCENT_RATE.match(c))):
        if (rate := RATE.match(text)) and int(rate.group(1)) <= int(rate.group(2)):
            return int(rate.group(1)), int(rate.group(2))
    return None, None


def _count(fields: dict[Key, list[Field]], key: Key) -> int | None:
    numbers = (re.match(r"\W*(\d{1,7})\b(?!\s*/)", item.text) for item in fields.get(key, ()))
    return next((int(number.group(1)) for number in numbers if number), None)


def _date(fields: dict[Key, list[Field]]) -> str | None:
    return next((day for item in fields.get("date", ()) if (day := iso_date(item.text))), None)


def iso_date(text: str) -> str | None:
    """Return the first valid date in a text, in ISO format. Return None if there is none.

    Dates in the formats of `DATE_FORMATS` are converted.
    """
    for candidate in ISO_DATE.findall(text):
        try:
            return date.fromisoformat(candidate).isoformat()
        except ValueError:
            continue
    for form in DATE_FORMATS:
        try:
            return datetime.strptime(text.strip("` "), form).date().isoformat()
        except ValueError:
            continue
    return None


def read_freeform(blocks: Sequence[FreeformBlock]) -> tuple[Analysis, FreeformMetadata]:
    """Return the content of a free-form report, and the metadata from its header."""
    entries = Entries().read(blocks)
    header = read_metadata(blocks, entries.first)
    findings, actions = merge_drafts(entries.drafts, entries.everyone)
    conclusions = read_conclusions(blocks, findings)
    analysis = Analysis(
        run=header.run,
        findings=findings,
        patterns=conclusions.patterns,
        recommendations=conclusions.recommendations,
        actions_taken=(*actions, *_new_actions(conclusions.actions, actions)),
    )
    return analysis, header


def _new_actions(listed: Iterable[ActionTaken], stated: Iterable[ActionTaken]) -> Iterator[ActionTaken]:
    """Yield the actions that the report lists, for evals whose findings do not already state an action.

    For all other evals, most listed actions would be repetitions. A listed action that names no eval is yielded, too.
    """
    evals = {eval for action in stated for eval in action.evals}
    for action in listed:
        new_evals = tuple(eval for eval in action.evals if eval not in evals)
        if new_evals or not action.evals:
            yield action.model_copy(update={"evals": new_evals})

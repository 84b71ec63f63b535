"""Drafts into findings: one per eval, under one name, with what all that was said of it says together."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from evalscribe.ids import content_id
from evalscribe.model.analysis import ActionTaken, FindingSummary
from evalscribe.recall.drafts import Draft
from evalscribe.recall.lead import Named
from evalscribe.recall.words import KINDS, NOTHING, STEPS, Label, bare, is_label, is_name

T = TypeVar("T")
NUMBERED = re.compile(r"\d+[-_]\w")
COUNT = re.compile(r"\d+\s*/\s*\d+$|\d+ (evals?|failures?|failed|tasks?)\b", re.IGNORECASE)
VARIANT = re.compile(r"(with|without|no)[_-]", re.IGNORECASE)
_ORDER = {"heading": 0, "field": 0, "table": 1, "list": 2}


@dataclass(slots=True)
class _Told:
    """All drafts about one eval, the most detailed first."""

    eval: str
    drafts: list[Draft] = field(default_factory=list)


def merged(
    drafts: Sequence[Draft], everyone: Draft | None
) -> tuple[tuple[FindingSummary, ...], tuple[ActionTaken, ...]]:
    """The failures in the order of the report, no eval twice; and what was done about each."""
    names = _Names(drafts)
    told: dict[str, _Told] = {}
    for draft in sorted((d for d in drafts if _tells_of_failure(d, everyone)), key=lambda d: _ORDER[d.origin]):
        for named in draft.evals:
            path = names.path(draft, named)
            if path is not None and (draft.stated or not names.may_count(path, named)):
                told.setdefault(path, _Told(path)).drafts.append(draft)
    order = {id(draft): number for number, draft in enumerate(drafts)}
    ordered = sorted(told.values(), key=lambda one: min(order[id(draft)] for draft in one.drafts))
    return tuple(_finding(one, everyone) for one in ordered), tuple(_actions(ordered))


def _actions(told: Iterable[_Told]) -> Iterator[ActionTaken]:
    for one in told:
        text = _first(draft.text("action") for draft in one.drafts)
        if text and not NOTHING.match(text):
            yield ActionTaken(text=text, evals=(one.eval,))


def _tells_of_failure(draft: Draft, everyone: Draft | None) -> bool:
    if draft.unsure:
        return draft.explicit is not None
    return bool(draft.stated or draft.step or draft.values.get("error") or draft.failing or everyone)


class _Names:
    """The evals' paths: who is a category, and which bare name is short for which path."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        named = [(draft, one) for draft in drafts for one in draft.evals]
        self.categories = {one.name.rpartition("/")[0] for _, one in named if "/" in one.name}
        self.categories |= {draft.category for draft in drafts if draft.category}
        self.categories |= {one.remark for _, one in named if one.remark and NUMBERED.match(one.remark)}
        self.categories |= _remarked(drafts)
        self.paths: dict[str, set[str]] = {}
        """Per bare name every path that bears it."""
        for path in (self._full(draft, one) for draft, one in named):
            if "/" in path:
                self.paths.setdefault(bare(path), set()).add(path)
        self.shape = _shape([bare(one.name) for draft, one in named if draft.origin != "list" and draft.stated])

    def path(self, draft: Draft, named: Named) -> str | None:
        """The path that a name stands for; None where it names no eval, or one cannot tell which."""
        path = self._full(draft, named)
        if path in self.categories or not self._fits(draft, path):
            return None
        if "/" in path:
            return path
        longer = self.paths.get(path, {path})
        return next(iter(longer)) if len(longer) == 1 else None

    def may_count(self, path: str, named: Named) -> bool:
        """Whether a name without a label of its own may be a category: counted (`queries (24/24)`), or the odd one."""
        return "/" not in path and bool(self.paths or COUNT.match(named.remark or ""))

    def _full(self, draft: Draft, named: Named) -> str:
        if "/" in named.name:
            return named.name
        category = named.remark if named.remark in self.categories else draft.category
        return f"{category}/{named.name}" if category else named.name

    def _fits(self, draft: Draft, path: str) -> bool:
        """In running lists other things have names too (lint rules, files): there a name looks like the others."""
        return draft.origin != "list" or self.shape is None or bool(self.shape.match(bare(path)))


def _remarked(drafts: Sequence[Draft]) -> set[str]:
    """The categories of a report that adds one to every eval: `001-hello (basics)`; not steps or experiments."""
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
    """What the evals' names have in common, where they are numbered."""
    return NUMBERED if names and all(NUMBERED.match(name) for name in names) else None


def _finding(told: _Told, everyone: Draft | None) -> FindingSummary:
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


def _reasoning(label: Label | None, text: str | None) -> str | None:
    """Return the reasoning, preceded by the report's own label if that is none of the four."""
    if label is None or label.foreign is None:
        return text
    return f"Labelled {label.foreign}. {text}" if text else f"Labelled {label.foreign}."


def _remarked_step(drafts: Sequence[Draft]) -> str | None:
    """`001-hello (deploy)`: a step in parentheses."""
    remarks = (named.remark for draft in drafts for named in draft.evals if named.remark)
    return next((word for remark in remarks if (word := remark.split()[0].lower()) in STEPS), None)


def _group(told: _Told, everyone: Draft | None) -> str | None:
    """Failures that one entry answers for share its id."""
    shared = next((draft for draft in told.drafts if len(draft.evals) > 1 and draft.origin != "list"), None)
    if shared is not None:
        return content_id(sorted(named.name for named in shared.evals))
    alone = all(draft.explicit is None for draft in told.drafts)
    return content_id("all") if everyone is not None and alone else None


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)

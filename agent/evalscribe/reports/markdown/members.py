"""The members of a group, by category, folded away."""

import re
from collections.abc import Sequence
from itertools import groupby

from evalscribe.model.report import EvalRef, ReportEntry
from evalscribe.reports.markdown import inline
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport
from evalscribe.text import mask_code

OPEN = "<details><summary>"
OPENING = re.compile(rf"{OPEN}\d+ evals, \d+ categor(?:y|ies)</summary>")
CLOSE = "</details>"
NO_CATEGORY = "(no category)"


def render(entry: ReportEntry) -> list[str]:
    """Empty for a single eval."""
    if len(entry.evals) == 1:
        return []
    categories = [(category, list(refs)) for category, refs in groupby(entry.evals, lambda ref: ref.category)]
    heading = f"{len(entry.evals)} evals, {len(categories)} {'category' if len(categories) == 1 else 'categories'}"
    lists = [f"- {_category(category)}: {', '.join(map(_member, refs))}" for category, refs in categories]
    return ["", f"{OPEN}{heading}</summary>", "", *lists, "", CLOSE]


def parse(block: PageBlock) -> list[EvalRef]:
    """Reads the list inside. Raises `UnreadableReport`."""
    return [ref for item in block.items for ref in _parse_item(item)]


def opens(block: PageBlock) -> bool:
    return block.kind == "html_block" and OPENING.match(block.text) is not None


def closes(blocks: Sequence[PageBlock], at: int) -> bool:
    return at < len(blocks) and blocks[at].kind == "html_block" and blocks[at].text.strip() == CLOSE


def _category(category: str) -> str:
    return inline.name(category) if category else NO_CATEGORY


def _member(ref: EvalRef) -> str:
    return inline.link(inline.name(ref.path.rpartition("/")[2]), ref.url)


def _parse_item(item: PageBlock) -> list[EvalRef]:
    category, colon, _ = mask_code(item.text).partition(": ")
    if not colon:
        raise UnreadableReport("a line of a group's members has no category", item.line)
    head, names = item.text[: len(category)], item.text[len(category) + 2 :]
    prefix = "" if head == NO_CATEGORY else f"{inline.uncode(head)}/"
    members = map(inline.parse_link, inline.split(names, ", "))
    return [EvalRef(path=prefix + inline.uncode(text), url=url) for text, url in members]

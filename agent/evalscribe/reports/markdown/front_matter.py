"""The front matter: what a program needs to find its way."""

import json
import re
from collections.abc import Mapping

import yaml
from pydantic import ValidationError

from evalscribe.ids import Frozen
from evalscribe.model.analysis import REPORT_KIND
from evalscribe.model.report import Report
from evalscribe.reports.markdown import blocks
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport

KIND = "evalscribe-report/1"
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*(?::[0-9a-f]+)?")


class FrontMatter(Frozen):
    run: str
    revision: int
    judges: tuple[str, ...]
    evidence: str


def render(report: Report) -> list[str]:
    judges = ", ".join(_scalar(judge) for judge in report.judges)
    return [
        "---",
        f"kind: {KIND}",
        f"run: {_scalar(report.run.id)}",
        f"revision: {report.revision}",
        f"judges: [{judges}]",
        f"evidence: {_scalar(report.evidence)}",
        "---",
    ]


def parse(block: PageBlock | None) -> FrontMatter:
    """Raises `UnreadableReport`, also for documents of another kind."""
    values = load(block)
    if values.get("kind") != KIND:
        raise UnreadableReport(f"this is not of kind {KIND}: its front matter says kind {values.get('kind')!r}", 1)
    try:
        return FrontMatter.model_validate({key: value for key, value in values.items() if key != "kind"})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise UnreadableReport(f"front matter, {name}: {first['msg']}", block.line if block else 1) from error


def load(block: PageBlock | None) -> Mapping[str, object]:
    """The values of any document's front matter; none where it has none. Raises `UnreadableReport`."""
    if block is None or block.kind != "front_matter":
        return {}
    try:
        values = yaml.safe_load(block.text)
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableReport("the front matter is not valid YAML", block.line) from error
    return values if isinstance(values, dict) else {}


def run_of(text: str) -> str | None:
    """The run that a report of ours is about; None for every other document, readable or not."""
    head, end, _ = text.removeprefix("\ufeff").replace("\r\n", "\n").partition("\n---\n")
    try:
        page = blocks.read(head + end)
        values = load(page[0] if page else None)
    except UnreadableReport:
        return None
    return str(values["run"]) if values.get("kind") in (KIND, REPORT_KIND) and "run" in values else None


def _scalar(text: str) -> str:
    plain = PLAIN.fullmatch(text) and yaml.safe_load(f"[{text}]") == [text]
    return text if plain else json.dumps(text, ensure_ascii=False)

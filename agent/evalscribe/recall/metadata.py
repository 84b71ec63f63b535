"""What a free-form report says of its run, above its findings."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import yaml

from evalscribe.model.analysis import AnalyzedRun
from evalscribe.recall.blocks import Block, Span, plain
from evalscribe.recall.fields import HEADER_KEYS, Field, Key, fields

RUN_ID = re.compile(r"\b(?=[a-z0-9]*\d)(?=[a-z0-9]*[a-z])[a-z0-9]{16,64}\b")
RATE = re.compile(r"^\W*(\d{1,7})\s*(?:/|of|von)\s*(\d{1,7})\b")
PERCENT_RATE = re.compile(r"^\d{1,7}/\d{1,7}\s*\(\d+(?:[.,]\d+)?\s*%\)$")
ISO_DATE = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
DATE_FORMATS = ("%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y", "%Y/%m/%d", "%d.%m.%Y")
MAX_FRONT = 10_000
MAX_BRACKETS = 100
"""The YAML reader is slow and recursive: nobody's front matter is nested like that."""


@dataclass(frozen=True, slots=True)
class Metadata:
    run: AnalyzedRun
    date: str | None
    """ISO date of the report, where it says one."""
    run_ids: tuple[str, ...]
    """Every run that the report says it is about, its first one first."""
    other_experiments: tuple[str, ...]
    """Experiments of runs that the report speaks of besides its first."""


def metadata(blocks: Sequence[Block], first: int | None) -> Metadata:
    """`first`: the block with the first finding, where the header ends."""
    told: dict[Key, list[Field]] = {}
    for one in (*_front(blocks), *_told(blocks[:first])):
        key = one.means(header=True)
        if key in HEADER_KEYS and one.text:
            told.setdefault(key, []).append(one)
    passed, total = _rate(told, blocks[:first])
    model, provider = _model(told, blocks)
    run_ids = _run_ids(told)
    return Metadata(
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


def _told(blocks: Sequence[Block]) -> Iterator[Field]:
    heading: Field | None = None
    depth = 0
    for block in blocks:
        if block.quoted:
            continue
        for line in block.lines:
            found = fields(line)
            if not found and heading and block.kind == "item" and block.depth > depth:
                yield Field(heading.key, line)  # `Run IDs:` with a nested list
                continue
            yield from found
            heading, depth = (found[-1], block.depth) if found and not found[-1].text else (None, 0)
        for row in block.rows:
            if len(row) == 2:
                yield Field(plain(row[0]), row[1])


def _front(blocks: Sequence[Block]) -> Iterator[Field]:
    """The front matter's plain values."""
    text = blocks[0].text if blocks and blocks[0].kind == "front" else ""
    for name, value in front_values(text).items():
        if isinstance(value, str | int | float | date):
            yield Field(str(name), (Span(str(value)),))


def front_values(text: str) -> dict[object, object]:
    """The mapping in a front matter; what is none says nothing."""
    try:
        found = yaml.safe_load(text) if len(text) <= MAX_FRONT and text.count("[") < MAX_BRACKETS else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _run_ids(told: dict[Key, list[Field]]) -> tuple[str, ...]:
    """Ids that look like ids, else the first word of the first field: nobody knows how every source names its runs."""
    found = dict.fromkeys(run_id for one in told.get("run", ()) for run_id in RUN_ID.findall(one.text))
    return tuple(found) or tuple(word for word in [_word(told, "run")] if word)


def _word(told: dict[Key, list[Field]], key: Key) -> str | None:
    for one in told.get(key, ()):
        if word := re.match(r"[^\s,;(]+", one.text.strip("` ")):
            return word.group()
    return None


def _model(told: dict[Key, list[Field]], blocks: Sequence[Block]) -> tuple[str | None, str | None]:
    """Model and provider: `claude-opus-4-6 (anthropic)`, `google/gemini-3.1-pro`, or the title's `Run Analysis: x`."""
    model = _word(told, "model") or _titled_model(blocks)
    remark = next((re.search(r"\(([a-z][a-z-]*)\)", one.text) for one in told.get("model", ())), None)
    if remark:
        return model, remark.group(1)
    return model, model.partition("/")[0] if model and "/" in model else None


def _titled_model(blocks: Sequence[Block]) -> str | None:
    title = next((plain(block.lines[0]) for block in blocks if block.kind == "heading"), "")
    said = re.search(r":\s+([\w.-]+(?:/[\w.-]+)*)\s*(?:\([^()]*\))?$", title)
    return said.group(1) if said and re.search(r"[\d-]", said.group(1)) else None


def _experiment(told: dict[Key, list[Field]]) -> str | None:
    return next((one.text.strip("` ") for one in told.get("experiment", ())), None)


def _remarks(told: dict[Key, list[Field]]) -> tuple[str, ...]:
    """`Run IDs (variant): …`: what the runs are told apart by, where a report is about several."""
    remarks = (re.search(r"\(([A-Za-z][\w-]*)\)", one.key) for one in told.get("run", ()))
    return tuple(dict.fromkeys(remark.group(1) for remark in remarks if remark))


def _rate(told: dict[Key, list[Field]], header: Sequence[Block]) -> tuple[int | None, int | None]:
    """`54/66 (81.8%)` of its field, else the first such cell of a table."""
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
    """The first date in a text as ISO, None where there is none that exists."""
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

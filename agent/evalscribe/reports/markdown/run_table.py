"""The run's metadata, one row each, with what a cascade took and saved."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from evalscribe.model.cascade import CascadeSaving, JudgeShare
from evalscribe.model.report import Report
from evalscribe.reports.markdown import inline
from evalscribe.reports.markdown.blocks import PageBlock, UnreadableReport
from evalscribe.text import mask_code

NOTHING = "nothing decided"
AMOUNTS = re.compile(
    r"about (?P<spent>\d[\d,.]*) (?P<unit>USD|tokens) spent, (?P<saved>\d[\d,.]*) (?:USD|tokens) saved"
    r" against asking (?P<against>.+) for all"
)
"""USD in letters: between two dollar signs GitHub reads a formula."""


def render_saving(saving: CascadeSaving) -> str:
    counts = [f"{inline.name(one.judge)} {one.evals}" for one in saving.decided]
    if saving.decided:
        counts[0] = f"{inline.name(saving.decided[0].judge)} decided {saving.decided[0].evals}"
    spent, saved = (_amount(saving, value) for value in (saving.spent, saving.saved))
    who = ", ".join(counts) or NOTHING
    return f"{who}; about {spent} spent, {saved} saved against asking {inline.name(saving.against)} for all"


def _amount(saving: CascadeSaving, value: float) -> str:
    return f"{value:,.2f} USD" if saving.unit == "usd" else f"{value:,.0f} tokens"


def parse_saving(text: str, line: int) -> CascadeSaving:
    """Raises `UnreadableReport`."""
    who, *rest = inline.split(text, ";")
    amounts = AMOUNTS.fullmatch(mask_code(rest[0])) if len(rest) == 1 else None
    try:
        if amounts is None:
            raise ValueError("no amounts")
        return CascadeSaving(
            decided=() if who == NOTHING else tuple(map(_decided, inline.split(who, ","))),
            unit="usd" if amounts["unit"] == "USD" else "tokens",
            spent=_number(amounts["spent"]),
            saved=_number(amounts["saved"]),
            against=inline.uncode(rest[0][slice(*amounts.span("against"))]),
        )
    except ValueError as error:
        raise UnreadableReport(
            "the row 'Cascade' says something else than who decided and what it took", line
        ) from error


def _decided(item: str) -> JudgeShare:
    name, _, evals = item.rpartition(" ")
    return JudgeShare(judge=inline.uncode(name.removesuffix(" decided")), evals=int(evals))


def _number(text: str) -> float:
    return float(text.replace(",", ""))


NAMES = re.compile(r": (.+) \((.+)\), experiment (.+)")
RESULT = re.compile(
    r"(?P<passed>\d+) passed, (?P<failed>\d+) failed, \d+ incomplete, (?P<total>\d+) in all(?P<names_all>, all named)?"
    r"(?:, (?P<listed>\d+) failures listed)?; analysed (?P<date>\d{4}-\d{2}-\d{2})"
)
STATUS = re.compile(r"(completed|failed|running|unknown|importing)(?:: (.+))?")
OWN_PROMPTS = "the workspace's own"


def render(report: Report) -> list[str]:
    return ["| | |", "|---|---|", *(inline.row(name, text) for name, text in _rows(report))]


def _rows(report: Report) -> Iterator[tuple[str, str]]:
    run = report.run
    names = f"{inline.name(run.model)} ({inline.name(run.provider)}), experiment {inline.name(run.experiment)}"
    yield "Run", f"{inline.link(inline.code(run.id), run.url)}: {names}"
    if run.status != "completed" or run.status_reason:
        yield "Status", f"{run.status}: {run.status_reason}" if run.status_reason else run.status
    counts = f"{run.passed} passed, {run.failed} failed, {run.incomplete} incomplete, {run.total} in all"
    named = ", all named" if run.names_all else ""
    listed = f", {run.listed} failures listed" if run.listed != run.failed else ""
    yield "Result", f"{counts}{named}{listed}; analysed {report.date}"
    if report.incomplete_evals:
        yield "Never completed", inline.paths(report.incomplete_evals)
    if report.own_prompts:
        yield "Prompts", OWN_PROMPTS
    if report.cascade:
        yield "Cascade", render_saving(report.cascade)
    if report.earlier:
        yield "Earlier reports", ", ".join(map(inline.report_link, report.earlier))


def parse(block: PageBlock) -> dict[str, Any]:
    """Fields of `Report`, with those of its run under `run`. Raises `UnreadableReport`."""
    rows = {row.cells[0]: row for row in block.items[1:] if len(row.cells) == 2}
    run = _run(rows, block.line)
    result = _matched(RESULT, rows, "Result", block.line)
    run |= {key: int(result[key]) for key in ("passed", "failed", "total")}
    run |= {"listed": int(result["listed"] or result["failed"]), "names_all": bool(result["names_all"])}
    return {
        "run": run,
        "date": result["date"],
        "own_prompts": _text(rows, "Prompts") == OWN_PROMPTS,
        "cascade": parse_saving(rows["Cascade"].cells[1], rows["Cascade"].line) if "Cascade" in rows else None,
        "incomplete_evals": tuple(inline.parse_list(_text(rows, "Never completed"))),
        "earlier": inline.parse_report_links(_text(rows, "Earlier reports")),
    }


def _run(rows: Mapping[str, PageBlock], line: int) -> dict[str, object]:
    text = _text(rows, "Run")
    names = _matched(NAMES, rows, "Run", line)
    head, url = inline.parse_link(text[: names.start()])
    model, provider, experiment = (inline.uncode(text[slice(*names.span(n))]) for n in (1, 2, 3))
    run = {"id": inline.uncode(head), "url": url, "model": model, "provider": provider, "experiment": experiment}
    return {**run, **_status(rows, line)}


def _status(rows: Mapping[str, PageBlock], line: int) -> dict[str, object]:
    if "Status" not in rows:
        return {}
    status = _matched(STATUS, rows, "Status", line)
    reason = _text(rows, "Status")[slice(*status.span(2))] if status[2] else None
    return {"status": status[1], "status_reason": reason}


def _text(rows: Mapping[str, PageBlock], name: str) -> str:
    return rows[name].cells[1] if name in rows else ""


def _matched(pattern: re.Pattern[str], rows: Mapping[str, PageBlock], name: str, line: int) -> re.Match[str]:
    """The pattern found at the end of the row's text with code spans masked."""
    text = mask_code(_text(rows, name))
    match = next((m for m in pattern.finditer(text) if m.end() == len(text)), None)
    if match is None:
        raise UnreadableReport(
            f"the row {name!r} is missing or says something else", getattr(rows.get(name), "line", line)
        )
    return match

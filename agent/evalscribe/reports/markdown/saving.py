"""What a cascade took and saved, as one line of the run's table.

`rules@1 decided 6, local/a 2, local/b 2; about 0.21 USD spent, 1.10 USD saved against asking local/b for all`
"""

import re

from evalscribe.model.cascade import CascadeSaving, JudgeShare
from evalscribe.reports.markdown import inline
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.text import mask_code

NOTHING = "nothing decided"
AMOUNTS = re.compile(
    r"about (?P<spent>\d[\d,.]*) (?P<unit>USD|tokens) spent, (?P<saved>\d[\d,.]*) (?:USD|tokens) saved"
    r" against asking (?P<against>.+) for all"
)
"""USD in letters: between two dollar signs GitHub reads a formula."""


def render(saving: CascadeSaving) -> str:
    counts = [f"{inline.name(one.judge)} {one.evals}" for one in saving.decided]
    if saving.decided:
        counts[0] = f"{inline.name(saving.decided[0].judge)} decided {saving.decided[0].evals}"
    spent, saved = (_amount(saving, value) for value in (saving.spent, saving.saved))
    who = ", ".join(counts) or NOTHING
    return f"{who}; about {spent} spent, {saved} saved against asking {inline.name(saving.against)} for all"


def _amount(saving: CascadeSaving, value: float) -> str:
    return f"{value:,.2f} USD" if saving.unit == "usd" else f"{value:,.0f} tokens"


def parse(text: str, line: int) -> CascadeSaving:
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

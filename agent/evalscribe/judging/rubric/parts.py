"""A subject beyond the context window: read in parts, and judged over what was observed in them.

Each part's observations are checked against the whole subject before anyone believes them, so that what the judge
cites in the end resolves to the original. A part that cannot be read is a gap that the judge is told of.
"""

from evalscribe.chat import Usage
from evalscribe.ids import Frozen
from evalscribe.judging.rubric.merging import merged, tokens
from evalscribe.judging.rubric.reader import Reader, item
from evalscribe.judging.subject import Subject
from evalscribe.ports import Model
from evalscribe.prompts import Prompts
from evalscribe.rubric import Rubric

HEADING = "too long to be shown, read in {parts} parts: cite the places that the observations cite, as they cite them"
NOTHING = "nothing that matters to the rubric was observed"
AROUND = 150
"""Tokens of headings and delimiters."""


class Condensed(Frozen):
    """What stands in a judge's prompt in place of a subject that does not fit."""

    subject: Subject
    """Observations and gaps as items. What they cite is in the original; so is what a judge cites of them."""
    usage: Usage
    parts: int
    gaps: tuple[str, ...] = ()
    """What was not read or left out, one line each."""


async def condensed(
    subject: Subject, rubric: Rubric, model: Model, room: int, prompts: Prompts | None = None
) -> Condensed:
    """The observations that matter to the rubric, in about `room` tokens.

    `model` reads the parts, within its own window. Raises `CallFailed`, with what was consumed, where nothing could be
    read, and `EvalscribeError` for what concerns all calls.
    """
    reader = Reader(subject, rubric, model, prompts or Prompts())
    observed = await reader.observe()
    kept = await merged(reader, observed, max(0, room - AROUND - tokens(reader.gaps)))
    items = [item("observations", kept or (NOTHING,), HEADING.format(parts=reader.parts))]
    if reader.gaps:
        items.append(item("gaps", reader.gaps))
    return Condensed(subject=Subject.of(subject.id, items), usage=reader.usage, parts=reader.parts, gaps=reader.gaps)

"""A subject beyond the context window: read in parts, and judged over what was observed in them.

Each part's observations are checked against the whole subject before anyone believes them, so that what the judge
cites in the end resolves to the original. A part that cannot be read is a gap that the judge is told of.
"""

from typing import Any

from evalscribe.ids import Frozen, content_id
from evalscribe.judging.rubric.merging import TEMPLATE as MERGE
from evalscribe.judging.rubric.merging import merged, tokens
from evalscribe.judging.rubric.reader import TEMPLATE as OBSERVE
from evalscribe.judging.rubric.reader import Reader, item
from evalscribe.judging.subject.item import Subject
from evalscribe.model.chat import Usage
from evalscribe.model.protocols import Model
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

HEADING = "too long to be shown, read in {parts} parts: cite the places that the observations cite, as they cite them"
NOTHING = "nothing that matters to the rubric was observed"
AROUND = 150
"""Tokens of headings and delimiters."""


class Condensed(Frozen):
    """What stands in a judge's prompt in place of a subject that does not fit."""

    subject: Subject
    """Observations and gaps as items. What they cite is in the original; so is what a judge cites of them."""
    usage: Usage
    """Of all that was read and merged so far."""
    parts: int
    gaps: tuple[str, ...] = ()
    """What was not read or left out, one line each."""


class Reading:
    """A subject that was read once, to be shown in as much room as there is."""

    def __init__(
        self, subject: Subject, rubric: Rubric, model: Model, prompts: Prompts, window: int | None = None
    ) -> None:
        """`model` reads the parts by these templates, within its own window or a smaller one.

        Raises `CallFailed` where the rubric alone fills the window.
        """
        self._subject = subject
        self._reader = Reader(subject, rubric, model, prompts, window)
        self._read_by = read_by(model, prompts)
        self._observed: tuple[str, ...] | None = None

    async def condensed(self, room: int) -> Condensed:
        """The observations that matter to the rubric, in about `room` tokens; a second time only merged further.

        Raises `CallFailed` where nothing could be read, and `EvalscribeError` for what concerns all calls.
        """
        reader = self._reader
        if self._observed is None:
            self._observed = await reader.observe()
        self._observed = kept = await merged(reader, self._observed, max(0, room - AROUND - tokens(reader.gaps)))
        items = [item("observations", kept or (NOTHING,), HEADING.format(parts=reader.parts))]
        if reader.gaps:
            items.append(item("gaps", reader.gaps))
        shown = Subject.of(self._subject.id, items)
        return Condensed(subject=shown, usage=reader.usage, parts=reader.parts, gaps=reader.gaps)

    @property
    def usage(self) -> Usage:
        """Of all that was read and merged so far, also where it came to nothing."""
        return self._reader.usage

    @property
    def told(self) -> dict[str, Any]:
        """What a result says of how its subject was read."""
        return {"read_in_parts": self._reader.parts, "gaps": list(self._reader.gaps), "read_by": self._read_by}


def read_by(model: Model, prompts: Prompts) -> str:
    """Content id of who reads parts, and by which templates."""
    return content_id([model.id, *(prompts.source(name) for name in (OBSERVE, MERGE))])

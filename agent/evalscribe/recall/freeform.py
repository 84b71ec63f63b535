"""Reports that people wrote in a form of their own."""

from collections.abc import Iterable, Iterator, Sequence

from evalscribe.model.analysis import ActionTaken, Analysis
from evalscribe.recall.afterwards import afterwards
from evalscribe.recall.blocks import Block
from evalscribe.recall.entries import Entries
from evalscribe.recall.merge import merged
from evalscribe.recall.metadata import Metadata, metadata


def read_freeform(blocks: Sequence[Block]) -> tuple[Analysis, Metadata]:
    """What the report says, and what it says of its run and date."""
    entries = Entries().read(blocks)
    header = metadata(blocks, entries.first)
    found, done = merged(entries.drafts, entries.everyone)
    told = afterwards(blocks, found)
    analysis = Analysis(
        run=header.run,
        findings=found,
        patterns=told.patterns,
        recommendations=told.recommendations,
        actions_taken=(*done, *_told_once(told.actions, done)),
    )
    return analysis, header


def _told_once(listed: Iterable[ActionTaken], done: Iterable[ActionTaken]) -> Iterator[ActionTaken]:
    """What a list at the end says besides: most of it stands at the findings already, in other words."""
    known = {eval for action in done for eval in action.evals}
    for action in listed:
        others = tuple(eval for eval in action.evals if eval not in known)
        if others or not action.evals:
            yield action.model_copy(update={"evals": others})

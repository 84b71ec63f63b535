"""Reports that people wrote in a form of their own."""

from collections.abc import Sequence

from evalscribe.analysis import Analysis
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
        actions_taken=done + told.actions,
    )
    return analysis, header

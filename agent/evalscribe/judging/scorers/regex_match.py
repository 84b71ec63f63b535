"""regex_match: whether the output matches a regular expression, within a time limit."""

import asyncio
from typing import Annotated

from pydantic import AfterValidator, Field

from evalscribe.judging.scorers.fields import ReadsOutput
from evalscribe.judging.scorers.kind import AnyKind, Kind
from evalscribe.judging.scorers.result import CannotScore, judged
from evalscribe.judging.scorers.values import kept, text_of, told
from evalscribe.model.schema_validator import MAX_SECONDS, compiled
from evalscribe.model.score import ScoreResult, ScorerRequest

LONGEST_PATTERN = 4096
QUICK_S = 0.02
"""Processor time for which a search may hold up the event loop; one that needs more goes on in a thread."""


def _checked(pattern: str) -> str:
    compiled(pattern)
    return pattern


class RegexMatch(ReadsOutput):
    pattern: Annotated[str, Field(min_length=1, max_length=LONGEST_PATTERN), AfterValidator(_checked)]
    """A regular expression of Python's `re`, found anywhere in the output unless it is anchored."""


class _Matches:
    def __init__(self, config: RegexMatch) -> None:
        self._config = config
        self._compiled = compiled(config.pattern)

    async def __call__(self, request: ScorerRequest) -> ScoreResult:
        text = text_of(self._config.output_of(request))
        if text is None:
            return judged(False, "there is no output", label="mismatch")
        span = await self._span(text)
        if span is None:
            said = f"the output {told(text)} does not match {told(self._config.pattern)}"
            return judged(False, said, label="mismatch", evidence={"output": kept(text)})
        found = text[span[0] : span[1]]
        evidence = {"at": span[0], "found": kept(found)}
        return judged(True, f"{told(found)} matches {told(self._config.pattern)}", label="match", evidence=evidence)

    async def close(self) -> None:
        """Nothing stays open: a thread ends with its search."""

    async def _span(self, text: str) -> tuple[int, int] | None:
        try:
            match = self._compiled.search(text, timeout=QUICK_S)
        except TimeoutError:
            try:
                match = await asyncio.to_thread(self._compiled.search, text, timeout=MAX_SECONDS, concurrent=True)
            except TimeoutError as error:
                reason = f"this text takes more than {MAX_SECONDS:g} s of processor time to check"
                raise CannotScore("timeout_error", reason) from error
        return match.span() if match else None


KINDS: tuple[AnyKind, ...] = (
    Kind("regex_match", "whether the output matches a regular expression", RegexMatch, _Matches),
)

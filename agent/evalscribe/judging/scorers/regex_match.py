"""regex_match: whether the output matches a regular expression, which may take longer than anybody lives."""

import re
import warnings
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from evalscribe.judging.scorers.bounded import Bounded
from evalscribe.judging.scorers.fields import ReadsOutput
from evalscribe.judging.scorers.kind import AnyKind, Kind
from evalscribe.judging.scorers.result import judged
from evalscribe.judging.scorers.values import kept, text_of, told
from evalscribe.score import ScoreResult, ScorerRequest

LONGEST_PATTERN = 4096
QUICK = 1_000_000
"""Steps that take some hundredths of a second."""
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_UNCLEAR = re.compile(r"\\[1-9]|\(\?P=|\(\?[a-zA-Z]*x")
_FIXED = re.compile(r"\{(\d+)\}")
_NESTED = re.compile(r"\)[*+{]")


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises `ValueError` for what is no regular expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"is no regular expression: {error}") from error


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
        self._bounded = Bounded("regex", config.pattern)

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
        await self._bounded.close()

    async def _span(self, text: str) -> tuple[int, int] | None:
        if steps(self._config.pattern, len(text)) <= QUICK:
            match = self._compiled.search(text)
            return match.span() if match else None
        found: Any = await self._bounded.ask(text)
        return tuple(found) if found else None


def steps(pattern: str, length: int) -> float:
    """At most so many, roughly: each repetition may try every length at every place, each choice doubles the ways.
    Infinite where one repetition is inside another, something is to be found again, or white space has no meaning."""
    plain = _CLASS.sub("x", _ESCAPED.sub("x", pattern))
    if _UNCLEAR.search(pattern) or _NESTED.search(plain):
        return float("inf")
    once = 1 + len(plain) // 20 + sum(int(times) for times in _FIXED.findall(plain))
    plain = _FIXED.sub("", plain)
    repeats = sum(map(plain.count, "*+{"))
    choices = sum(map(plain.count, "|?"))
    return min(float(once * (length + 1) ** (min(repeats, 20) + 1) * 2 ** min(choices, 60)), 1e300)


KINDS: tuple[AnyKind, ...] = (
    Kind("regex_match", "whether the output matches a regular expression", RegexMatch, _Matches),
)

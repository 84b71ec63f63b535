"""Scorers of text: exact_match, contains, levenshtein, regex_match."""

import asyncio
from itertools import islice
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue
from rapidfuzz.distance import Levenshtein as EditDistance
from rapidfuzz.distance import Postfix, Prefix

from evalscribe.experiments.scorers.definition import (
    AnyKind,
    CannotScore,
    ScorerCheck,
    ScorerKind,
    function_check,
    score_result,
)
from evalscribe.experiments.scorers.values import (
    ReadsExpected,
    ReadsOutput,
    ValueDifference,
    as_evidence,
    difference_evidence,
    differences,
    equal_values,
    parse_json,
    render_value,
    text_of,
)
from evalscribe.model.schema_validator import MAX_SECONDS, compiled
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.text import pluralise

LONGEST = 100_000
LARGEST = 400_000_000
"""Maximum product of the lengths of two compared texts. The common prefix and suffix of the texts are not counted. A
comparison with this product takes about 16 ms of CPU time."""
MOST_PLACES = 20
"""Maximum number of differences stored as evidence."""


class ExactMatch(ReadsOutput, ReadsExpected):
    case_sensitive: bool = True
    """Whether case matters."""


class Contains(ReadsOutput):
    pattern: Annotated[str, Field(min_length=1)]
    """The text that must occur in the output."""
    case_sensitive: bool = True
    """Whether case matters."""


class Levenshtein(ReadsOutput, ReadsExpected):
    threshold: float = Field(default=1.0, gt=0, le=1)
    """Minimum similarity that passes. The default, 1, requires equal texts."""


def exact_match(config: ExactMatch, request: ScorerRequest) -> ScoreResult:
    output, expected = config.output_of(request), config.expected_of(request)
    mismatches = differences(output, expected, config.output_field, ignore_case=not config.case_sensitive)
    first_mismatches = list(islice(mismatches, MOST_PLACES))
    if not first_mismatches:
        return score_result(True, "the output equals the expected output", label="match")
    more = len(first_mismatches) - 1
    other_count = f"{pluralise(more, 'other difference')}{' or more' if len(first_mismatches) == MOST_PLACES else ''}"
    suffix = f"; there {'is' if more == 1 else 'are'} {other_count}" if more else ""
    explanation = f"{first_mismatches[0]}{suffix}{_hint(output, expected)}"
    return score_result(
        False, explanation, label="mismatch", evidence=[difference_evidence(mismatch) for mismatch in first_mismatches]
    )


def _hint(output: object, expected: object) -> str:
    """Return a hint if the target returned JSON as text, which is the most common mistake; else an empty text."""
    if not isinstance(output, str) or isinstance(expected, str):
        return ""
    try:
        equal = equal_values(parse_json(output), expected)
    except ValueError:
        return ""
    return "; the text contains that value as JSON; the target should return the value itself" if equal else ""


def contains(config: Contains, request: ScorerRequest) -> ScoreResult:
    text = text_of(config.output_of(request))
    if text is None:
        return score_result(False, "there is no output", label="mismatch")
    haystack, pattern = (
        (text, config.pattern) if config.case_sensitive else (text.casefold(), config.pattern.casefold())
    )
    position = haystack.find(pattern)
    if position < 0:
        explanation = f"{render_value(config.pattern)} is not in the output {render_value(text)}"
        return score_result(False, explanation, label="mismatch", evidence={"output": as_evidence(text)})
    # `casefold` can change the length, such as from `ß` to `ss`. A position then does not apply to the original text.
    same_length = config.case_sensitive or len(haystack) == len(text)
    evidence: JsonValue = {"at": position} if same_length else {"output": as_evidence(text)}
    return score_result(True, f"{render_value(config.pattern)} is in the output", label="match", evidence=evidence)


def edit_distance(left: str, right: str) -> int:
    """Return the Levenshtein distance in characters.

    Raises `CannotScore` if computing the distance would take too long.
    """
    prefix = Prefix.similarity(left, right)
    left, right = left[prefix:], right[prefix:]
    suffix = Postfix.similarity(left, right)
    lengths = len(left) - suffix, len(right) - suffix
    # If one text is empty, the distance is the length of the other, which takes no time.
    if min(lengths) and (max(lengths) > LONGEST or lengths[0] * lengths[1] > LARGEST):
        reason = f"texts of {lengths[0]:,} and {lengths[1]:,} differing characters are too long to compare"
        raise CannotScore("input_error", reason)
    return EditDistance.distance(left, right)


def levenshtein(config: Levenshtein, request: ScorerRequest) -> ScoreResult:
    output, expected = text_of(config.output_of(request)), text_of(config.expected_of(request))
    if output is None:
        return score_result(False, "there is no output", label="mismatch")
    if expected is None:
        raise CannotScore("input_error", "the expected output is null, but a text is needed")
    longest = max(len(output), len(expected))
    distance = edit_distance(output, expected)
    similarity = 1 - distance / longest if longest else 1.0
    passed = similarity >= config.threshold
    summary = f"{pluralise(distance, 'edit')} in {pluralise(longest, 'character')}: similarity {similarity:.3f}, "
    return score_result(
        passed,
        f"{summary}{config.threshold:g} is required",
        label="match" if passed else "mismatch",
        value=similarity,
        evidence=difference_evidence(ValueDifference(config.output_field, expected, output)) if distance else None,
        metadata={"distance": distance},
    )


TEXT_KINDS: tuple[AnyKind, ...] = (
    ScorerKind(
        "exact_match",
        "whether the output equals the expected output, as JSON values",
        ExactMatch,
        function_check(exact_match),
    ),
    ScorerKind("contains", "whether the output contains a text", Contains, function_check(contains)),
    ScorerKind(
        "levenshtein",
        "how similar output and expected text are, by edit distance",
        Levenshtein,
        function_check(levenshtein),
    ),
)


LONGEST_PATTERN = 4096
QUICK_S = 0.02
"""Maximum seconds of CPU time for a search in the event loop. A search that takes longer is repeated in a thread."""


def _validate_pattern(pattern: str) -> str:
    compiled(pattern)
    return pattern


class RegexMatch(ReadsOutput):
    pattern: Annotated[str, Field(min_length=1, max_length=LONGEST_PATTERN), AfterValidator(_validate_pattern)]
    """A regular expression of Python's `re`. The expression can match anywhere in the output unless it is anchored."""


class _RegexCheck(ScorerCheck):
    def __init__(self, config: RegexMatch) -> None:
        self._config = config
        self._compiled = compiled(config.pattern)

    async def __call__(self, request: ScorerRequest) -> ScoreResult:
        text = text_of(self._config.output_of(request))
        if text is None:
            return score_result(False, "there is no output", label="mismatch")
        span = await self._span(text)
        if span is None:
            explanation = f"the output {render_value(text)} does not match {render_value(self._config.pattern)}"
            return score_result(False, explanation, label="mismatch", evidence={"output": as_evidence(text)})
        match_text = text[span[0] : span[1]]
        evidence = {"at": span[0], "found": as_evidence(match_text)}
        return score_result(
            True,
            f"{render_value(match_text)} matches {render_value(self._config.pattern)}",
            label="match",
            evidence=evidence,
        )

    async def close(self) -> None:
        """Do nothing. A thread ends when its search ends."""

    async def _span(self, text: str) -> tuple[int, int] | None:
        try:
            match = self._compiled.search(text, timeout=QUICK_S)
        except TimeoutError:
            try:
                # With `concurrent`, the event loop can run during the search.
                match = await asyncio.to_thread(self._compiled.search, text, timeout=MAX_SECONDS, concurrent=True)
            except TimeoutError as error:
                reason = f"checking this text takes more than {MAX_SECONDS:g} s of CPU time"
                raise CannotScore("timeout_error", reason) from error
        return match.span() if match else None


REGEX_KINDS: tuple[AnyKind, ...] = (
    ScorerKind("regex_match", "whether the output matches a regular expression", RegexMatch, _RegexCheck),
)

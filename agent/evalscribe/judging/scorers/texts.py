"""The output as text or value beside what is expected: exact_match, contains, levenshtein."""

from itertools import islice
from typing import Annotated

from pydantic import Field, JsonValue
from rapidfuzz.distance import Levenshtein as EditDistance
from rapidfuzz.distance import Postfix, Prefix

from evalscribe.judging.scorers.fields import ReadsExpected, ReadsOutput, parsed
from evalscribe.judging.scorers.kind import AnyKind, Kind, pure
from evalscribe.judging.scorers.result import CannotScore, judged
from evalscribe.judging.scorers.values import Place, kept, kept_place, places, same, text_of, told
from evalscribe.model.score import ScoreResult, ScorerRequest
from evalscribe.text import pluralise

LONGEST = 100_000
LARGEST = 400_000_000
"""Product of both lengths without equal beginnings and ends: with `LONGEST`, a tenth of a second or less."""
MOST_PLACES = 20
"""Differing places that are kept."""


class ExactMatch(ReadsOutput, ReadsExpected):
    case_sensitive: bool = True
    """Whether upper and lower case differ."""


class Contains(ReadsOutput):
    pattern: Annotated[str, Field(min_length=1)]
    """The text that is to be found."""
    case_sensitive: bool = True
    """Whether upper and lower case differ."""


class Levenshtein(ReadsOutput, ReadsExpected):
    threshold: float = Field(default=1.0, gt=0, le=1)
    """Passes from this likeness on; 1, the default, asks for equal texts, whatever the value says."""


def exact_match(config: ExactMatch, request: ScorerRequest) -> ScoreResult:
    output, expected = config.output_of(request), config.expected_of(request)
    found = places(output, expected, config.output_field, fold=not config.case_sensitive)
    first = list(islice(found, MOST_PLACES))
    if not first:
        return judged(True, "the output is what is expected", label="match")
    more = len(first) - 1
    others = f"{pluralise(more, 'other difference')}{' or more' if len(first) == MOST_PLACES else ''}"
    and_more = f"; there {'is' if more == 1 else 'are'} {others}" if more else ""
    explanation = f"{first[0]}{and_more}{_hint(output, expected)}"
    return judged(False, explanation, label="mismatch", evidence=[kept_place(place) for place in first])


def _hint(output: object, expected: object) -> str:
    """The commonest mistake: a target that gives JSON as text."""
    if not isinstance(output, str) or isinstance(expected, str):
        return ""
    try:
        equal = same(parsed(output), expected)
    except ValueError:
        return ""
    return "; the text holds that value as JSON, the target should give the value itself" if equal else ""


def contains(config: Contains, request: ScorerRequest) -> ScoreResult:
    text = text_of(config.output_of(request))
    if text is None:
        return judged(False, "there is no output", label="mismatch")
    inside, pattern = (text, config.pattern) if config.case_sensitive else (text.casefold(), config.pattern.casefold())
    at = inside.find(pattern)
    if at < 0:
        said = f"{told(config.pattern)} is not in the output {told(text)}"
        return judged(False, said, label="mismatch", evidence={"output": kept(text)})
    folded_alike = config.case_sensitive or len(inside) == len(text)
    evidence: JsonValue = {"at": at} if folded_alike else {"output": kept(text)}
    return judged(True, f"{told(config.pattern)} is in the output", label="match", evidence=evidence)


def edit_distance(one: str, other: str) -> int:
    """Levenshtein distance in characters. Raises `CannotScore` if that would take more than a moment."""
    prefix = Prefix.similarity(one, other)
    one, other = one[prefix:], other[prefix:]
    suffix = Postfix.similarity(one, other)
    lengths = len(one) - suffix, len(other) - suffix
    if min(lengths) and (max(lengths) > LONGEST or lengths[0] * lengths[1] > LARGEST):
        reason = f"texts of {lengths[0]:,} and {lengths[1]:,} differing characters are too long to compare"
        raise CannotScore("input_error", reason)
    return EditDistance.distance(one, other)


def levenshtein(config: Levenshtein, request: ScorerRequest) -> ScoreResult:
    output, expected = text_of(config.output_of(request)), text_of(config.expected_of(request))
    if output is None:
        return judged(False, "there is no output", label="mismatch")
    if expected is None:
        raise CannotScore("input_error", "the expected output is null where text is to be compared")
    longest = max(len(output), len(expected))
    distance = edit_distance(output, expected)
    likeness = 1 - distance / longest if longest else 1.0
    passed = likeness >= config.threshold
    said = f"{pluralise(distance, 'edit')} in {pluralise(longest, 'character')}: likeness {likeness:.3f}, "
    return judged(
        passed,
        f"{said}{config.threshold:g} is needed",
        label="match" if passed else "mismatch",
        value=likeness,
        evidence=kept_place(Place(config.output_field, expected, output)) if distance else None,
        metadata={"distance": distance},
    )


KINDS: tuple[AnyKind, ...] = (
    Kind("exact_match", "whether the output equals what is expected, as JSON values", ExactMatch, pure(exact_match)),
    Kind("contains", "whether a text is in the output", Contains, pure(contains)),
    Kind("levenshtein", "how alike output and expected text are, by edits", Levenshtein, pure(levenshtein)),
)

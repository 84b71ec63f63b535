"""Parse the JSON object in a judge's free-text answer, and check it against the rubric's schema."""

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from evalscribe.ids import canonical_json
from evalscribe.model.output_schema import validate_answer
from evalscribe.model.rubric import OutputParsingMode, Rubric

# The library json-repair (0.64) is not used instead of `parse_object`. With json-repair, 10 answer tests fail, because
# it turns an ambiguous answer into a definite one: it reads `tru` as a string, drops the first of two equal keys, and
# guesses the meaning of comments and unescaped quotes. json-repair also accepts NaN and infinity, which cannot be
# stored. For 16,000 escaped quotes in an unterminated string, json-repair needs 107 ms of CPU time and `parse_object`
# 1 ms.


DEEPEST = 100
"""Maximum nesting depth of objects and lists in the JSON of an answer."""
# Braces in prose, as in `the set {1, 2}`, do not begin JSON.
_START = re.compile(r"\{\s*+[\"}]|\[\s*+\{")
"""Matches the start of a JSON object or of a JSON list of objects.

Lists are matched so that the objects in them are not mistaken for answers.
"""
_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]"]', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?<![{\[,\s])\s*+,(?=\s*+[}\]])', re.DOTALL)


class BrokenJson(NamedTuple):
    """Text that looks like JSON but is invalid or incomplete."""

    problem: str


class JsonSpan(NamedTuple):
    value: dict[str, Any] | BrokenJson
    start: int
    end: int | None
    """Offset of the first character after the JSON; None if the JSON is unterminated."""


def find_objects(text: str, start: int, stop: int) -> Iterator[JsonSpan]:
    """Yield the outermost JSON objects in `text[start:stop]`, in order. Only the last object can be unterminated."""
    while match := _START.search(text, start, stop):
        end = _object_end(text, match.start(), stop)
        if not isinstance(end, int):
            # An object inside unterminated JSON is only a part of an answer, such as a draft, so the search ends here.
            yield JsonSpan(end, match.start(), None)
            return
        yield JsonSpan(parse_object(text[match.start() : end]), match.start(), end)
        start = end


def parse_object(text: str) -> dict[str, Any] | BrokenJson:
    """Parse a text as a single JSON object. Unescaped line breaks in strings and trailing commas are accepted."""
    value = _load_json(text)
    if isinstance(value, BrokenJson):
        # Commas are only removed from invalid JSON, so valid JSON is never changed.
        without_commas = _load_json(_STRING_OR_COMMA.sub(_without_comma, text))
        value = value if isinstance(without_commas, BrokenJson) else without_commas
    if not isinstance(value, dict | BrokenJson):
        return BrokenJson(f"it must be a JSON object, not a {type(value).__name__}")
    return value


def _object_end(text: str, start: int, stop: int) -> int | BrokenJson:
    depth = 0
    for part in _PART.finditer(text, start, stop):
        match part[0]:
            case "{" | "[":
                depth += 1
            case "}" | "]":
                depth -= 1
            case '"':
                return BrokenJson("the JSON ends inside a string")
        if depth == 0:
            return part.end()
        if depth > DEEPEST:
            return BrokenJson(f"the JSON is nested more than {DEEPEST} levels deep")
    return BrokenJson("the JSON is not whole: closing brackets are missing")


def _load_json(text: str) -> Any:
    try:
        value = json.loads(
            text, strict=False, object_pairs_hook=_object, parse_constant=_reject_number, parse_float=_number
        )
    except json.JSONDecodeError as error:
        return BrokenJson(f"not JSON: {error.msg} (line {error.lineno} column {error.colno})")
    except ValueError as error:
        # The functions below raise this error, and so does Python for integers of more than 4,300 digits.
        return BrokenJson(f"not JSON: {error}")
    # Only an escape such as `\ud83d` can put a lone surrogate into the value.
    return _storable(value) if "\\ud" in text.lower() else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {duplicate[:80]!r} occurs twice in an object")
    return members


def _reject_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _number(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _reject_number(digits[:40])


def _storable(value: Any) -> Any:
    """Replace lone surrogates in a JSON value with `?`.

    JSON can contain lone surrogates as escapes, but they can be neither sent nor stored.
    """
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _without_comma(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else ""


MOST_OBJECTS = 100
"""Maximum number of JSON objects examined in one text, and maximum number of tags examined in one answer."""
MOST_EXTENDED = 8
"""Maximum number of times per answer that the parser reads past a closing tag to complete a JSON object.

The closing tag might be inside one of the object's strings.
"""
MOST_PROBLEMS = 10
LONGEST_PROBLEM = 300

Output = dict[str, Any]
Problems = list[str]


def parse_answer(text: str, rubric: Rubric, repeats: Callable[[str], bool] = lambda _: False) -> Output | Problems:
    """Return the output in a judge's answer, or a list of problems if the answer has no valid output.

    If the answer has tags, the first tag with a valid output is used; otherwise the whole text is searched. An output
    is valid if it is a complete JSON object that fits the schema, and no different object in the same tag or text fits
    the schema.

    If `repeats` returns True for the text of a tag, the judge might have quoted this tag from the subject. The output
    of such a tag is only used if no other tag has a valid output.
    """
    result = _parse_tags(text, rubric, repeats) if rubric.output_parsing_mode is OutputParsingMode.XML_KEY else None
    if result is None:
        result = _single_output(_objects(text, 0, len(text)), rubric.output_schema)
    return result if isinstance(result, dict) else [problem[:LONGEST_PROBLEM] for problem in result[:MOST_PROBLEMS]]


def _parse_tags(text: str, rubric: Rubric, repeats: Callable[[str], bool]) -> Output | Problems | None:
    """Return the output in the tags of an answer, or the problems if no tag has a valid output.

    Return None if no tag is closed.
    """
    tags = _Tags(text, rubric.response_xml_key)
    result: Output | Problems | None = None
    repeated_output: Output | None = None
    while tags.more():
        for objects in tags.object_lists():
            result = _single_output(objects, rubric.output_schema)
            if isinstance(result, dict):
                # If this is the only tag with a valid output, it is used anyway, so the subject is not searched for it.
                if (repeated_output is None and not tags.has_following()) or not repeats(tags.content):
                    return result
                repeated_output = repeated_output or result
                break
    return repeated_output or result


class _Tags:
    """Reads the tags of one answer in order. Tags inside strings of parsed JSON objects are skipped."""

    def __init__(self, text: str, key: str) -> None:
        self._text = text
        self._opening, self._closing = f"<{key}>", f"</{key}>"
        self._last = text.rfind(self._closing)
        self._begin = self._end = 0
        self._remaining, self._extensions = MOST_OBJECTS, MOST_EXTENDED

    def more(self) -> bool:
        """Advance to the next closed tag. Return False if no closed tag is left."""
        begin = self._text.find(self._opening, self._end)
        if begin < 0 or not self._remaining:
            return False
        self._remaining -= 1
        self._begin = begin + len(self._opening)
        self._end = self._text.find(self._closing, self._begin)
        return self._end >= 0

    def has_following(self) -> bool:
        """Return whether the answer has another closed tag after the current one."""
        return self._text.find(self._opening, self._end, self._last) >= 0

    @property
    def content(self) -> str:
        """Text between the current opening tag and its closing tag."""
        return self._text[self._begin : self._end]

    def object_lists(self) -> list[list[JsonSpan]]:
        """Return one or two lists of JSON objects.

        The first list has the objects between the current opening tag and its closing tag. If further opening tags come
        before the closing tag, the second list has the objects after the last of these opening tags.
        """
        begin, end = self._begin, self._end
        outer_objects = self._extend(_objects(self._text, begin, end))
        # The model might have broken off and started its answer again without closing the first tag.
        inner_opening = self._text.rfind(self._opening, begin, end)
        if inner_opening < 0 or self._end > end:
            return [outer_objects]
        return [outer_objects, _objects(self._text, inner_opening + len(self._opening), end)]

    def _extend(self, objects: list[JsonSpan]) -> list[JsonSpan]:
        """Complete the last object if it was cut off by a closing tag that is inside one of its strings."""
        is_cut = bool(objects) and objects[-1].end is None
        if not (is_cut and self._extensions and self._end < self._last):
            return objects
        self._extensions -= 1
        completed = next(find_objects(self._text, objects[-1].start, self._last))
        if completed.end is None or isinstance(completed.value, BrokenJson):
            return objects
        self._end = completed.end
        return [*objects[:-1], completed]


def _objects(text: str, start: int, stop: int) -> list[JsonSpan]:
    return list(islice(find_objects(text, start, stop), MOST_OBJECTS + 1))


def _single_output(objects: list[JsonSpan], schema: dict[str, Any]) -> Output | Problems:
    if len(objects) > MOST_OBJECTS:
        return [f"more than {MOST_OBJECTS} JSON objects: give one"]
    problems = ["no JSON object"]
    outputs: dict[str, Output] = {}
    for value, *_ in objects:
        problems = [value.problem] if isinstance(value, BrokenJson) else validate_answer(value, schema)
        if not problems and isinstance(value, dict):
            # Several equal answers are not ambiguous.
            outputs.setdefault(canonical_json(value), value)
    if len(outputs) > 1:
        return [f"{len(outputs)} different JSON objects fit the schema: give one"]
    return next(iter(outputs.values()), problems)

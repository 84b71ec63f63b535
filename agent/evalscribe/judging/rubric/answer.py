"""From a judge's answer to an output that fits the rubric's schema, or to what is wrong with it."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from evalscribe.ids import canonical_json
from evalscribe.judging.rubric.loose_json import Broken, Found, found
from evalscribe.model.output_schema import validate_answer
from evalscribe.model.rubric import OutputParsingMode, Rubric

MOST_OBJECTS = 100
"""Objects of one text that are looked at, and tags of one answer."""
MOST_EXTENDED = 8
"""Tags that are read beyond their first closing tag because that may stand in a string."""
MOST_PROBLEMS = 10
LONGEST_PROBLEM = 300

Output = dict[str, Any]
Problems = list[str]


def read_answer(text: str, rubric: Rubric, repeats: Callable[[str], bool] = lambda _: False) -> Output | Problems:
    """The output in the first tag that holds one, or in all of the text where there is no tag; else what is wrong.

    An output is a whole JSON object that fits the schema, and the only such object where it stands. A tag whose text
    `repeats` what is judged may be a quotation: it only counts where no other tag holds an output.
    """
    read = _tagged(text, rubric, repeats) if rubric.output_parsing_mode is OutputParsingMode.XML_KEY else None
    if read is None:
        read = _only(_objects(text, 0, len(text)), rubric.output_schema)
    return read if isinstance(read, dict) else [problem[:LONGEST_PROBLEM] for problem in read[:MOST_PROBLEMS]]


def _tagged(text: str, rubric: Rubric, repeats: Callable[[str], bool]) -> Output | Problems | None:
    """None where no tag has an end."""
    tags = _Tags(text, rubric.response_xml_key)
    read: Output | Problems | None = None
    repeated: Output | None = None
    while tags.more():
        for objects in tags.readings():
            read = _only(objects, rubric.output_schema)
            if isinstance(read, dict):
                if (repeated is None and not tags.follow()) or not repeats(tags.content):
                    return read
                repeated = repeated or read
                break
    return repeated or read


class _Tags:
    """The tags of one answer in order; what stands in a string of an object that was read is no tag."""

    def __init__(self, text: str, key: str) -> None:
        self._text = text
        self._opening, self._closing = f"<{key}>", f"</{key}>"
        self._last = text.rfind(self._closing)
        self._begin = self._end = 0
        self._left, self._extensions = MOST_OBJECTS, MOST_EXTENDED

    def more(self) -> bool:
        """Go to the next tag that has an end."""
        begin = self._text.find(self._opening, self._end)
        if begin < 0 or not self._left:
            return False
        self._left -= 1
        self._begin = begin + len(self._opening)
        self._end = self._text.find(self._closing, self._begin)
        return self._end >= 0

    def follow(self) -> bool:
        """Whether another tag that has an end stands behind this one."""
        return self._text.find(self._opening, self._end, self._last) >= 0

    @property
    def content(self) -> str:
        """What stands between the tags."""
        return self._text[self._begin : self._end]

    def readings(self) -> list[list[Found]]:
        """The objects between the tags; where tags stand in tags, those in the innermost one too."""
        begin, end = self._begin, self._end
        outer = self._extended(_objects(self._text, begin, end))
        inner = self._text.rfind(self._opening, begin, end)
        if inner < 0 or self._end > end:
            return [outer]
        return [outer, _objects(self._text, inner + len(self._opening), end)]

    def _extended(self, objects: list[Found]) -> list[Found]:
        """The last object whole, where the closing tag that cuts it stands in one of its strings."""
        cut = bool(objects) and objects[-1].end is None
        if not (cut and self._extensions and self._end < self._last):
            return objects
        self._extensions -= 1
        longer = next(found(self._text, objects[-1].start, self._last))
        if longer.end is None or isinstance(longer.value, Broken):
            return objects
        self._end = longer.end
        return [*objects[:-1], longer]


def _objects(text: str, start: int, stop: int) -> list[Found]:
    return list(islice(found(text, start, stop), MOST_OBJECTS + 1))


def _only(objects: list[Found], schema: dict[str, Any]) -> Output | Problems:
    if len(objects) > MOST_OBJECTS:
        return [f"more than {MOST_OBJECTS} JSON objects: give one"]
    problems = ["no JSON object"]
    fitting: dict[str, Output] = {}
    for value, *_ in objects:
        problems = [value.problem] if isinstance(value, Broken) else validate_answer(value, schema)
        if not problems and isinstance(value, dict):
            fitting.setdefault(canonical_json(value), value)
    if len(fitting) > 1:
        return [f"{len(fitting)} different JSON objects fit the schema: give one"]
    return next(iter(fitting.values()), problems)

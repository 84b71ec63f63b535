"""Build records from foreign data: the base of readers, cleaned values, and a count of what was left out."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from evalscribe import text as prose
from evalscribe.ids import content_id, path_part
from evalscribe.json_data import clean_json, collect_strings, is_clean
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.model.transcript import ChatMessage, Transcript
from evalscribe.redaction.redact import find_hints, redact_json, safe_message
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import FileReader

MAX_PHRASES = 200
"""Maximum phrases that are counted: a hostile file can have a different problem in each of a million records."""
MORE = "something else"


class Omissions:
    """Counts of omissions by phrase, with the location of the first one."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, phrase: str, place: str | None = None, number: int = 1) -> None:
        if phrase not in self._counts:  # A log repeats this for each of its events.
            phrase = safe_message(phrase)
        if phrase not in self._counts and len(self._counts) >= MAX_PHRASES:
            phrase, place = MORE, None
        self._counts[phrase] += number
        if place is not None:
            self._first.setdefault(phrase, place)

    def told(self) -> dict[str, int]:
        return {
            f"{phrase} (first: {self._first[phrase]})" if phrase in self._first else phrase: number
            for phrase, number in self._counts.items()
        }


class RecordFile(ABC):
    """A file that holds runs (`Records`), read once or twice; a second pass needs counts from the whole file."""

    format: str
    passes = 1

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        self._path = path
        self._overrides = overrides
        self._left_out = Omissions()
        self._reader: FileReader | None = None
        self._finished_passes = 0

    @property
    def left_out(self) -> Mapping[str, int]:
        return self._left_out.told()

    @property
    def progress(self) -> float:
        return (self._finished_passes + (self._reader.progress if self._reader else 0)) / self.passes

    @abstractmethod
    def read(self) -> Iterator[Run | Record]: ...

    def _finish_first_pass(self) -> str:
        """Return a run id made from the content that the first pass read."""
        assert self._reader is not None
        self._finished_passes = 1
        return self._reader.digest[:32]


LONGEST_TIME = 40
MAX_NAME_IN_ID = 80
"""Maximum characters of a name that an id contains unchanged."""
_MESSAGE: TypeAdapter[ChatMessage] = TypeAdapter(ChatMessage)


def safe_json(value: object) -> JsonValue:
    """Clean and redact a JSON value.

    Joins its strings to look at them once, because most hold no secret. Raises `DataError` if it is nested too deeply.
    """
    whole = "\n".join(collect_strings(value))
    kept = value if is_clean(whole) else clean_json(value)
    return cast(JsonValue, redact_json(kept, find_hints(whole)))


def safe_text(text: str) -> str:
    """Apply `safe_json` to a single text, such as a name."""
    return cast(str, safe_json(text))


def safe_name(text: object) -> str:
    """Return a non-empty name on one line of bounded length; long names with the same start stay distinct."""
    return prose.name(str(text))


def eval_id(run_id: str, name: str, trial: int) -> str:
    """Return an eval's id, for files whose own ids are unique only within the file."""
    part = path_part(name)
    if part != name or len(part) > MAX_NAME_IN_ID:
        part = f"{part[:MAX_NAME_IN_ID]}-{content_id(name).removeprefix('sha256:')[:8]}"
    return f"{run_id}-{part}-{trial}"


def score_number(value: object) -> float | None:
    """Return a score as a number, None if it is not one. True is 1."""
    return float(value) if isinstance(value, int | float) else None


def figure(value: object) -> float | None:
    """Return a number that is not negative, such as seconds, tokens or USD; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < math.inf else None


def count(value: object) -> int | None:
    """Return a figure as a whole number; JSON of some sources writes `5.0`."""
    number = figure(value)
    return None if number is None else int(number)


def iso_time(value: object) -> str | None:
    """Return a time in ISO 8601, unchanged; None for anything else."""
    moment = _moment(value)
    return str(value).strip() if moment else None


def seconds_between(start: object, end: object) -> float | None:
    """Return the seconds between two times in ISO 8601; None if one is missing, or only one has a time zone."""
    begun, ended = _moment(start), _moment(end)
    if begun is None or ended is None or (begun.tzinfo is None) != (ended.tzinfo is None):
        return None
    return figure((ended - begun).total_seconds())


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str) or len(value) > LONGEST_TIME:
        return None
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        return None


def build_transcript(
    id: str, messages: Iterable[object], left_out: Omissions, place: str, name: str | None = None
) -> Transcript:
    """Build a transcript from cleaned messages; invalid messages are omitted and counted."""
    read = [message for one in messages if (message := _message(one, left_out, place)) is not None]
    return Transcript.model_construct(id=id, name=name, messages=tuple(read), metadata={})


def _message(value: object, left_out: Omissions, place: str) -> ChatMessage | None:
    try:
        return _MESSAGE.validate_python(value)
    except (ValidationError, RecursionError):
        known = value.get("role") if isinstance(value, Mapping) else None
        left_out.add(f"a message that cannot be read (role {known!r})"[:100], place)
        return None

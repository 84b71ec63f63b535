"""What the events of an Inspect sample say that its messages do not."""

import json
from collections.abc import Iterator, Mapping, Sequence

from evalscribe.sources.imports.left_out import LeftOut

_TELLING = ("error", "info", "logger", "sample_limit", "approval", "input", "interrupt", "score_edit", "compaction")
"""Kinds of events that are told whole; of all others only an error."""
_UNTOLD = (
    "timestamp",
    "completed",
    "working_start",
    "working_time",
    "uuid",
    "span_id",
    "parent_id",
    "event",
    "pending",
)
_TRACES = ("traceback", "traceback_ansi")


def told(events: Sequence[object], left_out: LeftOut) -> str:
    """A line for each event that says something; the others are counted."""
    return "\n".join(line for event in events for line in _lines(event, left_out))


def _lines(event: object, left_out: LeftOut) -> Iterator[str]:
    if not isinstance(event, dict):
        left_out.add("an event that is no object")
        return
    kind = str(event.get("event"))
    if kind in _TELLING:
        if isinstance(error := event.get("error"), dict) and error.keys() & set(_TRACES):
            left_out.add("the traceback of an event, which the sample's error repeats")
            event = {**event, "error": _short(error)}
        yield f"{kind}: {_json({key: value for key, value in event.items() if key not in _UNTOLD})}"
        return
    if error := event.get("error"):
        yield f"{kind}: {_json({'error': _short(error)})}"
    left_out.add(f"an event `{kind[:40]}` (of the harness, or said by messages)")


def _short(error: object) -> object:
    if not isinstance(error, Mapping):
        return error
    return {key: value for key, value in error.items() if key not in _TRACES}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

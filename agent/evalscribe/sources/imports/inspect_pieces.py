"""Samples of an Inspect log that are stored in pieces, as large ones may be: put together again."""

import re
from collections.abc import Callable, Sequence

from evalscribe.errors import DataError
from evalscribe.sources.imports.inspect_agents import placed
from evalscribe.sources.imports.json_text import decode
from evalscribe.sources.imports.zip_members import LARGEST

_PIECE = re.compile(
    r"(?P<sample>.*_epoch_\d+)/"
    r"(?:(?P<head>sample)|metadata|skeleton|(?P<part>messages|events|calls|attachments)/(?P<first>\d+|stats|uuids))\.json",
    re.DOTALL,
)
_PARTS = ("messages", "events", "attachments")


class Pieces:
    """The members of a log that are pieces of samples, by the name of each sample's first one."""

    def __init__(self, names: Sequence[str]) -> None:
        found = {name: piece for name in names if (piece := _PIECE.fullmatch(name))}
        self._heads = {piece["sample"]: name for name, piece in found.items() if piece["head"]}
        self._others = {name for name, piece in found.items() if piece["sample"] in self._heads and not piece["head"]}
        self._parts: dict[str, list[tuple[int, str]]] = {}
        for name in self._others:
            piece = found[name]
            if piece["part"] in _PARTS and piece["first"].isdecimal():
                self._parts.setdefault(f"{piece['sample']}/{piece['part']}", []).append((int(piece["first"]), name))

    def sample(self, name: str) -> str | None:
        """What a sample of whose pieces this is the first is called; None for what is whole."""
        piece = _PIECE.fullmatch(name)
        return piece["sample"] if piece and piece["head"] else None

    def is_other(self, name: str) -> bool:
        """Whether it is a piece, and not the first."""
        return name in self._others

    def whole(self, sample: str, read: Callable[[str], bytes]) -> object:
        """The sample as other logs have it. Raises `DataError`."""
        head = decode(_text(read(self._heads[sample])))
        if not isinstance(head, dict):
            return head
        parts = {part: self._list(f"{sample}/{part}", read) for part in _PARTS}
        described = f"{sample}/metadata.json"
        return {
            **{key: value for key, value in head.items() if key != "message_refs"},
            "metadata": decode(_text(read(described))) if described in self._others else {},
            "messages": placed(head.get("message_refs"), parts["messages"]),
            "events": parts["events"],
            "events_data": {"messages": parts["messages"]},
            "attachments": {str(number): text for number, text in enumerate(parts["attachments"])},
        }

    def _list(self, part: str, read: Callable[[str], bytes]) -> list[object]:
        """Items of all pieces in their order, which their names tell by the number of their first one."""
        size, items = 0, []
        for _, name in sorted(self._parts.get(part, [])):
            content = read(name)
            size += len(content)
            if size > LARGEST:
                raise DataError(f"a sample whose pieces are larger than {LARGEST // 1024 // 1024} MiB")
            found = decode(_text(content))
            items += found if isinstance(found, list) else []
        return items


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")

"""YAML as people write it by hand: read strictly, with the line of every value, and written to be read."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from evalscribe.errors import RubricError
from evalscribe.output_schema.path import joined, shown

MOST_VALUES = 50_000
"""Values of a document; what aliases repeat counts each time."""
DEEPEST = 200
WIDTH = 110
_ODD_BREAKS = re.compile("[\r\x85\u2028\u2029]")


@dataclass(frozen=True)
class Document:
    """What a text holds, and where."""

    value: Any
    where: str
    lines: Mapping[str, int]
    """Line, from 1, by path."""

    def place(self, path: str) -> str:
        """`file:line` of the value at a path, or of the nearest that holds it."""
        above = [known for known in self.lines if known and path.startswith(known)]
        return f"{self.where}:{self.lines[max(above, key=len)]}" if above else self.where


def parsed(text: str, where: str) -> Document:
    """Raises `RubricError` for what is no YAML, for names given twice, merge keys, and aliases without end."""
    loader = _loader(text, where)
    try:
        node = loader.get_single_node()
        lines = dict(_lines(node, where)) if node else {}
        return Document(loader.construct_document(node) if node else None, where, lines)
    except yaml.YAMLError as error:
        raise _told(error, where) from error
    except RecursionError as error:
        raise RubricError("", "is nested too deeply", where) from error
    except ValueError as error:  # a date that no calendar has, a number of too many digits
        raise RubricError("", f"holds a value that cannot be read: {error}", where) from error
    finally:
        loader.dispose()


def dumped(value: object) -> str:
    """Texts of several lines as blocks, names in their own order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text


def _loader(text: str, where: str) -> yaml.SafeLoader:
    try:
        return yaml.SafeLoader(text)
    except yaml.YAMLError as error:  # characters that YAML does not know
        raise _told(error, where) from error


def _told(error: yaml.YAMLError, where: str) -> RubricError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return RubricError("", f"is no YAML: {problem}", f"{where}:{mark.line + 1}" if mark else where)


def _lines(root: yaml.Node, where: str) -> Iterator[tuple[str, int]]:
    """The line of every value, by its path, bounded although aliases may repeat each other."""
    waiting: list[tuple[str, yaml.Node, int]] = [("", root, 0)]
    count = 0
    while waiting:
        path, node, depth = waiting.pop()
        line = node.start_mark.line + 1
        count += 1
        if count > MOST_VALUES or depth > DEEPEST:
            raise RubricError("", "holds too many values, or too deep ones", f"{where}:{line}")
        yield path, line
        waiting.extend((joined(path, part), inner, depth + 1) for part, inner in _parts(node, path, where))


def _parts(node: yaml.Node, path: str, where: str) -> Iterator[tuple[object, yaml.Node]]:
    if isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        name = str(key.value)
        place = f"{where}:{key.start_mark.line + 1}"
        if key.tag == "tag:yaml.org,2002:merge":
            raise RubricError(path, "merging by << is not supported; write the values out", place)
        if name in seen:
            raise RubricError(path, f"has {shown(name)} twice", place)
        seen.add(name)
        yield name, value


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        """Equal parts are written out, each in its place."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if _ODD_BREAKS.search(text):  # the library would read them back as ordinary line ends
        style = '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


def _list(dumper: yaml.SafeDumper, members: list[object]) -> yaml.SequenceNode:
    """Short plain members stand in one line, as people write an enum."""
    plain = all(isinstance(member, str | int) and len(str(member)) < 30 for member in members)
    node: yaml.SequenceNode = dumper.represent_sequence("tag:yaml.org,2002:seq", members, flow_style=plain)
    return node


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)

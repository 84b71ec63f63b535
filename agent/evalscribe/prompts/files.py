"""Read and write YAML, and read small text files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evalscribe.errors import DataError, NotFoundError, RubricError
from evalscribe.json_data import join_path, preview

MAX_YAML_VALUES = 50_000
"""Maximum number of values in a YAML document. A value is counted again each time that an alias repeats it."""
MAX_YAML_DEPTH = 200
WIDTH = 110
_ODD_BREAKS = re.compile("[\r\x85\u2028\u2029]")


@dataclass(frozen=True)
class YamlDocument:
    """A parsed YAML document, with the line numbers of its values."""

    value: Any
    where: str
    lines: Mapping[str, int]
    """Line number of the value at each path, from 1."""

    def place(self, path: str) -> str:
        """Return the place of a value as `file:line`. If its line is unknown, use the line of the nearest parent."""
        above = [parent for parent in self.lines if parent and path.startswith(parent)]
        return f"{self.where}:{self.lines[max(above, key=len)]}" if above else self.where


def parse_yaml(text: str, where: str) -> YamlDocument:
    """Parse YAML.

    Raises `RubricError` for invalid YAML, duplicate keys, merge keys, and too many or too deeply nested values.
    """
    loader = _loader(text, where)
    try:
        node = loader.get_single_node()
        # This refuses a document in which aliases of aliases stand for billions of values, before anything walks
        # through them.
        lines = dict(_lines(node, where)) if node else {}
        return YamlDocument(loader.construct_document(node) if node else None, where, lines)
    except yaml.YAMLError as error:
        raise _yaml_error(error, where) from error
    except RecursionError as error:
        raise RubricError("", "is nested too deeply", where) from error
    except ValueError as error:  # for an impossible date, or a number with too many digits
        raise RubricError("", f"contains a value that cannot be read: {error}", where) from error
    finally:
        loader.dispose()


def dump_yaml(value: object) -> str:
    """Return a value as YAML. Strings with several lines become blocks, and keys keep their order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text


def _loader(text: str, where: str) -> yaml.SafeLoader:
    try:
        return yaml.SafeLoader(text)
    except yaml.YAMLError as error:  # the text contains characters that YAML does not allow
        raise _yaml_error(error, where) from error


def _yaml_error(error: yaml.YAMLError, where: str) -> RubricError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return RubricError("", f"is not valid YAML: {problem}", f"{where}:{mark.line + 1}" if mark else where)


def _lines(root: yaml.Node, where: str) -> Iterator[tuple[str, int]]:
    """Yield the path and line of every value. The number of values is limited, because aliases can multiply values."""
    waiting: list[tuple[str, yaml.Node, int]] = [("", root, 0)]
    count = 0
    while waiting:
        path, node, depth = waiting.pop()
        line = node.start_mark.line + 1
        count += 1
        if count > MAX_YAML_VALUES or depth > MAX_YAML_DEPTH:
            raise RubricError("", "has too many values, or is nested too deeply", f"{where}:{line}")
        yield path, line
        waiting.extend((join_path(path, part), inner, depth + 1) for part, inner in _parts(node, path, where))


def _parts(node: yaml.Node, path: str, where: str) -> Iterator[tuple[object, yaml.Node]]:
    if isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)
    if not isinstance(node, yaml.MappingNode):
        return
    names: set[str] = set()
    for key, value in node.value:
        name = str(key.value)
        place = f"{where}:{key.start_mark.line + 1}"
        if key.tag == "tag:yaml.org,2002:merge":
            raise RubricError(path, "merging by << is not supported; write the values out", place)
        # PyYAML would silently keep the last of two equal keys.
        if name in names:
            raise RubricError(path, f"has {preview(name)} twice", place)
        names.add(name)
        yield name, value


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that a repeated value is written out each time."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if _ODD_BREAKS.search(text):  # PyYAML would read these characters back as ordinary line ends
        style = '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


def _list(dumper: yaml.SafeDumper, members: list[object]) -> yaml.SequenceNode:
    """Write a list of short plain values on one line, as people usually write an enum."""
    plain = all(isinstance(member, str | int) and len(str(member)) < 30 for member in members)
    node: yaml.SequenceNode = dumper.represent_sequence("tag:yaml.org,2002:seq", members, flow_style=plain)
    return node


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


MAX_TEXT_BYTES = 256 * 1024
"""Maximum size of a text file, in bytes."""


def read_text(path: Path) -> str:
    """Read a small text file.

    Raises `NotFoundError` if the file does not exist, and `DataError` if it is too large, unreadable or not UTF-8.
    """
    try:
        if not path.is_file():
            raise NotFoundError(f"file {path} not found")
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise DataError(f"{path} is larger than {MAX_TEXT_BYTES // 1024} KiB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None

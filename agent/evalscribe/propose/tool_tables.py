"""Files that hold the settings of many tools: only those of linters, type checkers and formatters are ours to change.

The other tables of a project say what is installed and which commands are run.
"""

import configparser
import re
import tomllib
from collections.abc import Mapping

_TOOLS = re.compile(
    r"ruff|mypy|(?:based)?pyright|pylint|flake8|pycodestyle|pep8|autopep8|pydocstyle|isort|black|yapf|bandit|codespell"
    r"|docformatter|pydoclint|refurb|ty|pyrefly|pytest|vulture",
    re.IGNORECASE,
)
_SECTION = re.compile(rf"(?:tool:)?(?:{_TOOLS.pattern})(?:[-.:].*)?", re.IGNORECASE)
Tables = Mapping[str, object]


def beyond_tools(path: str, before: str, after: str) -> bool:
    """Whether more changes than the tables of such tools, or the file cannot be read before or after."""
    name = path.rpartition("/")[2].casefold()
    read = _toml if name == "pyproject.toml" else _ini if name in ("setup.cfg", "tox.ini") else None
    if read is None:
        return False
    try:
        return read(before) != read(after)
    except (tomllib.TOMLDecodeError, configparser.Error, RecursionError):
        return True


def _toml(text: str) -> Tables:
    tables = tomllib.loads(text)
    tools = tables.pop("tool", {})
    rest = {name: of for name, of in tools.items() if not _TOOLS.fullmatch(name)} if isinstance(tools, dict) else tools
    return {**tables, "tool": rest or {}}


def _ini(text: str) -> Tables:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    sections = {name: dict(parser.items(name)) for name in parser.sections() if not _SECTION.fullmatch(name)}
    return {**sections, parser.default_section: dict(parser.defaults())}

"""Errors of compilers, type checkers and linters, recognised by the look of their lines."""

import re
from collections.abc import Iterator, Sequence

from evalscribe.model.evidence import Severity
from evalscribe.signature.found import Found, place_in
from evalscribe.signature.log import Line

CHAIN_LINES = 16
"""How many indented lines may explain one error."""
LONG = 240
"""An error line longer than this is a type written out: its deepest explanation says more."""
SHORT = 170
"""Characters of a message that has a rule or code behind it."""
_PATH = r"(?P<path>[^\s:(][^:(]{0,400}?)"
_FORMATS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "tsc",
        re.compile(
            rf"{_PATH}(?:\((?P<line>\d+),\d+\):|:(?P<line2>\d+):\d+ -) (?P<severity>error|warning) "
            r"(?P<code>TS\d+): (?P<message>.*)"
        ),
    ),
    (
        "mypy",
        re.compile(
            r"(?P<path>[^\s:]{1,400}\.pyi?):(?P<line>\d+)(?::\d+)*: (?P<severity>error|warning): "
            r"(?P<message>.*?)(?:  \[(?P<code>[\w-]+)\])?"
        ),
    ),
    (
        "ruff",
        re.compile(
            rf"{_PATH}:(?P<line>\d+):\d+: (?P<code>[A-Z]{{1,4}}\d{{2,4}}|SyntaxError|invalid-syntax):? "
            r"(?:\[\*\] )?(?P<message>.*)"
        ),
    ),
    (
        "compiler",
        re.compile(
            rf"{_PATH}:(?P<line>\d+)(?::\d+)?: (?:fatal )?(?P<severity>error|warning)"
            r"(?:\[(?P<code>\w+)\])?: (?P<message>.*)"
        ),
    ),
)
_HEADED = re.compile(
    r"(?:(?P<severity>error|warning)(?:\[(?P<rust>E\d+)\])?: (?P<message>.*)"
    r"|(?P<code>[A-Z]{1,4}\d{2,4}|invalid-syntax):? (?:\[\*\] )?(?P<text>.*)"
    r"|[✘▲X] \[(?P<esbuild>ERROR|WARNING)\] (?P<bundler>.*))"
)
_ARROW = re.compile(r"\s*-->\s*(?P<path>[^\s:]{1,400}):(?P<line>\d+)")
_ESLINT_FILE = re.compile(r"(?:[A-Za-z]:)?[^\s:*?\"<>|]{1,1000}\.\w{1,8}")
_ESLINT = re.compile(r"\s+(?P<line>\d+):\d+\s+(?P<severity>error|warning)\s+(?P<rest>\S.*)")
_RULE = re.compile(r"(?:@[\w-]+/)?[\w-]+(?:/[\w-]+)*")
_FRAME = re.compile(r"\s*(?:\d+\s|[|~^]|$)")


def diagnostics(lines: Sequence[Line]) -> Iterator[Found]:
    """Every diagnostic of the lines, in their order."""
    eslint_file = ""
    for at, line in enumerate(lines):
        if not line.text.strip():
            continue
        if _ESLINT_FILE.fullmatch(line.text.strip()) and not line.text[0].isspace():
            eslint_file = line.text.strip()
        elif found := _eslint(line, eslint_file) or _one_line(lines, at) or _headed(lines, at):
            yield found


def _eslint(line: Line, path: str) -> Found | None:
    match = _ESLINT.fullmatch(line.text) if path and line.text[0].isspace() else None
    if not match:
        return None
    message, _, rule = match["rest"].rpartition("  ")
    if not message or not _RULE.fullmatch(rule):
        message, rule = match["rest"], ""
    code = rule.rpartition("/")[2] if rule.startswith("@") else rule
    error = _with_code(message.strip(), code)
    places = ((path, int(match["line"])),)
    return Found("eslint", error, line.number, line.number, code or None, _severity(match["severity"]), places)


def _one_line(lines: Sequence[Line], at: int) -> Found | None:
    text = lines[at].text
    if ":" not in text:
        return None
    for tool, pattern in _FORMATS:
        if match := pattern.fullmatch(text):
            group = match.groupdict()
            message, last = _chain(lines, at, group["message"]) if tool == "tsc" else (group["message"], at)
            code = group["code"]
            error = f"{code}: {message}" if tool == "tsc" else _with_code(message, code)
            places = ((group["path"], int(group["line"] or group["line2"])),)
            numbers = _cited(lines, at, last)
            return Found(tool, error, *numbers, code, _severity(group.get("severity")), places)
    return None


def _chain(lines: Sequence[Line], at: int, message: str) -> tuple[str, int]:
    """The message, or the deepest explanation of one that writes out whole types; and its last line."""
    last = at
    while last + 1 < len(lines) and last - at < CHAIN_LINES and _explains(lines[last + 1].text):
        last += 1
    if len(message) <= LONG or last == at:
        return message, last
    deepest = [line.text.strip() for line in lines[max(at + 1, last - 1) : last + 1]]
    short = [text for text in deepest if len(text) <= LONG] or deepest[-1:]
    return " ".join(short), last


def _explains(text: str) -> bool:
    return text.startswith("  ") and not _FRAME.match(text)


def _cited(lines: Sequence[Line], at: int, last: int) -> tuple[int, int]:
    """The lines to quote: all of a short explanation, only the deepest lines of a long one."""
    first, size = last, len(lines[last].text)
    while first > at and size + len(lines[first - 1].text) <= 3 * LONG:
        first -= 1
        size += len(lines[first].text)
    return lines[first].number, lines[last].number


def _headed(lines: Sequence[Line], at: int) -> Found | None:
    """An error whose place stands in the lines below it: rustc, ruff's full format, esbuild."""
    match = _HEADED.fullmatch(lines[at].text)
    if not match:
        return None
    below = lines[at + 1 : at + 4]
    if match["bundler"]:
        places = next((place for line in below if (place := place_in(line.text))), ())
        error, tool, code = match["bundler"], "bundler", None
    else:
        arrow = next((m for line in below if (m := _ARROW.match(line.text))), None)
        if arrow is None:
            return None
        places = ((arrow["path"], int(arrow["line"])),)
        code, message = match["code"] or match["rust"], match["text"] or match["message"] or ""
        error, tool = _with_code(message, code), "ruff" if match["code"] else "compiler"
    severity = _severity(match["severity"] or (match["esbuild"] or "error").lower())
    return Found(tool, error, lines[at].number, lines[at].number, code, severity, places)


def _with_code(message: str, code: str | None) -> str:
    """The message, cut so that its rule still fits into one line, and the rule."""
    message = message if len(message) <= SHORT else message[:SHORT].rstrip() + "…"
    return f"{message} ({code})" if code else message


def _severity(word: str | None) -> Severity:
    return "warning" if word == "warning" else "error"

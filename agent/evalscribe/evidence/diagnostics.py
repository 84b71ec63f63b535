"""Parse errors of compilers, linters, installers and tracebacks by their format."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from evalscribe.evidence.errors import PATH_LINE, ParsedError, is_refused_push, is_stock, place_in, strip_prefixes
from evalscribe.evidence.log import LogLine
from evalscribe.model.evidence import Severity

CHAIN_LINES = 16
"""Maximum indented lines that explain one error."""
LONG = 240
"""Maximum length of an error line; longer ones write out a type, and their deepest explanation is more useful."""
SHORT = 170
"""Maximum characters of a message that is followed by a rule or code."""
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


def diagnostics(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Yield every diagnostic in the lines, in order."""
    eslint_file = ""
    for at, line in enumerate(lines):
        if not line.text.strip():
            continue
        if _ESLINT_FILE.fullmatch(line.text.strip()) and not line.text[0].isspace():
            eslint_file = line.text.strip()
        elif found := _eslint(line, eslint_file) or _one_line(lines, at) or _headed(lines, at):
            yield found


def _eslint(line: LogLine, path: str) -> ParsedError | None:
    match = _ESLINT.fullmatch(line.text) if path and line.text[0].isspace() else None
    if not match:
        return None
    message, _, rule = match["rest"].rpartition("  ")
    if not message or not _RULE.fullmatch(rule):
        message, rule = match["rest"], ""
    code = rule.rpartition("/")[2] if rule.startswith("@") else rule
    error = _with_code(message.strip(), code)
    places = ((path, int(match["line"])),)
    return ParsedError("eslint", error, line.number, line.number, code or None, _severity(match["severity"]), places)


def _one_line(lines: Sequence[LogLine], at: int) -> ParsedError | None:
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
            return ParsedError(tool, error, *numbers, code, _severity(group.get("severity")), places)
    return None


def _chain(lines: Sequence[LogLine], at: int, message: str) -> tuple[str, int]:
    """Return the message, or its deepest explanation if it writes out whole types, and its last line."""
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


def _cited(lines: Sequence[LogLine], at: int, last: int) -> tuple[int, int]:
    """Return the lines to quote: all of a short explanation, only the deepest lines of a long one."""
    first, size = last, len(lines[last].text)
    while first > at and size + len(lines[first - 1].text) <= 3 * LONG:
        first -= 1
        size += len(lines[first].text)
    return lines[first].number, lines[last].number


def _headed(lines: Sequence[LogLine], at: int) -> ParsedError | None:
    """Parse an error whose place is on the lines below it: rustc, ruff's full format, esbuild."""
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
    return ParsedError(tool, error, lines[at].number, lines[at].number, code, severity, places)


def _with_code(message: str, code: str | None) -> str:
    """Return the message with its rule, cut so that both fit on one line."""
    message = message if len(message) <= SHORT else message[:SHORT].rstrip() + "…"
    return f"{message} ({code})" if code else message


def _severity(word: str | None) -> Severity:
    return "warning" if word == "warning" else "error"


_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'\s*File "(?P<path>[^"]{1,400})", line (?P<line>\d+)')
_RAISED_LINE = re.compile(r"E {3,}(?P<text>\S.*)")
_PLACE_LINE = re.compile(r"\S+\.py:\d+: ")
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Timeout|NotFound)\b.*")
_INSTALLER: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("npm", re.compile(r"npm (?:ERR!|error) (?P<message>\S.*)")),
    ("pip", re.compile(r"ERROR: (?P<message>\S.*)")),
    ("pip", re.compile(r"WARNING: (?P<message>Retrying .*)")),
)
_BROKEN = re.compile(
    r"Retrying .{0,400} connection broken by '(?P<error>\w+)\([\"']?(?:\w+\([^)]*\): )?(?P<why>[^\"']*)"
)
"""A network error that an installer wraps in a retry message."""
_ERROR_LINE = re.compile(
    r"(?:.{0,80}?\b)?(?:[A-Za-z]\w*(?:Error|Exception)|error|uncaught|fatal(?: error)?|panic|✖|✘)"
    r"(?:\(\w+\))?[:!]?\s+\S.*",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[\w ()./-]{1,80}: (?=Error: )")
_AT = re.compile(r"\s*at (?:(?:async |new )?\S+ )?\(?\S+:\d+(?::\d+)?\)?$")
_PROGRESS = re.compile(r"\s*(?:[-$>+✔✓▌]\s|Saved \w|To ignore\b)|.*\.\.\.$")
_FILE = re.compile(r"(?:[A-Za-z]:)?[\w.@+~-]*(?:[\\/][\w.@+~-]+){1,60}\.\w{1,8}")
"""A line with only a file path, which introduces diagnostics of that file."""
_PASSED_OVER = re.compile(r"0 errors?\b|\bno (?:errors?|problems?)\b", re.IGNORECASE)


def raised_errors(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Parse one failed test of pytest without its header: the lines after `E`, as in its XML reports."""
    told = [(line, match) for line in lines if (match := _RAISED_LINE.match(line.text))]
    if told and any(_PLACE_LINE.match(line.text) for line in lines):
        told = told[_reason_at([match["text"] for _, match in told]) :]
        first, match = told[0]
        same = [line.number for n, (line, _) in enumerate(told) if line.number == first.number + n]
        yield ParsedError("pytest", match["text"], first.number, same[-1])


def _reason_at(texts: Sequence[str]) -> int:
    """Return the index of the reason; in a syntax error, the place and the code come first."""
    if not _PYTHON_FRAME.match(texts[0]):
        return 0
    return next((n for n, text in enumerate(texts) if _RAISED.fullmatch(text)), 0)


def tracebacks(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Yield the final error of every Python traceback, with its frames."""
    at = 0
    while at < len(lines):
        if lines[at].text.strip() != _TRACEBACK:
            at += 1
            continue
        end, frames = at + 1, []
        while end < len(lines) and (not lines[end].text.strip() or lines[end].text[:1].isspace()):
            if frame := _PYTHON_FRAME.match(lines[end].text):
                frames.append((frame["path"], int(frame["line"])))
            end += 1
        if end < len(lines) and not is_stock(lines[end].text):
            number = lines[end].number
            yield ParsedError("python", lines[end].text.strip(), number, number, places=tuple(reversed(frames[-20:])))
        at = end


def installers(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Yield errors of package installers."""
    for line in lines:
        for tool, pattern in _INSTALLER:
            match = pattern.fullmatch(line.text)
            if match and not is_stock(match["message"]):
                yield ParsedError(tool, _network_error(match["message"]), line.number, line.number)
                break


def _network_error(message: str) -> str:
    match = _BROKEN.match(message[:2000])
    return f"{match['error']}: {match['why'].strip()}" if match else message


def refused_pushes(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Find why a deployment refused a push: the last sentence below the line that reports the refusal.

    The sentence may span several lines, and a stack trace of the pushed code may follow it.
    """
    for at, line in enumerate(lines):
        if not line.text.rstrip().endswith(":") or not is_refused_push(line.text):
            continue
        below = list(takewhile(lambda one: one.text.strip() and not one.mark, lines[at + 1 : at + 41]))
        said = [n for n, one in enumerate(below, at + 1) if not _AT.match(one.text[:1000]) and not is_stock(one.text)]
        if said:
            number = lines[said[-1]].number
            yield ParsedError("", strip_prefixes(lines[said[-1]].text), number, number, places=_stack(lines, said[-1]))


def error_lines(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Yield lines that name an error and say which one."""
    for at, line in enumerate(lines):
        text = line.text[:4000]
        if not text.strip() or _PASSED_OVER.search(text) or is_stock(text):
            continue
        if _RAISED.fullmatch(strip_prefixes(text)) or _ERROR_LINE.match(text):
            yield ParsedError(
                "", strip_prefixes(_unlabelled(line, text)), line.number, line.number, places=_stack(lines, at)
            )


def _unlabelled(line: LogLine, text: str) -> str:
    """Remove the step's name from an error in a runner's heading, such as `deploy: Error: codegen timed out`."""
    return _LABEL.sub("", text, count=1) if line.mark == "error" else text


def first_saying(lines: Sequence[LogLine]) -> ParsedError | None:
    """Return the first line that is more than a stock message; for a recorded reason, where every line counts."""
    line = next((line for line in lines if line.text.strip() and not is_stock(line.text)), None)
    return ParsedError("", strip_prefixes(line.text), line.number, line.number) if line else None


def below_heading(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Yield the first informative line below a heading such as `[error] … Failed to deploy:`, in any format."""
    at = next((at for at, line in enumerate(lines) if line.mark == "error"), len(lines))
    below = (line for line in lines[at + 1 :] if not line.mark)
    telling = (line for line in below if not _PROGRESS.match(line.text) and not _FILE.fullmatch(line.text.strip()))
    if found := first_saying(list(telling)):
        yield found


def _stack(lines: Sequence[LogLine], at: int) -> tuple[tuple[str, int], ...]:
    """Return the places of a JavaScript stack trace directly below a line."""
    places = []
    for line in lines[at + 1 : at + 12]:
        if not _AT.match(line.text[:1000]):
            break
        places += [(match["path"], int(match["line"])) for match in PATH_LINE.finditer(line.text[:1000])]
    return tuple(places)

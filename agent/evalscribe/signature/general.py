"""Errors that no tool's format gives away: tracebacks, installers, and lines that name an error."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from evalscribe.signature.found import PATH_LINE, Found
from evalscribe.signature.log import Line
from evalscribe.signature.wording import is_refused_push, is_stock, stripped

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "(?P<path>[^"]{1,400})", line (?P<line>\d+)')
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
"""Installers wrap the network's error into a retry message."""
_ERROR_LINE = re.compile(
    r"(?:.{0,80}?\b)?(?:[A-Za-z]\w*(?:Error|Exception)|error|uncaught|fatal(?: error)?|panic|✖|✘)"
    r"(?:\(\w+\))?[:!]?\s+\S.*",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[\w ()./-]{1,80}: (?=Error: )")
_AT = re.compile(r"\s*at (?:(?:async |new )?\S+ )?\(?\S+:\d+(?::\d+)?\)?$")
_PROGRESS = re.compile(r"\s*(?:[-$>+✔✓▌]\s|Saved \w|To ignore\b)|.*\.\.\.$")
_FILE = re.compile(r"(?:[A-Za-z]:)?[\w.@+~-]*(?:[\\/][\w.@+~-]+){1,60}\.\w{1,8}")
"""A line that holds nothing but a file's path heads what is said about the file."""
_PASSED_OVER = re.compile(r"0 errors?\b|\bno (?:errors?|problems?)\b", re.IGNORECASE)


def raised(lines: Sequence[Line]) -> Iterator[Found]:
    """What pytest says of one failed test without its header: the lines behind `E`, as its XML reports have them."""
    told = [(line, match) for line in lines if (match := _RAISED_LINE.match(line.text))]
    if told and any(_PLACE_LINE.match(line.text) for line in lines):
        told = told[_reason_at([match["text"] for _, match in told]) :]
        first, match = told[0]
        same = [line.number for n, (line, _) in enumerate(told) if line.number == first.number + n]
        yield Found("pytest", match["text"], first.number, same[-1])


def _reason_at(texts: Sequence[str]) -> int:
    """Of code that is no Python the place and the code itself come first."""
    if not _FRAME.match(texts[0]):
        return 0
    return next((n for n, text in enumerate(texts) if _RAISED.fullmatch(text)), 0)


def tracebacks(lines: Sequence[Line]) -> Iterator[Found]:
    """The error at the end of every Python traceback, with the frames it passed."""
    at = 0
    while at < len(lines):
        if lines[at].text.strip() != _TRACEBACK:
            at += 1
            continue
        end, frames = at + 1, []
        while end < len(lines) and (not lines[end].text.strip() or lines[end].text[:1].isspace()):
            if frame := _FRAME.match(lines[end].text):
                frames.append((frame["path"], int(frame["line"])))
            end += 1
        if end < len(lines) and not is_stock(lines[end].text):
            number = lines[end].number
            yield Found("python", lines[end].text.strip(), number, number, places=tuple(reversed(frames[-20:])))
        at = end


def installers(lines: Sequence[Line]) -> Iterator[Found]:
    """What package installers complain about."""
    for line in lines:
        for tool, pattern in _INSTALLER:
            match = pattern.fullmatch(line.text)
            if match and not is_stock(match["message"]):
                yield Found(tool, _network_error(match["message"]), line.number, line.number)
                break


def _network_error(message: str) -> str:
    match = _BROKEN.match(message[:2000])
    return f"{match['error']}: {match['why'].strip()}" if match else message


def refused_pushes(lines: Sequence[Line]) -> Iterator[Found]:
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
            yield Found("", stripped(lines[said[-1]].text), number, number, places=_stack(lines, said[-1]))


def error_lines(lines: Sequence[Line]) -> Iterator[Found]:
    """Lines that name an error, but only those that say which."""
    for at, line in enumerate(lines):
        text = line.text[:4000]
        if not text.strip() or _PASSED_OVER.search(text) or is_stock(text):
            continue
        if _RAISED.fullmatch(stripped(text)) or _ERROR_LINE.match(text):
            yield Found("", stripped(_unlabelled(line, text)), line.number, line.number, places=_stack(lines, at))


def _unlabelled(line: Line, text: str) -> str:
    """Remove the step's name from an error in a runner's heading, such as `deploy: Error: codegen timed out`."""
    return _LABEL.sub("", text, count=1) if line.mark == "error" else text


def first_saying(lines: Sequence[Line]) -> Found | None:
    """The first line that is more than a stock message: for a recorded reason, where every line counts."""
    line = next((line for line in lines if line.text.strip() and not is_stock(line.text)), None)
    return Found("", stripped(line.text), line.number, line.number) if line else None


def below_heading(lines: Sequence[Line]) -> Iterator[Found]:
    """The first telling line below a heading such as `[error] … Failed to deploy:`, whatever it looks like."""
    at = next((at for at, line in enumerate(lines) if line.mark == "error"), len(lines))
    below = (line for line in lines[at + 1 :] if not line.mark)
    telling = (line for line in below if not _PROGRESS.match(line.text) and not _FILE.fullmatch(line.text.strip()))
    if found := first_saying(list(telling)):
        yield found


def _stack(lines: Sequence[Line], at: int) -> tuple[tuple[str, int], ...]:
    """The places of a JavaScript stack right below a line."""
    places = []
    for line in lines[at + 1 : at + 12]:
        if not _AT.match(line.text[:1000]):
            break
        places += [(match["path"], int(match["line"])) for match in PATH_LINE.finditer(line.text[:1000])]
    return tuple(places)

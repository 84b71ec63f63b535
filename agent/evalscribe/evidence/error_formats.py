"""Parse errors in the formats of compilers, linters, installers, Python tracebacks and test runners."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from evalscribe.evidence.log import (
    PATH_LINE,
    LogLine,
    ParsedError,
    is_announcement,
    is_refused_push,
    is_stock,
    place_in,
    strip_prefixes,
)
from evalscribe.model.evidence import Severity

CHAIN_LINES = 16
"""Maximum number of indented lines below an error that are read as its explanation."""
HEADING_LINES = 8
"""Maximum number of lines below a heading such as `Hit an error while pushing:` that are searched for the reason."""
LONG = 240
"""Maximum number of characters in a compiler's error message.

Longer messages usually spell out a type, so their innermost explanation is shown instead.
"""
SHORT = 170
"""Maximum number of characters in a message before its rule or error code is appended."""
# The length of a path is limited, because code under test can print long lines that would otherwise take very long to
# match.
_PATH = r"(?P<path>[^\s:(][^:(]{0,400}?)"
_FORMATS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "tsc",
        re.compile(
            # Plain tsc prints `file(7,3): error`. With `--pretty`, which the Convex CLI passes, it prints
            # `file:7:3 - error`.
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
        # This general form also matches lines of mypy, so it is tried last.
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
    """Yield the compiler and linter errors and warnings in the lines, in order of occurrence."""
    eslint_file, latest = "", -1
    errors: list[ParsedError] = []
    for at, line in enumerate(lines):
        if not line.text.strip():
            continue
        if _ESLINT_FILE.fullmatch(line.text.strip()) and not line.text[0].isspace():
            eslint_file = line.text.strip()
        elif by_eslint := _eslint(line, eslint_file):
            latest = len(errors)
            errors.append(by_eslint)
        elif latest >= 0 and (rule := _ends_in_rule(line.text)):
            errors[latest] = _with_rule(errors[latest], rule)
        elif other := _single_line_error(lines, at) or _error_below_heading(lines, at):
            errors.append(other)
    return iter(errors)


def _ends_in_rule(text: str) -> str:
    """Return the ESLint rule at the end of a line that continues a message; empty if the line does not end in a rule.

    ESLint messages quote types and print the line breaks of template literal types. The first line of a message with
    such a type can look as if it ended in a different rule.
    """
    _, _, rule = text.rpartition("  ")
    # A single word at the end of a line can be ordinary text. A name with a hyphen or a slash is a rule.
    return rule if re.search(r"\w[-/]\w", rule) and _RULE.fullmatch(rule) else ""


def _with_rule(error: ParsedError, rule: str) -> ParsedError:
    code = rule.rpartition("/")[2] if rule.startswith("@") else rule
    return error._replace(code=code, error=_with_code(error.error.removesuffix(f"({error.code})").strip(), code))


def _eslint(line: LogLine, path: str) -> ParsedError | None:
    match = _ESLINT.fullmatch(line.text) if path and line.text[0].isspace() else None
    if not match:
        return None
    message, _, rule = match["rest"].rpartition("  ")
    if not message or not _RULE.fullmatch(rule):
        # A parsing error has no rule, so the text after the last column is part of its message.
        message, rule = match["rest"], ""
    code = rule.rpartition("/")[2] if rule.startswith("@") else rule
    error = _with_code(message.strip(), code)
    places = ((path, int(match["line"])),)
    return ParsedError("eslint", error, line.number, line.number, code or None, _severity(match["severity"]), places)


def _single_line_error(lines: Sequence[LogLine], at: int) -> ParsedError | None:
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
            numbers = lines[at].number, lines[last].number
            return ParsedError(tool, error, *numbers, code, _severity(group.get("severity")), places)
    return None


def _chain(lines: Sequence[LogLine], at: int, message: str) -> tuple[str, int]:
    """Return a compiler's error message and the index of the last line of its explanation.

    A message of more than `LONG` characters is replaced by the innermost explanation.
    """
    last = at
    while last + 1 < len(lines) and last - at < CHAIN_LINES and _explains(lines[last + 1].text):
        last += 1
    if len(message) <= LONG or last == at:
        return message, last
    # TypeScript explains incompatible types from the outermost to the innermost. The last two lines name the property
    # and its types.
    deepest = [line.text.strip() for line in lines[max(at + 1, last - 1) : last + 1]]
    short = [text for text in deepest if len(text) <= LONG] or deepest[-1:]
    return " ".join(short), last


def _explains(text: str) -> bool:
    # The code frame below an error is indented too, but its lines begin with a number or a marker.
    return text.startswith("  ") and not _FRAME.match(text)


def _error_below_heading(lines: Sequence[LogLine], at: int) -> ParsedError | None:
    """Parse an error whose file and line are printed below its message, as rustc, esbuild and ruff's full format do."""
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
    """Cut a message to `SHORT` characters and append its rule or error code."""
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
"""Matches a network error that an installer wraps in a message about retries."""
_ERROR_LINE = re.compile(
    r"(?:.{0,80}?\b)?(?:[A-Za-z]\w*(?:Error|Exception)|error|uncaught|fatal(?: error)?|panic|✖|✘)"
    r"(?:\(\w+\))?[:!]?\s+\S.*",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[\w ()./-]{1,80}: (?=Error: )")
_AT = re.compile(r"\s*at (?:(?:async |new )?\S+ )?\(?\S+:\d+(?::\d+)?\)?$")
# The Convex CLI prints progress, such as `- Preparing Convex functions...`, between a heading and the reason.
_PROGRESS = re.compile(r"\s*(?:[-$>+✔✓▌]\s|Saved \w|To ignore\b)|.*\.\.\.$")
_FILE = re.compile(r"(?:[A-Za-z]:)?[\w.@+~-]*(?:[\\/][\w.@+~-]+){1,60}\.\w{1,8}")
"""Matches a line with only a file path. The diagnostics below it are about that file."""
_PASSED_OVER = re.compile(r"0 errors?\b|\bno (?:errors?|problems?)\b", re.IGNORECASE)


def raised_errors(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Parse the error of one failed pytest test from the lines that begin with `E`.

    This parser is used for text without pytest's header, such as pytest's XML reports.
    """
    matches = [(line, match) for line in lines if (match := _RAISED_LINE.match(line.text))]
    # Any program can print a line that begins with `E`. Only pytest also prints `file.py:12: ` without indentation.
    if matches and any(_PLACE_LINE.match(line.text) for line in lines):
        matches = matches[_reason_at([match["text"] for _, match in matches]) :]
        first, match = matches[0]
        adjacent_numbers = [line.number for n, (line, _) in enumerate(matches) if line.number == first.number + n]
        yield ParsedError("pytest", match["text"], first.number, adjacent_numbers[-1])


def _reason_at(texts: Sequence[str]) -> int:
    """Return the index of the line that states the reason.

    Above the reason for a syntax error, Python prints the file and the code.
    """
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
        # Frames and their code are indented. The first line that is not indented states the error.
        while end < len(lines) and (not lines[end].text.strip() or lines[end].text[:1].isspace()):
            if frame := _PYTHON_FRAME.match(lines[end].text):
                frames.append((frame["path"], int(frame["line"])))
            end += 1
        if end < len(lines) and not is_stock(lines[end].text):
            number = lines[end].number
            # The innermost frame comes last in a traceback, but it is the most useful place, so it is put first.
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
    """Yield the reason why a Convex deployment refused a push: the last message line below the report of the refusal.

    A stack trace of the pushed code can follow the reason.
    """
    for at, line in enumerate(lines):
        if not line.text.rstrip().endswith(":") or not is_refused_push(line.text):
            continue
        below = list(
            takewhile(lambda below_line: below_line.text.strip() and not below_line.mark, lines[at + 1 : at + 41])
        )
        message_indices = [
            n
            for n, below_line in enumerate(below, at + 1)
            if not _AT.match(below_line.text[:1000]) and not is_stock(below_line.text)
        ]
        if message_indices:
            reason = lines[message_indices[-1]]
            places = _stack(lines, message_indices[-1])
            yield ParsedError("", strip_prefixes(reason.text), line.number, reason.number, places=places)


def error_lines(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Yield an error for each line that contains both a word such as `Error` and a message.

    A line that ends in a colon, such as `Hit an error while pushing:`, is a heading. The reason below the heading
    becomes the error.
    """
    reason_at = -1
    for at, line in enumerate(lines):
        text = line.text[:4000]
        if at <= reason_at or not text.strip() or _PASSED_OVER.search(text):
            continue
        below = _reason_below(lines, at)
        if is_stock(text) and not (below > at and is_announcement(text)):
            continue
        if _RAISED.fullmatch(strip_prefixes(text)) or _ERROR_LINE.match(text) or is_announcement(text):
            reason_at = below
            error = strip_prefixes(_unlabelled(line, text))
            if below > at:
                reason = strip_prefixes(lines[below].text)
                error = reason if is_announcement(text) else f"{error} {reason}"
            yield ParsedError("", error, line.number, lines[below].number, places=_stack(lines, below))


def _reason_below(lines: Sequence[LogLine], at: int) -> int:
    """Return the index of the line that states the reason for an error.

    The reason is on the error's own line. If this line ends in a colon, the reason is on a line below.
    """
    if lines[at].mark or not lines[at].text.rstrip().endswith(":"):
        return at
    for below in range(at + 1, min(len(lines), at + 1 + HEADING_LINES)):
        text = lines[below].text
        if lines[below].mark or _AT.match(text[:1000]):
            break
        if text.strip() and not text.rstrip().endswith(":") and not is_stock(text) and not is_announcement(text):
            return below
    return at


def _unlabelled(line: LogLine, text: str) -> str:
    """Remove the step's name from an error heading, such as `deploy: ` in `deploy: Error: codegen timed out`."""
    return _LABEL.sub("", text, count=1) if line.mark == "error" else text


def first_informative(lines: Sequence[LogLine]) -> ParsedError | None:
    """Return the first line that is not a stock message, as an error; None if there is no such line.

    This function is used to parse the reason that a source recorded for a failure.
    """
    line = next((line for line in lines if line.text.strip() and not is_stock(line.text)), None)
    return ParsedError("", strip_prefixes(line.text), line.number, line.number) if line else None


def errors_below_heading(lines: Sequence[LogLine]) -> Iterator[ParsedError]:
    """Yield the first informative line below a heading such as `[error] … Failed to deploy:`.

    The line can have any format.
    """
    at = next((at for at, line in enumerate(lines) if line.mark == "error"), len(lines))
    below = (line for line in lines[at + 1 :] if not line.mark)
    telling = (line for line in below if not _PROGRESS.match(line.text) and not _FILE.fullmatch(line.text.strip()))
    if error := first_informative(list(telling)):
        yield error


def _stack(lines: Sequence[LogLine], at: int) -> tuple[tuple[str, int], ...]:
    """Return the files and lines of the JavaScript stack trace directly below a line."""
    places = []
    for line in lines[at + 1 : at + 12]:
        if not _AT.match(line.text[:1000]):
            break
        places += [(match["path"], int(match["line"])) for match in PATH_LINE.finditer(line.text[:1000])]
    return tuple(places)


MAX_NAME = 1000
MESSAGE_LINES = 12
SUMMARY_LINES = 8
QUOTED_LINES = 6
QUOTED_LINE = 400
"""Maximum number of characters in a quoted line.

The quotation ends before the first longer line, such as a printed value.
"""
_COUNT = re.compile(r"(\d+) (failed|passed|skipped|errors?)\b")
_DURATION = re.compile(r"\s+\(?(?P<number>\d+(?:\.\d+)?)\s?(?P<unit>m?s)\)?$")


class ReportedFailure(NamedTuple):
    """A failed test, with its name and the lines of its message."""

    name: str
    message: tuple[str, ...]
    first: int
    last: int
    places: tuple[tuple[str, int], ...] = ()
    milliseconds: float | None = None


class RunnerOutput(NamedTuple):
    runner: str
    passed: int | None
    failed: int | None
    failures: tuple[ReportedFailure, ...]
    skipped: int = 0
    unstarted: ReportedFailure | None = None
    """Reason why no test finished, stored as a failure with an empty name; None if a test finished."""
    summary: tuple[int, int] | None = None
    """Numbers of the first and last line of the summary with the test counts; None if the output has no summary."""


def parse_runner_output(lines: Sequence[LogLine]) -> RunnerOutput | None:
    """Parse the output of a test runner; None if there is no header of a known runner.

    If there are headers of several runners, the first header decides.
    """
    headed = [(at, runner) for runner in _RUNNERS if (at := _first(lines, runner.header)) is not None]
    if not headed:
        return None
    # A test's output can look like the header of another runner, but it comes below the header of the real runner.
    at, runner = min(headed, key=lambda pair: pair[0])
    output = runner.read(lines[at:])
    return output._replace(summary=_summary(lines[at:], runner.summary)) if output else None


def _summary(lines: Sequence[LogLine], pattern: re.Pattern[str]) -> tuple[int, int] | None:
    """Return the numbers of the first and last line of a test runner's summary: the last block of lines that match
    `pattern`.
    """
    last = next((at for at in range(len(lines) - 1, -1, -1) if pattern.match(lines[at].text[:MAX_NAME])), None)
    if last is None:
        return None
    first = last
    for at in range(last - 1, max(-1, last - SUMMARY_LINES), -1):
        if pattern.match(lines[at].text[:MAX_NAME]):
            first = at
        elif lines[at].text.strip():
            break
    return lines[first].number, lines[last].number


def _first(lines: Iterable[LogLine], pattern: re.Pattern[str]) -> int | None:
    return next((at for at, line in enumerate(lines) if pattern.match(line.text)), None)


_VITEST = re.compile(r"\s*(?:RUN|DEV)\s+v\d+\.\d+")
_VITEST_COUNTS = re.compile(r"\s*Tests\s+(?=\d+ |(?P<none>no tests))")
_VITEST_FILE = re.compile(r"\s+❯ \S.* \((?P<tests>\d+) tests?\b")
_VITEST_FILES = re.compile(r"\s*Test Files\s+\d+ failed\b")
_VITEST_CAPTURED = re.compile(r"(?:stdout|stderr) \| ")
_VITEST_FAILED = re.compile(r"\s{2,}[×✗✖] (?P<name>\S.*)")
_VITEST_SUITE = re.compile(r"\s*FAIL\s+(?P<name>\S.*)")
# Version 3 of vitest prints the message of a failed test after an arrow. Version 4 prints messages to stderr, which
# logs of Convex runs do not contain.
_VITEST_ARROW = re.compile(r"\s*→ ?(?P<text>.*)")
_VITEST_NEXT = re.compile(r"\s+[✓√×✗✖↓❯] |\s*(?:Test Files|Tests|Start at|Duration|Snapshots)\s{2}|\s*⎯|\s*FAIL\s")


def _vitest(lines: Sequence[LogLine]) -> RunnerOutput:
    report_lines = list(_uncaptured(lines))
    summaries = [line.text for line in report_lines if _VITEST_COUNTS.match(line.text)]
    # If a test file does not load, vitest prints `no tests` in place of the counts.
    counts = _last_counts(summaries) or ({"passed": 0} if summaries else {})
    failures = list(_marked(report_lines, _VITEST_FAILED, _VITEST_NEXT))
    if not failures:
        failures = list(_marked(report_lines, _VITEST_SUITE, _VITEST_NEXT))
    failed = counts.get("failed", 0 if counts else None)
    if failed and len(failures) > failed:
        # Code under test can print lines that look like failed tests. The runner prints its own list after that output.
        failures = failures[-failed:]
    skipped = counts.get("skipped", 0)
    unstarted = (
        _vitest_unstarted(report_lines, skipped) if counts and not failures and not counts.get("passed") else None
    )
    return RunnerOutput(
        "vitest", counts.get("passed", 0 if counts else None), failed, tuple(failures), skipped, unstarted
    )


def _vitest_unstarted(lines: Sequence[LogLine], skipped: int) -> ReportedFailure | None:
    """Return why a test file failed although none of its tests failed.

    Either the file did not load, or a hook failed before the first test.
    """
    if not any(_VITEST_FILES.match(line.text) for line in lines):
        return None
    line = next((line for line in lines if _VITEST_FILE.match(line.text)), lines[0])
    reason = (
        f"a hook failed: all {skipped} tests were skipped" if skipped else "the test file did not load: no test ran"
    )
    return ReportedFailure("", (reason,), line.number, line.number)


def _uncaptured(lines: Sequence[LogLine]) -> Iterator[LogLine]:
    """Yield the lines that the test runner itself wrote.

    The output of tests is left out. Such output goes from `stdout | …` or `stderr | …` to the next blank line.
    """
    captured = False
    for line in lines:
        captured = bool(_VITEST_CAPTURED.match(line.text)) or (captured and bool(line.text.strip()))
        if not captured:
            yield line


def _marked(lines: Sequence[LogLine], mark: re.Pattern[str], following: re.Pattern[str]) -> Iterator[ReportedFailure]:
    """Yield a failure for each line that matches `mark`.

    The failure's message ends at the next line that matches `mark` or `following`.
    """
    for at, line in enumerate(lines):
        match = mark.match(line.text)
        if not match:
            continue
        message: list[LogLine] = []
        for below in lines[at + 1 : at + 1 + 40]:
            if following.match(below.text) or mark.match(below.text):
                break
            message.append(below)
        name = " ".join(match["name"][:MAX_NAME].split())
        took = _DURATION.search(name)
        milliseconds = float(took["number"]) * (1 if took["unit"] == "ms" else 1000) if took else None
        yield _failure(_DURATION.sub("", name), line, message)._replace(milliseconds=milliseconds)


def _failure(name: str, line: LogLine, message: Sequence[LogLine]) -> ReportedFailure:
    """Return a failed test with a message of limited length.

    Blank lines and Vitest's arrows are removed from the message.
    """
    message_lines = [below for below in message if below.text.strip()]
    shown_lines = message_lines[:MESSAGE_LINES]
    quoted = list(takewhile(lambda below: len(below.text) <= QUOTED_LINE, shown_lines[:QUOTED_LINES]))
    texts = tuple((m["text"] if (m := _VITEST_ARROW.match(b.text)) else b.text).strip() for b in shown_lines)
    places = tuple(p for below in message_lines for p in _places(below.text))
    # The rules treat a list of 20 frames as incomplete, see `MOST_FRAMES` in `judging/rules/doubts.py`.
    return ReportedFailure(name, texts, line.number, quoted[-1].number if quoted else line.number, places[:20])


def _body(lines: Sequence[LogLine], at: int, ends: Callable[[str], bool]) -> list[LogLine]:
    """Return the lines below `at`, up to the first line for which `ends` returns True."""
    last = at + 1
    # Indices are used because copying the rest of the log for every failure would take quadratic time.
    while last < len(lines) and not ends(lines[last].text):
        last += 1
    return list(lines[at + 1 : last])


def _places(text: str) -> list[tuple[str, int]]:
    return [(match["path"], int(match["line"])) for match in PATH_LINE.finditer(text[:1000])]


def _last_counts(texts: Iterable[str]) -> dict[str, int]:
    """Return the test counts, such as `{"failed": 2}`, from the last line with counts.

    Test runners print their summary last.
    """
    last: dict[str, int] = {}
    for text in texts:
        counts = {word.rstrip("s") if word.startswith("error") else word: int(n) for n, word in _COUNT.findall(text)}
        last = counts or last
    return last


_PYTEST = re.compile(r"=+ (?:test session starts|FAILURES|ERRORS) =+$|[.FEsxX]+ +\[ *\d+%\]$")
_PYTEST_COUNTS = re.compile(r"(?:=+ )?(?=\d+ (?:failed|passed|errors?|skipped|deselected)\b)[\w ,]+ in [\d.]+s")
_PYTEST_SECTION = re.compile(r"_{3,} (?:ERROR (?:at \w+ of|collecting) )?(?P<name>\S.*?) _{3,}$")
_PYTEST_SHORT = re.compile(r"(?:FAILED|ERROR) (?P<name>\S+(?:\[.*?\])?)(?: - (?P<message>.*))?$")
_PYTEST_END = re.compile(r"=+ (?:short test summary info|warnings summary|ERRORS|FAILURES|\d+ )|-{3,} Captured ")
_PYTEST_MESSAGE = re.compile(r"E\s+(?P<text>\S.*)")


def _pytest(lines: Sequence[LogLine]) -> RunnerOutput:
    counts = _last_counts(line.text for line in lines if _PYTEST_COUNTS.match(line.text))
    failures = list(_pytest_sections(lines)) or list(_pytest_summary(lines))
    failed = counts.get("failed", 0) + counts.get("error", 0) if counts else (len(failures) or None)
    return RunnerOutput("pytest", counts.get("passed", 0) if counts else None, failed, tuple(failures))


def _pytest_sections(lines: Sequence[LogLine]) -> Iterator[ReportedFailure]:
    for at, line in enumerate(lines):
        match = _PYTEST_SECTION.match(line.text)
        if not match:
            continue
        body = _body(lines, at, lambda text: bool(_PYTEST_SECTION.match(text) or _PYTEST_END.match(text)))
        message_lines = [below for below in body if _PYTEST_MESSAGE.match(below.text)][:MESSAGE_LINES]
        texts = tuple(_PYTEST_MESSAGE.sub(r"\g<text>", below.text).strip() for below in message_lines)
        first, last = (
            (message_lines[0].number, message_lines[-1].number) if message_lines else (line.number, line.number)
        )
        # pytest prints a frame as `file.py:12: ` without indentation. Code and messages can contain any path.
        places = tuple(
            place for below in body if below.text[:1] not in (" ", ">", "E") for place in _places(below.text)
        )
        yield ReportedFailure(match["name"].rpartition(".")[2] or match["name"], texts, first, last, places[-20:][::-1])


def _pytest_summary(lines: Sequence[LogLine]) -> Iterator[ReportedFailure]:
    for line in lines:
        if match := _PYTEST_SHORT.match(line.text[:MAX_NAME]):
            name = match["name"].rpartition("::")[2]
            yield ReportedFailure(name, (match["message"],) if match["message"] else (), line.number, line.number)


_UNITTEST = re.compile(r"(?:FAIL|ERROR): \w+ \([\w.]+\)|[.FEsxu]+$|Ran \d+ tests? in ")
_UNITTEST_FAILED = re.compile(r"(?:FAIL|ERROR): (?P<name>\w+) \([\w.]+\)")
_UNITTEST_COUNT = re.compile(r"Ran (\d+) tests? in ")
_UNITTEST_RESULT = re.compile(r"FAILED \(|OK(?: \(|$)")


def _unittest(lines: Sequence[LogLine]) -> RunnerOutput | None:
    counted = [int(match[1]) for line in lines if (match := _UNITTEST_COUNT.match(line.text))]
    results = [line.text for line in lines if _UNITTEST_RESULT.match(line.text)]
    # A line of dots also matches the header. Only the summary proves that unittest ran.
    if not counted or not results:
        return None
    failed = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", results[-1]))
    failures = tuple(_unittest_failures(lines))
    return RunnerOutput("unittest", max(0, counted[-1] - failed), failed, failures)


def _ends_unittest_body(text: str) -> bool:
    """Return whether a line ends the output that belongs to a failed test."""
    # The heading of the next failure ends the output even without a separator line. When the outputs of several
    # failures overlapped, a log of half a megabyte took more than eight minutes.
    return bool(text.startswith("=====") or _UNITTEST_COUNT.match(text) or _UNITTEST_FAILED.match(text))


def _unittest_failures(lines: Sequence[LogLine]) -> Iterator[ReportedFailure]:
    for at, line in enumerate(lines):
        match = _UNITTEST_FAILED.match(line.text)
        if not match:
            continue
        body = _body(lines, at, _ends_unittest_body)
        message_lines = [b for b in body if b.text[:1].strip() and not b.text.startswith(("-----", "Traceback "))]
        frames = re.findall(r'File "([^"]{1,400})", line (\d+)', "\n".join(b.text[:1000] for b in body))
        places = tuple((path, int(number)) for path, number in reversed(frames[-20:]))
        shown_lines = message_lines[:MESSAGE_LINES]
        first, last = (shown_lines[0].number, shown_lines[-1].number) if shown_lines else (line.number, line.number)
        yield ReportedFailure(match["name"], tuple(b.text.strip() for b in shown_lines), first, last, places)


_GO = re.compile(r"(?:=== RUN |\s*--- (?:FAIL|PASS): )")
_GO_RESULT = re.compile(r"\s*--- (?P<result>FAIL|PASS): (?P<name>\S+)")
_GO_FAILED = re.compile(r"\s*--- FAIL: (?P<name>\S+)")
_GO_NEXT = re.compile(r"\s*--- |=== |FAIL|ok\s|PASS|exit status")


def _go(lines: Sequence[LogLine]) -> RunnerOutput:
    results = [match["result"] for line in lines if (match := _GO_RESULT.match(line.text))]
    # A Go test that only fails because of its subtests has no message of its own.
    failures = [failure for failure in _marked(lines, _GO_FAILED, _GO_NEXT) if failure.message]
    return RunnerOutput("go test", results.count("PASS"), results.count("FAIL"), tuple(failures))


_JEST = re.compile(r"(?:PASS|FAIL)\s+\S+\.\w+")
_JEST_COUNTS = re.compile(r"Tests:\s+\d")
_JEST_FAILED = re.compile(r"\s*● (?!Console)(?P<name>\S.*)")
_JEST_NEXT = re.compile(r"\s*● |(?:Test Suites|Tests|Snapshots|Time):\s|\s+\d+ \||\s*> \d+ \||(?:PASS|FAIL)\s")


def _jest(lines: Sequence[LogLine]) -> RunnerOutput:
    counts = _last_counts(line.text for line in lines if _JEST_COUNTS.match(line.text))
    failures = tuple(_marked(lines, _JEST_FAILED, _JEST_NEXT))
    passed = counts.get("passed", 0) if counts else None
    return RunnerOutput("jest", passed, counts.get("failed", 0) if counts else None, failures)


_MOCHA = re.compile(r"\s+\d+ (?:passing|failing)\b")
_MOCHA_COUNT = re.compile(r"\s+(?P<number>\d+) (?P<result>passing|failing)\b")
_MOCHA_FAILED = re.compile(r"\s{2,}\d+\) (?P<name>\S.*)")


def _mocha(lines: Sequence[LogLine]) -> RunnerOutput:
    counted = [match for line in lines if (match := _MOCHA_COUNT.match(line.text))]
    counts = {match["result"]: int(match["number"]) for match in counted}
    failures = tuple(_mocha_failures(lines))
    return RunnerOutput("mocha", counts.get("passing", 0), counts.get("failing", 0), failures)


def _mocha_failures(lines: Sequence[LogLine]) -> Iterator[ReportedFailure]:
    """Yield the failures that Mocha lists below the test counts.

    A failure's name has one line for each suite, and a last line that ends in a colon.
    """
    for at, line in enumerate(lines):
        match = _MOCHA_FAILED.match(line.text)
        if not match:
            continue
        body = _body(lines, at, lambda text: bool(_MOCHA_FAILED.match(text)))[:40]
        names, remaining = [match["name"][:MAX_NAME].strip()], body
        while remaining and not names[-1].endswith(":") and remaining[0].text.strip():
            names, remaining = [*names, remaining[0].text.strip()], remaining[1:]
        yield _failure(" > ".join(names).removesuffix(":"), line, remaining)


_TAP = re.compile(r"TAP version \d+")
_TAP_RESULT = re.compile(
    r"\s*(?P<result>ok|not ok) \d+(?: - (?P<name>[^#]*))?(?:# (?P<directive>TODO|SKIP))?", re.IGNORECASE
)
_TAP_ERROR = re.compile(r"\s*(?:error|message): (?P<text>\S.*)")
_TAP_TIME = re.compile(r"\s*duration_ms: (?P<number>\d+(?:\.\d+)?)")
_TAP_SUITE = re.compile(r"\s*failureType: 'subtestsFailed'")


def _tap(lines: Sequence[LogLine]) -> RunnerOutput:
    passed, failed = 0, []
    for at, line in enumerate(lines):
        match = _TAP_RESULT.match(line.text[:MAX_NAME])
        # By the TAP specification, a test marked TODO does not count as failed, and a test marked SKIP was not run.
        if not match or match["directive"]:
            continue
        body = _body(lines, at, lambda text: bool(_TAP_RESULT.match(text) or text.lstrip().startswith("# ")))[:60]
        if match["result"].lower() == "ok":
            # The TAP output of node:test also has a result for each suite. Counting it would count the tests of the
            # suite twice.
            passed += not any("type: 'suite'" in below.text for below in body[:4])
        elif not any(_TAP_SUITE.match(below.text) for below in body):
            took = next((float(m["number"]) for below in body if (m := _TAP_TIME.match(below.text))), None)
            name = (match["name"] or "").strip() or "(unnamed)"
            failed.append(_failure(name, line, _tap_message(body))._replace(milliseconds=took))
    return RunnerOutput("TAP", passed, len(failed), tuple(failed))


def _tap_message(body: Sequence[LogLine]) -> list[LogLine]:
    """Return the lines of the `error` or `message` value in the YAML block below a TAP result.

    The value can also be on the more deeply indented lines below `error` or `message`.
    """
    at = next((n for n, line in enumerate(body) if _TAP_ERROR.match(line.text)), None)
    if at is None:
        return []
    text = _TAP_ERROR.sub(r"\g<text>", body[at].text)
    if text.strip(" -+") not in ("|", ">"):
        return [body[at]._replace(text=text.strip().strip("'\""))]
    depth = len(body[at].text) - len(body[at].text.lstrip())
    deeper = takewhile(lambda b: not b.text.strip() or len(b.text) - len(b.text.lstrip()) > depth, body[at + 1 :])
    return list(deeper)


_NODE = re.compile(r"ℹ tests \d+$")
_NODE_COUNT = re.compile(r"ℹ (?P<result>pass|fail) (?P<number>\d+)$")
_NODE_FAILED = re.compile(r"✖ (?!failing tests:)(?P<name>\S.*)")
_NODE_NEXT = re.compile(r"test at \S")


def _node(lines: Sequence[LogLine]) -> RunnerOutput:
    counts = {match["result"]: int(match["number"]) for line in lines if (match := _NODE_COUNT.match(line.text))}
    failures = tuple(_marked(lines, _NODE_FAILED, _NODE_NEXT))
    return RunnerOutput("node:test", counts.get("pass"), counts.get("fail"), failures)


_CARGO = re.compile(r"running \d+ tests?$")
_CARGO_RESULT = re.compile(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed")
_CARGO_FAILED = re.compile(r"---- (?P<name>\S.*?) stdout ----$")
_CARGO_NAMED = re.compile(r"test (?P<name>\S.*) \.\.\. FAILED$")
_CARGO_NEXT = re.compile(r"stack backtrace:|note: |failures:$|error: |test result: ")


def _cargo(lines: Sequence[LogLine]) -> RunnerOutput:
    results = [match for line in lines if (match := _CARGO_RESULT.match(line.text))]
    failures = tuple(_marked(lines, _CARGO_FAILED, _CARGO_NEXT)) or tuple(_marked(lines, _CARGO_NAMED, _CARGO_NEXT))
    # A result is printed for each set of tests, such as unit tests and documentation tests.
    passed, failed = (sum(int(match[result]) for match in results) for result in ("passed", "failed"))
    return RunnerOutput("cargo test", passed if results else None, failed if results else None, failures)


class _Runner(NamedTuple):
    header: re.Pattern[str]
    """Matches a line that identifies the test runner."""
    read: Callable[[Sequence[LogLine]], RunnerOutput | None]
    summary: re.Pattern[str]
    """Matches the lines of the summary at the end, with test counts and duration."""


_RUNNERS = (
    _Runner(_VITEST, _vitest, re.compile(r"\s*(?:Test Files|Tests|Errors|Start at|Duration)\s{2}")),
    _Runner(_PYTEST, _pytest, re.compile(rf"{_PYTEST_COUNTS.pattern}|(?:FAILED|ERROR) \S+\.py")),
    _Runner(_JEST, _jest, re.compile(r"(?:Test Suites|Tests|Snapshots|Time):\s")),
    _Runner(_GO, _go, re.compile(r"(?:FAIL|ok)\s+\S+\s+(?:\(cached\)|[\d.]+s)|FAIL$|PASS$|exit status \d")),
    _Runner(_UNITTEST, _unittest, re.compile(r"Ran \d+ tests? in |FAILED \(|OK(?: \(|$)")),
    _Runner(_MOCHA, _mocha, re.compile(r"\s+\d+ (?:passing|pending|failing)\b")),
    _Runner(_TAP, _tap, re.compile(r"# (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ")),
    _Runner(_NODE, _node, re.compile(r"ℹ (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ")),
    _Runner(_CARGO, _cargo, _CARGO_RESULT),
)

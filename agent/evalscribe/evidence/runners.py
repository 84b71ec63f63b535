"""Parse the output of test runners after their headers, without captured output of the code under test."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from evalscribe.evidence.errors import PATH_LINE
from evalscribe.evidence.log import LogLine

MAX_NAME = 1000
MESSAGE_LINES = 12
QUOTED_LINES = 6
QUOTED_LINE = 400
"""A message is quoted up to the first line longer than this, such as a value written out (characters)."""
_COUNT = re.compile(r"(\d+) (failed|passed|skipped|errors?)\b")
_DURATION = re.compile(r"\s+(?P<number>\d+(?:\.\d+)?)\s?(?P<unit>m?s)$")


class ReportedFailure(NamedTuple):
    """One failed test: its name and the lines of its message."""

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
    """Why no test finished, if none did; its name is empty."""


def parse_runner_output(lines: Sequence[LogLine]) -> RunnerOutput | None:
    """Parse the output of the first known runner whose header occurs; None if there is none."""
    headed = [(at, read) for header, read in _RUNNERS if (at := _first(lines, header)) is not None]
    if not headed:
        return None
    at, read = min(headed, key=lambda pair: pair[0])
    return read(lines[at:])


def _first(lines: Iterable[LogLine], pattern: re.Pattern[str]) -> int | None:
    return next((at for at, line in enumerate(lines) if pattern.match(line.text)), None)


_VITEST = re.compile(r"\s*(?:RUN|DEV)\s+v\d+\.\d+")
_VITEST_COUNTS = re.compile(r"\s*Tests\s+(?=\d+ |(?P<none>no tests))")
_VITEST_FILE = re.compile(r"\s+❯ \S.* \((?P<tests>\d+) tests?\b")
_VITEST_FILES = re.compile(r"\s*Test Files\s+\d+ failed\b")
_VITEST_CAPTURED = re.compile(r"(?:stdout|stderr) \| ")
_VITEST_FAILED = re.compile(r"\s{2,}[×✗✖] (?P<name>\S.*)")
_VITEST_SUITE = re.compile(r"\s*FAIL\s+(?P<name>\S.*)")
_VITEST_ARROW = re.compile(r"\s*→ ?(?P<text>.*)")
_VITEST_NEXT = re.compile(r"\s+[✓√×✗✖↓❯] |\s*(?:Test Files|Tests|Start at|Duration|Snapshots)\s{2}|\s*⎯|\s*FAIL\s")


def _vitest(lines: Sequence[LogLine]) -> RunnerOutput:
    told = list(_uncaptured(lines))
    summaries = [line.text for line in told if _VITEST_COUNTS.match(line.text)]
    counts = _last_counts(summaries) or ({"passed": 0} if summaries else {})
    failures = list(_marked(told, _VITEST_FAILED, _VITEST_NEXT))
    if not failures:
        failures = list(_marked(told, _VITEST_SUITE, _VITEST_NEXT))
    failed = counts.get("failed", 0 if counts else None)
    if failed and len(failures) > failed:
        failures = failures[-failed:]
    skipped = counts.get("skipped", 0)
    unstarted = _vitest_unstarted(told, skipped) if counts and not failures and not counts.get("passed") else None
    return RunnerOutput(
        "vitest", counts.get("passed", 0 if counts else None), failed, tuple(failures), skipped, unstarted
    )


def _vitest_unstarted(lines: Sequence[LogLine], skipped: int) -> ReportedFailure | None:
    """Explain a failed file without failed tests: it did not load, or a hook failed before the first test."""
    if not any(_VITEST_FILES.match(line.text) for line in lines):
        return None
    line = next((line for line in lines if _VITEST_FILE.match(line.text)), lines[0])
    why = f"a hook failed: all {skipped} tests were skipped" if skipped else "the test file did not load: no test ran"
    return ReportedFailure("", (why,), line.number, line.number)


def _uncaptured(lines: Sequence[LogLine]) -> Iterator[LogLine]:
    """Yield the runner's own lines, without captured output: `stdout | …` up to the next blank line."""
    captured = False
    for line in lines:
        captured = bool(_VITEST_CAPTURED.match(line.text)) or (captured and bool(line.text.strip()))
        if not captured:
            yield line


def _marked(lines: Sequence[LogLine], mark: re.Pattern[str], following: re.Pattern[str]) -> Iterator[ReportedFailure]:
    """Yield failures that start with a marked name; their message goes on to the next mark."""
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
    """Return a failure with a bounded message, without blank lines and arrows."""
    said = [below for below in message if below.text.strip()]
    kept = said[:MESSAGE_LINES]
    quoted = list(takewhile(lambda below: len(below.text) <= QUOTED_LINE, kept[:QUOTED_LINES]))
    texts = tuple((m["text"] if (m := _VITEST_ARROW.match(b.text)) else b.text).strip() for b in kept)
    places = tuple(p for below in said for p in _places(below.text))
    return ReportedFailure(name, texts, line.number, quoted[-1].number if quoted else line.number, places[:20])


def _body(lines: Sequence[LogLine], at: int, ends: Callable[[str], bool]) -> list[LogLine]:
    """Return the lines below `at` up to the first whose text `ends` the section.

    Uses indices, because copying the rest of the log for every failure takes quadratic time.
    """
    last = at + 1
    while last < len(lines) and not ends(lines[last].text):
        last += 1
    return list(lines[at + 1 : last])


def _places(text: str) -> list[tuple[str, int]]:
    return [(match["path"], int(match["line"])) for match in PATH_LINE.finditer(text[:1000])]


def _last_counts(texts: Iterable[str]) -> dict[str, int]:
    """Return the counts by word on the last line that has any: runners end with a summary."""
    last: dict[str, int] = {}
    for text in texts:
        found = {word.rstrip("s") if word.startswith("error") else word: int(n) for n, word in _COUNT.findall(text)}
        last = found or last
    return last


_PYTEST = re.compile(r"=+ (?:test session starts|FAILURES|ERRORS) =+$|[.FEsxX]+ +\[ *\d+%\]$")
_PYTEST_COUNTS = re.compile(r"(?:=+ )?(?=\d+ (?:failed|passed|errors?|skipped|deselected)\b)[\w ,]+ in [\d.]+s")
_PYTEST_SECTION = re.compile(r"_{3,} (?:ERROR (?:at \w+ of|collecting) )?(?P<name>\S.*?) _{3,}$")
_PYTEST_SHORT = re.compile(r"(?:FAILED|ERROR) (?P<name>\S+(?:\[.*?\])?)(?: - (?P<message>.*))?$")
_PYTEST_END = re.compile(r"=+ (?:short test summary info|warnings summary|ERRORS|FAILURES|\d+ )|-{3,} Captured ")
_PYTEST_SAID = re.compile(r"E\s+(?P<text>\S.*)")


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
        said = [below for below in body if _PYTEST_SAID.match(below.text)][:MESSAGE_LINES]
        texts = tuple(_PYTEST_SAID.sub(r"\g<text>", below.text).strip() for below in said)
        first, last = (said[0].number, said[-1].number) if said else (line.number, line.number)
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
    if not counted or not results:
        return None
    failed = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", results[-1]))
    failures = tuple(_unittest_failures(lines))
    return RunnerOutput("unittest", max(0, counted[-1] - failed), failed, failures)


def _ends_unittest_body(text: str) -> bool:
    """Return whether a line ends a body.

    The next failure also ends it, with or without a separator: overlapping bodies would take quadratic time.
    """
    return bool(text.startswith("=====") or _UNITTEST_COUNT.match(text) or _UNITTEST_FAILED.match(text))


def _unittest_failures(lines: Sequence[LogLine]) -> Iterator[ReportedFailure]:
    for at, line in enumerate(lines):
        match = _UNITTEST_FAILED.match(line.text)
        if not match:
            continue
        body = _body(lines, at, _ends_unittest_body)
        said = [b for b in body if b.text[:1].strip() and not b.text.startswith(("-----", "Traceback "))]
        frames = re.findall(r'File "([^"]{1,400})", line (\d+)', "\n".join(b.text[:1000] for b in body))
        places = tuple((path, int(number)) for path, number in reversed(frames[-20:]))
        kept = said[:MESSAGE_LINES]
        first, last = (kept[0].number, kept[-1].number) if kept else (line.number, line.number)
        yield ReportedFailure(match["name"], tuple(b.text.strip() for b in kept), first, last, places)


_GO = re.compile(r"(?:=== RUN |\s*--- (?:FAIL|PASS): )")
_GO_RESULT = re.compile(r"\s*--- (?P<result>FAIL|PASS): (?P<name>\S+)")
_GO_FAILED = re.compile(r"\s*--- FAIL: (?P<name>\S+)")
_GO_NEXT = re.compile(r"\s*--- |=== |FAIL|ok\s|PASS|exit status")


def _go(lines: Sequence[LogLine]) -> RunnerOutput:
    results = [match["result"] for line in lines if (match := _GO_RESULT.match(line.text))]
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


_RUNNERS: tuple[tuple[re.Pattern[str], Callable[[Sequence[LogLine]], RunnerOutput | None]], ...] = (
    (_VITEST, _vitest),
    (_PYTEST, _pytest),
    (_JEST, _jest),
    (_GO, _go),
    (_UNITTEST, _unittest),
)

"""A log as lines without decoration, cut into the sections that its runner marks."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from evalscribe.evidence.errors import is_stock
from evalscribe.model.evidence import Document, Evidence, Excerpt

MAX_LINE = 20_000
"""Characters of a line that are looked at: a single line of megabytes is data, not an error."""
MAX_LINES = 50_000
CACHED_FAILURES = 2
"""Failures whose parsed logs are cached. Errors, tests and the failed step's part are read from the same lines, and a
log may have tens of megabytes. Only two, because the cache keeps their evidence in memory."""
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TAG = re.compile(r"\[([\w.@/+-]{1,40})\](?: |$)")
_MARK = re.compile(r"\[(ok|cmd|error|fail|failed|setup|skip|skipped|step)\]\s*(.*)", re.IGNORECASE)
_EARLIER = re.compile(r"\w[\w ./-]{0,80} \(exit \d+\):")
_LATER = re.compile(r"\w[\w ./-]{0,80}:")
REFERENCE = "(answer) "
"""Prefix of the Convex runner's headings about the reference answer."""
_WORD = re.compile(r"[a-z]+")
_TEST_WORDS = frozenset({"test", "tests", "vitest", "jest", "pytest", "unittest", "mocha"})
_ALIASES: tuple[frozenset[str], ...] = (
    _TEST_WORDS,
    frozenset({"deploy", "deploying", "deployment", "dev", "push"}),
    frozenset({"lint", "linting", "eslint", "ruff", "flake", "pylint", "biome"}),
    frozenset({"tsc", "types", "typecheck", "typechecking", "mypy", "pyright"}),
    frozenset({"install", "installing", "pip", "npm", "bun", "yarn", "pnpm", "dependencies"}),
    frozenset({"build", "building", "compile", "compiling", "bundle"}),
)


class LogLine(NamedTuple):
    """One line of a log: its number, the runner's mark or the tool's tag, and the text without either."""

    number: int
    mark: str
    """`ok`, `cmd`, `error`… where the runner marks a new section, else empty."""
    text: str


class LogSection(NamedTuple):
    mark: str
    heading: str
    lines: tuple[LogLine, ...]
    """With the heading's own line."""


def first_log(evidence: Evidence) -> Document | None:
    """The first log document that says anything."""
    return next((document for document in evidence.of("log") if document.text.strip()), None)


def clean(text: str) -> str:
    """A line without terminal codes and control characters, cut where it is no line any more."""
    text = text[:MAX_LINE]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return _CONTROL.sub("", text) if not text.isprintable() else text


@lru_cache(CACHED_FAILURES)
def lines_of(document: Document, first: int = 1) -> list[LogLine]:
    """The lines of a log without tags such as `[vitest] `; of a very long log the first and the last."""
    lines, half = document.lines, MAX_LINES // 2
    numbered: Iterable[tuple[int, str]] = enumerate(lines, first)
    if len(lines) > MAX_LINES:
        last = enumerate(lines[-half:], first + len(lines) - half)
        numbered = chain(enumerate(lines[:half], first), last)
    return [_line(number, clean(text)) for number, text in numbered]


def plain_lines(text: str) -> list[LogLine]:
    """The lines of a text that is no log, such as a recorded reason."""
    lines = [LogLine(number, "", clean(line)) for number, line in enumerate(text.split("\n")[:MAX_LINES], 1)]
    return _of_last_command(lines)


@lru_cache(CACHED_FAILURES)
def failed_sections(evidence: Evidence) -> list[LogLine]:
    """The lines that belong to the failed step; the whole log where its runner marks nothing."""
    log = first_log(evidence)
    if log is None:
        return []
    lines = lines_of(log)
    sections = _sections(lines)
    if not any(section.mark for section in sections):
        return lines
    at = _failing(evidence, sections)
    if at is None:
        return lines
    return [line for section in _belonging(evidence, sections, at) for line in _of_last_command(section.lines)]


def names_failed_step(evidence: Evidence) -> bool:
    """Whether the log has an error section for the failed step; True if it marks no errors or no step failed."""
    log, step = first_log(evidence), evidence.eval.failed_step
    errors = [s for s in _sections(lines_of(log)) if s.mark == "error"] if log else []
    return not step or not errors or any(_related(step, section.heading) for section in errors)


def reference_errors(evidence: Evidence) -> tuple[LogLine, ...]:
    """Headings of errors in setting up the reference answer."""
    log = first_log(evidence)
    lines = lines_of(log) if log else []
    return tuple(line for line in lines if line.mark == "error" and line.text.startswith(REFERENCE))


def failed_log(evidence: Evidence) -> Excerpt | None:
    """The part of the log that belongs to the failed step, tags and all; None without a log."""
    log, lines = first_log(evidence), failed_sections(evidence)
    if log is None or not lines:
        return None
    first, last = lines[0].number, lines[-1].number
    return Excerpt(role="log", path=log.path, first=first, text="\n".join(log.lines[first - 1 : last]))


def names_tests(step: str | None) -> bool:
    """Whether a step's name says that it runs the tests."""
    return bool(step) and bool(_TEST_WORDS & _words(step or ""))


def _line(number: int, text: str) -> LogLine:
    if marked := _MARK.match(text):
        return LogLine(number, marked[1].lower().replace("failed", "error").replace("fail", "error"), marked[2])
    tagged = _TAG.match(text)
    return LogLine(number, "", text[tagged.end() :] if tagged else text)


def _sections(lines: Sequence[LogLine]) -> list[LogSection]:
    starts = [at for at, line in enumerate(lines) if line.mark or at == 0]
    ends = [*starts[1:], len(lines)]
    return [LogSection(lines[a].mark, lines[a].text, tuple(lines[a:b])) for a, b in zip(starts, ends, strict=True)]


def _of_last_command(lines: Sequence[LogLine]) -> list[LogLine]:
    """Remove the output of an earlier command of the same step.

    A step that runs two commands reports both, as `Initial codegen (exit 1):` and `convex dev:`, each followed by its
    output. The first may fail in every run; only the last one decides the step.
    """
    earlier = next((at for at, line in enumerate(lines) if _EARLIER.fullmatch(line.text)), None)
    if earlier is None:
        return list(lines)
    later = next((at for at in range(earlier + 1, len(lines)) if _LATER.fullmatch(lines[at].text)), None)
    return list(lines) if later is None else [*lines[:earlier], *lines[later + 1 :]]


def _failing(evidence: Evidence, sections: Sequence[LogSection]) -> int | None:
    """Which section reports the failed step: the last that names it, else in the order of the failed steps."""
    errors = [at for at, s in enumerate(sections) if s.mark == "error" and not s.heading.startswith(REFERENCE)]
    step = evidence.eval.failed_step
    named = [at for at in errors if step and _related(step, sections[at].heading)]
    failed = [s.name for s in evidence.steps if s.status == "failed"]
    if named:
        return named[-1]
    if step in failed and len(failed) == len(errors):
        return errors[failed.index(step)]
    return errors[-1] if errors else None


def _belonging(evidence: Evidence, sections: Sequence[LogSection], at: int) -> Sequence[LogSection]:
    """The failing section; where only a heading stands there, also the command it speaks of, after or before it.

    Before it: from the first such command on, since what comes later may be marks that the code under test printed.
    """
    failing = sections[at]
    if any(line.text.strip() for line in failing.lines[1:]) or not is_stock(failing.heading):
        return [failing]
    words = f"{failing.heading} {evidence.eval.failed_step or ''}"
    after = [index for index in range(at + 1, min(at + 3, len(sections))) if _is_command(sections[index], words)]
    before = [index for index in range(at) if _is_command(sections[index], words)]
    if after:
        return sections[at : after[0] + 1]
    return sections[before[0] : at + 1] if before else [failing]


def _is_command(section: LogSection, words: str) -> bool:
    return section.mark == "cmd" and _related(words, section.heading)


def _related(step: str, heading: str) -> bool:
    """Whether two texts speak of the same step: a shared word of one kind of step."""
    return any(kind & _words(step) and kind & _words(heading) for kind in _kinds(step))


def _kinds(step: str) -> list[frozenset[str]]:
    known = [kind for kind in _ALIASES if kind & _words(step)]
    return known or [frozenset(_words(step))]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text[:500].lower()))

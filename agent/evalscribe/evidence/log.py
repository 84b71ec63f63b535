"""Read a log as plain lines, split it at the runner's headings, and shorten and normalise error messages."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from evalscribe.model.evidence import Document, Evidence, Excerpt, Severity
from evalscribe.model.reference_runs import PATH as REFERENCE_RUNS

PATH_LINE = re.compile(r"(?P<path>[^\s:()'\"<>|]{1,400}\.\w{1,8})[:(](?P<line>\d{1,7})\b")


class ParsedError(NamedTuple):
    """One error in the output of a tool, with its first and last line and the files and line numbers that it names."""

    tool: str
    error: str
    first: int
    last: int
    code: str | None = None
    severity: Severity = "error"
    places: tuple[tuple[str, int], ...] = ()
    test: str | None = None


def place_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the first path and line number in a text, written as `path:line` or `path(line`.

    The result contains one pair of path and line number, or is empty.
    """
    match = PATH_LINE.search(text[:2000])
    return ((match["path"], int(match["line"])),) if match else ()


MAX_ERROR = 240
MAX_NORMALISED = 1000
# Text such as `fetch failed` or `connection failed` names the problem, so these words do not begin a stock message.
_NETWORK = r"fetch|connection|request|lookup|network|dns|socket|handshake|authentication|assertion|download"
_OBJECT = r"code|project|app|backend|files?|dependencies|packages|modules"
_PREFIX = re.compile(r"^(?:\s*(?:\[[^\]]*\]|uncaught|unhandled|error:|fatal:|npm ERR!|[×✖✘✗→❯●•-])\s*)+", re.IGNORECASE)
_STOCK = re.compile(
    rf"""
    (?!(?:{_NETWORK})\b)[\w./-]+(?:[ ][\w./()-]+){{0,3}}[ ](?:has[ ])?fail(?:ed|s|ure|ing)?(?:[ ]\(.{{0,60}}\))?
    | .{{0,80}}?\bfail(?:ed|ure)?\ (?:to|while|during)\ \w+(?:ing)?(?:\ (?:{_OBJECT}))?
    | (?:internal[ ]|unknown[ ])?(?:server[ ]|harness[ ])?errors?
    | (?:typescript[ ])?type-?check\b.{{0,40}}\bfailed
    | (?:the[ ])?(?:command|process|task|script|step)[ ].{{0,80}}?(?:failed|exited|returned)\b.{{0,60}}
    | (?:non-?zero[ ])?exit(?:ed)?(?:[ ](?:with|code|status)){{1,3}}[ ]?\d+
    | (?:see|check)[ ](?:the[ ])?(?:logs?|above|below|output).{{0,60}}
    | \(?no[ ]output\)?
    | no[ ][A-Z_]{{3,40}}[ ]set,[ ]run[ ].{{1,80}}
    | unable[ ]to[ ]start[ ]push[ ]to[ ]\S+
    | found[ ]\d+[ ](?:errors?|problems?|warnings?).{{0,120}}
    | \d+[ ](?:errors?|problems?|warnings?|tests?)\b.{{0,120}}
    | (?:none|null|undefined|n/a|failed|failure|fail)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_REFUSED = re.compile(r"error fetching \w+ {1,2}\S+ 4\d\d [\w ]{1,40}: ", re.IGNORECASE)
"""Matches the text that the Convex CLI prints before the reason why a deployment refused a push."""
_ANNOUNCES = re.compile(
    r"(?:.{0,80}\b)?(?:hit|got|met|encountered|found|reported|raised)\s"
    r"(?:(?:an|the|these|some|\d+|(?:the\s)?following)\s(?:errors?|problems?)\b.{0,80}:|(?:the\s)?following)",
    re.IGNORECASE,
)
"""Matches a line that only announces an error, such as `Hit an error while pushing:`.

The pattern also matches the first line of an announcement that the tool wrapped, such as `Loading the pushed modules
encountered the following`.
"""
_ASIDE = re.compile(r" \([^()]*\)")
# TypeScript writes a type from another module as `import("/path/to/module").Name`. The path differs between machines.
_IMPORT_TYPE = re.compile(r'import\("[^"]{0,1000}"\)\.')
_ABSOLUTE = re.compile(
    r"(?<![\w.:/])(?:/(?:tmp|home|root|var|private|Users|opt|usr|mnt|srv)|[A-Za-z]:)?[\\/](?:[\w.@+~-]+[\\/])*"
    r"(?P<name>[\w.@+~-]+\.\w{1,8})\b"
)
"""Matches an absolute path to a file. URL paths such as `/api/hello` do not match."""
# A duration that follows `after` or `within` is a time limit, which is part of the error.
_TIMING = re.compile(r"(?<!\bafter)(?<!\bwithin)\s+\(?\d+(?:\.\d+)?\s?(?:ms|s)\)?$")
# This remark is appended by vitest to the message of each failed `toBe`.
_EQUALITY = re.compile(r"\s+// Object\.is equality$")
_NORMAL: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"https?://[^\s'\"`)]+"), "<url>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:\.{0,2}[\\/])?(?:[\w.@+~-]+[\\/])+[\w.@+~-]+(?::\d+)*"), "<path>"),
    (re.compile(r"(['\"`])(?=[^'\"`]*\d)[^'\"`\s]{12,}\1"), "<id>"),
    (re.compile(r"\b(?:0x[0-9a-f]+|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}|\d{7,})\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?=\w*\d)(?=\w*[a-z])[a-z0-9_]{16,}\b", re.IGNORECASE), "<id>"),
    # Numbers come after ids, URLs and paths, which contain numbers. A number inside a word, as in `TS2339` or
    # `PLW2901`, names a rule and stays.
    (re.compile(r"(?<![\w.])[+-]?\d+(?:[.,:]\d+)*(?:\s?(?:ms|s|%|kB|MB)\b)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def strip_prefixes(text: str) -> str:
    """Remove the prefixes that tools and harnesses add to an error: `[…]` groups, symbols such as `✖`, `Error:` and
    `Uncaught`.
    """
    text = text.strip()[:4000]
    # The reason that is printed after a refused push begins with prefixes of its own.
    bare = _PREFIX.sub("", _REFUSED.sub("", _PREFIX.sub("", text), count=1)).strip()
    return bare or text


def is_stock(text: str) -> bool:
    """Return whether a line only reports that something failed, without naming the problem."""
    bare = _PREFIX.sub("", _ASIDE.sub("", text.strip()[:400]))
    if bare.endswith(":") and is_refused_push(text):
        return True  # the lines below state the reason
    parts = [part.strip(" .:!,;-") for part in re.split(r":\s|:$", bare)]
    return all(not part or _STOCK.fullmatch(part) or _topic(part) for part in parts) and _says_failure(parts)


def is_announcement(text: str) -> bool:
    """Return whether a line only says that an error follows below, such as `Hit an error while pushing:`."""
    return _ANNOUNCES.fullmatch(_PREFIX.sub("", text[:400]).strip()) is not None


def is_refused_push(text: str) -> bool:
    """Return whether a line is the Convex CLI's report that a deployment refused a push.

    Such a report does not have to state the reason.
    """
    return _REFUSED.match(_PREFIX.sub("", text[:400])) is not None


def shorten_error(text: str, limit: int = MAX_ERROR) -> str:
    """Shorten an error to one line.

    Absolute paths are reduced to file names, timings are removed, and whitespace is folded.
    """
    text = " ".join(_IMPORT_TYPE.sub("", text[:8000]).split())  # fold first, because the patterns expect single spaces
    text = _EQUALITY.sub("", _TIMING.sub("", _ABSOLUTE.sub(_tail, text)))
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def normalise_error(text: str) -> str:
    """Replace the variable parts of an error with placeholders: paths, URLs, ids, numbers and timings."""
    text = text[:MAX_NORMALISED]
    for pattern, placeholder in _NORMAL:
        text = pattern.sub(placeholder, text)
    return text.strip().lower()


def _tail(match: re.Match[str]) -> str:
    return match["name"]


def _topic(part: str) -> bool:
    """Return whether the text before a colon only names an activity, such as `convex dev` or `Linting (eslint)`."""
    return (
        bool(re.fullmatch(r"[\w./-]+(?: [\w./()-]+){0,6}", part))
        and not part.endswith(("Error", "Exception"))
        and "timed out" not in part.lower()
    )


def _says_failure(parts: list[str]) -> bool:
    return not any(parts) or any(_STOCK.fullmatch(part) for part in parts if part)


MAX_LINE = 20_000
"""Maximum number of characters that are read from a line. A line of several megabytes is data, not an error."""
MAX_LINES = 50_000
CACHED_FAILURES = 2
"""Number of failures whose parsed logs are cached.

Each log is read several times and can be tens of megabytes large. Only a few logs are cached, because the cache keeps
the evidence in memory.
"""
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
_LINT_WORDS = frozenset({"lint", "linting", "eslint", "ruff", "flake", "pylint", "biome"})
_BUILDS: tuple[frozenset[str], ...] = (
    frozenset({"deploy", "deploying", "deployment", "dev", "push"}),
    frozenset({"tsc", "types", "typecheck", "typechecking", "mypy", "pyright"}),
    frozenset({"install", "installing", "pip", "npm", "bun", "yarn", "pnpm", "dependencies"}),
    frozenset({"build", "building", "compile", "compiling", "bundle"}),
)
_BUILD_WORDS = frozenset().union(*_BUILDS)
_ALIASES = (_TEST_WORDS, _LINT_WORDS, *_BUILDS)


class LogLine(NamedTuple):
    """One line of a log: its number, the harness's mark before it, and the text without mark and tool tag."""

    number: int
    mark: str
    """Mark that starts a section of the log, such as `ok`, `cmd` or `error`; empty if no section starts with this line.
    """
    text: str


class LogSection(NamedTuple):
    mark: str
    heading: str
    lines: tuple[LogLine, ...]
    """Lines of the section, including its heading."""


def first_log(evidence: Evidence) -> Document | None:
    """Return the first log that is not blank. The log of reference answers and empty answers is skipped."""
    logs = (document for document in evidence.of("log") if document.path != REFERENCE_RUNS)
    return next((document for document in logs if document.text.strip()), None)


def clean(text: str) -> str:
    """Remove terminal codes and control characters from a line, and cut it to `MAX_LINE`."""
    text = text[:MAX_LINE]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return _CONTROL.sub("", text) if not text.isprintable() else text


@lru_cache(CACHED_FAILURES)
def lines_of(document: Document, first: int = 1) -> list[LogLine]:
    """Return the lines of a log without tags such as `[vitest] `. The middle of a very long log is left out."""
    lines, half = document.lines, MAX_LINES // 2
    # Only the lines that are kept are numbered and parsed: a list of thirty million blank lines took 2 GB.
    numbered: Iterable[tuple[int, str]] = enumerate(lines, first)
    if len(lines) > MAX_LINES:
        last = enumerate(lines[-half:], first + len(lines) - half)
        numbered = chain(enumerate(lines[:half], first), last)
    return [_line(number, clean(text)) for number, text in numbered]


def plain_lines(text: str) -> list[LogLine]:
    """Return the lines of a text that is not a log, such as a recorded reason."""
    lines = [LogLine(number, "", clean(line)) for number, line in enumerate(text.split("\n")[:MAX_LINES], 1)]
    return _of_last_command(lines)


@lru_cache(CACHED_FAILURES)
def failed_sections(evidence: Evidence) -> list[LogLine]:
    """Return the log lines of the failed step; all lines if no section of the log reports an error."""
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
    """Return whether the log has an error section for the failed step.

    Also returns True if the log has no error sections, or if the failed step is unknown.
    """
    log, step = first_log(evidence), evidence.eval.failed_step
    errors = [s for s in _sections(lines_of(log)) if s.mark == "error"] if log else []
    return not step or not errors or any(_related(step, section.heading) for section in errors)


def reference_errors(evidence: Evidence) -> tuple[LogLine, ...]:
    """Return the headings of errors that occurred while the reference answer was set up."""
    log = first_log(evidence)
    lines = lines_of(log) if log else []
    return tuple(line for line in lines if line.mark == "error" and line.text.startswith(REFERENCE))


def failed_log(evidence: Evidence) -> Excerpt | None:
    """Return the unmodified log lines of the failed step; None if there is no log."""
    log, lines = first_log(evidence), failed_sections(evidence)
    if log is None or not lines:
        return None
    first, last = lines[0].number, lines[-1].number
    return Excerpt(role="log", path=log.path, first=first, text="\n".join(log.lines[first - 1 : last]))


def names_tests(step: str | None) -> bool:
    """Return whether a step's name indicates that it runs the tests."""
    return bool(step) and bool(_TEST_WORDS & _words(step or ""))


def names_build(step: str | None) -> bool:
    """Return whether a step's name indicates that it installs, checks types, builds or deploys."""
    return bool(_BUILD_WORDS & _words(step or ""))


def names_lint(step: str | None) -> bool:
    """Return whether a step's name indicates that it runs a linter."""
    return bool(_LINT_WORDS & _words(step or ""))


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
    """Remove the output of a step's first command if the step ran a second command.

    A step with two commands reports both, as `Initial codegen (exit 1):` and `convex dev:`, each followed by its
    output.
    """
    # Only the second command decides the step. The initial codegen of the Convex runner fails every time, even for
    # evals that pass, because no deployment is configured yet.
    earlier = next((at for at, line in enumerate(lines) if _EARLIER.fullmatch(line.text)), None)
    if earlier is None:
        return list(lines)
    later = next((at for at in range(earlier + 1, len(lines)) if _LATER.fullmatch(lines[at].text)), None)
    return list(lines) if later is None else [*lines[:earlier], *lines[later + 1 :]]


def _failing(evidence: Evidence, sections: Sequence[LogSection]) -> int | None:
    """Return the index of the section that reports the failed step; None if no section reports an error.

    The last error section whose heading names the step is used. If no heading names the failed step, and there are as
    many error sections as failed steps, the n-th section belongs to the n-th failed step. Otherwise, the last error
    section is used.
    """
    errors = [at for at, s in enumerate(sections) if s.mark == "error" and not s.heading.startswith(REFERENCE)]
    step = evidence.eval.failed_step
    step_errors = [at for at in errors if step and _related(step, sections[at].heading)]
    failed = [s.name for s in evidence.steps if s.status == "failed"]
    if step_errors:
        # The Convex runner logs the error of a step twice. The second copy has the name of the step as its heading.
        return step_errors[-1]
    if step in failed and len(failed) == len(errors):
        return errors[failed.index(step)]
    return errors[-1] if errors else None


def _belonging(evidence: Evidence, sections: Sequence[LogSection], at: int) -> Sequence[LogSection]:
    """Return the section of the failed step.

    If this section has only a stock heading, also return the section of the failed command, which can be below or
    above, and all sections between the two.
    """
    failing = sections[at]
    if any(line.text.strip() for line in failing.lines[1:]) or not is_stock(failing.heading):
        return [failing]
    words = f"{failing.heading} {evidence.eval.failed_step or ''}"
    after = [index for index in range(at + 1, min(at + 3, len(sections))) if _is_command(sections[index], words)]
    before = [index for index in range(at) if _is_command(sections[index], words)]
    if after:
        return sections[at : after[0] + 1]
    # If several sections above match, the first is used, because the code under test can have printed the others.
    return sections[before[0] : at + 1] if before else [failing]


def _is_command(section: LogSection, words: str) -> bool:
    return section.mark == "cmd" and _related(words, section.heading)


def _related(step: str, heading: str) -> bool:
    """Return whether two texts refer to the same step, such as `deploy` and `convex dev`."""
    return any(kind & _words(step) and kind & _words(heading) for kind in _kinds(step))


def _kinds(step: str) -> list[frozenset[str]]:
    kinds = [kind for kind in _ALIASES if kind & _words(step)]
    return kinds or [frozenset(_words(step))]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text[:500].lower()))

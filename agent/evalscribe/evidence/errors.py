"""Values of located errors, and the shortening and normalisation of error messages."""

import re
from typing import NamedTuple

from evalscribe.model.evidence import Severity

PATH_LINE = re.compile(r"(?P<path>[^\s:()'\"<>|]{1,400}\.\w{1,8})[:(](?P<line>\d{1,7})\b")


class ParsedError(NamedTuple):
    """One error in tool output: its lines and the places that it names, as spelled there."""

    tool: str
    error: str
    first: int
    last: int
    code: str | None = None
    severity: Severity = "error"
    places: tuple[tuple[str, int], ...] = ()
    test: str | None = None


def place_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the first `path:line` or `path(line` of a text, if any."""
    match = PATH_LINE.search(text[:2000])
    return ((match["path"], int(match["line"])),) if match else ()


MAX_ERROR = 240
MAX_NORMALISED = 1000
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
    | no[ ][A-Z_]{3, 40}[ ]set,[ ]run[ ].{1, 80}
    | unable[ ]to[ ]start[ ]push[ ]to[ ]\S+
    | found[ ]\d+[ ](?:errors?|problems?|warnings?).{{0,120}}
    | \d+[ ](?:errors?|problems?|warnings?|tests?)\b.{{0,120}}
    | (?:none|null|undefined|n/a|failed|failure|fail)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_REFUSED = re.compile(r"error fetching \w+ {1,2}\S+ 4\d\d [\w ]{1,40}: ", re.IGNORECASE)
"""Prefix of the Convex CLI before a deployment's reason for refusing a push."""
_ASIDE = re.compile(r" \([^()]*\)")
_IMPORT_TYPE = re.compile(r'import\("[^"]{0,1000}"\)\.')
_ABSOLUTE = re.compile(
    r"(?<![\w.:/])(?:/(?:tmp|home|root|var|private|Users|opt|usr|mnt|srv)|[A-Za-z]:)?[\\/](?:[\w.@+~-]+[\\/])*"
    r"(?P<name>[\w.@+~-]+\.\w{1,8})\b"
)
"""An absolute path to a file. URL paths such as `/api/hello` do not match."""
_TIMING = re.compile(r"(?<!\bafter)(?<!\bwithin)\s+\(?\d+(?:\.\d+)?\s?(?:ms|s)\)?$")
_EQUALITY = re.compile(r"\s+// Object\.is equality$")
_NORMAL: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"https?://[^\s'\"`)]+"), "<url>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:\.{0,2}[\\/])?(?:[\w.@+~-]+[\\/])+[\w.@+~-]+(?::\d+)*"), "<path>"),
    (re.compile(r"(['\"`])(?=[^'\"`]*\d)[^'\"`\s]{12,}\1"), "<id>"),
    (re.compile(r"\b(?:0x[0-9a-f]+|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}|\d{7,})\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?=\w*\d)(?=\w*[a-z])[a-z0-9_]{16,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"(?<![\w.])[+-]?\d+(?:[.,:]\d+)*(?:\s?(?:ms|s|%|kB|MB)\b)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def strip_prefixes(text: str) -> str:
    """Remove prefixes that a harness adds: `[…]` groups, marks, `Error:`, `Uncaught`."""
    text = text.strip()[:4000]
    bare = _PREFIX.sub("", _REFUSED.sub("", _PREFIX.sub("", text), count=1)).strip()
    return bare or text


def is_stock(text: str) -> bool:
    """Return whether a line only says that something failed, and not what."""
    bare = _PREFIX.sub("", _ASIDE.sub("", text.strip()[:400]))
    if bare.endswith(":") and is_refused_push(text):
        return True  # the reason is in the lines below
    parts = [part.strip(" .:!,;-") for part in re.split(r":\s|:$", bare)]
    return all(not part or _STOCK.fullmatch(part) or _topic(part) for part in parts) and _says_failure(parts)


def is_refused_push(text: str) -> bool:
    """Return whether the Convex CLI reports in this line that a deployment refused a push, with or without the
    reason."""
    return _REFUSED.match(_PREFIX.sub("", text[:400])) is not None


def shorten_error(text: str, limit: int = MAX_ERROR) -> str:
    """Shorten an error to one line: no absolute paths or timings, white space folded."""
    text = " ".join(_IMPORT_TYPE.sub("", text[:8000]).split())  # folded first: the patterns below look for blanks
    text = _EQUALITY.sub("", _TIMING.sub("", _ABSOLUTE.sub(_tail, text)))
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def normalise_error(text: str) -> str:
    """Replace the variable parts of an error with placeholders: paths, ids, numbers, timings and hex."""
    text = text[:MAX_NORMALISED]
    for pattern, placeholder in _NORMAL:
        text = pattern.sub(placeholder, text)
    return text.strip().lower()


def _tail(match: re.Match[str]) -> str:
    return match["name"]


def _topic(part: str) -> bool:
    """Return whether a part before a colon only names an activity: `convex dev`, `Linting (eslint)`, `vitest`."""
    return (
        bool(re.fullmatch(r"[\w./-]+(?: [\w./()-]+){0,6}", part))
        and not part.endswith(("Error", "Exception"))
        and "timed out" not in part.lower()
    )


def _says_failure(parts: list[str]) -> bool:
    return not any(parts) or any(_STOCK.fullmatch(part) for part in parts if part)

"""The words of reports by people: labels, kinds, names of evals. One place that knows how they are spelled."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from evalscribe.model.analysis import FindingSummary
from evalscribe.model.finding import CLASSIFICATIONS, NOT_THE_MODEL, CauseKind, Classification

KINDS: dict[str, CauseKind] = {
    "infrastructure": "infrastructure",
    "infra": "infrastructure",
    "harness": "harness",
    "grader": "grader",
    "lint": "lint",
    "task": "task",
    "model": "model",
}
STEPS = ("filesystem", "install", "deploy", "build", "tsc", "types", "typecheck", "eslint", "lint", "test", "tests")
"""Steps that are known as such even where a report only drops the word."""
LABEL = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    + "|".join(label.replace("_", r"[\s_-]") for label in CLASSIFICATIONS)
    + r")S?(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
FOREIGN_LABEL = re.compile(r"(?<![A-Za-z0-9_])[A-Z]{3,}(?:_[A-Z]+)+(?![A-Za-z0-9_])")
"""A label of somebody else's set, such as `HARNESS_FAILURE`."""
NOT_IN_FORCE = re.compile(
    r"\b(not|\w+n't|never|no longer|first|initially|originally|previously|formerly|earlier|was|were|"
    r"instead of|rather than|changed from|reclassified from|thought|nicht|kein|keine|zuerst|vorher|bisher)\b[^.;]*$",
    re.IGNORECASE,
)
NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)*[A-Za-z0-9][\w.-]*(?:#\d+)?")
FILE = re.compile(r"\.[A-Za-z]{1,5}$")
SUPERSEDED = re.compile(f"(?:{LABEL.pattern})[*`~]*\\s*(?:→|->|=>)\\s*(?=[*`]*{LABEL.pattern})", re.IGNORECASE)
"""A label that an arrow replaces by another."""
NOTHING = re.compile(r"^\W*(none|nothing|no actions?|n/a)\b", re.IGNORECASE)
"""How people say that there is nothing to say."""
FRACTION = re.compile(r"\d+(?:[/.,]\d+)?\s*%?")


_MAPPED: tuple[tuple[frozenset[str], Classification, CauseKind], ...] = (
    (frozenset(("harness", "runner")), "OVERLY_STRICT", "harness"),
    (frozenset(("test", "tests", "grader", "eval")), "OVERLY_STRICT", "grader"),
    (frozenset(("model", "genuine")), "MODEL_FAULT", "model"),
    (frozenset(("task", "prompt")), "AMBIGUOUS_TASK", "task"),
)
"""Meaning of words in labels other than the four; the first match wins. `HARNESS_FAILURE` is the eval's fault."""


class WrittenLabel(NamedTuple):
    """A label as written. `classification` is None for a label that is none of the four and has no known word."""

    classification: Classification | None
    kind: CauseKind | None
    foreign: str | None = None
    """The label as written, if it is none of the four."""


def label_in(text: str) -> WrittenLabel | None:
    """The label in force that a short text states, or None where it states none."""
    text, said = SUPERSEDED.sub("", text), 0
    for match in LABEL.finditer(text):
        before, said = text[said : match.start()], match.end()
        if not NOT_IN_FORCE.search(before):
            return WrittenLabel(_classification(match.group()), kind_in(text[match.end() :]))
    foreign = FOREIGN_LABEL.search(text)
    if foreign is None or LABEL.search(text):
        return None
    return _mapped(foreign.group(), kind_in(text[foreign.end() :]))


def _mapped(foreign: str, said: CauseKind | None) -> WrittenLabel:
    """Map another label to one of the four; `said` is the kind written beside it."""
    words = set(foreign.lower().split("_"))
    classification, kind = next(((one, kind) for known, one, kind in _MAPPED if words & known), (None, None))
    return WrittenLabel(classification, said or kind or _kind_of_words(foreign), foreign)


def is_label(text: str) -> bool:
    """Whether a text is a label and nothing else but a remark in parentheses."""
    bare = re.sub(r"^\W+|\W+$", "", re.sub(r"\([^()]*\)", "", text))
    return bool(LABEL.fullmatch(bare) or FOREIGN_LABEL.fullmatch(bare))


def kind_in(after: str) -> CauseKind | None:
    """The kind named in the parenthesis that follows a label."""
    remark = re.match(r"[\s*`]*[(\[]([^()\[\]]{1,60})[)\]]", after)
    return _kind_of_words(remark.group(1)) if remark else None


def blame_in(text: str) -> WrittenLabel | None:
    """What a `Classification` in words of its own says of the harness or the infrastructure."""
    kind = _kind_of_words(text) if len(text) <= 80 else None
    return WrittenLabel(None, kind) if kind in NOT_THE_MODEL else None


def _classification(text: str) -> Classification:
    spelled = re.sub(r"[\s-]", "_", text.upper())
    return next(label for label in CLASSIFICATIONS if spelled in (label, label + "S"))


def _kind_of_words(text: str) -> CauseKind | None:
    """A kind that a remark names; only what says that the code was never judged may stand among other words."""
    words = re.split(r"[\s_,/-]+", text.lower())
    said = [KINDS[word] for word in words if word in KINDS]
    broken = next((kind for kind in said if kind in NOT_THE_MODEL), None)
    return broken or (said[0] if len(words) == 1 and said else None)


def is_name(text: str) -> bool:
    """Whether a text can be the name of an eval: one slug, with or without its category."""
    return bool(
        len(text) <= 200
        and NAME.fullmatch(text)
        and not FRACTION.fullmatch(text)
        and not LABEL.fullmatch(text)
        and not FOREIGN_LABEL.fullmatch(text)
        and not FILE.search(text)
    )


def is_marked_name(text: str) -> bool:
    """Whether a text looks like an eval's name even in running words: it has a slash, a digit or an inner mark."""
    return is_name(text) and bool(re.search(r"[/\d_]|\w-\w", text)) and bool(re.search(r"[A-Za-z]", text))


def bare_name(name: str) -> str:
    return name.rpartition("/")[2]


def key_of(text: str) -> str:
    """A field's or column's key without decoration: `**Failed step (1):**` is `failed step`."""
    return re.sub(r"[^\w\s]|[\d_]", " ", re.sub(r"\([^()]*\)", "", text)).strip().lower().replace("  ", " ")


TOKEN = re.compile(r"#\d+\b|[A-Za-z0-9][\w.-]*(?:/[\w.-]+)*(?:#\d+)?")


class MentionedEvals:
    """Finds the evals of a report in running text: by path, by bare name, or by number (`#11`)."""

    def __init__(self, findings: Sequence[FindingSummary]) -> None:
        self.paths = {one.eval for one in findings}
        self.numbered: dict[str, list[str]] = {}
        for one in findings:
            self.numbered.setdefault(f"#{one.n}", []).append(one.eval)
        times = Counter(bare_name(path) for path in self.paths)
        self.bare = {name: path for path in self.paths if times[name := bare_name(path)] == 1 and is_marked_name(name)}

    def in_text(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for token in TOKEN.findall(text) for path in self._evals(token)))

    def _evals(self, token: str) -> Sequence[str]:
        """A token is an eval's path, its bare name, its number, or the path of a file of it."""
        token = token.rstrip(".")
        if token in self.paths:
            return [token]
        if token in self.numbered:
            return self.numbered[token]
        parts = token.split("/")
        ends = ("/".join(parts[n : n + 2]) for n in range(len(parts) - 1))
        within = [path for path in ends if path in self.paths]
        return within or ([self.bare[token]] if token in self.bare else [])

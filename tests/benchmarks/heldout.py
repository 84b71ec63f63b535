"""Test the rules on failures that they have not seen: real failures, changed so that the right label is still known."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from evalscribe.judging.rules.engine import RULES, RulesJudge
from evalscribe.judging.rules.facts import Facts
from evalscribe.model.evidence import Document, Evidence, PackedEvidence
from evalscribe.model.finding import Failure, Verdict

BOUND = re.compile(r"\b(?:const|let|function|def)\s+([a-z]+[A-Z_]\w*)")
SILENT = "[error] the step failed"
BLAMING = RULES[: 1 + max(place for place, rule in enumerate(RULES) if rule.__name__.startswith("gap_"))]
"""The rules up to the last one that can blame a note.

The other rules and the guess are left out because they are slow.
"""

OF_NOTES = [rule for rule in BLAMING if rule.__name__.startswith("gap_")]


class Known(Protocol):
    """A failure with the maintainers' label and our verdict."""

    @property
    def evidence(self) -> Evidence: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def label(self) -> str: ...
    @property
    def right(self) -> bool: ...


@dataclass(frozen=True)
class Share:
    """A share, as a number out of a total."""

    hits: int
    number: int

    def __str__(self) -> str:
        return f"{self.hits}/{self.number} ({self.hits / self.number:.1%})" if self.number else "0/0"


def decide(evidence: Evidence) -> Verdict:
    return RulesJudge().decide(_case(evidence))


def swapped_notes(evidences: Sequence[Evidence]) -> tuple[Share, Share]:
    """Give each failure the notes of every other eval.

    Return how often they are blamed, within and across categories.
    """
    notes = {e.eval.path: e.of("known_gaps") for e in evidences if e.of("known_gaps")}
    fired: dict[bool, list[bool]] = {True: [], False: []}
    for evidence in (e for e in evidences if e.of("output")):
        for path, documents in notes.items():
            if path != evidence.eval.path:
                same = path.split("/")[0] == evidence.eval.category
                fired[same].append(_gap(with_documents(evidence, "known_gaps", documents)))
    return _share(fired[True]), _share(fired[False])


def one_line_less(evidences: Sequence[Evidence]) -> tuple[Share, Counter[str]]:
    """Use the reference without one line as the output, and an empty log.

    Return how often a note is blamed, by rule.
    """
    blamed: Counter[str] = Counter()
    number = 0
    for evidence in {e.eval.path: e for e in evidences if e.of("known_gaps") and e.of("expected")}.values():
        for damaged in _damaged(evidence):
            number += 1
            verdict = decide(damaged)
            blamed[verdict.rule or "(none)"] += verdict.classification == "KNOWN_GAP"
    return Share(blamed.total(), number), +blamed


def unchanged(evidences: Sequence[Evidence]) -> Mapping[str, Share]:
    """Return how often the label stays the same if names or the order of files change, or if the log is missing."""
    changes = {"renamed": renamed, "reordered": reordered, "without the log": silent}
    whole = [e for e in evidences if e.of("output")]
    before = [decide(e).classification for e in whole]
    return {
        name: _share(decide(change(e)).classification == label for e, label in zip(whole, before, strict=True))
        for name, change in changes.items()
    }


def siblings(of: Sequence[Known]) -> Share:
    """Return how often the maintainers gave an eval the same label if it failed at the same step in two runs."""
    alike: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for one in of:
        alike[one.evidence.eval.path, one.evidence.eval.failed_step].append(one.label)
    return _share(a == b for labels in alike.values() for a, b in combinations(labels, 2))


def with_documents(evidence: Evidence, role: str, documents: Iterable[Document]) -> Evidence:
    """Return the evidence with other documents for one role."""
    others = (d for d in evidence.documents if d.role != role)
    return evidence.model_copy(update={"documents": (*others, *documents)})


def renamed(evidence: Evidence) -> Evidence:
    """Return the evidence with every constant and function of the reference renamed in all documents."""
    own = sorted({name for d in evidence.of("expected") for name in BOUND.findall(d.text)})
    if not own:
        return evidence
    pattern = re.compile(rf"(?<![\w$])({'|'.join(map(re.escape, own))})(?![\w$])")
    documents = (d.model_copy(update={"text": pattern.sub(r"\1Renamed", d.text)}) for d in evidence.documents)
    return evidence.model_copy(update={"documents": tuple(documents)})


def reordered(evidence: Evidence) -> Evidence:
    return evidence.model_copy(update={"documents": evidence.documents[::-1]})


def silent(evidence: Evidence) -> Evidence:
    said = f"=== Eval: {evidence.eval.path} ===\n{SILENT}"
    return with_documents(evidence, "log", (Document(role="log", path="run.log", text=said),))


def summary(of: Sequence[Known]) -> str:
    evidences = [one.evidence for one in of]
    within, across = swapped_notes(evidences)
    damaged, by_rule = one_line_less(evidences)
    stays = ", ".join(f"{name} {share}" for name, share in unchanged(evidences).items())
    lines = [
        f"notes of another eval taken for its own: {within} within a category, {across} across",
        f"notes blamed for a line that no note names: {damaged} {dict(by_rule) or ''}".rstrip(),
        f"the label stays: {stays}",
        f"maintainers agree with themselves, same eval and step in two runs: {siblings(of)}",
    ]
    return "\n".join(["== held out", *lines])


def _damaged(evidence: Evidence) -> Iterator[Evidence]:
    """Yield one variant per line of the reference's code that is left out.

    Lines that share a longer word with a note are not left out.
    """
    spoken = {word.lower() for d in evidence.of("known_gaps") for word in re.findall(r"\w{4,}", d.text)}
    quiet = silent(evidence)
    for document in (d for d in evidence.of("expected") if not d.path.endswith((".json", ".txt", ".md", ".lock"))):
        for number, line in enumerate(document.lines):
            words = {word.lower() for word in re.findall(r"\w{4,}", line)}
            if words and not words & spoken:
                rest = "\n".join((*document.lines[:number], *document.lines[number + 1 :]))
                yield with_documents(quiet, "output", _as_output(evidence, document, rest))


def _as_output(evidence: Evidence, changed: Document, text: str) -> Iterator[Document]:
    for document in evidence.of("expected"):
        own = text if document is changed else document.text
        yield document.model_copy(update={"role": "output", "text": own})


def _gap(evidence: Evidence) -> bool:
    facts = Facts(_case(evidence))
    if not any(rule(facts) for rule in OF_NOTES):
        return False  # most notes of other evals fit no failure, so the other rules need not be tried
    decided = next(((rule, decision) for rule in BLAMING if (decision := rule(facts))), None)
    return decided is not None and decided[0] in OF_NOTES and decided[1].label == "KNOWN_GAP"


def _case(evidence: Evidence) -> Failure:
    return Failure(evidence=evidence, packed=PackedEvidence(excerpts=()))


def _share(found: Iterable[bool]) -> Share:
    every = list(found)
    return Share(sum(every), len(every))

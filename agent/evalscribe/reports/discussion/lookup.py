"""Answer questions about a report by lookup, without a model, and recognise the commands that a user types."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from evalscribe.model.analysis import CitationSummary, FindingSummary, RecommendationSummary
from evalscribe.model.evidence import Document
from evalscribe.model.finding import RECOMMENDATION_GROUPS, label_and_confidence
from evalscribe.model.protocols import OnText
from evalscribe.reports.discussion.dossier import (
    AROUND,
    DiscussionAnswer,
    EvidenceMissing,
    NumberedFinding,
    ReportEvidence,
    SearchHit,
    rank_report,
    search_report,
)
from evalscribe.text import cut, pluralise, printable

MOST_HITS = 10
MOST_NEAR = 4
"""Maximum number of displayed hits if no hit contains all of the words."""
STOP_WORDS = frozenset(
    (
        *("a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can"),
        *("could", "did", "do", "does", "explain", "find", "for", "from", "get", "give", "had", "has", "have", "how"),
        *("i", "if", "in", "into", "is", "it", "its", "know", "many", "me", "mean", "much", "my", "no"),
        *("not", "of", "on", "or", "our", "please", "show", "so", "tell", "than", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "those", "to", "up", "was", "we", "were", "what", "when", "where"),
        *("which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your"),
    )
)
"""Common words that are left out when a search for all words of the question has found nothing."""
WIDTH = 200
"""Maximum number of characters of a line of evidence that are displayed."""
HELP = """\
4                    finding 4 in the report, and the lines that it quotes, in their context
category/name        the same for the finding on this eval
lint                 the findings with this step, label or kind, one line each
R2                   recommendation 2 and its findings
any other words      the places in the report and the evidence that contain all of them
implement R2         propose the change, show it, and ask before anything is written
q                    end"""
_SHOW = re.compile(r"(?:please\s+)?(?:(?:show|explain)(?:\s+me)?\s+)?(?:finding\s+|#)?(.+?)\s*[?.!]*", re.IGNORECASE)
_TOKEN = re.compile(r"[\w./#@-]*\w")
_PUNCTUATION = re.compile(r"[\s.,;:!?\u2026\u2013-]*")
"""Matches a question that consists only of punctuation. Such a question is not searched for, because it would match
every text.
"""


NOT_SEARCHED = "Missing evidence was not searched."


class LookupDiscussion:
    def __init__(self, dossier: ReportEvidence) -> None:
        self._dossier = dossier

    async def ask(self, question: str, on_text: OnText) -> DiscussionAnswer:
        # Evidence can contain control characters that a terminal would obey.
        text = "\n".join(printable(line.expandtabs(4)) for line in self._lines(question))
        on_text(text)
        return DiscussionAnswer(question=question, text=text)

    def _lines(self, question: str) -> Iterator[str]:
        if question.strip().casefold() in ("help", "?", "h"):
            yield from HELP.split("\n")
            return
        yield from _separated(self._answers(question)) or self._nothing()

    def _answers(self, question: str) -> list[Iterable[str]]:
        """Try several lookups in turn, and return the first result that is not empty.

        The lookups are: the item that a command names, findings that match all words, places with all words, items that
        the question names anywhere, findings that match any word, and the most similar places.
        """
        match = _SHOW.fullmatch(question.strip())
        tokens = _TOKEN.findall(question)
        return (
            self._details([match[1]] if match else [])
            or self._findings_with(tokens, all)
            or self._search_hits(question)
            or self._details(tokens)
            or self._findings_with(tokens, any)
            or self._near(tokens)
        )

    def _details(self, names: Sequence[str]) -> list[Iterable[str]]:
        return [
            self._topic(item) if isinstance(item, NumberedFinding) else self._recommendation(item)
            for item in self._find_items(names)
        ]

    def _findings_with(self, words: Sequence[str], which: Callable[[Iterable[bool]], bool]) -> list[Iterable[str]]:
        """Return one line for each finding whose step, label and kind of cause match the words.

        `which` is `all` if every word must match, or `any` if one word is enough.
        """
        folded_words = [word.casefold() for word in words]
        topics = [
            topic for topic in self._dossier.topics.values() if which(word in _kinds(topic) for word in folded_words)
        ]
        lines = [
            f"{topic.n}. {topic.title}: {_label(topic.first)}, {topic.first.step or 'no step'}" for topic in topics
        ]
        return [lines] if folded_words and lines else []

    def _search_hits(self, question: str) -> list[Iterable[str]]:
        words = [] if _PUNCTUATION.fullmatch(question) else question.split()
        return [_hit(hit) for hit in search_report(self._dossier, words, MOST_HITS)]

    def _near(self, words: Sequence[str]) -> list[Iterable[str]]:
        """Return the places that contain all of the words. Stop words are ignored.

        If no place contains all of the words, return the most similar places.
        """
        words = _content(words)
        if hits := search_report(self._dossier, words, MOST_HITS):
            return [*map(_hit, hits)]
        hits = rank_report(self._dossier, words, MOST_NEAR)
        missing = [[NOT_SEARCHED]] if self._dossier.missing() else []
        return [["No place has all of these words. The best matches:"], *map(_hit, hits), *missing] if hits else []

    def _find_items(self, names: Sequence[str]) -> Iterator[NumberedFinding | RecommendationSummary]:
        """Yield each finding or recommendation to which a name refers. No item is yielded twice.

        A name is a recommendation's id, a finding's number, an eval's path, or the last part of an eval's path.
        """
        seen_ids = set()
        for name in names:
            item = self._recommendation_called(name) or self._topic_called(name)
            if item and id(item) not in seen_ids:
                seen_ids.add(id(item))
                yield item

    def _recommendation_called(self, name: str) -> RecommendationSummary | None:
        return self._dossier.recommendation(name.upper())

    def _topic_called(self, name: str) -> NumberedFinding | None:
        topics = self._dossier.topics
        if name.removeprefix("#").isdecimal():
            return topics.get(int(name.removeprefix("#")))
        exact = [topic for topic in topics.values() if name in topic.paths]
        bare = [topic for topic in topics.values() if any(path.rpartition("/")[2] == name for path in topic.paths)]
        matches = exact or bare
        return matches[0] if len(matches) == 1 else None

    def _nothing(self) -> Iterator[str]:
        yield "Nothing in the report or in the evidence has any of these words."
        yield from self.suggestions()
        if self._dossier.missing():
            yield NOT_SEARCHED

    def suggestions(self) -> Iterator[str]:
        """Yield a line with example questions that this report can answer."""
        topics = list(self._dossier.topics.values())
        uncertain = [topic for topic in topics if topic.first.uncertain]
        steps = Counter(topic.first.step for topic in topics if topic.first.step)
        ids = [item.id for item in self._dossier.analysis.recommendations][:1]
        examples = [
            *(f"`{topic.n}` ({topic.title})" for topic in (uncertain or topics)[:1]),
            *(f"`{id}`" for id in ids),
            *(f"`{step}`" for step, _ in steps.most_common(1)),
        ]
        yield f"Try {', '.join([*examples, 'a word of an error'])}, or `help`."

    def _topic(self, topic: NumberedFinding) -> Iterator[str]:
        yield from _finding_lines(topic)
        try:
            evidence = self._dossier.evidence(topic.n)
        except EvidenceMissing as absent:
            yield from (line for citation in topic.first.citations for line in _quoted(citation))
            yield from ("", f"The finding's evidence is missing: {absent}")
            return
        for citation in topic.first.citations:
            document = evidence.document(citation.role, citation.path)
            # An unverified quotation has no place in the document.
            holds = document is not None and citation.status != "unverified"
            yield from _with_context(citation, document) if document and holds else _quoted(citation)
        yield from (
            "",
            "Evidence",
            *(f"  {d.role:<10}  {d.path} ({pluralise(d.line_count, 'line')})" for d in evidence.documents),
        )
        yield from (f"  missing: {reason}" for reason in evidence.missing)

    def _recommendation(self, item: RecommendationSummary) -> Iterator[str]:
        passes = ", would pass" if item.would_pass else ""
        yield f"{item.id} ({RECOMMENDATION_GROUPS[item.group]}{passes}): {item.text}"
        for topic in self._dossier.topics.values():
            if set(topic.paths) & set(item.evals):
                yield from ("", *_finding_lines(topic))


def _content(words: Iterable[str]) -> list[str]:
    """Remove stop words, and strip the punctuation around the remaining words."""
    bare = (word.strip(".,;:!?\"'()`") for word in words)
    return [word for word in bare if word and word.casefold() not in STOP_WORDS]


def _separated(answers: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of all answers, with an empty line between two answers."""
    return [line for n, answer in enumerate(answers) for line in (*[""] * bool(n), *answer)]


def _kinds(topic: NumberedFinding) -> set[str]:
    finding = topic.first
    return {kind.casefold() for kind in (finding.step, finding.classification, finding.cause_kind) if kind}


def _finding_lines(topic: NumberedFinding) -> Iterator[str]:
    """Yield lines with what the report states about a finding."""
    first = topic.first
    yield f"{topic.n}. {topic.title}: {_label(first)}"
    facts = {"Step": first.step, "Error": first.error, "Cause": first.cause, "Judge": _judge(first)}
    yield from (f"{name:<8}{fact}" for name, fact in facts.items() if fact)
    if first.reviewer and first.reviewer.note:
        yield f"{'Review':<8}{first.reviewer.note}"
    if reasoning := first.reasoning or first.unclassified:
        yield from ("", *reasoning.split("\n"))
    for finding in topic.findings[1:]:
        if (finding.error, finding.reasoning) != (first.error, first.reasoning):
            yield from ("", f"{finding.eval}: {finding.error}", *(finding.reasoning or "").split("\n"))


def _label(finding: FindingSummary) -> str:
    label = finding.classification or ("UNCLASSIFIED" if finding.unclassified else "no label")
    kind = f" ({finding.cause_kind})" if finding.cause_kind else ""
    return f"{label}{kind}{', uncertain' if finding.uncertain else ''}"


def _judge(finding: FindingSummary) -> str | None:
    judge = finding.judge
    return f"{label_and_confidence(judge.classification, judge.confidence, judge.id)}, {judge.id}" if judge else None


def _quoted(citation: CitationSummary) -> Iterator[str]:
    """Yield the place and the lines of a quotation, without any context lines."""
    mark = "" if citation.status == "verified" else f" ({citation.status})"
    yield from ("", f"{_place(citation)}{mark}")
    for number, line in enumerate(citation.text.split("\n"), citation.first):
        yield _numbered(number, line, cited=True)


def _with_context(citation: CitationSummary, document: Document) -> Iterator[str]:
    first, last = max(1, citation.first - AROUND), min(len(document.lines), citation.last + AROUND)
    yield from ("", _place(citation))
    for number in range(first, last + 1):
        cited = citation.first <= number <= citation.last
        yield _numbered(number, document.lines[number - 1], cited=cited)


def _hit(hit: SearchHit) -> Iterator[str]:
    yield f"{f'{hit.finding} ' if hit.finding else ''}{hit.place}:{hit.line}"
    for number, line in enumerate(hit.lines, hit.first):
        yield _numbered(number, line, cited=number == hit.line)


def _place(citation: CitationSummary) -> str:
    last = f"-{citation.last}" if citation.last > citation.first else ""
    return f"{citation.role} {citation.path}:{citation.first}{last}"


def _numbered(number: int, line: str, *, cited: bool) -> str:
    return f"{'>' if cited else ' '} {number:>4}  {cut(line, WIDTH)}"


_RECOMMENDATIONS = r"R[0-9]{1,6}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s+)R[0-9]{1,6})*"
_IMPLEMENT = re.compile(
    rf"\s*(?:please\s+)?(?:implement|apply)\s+({_RECOMMENDATIONS})(?:\s*,?\s*please)?\s*[.!]?\s*", re.IGNORECASE
)
_BARE = re.compile(rf"\s*({_RECOMMENDATIONS})\s*[.!]?\s*", re.IGNORECASE)
_ENDS = frozenset(("q", "quit", "exit"))


def recommendations_to_apply(line: str, *, bare: bool = False) -> tuple[str, ...]:
    """Return the ids in a request to implement recommendations, such as `please implement R2 and R3`.

    If the line has any other words, it is a question, and no ids are returned. If `bare` is True, a line that has only
    ids is also a request. Set `bare` after the user was asked which recommendations to implement.
    """
    match = _IMPLEMENT.fullmatch(line) or (_BARE.fullmatch(line) if bare else None)
    return tuple(dict.fromkeys(id.upper() for id in re.findall(r"R[0-9]+", match[1], re.IGNORECASE))) if match else ()


def ends_discussion(line: str) -> bool:
    return line.strip().casefold() in _ENDS

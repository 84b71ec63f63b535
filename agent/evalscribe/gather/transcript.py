"""The lines of long transcripts that say how the work went: its end, its calls, what was asked, the instructions."""

from collections.abc import Iterable, Iterator

from evalscribe.gather.pieces import Range, clipped, excerpts, fitting
from evalscribe.judging import prompt_text
from evalscribe.judging.rules.transcripts import AnsweredCall, LocatedTurn, Transcripts
from evalscribe.model.evidence import Document, Evidence, Excerpt
from evalscribe.model.tool_calls import changes_state

LAST_TURNS = 3
MOST_OF_TURN = 25
"""Lines of one turn."""
MOST_OF_CALL = 14
MOST_OF_ANSWER = 3
MOST_RANGES = 500


def transcript_excerpts(evidence: Evidence, budget: int) -> list[Excerpt]:
    """Transcripts whole where they fit together, else the lines that matter, in their order."""
    documents = evidence.of("transcript")
    whole = sum(_cost(document, (1, len(document.lines))) for document in documents)
    if whole <= budget:
        return [one for document in documents for one in excerpts(document, [(1, len(document.lines))])]
    spoken = Transcripts(evidence)
    found: list[Excerpt] = []
    for document in documents:
        found += excerpts(document, _fitting(document, _chosen(spoken, document), budget // len(documents)))
    return found


def _chosen(spoken: Transcripts, document: Document) -> Iterator[Range]:
    """Most important first."""
    turns = [said for said in spoken.turns if said.document is document]
    made = [one for one in spoken.made if one.call.document is document]
    yield from (_turn(said) for said in reversed(turns[-LAST_TURNS:]))
    yield from (_turn(said) for said in turns if said.turn.role == "user" and said is _first(turns, "user"))
    yield from (place for one in made if changes_state(one.action.tool) for place in _call(one))
    yield from (place for one in made if one.failed for place in _call(one))
    yield from (_turn(said) for said in turns if said is _first(turns, "system"))
    yield from (_turn(said) for said in turns if said.turn.role in ("user", "assistant") and said.turn.kind == "says")
    yield from (place for one in made for place in _call(one))


def _first(turns: Iterable[LocatedTurn], role: str) -> LocatedTurn | None:
    return next((said for said in turns if said.turn.role == role), None)


def _turn(said: LocatedTurn, most: int = MOST_OF_TURN) -> Range:
    return said.turn.first, min(said.turn.last, said.turn.first + most)


def _call(made: AnsweredCall) -> Iterator[Range]:
    yield _turn(made.call, MOST_OF_CALL)
    if made.answer:
        yield _turn(made.answer, MOST_OF_ANSWER)


def _fitting(document: Document, ranges: Iterable[Range], budget: int) -> list[Range]:
    """The first ranges that fit, the one that does not fit shortened, without paying twice for a line."""
    kept: list[Range] = []
    paid: set[int] = set()
    for first, last in ranges:
        new = [n for n in range(first, last + 1) if n not in paid]
        count = fitting([document.lines[n - 1] for n in new], budget)
        if count:
            budget -= sum(prompt_text.estimate_tokens(clipped(document.lines[n - 1])) + 1 for n in new[:count])
            paid.update(new[:count])
            kept.append((first, new[count - 1]))
        if count < len(new) or len(kept) >= MOST_RANGES:
            break
    return kept


def _cost(document: Document, span: Range) -> int:
    return sum(prompt_text.estimate_tokens(clipped(line)) + 1 for line in document.lines[span[0] - 1 : span[1]])

"""Rules for answers that a grader could not read, and for errors, empty texts and repetitions in place of answers."""

import re

from evalscribe.judging.prompt_text import estimate_tokens
from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import quote
from evalscribe.judging.rules.doubts import CONNECTION, PROVIDER
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.judging.rules.transcripts import LocatedTurn
from evalscribe.model.evidence import Citation
from evalscribe.model.record import CHOICES_LOG, FILTERS_LOG

NOT_EXTRACTED = "no answer was extracted"
EMPTY = "the answer is empty"
FILTER = re.compile(r"(?P<filter>.+?) \((?P<scores>[^()]*)\) extracted: (?P<text>.*)")
"""Matches a line of the document `filters`."""
STOPPED = re.compile(r"stop reason: (?:length|max_tokens|max_output_tokens)\b")
"""Matches, in the document `filters`, the stop reason of an answer that was cut off by a token limit."""
MOST_TOKENS = re.compile(r"at most (?P<tokens>\d{1,9}) tokens")
LEAST_LIMIT = 16
"""Minimum token limit that can cut off an answer. Lower limits are set for answers of one letter or word."""
FULL = 0.85
"""Minimum share of the token limit that an answer must fill, by estimate, to count as cut off."""
LONGEST_PART = 300
"""Maximum number of characters of a text whose repetition in an answer is detected."""
TIMES, LONG_PART, TIMES_LONG = 5, 40, 3
"""Minimum repetitions of a short text, minimum characters of a long text, and minimum repetitions of a long text."""
LEAST_REPEATED, LEAST_WITHOUT_LETTERS = 100, 400
"""Minimum total characters of all repetitions: first for a repeated text with letters, then for one without letters.

The second limit is higher because a list can repeat numbers.
"""
CHOICE = re.compile(r"(?P<mark>\S+) (?P<text>.*?)  <- (?P<what>chosen|target)")
"""Matches a line of the document `choices`."""
INSTEAD = re.compile(
    r"\W{0,3}(?:generate error|(?:api|request|generation|server|provider|llm|model)[ _]error|error code: ?[45]\d\d|"
    r"error: ?[45]\d\d\b|litellm\.\w+error|openai\.\w+error|anthropic\.\w+error|traceback \(most recent call last\))",
    re.IGNORECASE,
)
"""Matches the beginning of an error that a harness recorded as an answer."""
SHORT_ERROR = 2_000


def error_for_an_answer(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the harness scored the error of a request as the model's answer."""
    answer = _answer(facts)
    if answer is None or facts.transcripts.calls or not INSTEAD.match(answer[0]) or len(answer[0]) > SHORT_ERROR:
        return None
    outside = PROVIDER.search(answer[0]) or CONNECTION.search(answer[0])
    return RuleDecision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="error-in-place-of-an-answer",
        confidence=0.8 if outside else 0.5,
        uncertain=not outside,
        error=quote.cut(answer[0], 200),
        why=quote.cut(f"an error was scored as an answer: {answer[0]}"),
        reasoning="The recorded answer is the error of a request: the model was not called, or its answer did not "
        "arrive. The harness scored it as wrong.",
        citations=(answer[1],),
        fix="record a failed request as an error, not as an answer",
    )


def no_answer_extracted(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the grader extracted no answer.

    A correct answer also counts as not extracted if only a filter that does not decide the score extracted it.
    """
    error = next((step.error or "" for step in facts.evidence.steps if step.status == "failed"), "")
    other_filter = _other_filter(facts)
    if not error.startswith((NOT_EXTRACTED, EMPTY)) and other_filter is None:
        return None
    answer = _answer(facts)
    if other_filter is not None:
        name, citation = other_filter
        return RuleDecision(
            label="OVERLY_STRICT",
            kind="grader",
            cause="answer-not-extracted",
            confidence=0.7,
            error=error or None,
            why=quote.cut(f"the filter `{name}` reads the same answer as right"),
            reasoning=f"The same answer is right with the filter `{name}`: the model knows it, and writes it in a form "
            "that the deciding filter does not read.",
            citations=(citation, *((answer[1],) if answer else ())),
            fix=f"let the deciding filter read what `{name}` reads, or say in the prompt which form is wanted",
            would_pass=True,
        )
    if error.startswith(EMPTY) or answer is None:
        return RuleDecision(
            label="MODEL_FAULT",
            kind="model",
            cause="empty-answer",
            confidence=0.5,
            uncertain=True,
            error=error,
            why=quote.cut(error),
            reasoning="The model's answer is empty. It may have answered with nothing, or a stop text at the very "
            "beginning may have cut everything off.",
            citations=(*_filters(facts), *quote.cells(facts, "task")),
        )
    return _ended_badly(facts, error, *answer) or _in_another_form(facts, error, *answer)


def ends_in_repetition(facts: Facts) -> RuleDecision | None:
    """Judge failures in which an answer without tool calls repeats the same words up to its end.

    The rule also applies to an answer that was cut off by the token limit.
    """
    answer = _answer(facts)
    if answer is None or facts.transcripts.calls or facts.evidence.eval.status != "failed":
        return None
    return _ended_badly(facts, facts.first.error if facts.first else "", *answer)


def chooses_otherwise(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model chose a wrong answer from several choices."""
    document = facts.evidence.document("log", CHOICES_LOG)
    lines = enumerate(document.lines, 1) if document else ()
    matches = {match["what"]: (number, match) for number, line in lines if (match := CHOICE.fullmatch(line))}
    if document is None or matches.keys() != {"chosen", "target"} or facts.evidence.eval.status != "failed":
        return None
    (chosen_line, chosen), (target_line, target) = matches["chosen"], matches["target"]
    passed_steps = [step.name for step in facts.evidence.steps if step.status == "passed"]
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="another-choice",
        confidence=0.5 if passed_steps else 0.65,
        uncertain=bool(passed_steps),
        why=quote.cut(f"chooses `{quote.cut(chosen['text'], 30)}` over `{quote.cut(target['text'], 30)}`"),
        reasoning=f"The model chooses `{quote.cut(chosen['text'], 60)}` ({chosen['mark']}) where the target is "
        f"`{quote.cut(target['text'], 60)}` ({target['mark']})."
        + (
            f" `{passed_steps[0]}` counts its choice as right: the length of the choices decides."
            if passed_steps
            else ""
        ),
        citations=(
            *quote.cells(facts, "task"),
            cite_lines(document, chosen_line, chosen_line),
            cite_lines(document, target_line, target_line),
        ),
    )


def _in_another_form(facts: Facts, error: str, text: str, citation: Citation) -> RuleDecision:
    target = next((document.text.strip() for document in facts.evidence.of("expected")), "")
    has_target = bool(target) and len(target) <= quote.LONGEST and re.search(rf"(?<!\w){re.escape(target)}(?!\w)", text)
    return RuleDecision(
        label="OVERLY_STRICT" if has_target else "MODEL_FAULT",
        kind="grader" if has_target else "model",
        cause="answer-not-extracted" if has_target else "answer-in-another-form",
        confidence=0.5,
        uncertain=True,
        error=error,
        why=quote.cut(f"says `{target}`, and {error}" if has_target else error),
        reasoning=(
            "The target is in the answer, but not in the form that the grader reads. Check whether the model means it "
            "as its answer."
            if has_target
            else "The answer is not in the form that the grader reads, and the target is not in it."
        ),
        citations=(citation, *_filters(facts), *quote.cells(facts, "expected")),
        fix="let the grader read this form, or say in the prompt which form is wanted" if has_target else None,
    )


def _ended_badly(facts: Facts, error: str, text: str, citation: Citation) -> RuleDecision | None:
    """Return the decision for an answer that repeats itself up to its end, or that was cut off by the token limit.

    Return None for any other answer.
    """
    limit = _limit(facts)
    document = facts.evidence.document("log", FILTERS_LOG)
    source_says_so = document is not None and STOPPED.search(document.text) is not None
    at_limit = source_says_so or (limit is not None and limit >= LEAST_LIMIT and estimate_tokens(text) >= FULL * limit)
    # An answer that loops also ends at the limit, but the loop explains more than the limit does.
    if (loop := _repeated_part(text)) is not None:
        return RuleDecision(
            label="MODEL_FAULT",
            kind="model",
            cause="repeats-itself",
            confidence=0.8,
            error=error or None,
            why=quote.cut(f"repeats `{quote.cut(loop.replace('`', chr(39)), 50).strip()}` to the end"),
            reasoning="The answer repeats the same words until it ends"
            + (" at the limit on tokens." if at_limit else "."),
            citations=(citation, *quote.cells(facts, "expected")),
        )
    if not at_limit:
        return None
    at = f"the limit of {limit} tokens" if limit is not None else "the limit on tokens"
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="cut-at-token-limit",
        confidence=0.5,
        uncertain=True,
        error=error or None,
        why=quote.cut(f"cut off at {at}"),
        reasoning=(
            f"The source says that {at} ended the answer. "
            if source_says_so
            else f"The answer is about as long as {at} allows, so it was probably cut off. "
        )
        + "The answer alone cannot tell whether the limit was too low or the model too wordy.",
        citations=(citation, *_filters(facts)),
        fix="allow more tokens, or ask for the answer first",
    )


def _repeated_part(text: str) -> str | None:
    """Return the words that a text repeats up to its end; None if the text has no such repetition.

    The last repetition can be incomplete.
    """
    for period in range(2, LONGEST_PART):
        size = max((TIMES if period < LONG_PART else TIMES_LONG) * period, LEAST_REPEATED)
        end = text[-size:]
        if len(end) < size:
            return None
        # A text repeats a part of this length if it equals itself when shifted by that length.
        if end[period:] == end[:-period]:
            part, least = (
                end[:period],
                0 if any(character.isalpha() for character in end[:period]) else LEAST_WITHOUT_LETTERS,
            )
            repetition = text[-least:] if least else end
            return part if len(repetition) >= least and repetition[period:] == repetition[:-period] else None
    return None


def _limit(facts: Facts) -> int | None:
    for document in facts.evidence.of("log"):
        if document.path == FILTERS_LOG and (match := MOST_TOKENS.search(document.text)):
            return int(match["tokens"])
    return None


def _answer(facts: Facts) -> tuple[str, Citation] | None:
    """Return the text of the model's last message, and a quotation from this text.

    If there are no messages, use the only output instead. Return None if there is no output or more than one.
    """
    messages: tuple[LocatedTurn, ...] = facts.transcripts.messages
    if messages:
        return messages[-1].turn.text.strip(), messages[-1].quoted(2)
    document = next((output for output in facts.evidence.of("output") if output.text.strip()), None)
    if document is None or len(facts.evidence.of("output")) > 1:
        return None
    first_line = next(n for n, line in enumerate(document.lines, 1) if line.strip())
    return document.text.strip(), cite_lines(document, first_line, min(first_line + 1, len(document.lines)))


def _other_filter(facts: Facts) -> tuple[str, Citation] | None:
    """Return the first filter whose scores for the failed answer are all 1, and a quotation of the filter's line."""
    document = facts.evidence.document("log", FILTERS_LOG)
    if document is None or facts.evidence.eval.status != "failed":
        return None
    for number, line in enumerate(document.lines, 1):
        match = FILTER.match(line)
        if (
            match
            and (values := re.findall(r" ([\d.]+)(?:,|$)", match["scores"]))
            and all(float(v) >= 1 for v in values)
        ):
            return match["filter"], cite_lines(document, number, number)
    return None


def _filters(facts: Facts) -> tuple[Citation, ...]:
    document = facts.evidence.document("log", FILTERS_LOG)
    if document is None:
        return ()
    last = max(n for n, line in enumerate(document.lines, 1) if FILTER.match(line) or n == 1)
    return (cite_lines(document, 1, min(last, 2)),)

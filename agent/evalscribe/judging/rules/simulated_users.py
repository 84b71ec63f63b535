"""Rules for the simulated users of agent benchmarks. These users do not always follow their instructions."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from evalscribe.judging.rules import quote
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.judging.rules.transcripts import AnsweredCall, LocatedTurn, Transcripts
from evalscribe.model.evidence import Citation
from evalscribe.model.tool_calls import ToolCallDifference, changes_state, compare_calls, hands_over

ID = re.compile(r"#?\b(?=\w*\d)(?=\w*[a-z])\w{5,}\b", re.IGNORECASE)
"""Matches a text in the form of an id."""
IDENTITY = re.compile(r"[\w.+-]+@[\w-]+\.\w[\w.-]*\w|\b(?=\w*\d)(?=\w*[a-z])\w*_\w*\b", re.IGNORECASE)
"""Matches an e-mail address or the id of an account in a user's instructions."""
ASKS_WHO = re.compile(
    r"\b(?:id|ids|user ?names?|log-?in|e-?mail|accounts?|identi\w+|who are you|your (?:full )?name)\b", re.IGNORECASE
)
AGREES = re.compile(
    r"\W*(?:yes|yep|yeah|sure|ok|okay|please|go ahead|correct|confirm\w*|perfect|great|sounds good|let'?s)\b",
    re.IGNORECASE,
)
GOES_AHEAD = re.compile(
    r"^\W*(?:yes|yep|confirm(?:ed)?)\b|\bgo ahead\b|\b(?:please|let'?s|you (?:can|may))\b[^.!?]{0,40}\bproceed\b",
    re.IGNORECASE,
)
DECLINES = re.compile(
    r"^\W*(?:no\b(?! (?:problem|worries|need to worry))|nope\b|not (?:yet|now)\b|never ?mind)"
    r"|\bactually,? (?:no|there'?s no need)|\bwithout (?:making )?(?:any )?changes?\b"
    r"|\b(?:don'?t|do not) (?:want to )?(?:proceed|change|make)\b|\bleave (?:it|them) as",
    re.IGNORECASE,
)
STOPS = re.compile(r"#+ ?(?:STOP|END|DONE|TRANSFER|OUT-OF-SCOPE)\w* ?#+", re.IGNORECASE)
"""Matches the signal with which a simulated user ends a conversation, such as `###STOP###`."""
CLOSES = re.compile(r"\b(?:else|further|other (?:questions?|requests?)|more (?:questions?|help))\b", re.IGNORECASE)
"""Matches words of a question that only offers further help."""
WANTS_CONFIRMATION = re.compile(r"[^.\n]*\b(?:confirm\w*|consent|approv\w+|authoriz\w+)\b[^.\n]*", re.IGNORECASE)


def _suspect_user(
    transcripts: Transcripts,
    *,
    cause: str,
    why: str,
    reasoning: str,
    citations: tuple[Citation, ...],
    fix: str,
    message: int,
) -> RuleDecision:
    """Return an uncertain decision which says that the simulated user is at fault."""
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="user",
        cause=cause,
        confidence=0.5,
        uncertain=True,
        error=_missing_call(transcripts),
        why=why,
        reasoning=reasoning,
        citations=citations,
        fix=fix,
        message=message,
    )


def withholds_who_it_is(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the simulated user does not say who it is although the model asks.

    The identity is in the user's instructions.
    """
    transcripts, unsaid = facts.transcripts, unsaid_identity(facts)
    # A tool that returned something shows that the missing identity did not stop the model.
    if not unsaid or not _changes_missing(transcripts) or any(_works(answered) for answered in transcripts.calls):
        return None
    question = _identity_question(transcripts)
    replied = question and next(
        (located for located in users(transcripts) if located.turn.number > question.turn.number), None
    )
    if question is None or replied is None:
        return None
    return _suspect_user(
        transcripts,
        cause="user-withholds-who-it-is",
        why=quote.cut(f"the simulated user never says `{unsaid[0]}` when asked"),
        reasoning=f"In message {question.turn.number} the model asks who the user is. The task gives "
        f"`{unsaid[0]}`, but the user never says it, so no tool could be used: the simulated user may be at fault. "
        "The model might have asked more plainly.",
        citations=(question.quoted(2), replied.quoted(2)),
        fix="tell the simulated user to identify itself when it is asked",
        message=replied.turn.number,
    )


def ends_too_early(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the simulated user agrees to a proposal and ends the conversation in one message.

    The model could therefore not act.
    """
    transcripts, last = facts.transcripts, _last_word(facts.transcripts)
    if last is None or not _changes_missing(transcripts) or not _goes_ahead(plain(last)):
        return None
    proposal = _before(transcripts.messages, last.turn.number)
    # A question that only offers further help does not propose an action that the model could still take.
    if proposal is None or proposal.turn.number < last.turn.number - 1 or _only_offers_more(proposal.turn.text):
        return None
    return _suspect_user(
        transcripts,
        cause="user-ends-early",
        why=quote.cut("the simulated user agrees and ends the conversation before the model can act"),
        reasoning=f"In message {last.turn.number} the user agrees to the model's proposal and ends the conversation, "
        "so the model could not make the expected call.",
        citations=(proposal.quoted(2), last.quoted(2)),
        fix="let the simulated user end the conversation only after the model has answered",
        message=last.turn.number,
    )


def invents_an_id(facts: Facts) -> RuleDecision | None:
    """Judge failures in which a call fails because of an id that the simulated user invented."""
    transcripts, task_text = facts.transcripts, facts.task.lower()
    if not facts.task.strip() or not _changes_missing(transcripts):
        return None
    # An id is not invented if the model or a tool has mentioned it before, so their messages are collected, too.
    earlier_texts = [task_text]
    for located in transcripts.turns:
        text = located.turn.text
        if located.turn.role != "user":
            earlier_texts.append(text.lower())
            continue
        for match in ID.finditer(text):
            value = match[0].lstrip("#")
            used = next((m for m in transcripts.calls if m.failed and value in _values(m.action.arguments)), None)
            if used is not None and not any(value.lower() in part for part in earlier_texts):
                return _invented(transcripts, located, value, used)
        earlier_texts.append(text.lower())
    return None


def _invented(transcripts: Transcripts, message: LocatedTurn, value: str, used: AnsweredCall) -> RuleDecision:
    return _suspect_user(
        transcripts,
        cause="user-invents-an-id",
        why=quote.cut(f"the simulated user gives `{value}`, which its instructions do not contain"),
        reasoning=f"In message {message.turn.number} the user gives `{value}`. Neither its instructions nor earlier "
        f"messages contain it, and `{used.action.tool}` refused it.",
        citations=(message.quoted(2), *((used.answer.quoted(1),) if used.answer else ())),
        fix="tell the simulated user to give no ids that its instructions do not contain",
        message=message.turn.number,
    )


def plain(message: LocatedTurn) -> str:
    """Return the text of a turn with straight apostrophes, as required by the patterns."""
    return message.turn.text.replace("\u2019", "'")


class Suspicion(NamedTuple):
    """A reason to doubt that the model is at fault."""

    reason: str
    """The reason in one sentence."""
    message: int | None = None
    """Number of the message that raises the doubt; None if the doubt is not about a single message."""


def suspicion(facts: Facts, difference: ToolCallDifference) -> Suspicion | None:
    """Return a suspicion that the simulated user caused a difference between the calls; None if there is none."""
    transcripts = facts.transcripts
    if not users(transcripts):
        return None
    if (
        not any(_works(answered) for answered in transcripts.calls)
        and _identity_question(transcripts)
        and (unsaid := unsaid_identity(facts))
    ):
        return Suspicion(
            f"The task gives `{unsaid[0]}`, but the user never says it: the simulated user may be at fault."
        )
    if difference.kind != "never" or difference.actual is not None:
        return None
    if declined := declines_a_change(transcripts):
        number = declined.turn.number
        return Suspicion(
            f"In message {number} the user declines the model's proposal: if the user's instructions do not say so, "
            "the user is at fault.",
            number,
        )
    last = _last_word(transcripts)
    question = last and _before(transcripts.messages, last.turn.number)
    if last and question and _asks(question.turn.text) and not _only_offers_more(question.turn.text):
        number = last.turn.number
        return Suspicion(f"The user ended the conversation in message {number} instead of answering the model.", number)
    return None


def declines_a_change(transcripts: Transcripts) -> LocatedTurn | None:
    """Return the last message in which the user declined to confirm what the model proposed; None if there is none."""
    message = None
    for located in users(transcripts):
        question = _before(transcripts.messages, located.turn.number)
        if question and WANTS_CONFIRMATION.search(question.turn.text) and DECLINES.search(plain(located)):
            message = located
    return message


def unsaid_identity(facts: Facts) -> tuple[str, ...]:
    """Return the account ids and e-mail addresses that are in the task but not in the conversation."""
    if not users(facts.transcripts):
        return ()
    message = "\n".join(located.turn.text for located in facts.transcripts.turns).lower()
    return tuple(name for name in dict.fromkeys(IDENTITY.findall(facts.task)) if name.lower() not in message)


def _identity_question(transcripts: Transcripts) -> LocatedTurn | None:
    """Return the first message in which the model asks for the user's identity."""
    return next(
        (
            located
            for located in transcripts.messages
            if ASKS_WHO.search(located.turn.text) and "?" in located.turn.text
        ),
        None,
    )


def users(transcripts: Transcripts) -> list[LocatedTurn]:
    return [located for located in transcripts.turns if located.turn.role == "user"]


def agreement(transcripts: Transcripts, answered: AnsweredCall) -> LocatedTurn | None:
    """Return the user's last message before a call if it expresses agreement. Otherwise, return None."""
    before = _before(users(transcripts), answered.call.turn.number)
    return before if before and AGREES.match(plain(before)) else None


def proposal(transcripts: Transcripts, answered: AnsweredCall) -> LocatedTurn | None:
    """Return the message of the model to which the user agreed right before a call; None if the user did not agree."""
    agreed = agreement(transcripts, answered)
    return _before(transcripts.messages, agreed.turn.number) if agreed else None


def unconfirmed(transcripts: Transcripts, answered: AnsweredCall) -> LocatedTurn | None:
    """Return the model's instructions if they demand a confirmation and the user gave none before a call.

    Otherwise, return None.
    """
    rules = next((located for located in transcripts.turns if located.turn.role == "system"), None)
    demanded = rules and WANTS_CONFIRMATION.search(rules.turn.text)
    if (
        not demanded
        or not users(transcripts)
        or any(GOES_AHEAD.search(plain(located)) for located in _so_far(transcripts, answered))
    ):
        return None
    return rules


def _so_far(transcripts: Transcripts, answered: AnsweredCall) -> Iterator[LocatedTurn]:
    return (located for located in users(transcripts) if located.turn.number < answered.call.turn.number)


def _before(turns: Iterable[LocatedTurn], number: int) -> LocatedTurn | None:
    return next((located for located in reversed(list(turns)) if located.turn.number < number), None)


def _works(answered: AnsweredCall) -> bool:
    """Return whether a call found or changed something. Handing the work over to somebody else does not count."""
    from_tool = answered.answer is not None and answered.answer.turn.text.strip()
    return not answered.failed and bool(from_tool) and not hands_over(answered.action.tool)


def _last_word(transcripts: Transcripts) -> LocatedTurn | None:
    """Return the message with which the user ended the conversation; None if the last turn is not the user's."""
    last = transcripts.turns[-1] if transcripts.turns else None
    return last if last and last.turn.role == "user" else None


def _goes_ahead(text: str) -> bool:
    bare = STOPS.sub("", text)
    return bool(GOES_AHEAD.search(bare)) and not DECLINES.search(bare)


def _asks(text: str) -> bool:
    return "?" in text or bool(WANTS_CONFIRMATION.search(text))


def _only_offers_more(text: str) -> bool:
    questions = [part for part in re.split(r"(?<=[.!?])\s+", text) if part.endswith("?")]
    return bool(questions) and all(CLOSES.search(part) for part in questions) and not WANTS_CONFIRMATION.search(text)


def _changes_missing(transcripts: Transcripts) -> bool:
    """Return whether an expected call that changes something is missing or never succeeded."""
    return any(
        located.kind == "never" and changes_state(located.tool)
        for located in compare_calls(transcripts.expected_actions, transcripts.actions)
    )


def _missing_call(transcripts: Transcripts) -> str | None:
    message = next(
        (
            located
            for located in compare_calls(transcripts.expected_actions, transcripts.actions)
            if located.kind == "never"
        ),
        None,
    )
    return f"`{message.tool}` was never called with success" if message else None


def _values(value: object) -> str:
    """Return all values in the arguments of a call, joined into one text."""
    if isinstance(value, dict):
        return "\n".join(map(_values, value.values()))
    if isinstance(value, list):
        return "\n".join(map(_values, value))
    return str(value)

"""Rules for agents whose calls or answers differ from the expected calls or answers."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import code, precedents, quote, simulated_users
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.judging.rules.simulated_users import Suspicion
from evalscribe.judging.rules.transcripts import AnsweredCall, LocatedTurn, Transcripts
from evalscribe.model.evidence import Citation, Document
from evalscribe.model.finding import TrialVerdict, Verdict
from evalscribe.model.tool_calls import (
    ToolCallDifference,
    changes_state,
    compare_calls,
    describe_difference,
    innermost_mismatch,
    name_call,
)
from evalscribe.text import join_first, pluralise

MOST_NAMED = 3
MOST_ARGUMENTS = 2
MOST_TRIALS = 8


def does_otherwise(facts: Facts) -> RuleDecision | None:
    """Judge failures in which expected calls are missing or different, or in which unexpected calls were made."""
    transcripts = facts.transcripts
    # Without expected calls, only the failed step `actions` shows that the benchmark compares calls at all.
    if not transcripts.turns or (not transcripts.expected and "actions" not in _failed_steps(facts)):
        return None
    differences = compare_calls(transcripts.expected_actions, transcripts.actions)
    if not differences:
        return None
    if unsaid_texts(facts) and not any(changes_state(difference.tool) for difference in differences):
        return None  # the missing text explains the failure, and calls that only read do not
    first = differences[0]
    if first.kind == "never":
        decision = _never(transcripts, first, differences)
    elif first.kind == "otherwise":
        decision = _otherwise(transcripts, first, differences)
    else:
        decision = _unexpected(transcripts, first, differences)
    return _with_doubts(facts, replace(decision, message=_first_wrong_call(transcripts, differences)), first)


def _first_wrong_call(transcripts: Transcripts, differences: tuple[ToolCallDifference, ...]) -> int | None:
    """Return the number of the message with the model's first wrong call; None if there is no wrong call.

    If the model first proposed this call and the user agreed, return the number of the message with the proposal.
    """
    wrong = [transcripts.calls[difference.actual] for difference in differences if difference.actual is not None]
    if not wrong:
        return None
    if differences[0].kind == "never" and differences[0].actual is not None:
        # The tool refused this call, and no later call succeeded.
        return transcripts.calls[differences[0].actual].call.turn.number
    first = min(wrong, key=lambda answered: answered.call.turn.number)
    proposed = simulated_users.proposal(transcripts, first)
    return proposed.turn.number if proposed else first.call.turn.number


def _with_doubts(facts: Facts, decision: RuleDecision, first: ToolCallDifference) -> RuleDecision:
    """Mark a decision as uncertain if the simulated user, the instructions, the expectation or a tool is suspect."""
    doubts = (
        simulated_users.suspicion(facts, first),
        _refused_by_instructions(facts.transcripts, first),
        _odd_expectation(facts, first),
        _odd_tool(facts.transcripts, first),
    )
    for doubt in filter(None, doubts):
        decision = replace(decision.doubted(doubt.reason), message=decision.message or doubt.message)
    return decision


def _odd_expectation(facts: Facts, first: ToolCallDifference) -> Suspicion | None:
    """Return a suspicion that the expected call itself is wrong; None if there is no such suspicion."""
    transcripts = facts.transcripts
    if first.kind != "otherwise" or first.actual is None or first.expected is None:
        return None
    ours, theirs = (
        transcripts.calls[first.actual].call.turn.arguments,
        transcripts.expected[first.expected].turn.arguments,
    )
    mismatch = innermost_mismatch(first.arguments[0], ours, theirs)
    task_and_arguments, expected_value = f"{facts.task}\n{_call_arguments(transcripts)}".lower(), mismatch.expected
    if (
        not isinstance(expected_value, str)
        or not isinstance(mismatch.actual, str)
        or len(expected_value) < SHORTEST_VALUE
    ):
        return None
    if expected_value.lower() not in task_and_arguments and not any(
        expected_value.lower() in located.turn.text.lower() for located in transcripts.turns
    ):
        return Suspicion(
            f"Neither the task nor the conversation contains `{expected_value}`, so it may not follow from the request."
        )
    by_user = f"{facts.task}\n{' '.join(located.turn.text for located in simulated_users.users(transcripts))}".lower()
    if _in_words(mismatch.actual) in by_user and _in_words(expected_value) not in by_user:
        return Suspicion(
            f"The user asked for {_short(_in_words(mismatch.actual))}, not for the expected value: both may be right."
        )
    return None


def _call_arguments(transcripts: Transcripts) -> str:
    return json.dumps([answered.action.arguments for answered in transcripts.calls], ensure_ascii=False)


def _in_words(value: str) -> str:
    """Return a value as people would say it. Digits at the end of an id are removed, and underscores become spaces."""
    return re.sub(r"[_-]+", " ", re.sub(r"[_-]?\d{4,}$", "", value)).strip().lower()


ENVIRONMENT_BROKE = re.compile(
    r"internal (?:server )?error|service unavailable|bad gateway|temporarily unavailable|timed? ?out|rate.?limit"
    r"|too many requests|connection (?:refused|reset|error)|traceback|\b(?:50[0234]|429)\b"
    r"|\b(?:Key|Type|Attribute|Index|Name|Assertion|Recursion|Memory|OS|Runtime)Error\b|'NoneType'|not implemented",
    re.IGNORECASE,
)
"""Matches signs that a tool failed because of an internal error, and not because of the call's arguments."""


def _odd_tool(transcripts: Transcripts, first: ToolCallDifference) -> Suspicion | None:
    """Return a suspicion that a tool itself is at fault; None if there is no such suspicion.

    A tool is suspicious if it refuses exactly the expected call, unless an earlier call of the model changed something
    with the same id. A tool is also suspicious if the last call fails with an answer that looks like an internal error.
    """
    expected_action = transcripts.expected_actions[first.expected] if first.expected is not None else None
    for at, answered in enumerate(transcripts.calls):
        # `compare_calls` never matches a failed call, so this call is compared as if it had succeeded.
        same = expected_action is not None and not compare_calls(
            [expected_action], [answered.action._replace(failed=False)]
        )
        if answered.failed and same and not any(_touches(earlier, answered) for earlier in transcripts.calls[:at]):
            number = answered.call.turn.number
            return Suspicion(
                f"In message {number} the model makes the expected call, and the tool refuses it: the environment may "
                "be at fault.",
                number,
            )
    last = transcripts.calls[-1] if transcripts.calls else None
    if last and last.failed and ENVIRONMENT_BROKE.search(_tool_answer(last)):
        reason = f"The answer of `{last.action.tool}` looks like a failure of the tool itself, not of its arguments."
        return Suspicion(reason, last.call.turn.number)
    return None


def _touches(earlier: AnsweredCall, later: AnsweredCall) -> bool:
    """Return whether an earlier call changed something and has an id in common with a later call."""
    if earlier.failed or not changes_state(earlier.action.tool):
        return False
    values = [value for value in later.action.arguments.values() if isinstance(value, str)]
    return any(simulated_users.ID.fullmatch(value) and value in earlier.action.arguments.values() for value in values)


REFUSES = re.compile(
    r"\b(?:can(?:no|')?t|can not|unable|not (?:able|allowed|possible|eligible|permitted))\b", re.IGNORECASE
)
FORBIDS = re.compile(
    r"\b(?:can(?:no|')?t|can not|must not|should not|do not|not (?:allowed|possible)|never|only)\b", re.I
)
MIN_SHARED_WORDS = 4
"""Minimum number of words that a refusal shares with a sentence of the instructions.

With fewer common words, the refusal does not count as a repetition of the sentence.
"""


def _refused_by_instructions(transcripts: Transcripts, first: ToolCallDifference) -> Suspicion | None:
    """Return a suspicion if the model refused by repeating a sentence of its instructions; None if it did not.

    Either the model applied its instructions wrongly, or the expected call contradicts the instructions.
    """
    rules = next((located for located in transcripts.turns if located.turn.role == "system"), None)
    if first.kind != "never" or first.actual is not None or rules is None:
        return None
    forbidden = [(part, _rare_words(part)) for part in _sentences(rules.turn.text) if FORBIDS.search(part)]
    done = [
        answered.call.turn.number
        for answered in transcripts.calls
        if not answered.failed and changes_state(answered.action.tool)
    ]
    # A refusal before a change was not the model's last decision.
    for message in (located for located in transcripts.messages if located.turn.number > max(done, default=0)):
        for part in _sentences(simulated_users.plain(message)):
            words = _rare_words(part) if REFUSES.search(part) else frozenset()
            source = max(forbidden, key=lambda located: len(located[1] & words), default=None)
            if source and len(source[1] & words) >= MIN_SHARED_WORDS:
                return Suspicion(
                    f"In message {message.turn.number} the model refuses because its instructions say "
                    f"{_short(source[0])}: the expected call may contradict them.",
                    message.turn.number,
                )
    return None


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?:;])\s+|\n", text) if part.strip()]


def _rare_words(text: str) -> frozenset[str]:
    """Return each word of five or more letters, cut to six letters, so that forms of the same word are equal."""
    return frozenset(word[:6] for word in re.findall(r"[a-z]{5,}", text.lower()))


def _never(
    transcripts: Transcripts, first: ToolCallDifference, differences: tuple[ToolCallDifference, ...]
) -> RuleDecision:
    if first.actual is not None:
        return _refused(transcripts, first, differences)
    if transcripts.calls and transcripts.calls[-1].failed:
        return _gives_up(transcripts, first, differences)
    idle = not transcripts.calls
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="calls-no-tool"
        if idle
        else f"{'too-few-calls-of' if _calls(transcripts, first.tool) else 'never-calls'}-{code.kebab(first.tool)}",
        confidence=0.75,
        error=describe_difference(first, transcripts.expected_actions, transcripts.actions),
        why=quote.cut(
            f"calls no tool; `{first.tool}` was expected" if idle else f"never calls {_expected(transcripts, first)}"
        ),
        reasoning=f"{_expected(transcripts, first)} was expected; {_count(transcripts, first.tool)}."
        f"{_more(differences)}",
        citations=(*_header(transcripts, first), *_last_words(transcripts)),
    )


def _refused(
    transcripts: Transcripts, first: ToolCallDifference, differences: tuple[ToolCallDifference, ...]
) -> RuleDecision:
    """Return the decision for a run in which an expected call is missing and its tool refused the last call."""
    answered = transcripts.calls[first.actual or 0]
    tool_answer = _tool_answer(answered)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"gives-up-on-{code.kebab(first.tool)}",
        confidence=0.7,
        error=f"`{first.tool}`: {tool_answer}",
        why=quote.cut(f"gives up on `{first.tool}`, which fails: {tool_answer}"),
        reasoning=f"{_expected(transcripts, first)} was expected. The model called the tool, which refused: "
        f"{tool_answer.rstrip('.')}. No later call of the tool succeeded.{_more(differences)}",
        citations=(
            *_header(transcripts, first),
            answered.call.header(),
            *([answered.answer.quoted(1)] if answered.answer else []),
        ),
    )


def _gives_up(
    transcripts: Transcripts, first: ToolCallDifference, differences: tuple[ToolCallDifference, ...]
) -> RuleDecision:
    """Return the decision for a run whose last call failed and in which the model then stopped trying."""
    answered = transcripts.calls[-1]
    tool, tool_answer = answered.action.tool, _tool_answer(answered)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"gives-up-after-{code.kebab(tool)}",
        confidence=0.75,
        error=f"`{tool}`: {tool_answer}",
        why=quote.cut(f"gives up when `{tool}` fails: {tool_answer}"),
        reasoning=f"{_expected(transcripts, first)} was expected and never called. The last call, of `{tool}`, failed: "
        f"{tool_answer.rstrip('.')}. The model tried nothing else.{_more(differences)}",
        citations=(
            *_header(transcripts, first),
            *([answered.answer.quoted(1)] if answered.answer else []),
            *_last_words(transcripts),
        ),
    )


def _otherwise(
    transcripts: Transcripts, first: ToolCallDifference, differences: tuple[ToolCallDifference, ...]
) -> RuleDecision:
    answered, expected_call = transcripts.calls[first.actual or 0], transcripts.expected[first.expected or 0]
    difference_text = describe_difference(first, transcripts.expected_actions, transcripts.actions)
    missing_id = _shown_before(transcripts, answered, expected_call, first)
    names = first.arguments[:MOST_ARGUMENTS]
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=code.kebab(f"other {first.arguments[0]} in {first.tool}"),
        confidence=0.75,
        error=difference_text,
        why=_briefly(answered, expected_call, first),
        reasoning=f"{_call_difference(answered, expected_call, first)}{_more(differences)} "
        f"{_knowable(missing_id)}".strip(),
        citations=(
            *(answered.call.argument(name) for name in names),
            *(expected_call.argument(name) for name in names),
            *((missing_id[1],) if missing_id and missing_id[1] else ()),
        ),
    )


def _briefly(answered: AnsweredCall, expected_call: LocatedTurn, difference: ToolCallDifference) -> str:
    difference_text = str(
        innermost_mismatch(difference.arguments[0], answered.call.turn.arguments, expected_call.turn.arguments)
    )
    return quote.short_or(f"`{difference.tool}`: {difference_text}", quote.cut(difference_text))


def _call_difference(answered: AnsweredCall, expected_call: LocatedTurn, difference: ToolCallDifference) -> str:
    same = len(expected_call.turn.arguments) - len(set(difference.arguments) & set(expected_call.turn.arguments))
    arguments = (
        f"{same} of {len(expected_call.turn.arguments)} arguments are as expected"
        if same
        else "no argument is as expected"
    )
    return f"In message {answered.call.turn.number} the model calls `{difference.tool}`; {arguments}."


def _unexpected(
    transcripts: Transcripts, first: ToolCallDifference, differences: tuple[ToolCallDifference, ...]
) -> RuleDecision:
    answered = transcripts.calls[first.actual or 0]
    agreed, rules = simulated_users.agreement(transcripts, answered), simulated_users.unconfirmed(transcripts, answered)
    nothing = "no change was expected" if not transcripts.expected else "it is not among the expected calls"
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"unexpected-{code.kebab(first.tool)}",
        confidence=0.6,
        error=describe_difference(first, transcripts.expected_actions, transcripts.actions),
        why=quote.cut(f"calls `{first.tool}`; {nothing}"),
        reasoning=f"The model called `{first.tool}`; {nothing}.{_more(differences)}"
        + (
            " The user had agreed to it: if the instructions do not forbid it, the grader is too strict."
            if agreed
            else " Its instructions demand a confirmation, which the user had not given."
            if rules
            else ""
        ),
        citations=(answered.call.header(1 + MOST_NAMED), *((agreed.quoted(1),) if agreed else ())),
        forbidden=rules is not None,
    )


def _expected(transcripts: Transcripts, difference: ToolCallDifference) -> str:
    action = transcripts.expected_actions[difference.expected or 0]
    if _calls(transcripts, action.tool):
        return name_call(action, transcripts.actions)
    words = {name: value for name, value in action.arguments.items() if isinstance(value, str)}
    # An id without digits, such as `OAKROOM`, is recognised by the name of its argument.
    ids = [
        value
        for name, value in words.items()
        if simulated_users.ID.fullmatch(value) or (name.endswith("id") and value.isalnum())
    ]
    return f"`{action.tool}`" + (f" of `{ids[0]}`" if ids else "")


def _calls(transcripts: Transcripts, tool: str) -> list[AnsweredCall]:
    """Return the successful calls of a tool."""
    return [answered for answered in transcripts.calls if answered.action.tool == tool and not answered.failed]


def _count(transcripts: Transcripts, tool: str) -> str:
    if calls := _calls(transcripts, tool):
        expected_count = pluralise(sum(action.tool == tool for action in transcripts.expected_actions), "call")
        messages = ", ".join(str(answered.call.turn.number) for answered in calls[:MOST_NAMED])
        return f"of {expected_count} of `{tool}`, the model makes {len(calls)} (message {messages})"
    names = list(dict.fromkeys(f"`{action.tool}`" for action in transcripts.actions))
    if not names:
        return f"the model answers {len(transcripts.messages)} times and calls no tool"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"the model calls {', '.join(names[:MOST_NAMED])}{more}, but never that"


def _more(differences: tuple[ToolCallDifference, ...]) -> str:
    if len(differences) == 1:
        return ""
    tools = list(dict.fromkeys(f"`{difference.tool}`" for difference in differences[1:]))
    return (
        f" {len(differences) - 1} more differences: {', '.join(tools[:MOST_NAMED])}."
        if len(differences) > 2
        else (f" One more difference: {tools[0]}.")
    )


def _header(transcripts: Transcripts, difference: ToolCallDifference) -> tuple[Citation, ...]:
    """Quote the start of the expected call. Quote more lines if the tool was called with different arguments."""
    if difference.expected is None:
        return ()
    return (transcripts.expected[difference.expected].header(5 if _calls(transcripts, difference.tool) else 2),)


def _last_words(transcripts: Transcripts) -> tuple[Citation, ...]:
    return (transcripts.messages[-1].quoted(2),) if transcripts.messages else ()


def _tool_answer(answered: AnsweredCall) -> str:
    text = answered.answer.turn.text if answered.answer else ""
    return quote.cut(re.sub(r"^\W*error\W+", "", text, flags=re.IGNORECASE) or "no answer", 120)


def _shown_before(
    transcripts: Transcripts, answered: AnsweredCall, expected_call: LocatedTurn, difference: ToolCallDifference
) -> tuple[str, Citation | None] | None:
    """Return the id that the call should have passed, and a quotation of an earlier turn that contains this id.

    The quotation is None if no earlier turn contains the id. Return None if the expected value is not an id.
    """
    missing_id = innermost_mismatch(
        difference.arguments[0], answered.call.turn.arguments, expected_call.turn.arguments
    ).expected
    if not isinstance(missing_id, str) or not simulated_users.ID.search(missing_id):
        return None
    before = [located for located in transcripts.turns if located.turn.number < answered.call.turn.number]
    return missing_id, transcripts.first_saying(missing_id, before)


def _knowable(missing_id: tuple[str, Citation | None] | None) -> str:
    if missing_id is None:
        return ""
    text, place = missing_id
    if place is None:
        return f"`{text}` does not occur in the transcript before that."
    return f"`{text}` occurred before the call, in line {place.first}."


def _failed_steps(facts: Facts) -> frozenset[str]:
    return frozenset(step.name for step in facts.evidence.steps if step.status == "failed")


SUBMITS = frozenset({"answer", "done", "final_answer", "finalanswer", "finish", "submit", "submit_answer"})
LONGEST_TARGET = 300
"""Maximum characters of a target. A longer text is treated as a grading criterion and not compared with answers."""
LONGEST_ANSWER = 20_000
ALMOST = 0.9
ALIKE, LONG_TARGET = 0.3, 40
"""Limits for the sentence which says that answer and target have little in common.

The sentence is used if the similarity is below `ALIKE` and the target is longer than `LONG_TARGET` characters.
"""
SHORTEST_ALMOST = 8
SHORTEST_VALUE = 3
"""Minimum number of characters of an argument's value that is looked for in a conversation."""
SIGNS = re.compile(r"[\W_]+")
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")


class FinalAnswer(NamedTuple):
    text: str
    citation: Citation


def answers_otherwise(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model's final answer differs from the target."""
    answer = _final_answer(facts.transcripts)
    target = answer and _target(facts, answer)
    if answer is None or target is None:
        return None
    if answer.text.strip() == target.text and len(facts.evidence.steps) > 1:
        return None  # the comparison with the target passed, so another check failed
    # The chained comparison is only true if both texts are the same number.
    if _fold(target.text) in _fold(answer.text) or _number(target.text) == _number(answer.text) is not None:
        return _otherwise_written(facts, answer, target, _other_form(answer.text.strip(), target.text))
    if SIGNS.sub("", target.text.lower()) == SIGNS.sub("", answer.text.lower()) and SIGNS.sub("", answer.text):
        return _otherwise_written(
            facts,
            answer,
            target,
            OtherForm(
                "answer-with-other-signs",
                f"differs from the target only in signs: {_first_difference(answer, target)}",
                "check the target for lost signs, or ignore signs in the comparison",
            ),
        )
    # `SequenceMatcher` takes quadratic time, so only the beginning of a long answer is compared.
    similarity = SequenceMatcher(None, target.text, answer.text[: 4 * LONGEST_TARGET], autojunk=False).ratio()
    almost = similarity >= ALMOST and len(target.text) >= SHORTEST_ALMOST
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="almost-the-answer" if almost else "another-answer",
        confidence=0.75 if almost else 0.65,
        error=quote.cut(f"answers {_short(answer.text)} instead of {_short(target.text)}", 200),
        why=quote.cut(
            f"almost right: {_first_difference(answer, target)}" if almost else f"answers {_short(answer.text)}"
        ),
        reasoning=f"The answer is {_short(answer.text)}, the target {_short(target.text)}. "
        + (
            f"They differ from {_first_difference(answer, target)} on."
            if almost
            else _apart(answer, target, similarity)
        ),
        citations=(*_shown(facts, answer), target.citation),
    )


def never_says(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model leaves out a statement that the reference requires."""
    unsaid, document = unsaid_texts(facts), next((d for d in facts.evidence.of("expected") if _listed(d)), None)
    if document is None or not unsaid:
        return None
    more = f" and {len(unsaid) - 1} more" if len(unsaid) > 1 else ""
    line = next((n for n, text in enumerate(document.lines, 1) if unsaid[0] in text), 1)
    instead = _other_number(facts.transcripts, unsaid[0], _listed(document))
    also = f" In message {instead[0].turn.number} it says `{instead[1]}`." if instead else ""
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="never-says-what-was-asked",
        confidence=0.7,
        error=quote.cut(f"never says {_short(unsaid[0])}{more}", 200),
        why=quote.cut(f"never says {_short(unsaid[0])}{more}"),
        reasoning=f"The reference requires {_short(unsaid[0])}{more}; none of the model's "
        f"{len(facts.transcripts.messages)} answers contains it.{also}",
        citations=(
            cite_lines(document, line, line),
            (instead[0] if instead else facts.transcripts.messages[-1]).quoted(2),
        ),
        message=instead[0].turn.number if instead else None,
    )


def unsaid_texts(facts: Facts) -> list[str]:
    """Return the required statements that the model never makes; empty if no reference lists required statements."""
    document = next((d for d in facts.evidence.of("expected") if _listed(d)), None)
    if document is None or not facts.transcripts.messages:
        return []
    all_messages = "\n".join(located.turn.text for located in facts.transcripts.messages).lower().replace(",", "")
    return [text for text in _listed(document) if text.lower().replace(",", "") not in all_messages]


def _other_number(transcripts: Transcripts, required: str, expected: list[str]) -> tuple[LocatedTurn, str] | None:
    """Find the first number in the model's messages that has the form of `required` but is not in `expected`.

    Return the message and the number. Return None if there is no such number, or if `required` is not a number.
    """
    bare = required.replace(",", "")
    if not re.fullmatch(r"\d+(?:\.\d+)?", bare):
        return None
    digits = re.sub(r"\d+", lambda run: f"\\d{{{len(run[0])}}}", re.escape(bare))
    # The characters around the number exclude parts of dates, times, versions and longer numbers.
    form = re.compile(rf"(?<![\w.:/-]){digits}(?![\w:/-]|\.\d)")
    for message in transcripts.messages:
        for match in form.finditer(message.turn.text.replace(",", "")):
            if match[0] not in expected:
                return message, match[0]
    return None


def grader_says_why(facts: Facts) -> RuleDecision | None:
    """Judge failures for which a grader's explanation of its score is the only clue.

    The decision quotes the grader, with low confidence.
    """
    words = (d for d in facts.evidence.of("grader") if d.text.strip() and not quote.is_code(d))
    grader = next(words, None)
    if grader is None or not facts.transcripts.by_model:
        return None
    line = next(n for n, text in enumerate(grader.lines, 1) if text.strip())
    quotation = cite_lines(grader, line, line)
    last = (facts.transcripts.messages[-1].quoted(2),) if facts.transcripts.messages else ()
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="failed-by-grader",
        confidence=0.5,
        uncertain=True,
        why=quote.cut(f"the grader: {quotation.text}"),
        reasoning=f"The grader of `{facts.step}` says: {quote.cut(quotation.text, 160)} "
        "No rule can check that against the evidence.",
        citations=(quotation, *last),
    )


NOBODY_PASSED = "No known trial of this task passed, so what it expects may be wrong."
BY_EXPECTATION = frozenset(rule.__name__.replace("_", "-") for rule in (does_otherwise, never_says))
"""Names of the rules that blame a model because it did not do what the benchmark expected."""
OF_AGENT_RUNS = BY_EXPECTATION | {"answers-otherwise", "cut-off", "goes-round-in-circles", "refuses"}
"""Names of the rules that blame a model for its part in a conversation.

Such a rule is right only if the benchmark's expectation is right.
"""


def doubt_outlier(verdict: Verdict, other_verdicts: Sequence[TrialVerdict]) -> Verdict:
    """Mark a verdict as uncertain if the other failed trials of the same task have a different label.

    A verdict that repeats people's label of the same failure is not marked.
    """
    if (
        not other_verdicts
        or verdict.rule == precedents.PRECEDENT_RULE
        or all(other.classification == verdict.classification for other in other_verdicts)
    ):
        return verdict
    labels = list(dict.fromkeys(other.classification for other in other_verdicts))
    trials = join_first([str(other.trial) for other in other_verdicts], MOST_TRIALS)
    return verdict.doubted(f"Only this trial has this label: trials {trials} of the task are labelled {labels[0]}.")


def unless_confirmed(facts: Facts, decision: RuleDecision, rule: str | None) -> RuleDecision:
    """Mark a decision as uncertain if it blames the model and nothing confirms the expectation of the benchmark.

    The expectation is confirmed by a trial that passed, by a reference answer that passes, or by the agent's own
    instructions. Benchmarks of agents often expect wrong calls or statements. For example, the authors of tau-bench
    corrected the expected calls of 4 of its first 25 airline tasks; in 3 of these 4, no trial had passed.
    """
    rules = OF_AGENT_RUNS if facts.transcripts.is_agent_run else BY_EXPECTATION
    # `passable` is None if the source has no other trials, which is no reason for doubt.
    confirmed = facts.case.passable is not False or decision.forbidden
    if decision.label != "MODEL_FAULT" or confirmed or rule not in rules:
        return decision
    return decision.doubted(NOBODY_PASSED)


def _apart(answer: FinalAnswer, target: FinalAnswer, similarity: float) -> str:
    """Return a sentence that describes how much answer and target differ.

    The sentence is empty unless they differ in exactly one character or have little in common.
    """
    ours, theirs = answer.text.strip(), target.text
    if len(ours) == len(theirs) and len(differing := [a for a, b in zip(ours, theirs, strict=True) if a != b]) == 1:
        return f"They differ in one {'digit' if differing[0].isdigit() else 'character'}."
    return "They have little in common." if len(theirs) > LONG_TARGET and similarity < ALIKE else ""


class OtherForm(NamedTuple):
    """Describes how an answer contains the target in a different form, and how to accept that form."""

    cause: str
    how: str
    fix: str


def _other_form(answer: str, target: str) -> OtherForm:
    if _fold(answer) == _fold(target):
        how = "differs from the target only in case or whitespace"
        return OtherForm("answer-in-another-case", how, "ignore case and whitespace in the comparison")
    number = _number(target) is not None
    if number and _number(answer) is not None:
        return OtherForm(
            "number-otherwise-written", "is the same number in another notation", "compare numbers by value"
        )
    if number and re.fullmatch(rf"{re.escape(target)} ?[^\w\s]*\w{{0,12}}", answer):
        fix = "ignore units in the comparison, or ask for the bare number"
        return OtherForm("answer-with-a-unit", "is the target with a unit", fix)
    fix = "look for the target within the answer, or ask for the bare answer in the task"
    return OtherForm("answer-with-more-around-it", "contains the target and more", fix)


def _otherwise_written(facts: Facts, answer: FinalAnswer, target: FinalAnswer, form: OtherForm) -> RuleDecision:
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause=form.cause,
        confidence=0.5,
        uncertain=True,
        error=quote.cut(f"answers {_short(answer.text)} instead of {_short(target.text)}", 200),
        why=quote.cut(f"the answer {form.how}"),
        reasoning=f"The answer is {_short(answer.text)}, the target {_short(target.text)}: it {form.how}. "
        "Check whether both mean the same.",
        citations=(*_shown(facts, answer), target.citation),
        fix=form.fix,
    )


def _final_answer(transcripts: Transcripts) -> FinalAnswer | None:
    """Return the answer that the model submitted with a tool. If the model submitted none, return its last message."""
    for answered in reversed(transcripts.calls):
        texts = [
            (name, value) for name, value in answered.action.arguments.items() if isinstance(value, str | int | float)
        ]
        if answered.action.tool.lower() in SUBMITS and texts:
            name, value = texts[0]
            return FinalAnswer(str(value)[:LONGEST_ANSWER], answered.call.argument(name))
    return _last_message(transcripts.messages[-1]) if transcripts.messages else None


def _shown(facts: Facts, answer: FinalAnswer) -> tuple[Citation, ...]:
    """Quote the answer. If the item's input has its own document, quote the input too."""
    return (*quote.cells(facts, "task"), *(quote.cells(facts, "output") or (answer.citation,)))


def _last_message(message: LocatedTurn) -> FinalAnswer:
    return FinalAnswer(message.turn.text.strip()[:LONGEST_ANSWER], message.quoted(2))


def _target(facts: Facts, answer: FinalAnswer) -> FinalAnswer | None:
    """Return the text of the only reference as the target; None if there is no target.

    The text is not a target if it is long, code, or a list of statements. There is also no target if calls are
    expected, or if the model wrote files. An output that only repeats the answer does not count as a file.
    """
    references = [document for document in facts.evidence.of("expected") if not quote.is_code(document)]
    files = any(
        quote.cell_name(document) != "output" or document.text.strip()[:LONGEST_ANSWER] != answer.text
        for document in facts.evidence.of("output")
    )
    if len(references) != 1 or facts.transcripts.expected or files or _listed(references[0]):
        return None
    text = references[0].text.strip()
    return FinalAnswer(text, cite_lines(references[0], 1, 2)) if text and len(text) <= LONGEST_TARGET else None


def _listed(document: Document) -> list[str]:
    """Return the values of a JSON list as strings; empty if the document is not a JSON list of strings and numbers."""
    if not document.text.lstrip().startswith("["):
        return []
    try:
        values = json.loads(document.text)
    except (ValueError, RecursionError):
        return []
    plain = isinstance(values, list) and all(isinstance(value, str | int | float) for value in values)
    return [str(value) for value in values] if plain else []


def _fold(text: str) -> str:
    return " ".join(text.lower().split())


def _number(text: str) -> float | None:
    """Return the value of a text that is just a number; None for any other text.

    The number can have a currency sign or a per cent sign.
    """
    bare = text.strip().strip("$€£% .")
    return float(bare.replace(",", "")) if NUMBER.fullmatch(bare) else None


def _first_difference(answer: FinalAnswer, target: FinalAnswer) -> str:
    """Render how each of the two texts continues after their common beginning."""
    at = next((n for n, (a, b) in enumerate(zip(answer.text, target.text, strict=False)) if a != b), None)
    at = min(len(answer.text), len(target.text)) if at is None else at
    return f"{_short(answer.text[at : at + 8])} where the target has {_short(target.text[at : at + 8])}"


def _short(text: str) -> str:
    """Quote a text as code. The text is shortened, and backticks are replaced because they would end the quotation."""
    return f"`{quote.cut(text.replace('`', chr(39)), 70)}`" if text.strip() else "nothing"

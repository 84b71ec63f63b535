"""Find where failed and passed trials first differ, and what regressed evals share."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile, zip_longest
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.evidence.errors import normalise_error
from evalscribe.model.comparison import Behaviour, EvalPair, Quote, RegressionExplanation, Trial
from evalscribe.model.transcript import AssistantMessage, ChatMessage, ToolMessage, Transcript
from evalscribe.text import cut, one_line

RULES = "rules"
LONGEST = 200


class _Call(NamedTuple):
    name: str
    message: int
    """Number of the message, from 1."""
    arguments: dict[str, JsonValue]

    @property
    def said(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return cut(one_line(f"{self.name}({arguments})"), LONGEST)


def first_divergence(base: Transcript, candidate: Transcript) -> RegressionExplanation | None:
    """What the candidate called where the base called something else; None where both called the same.

    Which call made the difference nobody knows from this alone: it is where to look first.
    """
    for before, after in zip_longest(_calls(base), _calls(candidate)):
        if before and after and (before.name, before.arguments) == (after.name, after.arguments):
            continue
        return _why(before, after)
    return None


def _calls(transcript: Transcript) -> Iterator[_Call]:
    """Calls that gave something back: what answers nothing, such as a note to oneself, did nothing."""
    for at, message in enumerate(transcript.messages):
        if isinstance(message, AssistantMessage):
            answers = list(takewhile(_answers, islice(transcript.messages, at + 1, None)))
            for call, answer in zip_longest(message.tool_calls, answers[: len(message.tool_calls)]):
                if answer is None or answer.content.strip() or getattr(answer, "error", None):
                    yield _Call(call.function, at + 1, call.arguments)


def _answers(message: ChatMessage) -> bool:
    return isinstance(message, ToolMessage)


def _why(before: _Call | None, after: _Call | None) -> RegressionExplanation:
    quotes = [_quote("base", before)] if before else []
    quotes += [_quote("candidate", after)] if after else []
    name, text = _difference(before, after)
    return RegressionExplanation(behaviour=name, text=text, quotes=tuple(quotes), judge=RULES)


def _difference(before: _Call | None, after: _Call | None) -> tuple[str, str]:
    if before is None and after is not None:
        return f"also calls {after.name}", f"Goes on with `{after.name}` where the passing try has made its last call."
    if after is None and before is not None:
        return f"stops before {before.name}", f"Makes no further call where the passing try calls `{before.name}`."
    if before is None or after is None:
        raise ValueError("no call on either side is no difference")
    if before.name != after.name:
        return (
            f"{after.name} instead of {before.name}",
            f"First calls `{after.name}` where the passing try calls `{before.name}`.",
        )
    return f"other arguments for {after.name}", f"First differs in what it gives to `{after.name}`."


def _quote(side: str, call: _Call) -> Quote:
    return Quote.model_validate({"side": side, "place": f"message {call.message}", "text": call.said, "verified": True})


UNKNOWN = "no reason recorded"
SAME_ERROR = "the same error"


def shared_behaviours(pairs: Sequence[EvalPair]) -> tuple[Behaviour, ...]:
    """Regressed evals by what they share, most frequent first: what a judge names, the cause of the run's report, the
    first call that differs, the located error, the failed step."""
    groups: dict[tuple[str, str, str], list[EvalPair]] = defaultdict(list)
    for pair in pairs:
        if pair.change == "regressed":
            groups[_shared(pair)].append(pair)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        Behaviour(
            name=_as_recorded(name, of[0]) if text == SAME_ERROR else name,
            text=text,
            evals=tuple(pair.eval for pair in of),
            by=by,
            known=name != UNKNOWN,
        )
        for (name, text, by), of in ranked
    )


def _as_recorded(signature: str, pair: EvalPair) -> str:
    """As the first of a group has it: a signature has lost its capitals and numbers."""
    failed = _failed(pair)
    if failed.error and signature.endswith((normalise_error(failed.error), failed.error.casefold())):
        return ": ".join(filter(None, (failed.step, failed.error)))
    return signature


def _failed(pair: EvalPair) -> Trial:
    return next(trial for trial in pair.candidate if not trial.passed)


def _shared(pair: EvalPair) -> tuple[str, str, str]:
    """Name, what kind of thing is shared, who says so."""
    failed = _failed(pair)
    if pair.why and pair.why.judge != RULES:
        return pair.why.behaviour, "as the judge calls it", pair.why.judge
    if failed.cause:
        return (
            failed.cause,
            f"the cause in its report{f' ({failed.cause_kind})' if failed.cause_kind else ''}",
            RULES,
        )
    if pair.why:
        return pair.why.behaviour, "the first tool call that differs", RULES
    return _recorded(failed)


def _recorded(failed: Trial) -> tuple[str, str, str]:
    if failed.signature:
        return failed.signature, SAME_ERROR, RULES
    if failed.step:
        return f"fails in {failed.step}", "the step that fails", RULES
    return UNKNOWN, "nothing tells why", RULES

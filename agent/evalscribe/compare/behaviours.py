"""What regressed evals have in common, from what a judge or the rules say of each."""

from collections import defaultdict
from collections.abc import Sequence

from evalscribe.compare.divergence import RULES
from evalscribe.model.comparison import Behaviour, EvalPair, Trial
from evalscribe.signature.wording import normalised

UNKNOWN = "no reason recorded"
SAME_ERROR = "the same error"


def behaviours(pairs: Sequence[EvalPair]) -> tuple[Behaviour, ...]:
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
    if failed.error and signature.endswith((normalised(failed.error), failed.error.casefold())):
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

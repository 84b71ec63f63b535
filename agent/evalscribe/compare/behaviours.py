"""What regressed evals have in common, from what a judge or the rules say of each."""

from collections import defaultdict
from collections.abc import Sequence

from evalscribe.compare.divergence import RULES
from evalscribe.comparison import Behaviour, Pair, Trial

UNKNOWN = "no reason recorded"


def behaviours(pairs: Sequence[Pair]) -> tuple[Behaviour, ...]:
    """Regressed evals by what they share, most frequent first: what a judge names, the cause of the run's report, the
    first call that differs, the located error, the failed step."""
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for pair in pairs:
        if pair.change == "regressed":
            groups[_shared(pair)].append(pair.eval)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        Behaviour(name=name, text=text, evals=tuple(evals), by=by, known=name != UNKNOWN)
        for (name, text, by), evals in ranked
    )


def _shared(pair: Pair) -> tuple[str, str, str]:
    """Name, what kind of thing is shared, who says so."""
    failed = next(trial for trial in pair.candidate if not trial.passed)
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
        return failed.signature, "the same error", RULES
    if failed.step:
        return f"fails in {failed.step}", "the step that fails", RULES
    return UNKNOWN, "nothing tells why", RULES

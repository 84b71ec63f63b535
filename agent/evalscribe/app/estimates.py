"""What judging would take, said before anything is paid for."""

from collections.abc import Iterable, Iterator

from evalscribe.app.failures import Docket
from evalscribe.app.outcomes import Advice, Plan
from evalscribe.app.watcher import Watcher
from evalscribe.finding import Case, Finding, Group
from evalscribe.ports import Estimate


def plan(found: Docket, *, fresh: bool) -> Plan:
    """What would be asked of the judge; with `fresh` whatever the store knows."""
    known, estimates = 0, []
    for case in _cases(found, found.groups):
        if not fresh and found.knows(case):
            known += 1
        else:
            estimates.append(found.desk.judge.estimate(case))
    return Plan(
        run=found.run, judge=found.desk.judge.id, groups=len(found.groups), known=known, estimate=_total(estimates)
    )


def announce(found: Docket, watcher: Watcher, *, fresh: bool = False) -> None:
    """Say what it will take where it takes anything; a plan reads every case, which is only worth it then."""
    first = next(_cases(found, found.groups), None)
    if first is None or not found.desk.judge.estimate(first).input_tokens:
        return
    said = plan(found, fresh=fresh)
    asked = said.groups - said.known
    watcher.say(f"{said.judge} for {asked} of {said.groups} verdicts: {likely(said.estimate)}")


def advice(found: Docket, unsure: Iterable[Finding]) -> Advice | None:
    """What the adviser would take for these findings; None without one, or without findings."""
    of_group = {group.id: group for group in found.groups}
    groups = [of_group[finding.group] for finding in unsure]
    adviser = found.desk.adviser
    if adviser is None or not groups:
        return None
    return Advice(judge=adviser.id, estimate=_total(adviser.estimate(case) for case in _cases(found, groups)))


def likely(estimate: Estimate) -> str:
    """`about 120,000 tokens, $1.20`."""
    tokens = f"about {estimate.input_tokens + estimate.output_tokens:,} tokens"
    return tokens if estimate.cost_usd is None else f"{tokens}, ${estimate.cost_usd:.2f}"


def _cases(found: Docket, groups: Iterable[Group]) -> Iterator[Case]:
    """One after the other: never all at once in memory."""
    return (case for case in map(found.case, groups) if isinstance(case, Case))


def _total(estimates: Iterable[Estimate]) -> Estimate:
    total = Estimate()
    for one in estimates:
        unpriced = total.cost_usd is None or one.cost_usd is None
        total = Estimate(
            input_tokens=total.input_tokens + one.input_tokens,
            output_tokens=total.output_tokens + one.output_tokens,
            cost_usd=None if unpriced else (total.cost_usd or 0.0) + (one.cost_usd or 0.0),
        )
    return total

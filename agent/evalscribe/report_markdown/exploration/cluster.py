"""One cluster on the page of an exploration."""

from collections.abc import Iterator, Mapping, Sequence

from evalscribe.model.exploration import Cluster, ClusterShare, Member, Passage
from evalscribe.report_markdown import inline
from evalscribe.text import cut, join_first, one_line, pluralise, prose

MOST_NAMED = 30
"""Evals that are named."""
LONGEST_PASSAGE = 300


def row(number: int, cluster: Cluster, explored: int) -> str:
    n = len(cluster.agent_runs)
    return inline.row(str(number), inline.name(cluster.name), str(n), percent(n, explored))


def cluster_lines(number: int, cluster: Cluster, members: Mapping[str, Member]) -> Iterator[str]:
    runs = pluralise(len(cluster.agent_runs), "agent run")
    yield f"### {number}. {inline.name(cluster.name)}: {runs} ({percent(len(cluster.agent_runs), len(members))})"
    yield prose(cluster.text)
    yield ""
    if cluster.parts:
        yield f"- Made of: {', '.join(map(inline.name, cluster.parts))}"
    yield from _shares(cluster) if len(cluster.agent_runs) > 1 else ()
    several = len({member.run_id for member in members.values()}) > 1
    yield from (_passage(one, with_run=several) for one in cluster.passages)
    yield f"- Agent runs: {named(cluster.agent_runs, members)}"


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def named(runs: Sequence[str], members: Mapping[str, Member]) -> str:
    """Evals by name, the trials of one together."""
    trials: dict[str, list[int]] = {}
    for run in runs:
        name, trial = _without_trial(members[run])
        trials.setdefault(name, []).extend(trial)
    told = [
        inline.path(one_line(name)) + (f" ({', '.join(map(str, sorted(numbers)))})" if numbers else "")
        for name, numbers in trials.items()
    ]
    return join_first(told, MOST_NAMED)


def _without_trial(member: Member) -> tuple[str, list[int]]:
    ending = f"#{member.trial}"
    return (member.eval.removesuffix(ending), [member.trial]) if member.eval.endswith(ending) else (member.eval, [])


def _shares(cluster: Cluster) -> Iterator[str]:
    for of in ("model", "task", "trial"):
        told = [_share(share) for share in cluster.shares if share.of == of]
        if told:
            yield f"- By {of}: {', '.join(told)}"


def _share(share: ClusterShare) -> str:
    return f"{inline.name(one_line(share.name))} ({share.agent_runs} of {share.among})"


def _passage(one: Passage, *, with_run: bool) -> str:
    """With everything that finds it again: eval and run, transcript and block."""
    mark = " (relocated)" if one.status == "relocated" else ""
    run = f", run {inline.code(one_line(one.run_id))}" if with_run else ""
    text = inline.code(cut(one_line(one.text), LONGEST_PASSAGE))
    return f"- {inline.path(one_line(one.eval))}{run}, {inline.code(one_line(one.place))}{mark}: {text}"

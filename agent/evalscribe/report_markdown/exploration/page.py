"""The page of an exploration: the answer first, then what it rests on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalscribe.model.exploration import Exploration, Member, Observation
from evalscribe.report_markdown import inline, kinds
from evalscribe.report_markdown.exploration.cluster import cluster_lines, named, percent, row
from evalscribe.text import cut, dollars, join_first, one_line, pluralise, prose

KIND = "evalscribe-explore/1"
MOST_TOLD = 40
"""Observations of one list."""
MOST_RUNS = 5
LONGEST_TITLE = 200
_NAMES = ("collection", "question", "where", "max_runs", "judge")


def exploration_page(found: Exploration) -> str:
    """Stable: nothing changes where nothing else was found."""
    lines = [f"# {prose(cut(one_line(found.question), LONGEST_TITLE))}", "", *_answer(found), "", *_about(found)]
    members = {member.id: member for member in found.members}
    if found.clusters:
        lines += ["", "## Clusters", *_table(found)]
    for number, cluster in enumerate(found.clusters, 1):
        lines += ["", *cluster_lines(number, cluster, members)]
    for title, part in _rest(found, members):
        lines += ["", f"## {title}", *part]
    facts = {
        "collection": found.collection_id,
        "question": found.question,
        "where": found.where,
        "max_runs": found.max_runs,
        "judge": found.judge,
    }
    return kinds.document(KIND, facts, lines)


def same_question(text: str, other: str) -> bool:
    """Whether two documents answer the same question about the same agent runs, by the same judge."""
    return kinds.same_facts(text, other, _NAMES)


def _answer(found: Exploration) -> Iterator[str]:
    if found.answer:
        yield prose(found.answer)
        yield ""
    yield f"**{_headline(found)}**"


def _headline(found: Exploration) -> str:
    n = len(found.members)
    if not found.clusters:
        return f"Nothing that speaks to the question was put together from {pluralise(n, 'agent run')}."
    clustered = {run for cluster in found.clusters for run in cluster.agent_runs}
    clusters = pluralise(len(found.clusters), "cluster")
    return f"{len(clustered)} of {pluralise(n, 'agent run')} ({percent(len(clustered), n)}) are in {clusters}."


def _about(found: Exploration) -> Iterator[str]:
    rows = {
        "Collection": inline.name(one_line(found.collection)),
        "Agent runs": _statuses(found.members),
        "Runs": _runs(found.members),
        "Which": inline.code(one_line(found.where)) if found.where else "all",
        "Models": inline.paths(sorted({one_line(f"{one.provider}/{one.model}") for one in found.members})[:10]),
        "Judge": inline.name(found.judge),
        "Cost": _cost(found),
    }
    yield from ("| | |", "|---|---|")
    yield from (inline.row(name, text) for name, text in rows.items() if text)


def _statuses(members: Sequence[Member]) -> str:
    names = ("passed", "failed", "error", "incomplete")
    counts = {name: sum(one.status == name for one in members) for name in names}
    return ", ".join([f"{len(members)}", *(f"{n} {name}" for name, n in counts.items() if n)])


def _runs(members: Sequence[Member]) -> str:
    runs = sorted({one_line(member.run_id) for member in members})
    return join_first([*map(inline.code, runs)], MOST_RUNS)


def _cost(found: Exploration) -> str:
    """Whenever it was paid, so that the page stays the same."""
    if not found.usage.calls:
        return ""
    tokens = found.usage.input_tokens + found.usage.output_tokens
    return f"{dollars(found.usage.cost_usd)} ({pluralise(found.usage.calls, 'call')}, {tokens:,} tokens)"


def _table(found: Exploration) -> Iterator[str]:
    yield from ("| # | Cluster | Agent runs | Share |", "|--:|---|--:|--:|")
    yield from (row(number, cluster, len(found.members)) for number, cluster in enumerate(found.clusters, 1))


def _rest(found: Exploration, members: Mapping[str, Member]) -> Iterator[tuple[str, Iterable[str]]]:
    by_id = {one.id: one for one in found.observations}
    if found.other:
        yield "Other observations", _told([by_id[id] for id in found.other], members)
    if found.unverified:
        yield "Unverified", _unverified(found.unverified)
    if uncovered := list(_uncovered(found, members)):
        yield "Not covered", uncovered
    if found.notes:
        yield "Limits", [f"- {prose(note)}" for note in found.notes]


def _told(observations: Sequence[Observation], members: Mapping[str, Member]) -> Iterator[str]:
    for one in observations[:MOST_TOLD]:
        yield f"- {prose(one.text)} ({named(one.agent_runs, members)})"
    if len(observations) > MOST_TOLD:
        yield f"- And {len(observations) - MOST_TOLD} more, which `--json` has."


def _unverified(observations: Sequence[Observation]) -> Iterator[str]:
    yield "Nothing that was cited for these is there: they count for nothing."
    yield ""
    yield from (f"- (unverified) {prose(one.text)}" for one in observations[:MOST_TOLD])
    if len(observations) > MOST_TOLD:
        yield f"- And {len(observations) - MOST_TOLD} more, which `--json` has."


def _uncovered(found: Exploration, members: Mapping[str, Member]) -> Iterator[str]:
    for gap in found.gaps:
        runs = pluralise(len(gap.agent_runs), "agent run")
        yield f"- Not read, {runs}: {prose(gap.reason)} ({named(gap.agent_runs, members)})"
    passed = [run for run in found.silent if members[run].status == "passed"]
    if passed:
        yield f"- Nothing said of {pluralise(len(passed), 'agent run')} that passed."
    if failed := [run for run in found.silent if run not in set(passed)]:
        yield f"- Nothing said of {pluralise(len(failed), 'agent run')} that did not pass: {named(failed, members)}"
    if found.left_out:
        yield f"- Left out, beyond the most that were to be read: {pluralise(found.left_out, 'agent run')}"

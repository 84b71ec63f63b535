"""Render explorations as markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalscribe.collections.clusters import words
from evalscribe.model.exploration import Cluster, ClusterShare, Exploration, Member, Observation, Passage
from evalscribe.model.finding import by_rules
from evalscribe.reports import documents, inline
from evalscribe.text import cut, dollars, join_first, one_line, pluralise, prose

MOST_NAMED = 30
"""Maximum evals that a list names."""
LONGEST_PASSAGE = 300


def row(number: int, cluster: Cluster, explored: int) -> str:
    n = len(cluster.agent_runs)
    return inline.row(str(number), inline.cell(_title(cluster)), str(n), percent(n, explored))


def _title(cluster: Cluster) -> str:
    name = words(cluster.name)
    return name[:1].upper() + name[1:]


def cluster_lines(number: int, cluster: Cluster, members: Mapping[str, Member]) -> Iterator[str]:
    runs = pluralise(len(cluster.agent_runs), "agent run")
    yield f"### {number}. {_title(cluster)}: {runs} ({percent(len(cluster.agent_runs), len(members))})"
    yield prose(cluster.text)
    yield ""
    if cluster.parts:
        yield f"- Made of: {', '.join(map(words, cluster.parts))}"
    yield from _shares(cluster) if len(cluster.agent_runs) > 1 else ()
    several = len({member.run_id for member in members.values()}) > 1
    yield from (_passage(one, with_run=several) for one in cluster.passages)
    yield f"- Agent runs: {named(cluster.agent_runs, members)}"


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def named(runs: Sequence[str], members: Mapping[str, Member]) -> str:
    """Render the names of evals, with the trials of one eval together."""
    trials: dict[str, list[int]] = {}
    for run in runs:
        name, trial = _without_trial(members[run])
        trials.setdefault(name, []).extend(trial)
    told = [
        inline.printed_path(one_line(name)) + (f" ({', '.join(map(str, sorted(numbers)))})" if numbers else "")
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
    """Render a passage with its location: eval and run, transcript and block."""
    mark = " (relocated)" if one.status == "relocated" else ""
    run = f", run {inline.code(one_line(one.run_id))}" if with_run else ""
    text = inline.code(cut(one_line(one.text), LONGEST_PASSAGE))
    return f"- {inline.printed_path(one_line(one.eval))}{run}, {inline.code(one_line(one.place))}{mark}: {text}"


EXPLORATION_KIND = "evalscribe-explore/1"
MOST_TOLD = 40
"""Maximum observations in one list."""
MOST_RUNS = 5
LONGEST_TITLE = 200
_NAMES = ("collection", "question", "where", "max_runs", "judge")


def exploration_page(found: Exploration) -> str:
    """Render an exploration. The same result gives the same page."""
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
        documents.NOT_ANSWERED: sum(len(gap.agent_runs) for gap in found.gaps) + (found.answer is None),
    }
    return documents.document(EXPLORATION_KIND, facts, lines)


def same_question(text: str, other: str) -> bool:
    """Return whether two documents answer the same question about the same agent runs, by the same judge."""
    return documents.same_facts(text, other, _NAMES)


NO_MODEL = (
    "No model was asked, so the question is not answered. Instead, failures are grouped by cause. "
    "To have it answered, use `--judge PROVIDER/MODEL`."
)


def _answer(found: Exploration) -> Iterator[str]:
    if by_rules(found.judge):
        yield NO_MODEL
        yield ""
    if found.answer:
        yield prose(found.answer)
        yield ""
    yield f"**{_headline(found)}**"


def _headline(found: Exploration) -> str:
    n = len(found.members)
    if not found.clusters:
        return f"No observation about the question was found in {pluralise(n, 'agent run')}."
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
    """Render the total cost, including cached answers, so that a repeated command writes the same page."""
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
        yield f"- And {len(observations) - MOST_TOLD} more; see `--json`."


def _unverified(observations: Sequence[Observation]) -> Iterator[str]:
    yield "None of the quotations cited for these observations were found, so the observations are not counted."
    yield ""
    yield from (f"- (unverified) {prose(one.text)}" for one in observations[:MOST_TOLD])
    if len(observations) > MOST_TOLD:
        yield f"- And {len(observations) - MOST_TOLD} more; see `--json`."


def _uncovered(found: Exploration, members: Mapping[str, Member]) -> Iterator[str]:
    for gap in found.gaps:
        runs = pluralise(len(gap.agent_runs), "agent run")
        yield f"- Not read, {runs}: {prose(gap.reason)} ({named(gap.agent_runs, members)})"
    passed = [run for run in found.silent if members[run].status == "passed"]
    if passed:
        yield f"- Nothing observed in {pluralise(len(passed), 'agent run')} that passed."
    if failed := [run for run in found.silent if run not in set(passed)]:
        yield f"- Nothing observed in {pluralise(len(failed), 'agent run')} that did not pass: {named(failed, members)}"
    if found.left_out:
        yield f"- Not read because of the limit: {pluralise(found.left_out, 'agent run')}"

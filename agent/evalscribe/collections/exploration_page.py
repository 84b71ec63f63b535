"""Render explorations as markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalscribe.collections.clusters import words
from evalscribe.model.exploration import Cluster, ClusterShare, Exploration, Member, Observation, Passage
from evalscribe.model.finding import by_rules
from evalscribe.reports import documents, inline
from evalscribe.text import cut, dollars, join_first, one_line, pluralise, prose

MOST_NAMED = 30
"""Maximum number of evals named in a list."""
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
    several_runs = len({member.run_id for member in members.values()}) > 1
    yield from (_passage(passage, with_run=several_runs) for passage in cluster.passages)
    yield f"- Agent runs: {eval_names(cluster.agent_runs, members)}"


def percent(part: int, total: int) -> str:
    return f"{100 * part / total:.0f} %" if total else "0 %"


def eval_names(runs: Sequence[str], members: Mapping[str, Member]) -> str:
    """Render the names of the evals of agent runs. The trials of the same eval are listed together."""
    trials: dict[str, list[int]] = {}
    for run in runs:
        name, trial = _without_trial(members[run])
        trials.setdefault(name, []).extend(trial)
    texts = [
        inline.printed_path(one_line(name)) + (f" ({', '.join(map(str, sorted(numbers)))})" if numbers else "")
        for name, numbers in trials.items()
    ]
    return join_first(texts, MOST_NAMED)


def _without_trial(member: Member) -> tuple[str, list[int]]:
    ending = f"#{member.trial}"
    return (member.eval.removesuffix(ending), [member.trial]) if member.eval.endswith(ending) else (member.eval, [])


def _shares(cluster: Cluster) -> Iterator[str]:
    for kind in ("model", "task", "trial"):
        texts = [_share(share) for share in cluster.shares if share.of == kind]
        if texts:
            yield f"- By {kind}: {', '.join(texts)}"


def _share(share: ClusterShare) -> str:
    return f"{inline.name(one_line(share.name))} ({share.agent_runs} of {share.among})"


def _passage(passage: Passage, *, with_run: bool) -> str:
    """Render a passage with its eval, its run if `with_run` is true, and its place within the agent run."""
    mark = " (relocated)" if passage.status == "relocated" else ""
    run = f", run {inline.code(one_line(passage.run_id))}" if with_run else ""
    text = inline.code(cut(one_line(passage.text), LONGEST_PASSAGE))
    return f"- {inline.printed_path(one_line(passage.eval))}{run}, {inline.code(one_line(passage.place))}{mark}: {text}"


EXPLORATION_KIND = "evalscribe-explore/1"
MOST_LISTED = 40
"""Maximum number of observations in one list."""
MOST_RUNS = 5
LONGEST_TITLE = 200
_NAMES = ("collection", "question", "where", "max_runs", "judge")


def exploration_page(exploration: Exploration) -> str:
    """Render an exploration as markdown. Equal results give identical pages."""
    lines = [
        f"# {prose(cut(one_line(exploration.question), LONGEST_TITLE))}",
        "",
        *_answer(exploration),
        "",
        *_about(exploration),
    ]
    members = {member.id: member for member in exploration.members}
    if exploration.clusters:
        lines += ["", "## Clusters", *_table(exploration)]
    for number, cluster in enumerate(exploration.clusters, 1):
        lines += ["", *cluster_lines(number, cluster, members)]
    for title, part in _rest(exploration, members):
        lines += ["", f"## {title}", *part]
    facts = {
        "collection": exploration.collection_id,
        "question": exploration.question,
        "where": exploration.where,
        "max_runs": exploration.max_runs,
        "judge": exploration.judge,
        documents.NOT_ANSWERED: sum(len(gap.agent_runs) for gap in exploration.gaps) + (exploration.answer is None),
    }
    return documents.document(EXPLORATION_KIND, facts, lines)


def same_question(text: str, other: str) -> bool:
    """Return whether two pages answer the same question about the same agent runs with the same judge."""
    return documents.same_facts(text, other, _NAMES)


NO_MODEL = (
    "No model was asked, so the question is not answered. Instead, failures are grouped by cause. "
    "To have it answered, name a model as the judge."
)


def _answer(exploration: Exploration) -> Iterator[str]:
    if by_rules(exploration.judge):
        yield NO_MODEL
        yield ""
    if exploration.answer:
        yield prose(exploration.answer)
        yield ""
    yield f"**{_headline(exploration)}**"


def _headline(exploration: Exploration) -> str:
    n = len(exploration.members)
    if not exploration.clusters:
        return f"No observation about the question was found in {pluralise(n, 'agent run')}."
    clustered = {run for cluster in exploration.clusters for run in cluster.agent_runs}
    clusters = pluralise(len(exploration.clusters), "cluster")
    return f"{len(clustered)} of {pluralise(n, 'agent run')} ({percent(len(clustered), n)}) are in {clusters}."


def _about(exploration: Exploration) -> Iterator[str]:
    rows = {
        "Collection": inline.name(one_line(exploration.collection)),
        "Agent runs": _statuses(exploration.members),
        "Runs": _runs(exploration.members),
        "Which": inline.code(one_line(exploration.where)) if exploration.where else "all",
        "Models": inline.paths(
            sorted({one_line(f"{member.provider}/{member.model}") for member in exploration.members})[:10]
        ),
        "Judge": inline.name(exploration.judge),
        "Cost": _cost(exploration),
    }
    yield from ("| | |", "|---|---|")
    yield from (inline.row(name, text) for name, text in rows.items() if text)


def _statuses(members: Sequence[Member]) -> str:
    names = ("passed", "failed", "error", "incomplete")
    counts = {name: sum(member.status == name for member in members) for name in names}
    return ", ".join([f"{len(members)}", *(f"{n} {name}" for name, n in counts.items() if n)])


def _runs(members: Sequence[Member]) -> str:
    runs = sorted({one_line(member.run_id) for member in members})
    return join_first([*map(inline.code, runs)], MOST_RUNS)


def _cost(exploration: Exploration) -> str:
    """Render the total cost.

    The cost of cached answers is included, so that repeating a command writes the same page.
    """
    if not exploration.usage.calls:
        return ""
    tokens = exploration.usage.input_tokens + exploration.usage.output_tokens
    return f"{dollars(exploration.usage.cost_usd)} ({pluralise(exploration.usage.calls, 'call')}, {tokens:,} tokens)"


def _table(exploration: Exploration) -> Iterator[str]:
    yield from ("| # | Cluster | Agent runs | Share |", "|--:|---|--:|--:|")
    yield from (
        row(number, cluster, len(exploration.members)) for number, cluster in enumerate(exploration.clusters, 1)
    )


def _rest(exploration: Exploration, members: Mapping[str, Member]) -> Iterator[tuple[str, Iterable[str]]]:
    by_id = {observation.id: observation for observation in exploration.observations}
    if exploration.other:
        yield "Other observations", _observation_lines([by_id[id] for id in exploration.other], members)
    if exploration.unverified:
        yield "Unverified", _unverified(exploration.unverified)
    if uncovered := list(_uncovered(exploration, members)):
        yield "Not covered", uncovered
    if exploration.notes:
        yield "Limits", [f"- {prose(note)}" for note in exploration.notes]


def _observation_lines(observations: Sequence[Observation], members: Mapping[str, Member]) -> Iterator[str]:
    for observation in observations[:MOST_LISTED]:
        yield f"- {prose(observation.text)} ({eval_names(observation.agent_runs, members)})"
    if len(observations) > MOST_LISTED:
        yield f"- And {len(observations) - MOST_LISTED} more; the JSON document has all."


def _unverified(observations: Sequence[Observation]) -> Iterator[str]:
    yield "None of the quotations cited for these observations were found, so the observations are not counted."
    yield ""
    yield from (f"- (unverified) {prose(observation.text)}" for observation in observations[:MOST_LISTED])
    if len(observations) > MOST_LISTED:
        yield f"- And {len(observations) - MOST_LISTED} more; the JSON document has all."


def _uncovered(exploration: Exploration, members: Mapping[str, Member]) -> Iterator[str]:
    for gap in exploration.gaps:
        runs = pluralise(len(gap.agent_runs), "agent run")
        yield f"- Not read, {runs}: {prose(gap.reason)} ({eval_names(gap.agent_runs, members)})"
    passed = [run for run in exploration.silent if members[run].status == "passed"]
    if passed:
        yield f"- Nothing observed in {pluralise(len(passed), 'agent run')} that passed."
    if failed := [run for run in exploration.silent if run not in set(passed)]:
        runs = pluralise(len(failed), "agent run")
        yield f"- Nothing observed in {runs} that did not pass: {eval_names(failed, members)}"
    if exploration.left_out:
        yield f"- Not read because of the limit: {pluralise(exploration.left_out, 'agent run')}"

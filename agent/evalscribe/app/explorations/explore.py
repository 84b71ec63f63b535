"""Explore a collection: one question asked of many agent runs, and the page of what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evalscribe.app.collections.query import QueryDesk
from evalscribe.app.collections.selection import picked
from evalscribe.app.explorations.by_model import Judges, Said, asked, planned
from evalscribe.app.explorations.by_rules import by_rules
from evalscribe.app.explorations.page import put_exploration
from evalscribe.app.kept import kept
from evalscribe.app.placed import Put
from evalscribe.app.watcher import Watcher
from evalscribe.chat import Usage
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.exploration import Exploration, Member
from evalscribe.explore import silent
from evalscribe.ids import Frozen
from evalscribe.json_clean import clean_text
from evalscribe.judging.rules.engine import ID as RULES
from evalscribe.ports import Archive, Estimate, Library, Store
from evalscribe.prose import counted, one_line
from evalscribe.record import Record
from evalscribe.redaction import redact
from evalscribe.report_markdown.exploration import exploration_page
from evalscribe.rubric import Collection

LONGEST_QUESTION = 4000


class Wish(Frozen):
    """What is asked."""

    question: str
    where: str | None = None
    """A condition over `agent_runs`, or a SELECT that gives `id`."""
    max_runs: int | None = None
    """At most so many agent runs, by id."""
    dry_run: bool = False
    """Nothing is asked and nothing written."""
    writes: bool = True


@dataclass(frozen=True)
class ExploreDesk:
    """What exploring works with."""

    collection: Collection
    archive: Archive
    store: Store
    query: QueryDesk
    library: Library
    judges: Callable[[str], Judges] | None = None
    """Of a question; None: the rules say what they can."""
    spent: Callable[[], Mapping[str, Usage]] = field(default=dict)


class Explored(Frozen):
    """What came of it."""

    found: Exploration | None
    """None for a dry run."""
    text: str = ""
    """The page."""
    put: Put | None = None
    estimate: Estimate | None = None
    """What asking takes at most; None where nobody would be asked."""


async def explore(desk: ExploreDesk, wish: Wish, watcher: Watcher) -> Explored:
    """Raises `EvalscribeError` for what concerns all of it; what was answered by then is stored.

    `UsageError` for a condition that is no good, `NotFoundError` where it fits nothing, `DataError` where nothing at
    all could be read.
    """
    question = _question(wish.question)
    every = picked(desk.query, desk.collection.id, wish.where)
    members = every[: wish.max_runs]
    if not members:
        fits = " fits the condition" if wish.where else ""
        raise NotFoundError(f"no agent run of collection {desk.collection.name!r}{fits}: there is nothing to explore")
    watcher.say(f"{counted(len(members), 'agent run')} of collection {desk.collection.name}")

    def read(member: Member) -> Record | None:
        return kept(desk.archive, desk.store, member.run_id, member.id)

    judges = desk.judges(question) if desk.judges else None
    if judges is None:
        if wish.dry_run:
            return Explored(found=None)
        said = await by_rules(desk.query, desk.collection.id, members, read, watcher)
        estimate = None
    else:
        plan = await planned(judges, members, read)
        estimate = plan.estimate
        watcher.say(f"{judges.name} in {counted(plan.calls, 'call')} or so: {estimate.summary}, less what is known")
        if wish.dry_run:
            return Explored(found=None, estimate=estimate)
        said = await asked(judges, plan, members, read, watcher)
    found = _found(desk, wish, question, judges.name if judges else RULES, members, said)
    found = found.model_copy(update={"left_out": len(every) - len(members)})
    text = exploration_page(found)
    put = put_exploration(desk.library, found, text) if wish.writes else None
    return Explored(found=found, text=text, put=put, estimate=estimate)


def _found(
    desk: ExploreDesk, wish: Wish, question: str, judge: str, members: Sequence[Member], said: Said
) -> Exploration:
    unread = [run for gap in said.gaps for run in gap.agent_runs]
    return Exploration(
        question=question,
        collection=desk.collection.name,
        collection_id=desk.collection.id,
        where=one_line(redact(clean_text(wish.where))) if wish.where else None,
        max_runs=wish.max_runs,
        judge=judge,
        members=tuple(members),
        answer=said.answer,
        clusters=said.clusters,
        observations=said.observations,
        unverified=said.unverified,
        other=said.other,
        silent=silent(members, said.observations, unread),
        gaps=said.gaps,
        notes=said.notes,
        usage=said.usage,
    )


def _question(text: str) -> str:
    """Redacted, for it is stored. Raises `UsageError` for none."""
    question = redact(clean_text(text)).strip()
    if not question:
        raise UsageError('ask something: `evalscribe explore "what do the failures have in common?"`')
    if len(question) > LONGEST_QUESTION:
        raise UsageError(f"the question has {len(question)} characters; {LONGEST_QUESTION} are the most")
    return question

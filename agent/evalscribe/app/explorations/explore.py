"""Explore a collection: one question asked of many agent runs, and the page of what came of it."""

from evalscribe.app.collections.choice import chosen
from evalscribe.app.collections.selection import picked
from evalscribe.app.explorations.by_model import asked, opened_judges, planned
from evalscribe.app.explorations.by_rules import by_rules
from evalscribe.app.explorations.page import put_exploration
from evalscribe.app.kept import kept
from evalscribe.app.placed import Put
from evalscribe.app.watcher import Watcher
from evalscribe.collections.clusters import unmentioned_runs
from evalscribe.collections.exploration_page import exploration_page
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.json_data import clean_text
from evalscribe.judging.rules.engine import ID as RULES_ID
from evalscribe.model.exploration import Exploration, Member
from evalscribe.model.protocols import Estimate
from evalscribe.model.record import Record
from evalscribe.redaction.redact import redact
from evalscribe.settings import RULES
from evalscribe.text import one_line, pluralise
from evalscribe.workspace import Workspace

LONGEST_QUESTION = 4000


class Explored(Frozen):
    """What came of it."""

    found: Exploration | None
    """None for a dry run."""
    text: str = ""
    """The page."""
    put: Put | None = None
    estimate: Estimate | None = None
    """What asking takes at most; None where nobody would be asked."""


async def explore(
    workspace: Workspace,
    question: str,
    watcher: Watcher,
    *,
    collection: str | None = None,
    where: str | None = None,
    max_runs: int | None = None,
    dry_run: bool = False,
    writes: bool = True,
) -> Explored:
    """Ask one question of many agent runs.

    Args:
        workspace: Where answers and the page go; needs `async with`.
        question: What is asked.
        watcher: Hears how it goes.
        collection: By name or id; None for the configured one, or the only one.
        where: A condition over `agent_runs`, or a SELECT that gives `id`.
        max_runs: At most so many agent runs, by id.
        dry_run: Only estimate: nothing is asked and nothing written.
        writes: Write the page into the reports.

    Raises:
        UsageError: The condition is no good.
        NotFoundError: It fits nothing.
        DataError: Nothing at all could be read.
        EvalscribeError: It concerns all of it, such as a judge that cannot be asked; what was answered is stored.
    """
    name = workspace.settings.judge_name
    if name != RULES:
        workspace.models.open(name, "observe")
    which = chosen(workspace, collection)
    question = _question(question)
    every = picked(workspace.tables, which.id, where)
    members = every[:max_runs]
    if not members:
        fits = " fits the condition" if where else ""
        raise NotFoundError(f"no agent run of collection {which.name!r}{fits}: there is nothing to explore")
    watcher.say(f"{pluralise(len(members), 'agent run')} of collection {which.name}")

    def read(member: Member) -> Record | None:
        return kept(workspace.store.runs, workspace.store.analyses, member.run_id, member.id)

    if name == RULES:
        if dry_run:
            return Explored(found=None)
        judge, estimate = RULES_ID, None
        said = await by_rules(workspace.tables, which.id, members, read, watcher)
    else:
        judges = opened_judges(workspace, name, question)
        plan = await planned(judges, members, read)
        judge, estimate = judges.name, plan.estimate
        watcher.say(f"{judge} in {pluralise(plan.calls, 'call')} or so: {estimate.summary}, less what is known")
        if dry_run:
            return Explored(found=None, estimate=estimate)
        said = await asked(judges, plan, members, read, watcher)
    unread = [run for gap in said.gaps for run in gap.agent_runs]
    found = Exploration(
        question=question,
        collection=which.name,
        collection_id=which.id,
        where=one_line(redact(clean_text(where))) if where else None,
        max_runs=max_runs,
        judge=judge,
        members=tuple(members),
        left_out=len(every) - len(members),
        answer=said.answer,
        clusters=said.clusters,
        observations=said.observations,
        unverified=said.unverified,
        other=said.other,
        silent=unmentioned_runs(members, said.observations, unread),
        gaps=said.gaps,
        notes=said.notes,
        usage=said.usage,
    )
    text = exploration_page(found)
    put = put_exploration(workspace.reports, found, text) if writes else None
    return Explored(found=found, text=text, put=put, estimate=estimate)


def _question(text: str) -> str:
    """Redacted, for it is stored. Raises `UsageError` for none."""
    question = redact(clean_text(text)).strip()
    if not question:
        raise UsageError('ask something: `evalscribe explore "what do the failures have in common?"`')
    if len(question) > LONGEST_QUESTION:
        raise UsageError(f"the question has {len(question)} characters; {LONGEST_QUESTION} are the most")
    return question

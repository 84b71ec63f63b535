"""Agent runs of a collection as subjects of judges, each read when it is its turn."""

from collections.abc import Iterable
from functools import partial

from evalscribe.app.collections.choice import chosen
from evalscribe.app.collections.selection import picked
from evalscribe.app.judging.judges import Loaded
from evalscribe.app.judging.subjects import Waiting
from evalscribe.app.kept import kept
from evalscribe.errors import NotFoundError
from evalscribe.judging.subjects import agent_run_subject, failure_subject
from evalscribe.model.exploration import Member
from evalscribe.model.record import evidence_of
from evalscribe.model.storage import EvalStore, Store
from evalscribe.workspace import Workspace


def collection_members(workspace: Workspace, collection: str | None, where: str | None) -> dict[str, Waiting]:
    """Those agent runs of a collection, by name or id, that fit a condition, by id. Raises `EvalscribeError`."""
    which = chosen(workspace, collection)
    members = picked(workspace.tables, which.id, where)
    if not members:
        fits = " fits the condition" if where else ""
        raise NotFoundError(f"no agent run of collection {which.name!r}{fits}: there is nothing to judge")
    return waiting(members, workspace.store.runs, workspace.store.analyses)


def waiting(members: Iterable[Member], archive: EvalStore, store: Store) -> dict[str, Waiting]:
    """By id. A failed one is shown as it is when its run is named, any other one as an agent run of a file is."""
    return {member.id: _waiting(member, archive, store) for member in members}


def _waiting(member: Member, archive: EvalStore, store: Store) -> Waiting:
    name = f"{member.run_id}/{member.eval}" if member.failed else member.id
    return Waiting(name=name, load=partial(_loaded, member, archive, store), is_eval=member.failed)


def _loaded(member: Member, archive: EvalStore, store: Store) -> Loaded | str:
    record = kept(archive, store, member.run_id, member.id)
    if record is None:
        return "nothing is kept of it: import its run again"
    if not member.failed:
        return Loaded(agent_run_subject(record.agent_run))
    evidence = evidence_of(record)
    return Loaded(failure_subject(member.run_id, evidence), evidence)

"""Agent runs of a collection as subjects of judges, each read when it is its turn."""

from collections.abc import Iterable
from functools import partial

from evalscribe.app.judging.subjects import Loaded, Waiting
from evalscribe.app.kept import kept
from evalscribe.exploration import Member
from evalscribe.judging.subject import of_agent_run, of_evidence
from evalscribe.ports import Archive, Store
from evalscribe.record_evidence import evidence_of


def waiting(members: Iterable[Member], archive: Archive, store: Store) -> dict[str, Waiting]:
    """By id. A failed one is shown as it is when its run is named, any other one as an agent run of a file is."""
    return {member.id: _waiting(member, archive, store) for member in members}


def _waiting(member: Member, archive: Archive, store: Store) -> Waiting:
    name = f"{member.run_id}/{member.eval}" if member.failed else member.id
    return Waiting(name=name, load=partial(_loaded, member, archive, store), is_eval=member.failed)


def _loaded(member: Member, archive: Archive, store: Store) -> Loaded | str:
    record = kept(archive, store, member.run_id, member.id)
    if record is None:
        return "nothing is kept of it: import its run again"
    if not member.failed:
        return Loaded(of_agent_run(record.agent_run))
    evidence = evidence_of(record)
    return Loaded(of_evidence(member.run_id, evidence), evidence)

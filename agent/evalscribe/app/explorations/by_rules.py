"""Explore without a model: failures by their cause, as their run's report has it, else as the rules decide now."""

import asyncio
from collections.abc import Sequence

from pydantic import ValidationError

from evalscribe.app.collections.query import MOST_ROWS, select
from evalscribe.app.explorations.by_model import GONE, Read, Said
from evalscribe.app.watcher import Watcher
from evalscribe.collections import answer
from evalscribe.collections import clusters as made
from evalscribe.collections.answer import CausedFailure
from evalscribe.evidence.errors import is_stock, normalise_error
from evalscribe.evidence.locate import signature
from evalscribe.failures.pack import case_of
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.evidence import Citation
from evalscribe.model.exploration import Gap, Member, Passage
from evalscribe.model.record import evidence_of
from evalscribe.model.storage import Tables
from evalscribe.text import cut, pluralise

NOT_READ = "The rules do not read the question: they put failures together by cause and by the error that they end in."
LONGEST_PASSAGE = 600
_FINDINGS = """\
SELECT agent_run_id, finding_json FROM findings WHERE cause IS NOT NULL
ORDER BY agent_run_id LIMIT {limit} OFFSET {offset}"""


async def by_rules(tables: Tables, collection_id: str, members: Sequence[Member], read: Read, watcher: Watcher) -> Said:
    """What is known of every failed one; those that passed are silent."""
    known = _findings(tables, collection_id)
    failures, gone = list[CausedFailure](), list[str]()
    failed = [member for member in members if member.failed]
    for n, member in enumerate(failed, 1):
        told = _reported(member, known[member.id]) if member.id in known else _judged(member, read)
        if told is None:
            gone.append(member.id)
        else:
            failures.append(told)
        watcher.fetched(n, len(failed))
        await asyncio.sleep(0)  # thousands are judged, and signals must not wait for all of them
    observations = answer.cause_observations(failures)
    clusters = made.build_clusters(answer.cluster_by_cause(failures, observations), members)
    clustered = {id for cluster in clusters for id in cluster.observations}
    reported = sum(member.id in known for member in failed)
    notes = (f"{pluralise(reported, 'failure')} as the report of its run has it.",) if reported else ()
    return Said(
        observations=observations,
        clusters=clusters,
        other=tuple(one.id for one in observations if one.id not in clustered),
        answer=answer.describe_figures(clusters, len(failed), len(members)),
        gaps=(Gap(agent_runs=tuple(gone), reason=GONE),) if gone else (),
        notes=(NOT_READ, *notes),
    )


def _findings(tables: Tables, collection_id: str) -> dict[str, FindingSummary]:
    found: dict[str, FindingSummary] = {}
    offset, more = 0, True
    while more:
        rows = select(tables, collection_id, _FINDINGS.format(limit=MOST_ROWS, offset=offset)).rows
        found |= {str(id): finding for id, told in rows if (finding := _finding(told)) is not None}
        offset += len(rows)
        more = len(rows) == MOST_ROWS
    return found


def _finding(told: object) -> FindingSummary | None:
    """None for one that was cut, or that another version wrote: its eval is judged anew."""
    try:
        return FindingSummary.model_validate(told)
    except ValidationError:
        return None


def _reported(member: Member, finding: FindingSummary) -> CausedFailure:
    error = finding.error or ""
    quoted = [Citation(**one.model_dump()) for one in finding.citations]
    return CausedFailure(
        member=member,
        cause=finding.cause or "unnamed",
        kind=finding.cause_kind or "unknown",
        why=finding.reasoning or error,
        error=error,
        signature=None if not error or is_stock(error) else normalise_error(error),
        uncertain=bool(finding.uncertain),
        passages=_passages(member, quoted),
    )


def _judged(member: Member, read: Read) -> CausedFailure | None:
    record = read(member)
    if record is None:
        return None
    evidence = evidence_of(record)
    case = case_of(evidence)
    verdict = RulesJudge().decide(case)
    located = case.diagnosis.located if case.diagnosis else None
    return CausedFailure(
        member=member,
        cause=verdict.cause,
        kind=verdict.cause_kind,
        why=verdict.why,
        error=verdict.error,
        signature=signature(evidence.eval.failed_step, located),
        uncertain=verdict.uncertain,
        passages=_passages(member, verdict.citations),
    )


def _passages(member: Member, citations: Sequence[Citation]) -> tuple[Passage, ...]:
    """Of those that were looked up and found."""
    return tuple(
        Passage(
            agent_run_id=member.id,
            run_id=member.run_id,
            eval=member.eval,
            place=f"{one.role} {one.path}:{one.first}" + (f"-{one.last}" if one.last > one.first else ""),
            text=cut(one.text, LONGEST_PASSAGE),
            status="relocated" if one.status == "relocated" else "verified",
        )
        for one in citations
        if one.status != "unverified"
    )

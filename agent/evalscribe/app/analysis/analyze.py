"""Analyze a run: read its failures, judge them, and write the report."""

from collections.abc import Mapping

from evalscribe.app.analysis.desk import Desk
from evalscribe.app.analysis.estimates import advice, announce, plan, saving
from evalscribe.app.analysis.failures import Docket, JudgingResult, docket, judge
from evalscribe.app.analysis.followed import followed
from evalscribe.app.analysis.outcomes import Analyzed, NothingFailed, Plan, Wish
from evalscribe.app.analysis.publishing import publish, target
from evalscribe.app.analysis.undecided import why_undecided, with_standing
from evalscribe.app.watcher import Watcher
from evalscribe.collate import collate
from evalscribe.compose import compose
from evalscribe.finding import Correction, Verdict, undecided
from evalscribe.pattern import Collation
from evalscribe.prose import some_of
from evalscribe.report import Report
from evalscribe.run import UNKNOWN, Run


async def analyze(desk: Desk, wish: Wish, watcher: Watcher) -> Analyzed | Plan | NothingFailed:
    """Every failure judged and the report written, unless nothing failed or only the plan was asked for.

    Raises `EvalscribeError` for what concerns the whole run; what was finished by then is in the store.
    """
    run = _renamed(await desk.source.run(), wish)
    if not run.failures:
        desk.store.put_run(run)
        return NothingFailed(run=run, message=nothing_failed(run))
    watcher.started(run)
    with desk.store.lock(run.id):
        desk.store.put_run(run)
        found = await docket(desk, run, watcher)
        if found.run != run:
            desk.store.put_run(found.run)
        desk.store.put_sightings(run.id, found.sightings)
        if wish.dry_run:
            return plan(found, fresh=wish.fresh)
        if desk.own_prompts:
            watcher.say("The workspace's own prompts are used in place of the shipped ones.")
        announce(found, watcher, fresh=wish.fresh)
        judged = await judge(found, watcher, fresh=wish.fresh)
        return _analyzed(found, judged, wish)


def nothing_failed(run: Run) -> str:
    """All passed is said only where it is so: every eval of a completed run."""
    if run.all_passed:
        return f"All {run.total} evals passed. Nothing was written."
    so_far = _so_far(run)
    if run.failed:
        return f"The source counts {run.failed} failed evals but lists none of them ({so_far}). Nothing was written."
    state = f"{_STATES[run.status]}: {run.status_reason}" if run.status_reason else _STATES[run.status]
    return f"{state.rstrip('.')}. No failed eval is listed ({so_far}). Nothing was written."


_STATES = {
    "completed": "The run is completed",
    "failed": "The run did not complete",
    "running": "The run has not ended",
    "unknown": "It is not known whether the run has completed",
    "importing": "Only a part of the run was imported",
}


def _so_far(run: Run) -> str:
    """Passed evals out of those that started; the total of an unfinished run counts no others."""
    if not run.total:
        return "no eval was started"
    of = f"{run.total} evals" if run.status == "completed" else f"the {run.total} evals that were started"
    unfinished = "have not ended" if run.status == "running" else "never completed"
    return f"{run.passed} of {of} passed" + (f", {run.incomplete} {unfinished}" if run.incomplete else "")


def _renamed(run: Run, wish: Wish) -> Run:
    provider, model = wish.provider, wish.model
    before, slash, after = (model or "").partition("/")
    if slash and after and not provider and run.provider in (UNKNOWN, before):
        provider, model = before, after
    given = {"provider": provider, "model": model}
    return run.model_copy(update={name: value for name, value in given.items() if value})


def _analyzed(found: Docket, judged: JudgingResult, wish: Wish) -> Analyzed:
    """Compose and write the report of a run.

    Raises `EvalscribeError` if no failure could be judged; an earlier report then stays unchanged.
    """
    desk, past = found.desk, found.history
    date = wish.date or desk.clock.today().isoformat()
    place = target(desk, found.run, date)
    standing = place.standing()
    overwrites = wish.writes and place.where.current is not None
    if (error := why_undecided(found.run, judged)) and (overwrites or not any(f.judged for f in judged.findings)):
        raise error
    findings = with_standing(judged.findings, standing)
    judges = tuple(dict.fromkeys([*desk.judges, *(f.judged.judge for f in findings if f.judged)]))
    earlier = [report.name for report in past.reports]
    saved = saving(found, judged.findings)
    done_before = followed(desk.store, desk.library, found.run, date, past, findings, found.sightings)

    def draft(corrections: Mapping[str, Correction]) -> tuple[Report, Collation]:
        collation = collate(found.run, findings, past.precedents, next(iter(earlier), None), corrections)
        collation = collation.model_copy(update={"follow_ups": done_before})
        report = compose(
            found.run,
            collation,
            judges=judges,
            date=date,
            evidence=found.digests,
            earlier=earlier,
            own_prompts=desk.own_prompts,
            cascade=saved,
        )
        return report, collation

    done = publish(desk, found.run, place, draft, judged.spent, writes=wish.writes)
    unsure = {path for entry in done.report.entries if entry.uncertain for path in entry.paths}
    return done.model_copy(
        update={
            "notes": (*desk.notes, *past.notes, *done.notes, *_kept(judged, standing)),
            "uncertain": tuple(eval.path for eval in found.run.failures if eval.path in unsure),
            "unclassified": tuple(path for finding in findings if finding.judged is None for path in finding.paths),
            "advice": advice(found, [finding for finding in findings if unsure.intersection(finding.paths)]),
        }
    )


def _kept(judged: JudgingResult, standing: Mapping[str, Verdict]) -> tuple[str, ...]:
    missing = [finding for finding in judged.findings if undecided(finding.verdict) is not None]
    kept = [path for finding in missing for path in finding.paths if path in standing]
    return (f"not judged this time, earlier verdict kept: {some_of(kept, 5)}",) if kept else ()

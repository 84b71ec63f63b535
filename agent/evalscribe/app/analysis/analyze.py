"""Analyze a run: read its failures, judge them, and write the report."""

from collections.abc import Mapping
from datetime import date as calendar_date

from evalscribe.app.analysis.estimates import advice, announce, plan, saving
from evalscribe.app.analysis.failures import Docket, JudgingResult, docket, judge, opened
from evalscribe.app.analysis.followed import followed
from evalscribe.app.analysis.outcomes import Analyzed, NothingFailed, Plan
from evalscribe.app.analysis.publishing import publish, target
from evalscribe.app.analysis.undecided import why_undecided, with_standing
from evalscribe.app.runs import SAMPLE
from evalscribe.app.watcher import Watcher
from evalscribe.collate import collate
from evalscribe.compose import compose
from evalscribe.finding import Correction, Verdict, undecided
from evalscribe.pattern import Collation
from evalscribe.ports import Library
from evalscribe.prose import some_of
from evalscribe.report import Report
from evalscribe.run import UNKNOWN, Run
from evalscribe.sample import earlier_reports
from evalscribe.workspace import Workspace


async def analyze(
    workspace: Workspace,
    run: str,
    watcher: Watcher,
    *,
    rubric: str | None = None,
    cascade: bool = False,
    date: str | None = None,
    dry_run: bool = False,
    writes: bool = True,
    provider: str | None = None,
    model: str | None = None,
) -> Analyzed | Plan | NothingFailed:
    """Judge every failure of a run and write the report.

    Args:
        workspace: Where verdicts and reports go; needs `async with`.
        run: An id or its prefix, an address, a file of runs, a snapshot folder or `sample`.
        watcher: Hears how it goes.
        rubric: What failures are judged by, `NAME` or `NAME@VERSION`; None for the one that comes with evalscribe.
        cascade: Ask a cheap model first, and the judge where it is needed.
        date: ISO date of the analysis; None for today.
        dry_run: Only plan.
        writes: Write the report; without it the store does not hear of one either.
        provider: Provider of the model under test, in place of the source's.
        model: Model under test, in place of the source's.

    Returns:
        The report, unless nothing failed or only the plan was asked for.

    Raises:
        EvalscribeError: It concerns the whole run; what was finished by then is in the store.
    """
    async with opened(workspace, run, watcher, rubric=rubric, cascade=cascade, provider=provider, model=model) as (
        analyst,
        source,
    ):
        store = workspace.store.analyses  # before any report is written: its server may not answer
        if run == SAMPLE and writes and not dry_run:
            _add_sample_reports(workspace.reports)
        read = _renamed(await source.run(), provider, model)
        if not read.failures:
            store.put_run(read)
            return NothingFailed(run=read, message=nothing_failed(read))
        watcher.started(read)
        with store.lock(read.id):
            store.put_run(read)
            found = await docket(workspace, analyst, source, read, watcher)
            if found.run != read:
                store.put_run(found.run)
            store.put_sightings(read.id, found.sightings)
            if dry_run:
                return plan(found)
            if analyst.own_prompts:
                watcher.say("The workspace's own prompts are used in place of the shipped ones.")
            announce(found, watcher)
            judged = await judge(found, watcher)
            return _analyzed(found, judged, date or calendar_date.today().isoformat(), writes=writes)


def _add_sample_reports(reports: Library) -> None:
    """The sample's history, where it is not there yet."""
    there = {report.name for report in reports.all()}
    for name, text in earlier_reports():
        if name not in there:
            reports.write(name, text)


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


def _renamed(run: Run, provider: str | None, model: str | None) -> Run:
    before, slash, after = (model or "").partition("/")
    if slash and after and not provider and run.provider in (UNKNOWN, before):
        provider, model = before, after
    given = {"provider": provider, "model": model}
    return run.model_copy(update={name: value for name, value in given.items() if value})


def _analyzed(found: Docket, judged: JudgingResult, date: str, *, writes: bool) -> Analyzed:
    """Compose and write the report of a run.

    Raises `EvalscribeError` if no failure could be judged; an earlier report then stays unchanged.
    """
    workspace, analyst, past = found.workspace, found.analyst, found.history
    place = target(workspace, found.run, date)
    standing = place.standing()
    overwrites = writes and place.where.current is not None
    if (error := why_undecided(found.run, judged)) and (overwrites or not any(f.judged for f in judged.findings)):
        raise error
    findings = with_standing(judged.findings, standing)
    judges = tuple(dict.fromkeys([*analyst.judges, *(f.judged.judge for f in findings if f.judged)]))
    earlier = [report.name for report in past.reports]
    saved = saving(found, judged.findings)
    done_before = followed(
        workspace.store.analyses, workspace.reports, found.run, date, past, findings, found.sightings
    )

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
            own_prompts=analyst.own_prompts,
            cascade=saved,
        )
        return report, collation

    done = publish(workspace, found.run, place, draft, judged.spent, writes=writes)
    unsure = {path for entry in done.report.entries if entry.uncertain for path in entry.paths}
    return done.model_copy(
        update={
            "notes": (*analyst.notes, *past.notes, *done.notes, *_kept(judged, standing)),
            "uncertain": tuple(eval.path for eval in found.run.failures if eval.path in unsure),
            "unclassified": tuple(path for finding in findings if finding.judged is None for path in finding.paths),
            "advice": advice(found, [finding for finding in findings if unsure.intersection(finding.paths)]),
        }
    )


def _kept(judged: JudgingResult, standing: Mapping[str, Verdict]) -> tuple[str, ...]:
    missing = [finding for finding in judged.findings if undecided(finding.verdict) is not None]
    kept = [path for finding in missing for path in finding.paths if path in standing]
    return (f"not judged this time, earlier verdict kept: {some_of(kept, 5)}",) if kept else ()

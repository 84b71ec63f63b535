"""Explain failures of a run one by one: the same analysis as `analyze`, in full, and nothing is written."""

from evalscribe.analysis import Analysis, FindingSummary
from evalscribe.app.analysis.desk import Desk
from evalscribe.app.analysis.estimates import announce
from evalscribe.app.analysis.failures import docket, judge
from evalscribe.app.watcher import Watcher
from evalscribe.collate import collate
from evalscribe.compose import analysis, compose
from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.evidence import Unreadable
from evalscribe.finding import Case, Finding
from evalscribe.ids import Frozen
from evalscribe.prose import name as printed
from evalscribe.prose import path as printed_path
from evalscribe.prose import some_of
from evalscribe.recall import read
from evalscribe.run import Eval, Run


class Explained(Frozen):
    """One failure with all that the judge was given."""

    finding: Finding
    case: Case | Unreadable
    analysis: Analysis
    reviewed: FindingSummary | None = None
    """What a person made of it in the run's report."""


async def explain(desk: Desk, name: str, watcher: Watcher) -> Explained:
    """`name`: an eval's id, its path, or its bare name where no other failure has it.

    Raises `NotFoundError` where no failed eval of the run is called so, `UsageError` where several are.
    """
    run = await desk.source.run()
    eval = failure_named(run, name)
    only = run.model_copy(update={"failures": (eval,)})
    watcher.started(run)
    found = await docket(desk, only, watcher)
    for note in (*desk.notes, *found.history.notes):
        watcher.say(note)
    announce(found, watcher)
    judged = await judge(found, watcher)
    collation = collate(found.run, judged.findings, found.history.precedents)
    report = compose(
        found.run, collation, judges=desk.judges, date=desk.clock.today().isoformat(), evidence=found.digests
    )
    said = analysis(report, collation.findings, report_path=None, changed=False, spent=judged.spent)
    reviewed = _reviewed(desk, run, eval)
    return Explained(
        finding=collation.findings[0],
        case=found.case(found.groups[0]),
        analysis=said.model_copy(update={"revision": None, "findings": _in_force(said.findings, reviewed)}),
        reviewed=reviewed,
    )


def _reviewed(desk: Desk, run: Run, eval: Eval) -> FindingSummary | None:
    """What the run's report says of the eval, where a person has reviewed it there."""
    for file in desk.library.of_model(run.provider, run.model, run.id):
        try:
            report = read(file.text, file.name.rpartition("/")[2])
        except DataError:
            continue  # `reports check` says what is wrong with it
        if report.run.id == printed(run.id):
            hits = (one for one in report.findings if one.eval == printed_path(eval.path) and one.reviewer)
            return next(hits, None)
    return None


def _in_force(said: tuple[FindingSummary, ...], reviewed: FindingSummary | None) -> tuple[FindingSummary, ...]:
    if reviewed is None:
        return said
    change = {name: getattr(reviewed, name) for name in ("classification", "cause_kind", "uncertain", "reviewer")}
    return tuple(one.model_copy(update=change) for one in said)


def failure_named(run: Run, name: str) -> Eval:
    """The failed eval that a person means. Raises `NotFoundError` or `UsageError`."""
    exact = [eval for eval in run.failures if name in (eval.id, eval.path)]
    close = exact or [eval for eval in run.failures if name in _short_names(eval)]
    if len(close) == 1:
        return close[0]
    if close:
        raise UsageError(f"{name!r} is the name of several failed evals: {_some(close)}")
    raise NotFoundError(f"no failed eval of run {run.id} is called {name!r}; there are {_some(run.failures)}")


def _short_names(eval: Eval) -> tuple[str, ...]:
    """Without the category, without the trial, without both."""
    return eval.path.removeprefix(f"{eval.category}/"), f"{eval.category}/{eval.name}", eval.name


def _some(evals: tuple[Eval, ...] | list[Eval]) -> str:
    return some_of([eval.path for eval in evals], 5) or "none"

"""Explain failures of a run one by one: the same analysis as `analyze`, in full, and nothing is written."""

from evalscribe.analysis import Analysis
from evalscribe.app.desk import Desk
from evalscribe.app.estimates import announce
from evalscribe.app.failures import docket, judge
from evalscribe.app.watcher import Watcher
from evalscribe.collate import collate
from evalscribe.compose import analysis, compose
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.evidence import Unreadable
from evalscribe.finding import Case, Finding
from evalscribe.ids import Frozen
from evalscribe.run import Eval, Run


class Explained(Frozen):
    """One failure with all that the judge was given."""

    finding: Finding
    case: Case | Unreadable
    analysis: Analysis


async def explain(desk: Desk, name: str, watcher: Watcher) -> Explained:
    """`name`: an eval's id, its path, or its bare name where no other failure has it.

    Raises `NotFoundError` where no failed eval of the run is called so, `UsageError` where several are.
    """
    run = await desk.source.run()
    eval = failure_named(run, name)
    only = run.model_copy(update={"failures": (eval,)})
    watcher.started(run)
    found = await docket(desk, only, watcher)
    announce(found, watcher)
    findings, usage = await judge(found, watcher)
    collation = collate(only, findings, found.history.precedents)
    report = compose(only, collation, judge=desk.judge.id, date=desk.clock.today().isoformat(), evidence=found.digests)
    return Explained(
        finding=collation.findings[0],
        case=found.case(found.groups[0]),
        analysis=analysis(report, collation.findings, report_path=None, changed=False, usage=usage),
    )


def failure_named(run: Run, name: str) -> Eval:
    """The failed eval that a person means. Raises `NotFoundError` or `UsageError`."""
    exact = [eval for eval in run.failures if name in (eval.id, eval.path)]
    close = exact or [eval for eval in run.failures if name == eval.name or name == f"{eval.category}/{eval.name}"]
    if len(close) == 1:
        return close[0]
    if close:
        raise UsageError(f"{name!r} is the name of several failed evals: {_some(close)}")
    raise NotFoundError(f"no failed eval of run {run.id} is called {name!r}; there are {_some(run.failures)}")


def _some(evals: tuple[Eval, ...] | list[Eval]) -> str:
    shown = ", ".join(eval.path for eval in evals[:5])
    return f"{shown} and {len(evals) - 5} more" if len(evals) > 5 else shown or "none"

"""Compare two or more sides, or the trials within one side, and write the page."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from evalscribe.collections import regressions
from evalscribe.collections.compare import RunEvals, build_matrix, compare_sides, compare_within
from evalscribe.collections.comparison_page import comparison_page, matrix_page, p_value, same_runs, within_page
from evalscribe.collections.importing import import_file, open_file
from evalscribe.collections.lookup import choose_collection
from evalscribe.collections.regressions import (
    CompareJudges,
    estimate_explanation,
    explain_by_judge,
    explain_by_rules,
    open_compare_judges,
)
from evalscribe.collections.runs import experiment_run_name, run_overrides
from evalscribe.collections.subjects import ReachedSubject, SubjectFinder
from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError, UsageError
from evalscribe.failures.prepare import failure_record
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen, choose_folder, content_id, model_key, run_id_prefix, same_model
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.model.comparison import Behaviour, Comparison, EvalPair, Matrix, WithinRunComparison
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.experiment import parse_bound
from evalscribe.model.protocols import Estimate
from evalscribe.model.record import evidence_of
from evalscribe.model.run import Run
from evalscribe.reports.documents import PlacedDocument, place_document
from evalscribe.reports.history import stored_records
from evalscribe.reports.reading import findings_of_run
from evalscribe.sources.formats import recognise_folder
from evalscribe.text import join_first, pluralise
from evalscribe.workspace import Workspace

SUMMARY = "failed_evals.json"
"""File that marks a folder as a snapshot of one run."""
MOST_READ = 2_000
"""Maximum failures of an imported run whose records are searched for an error."""


@dataclass(frozen=True)
class SideReader:
    """Reads the runs of one side of a comparison, which the user named."""

    workspace: Workspace
    finder: SubjectFinder
    watcher: AnalysisWatcher
    collection: str | None = None
    """Collection named by the caller; None for the configured one, or the only one."""

    async def bring(self, path: Path) -> tuple[Run, ...]:
        """Import a file without adding its runs to a collection, and return the runs."""
        runs = self.workspace.store.runs
        opened = open_file(runs, path, run_overrides(self.workspace))
        done = await import_file(runs, None, opened.records, None, self.watcher.imported)
        if done.table:
            self.watcher.say(f"{path.name}: {done.table.text}", ("map",))
        if done.stopped:
            self.watcher.say(f"reading {path} stopped early: {done.stopped}")
        return done.runs


async def read_side(reader: SideReader, name: str) -> tuple[RunEvals, ...]:
    """Read the runs of one side: a file, a run (id, prefix or address), or all runs of a model in the collection.

    Raises `EvalscribeError`; `UsageError` if the runs are of several models.
    """
    runs = await _runs(reader, name)
    if len({model_key(run.provider, run.model) for run in runs}) > 1:
        told = ", ".join(sorted({f"{run.provider}/{run.model}" for run in runs}))
        raise UsageError(f"{name} has runs of several models ({told}): name one model instead")
    return tuple(runs_of_side(reader, run) for run in runs)


def runs_of_side(reader: SideReader, run: Run) -> RunEvals:
    """Read a stored run with its evals, and with the findings and error signatures of its failures."""
    known = reader.workspace.store.analyses.get_run(run.id) or run
    seen = _seen(reader, known) if known.failures else ()
    return RunEvals(
        run=known,
        graded=reader.workspace.store.runs.graded(run.id),
        findings=findings_of_run(reader.workspace.reports, known),
        signatures={one.eval_id: one.signature for one in seen},
        unreached=frozenset(one.eval_id for one in seen if not one.judged and (one.task or one.grader)),
    )


async def _runs(reader: SideReader, name: str) -> Sequence[Run]:
    if _is_file(name):
        runs = await reader.bring(Path(name))
        if not runs:
            raise DataError(f"{name} contains no runs")
        return runs
    with suppress(NotFoundError):  # a name such as `provider/model` is read as a folder that does not exist
        if run := reader.finder.stored(name):
            experiment_run_name(reader.workspace, run.id)  # raises for an unfinished run
            return (run,)
    if found := _of_model(reader, name):
        return found
    return (await _fetched(reader, experiment_run_name(reader.workspace, name) or name),)


def _is_file(name: str) -> bool:
    try:
        path = Path(name)
        if path.is_dir():
            return recognise_folder(path) is not None
        return path.is_file() and path.name != SUMMARY
    except (OSError, ValueError):
        return False


def _of_model(reader: SideReader, name: str) -> tuple[Run, ...]:
    """Find runs by `provider/model`, or by the model's name alone, within the collection."""
    try:
        collection = choose_collection(reader.workspace, reader.collection)
    except EvalscribeError:
        if reader.collection or _can_only_be_a_model(name):
            raise
        return ()
    return tuple(run for run in reader.workspace.store.runs.runs(collection.id) if _is_called(run, name))


def _can_only_be_a_model(name: str) -> bool:
    try:
        return "/" in name and "://" not in name and not Path(name).exists()
    except OSError:  # too long for a path
        return True


def _is_called(run: Run, name: str) -> bool:
    provider, slash, model = name.partition("/")
    return name == run.model or (bool(slash) and same_model(provider, model, run.provider, run.model))


async def _fetched(reader: SideReader, name: str) -> Run:
    try:
        choice = await reader.finder.run(name)
    except NotFoundError as error:
        raise NotFoundError(
            f"{error}\n{name!r} is not a stored run, file or model of a collection either", fields=error.fields
        ) from None
    except AccessError as error:  # put the note first: the error has a line with advice
        raise AccessError(f"{name!r} is not a model of a collection, and {error}", fields=error.fields) from None
    await reader.finder.gathered(choice)
    return choice.run


def _seen(reader: SideReader, run: Run) -> tuple[FailureFingerprint, ...]:
    """Return the fingerprints of the run's failures; for an imported run without analysis, from its records."""
    known = len(reader.workspace.store.analyses.sightings(run.id)) == len(run.failures)
    if known or reader.workspace.store.runs.record(run.failures[0].id) is None:
        return stored_records(reader.workspace.store.analyses, run)
    records = islice(reader.workspace.store.runs.records(run.id, "failed"), MOST_READ)
    return tuple(failure_record(run, evidence_of(record)) for record in records)


def put_comparison(library: ReportsFolder, run: Run, of: Sequence[Sequence[str]], text: str) -> PlacedDocument:
    """Write the page into the folder of `run`'s model.

    Args:
        of: Run ids of each side, which determine the file name.
    """
    reports = (file.name for file in library.of_model(run.provider, run.model))
    folder = choose_folder(run.provider, run.model, reports)
    short = f"{folder}/compare_{'_'.join(map(_short, of)) if len(of) < 3 else _digest(of)}"
    return place_document(library, "comparison", short, f"{short}_{_digest(of)}", text, partial(same_runs, text))


def _short(runs: Sequence[str]) -> str:
    return run_id_prefix(runs[0]) if len(runs) == 1 else _digest([runs])


def _digest(of: Sequence[Sequence[str]]) -> str:
    return content_id([list(runs) for runs in of]).removeprefix("sha256:")[:8]


Compared = Comparison | WithinRunComparison | Matrix


class WrittenComparison(Frozen):
    """Result of a comparison."""

    found: Compared
    text: str
    """The page, with the sides named after their files; in the written page, sides are named after their runs."""
    put: PlacedDocument | None = None
    """The written page; None if no page was requested."""
    estimate: Estimate | None = None
    """Maximum cost; None if no model would be called."""
    broken: tuple[str, ...] = ()
    """One sentence for each condition that does not hold."""


class ComparisonCondition(NamedTuple):
    """A condition on a comparison, such as `pass_rate>=base-0.02`."""

    text: str
    subject: str
    """What is compared: `pass_rate`, `regressed`, `fixed`, or the name of a condition without a number."""
    operator: str = ""
    number: float = 0.0
    from_base: bool = False
    """True if `number` is an offset from the base's pass rate."""


NO_REGRESSIONS, NOT_WORSE = "no-regressions", "not-worse"
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_CONDITION = re.compile(r"\s*(pass_rate|regressed|fixed)\s*(>=|<=|==|>|<)(.*)", re.ASCII)
_SLACK = 1e-9
"""Tolerance for rounding errors of pass rates: 0.7 - 0.02 is not exactly 0.68."""


def parse_condition(text: str) -> ComparisonCondition:
    """Parse a condition. Raises `UsageError`."""
    if text in (NO_REGRESSIONS, NOT_WORSE):
        return ComparisonCondition(text, text)
    match = _CONDITION.fullmatch(text)
    bound = match and parse_bound(match[3])
    if match is None or bound is None or (bound.from_base and match[1] != "pass_rate"):
        raise UsageError(
            f"`assert` {text!r} is not a condition: give {NO_REGRESSIONS}, {NOT_WORSE}, pass_rate>=base-0.02, "
            "pass_rate>=0.8 or regressed<=2",
            fields=("assert",),
        )
    return ComparisonCondition(text, match[1], match[2], *bound)


def broken_conditions(found: Comparison, conditions: Sequence[ComparisonCondition]) -> tuple[str, ...]:
    """Return why conditions do not hold. If a run is incomplete or no eval is compared, none of them holds."""
    if not conditions:
        return ()
    unusable = [f"{note} No condition holds." for note in found.notes if note.startswith("Run ")]
    if found.base.rate is None or found.candidate.rate is None:
        unusable.append("Nothing can be compared, so no condition holds.")
    return tuple(unusable) or tuple(why for one in conditions if (why := _broken(found, one)))


def _broken(found: Comparison, condition: ComparisonCondition) -> str | None:
    regressed = [pair.eval for pair in found.of("regressed")]
    if condition.subject == NO_REGRESSIONS:
        return f"{condition.text}: {len(regressed)} got worse: {join_first(regressed, 5)}" if regressed else None
    if condition.subject == NOT_WORSE:
        worse = found.passes.significant and found.passes.difference < 0
        return f"{condition.text}: the candidate is worse ({p_value(found.passes.p)})" if worse else None
    base, candidate = found.base.rate or 0.0, found.candidate.rate or 0.0
    value = {"pass_rate": candidate, "regressed": len(regressed), "fixed": len(found.of("fixed"))}[condition.subject]
    limit = condition.number + (base if condition.from_base else 0.0)
    slack = {">=": -_SLACK, "<=": _SLACK}.get(condition.operator, 0.0)
    if _OPERATORS[condition.operator](value, limit + slack):
        return None
    return f"{condition.text}: {condition.subject} is {value:.4g}, the limit is {limit:.4g}"


def _named_after_files(found: Compared, names: Sequence[str]) -> Compared:
    """Rename each side that was read from a file after this file."""
    files = [Path(name) if _is_file(name) else None for name in names]
    single = Counter(path.name for path in files if path)
    shown = [{"name": path.name if single[path.name] == 1 else str(path)} if path else {} for path in files]
    if isinstance(found, Comparison):
        base, candidate = (
            side.model_copy(update=new) for side, new in zip((found.base, found.candidate), shown, strict=True)
        )
        return found.model_copy(update={"base": base, "candidate": candidate})
    if isinstance(found, WithinRunComparison):
        return found.model_copy(update={"side": found.side.model_copy(update=shown[0])})
    columns = tuple(one.model_copy(update=new) for one, new in zip(found.columns, shown, strict=True))
    return found.model_copy(update={"columns": columns})


async def compare(
    workspace: Workspace,
    names: Sequence[str],
    watcher: AnalysisWatcher,
    *,
    collection: str | None = None,
    conditions: Sequence[str] = (),
    dry_run: bool = False,
    writes: bool = True,
) -> WrittenComparison:
    """Compare two sides, failed with passed trials of one side, or several sides as a matrix.

    Args:
        workspace: Workspace for answers and the page; needs `async with`.
        names: Runs by id or prefix, files to import, addresses, or `provider/model` of the collection.
        watcher: Receives progress.
        collection: By name or id; None for the configured one, or the only one.
        conditions: What has to hold of two sides, such as `no-regressions` or `pass_rate>=base-0.02`.
        dry_run: Only estimate: nothing is asked and nothing written.
        writes: Write the page into the reports.

    Raises:
        EvalscribeError: The comparison failed; verdicts reached before that are stored.
    """
    wanted = [parse_condition(text) for text in conditions]
    if wanted and len(names) != 2:
        raise UsageError("`assert` needs two sides to compare", fields=("assert",))
    if dry_run:
        workspace.estimate_only()
    async with AsyncExitStack() as opened:
        judges = open_compare_judges(workspace, watcher) if len(names) < 3 else None
        if judges and not dry_run:
            workspace.consent.check(workspace.settings.judge_name)
        finder = SubjectFinder(workspace.store.analyses, ReachedSubject(workspace, opened), watcher)
        reader = SideReader(workspace, finder, watcher, collection)
        sides = [await read_side(reader, name) for name in names]
        _not_the_same(sides, names)
        if len(sides) > 2:
            matrix = build_matrix(sides)
            of = [column.runs for column in matrix.columns]
            found: Compared = matrix
            estimate = None
        else:
            two = compare_sides(*sides) if len(sides) == 2 else compare_within(sides[0])
            asked = await _explained(workspace, judges, two.pairs, watcher, dry_run=dry_run)
            of = [two.base.runs, two.candidate.runs] if isinstance(two, Comparison) else [two.side.runs]
            found = two.model_copy(update=asked.update)
            estimate = asked.estimate
    broken = broken_conditions(found, wanted) if isinstance(found, Comparison) else ()
    shown = _named_after_files(found, names)
    done = WrittenComparison(found=shown, text=_page(shown), estimate=estimate, broken=broken)
    if dry_run or not writes:
        return done
    beside = sides[1] if len(sides) == 2 else sides[0]  # of two sides the candidate, else the first side
    put = put_comparison(workspace.reports, beside[0].run, of, _page(found))
    return done.model_copy(update={"put": put})


def _page(found: Compared) -> str:
    if isinstance(found, Comparison):
        return comparison_page(found)
    return within_page(found) if isinstance(found, WithinRunComparison) else matrix_page(found)


class _Asked(Frozen):
    pairs: tuple[EvalPair, ...]
    behaviours: tuple[Behaviour, ...]
    judge: str | None = None
    estimate: Estimate | None = None

    @property
    def update(self) -> dict[str, Any]:
        return {"pairs": self.pairs, "behaviours": self.behaviours, "judge": self.judge}


async def _explained(
    workspace: Workspace,
    judges: CompareJudges | None,
    pairs: tuple[EvalPair, ...],
    watcher: AnalysisWatcher,
    *,
    dry_run: bool,
) -> _Asked:
    """Explain regressions by rules, and also by a judge if one is configured."""
    pairs = explain_by_rules(workspace, pairs)
    worse = sum(pair.change == "regressed" for pair in pairs)
    if judges is None or not worse:
        return _Asked(pairs=pairs, behaviours=regressions.shared_behaviours(pairs))
    estimate = estimate_explanation(workspace, judges, pairs)
    judge = judges.regression
    watcher.say(f"{judge.id} for {pluralise(worse, 'regressed eval')}: {estimate.summary}, less cached answers")
    if dry_run:
        return _Asked(pairs=pairs, behaviours=regressions.shared_behaviours(pairs), estimate=estimate)
    workspace.consent.require(workspace.settings.judge_name, estimate=estimate)
    told = await explain_by_judge(workspace, judges, pairs, watcher)
    both = _joined(told.common, regressions.shared_behaviours(told.apart))
    return _Asked(pairs=told.pairs, behaviours=both, judge=judge.id, estimate=estimate)


def _joined(common: Sequence[Behaviour], rest: Sequence[Behaviour]) -> tuple[Behaviour, ...]:
    """Merge each behaviour in `rest` into the common behaviour of the same name; append the others."""
    by_name = {one.name: one for one in rest}
    joined = [
        one.model_copy(update={"evals": (*one.evals, *alike.evals)}) if (alike := by_name.pop(one.name, None)) else one
        for one in common
    ]
    return (*joined, *by_name.values())


def _not_the_same(sides: Sequence[Sequence[RunEvals]], names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for played, name in zip(sides, names, strict=True):
        for one in played:
            if one.run.id in seen:
                raise UsageError(
                    f"{seen[one.run.id]} and {name} have run {one.run.id} in common; to compare failed with passed "
                    "trials of one run use `within`",
                    fields=("within",),
                )
        seen.update((one.run.id, name) for one in played)

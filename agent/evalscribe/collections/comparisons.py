"""Compare two or more sides, or the trials of one side with each other, and write the page of the comparison."""

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
from evalscribe.collections.comparison_page import (
    comparison_page,
    document,
    matrix_page,
    p_value,
    same_runs,
    within_page,
)
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
from evalscribe.model.analysis import FindingSummary
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
"""Name of a file that exists only in snapshot folders. A folder that contains it is a snapshot of one run."""
MOST_READ = 2_000
"""If an imported run was not fully analysed, the errors of at most this many failures are read from their records."""


@dataclass(frozen=True)
class SideReader:
    """Reads the runs of one side of a comparison. A side is given by the name that the user typed."""

    workspace: Workspace
    finder: SubjectFinder
    watcher: AnalysisWatcher
    collection: str | None = None
    """Name or id of the collection that the caller chose; None for the configured collection, or else the only one."""

    async def import_runs(self, path: Path) -> tuple[Run, ...]:
        """Import a file and return its runs, without adding them to a collection."""
        runs = self.workspace.store.runs
        file = open_file(runs, path, run_overrides(self.workspace))
        result = await import_file(runs, None, file.records, None, self.watcher.imported)
        if result.table:
            self.watcher.say(f"{path.name}: {result.table.text}", ("map",))
        if result.stopped:
            self.watcher.say(f"reading {path} stopped early: {result.stopped}")
        return result.runs


async def read_side(reader: SideReader, name: str) -> tuple[RunEvals, ...]:
    """Read the runs of one side: the runs of a file, a single run, or all runs of a model in the collection.

    A single run is named by its id, by the beginning of its id, or by an address. Raises `UsageError` if the runs are
    of several models, and `EvalscribeError` if they cannot be read.
    """
    runs = await _find_runs(reader, name)
    if len({model_key(run.provider, run.model) for run in runs}) > 1:
        models = ", ".join(sorted({f"{run.provider}/{run.model}" for run in runs}))
        raise UsageError(
            f"{name} has runs of several models ({models}), but each side must have only one: name one model instead"
        )
    return tuple(load_run_evals(reader.workspace, run) for run in runs)


def load_run_evals(workspace: Workspace, run: Run, findings: Mapping[str, FindingSummary] | None = None) -> RunEvals:
    """Read a stored run with its evals, and with the findings and error signatures of its failures.

    Args:
        workspace: Workspace with the store and the reports.
        run: The run.
        findings: Findings of the run's report, keyed by printed path; None to read them from the report.
    """
    stored_run = workspace.store.analyses.get_run(run.id) or run
    fingerprints = _fingerprints(workspace, stored_run) if stored_run.failures else ()
    return RunEvals(
        run=stored_run,
        graded=workspace.store.runs.graded(run.id),
        findings=findings_of_run(workspace.reports, stored_run) if findings is None else findings,
        signatures={fingerprint.eval_id: fingerprint.signature for fingerprint in fingerprints},
        unreached=frozenset(
            fingerprint.eval_id
            for fingerprint in fingerprints
            # The fingerprint of unreadable evidence has neither task nor grader. It says nothing about how far the eval
            # got.
            if not fingerprint.judged and (fingerprint.task or fingerprint.grader)
        ),
    )


async def _find_runs(reader: SideReader, name: str) -> Sequence[Run]:
    if _is_file(name):
        runs = await reader.import_runs(Path(name))
        if not runs:
            raise DataError(f"{name} contains no runs")
        return runs
    with suppress(NotFoundError):  # a name such as `provider/model` is read as the path of a missing folder
        if run := reader.finder.find_stored(name):
            experiment_run_name(reader.workspace, run.id)  # raises an error if the run has not ended
            return (run,)
    if model_runs := _runs_of_model(reader, name):
        return model_runs
    return (await _fetch(reader, experiment_run_name(reader.workspace, name) or name),)


def _is_file(name: str) -> bool:
    try:
        path = Path(name)
        if path.is_dir():
            return recognise_folder(path) is not None
        return path.is_file() and path.name != SUMMARY
    # Raised, for example, if the name is too long for a path.
    except (OSError, ValueError):
        return False


def _runs_of_model(reader: SideReader, name: str) -> tuple[Run, ...]:
    """Return the collection's runs of a model, which is named by `provider/model` or by the model's name alone."""
    try:
        collection = choose_collection(reader.workspace, reader.collection)
    except EvalscribeError:
        # Without a collection, the name can still be a run of a deployment, which the caller tries next.
        if reader.collection or _can_only_be_a_model(name):
            raise
        return ()
    return tuple(run for run in reader.workspace.store.runs.runs(collection.id) if _is_called(run, name))


def _can_only_be_a_model(name: str) -> bool:
    try:
        return "/" in name and "://" not in name and not Path(name).exists()
    except OSError:  # the name is too long for a path
        return True


def _is_called(run: Run, name: str) -> bool:
    provider, slash, model = name.partition("/")
    return name == run.model or (bool(slash) and same_model(provider, model, run.provider, run.model))


async def _fetch(reader: SideReader, name: str) -> Run:
    try:
        chosen_run = await reader.finder.run(name)
    except NotFoundError as error:
        raise NotFoundError(
            f"{error}\n{name!r} is not a stored run, file or model of a collection either", fields=error.fields
        ) from None
    except AccessError as error:  # the note comes first because the error ends with advice to the user
        raise AccessError(f"{name!r} is not a model of a collection, and {error}", fields=error.fields) from None
    await reader.finder.gather(chosen_run)
    return chosen_run.run


def _fingerprints(workspace: Workspace, run: Run) -> tuple[FailureFingerprint, ...]:
    """Return the fingerprints of the run's failures.

    If the run was imported and not fully analysed, the fingerprints are computed from at most `MOST_READ` records.
    """
    complete = len(workspace.store.analyses.sightings(run.id)) == len(run.failures)
    if complete or workspace.store.runs.record(run.failures[0].id) is None:
        return stored_records(workspace.store.analyses, run)
    # A failed eval that was never analysed has no stored fingerprint, so it is computed from the record.
    records = islice(workspace.store.runs.records(run.id, "failed"), MOST_READ)
    return tuple(failure_record(run, evidence_of(record)) for record in records)


def put_comparison(library: ReportsFolder, run: Run, run_ids: Sequence[Sequence[str]], text: str) -> PlacedDocument:
    """Write the page of a comparison into the report folder of the run's model.

    Args:
        run_ids: Run ids of each side. The name of the file is derived from these ids.
    """
    stem, longer = _stems(library, run, run_ids)
    return place_document(library, "comparison", stem, longer, text, partial(same_runs, text))


def find_comparison(library: ReportsFolder, run: Run, run_ids: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """Return name and text of the page that `put_comparison` wrote about these runs; None if there is none."""
    requested_page = document(run_ids[0], run_ids[1], None, ())
    for stem in _stems(library, run, run_ids):
        text = library.document(f"{stem}.md")
        if text is not None and same_runs(requested_page, text):
            return f"{stem}.md", text
    return None


def _stems(library: ReportsFolder, run: Run, run_ids: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Return two possible names for a comparison's page, without extension.

    The second name is used if another page has the first.
    """
    reports = (file.name for file in library.of_model(run.provider, run.model))
    folder = choose_folder(run.provider, run.model, reports)
    stem = f"{folder}/compare_{'_'.join(map(_short, run_ids)) if len(run_ids) < 3 else _digest(run_ids)}"
    return stem, f"{stem}_{_digest(run_ids)}"


def _short(runs: Sequence[str]) -> str:
    return run_id_prefix(runs[0]) if len(runs) == 1 else _digest([runs])


def _digest(run_ids: Sequence[Sequence[str]]) -> str:
    return content_id([list(runs) for runs in run_ids]).removeprefix("sha256:")[:8]


Compared = Comparison | WithinRunComparison | Matrix


class WrittenComparison(Frozen):
    """Result of a comparison, with the page about it."""

    comparison: Compared
    text: str
    """Text of the page. A side that was read from a file is named after the file here, but not in the written page."""
    put: PlacedDocument | None = None
    """The written page; None if no page was written."""
    estimate: Estimate | None = None
    """Maximum cost of the model calls; None if no model would be called."""
    broken: tuple[str, ...] = ()
    """One sentence for each condition that the user gave and that does not hold."""


class ComparisonCondition(NamedTuple):
    """A condition on a comparison, such as `pass_rate>=base-0.02`."""

    text: str
    subject: str
    """What the condition is about: `pass_rate`, `regressed`, `fixed`, or the whole condition if it has no number."""
    operator: str = ""
    number: float = 0.0
    from_base: bool = False
    """True if `number` is relative to the base's pass rate."""


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
"""Tolerance for rounding errors of pass rates. For example, 0.7 - 0.02 is not exactly 0.68."""


def parse_condition(text: str) -> ComparisonCondition:
    """Parse a condition. Raises `UsageError` if the text is not a condition."""
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


def broken_conditions(comparison: Comparison, conditions: Sequence[ComparisonCondition]) -> tuple[str, ...]:
    """Return a sentence for each condition that does not hold.

    If a run is incomplete or no eval can be compared, no condition holds. The sentences then state the reason.
    """
    if not conditions:
        return ()
    # Only the notes about incomplete runs, which `compare_sides` writes, begin with `Run `.
    unusable = [f"{note} No condition holds." for note in comparison.notes if note.startswith("Run ")]
    if comparison.base.rate is None or comparison.candidate.rate is None:
        unusable.append("Nothing can be compared, so no condition holds.")
    return tuple(unusable) or tuple(
        reason for condition in conditions if (reason := _why_broken(comparison, condition))
    )


def _why_broken(comparison: Comparison, condition: ComparisonCondition) -> str | None:
    regressed = [pair.eval for pair in comparison.of("regressed")]
    if condition.subject == NO_REGRESSIONS:
        return f"{condition.text}: {len(regressed)} got worse: {join_first(regressed, 5)}" if regressed else None
    if condition.subject == NOT_WORSE:
        worse = comparison.passes.significant and comparison.passes.difference < 0
        return f"{condition.text}: the candidate is worse ({p_value(comparison.passes.p)})" if worse else None
    base, candidate = comparison.base.rate or 0.0, comparison.candidate.rate or 0.0
    value = {"pass_rate": candidate, "regressed": len(regressed), "fixed": len(comparison.of("fixed"))}[
        condition.subject
    ]
    limit = condition.number + (base if condition.from_base else 0.0)
    slack = {">=": -_SLACK, "<=": _SLACK}.get(condition.operator, 0.0)
    if _OPERATORS[condition.operator](value, limit + slack):
        return None
    return f"{condition.text}: {condition.subject} is {value:.4g}, the limit is {limit:.4g}"


def _name_after_files(comparison: Compared, names: Sequence[str]) -> Compared:
    """Rename each side that was read from a file to the name of the file."""
    files = [Path(name) if _is_file(name) else None for name in names]
    # Two files in different folders can have the same name. They are then named by their paths.
    single = Counter(path.name for path in files if path)
    updates = [{"name": path.name if single[path.name] == 1 else str(path)} if path else {} for path in files]
    if isinstance(comparison, Comparison):
        base, candidate = (
            side.model_copy(update=update)
            for side, update in zip((comparison.base, comparison.candidate), updates, strict=True)
        )
        return comparison.model_copy(update={"base": base, "candidate": candidate})
    if isinstance(comparison, WithinRunComparison):
        return comparison.model_copy(update={"side": comparison.side.model_copy(update=updates[0])})
    columns = tuple(
        column.model_copy(update=update) for column, update in zip(comparison.columns, updates, strict=True)
    )
    return comparison.model_copy(update={"columns": columns})


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
    """Compare two sides, several sides as a matrix, or the failed with the passed trials of one side.

    Args:
        workspace: Workspace for answers and the page; needs `async with`.
        names: The sides. Each side is a run id, the first characters of a run id, a file to import, an address, or
            `provider/model` for all runs of a model in the collection.
        watcher: Receives progress.
        collection: Name or id of the collection; None for the configured collection, or else the only one.
        conditions: Conditions on the two sides, such as `no-regressions` or `pass_rate>=base-0.02`.
        dry_run: Only estimate the cost; call no model and write nothing.
        writes: Whether to write the page into the reports folder.

    Raises:
        EvalscribeError: The comparison failed. Verdicts that were reached before the error stay in the store.
    """
    # Conditions are parsed first, so that a mistake in one is reported before files are imported.
    parsed = [parse_condition(text) for text in conditions]
    if parsed and len(names) != 2:
        raise UsageError("`assert` needs two sides to compare: name exactly two", fields=("assert",))
    if dry_run:
        workspace.estimate_only()
    async with AsyncExitStack() as stack:
        # A missing key or consent ends the command before files are imported. A matrix needs no judge.
        judges = open_compare_judges(workspace, watcher) if len(names) < 3 else None
        if judges and not dry_run:
            workspace.consent.check(workspace.settings.judge_name)
        finder = SubjectFinder(workspace.store.analyses, ReachedSubject(workspace, stack), watcher)
        reader = SideReader(workspace, finder, watcher, collection)
        sides = [await read_side(reader, name) for name in names]
        _refuse_shared_runs(sides, names)
        if len(sides) > 2:
            matrix = build_matrix(sides)
            run_ids = [column.runs for column in matrix.columns]
            comparison: Compared = matrix
            estimate = None
        else:
            pairwise = compare_sides(*sides) if len(sides) == 2 else compare_within(sides[0])
            explanation = await _explain(workspace, judges, pairwise.pairs, watcher, dry_run=dry_run)
            run_ids = (
                [pairwise.base.runs, pairwise.candidate.runs]
                if isinstance(pairwise, Comparison)
                else [pairwise.side.runs]
            )
            comparison = pairwise.model_copy(update=explanation.update)
            estimate = explanation.estimate
    broken = broken_conditions(comparison, parsed) if isinstance(comparison, Comparison) else ()
    renamed = _name_after_files(comparison, names)
    written = WrittenComparison(comparison=renamed, text=_page(renamed), estimate=estimate, broken=broken)
    if dry_run or not writes:
        return written
    main_side = sides[1] if len(sides) == 2 else sides[0]  # the candidate of two sides, otherwise the first side
    placed = put_comparison(workspace.reports, main_side[0].run, run_ids, _page(comparison))
    return written.model_copy(update={"put": placed})


def compare_by_rules(workspace: Workspace, base: RunEvals, candidate: RunEvals, most: int) -> Comparison:
    """Compare two runs without a model.

    The first `most` regressed evals are explained by the first tool call that differs between the runs.
    """
    comparison = compare_sides([base], [candidate])
    pairs = explain_by_rules(workspace, comparison.pairs, most)
    return comparison.model_copy(update={"pairs": pairs, "behaviours": regressions.shared_behaviours(pairs)})


def _page(comparison: Compared) -> str:
    if isinstance(comparison, Comparison):
        return comparison_page(comparison)
    return within_page(comparison) if isinstance(comparison, WithinRunComparison) else matrix_page(comparison)


class _Explanation(Frozen):
    pairs: tuple[EvalPair, ...]
    behaviours: tuple[Behaviour, ...]
    judge: str | None = None
    estimate: Estimate | None = None

    @property
    def update(self) -> dict[str, Any]:
        return {"pairs": self.pairs, "behaviours": self.behaviours, "judge": self.judge}


async def _explain(
    workspace: Workspace,
    judges: CompareJudges | None,
    pairs: tuple[EvalPair, ...],
    watcher: AnalysisWatcher,
    *,
    dry_run: bool,
) -> _Explanation:
    """Explain regressions by rules, and also by a judge if one is configured."""
    pairs = explain_by_rules(workspace, pairs)
    worse = sum(pair.change == "regressed" for pair in pairs)
    if judges is None or not worse:
        return _Explanation(pairs=pairs, behaviours=regressions.shared_behaviours(pairs))
    estimate = estimate_explanation(workspace, judges, pairs)
    judge = judges.regression
    watcher.say(f"{judge.id} for {pluralise(worse, 'regressed eval')}: {estimate.summary}, less cached answers")
    if dry_run:
        return _Explanation(pairs=pairs, behaviours=regressions.shared_behaviours(pairs), estimate=estimate)
    workspace.consent.require(workspace.settings.judge_name, estimate=estimate)
    explained = await explain_by_judge(workspace, judges, pairs, watcher)
    behaviours = _merge_behaviours(explained.common, regressions.shared_behaviours(explained.ungrouped))
    return _Explanation(pairs=explained.pairs, behaviours=behaviours, judge=judge.id, estimate=estimate)


def _merge_behaviours(common: Sequence[Behaviour], other_behaviours: Sequence[Behaviour]) -> tuple[Behaviour, ...]:
    """Append the other behaviours to the common ones. Behaviours of the same name are merged."""
    by_name = {behaviour.name: behaviour for behaviour in other_behaviours}
    merged = [
        behaviour.model_copy(update={"evals": (*behaviour.evals, *same_name.evals)})
        if (same_name := by_name.pop(behaviour.name, None))
        else behaviour
        for behaviour in common
    ]
    return (*merged, *by_name.values())


def _refuse_shared_runs(sides: Sequence[Sequence[RunEvals]], names: Sequence[str]) -> None:
    names_by_run: dict[str, str] = {}
    for side, name in zip(sides, names, strict=True):
        for run_id in (run_evals.run.id for run_evals in side):
            if run_id in names_by_run:
                raise UsageError(
                    f"{names_by_run[run_id]} and {name} cannot be compared, because they have run {run_id} in common. "
                    "To compare failed with passed trials of one run, use `within`.",
                    fields=("within",),
                )
        names_by_run.update((run_evals.run.id, name) for run_evals in side)

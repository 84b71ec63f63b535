"""The tries of one side at each eval: judged, or not and why."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evalscribe.ids import same_experiment
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.comparison import Trial
from evalscribe.model.finding import NOT_THE_MODEL
from evalscribe.model.record import GradedEval
from evalscribe.model.run import TARGET, Eval, Run
from evalscribe.signature.wording import is_stock
from evalscribe.text import cut, one_line
from evalscribe.text import path as printed_path

ERROR_LENGTH = 160


@dataclass(frozen=True)
class Played:
    """One run with what is known of its evals."""

    run: Run
    graded: tuple[GradedEval, ...]
    findings: Mapping[str, FindingSummary] = field(default_factory=dict)
    """Of its report, by the path that is printed there."""
    signatures: Mapping[str, str | None] = field(default_factory=dict)
    """By eval id."""
    unreached: frozenset[str] = frozenset()
    """Ids of evals whose evidence shows that the model's work was never reached."""

    @property
    def names_all(self) -> bool:
        """Whether every eval is named: some sources name only what failed."""
        return len(self.graded) >= self.run.total


@dataclass
class Tries:
    """All tries of one side at one eval."""

    category: str = ""
    judged: list[Trial] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    """Why each other one says nothing about the model."""
    tasks: set[str] = field(default_factory=set)
    graders: set[str] = field(default_factory=set)


def bare_path(eval: Eval) -> str:
    """The path that all trials of an eval share."""
    return f"{eval.category}/{eval.name}" if eval.category else eval.name


def tries(side: Iterable[Played], among: Sequence[Played]) -> dict[str, Tries]:
    """By path. `among`: all that are compared; a source that names only failures passed what others of its suite
    name."""
    found: dict[str, Tries] = {}
    for played in side:
        names = {} if played.names_all else named(one for one in among if same_suite(played, one))
        for path, category, trial, of in _trials(played, names):
            mine = found.setdefault(path, Tries(category=category))
            if isinstance(trial, Trial):
                mine.judged.append(trial)
            else:
                mine.unjudged.append(trial)
            if of and of.task:
                mine.tasks.add(of.task)
            if of and of.grader:
                mine.graders.add(of.grader)
    return found


def named(sides: Iterable[Played]) -> dict[str, str]:
    """Every eval that is named anywhere, with its category."""
    found: dict[str, str] = {}
    for played in sides:
        found.update((path, path.rpartition("/")[0]) for path in _listed(played.run.evals or ()))
        found.update((bare_path(one.eval), one.eval.category) for one in played.graded)
    return found


def same_suite(one: Played, other: Played) -> bool:
    """Whether both tried the same evals, as far as one can tell where not all are named: runs of one experiment, else
    of as many evals or with a named one in common."""
    if one is other or same_experiment(one.run.experiment, other.run.experiment) or one.run.total == other.run.total:
        return True
    return not {bare_path(mine.eval) for mine in one.graded}.isdisjoint(bare_path(its.eval) for its in other.graded)


def _trials(played: Played, names: Mapping[str, str]) -> Iterator[tuple[str, str, Trial | str, GradedEval | None]]:
    own = set()
    for one in sorted(played.graded, key=lambda one: one.eval.trial):
        own.add(path := bare_path(one.eval))
        yield path, one.eval.category, _trial(played, one), one
    if not played.names_all:
        there = None if played.run.evals is None else set(_listed(played.run.evals))
        for path in names:
            if path not in own and (there is None or path in there):
                yield path, names[path], Trial(run_id=played.run.id, status="passed"), None


def _listed(paths: Sequence[str]) -> list[str]:
    """Without the mark of a trial, which `Run.evals` may have."""
    return [path.rpartition("#")[0] if path.rpartition("#")[2].isdigit() and "#" in path else path for path in paths]


def _trial(played: Played, one: GradedEval) -> Trial | str:
    """A try, or why the model's work was not judged in it."""
    eval = one.eval
    finding = None if eval.status == "passed" else played.findings.get(printed_path(eval.path))
    error = _error(played, eval, finding)
    if eval.status == "error":
        what = "the target gave no answer" if eval.failed_step == TARGET else "the harness broke"
        return f"{what}{f': {error}' if error else ''}"
    if eval.status == "incomplete":
        return f"it never completed{f': {error}' if error else ''}"
    if finding and finding.cause_kind in NOT_THE_MODEL:
        return f"{finding.cause_kind}, as its report says{f': {finding.cause}' if finding.cause else ''}"
    if finding is None and eval.id in played.unreached:
        return f"its work was never reached{f': {error}' if error else ''}"
    return Trial(
        run_id=one.run_id,
        eval_id=eval.id,
        trial=eval.trial,
        status=eval.status,
        scores=one.scores,
        step=eval.failed_step,
        error=error or None,
        cause=finding and finding.cause,
        cause_kind=finding and finding.cause_kind,
        signature=played.signatures.get(eval.id),
    )


def _error(played: Played, eval: Eval, finding: FindingSummary | None) -> str:
    """As a report quotes it, else as it is recorded; where that says nothing, as it was found in the evidence."""
    said = (finding and finding.error) or eval.reason or ""
    found = played.signatures.get(eval.id)
    if found and is_stock(said):
        said = found.removeprefix(f"{eval.failed_step or 'before grading'}: ")
    return cut(one_line(said), ERROR_LENGTH)

"""More than two sides: every eval in every column, and how steady each column is."""

from collections.abc import Mapping, Sequence

from evalscribe.compare.sides import unnamed_evals
from evalscribe.compare.tries import Played, Tries, named, tries
from evalscribe.ids import model_folder, run_id_prefix, same_experiment
from evalscribe.model.comparison import Matrix, MatrixColumn, MatrixRow

Cell = tuple[int, int] | None


def matrix(sides: Sequence[Sequence[Played]]) -> Matrix:
    """Rows by eval, columns in the order given. An eval that nobody names is counted and has no row."""
    runs = [played for side in sides for played in side]
    names = named(runs)
    unnamed = unnamed_evals(runs, len(names))
    tried = [tries(side, runs) for side in sides]
    rows = tuple(MatrixRow(eval=path, cells=tuple(_cell(one.get(path)) for one in tried)) for path in sorted(names))
    columns = tuple(_column(side, [row.cells[n] for row in rows], sides, unnamed) for n, side in enumerate(sides))
    changed = tuple(path for path in sorted(names) if _changed(path, tried))
    return Matrix(
        columns=columns, rows=rows, unnamed=unnamed, changed=changed, notes=_notes(sides, len(names) + unnamed)
    )


def _cell(tries: Tries | None) -> Cell:
    """Passed of judged tries."""
    judged = tries.judged if tries else []
    return (sum(trial.passed for trial in judged), len(judged)) if judged else None


def _column(
    side: Sequence[Played], cells: Sequence[Cell], sides: Sequence[Sequence[Played]], unnamed: int
) -> MatrixColumn:
    tried = [cell for cell in cells if cell] + [(len(side), len(side))] * unnamed
    return MatrixColumn(
        name=_name(side, sides),
        runs=tuple(played.run.id for played in side),
        passed=sum(passed for passed, _ in tried),
        trials=sum(trials for _, trials in tried),
        always=sum(passed == trials for passed, trials in tried),
        sometimes=sum(0 < passed < trials for passed, trials in tried),
        never=sum(not passed for passed, _ in tried),
    )


def _name(side: Sequence[Played], sides: Sequence[Sequence[Played]]) -> str:
    """`provider/model`, with the run where another column has the same."""
    names = ["/".join(model_folder(one[0].run.provider, one[0].run.model)) for one in sides]
    name = "/".join(model_folder(side[0].run.provider, side[0].run.model))
    return f"{name} ({run_id_prefix(side[0].run.id)})" if names.count(name) > 1 else name


def _changed(path: str, tried: Sequence[Mapping[str, Tries]]) -> bool:
    there = [one[path] for one in tried if path in one]
    return any(len(set().union(*known)) > 1 for known in ([t.tasks for t in there], [t.graders for t in there]))


def _notes(sides: Sequence[Sequence[Played]], counted: int) -> tuple[str, ...]:
    """`counted`: evals of all."""
    runs = [played.run for side in sides for played in side]
    experiments = sorted({run.experiment for run in runs})
    notes = []
    if not all(same_experiment(runs[0].experiment, run.experiment) for run in runs):
        notes.append(f"The experiments differ ({', '.join(experiments)}).")
    partly = [played.run for side in sides for played in side if not played.names_all]
    if partly:
        told = ", ".join(run_id_prefix(run.id) for run in partly)
        notes.append(f"Of {told} only failures are named: an eval that another run names is taken as passed there.")
    if short := [run_id_prefix(run.id) for run in partly if run.total - run.incomplete > counted]:
        notes.append(
            f"What no run names counts nowhere, so that {', '.join(short)} passed more often than is said here."
        )
    return tuple(notes)

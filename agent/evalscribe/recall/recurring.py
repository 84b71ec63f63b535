"""Each failing eval over all reports of a model: since when, why, and whether what was done has helped."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Literal

from evalscribe.analysis import FindingSummary
from evalscribe.finding import Classification
from evalscribe.ids import Frozen, same_experiment
from evalscribe.ports import ReportFile
from evalscribe.recall.past import PastReport, past_reports
from evalscribe.recall.words import bare

Held = Literal["did not hold", "held so far", "unknown"]


class Seen(Frozen):
    """A report in which an eval failed."""

    report: str
    """File name."""
    date: str | None = None


class ActionSeen(Frozen):
    """Something done about an eval, and whether it has failed since."""

    seen: Seen
    text: str
    held: Held
    """By the later reports of the same experiment; unknown where there is none."""


class RecurringRow(Frozen):
    """One eval of one model."""

    model: str
    """The model's folder below the reports folder: `provider/model`."""
    eval: str
    first: Seen
    last: Seen
    times: int
    """In how many runs it failed."""
    labels: tuple[Classification, ...] = ()
    """Every label given, newest first."""
    causes: tuple[str, ...] = ()
    actions: tuple[ActionSeen, ...] = ()


class Recurring(Frozen):
    rows: tuple[RecurringRow, ...] = ()
    """By model, then what failed most often, then by path."""
    notes: tuple[str, ...] = ()
    """Files that could not be read, and why."""


def recurring(files: Sequence[ReportFile]) -> Recurring:
    """Over the reports of any number of models; never raises for a file that cannot be read."""
    folders: dict[str, list[ReportFile]] = {}
    for file in files:
        folders.setdefault(str(PurePosixPath(file.name).parent), []).append(file)
    rows: list[RecurringRow] = []
    notes: list[str] = []
    for model in sorted(folders):
        reports, unread = past_reports(folders[model])
        rows.extend(_rows(model, reports))
        notes.extend(unread)
    return Recurring(rows=tuple(rows), notes=tuple(notes))


def _rows(model: str, reports: Sequence[PastReport]) -> list[RecurringRow]:
    """`reports`: newest first."""
    whole = _whole_names(finding.eval for report in reports for finding in report.analysis.findings)
    failures: dict[str, dict[int, FindingSummary]] = {}
    for number, report in enumerate(reports):
        for finding in report.analysis.findings:
            failures.setdefault(whole.get(finding.eval, finding.eval), {})[number] = finding
    rows = [_row(model, path, told, reports) for path, told in failures.items()]
    return sorted(rows, key=lambda row: (-row.times, row.eval))


def _whole_names(evals: Iterable[str]) -> dict[str, str]:
    """Per bare name the one path that it is short for."""
    paths: dict[str, set[str]] = {}
    for path in evals:
        if "/" in path:
            paths.setdefault(bare(path), set()).add(path)
    return {name: next(iter(known)) for name, known in paths.items() if len(known) == 1}


def _row(model: str, path: str, told: dict[int, FindingSummary], reports: Sequence[PastReport]) -> RecurringRow:
    numbers = sorted(told)
    seen = {number: Seen(report=reports[number].name, date=reports[number].date) for number in numbers}
    findings = [told[number] for number in numbers]
    actions = ((number, reports[number].action(told[number])) for number in numbers)
    return RecurringRow(
        model=model,
        eval=path,
        first=seen[numbers[-1]],
        last=seen[numbers[0]],
        times=len({reports[number].run for number in numbers}),
        labels=tuple(dict.fromkeys(one.classification for one in findings if one.classification)),
        causes=tuple(dict.fromkeys(one.cause for one in findings if one.cause)),
        actions=tuple(
            ActionSeen(seen=seen[number], text=text, held=_held(number, numbers, reports))
            for number, text in actions
            if text
        ),
    )


def _held(number: int, failed_in: Sequence[int], reports: Sequence[PastReport]) -> Held:
    mine = reports[number]
    later = [n for n in range(number) if reports[n].run != mine.run and _same_experiment(reports[n], mine)]
    if not later:
        return "unknown"
    return "did not hold" if set(later) & set(failed_in) else "held so far"


def _same_experiment(a: PastReport, b: PastReport) -> bool:
    return same_experiment(a.analysis.run.experiment, b.analysis.run.experiment)

"""Each failing eval over all reports of a model: since when, why, and whether what was done has helped any model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from evalscribe.ids import Frozen, model_key, same_experiment
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.finding import Classification, FollowUpOutcome
from evalscribe.model.repository import ReportFile
from evalscribe.recall.follow_ups import SeenIn, done
from evalscribe.recall.outcome import Now, outcome, ran_whole, tells_why, together, told
from evalscribe.recall.past import PastReport, past_reports
from evalscribe.recall.words import bare


class Seen(Frozen):
    """A report in which an eval failed."""

    report: str
    """File name."""
    date: str | None = None


class ActionSeen(Frozen):
    """Something done about an eval, and whether it has helped."""

    model: str
    """The model whose report names it: its folder below the reports folder."""
    seen: Seen
    text: str
    held: FollowUpOutcome
    """By the later runs of every model that have the same experiment."""


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


@dataclass(frozen=True)
class Kept:
    """A report among those of all models."""

    model: str
    place: int
    """0 for the newest of its model."""
    report: PastReport
    failures: Mapping[str, FindingSummary]
    """By the eval's path, as whole as any report of the model tells it."""

    @property
    def seen(self) -> Seen:
        return Seen(report=self.report.name, date=self.report.date)

    @cached_property
    def done(self) -> Mapping[str, Sequence[tuple[str, FindingSummary]]]:
        """What was done about its failures, by the eval's path."""
        paths = {finding.eval: path for path, finding in self.failures.items()}
        found: dict[str, list[tuple[str, FindingSummary]]] = {}
        for text, finding in done(self.report):
            found.setdefault(paths.get(finding.eval, finding.eval), []).append((text, finding))
        return found

    def follows(self, other: "Kept") -> bool:
        """Whether it is of a later run than another report; of two models nobody knows the order within a day."""
        same = same_experiment(self.report.analysis.run.experiment, other.report.analysis.run.experiment)
        if self.report.run == other.report.run or not same:
            return False
        if self.model == other.model:
            return self.place < other.place
        return bool(self.report.date and other.report.date) and (self.report.date or "") > (other.report.date or "")

    def now(self, eval: str, seen_in: SeenIn) -> Now:
        """What its run says of an eval."""
        finding = self.failures.get(eval)
        run, failures = self.report.analysis.run, self.report.analysis.findings
        if finding is None:
            return Now(self.report.date, None, ran=ran_whole(run, len(failures)))
        sighting = seen_in(self.report, finding.eval)
        return Now(self.report.date, told(finding), judged=tells_why(finding), sighting=sighting)


def kept_reports(files: Sequence[ReportFile]) -> tuple[tuple[Kept, ...], tuple[str, ...]]:
    """The reports of any number of models, by model and newest first; notes on files that could not be read."""
    folders: dict[tuple[str, ...], dict[str, list[ReportFile]]] = {}
    for file in files:
        folder = str(PurePosixPath(file.name).parent)
        folders.setdefault(_key(folder), {}).setdefault(folder, []).append(file)
    kept: list[Kept] = []
    notes: list[str] = []
    for model, of_model in sorted((min(found, key=_plainest), found) for found in folders.values()):
        reports, unread = past_reports([file for files in of_model.values() for file in files])
        kept.extend(_kept(model, reports))
        notes.extend(unread)
    return tuple(kept), tuple(notes)


def _key(folder: str) -> tuple[str, ...]:
    """Return a key shared by all folders of a model: that of its vendor and those of serving providers."""
    provider, slash, model = folder.partition("/")
    return model_key(provider, model) if slash else (folder,)


def _plainest(folder: str) -> tuple[int, str]:
    return folder.count("/"), folder


def recurring(files: Sequence[ReportFile], models: Sequence[str] = (), seen_in: SeenIn = lambda *_: None) -> Recurring:
    """Rows of the named models (folders), or of all; never raises for a file that cannot be read.

    `files`: reports of all models, since what was done is looked for in every later one.
    """
    kept, notes = kept_reports(files)
    keys = set(map(_key, models))
    wanted = sorted({one.model for one in kept if not models or _key(one.model) in keys})
    rows = [row for model in wanted for row in _rows(model, kept, seen_in)]
    return Recurring(rows=tuple(rows), notes=notes)


def actions(eval: str, mine: Iterable[Kept], everywhere: Sequence[Kept], seen_in: SeenIn) -> Iterator[ActionSeen]:
    """What was done about an eval after some reports, and what all later ones say of it."""
    for one in mine:
        for text, finding in one.done.get(eval, ()):
            later = [other.now(eval, seen_in) for other in everywhere if other.follows(one)]
            acted_on = seen_in(one.report, finding.eval) if later else None
            held = together(outcome(text, told(finding), acted_on, now) for now in later)
            yield ActionSeen(model=one.model, seen=one.seen, text=text, held=held)


def _kept(model: str, reports: Sequence[PastReport]) -> Iterator[Kept]:
    """`reports`: newest first."""
    whole = _whole_names(finding.eval for report in reports for finding in report.analysis.findings)
    for place, report in enumerate(map(_outline, reports)):
        failures = {whole.get(finding.eval, finding.eval): finding for finding in report.analysis.findings}
        yield Kept(model, place, report, failures)


def _outline(report: PastReport) -> PastReport:
    """Without what nobody asks of so many reports, and what is most of a report in memory."""
    unsaid = {"reasoning": None, "output_snippet": None, "expected_snippet": None, "citations": ()}
    findings = tuple(finding.model_copy(update=unsaid) for finding in report.analysis.findings)
    told = report.analysis.model_copy(update={"findings": findings, "patterns": (), "recommendations": ()})
    return report.model_copy(update={"analysis": told})


def _whole_names(evals: Iterable[str]) -> dict[str, str]:
    """Per bare name the one path that it is short for."""
    paths: dict[str, set[str]] = {}
    for path in evals:
        if "/" in path:
            paths.setdefault(bare(path), set()).add(path)
    return {name: next(iter(known)) for name, known in paths.items() if len(known) == 1}


def _rows(model: str, kept: Sequence[Kept], seen_in: SeenIn) -> list[RecurringRow]:
    mine = [one for one in kept if one.model == model]
    evals = dict.fromkeys(eval for one in mine for eval in one.failures)
    rows = [_row(eval, [one for one in mine if eval in one.failures], kept, seen_in) for eval in evals]
    return sorted(rows, key=lambda row: (-row.times, row.eval))


def _row(eval: str, failed_in: Sequence[Kept], kept: Sequence[Kept], seen_in: SeenIn) -> RecurringRow:
    findings = [one.failures[eval] for one in failed_in]
    return RecurringRow(
        model=failed_in[0].model,
        eval=eval,
        first=failed_in[-1].seen,
        last=failed_in[0].seen,
        times=len({one.report.run for one in failed_in}),
        labels=tuple(dict.fromkeys(one.classification for one in findings if one.classification)),
        causes=tuple(dict.fromkeys(one.cause for one in findings if one.cause)),
        actions=tuple(actions(eval, failed_in, kept, seen_in)),
    )

"""Collect people's corrections from merged reports as labels, and export the labels."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from evalscribe.errors import DataError, NotFoundError, UsageError, write_error
from evalscribe.failures.human_labels import disagreements
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen
from evalscribe.model.analysis import Analysis
from evalscribe.model.finding import Classification, HumanLabel
from evalscribe.model.repository import FileVersion, MergedReports, UnmergedReport, is_of_another_kind
from evalscribe.reports.accuracy import labels_in_force, verdicts
from evalscribe.reports.corrections import (
    LabelOrigin,
    corrections_by_eval,
    labels_of_versions,
    run_of,
    version_page,
)
from evalscribe.reports.history import EvalPaths
from evalscribe.reports.reading import PageSource, read_report

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore


SHORTEST_PREFIX = 6
"""Minimum number of characters of an abbreviated run id. A shorter abbreviation could match an unrelated id
by chance.
"""


class ReviewerLabel(Frozen):
    reviewer: str
    label: Classification
    in_force: bool
    date: str


class Disagreement(Frozen):
    """A failure to which people gave different labels."""

    run: str
    eval: str
    more: int
    """Number of other evals in the group that have the same conflicting labels from the same people."""
    report: str
    opinions: tuple[ReviewerLabel, ...]


class PendingLabel(Frozen):
    """Unmerged corrections in one report, on one branch or in the working tree."""

    report: str
    branch: str | None
    """Name of the branch that has the corrections. None if they are only in the working tree."""
    corrections: int


class UnreadableVersion(Frozen):
    report: str
    problem: str


class SyncResult(Frozen):
    """The result of `review sync`."""

    ref: str
    commit: str
    labels: int
    """Number of labels found, including labels that were replaced later."""
    reviewers: tuple[str, ...]
    reports: int
    """Number of reports with labels."""
    new: int
    changed: int
    withdrawn: int
    disagreements: tuple[Disagreement, ...] = ()
    pending: tuple[PendingLabel, ...] = ()
    unread: tuple[UnreadableVersion, ...] = ()
    shallow: bool = False

    @property
    def unchanged(self) -> bool:
        return not (self.new or self.changed or self.withdrawn)


class ExportedLabels(Frozen):
    path: str
    subjects: int
    duplicates: int
    """Number of failures that were not exported because another failure with the same group and label was exported."""
    contradicted: int
    """Number of failures that were not exported because two reports on the run label them differently."""
    not_stored: int
    """Number of failures that were not exported because the store does not have them."""


def sync_labels(library: ReportsFolder, store: "AnalysisStore", ref: str | None = None) -> SyncResult:
    """Replace the stored labels with the labels in the merged reports.

    Raises:
        UsageError: The reports folder is not in a git repository.
        DataError: git cannot read the history.
    """
    merged = library.merged(ref)
    before = store.labels()
    reader = _Reader(store)
    by_report = _labels_by_report(reader, library, merged)
    labels = _with_distinct_names([label for report_labels in by_report.values() for label in report_labels])
    _store_labels(store, labels, before)
    new, changed, withdrawn = _difference(before, labels)
    return SyncResult(
        ref=merged.ref,
        commit=merged.commit,
        labels=len(labels),
        reviewers=tuple(sorted({label.reviewer for label in labels})),
        reports=sum(map(bool, by_report.values())),
        new=new,
        changed=changed,
        withdrawn=withdrawn,
        disagreements=tuple(_disagreements(labels)),
        pending=tuple(_pending(library.unmerged(ref), reader)),
        unread=tuple(reader.unread),
        shallow=merged.shallow,
    )


def current_labels(library: ReportsFolder, store: "AnalysisStore") -> tuple[HumanLabel, ...]:
    """Return the labels in the merged reports, without storing them.

    If the reports folder is not in a git repository, or the merged reports have no labels, return the stored labels.
    Raises `NotFoundError` if there are no stored labels either.
    """
    try:
        by_report = _labels_by_report(_Reader(store), library, library.merged(None))
    except UsageError:
        by_report = {}
    return _with_distinct_names([label for labels in by_report.values() for label in labels]) or _labels(store)


def _labels_by_report(
    reader: "_Reader", library: ReportsFolder, merged: MergedReports
) -> dict[str, tuple[HumanLabel, ...]]:
    """Return the labels of each merged report, keyed by the report's name. Copies of another report are left out."""
    versions = library.versions_of(merged.reports, merged.commit)
    by_report = {name: reader.labels(name, states) for name, states in versions}
    for copy in reader.copies():
        by_report.pop(copy)
    return by_report


def export_labels(store: "AnalysisStore", path: Path) -> ExportedLabels:
    """Write the labels in force on stored runs to a file, as a dataset for `judge-eval`.

    Raises `NotFoundError` if there are no labels, or if no labelled failure is in the store.
    """
    labels = _labels(store)
    agreed = labels_in_force(labels)
    runs = {run: store.get_run(run) for run in {label.run for label in agreed}}
    stored = [
        label for label in agreed if (run := runs[label.run]) and any(eval.path == label.eval for eval in run.failures)
    ]
    chosen = verdicts(stored)
    if not chosen:
        raise NotFoundError("no labelled failure is in the store; analyze the runs first: evalscribe analyze RUN")
    lines = (json.dumps({"subject": {"run": label.run, "eval": label.eval}, "label": label.label}) for label in chosen)
    try:
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    except OSError as error:
        raise write_error(f"cannot write {path}", error) from None
    subjects = {(label.run, label.eval) for label in labels if label.in_force}
    return ExportedLabels(
        path=str(path),
        subjects=len(chosen),
        duplicates=len(stored) - len(chosen),
        contradicted=len(subjects) - len(agreed),
        not_stored=len(agreed) - len(stored),
    )


def _labels(store: "AnalysisStore") -> tuple[HumanLabel, ...]:
    labels = store.labels()
    if not labels:
        raise NotFoundError("there are no human labels; merge corrected reports, then run: evalscribe review sync")
    return labels


class _Reader:
    """Parses the versions of reports, and remembers the reports that cannot be read."""

    def __init__(self, store: "AnalysisStore") -> None:
        self._store = store
        self.unread: list[UnreadableVersion] = []
        self.newest: dict[str, Analysis] = {}
        """The newest readable version of each merged report, keyed by name."""
        self._since: dict[str, int] = {}
        """`FileVersion.age` of the first version of each report, keyed by name. A lower number means an older report.

        Of several reports on a run, the oldest is the original.
        """

    def labels(self, name: str, versions: Sequence[FileVersion]) -> tuple[HumanLabel, ...]:
        reading = cache(self.read)
        pages = [page for version in versions if (page := version_page(version, name))]
        if pages and is_of_another_kind(pages[-1].text):
            return ()
        problems = [reading(page) for page in pages[-1:]]
        self.unread.extend(
            UnreadableVersion(report=name, problem=problem) for problem in problems if isinstance(problem, str)
        )
        analysis = next((candidate for page in reversed(pages) if (candidate := _readable(reading(page)))), None)
        if analysis is None:
            return ()
        self.newest[name] = analysis
        if not isinstance(problems[0], str):
            self._since[name] = versions[0].age
        # Without a correction in the newest version, all earlier labels are withdrawn, so older versions are not read.
        if not any(finding.by_person for finding in analysis.findings):
            return ()
        about = self._about(analysis, name)
        return self._with_full_paths(labels_of_versions(versions, lambda page: _readable(reading(page)), about))

    def copies(self) -> Iterator[str]:
        """Yield the names of judges' reports on runs that have an older report, and add the names to `unread`.

        The labels in a newer report repeat those in the older report and would be counted twice.
        """
        first: dict[str, str] = {}
        # Of two reports from one commit, the one that was written beside the other has the longer name.
        for name in sorted(self._since, key=lambda name: (self._since[name], len(name), name)):
            if self.newest[name].revision is not None:
                original = first.setdefault(self._run(run_of(self.newest[name], name)), name)
                if original != name:
                    problem = f"{original} is already the report of this run; correct it and remove this file"
                    self.unread.append(UnreadableVersion(report=name, problem=problem))
                    yield name

    @staticmethod
    def read(page: PageSource) -> Analysis | str:
        """Parse a page. If the page cannot be read, return the reason as a string."""
        try:
            return read_report(page.text, page.name, page.data)
        except DataError as error:
            return str(error).removeprefix(f"{PurePosixPath(page.name).name}: ")

    def _about(self, analysis: Analysis, name: str) -> LabelOrigin:
        folders = PurePosixPath(name).parts[:-1]
        return LabelOrigin(
            report=name,
            run=self._run(run_of(analysis, name)),
            provider=analysis.run.provider or next(iter(folders), ""),
            model=analysis.run.model or "/".join(folders[1:]),
            experiment=analysis.run.experiment or "default",
        )

    def _run(self, run_id: str) -> str:
        """Return the id of the stored run to which an abbreviated id refers.

        If the abbreviated id fits no stored run, or fits several stored runs, the abbreviated id is returned unchanged.
        """
        if self._store.get_run(run_id) or len(run_id) < SHORTEST_PREFIX:
            return run_id
        matches = self._store.run_ids(run_id)
        return matches[0] if len(matches) == 1 else run_id

    def _with_full_paths(self, labels: tuple[HumanLabel, ...]) -> tuple[HumanLabel, ...]:
        """Replace the bare names of evals with their paths in the stored run."""
        run = self._store.get_run(labels[0].run) if labels else None
        if run is None:
            return labels
        paths = EvalPaths(run, ())
        return tuple(label.model_copy(update={"eval": path}) for label in labels for path in paths.of(label.eval))


def _readable(content: Analysis | str) -> Analysis | None:
    return content if isinstance(content, Analysis) else None


def _with_distinct_names(labels: Sequence[HumanLabel]) -> tuple[HumanLabel, ...]:
    """Return the labels, with e-mail addresses added to the names that several people share."""
    emails: dict[str, set[str]] = {}
    for label in labels:
        emails.setdefault(label.reviewer, set()).add(label.email)
    return tuple(
        label
        if len(emails[label.reviewer]) == 1
        else label.model_copy(update={"reviewer": f"{label.reviewer} <{label.email}>"})
        for label in labels
    )


def _store_labels(store: "AnalysisStore", labels: Iterable[HumanLabel], before: Iterable[HumanLabel]) -> None:
    # Runs whose labels were all withdrawn are stored with an empty list.
    by_run: dict[str, list[HumanLabel]] = {label.run: [] for label in before}
    for label in labels:
        by_run.setdefault(label.run, []).append(label)
    store.put_labels(by_run)


def _difference(before: Iterable[HumanLabel], after: Iterable[HumanLabel]) -> tuple[int, int, int]:
    """Count the labels that are new, changed or withdrawn."""
    old, new = _by_giver(before), _by_giver(after)
    changed = sum(key in old and old[key] != facts for key, facts in new.items())
    return len(new.keys() - old.keys()), changed, len(old.keys() - new.keys())


def _by_giver(labels: Iterable[HumanLabel]) -> Mapping[tuple[str, ...], tuple[object, ...]]:
    return {
        (label.run, label.eval, label.email, label.report): (label.label, label.cause_kind, label.note, label.in_force)
        for label in labels
    }


def _disagreements(labels: Sequence[HumanLabel]) -> Iterator[Disagreement]:
    """Yield the failures to which people gave different labels.

    If several failures of a group have the same labels from the same people, only the first failure is yielded.
    `Disagreement.more` counts the others.
    """
    groups: dict[tuple[str, str, tuple[ReviewerLabel, ...]], list[HumanLabel]] = {}
    for conflicting in disagreements(labels):
        opinions = tuple(
            ReviewerLabel(**{name: getattr(label, name) for name in ReviewerLabel.model_fields})
            for label in conflicting
        )
        groups.setdefault((conflicting[0].run, conflicting[0].group or conflicting[0].eval, opinions), []).append(
            conflicting[0]
        )
    for (run, _, opinions), (first, *others) in groups.items():
        yield Disagreement(run=run, eval=first.eval, more=len(others), report=first.report, opinions=opinions)


def _pending(unmerged: Iterable[UnmergedReport], reader: _Reader) -> Iterator[PendingLabel]:
    """Yield the number of corrections that are not merged yet, for each report and branch.

    A correction that several branches have is counted once. Corrections of the evals in one group count as one.
    """
    reported: set[object] = set()
    for report in unmerged:
        content = reader.read(PageSource(name=report.name, text=report.text, data=report.data))
        base = reader.read(PageSource(name=report.name, text=report.base, data=report.base_data)) if report.base else ""
        earlier = [
            corrections_by_eval(state)
            for state in (base, reader.newest.get(report.name))
            if isinstance(state, Analysis)
        ]
        fresh = corrections_by_eval(content) if isinstance(content, Analysis) else {}
        corrections = {
            (report.name, eval, word) for eval, word in fresh.items() if all(k.get(eval) != word for k in earlier)
        }
        if corrections - reported and isinstance(content, Analysis):
            group = {finding.eval: finding.group or finding.eval for finding in content.findings}
            fresh_groups = {group[eval] for _, eval, _ in corrections - reported}
            yield PendingLabel(report=report.name, branch=report.branch, corrections=len(fresh_groups))
        reported |= corrections

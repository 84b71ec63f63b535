"""Pages about judges: their rubrics, and how often people agreed with their verdicts."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from evalscribe.errors import EvalscribeError, NotFoundError
from evalscribe.judging.result_text import render_interval, render_share
from evalscribe.judging.rubrics import (
    DEFAULT_COLLECTION,
    ListedRubric,
    diff_rubrics,
    list_rubrics,
    load_rubric,
    to_yaml,
)
from evalscribe.model.result import RubricResultCounts
from evalscribe.reports.accuracy import Accuracy, CorrectedVerdict, JudgeAccuracy, accuracy_of
from evalscribe.web.collections import COLLECTIONS, StorePages, or_problem
from evalscribe.web.pictures import calibration_curve
from evalscribe.web.results import evidence_path, rubric_key
from evalscribe.web.site import Page, Pages, Query, slug

RUBRICS, ACCURACY = "rubrics.html", "accuracy.html"
_RUBRIC = re.compile(r"rubrics/([^/]+)/([^/]+)\.html")
MOST_VERSIONS = 30
"""Maximum number of versions on a rubric's page."""
MOST_VERDICTS = 200
"""Maximum number of corrected verdicts shown per judge."""


class RubricPages(StorePages):
    first = RUBRICS

    def stored_paths(self) -> Iterator[str]:
        for collection_id, rows in self._listings():
            yield from (_path(collection_id, row.name) for row in rows)

    def stored_page(self, path: str, query: Query) -> Page | None:  # noqa: ARG002 - there are few rubrics
        if path == RUBRICS:
            values = {"read": lambda: or_problem(self._listings), "rubric_path": _path}
            return Page("rubrics.html.j2", "Rubrics", COLLECTIONS, values)
        match = _RUBRIC.fullmatch(path)
        if match is None:
            return None
        for collection_id, rows in self._listings():
            for row in rows:
                if (slug(collection_id), slug(row.name)) == match.groups():
                    return self._rubric(collection_id, row)
        return None

    def _listings(self) -> Sequence[tuple[str, Sequence[ListedRubric]]]:
        """Return the rubrics of each collection. The shared rubrics come first, together with the rubrics in files."""
        store, prompts = self.store, self.site.workspace.prompts
        listings = [(DEFAULT_COLLECTION, list_rubrics(store.collections if store else None, prompts).rubrics)]
        for collection in store.collections.collections() if store else ():
            if collection.id != DEFAULT_COLLECTION:
                stored = store.collections.rubrics(collection.id) if store else ()
                rows = tuple(
                    ListedRubric(name=rubric.id, version=rubric.version, digest=rubric.digest) for rubric in stored
                )
                listings += [(collection.id, rows)] if rows else []
        return listings

    def _rubric(self, collection_id: str, row: ListedRubric) -> Page:
        store = self.store.collections if self.store else None
        counts = store.result_counts() if store and collection_id == DEFAULT_COLLECTION else ()
        values = {
            "row": row,
            "collection_id": collection_id,
            "versions": list(self._versions(collection_id, row)),
            "left_out": max(0, (row.version or 0) - MOST_VERSIONS),
            "file": or_problem(lambda: to_yaml(load_rubric(row.name, self.site.workspace.prompts)))
            if row.file
            else None,
            "file_diff": self._file_diff(row) if row.file and row.changed else "",
            "results": [(count, _results_path(count)) for count in counts if count.rubric_id == row.name],
        }
        return Page("rubric.html.j2", f"Rubric {row.name}", COLLECTIONS, values)

    def _versions(self, collection_id: str, row: ListedRubric) -> Iterator[Mapping[str, Any]]:
        """Yield the versions of a rubric, newest first, each with its text and the changes since the previous one."""
        latest = row.version or 0
        if self.store is None or not latest:
            return
        for number in range(latest, max(0, latest - MOST_VERSIONS), -1):
            text, problem = or_problem(partial(self._text, collection_id, row.name, number))
            diff, unknown = or_problem(partial(self._diff, collection_id, row.name, number))
            yield {"number": number, "text": text, "diff": diff, "problem": problem or unknown}

    def _text(self, collection_id: str, name: str, version: int) -> str:
        return to_yaml(self.site.workspace.store.collections.rubric(collection_id, name, version))

    def _diff(self, collection_id: str, name: str, version: int) -> str:
        """Return the changes since the previous version of a rubric; empty for the first version."""
        workspace = self.site.workspace
        names = (f"{name}@{version - 1}", f"{name}@{version}")
        return (
            diff_rubrics(workspace.store.collections, workspace.prompts, *names, collection_id) if version > 1 else ""
        )

    def _file_diff(self, row: ListedRubric) -> str:
        if self.store is None:
            return ""
        try:
            return diff_rubrics(self.store.collections, self.site.workspace.prompts, row.name)
        except EvalscribeError as error:
            return str(error)


def _path(collection_id: str, name: str) -> str:
    return f"rubrics/{slug(collection_id)}/{slug(name)}.html"


def _results_path(counts: RubricResultCounts) -> str:
    return f"results/rubric/{slug(rubric_key(counts))}/index.html"


class AccuracyPages(Pages):
    def paths(self) -> Iterator[str]:
        yield ACCURACY

    def page(self, path: str, query: Query) -> Page | None:  # noqa: ARG002 - nothing to filter
        if path != ACCURACY:
            return None
        values = {
            "read": self._read,
            "href": self._href,
            "share": render_share,
            "interval": render_interval,
            "picture": _picture,
            "labels_of": _labels_of,
            "most": MOST_VERDICTS,
        }
        return Page("accuracy.html.j2", "Accuracy", ACCURACY, values)

    def _read(self) -> tuple[Accuracy | None, str | None]:
        """Return the judges' accuracy, or the reason why it cannot be measured.

        Both items of the pair are None if nobody has corrected a finding.
        """
        try:
            return self._measured(), None
        except NotFoundError:
            return None, None
        except EvalscribeError as error:
            return None, str(error)

    def _measured(self) -> Accuracy:
        workspace, shown = self.site.workspace, {report.name: report.analysis for report in self.site.reports.shown}
        stored = workspace.store.analyses.labels() if workspace.has_store else ()
        scope = self.site.reports.scope
        if scope.report is not None or scope.folder:
            stored = tuple(label for label in stored if label.report in shown)
        return accuracy_of(shown, stored)

    def _href(self, verdict: CorrectedVerdict) -> str | None:
        """Return the address of the page about a verdict's eval, or None if the eval's report is not shown."""
        reports = (report for report in self.site.reports.shown if report.run == verdict.run)
        entry = next((entry for report in reports if (entry := report.entry_of.get(verdict.eval))), None)
        return evidence_path(entry, verdict.eval) if entry else None


def _picture(row: JudgeAccuracy) -> object:
    bins = row.reliability.bins if row.reliability else ()
    return calibration_curve([(item.low, item.high, item.confidence, item.agreement, item.verdicts) for item in bins])


def _labels_of(row: JudgeAccuracy) -> Sequence[str]:
    """Return the labels of the confusion matrix that the judge or a person used at least once."""
    used = Counter[str](chain.from_iterable((verdict.label, verdict.judged) for verdict in (*row.wrong, *row.right)))
    return [label for label in row.confusion if used[label]]

"""Pages about collections: their runs, agent runs as conversations, and the answers of models and judges about them."""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from evalscribe.errors import EvalscribeError, NotFoundError
from evalscribe.model.record import GradedEval, Record
from evalscribe.model.result import CitationCounts, JudgeResult, Result, ResultCounts, ResultSet, RubricResultCounts
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Run
from evalscribe.store.store import Storage
from evalscribe.web import agent_runs, results
from evalscribe.web.agent_runs import AgentRunFinder, agent_run_folder, run_folder
from evalscribe.web.results import AnswerViews, rubric_key
from evalscribe.web.site import Page, Pages, Query, Site, slug

COLLECTIONS, RESULTS = "collections.html", "results.html"
_COLLECTION = re.compile(r"collections/([^/]+)/index\.html")
_RUN = re.compile(r"collections/([^/]+)/run/([^/]+)/index\.html")
_AGENT_RUN = re.compile(r"collections/([^/]+)/run/([^/]+)/agent/([^/]+)/([^/]+)\.html")
_MESSAGES = re.compile(r"t(\d{1,6})-(m?)(\d{1,6})")
_RESULTS = re.compile(r"results/(set|rubric)/([^/]+)/index\.html")

T = TypeVar("T")


class StorePages(Pages):
    """Pages about the contents of the store. If an object cannot be read, its page shows the error."""

    first: str
    """Path of the first page of the section."""

    @abstractmethod
    def stored_page(self, path: str, query: Query) -> Page | None:
        """Return the page, or None if it does not exist. Raises `EvalscribeError` if the store cannot be read."""

    @abstractmethod
    def stored_paths(self) -> Iterator[str]:
        """Yield the paths of all pages in a bundle except the first page.

        Raises `EvalscribeError` if the store cannot be read.
        """

    def page(self, path: str, query: Query) -> Page | None:
        try:
            return self.stored_page(path, query)
        except NotFoundError:
            return None
        except EvalscribeError as error:
            return Page("problem.html.j2", "This page cannot be shown", self.first, {"message": str(error)})

    def paths(self) -> Iterator[str]:
        yield self.first
        paths = self.stored_paths()
        while path := _or_none(lambda: next(paths, None)):
            yield path

    @property
    def store(self) -> Storage | None:
        """The store, or None if no store exists yet. Opening a missing store would create it."""
        return self.site.workspace.store if self.site.workspace.has_store else None


def _or_none(read: Callable[[], T | None]) -> T | None:
    try:
        return read()
    except EvalscribeError:
        return None  # the section's first page shows the error


def or_problem(read: Callable[[], T]) -> tuple[T | None, str | None]:
    """Return the result of `read` and None, or None and the error's message if `read` raises an `EvalscribeError`."""
    try:
        return read(), None
    except EvalscribeError as error:
        return None, str(error)


class CollectionPages(StorePages):
    first = COLLECTIONS

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._agent_runs = AgentRunFinder(site, self._cited)

    def _cited(self) -> Iterable[str]:
        return () if self.store is None or self._agent_runs.limited else results.cited_in_bundle(self.store)

    def stored_paths(self) -> Iterator[str]:
        yield RESULTS
        for collection, runs in self._agent_runs.collections():
            yield f"collections/{slug(collection.id)}/index.html"
            for run in runs:
                yield f"{run_folder(collection.id, run.id)}/index.html"
                for graded in self._agent_runs.listed(collection, run):
                    if record := self._agent_runs.record(run.id, graded.eval.id):
                        folder = agent_run_folder(collection.id, run.id, graded.eval.id)
                        yield from (f"{folder}/{file}" for file in agent_runs.files_of(record))
        yield from (path for *_, path in self._sets())
        yield from (path for _, path in self._judged())

    def stored_page(self, path: str, query: Query) -> Page | None:
        if path == COLLECTIONS:
            return Page("collections.html.j2", "Collections", path, {"read": lambda: or_problem(self._summaries)})
        if path == RESULTS:
            values = {"sets": self._sets(), "judged": self._judged(), "limited": self._agent_runs.limited}
            return Page("result_sets.html.j2", "Results", COLLECTIONS, values)
        if match := _COLLECTION.fullmatch(path):
            return self._collection(*self._find(match[1]))
        if match := _RUN.fullmatch(path):
            return self._run(*self._find_run(match[1], match[2]), query)
        if match := _AGENT_RUN.fullmatch(path):
            return self._agent_run(*self._find_run(match[1], match[2]), match[3], match[4])
        if match := _RESULTS.fullmatch(path):
            return self._results(path, query)
        return None

    def _summaries(self) -> Sequence[Mapping[str, Any]]:
        """Return a summary of each collection: its runs, statuses, result sets and rubrics."""
        if self.store is None:
            return ()
        return [
            {
                "collection": collection,
                "runs": runs,
                "statuses": _sums(runs),
                "sets": [item for item in self._sets() if item[0].collection_id == collection.id],
                "rubrics": self.store.collections.rubrics(collection.id),
                "path": f"collections/{slug(collection.id)}/index.html",
            }
            for collection, runs in self._agent_runs.collections()
        ]

    def _find(self, name: str) -> tuple[Collection, Sequence[Run]]:
        for collection, runs in self._agent_runs.collections():
            if slug(collection.id) == name:
                return collection, runs
        raise NotFoundError(f"no collection {name!r}")

    def _find_run(self, collection_name: str, name: str) -> tuple[Collection, Run]:
        collection, runs = self._find(collection_name)
        for run in runs:
            if slug(run.id) == name:
                return collection, run
        raise NotFoundError(f"no run {name!r}")

    def _collection(self, collection: Collection, runs: Sequence[Run]) -> Page:
        assert self.store is not None
        reports = {report.run for report in self.site.reports.shown}
        return Page(
            "collection.html.j2",
            f"Collection {collection.name}",
            COLLECTIONS,
            {
                "collection": collection,
                "runs": [(run, run_folder(collection.id, run.id), run.id in reports) for run in runs],
                "sets": [item for item in self._sets() if item[0].collection_id == collection.id],
                "rubrics": self.store.collections.rubrics(collection.id),
            },
        )

    def _run(self, collection: Collection, run: Run, query: Query) -> Page:
        assert self.store is not None
        listed = self._agent_runs.listed(collection, run)
        matching = agent_runs.matching_evals(listed, query)
        start = 0 if self.site.is_static else _number(query, "page") * agent_runs.ON_PAGE
        rows = matching if self.site.is_static else matching[start : start + agent_runs.ON_PAGE]
        words = self.store.runs.first_words(run.id, [graded.eval.id for graded in rows])
        statuses = Counter[str](graded.eval.status for graded in listed)
        return Page(
            "collection_run.html.j2",
            f"Run {run.id}",
            COLLECTIONS,
            {
                "collection": collection,
                "run": run,
                "rows": [self._row(collection, graded, words.get(graded.eval.id, "")) for graded in rows],
                "matching": len(matching),
                "listed": len(listed),
                "start": start,
                "statuses": [(status, statuses[status]) for status in agent_runs.STATUSES if statuses[status]],
                "report": any(report.run == run.id for report in self.site.reports.shown),
                "query": query,
                "addresses": _addresses(query, start, len(matching), agent_runs.ON_PAGE),
                "most": agent_runs.MOST_IN_BUNDLE,
                "largest": agent_runs.LARGEST_IN_BUNDLE,
            },
        )

    def _row(self, collection: Collection, graded: GradedEval, words: str) -> Mapping[str, Any]:
        entry = self._agent_runs.entry(graded.run_id, graded.eval.path)
        folder = agent_run_folder(collection.id, graded.run_id, graded.eval.id)
        return {"graded": graded, "words": words, "entry": entry, "path": f"{folder}/index.html"}

    def _agent_run(self, collection: Collection, run: Run, name: str, file: str) -> Page | None:
        record = self._record(collection, run, name)
        if record is None:
            return None
        agent_run = record.agent_run
        entry = self._agent_runs.entry(run.id, record.eval.path)
        values: dict[str, Any] = {
            "collection": collection,
            "run": run,
            "record": record,
            "transcripts": agent_run.transcripts,
            "evidence": results.evidence_path(entry, record.eval.path) if entry else None,
            "entry": entry,
        }
        title = record.eval.path
        if file == "documents":
            documents = [agent_runs.view_document(document) for document in record.documents]
            return Page("agent_run_documents.html.j2", title, COLLECTIONS, {**values, "documents": documents})
        # The first page of messages has the name `index` only, so that each page has one address.
        match = _MESSAGES.fullmatch("t0-0" if file == "index" else file)
        if match is None or (file != "index" and int(match[1]) == int(match[3]) == 0):
            return None
        if match[2]:
            return self._long_message(values, title, int(match[1]), int(match[3]))
        shown = agent_runs.messages_page(agent_run.transcripts, int(match[1]), int(match[3]))
        if shown is None:
            return None
        first = file == "index"
        values |= {
            "shown": shown,
            "message_file": self._message_file,
            "messages_file": agent_runs.messages_file,
            "metadata": agent_runs.metadata_rows(agent_run.metadata) if first else (),
            "answers": self._answers(record) if first else (),
        }
        return Page("agent_run_page.html.j2", title, COLLECTIONS, values)

    def _message_file(self, transcript: int, message: agent_runs.MessageView) -> str | None:
        """Return the file name of a long message's page, or None if the bundle does not contain that page."""
        too_long = message.length > agent_runs.LONGEST_IN_BUNDLE
        return None if self.site.is_static and too_long else agent_runs.message_file(transcript, message.number)

    def _long_message(self, values: Mapping[str, Any], title: str, transcript: int, number: int) -> Page | None:
        transcripts = values["transcripts"]
        if transcript >= len(transcripts) or not 1 <= number <= len(transcripts[transcript].messages):
            return None
        message = agent_runs.view_message(number, transcripts[transcript].messages[number - 1], longest=None)
        back = agent_runs.messages_file(transcript, (number - 1) // agent_runs.ON_PAGE)
        return Page("agent_run_message.html.j2", title, COLLECTIONS, {**values, "message": message, "back": back})

    def _record(self, collection: Collection, run: Run, name: str) -> Record | None:
        """Return the record of the agent run whose pages are in the folder `name`."""
        # An id that needs no escaping is its own slug and can be looked up directly.
        if slug(name) == name and (record := self._agent_runs.record(run.id, name)):
            return record
        evals = (graded.eval.id for graded in self._agent_runs.listed(collection, run))
        id = next((id for id in evals if slug(id) == name), None)
        return None if id is None else self._agent_runs.record(run.id, id)

    def _answers(self, record: Record) -> Sequence[tuple[RubricResultCounts | None, Any]]:
        if self.store is None or self._agent_runs.limited:
            return ()
        # Results name an agent run by its id, and a failed eval by its run and path.
        subjects = (record.eval.id, f"{record.run_id}/{record.eval.path}")
        judged = self.store.collections.results_about(subjects)[: results.ON_PAGE]
        views = AnswerViews(self._agent_runs, self.store)
        views.find(judged)
        return [(_counts(result), views.answer(number, result)) for number, result in enumerate(judged)]

    def _sets(self) -> Sequence[tuple[ResultSet, Collection, ResultCounts, str]]:
        """Return the result sets with their collections, counts and paths, newest first."""
        if self.store is None or self._agent_runs.limited:
            return ()
        sets = [
            (result_set, collection, counts, f"results/set/{slug(result_set.id)}/index.html")
            for collection in self.store.collections.collections()
            for result_set, counts in self.store.results.sets(collection.id)
        ]
        return sorted(sets, key=lambda item: item[0].created_at, reverse=True)

    def _judged(self) -> Sequence[tuple[RubricResultCounts, str]]:
        """Return the number of results for each rubric version and judge, with the path of the page that lists them."""
        if self.store is None or self._agent_runs.limited:
            return ()
        counted = self.store.collections.result_counts()
        return [(counts, f"results/rubric/{slug(rubric_key(counts))}/index.html") for counts in counted]

    def _results(self, path: str, query: Query) -> Page | None:
        if self.store is None:
            return None
        stored: Sequence[Result | JudgeResult]
        collection_id = None
        if entry := next((item for item in self._sets() if item[3] == path), None):
            result_set, collection, _, _ = entry
            stored, collection_id = self.store.results.results(result_set.id), collection.id
            values: dict[str, Any] = {"result_set": result_set, "collection": collection, "counts": None}
            title = result_set.name
        elif counts := next((counts for counts, other in self._judged() if other == path), None):
            stored = list(
                self.store.collections.results_by_rubric(counts.rubric_id, counts.rubric_version, counts.judge)
            )
            values = {"result_set": None, "collection": None, "counts": counts}
            title = f"{counts.rubric_id}@{counts.rubric_version} by {counts.judge}"
        else:
            return None
        views = AnswerViews(self._agent_runs, self.store)
        schema = values["result_set"] and values["result_set"].output_schema
        # Filters need all answers. Citations are resolved only for the answers of one page, because resolving reads the
        # whole subject of each.
        rows = [(views.answer(n, result, schema, resolve=False), n, result) for n, result in enumerate(stored)]
        answers = [answer for answer, _, _ in rows]
        # By identity, because different results can have equal answers.
        chosen = set(map(id, results.matching_answers(answers, query)))
        matching = [(n, result) for answer, n, result in rows if id(answer) in chosen]
        start = 0 if self.site.is_static else _number(query, "page") * results.ON_PAGE
        page = matching[start : start + results.ON_PAGE]
        views.find([result for _, result in page], collection_id)
        shown = [views.answer(n, result, schema) for n, result in page]
        values |= {
            "answers": shown,
            "total": len(rows),
            "matching": len(matching),
            "start": start,
            "choices": results.answer_choices(shown if self.site.is_static else answers),
            "citations": sum((answer.citations for answer in answers), CitationCounts()),
            "query": query,
            "addresses": _addresses(query, start, len(matching), results.ON_PAGE),
        }
        return Page("result_set.html.j2", title, COLLECTIONS, values)


def _counts(result: JudgeResult) -> RubricResultCounts:
    return RubricResultCounts(
        rubric_id=result.rubric_id, rubric_version=result.rubric_version, judge=result.judge, results=1, failures=0
    )


def _sums(runs: Iterable[Run]) -> Mapping[str, int]:
    runs = list(runs)
    return {
        "passed": sum(run.passed for run in runs),
        "failed": sum(run.failed for run in runs),
        "total": sum(run.total for run in runs),
    }


def _number(query: Query, name: str) -> int:
    """Return the index of the requested page, from 0. In the address, pages are numbered from 1."""
    text = query.get(name, "")
    return max(0, int(text) - 1) if re.fullmatch(r"\d{1,6}", text) else 0


def _addresses(query: Query, start: int, total: int, size: int) -> Mapping[str, Mapping[str, str] | None]:
    """Return the parameters of the addresses of the previous and the next page; None for a page that does not exist."""
    page = start // size + 1
    filters = {name: value for name, value in query.items() if name != "page" and value}
    return {
        "before": {**filters, "page": str(page - 1)} if start else None,
        "after": {**filters, "page": str(page + 1)} if start + size < total else None,
    }

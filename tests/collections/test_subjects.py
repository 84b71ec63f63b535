"""Lookup of subjects by name: stored runs by prefix, evals after their run, and files."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from evalscribe.collections.subjects import SubjectAddress, SubjectFinder
from evalscribe.errors import AccessError, NotFoundError, UsageError
from evalscribe.judging.judges import LoadedSubject
from evalscribe.model.evidence import Document, Evidence, UnreadableEvidence
from evalscribe.model.protocols import RunSource
from evalscribe.model.run import Eval, Run
from support.analysis_graph import MemoryStore

FIRST = Eval(id="e1", category="basics", name="001-one")
SECOND = Eval(id="e2", category="basics", name="002-two")
RUN = Run(id="jn7aaaa1", provider="p", model="m", failed=2, total=2, failures=(FIRST, SECOND))


class Nowhere:
    """Addresses without any reachable source: every run found comes from the store."""

    def address(self, name: str) -> SubjectAddress:
        return SubjectAddress(run_id=name, is_id="://" not in name)

    def source(self, name: str) -> RunSource:
        raise AccessError("no deployment is configured")

    def imported(self, run_id: str) -> RunSource | None:
        return None


class Silent:
    def __init__(self) -> None:
        self.said: list[str] = []

    def started(self, run: Run) -> None: ...
    def fetched(self, done: int, total: int) -> None: ...
    def judged(self, event: object) -> None: ...
    def say(self, line: str, fields: Sequence[str] = ()) -> None:
        self.said.append(line)


@pytest.fixture
def store() -> MemoryStore:
    memory = MemoryStore()
    document = Document(role="output", path="a.py", text="x = 1")
    for run_id in ("jn7aaaa1", "jn7aaaa2", "jn7bbbb1"):
        memory.put_run(RUN.model_copy(update={"id": run_id}))
        memory.put_evidence(run_id, Evidence(eval=FIRST, documents=(document,)))
    memory.put_evidence("jn7aaaa1", UnreadableEvidence(eval=SECOND, reason="corrupt zip"))
    return memory


@pytest.fixture
def finder(store: MemoryStore) -> SubjectFinder:
    return SubjectFinder(store, Nowhere(), Silent())


@pytest.mark.parametrize("name", ["jn7bbbb1", "jn7b"])
async def test_stored_run_is_found_by_its_id_or_a_prefix(name: str, finder: SubjectFinder) -> None:
    waiting = await finder.find([name])
    assert [one.name for one in waiting] == ["jn7bbbb1/basics/001-one", "jn7bbbb1/basics/002-two"]
    loaded = waiting[0].load()
    assert isinstance(loaded, LoadedSubject)
    assert loaded.subject.id == "jn7bbbb1/basics/001-one"


async def test_ambiguous_run_prefix_is_refused(finder: SubjectFinder) -> None:
    with pytest.raises(UsageError, match="'jn7a' matches 2 runs; choose one by its id: jn7aaaa1, jn7aaaa2"):
        await finder.find(["jn7a"])


@pytest.mark.parametrize("name", ["jn7", "jn7c", "https://example.org/run/jn7bbbb1"])
async def test_run_that_is_not_stored_is_fetched_from_its_source(name: str, finder: SubjectFinder) -> None:
    with pytest.raises(AccessError, match="no deployment"):
        await finder.find([name])


async def test_evals_belong_to_the_preceding_run_and_are_not_duplicated(finder: SubjectFinder) -> None:
    named = ["jn7aaaa1", "001-one", "basics/001-one", "jn7bbbb1", "e2"]
    waiting = await finder.find(named)
    assert [one.name for one in waiting] == ["jn7aaaa1/basics/001-one", "jn7bbbb1/basics/002-two"]


async def test_misspelt_eval_is_reported_as_an_eval(finder: SubjectFinder) -> None:
    with pytest.raises(NotFoundError, match=r"run jn7aaaa1 has no failed eval '003-three'"):
        await finder.find(["jn7aaaa1", "003-three"])


async def test_missing_file_is_reported_as_a_file(finder: SubjectFinder) -> None:
    with pytest.raises(NotFoundError, match=r"file runs\.json not found$"):
        await finder.find(["runs.json"])
    with pytest.raises(NotFoundError, match=r"file more\.jsonl not found$"):
        await finder.find(["jn7aaaa1", "more.jsonl"])


async def test_unreadable_or_missing_evidence_loads_as_a_reason(finder: SubjectFinder) -> None:
    unreadable, missing = await finder.find(["jn7aaaa1", "e2", "jn7aaaa2", "e2"])
    assert unreadable.load() == "corrupt zip"
    assert "not in the store" in str(missing.load())


async def test_agent_runs_with_equal_ids_in_a_file_are_all_found(finder: SubjectFinder, tmp_path: Path) -> None:
    run = {"id": "same", "transcripts": [{"messages": [{"role": "user", "content": "Hello"}]}]}
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([run, run]))
    assert [one.name for one in await finder.find([str(path)])] == ["same", "same"]


async def test_run_without_failures_gives_a_message_and_no_subjects(store: MemoryStore) -> None:
    store.put_run(RUN.model_copy(update={"id": "empty-run", "failures": (), "failed": 0}))
    watcher = Silent()
    assert await SubjectFinder(store, Nowhere(), watcher).find(["empty-run"]) == ()
    assert watcher.said == ["Run empty-run lists no failed evals."]

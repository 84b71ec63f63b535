"""Fetching evidence: limited concurrency, and each result is stored at once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalscribe.errors import AccessError
from evalscribe.failures.prepare import FETCHES, fetch_evidence
from evalscribe.model.evidence import Document, Evidence, UnreadableEvidence
from evalscribe.model.protocols import RunSource
from evalscribe.model.run import Eval, Run
from evalscribe.store.analyses import AnalysisStore, open_store

EVALS = tuple(Eval(id=f"e{n}", category="c", name=f"n{n}", failed_step="tests") for n in range(40))
RUN = Run(id="r1", provider="p", model="m", failures=EVALS, failed=40, total=50)


class Slow(RunSource):
    """A source that counts how many are fetched at once; eval 7 is unreadable."""

    def __init__(self, broken: str | None = None) -> None:
        self.at_once = self.most = 0
        self.broken = broken

    async def evidence(self, eval: Eval) -> Evidence | UnreadableEvidence:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.001 * (int(eval.id[1:]) % 3))
        self.at_once -= 1
        if eval.id == self.broken:
            raise AccessError("the key was refused")
        if eval.id == "e7":
            return UnreadableEvidence(eval=eval, reason="corrupt zip")
        return Evidence(eval=eval, documents=(Document(role="output", path="a.py", text=eval.id),))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnalysisStore]:
    store = open_store(tmp_path)
    yield store
    store.close()


def stored(store: AnalysisStore) -> list[Evidence | UnreadableEvidence]:
    """Return the stored evidence of all evals in run order."""
    return [item for eval in EVALS if (item := store.get_evidence("r1", eval.id)) is not None]


async def test_every_failure_is_stored_and_summarised_in_run_order(store: AnalysisStore) -> None:
    source, progress = Slow(), []
    summaries = await fetch_evidence(source, RUN, store, lambda done, total: progress.append((done, total)))
    assert [one.eval_id for one in summaries] == [eval.id for eval in EVALS]
    assert [one.eval.id for one in stored(store)] == [eval.id for eval in EVALS]
    assert progress == [(n, 40) for n in range(1, 41)]
    assert 1 < source.most <= FETCHES


async def test_unreadable_eval_is_stored_as_a_value(store: AnalysisStore) -> None:
    summaries = await fetch_evidence(Slow(), RUN, store)
    assert len(summaries) == len(EVALS)
    unread = [one for one in stored(store) if isinstance(one, UnreadableEvidence)]
    assert [(one.eval.id, one.reason) for one in unread] == [("e7", "corrupt zip")]


async def test_access_error_is_raised_and_ends_fetching(store: AnalysisStore) -> None:
    with pytest.raises(AccessError, match="refused"):
        await fetch_evidence(Slow(broken="e12"), RUN, store)
    assert 0 < len(stored(store)) < 40


async def test_run_without_failures_fetches_nothing(store: AnalysisStore) -> None:
    assert await fetch_evidence(Slow(), RUN.model_copy(update={"failures": ()}), store) == ()

"""Fetching: a few at a time, stored at once, nothing kept."""

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
    """The stored evidence of all evals, in the order of the run."""
    return [found for eval in EVALS if (found := store.get_evidence("r1", eval.id)) is not None]


async def test_every_failure_is_stored_and_summed_up_in_the_order_of_the_run(store: AnalysisStore) -> None:
    source, heard = Slow(), []
    found = await fetch_evidence(source, RUN, store, lambda done, total: heard.append((done, total)))
    assert [one.eval_id for one in found] == [eval.id for eval in EVALS]
    assert [one.eval.id for one in stored(store)] == [eval.id for eval in EVALS]
    assert heard == [(n, 40) for n in range(1, 41)]
    assert 1 < source.most <= FETCHES


async def test_one_unreadable_eval_is_a_value(store: AnalysisStore) -> None:
    found = await fetch_evidence(Slow(), RUN, store)
    assert len(found) == len(EVALS)
    unread = [one for one in stored(store) if isinstance(one, UnreadableEvidence)]
    assert [(one.eval.id, one.reason) for one in unread] == [("e7", "corrupt zip")]


async def test_what_concerns_all_is_raised_as_itself_and_ends_the_fetching(store: AnalysisStore) -> None:
    with pytest.raises(AccessError, match="refused"):
        await fetch_evidence(Slow(broken="e12"), RUN, store)
    assert 0 < len(stored(store)) < 40


async def test_a_run_without_failures_gathers_nothing(store: AnalysisStore) -> None:
    assert await fetch_evidence(Slow(), RUN.model_copy(update={"failures": ()}), store) == ()

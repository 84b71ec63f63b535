"""Import of runs from a source that names only failures."""

from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.collections.importing import import_source
from evalscribe.model.evidence import Evidence
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Eval, Run
from evalscribe.store.collections import open_collections
from evalscribe.store.records import open_collection_records

HERE = Collection(id="c", name="c")


def check_progress(_evals: int, progress: float) -> None:
    assert 0 <= progress <= 1


class Source:
    """A source with the given number of failures and two passed evals."""

    def __init__(self, failures: int) -> None:
        named = (Eval(id=f"e{n}", category="x", name=f"t{n}", status="failed") for n in range(failures))
        self._run = Run(id="r", provider="p", model="m", passed=2, failed=failures, total=2 + failures).model_copy(
            update={"failures": tuple(named)}
        )

    async def run(self) -> Run:
        return self._run

    async def evidence(self, eval: Eval) -> Evidence:
        return Evidence(eval=eval)

    async def close(self) -> None: ...


@pytest.mark.parametrize("failures", [0, 1, 9])
async def test_import_stores_a_run_with_any_number_of_failures(tmp_path: Path, failures: int) -> None:
    with (
        closing(open_collections(tmp_path)) as collection_store,
        closing(open_collection_records(tmp_path)) as run_store,
    ):
        collection_store.add_collection(HERE)
        imported = await import_source(run_store, None, Source(failures), HERE, check_progress)
        assert [run.id for run in run_store.runs(HERE.id)] == ["r"]
        assert len(run_store.graded("r")) == failures
    assert imported.statuses.get("failed", 0) == failures
    assert sum(imported.left_out.values()) == 2

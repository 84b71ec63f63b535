"""Import of randomly damaged real files of every format: it succeeds or raises an `EvalscribeError`."""

from contextlib import suppress
from pathlib import Path

import pytest

from evalscribe.errors import EvalscribeError
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, run_files
from support.mutations import DAMAGED, mutate_copy

SEEDS = 10


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("source", DAMAGED)
def test_damaged_file_is_read_or_raises_evalscribe_error(
    real_data: Path, tmp_path: Path, source: str, seed: int
) -> None:
    copy, damaged = mutate_copy(real_data / source, tmp_path, seed)
    for path in run_files(copy) if copy.is_dir() else [copy]:
        if path == damaged or path in damaged.parents:
            with suppress(EvalscribeError):
                for one in open_records(path, RunOverrides()).read():
                    assert one.model_dump_json()

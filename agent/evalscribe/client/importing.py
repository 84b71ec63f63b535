"""Import a file from a program."""

from typing import Any

from evalscribe.app.import_all import ImportedAll
from evalscribe.model.storage import AddedCounts


class Quiet:
    """Hears how it goes, and tells nobody."""

    def begins(self, _name: str) -> None: ...
    def imported(self, _evals: int, _progress: float) -> None: ...


def of_import(done: ImportedAll) -> dict[str, Any]:
    files = done.imports.values()
    left_out: dict[str, int] = {}
    for one in files:
        for what, times in one.left_out.items():
            left_out[what] = left_out.get(what, 0) + times
    return {
        "collection_id": done.collection.id,
        "run_ids": list(dict.fromkeys(run.id for one in files for run in one.runs)),
        **sum((one.added for one in files), AddedCounts()).model_dump(),
        "left_out": left_out,
        "stopped": [one.stopped for one in files if one.stopped],
    }

"""Import a file from a program."""

from typing import Any

from evalscribe.app.collections.import_all import ImportedAll, ImportPlan, import_all
from evalscribe.app.collections.importing import ImportDesk
from evalscribe.ports import Added
from evalscribe.settings import Settings
from evalscribe.wiring.importing import ImportChoice, Wish, collection_name, given
from evalscribe.wiring.requests import Room

__all__ = ["Wish", "imported"]


class _Quiet:
    """Hears how it goes, and tells nobody."""

    def begins(self, _name: str) -> None: ...
    def imported(self, _evals: int, _progress: float) -> None: ...


async def imported(
    found: Settings, room: Room, path: str, wish: Wish, collection: tuple[str | None, str | None]
) -> dict[str, Any]:
    """`collection`: its name and its id, where they are given."""
    name, id = collection
    plan = ImportPlan(name=name, collection_id=id, configured=found.collection.value, otherwise=collection_name(path))
    files = given(ImportChoice(paths=(path,), wish=wish), found)
    done = await import_all(ImportDesk(room.archive, room.shelf), files, plan, _Quiet())
    return _told(done)


def _told(done: ImportedAll) -> dict[str, Any]:
    files = done.imports.values()
    left_out: dict[str, int] = {}
    for one in files:
        for what, times in one.left_out.items():
            left_out[what] = left_out.get(what, 0) + times
    return {
        "collection_id": done.collection.id,
        "run_ids": list(dict.fromkeys(run.id for one in files for run in one.runs)),
        **sum((one.added for one in files), Added()).model_dump(),
        "left_out": left_out,
        "stopped": [one.stopped for one in files if one.stopped],
    }

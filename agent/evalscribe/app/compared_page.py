"""Put the page of a comparison where it belongs; what people edited stays as it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from evalscribe.errors import DataError
from evalscribe.ids import Frozen, content_id, model_folder, run_id_prefix
from evalscribe.ports import Library
from evalscribe.report_markdown.comparison import same_runs, untouched
from evalscribe.run import Run

BESIDE = ".evalscribe"
MOST_BESIDE = 20


class Put(Frozen):
    path: Path
    name: str
    """Below the reports folder."""
    state: Literal["new", "updated", "unchanged"]
    note: str | None = None
    """Why it is not where one would look for it."""


def put(library: Library, run: Run, of: Sequence[Sequence[str]], text: str) -> Put:
    """Write the page into the folder of `run`'s model. `of`: the ids of the runs of each side, which name the file."""
    stem = _stem(library, run, of, text)
    names = (f"{stem}.md", *(f"{stem}{f'-{n}' if n > 1 else ''}{BESIDE}.md" for n in range(1, MOST_BESIDE)))
    for number, name in enumerate(names):
        there = library.document(name)
        note = f"{names[0]} was edited and is left as it is; this comparison stands beside it" if number else None
        if there == text:
            return Put(path=library.root / name, name=name, state="unchanged", note=note)
        if there is None or untouched(there):
            path = library.write(name, text)
            return Put(path=path, name=name, state="updated" if there else "new", note=note)
    raise DataError(f"every name for this comparison is taken by pages that people edited: {names[0]} and so on")


def _stem(library: Library, run: Run, of: Sequence[Sequence[str]], text: str) -> str:
    """The short name, unless something else than a comparison of these runs has it."""
    folder = "/".join(model_folder(run.provider, run.model))
    short = f"{folder}/compare_{'_'.join(map(_short, of)) if len(of) < 3 else _digest(of)}"
    there = library.document(f"{short}.md")
    return short if there is None or same_runs(there, text) else f"{short}_{_digest(of)}"


def _short(runs: Sequence[str]) -> str:
    return run_id_prefix(runs[0]) if len(runs) == 1 else _digest([runs])


def _digest(of: Sequence[Sequence[str]]) -> str:
    return content_id([list(runs) for runs in of]).removeprefix("sha256:")[:8]

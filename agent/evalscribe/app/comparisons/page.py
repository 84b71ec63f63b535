"""Put the page of a comparison where it belongs."""

from collections.abc import Sequence
from functools import partial

from evalscribe.app.placed import Put, put
from evalscribe.collections.comparison_page import same_runs
from evalscribe.ids import choose_folder, content_id, run_id_prefix
from evalscribe.model.protocols import Library
from evalscribe.model.run import Run


def put_comparison(library: Library, run: Run, of: Sequence[Sequence[str]], text: str) -> Put:
    """Into the folder of `run`'s model. `of`: the ids of the runs of each side, which name the file."""
    reports = (file.name for file in library.of_model(run.provider, run.model))
    folder = choose_folder(run.provider, run.model, reports)
    short = f"{folder}/compare_{'_'.join(map(_short, of)) if len(of) < 3 else _digest(of)}"
    return put(library, "comparison", short, f"{short}_{_digest(of)}", text, partial(same_runs, text))


def _short(runs: Sequence[str]) -> str:
    return run_id_prefix(runs[0]) if len(runs) == 1 else _digest([runs])


def _digest(of: Sequence[Sequence[str]]) -> str:
    return content_id([list(runs) for runs in of]).removeprefix("sha256:")[:8]

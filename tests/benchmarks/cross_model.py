"""Measure the cost of comparing the runs of many models, and print the result of comparing the real runs.

    python tests/benchmarks/cross_model.py [RUNS FAILURES]          default: 20 runs of 10,000 failures

Generated runs are stored as sightings only. At every fifth eval, the models fail in four different ways; at the others,
they all fail in the same way. If EVALSCRIBE_REAL_DATA is set, the six real runs are analysed in a workspace that
contains the maintainers' reports.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalscribe.evidence.same_failure import compact_failure
from evalscribe.failures.prepare import RECORD_VERSION
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import content_id
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.run import Eval, Run
from evalscribe.reports.history import other_runs, stored_records
from evalscribe.reports.recurring import load_shared_failures
from evalscribe.store.analyses import AnalysisStore, open_store

DATES = {
    "jn7922j1": "2026-02-06",
    "jn72t14a": "2026-02-06",
    "jn7ajdrr": "2026-02-06",
    "jn76nmvg": "2026-02-11",
    "jn7062ch": "2026-02-26",
    "jn70vkj7": "2026-03-12",
}
LINES = re.compile(r"^- (?:Models:|Held|Did not hold|Not yet seen|Fails alike).*", re.MULTILINE)


def made(store: AnalysisStore, runs: int, failures: int) -> None:
    for number in range(runs):
        run_id, model = f"made{number:04d}xxxxxxxx", f"m-{number:02d}"
        evals = tuple(
            Eval(id=f"e{n}", category=f"c{n % 40}", name=f"{n:05d}", failed_step="tests") for n in range(failures)
        )
        run = Run(id=run_id, provider="p", model=model, passed=failures, failed=failures, total=2 * failures)
        store.put_run(run.model_copy(update={"failures": evals}))
        store.put_sightings(run_id, [_sighting(run, eval, n, number) for n, eval in enumerate(evals)])


def _sighting(run: Run, eval: Eval, n: int, number: int) -> FailureFingerprint:
    said = f"boom {number % 4}" if n % 5 == 0 else "not equal"
    return FailureFingerprint(
        run=run.id,
        provider=run.provider,
        model=run.model,
        experiment=run.experiment,
        eval=eval.path,
        eval_id=eval.id,
        step="tests",
        signature=f"tests: {n}: {said}",
        task=content_id(["task", n]),
        grader=content_id(["grader", n]),
        method=RECORD_VERSION,
    )


@contextmanager
def measured(what: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = f"{time.perf_counter() - wall:6.1f} s {time.process_time() - cpu:6.1f} s CPU"
    print(f"{what:<44} {seconds} {peak:6.0f} MB at most so far", flush=True)


def costs(folder: Path, runs: int, failures: int) -> None:
    store, library = open_store(folder / "store"), ReportsFolder(folder / "reports")
    with measured(f"put {runs} runs of {failures:,} failures"):
        made(store, runs, failures)
    run = store.get_run(store.run_ids()[0])
    assert run is not None
    with measured("what other runs say of one, as in analyze"):
        mine = stored_records(store, run)
        others = other_runs(store, run, mine)
        said = sum(others.across(compact_failure(one)) is not None for one in mine)
    print(f"  {said:,} failures are shared")
    with measured("recurring --across-models, without reports"):
        rows = load_shared_failures(library, store).rows
    print(f"  {len(rows):,} rows")
    store.close()


def named(data: Path, folder: Path) -> None:
    for name in DATES:
        told = json.loads((data / "convex-runs" / name / "gold.json").read_text())["report"]
        (folder / told).parent.mkdir(parents=True, exist_ok=True)
        (folder / told).write_text((data / "convex-runs" / name / "report.md").read_text())
    (folder / "evalscribe.toml").touch()
    for name, date in DATES.items():
        _command(folder, "analyze", str(data / "convex-runs" / name), "--judge", "rules", "--date", date, "--quiet")
    print(_command(folder, "recurring", "--across-models"))
    for path in sorted((folder / "reports").rglob("*.md")):
        lines = LINES.findall(path.read_text())
        print("\n".join([path.relative_to(folder).as_posix(), *lines]) if lines else "", end="\n" if lines else "")


def _command(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "evalscribe", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    runs, failures = map(int, sys.argv[1:3] or ("20", "10000"))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        costs(Path(one), runs, failures)
        if data := os.environ.get("EVALSCRIBE_REAL_DATA"):
            named(Path(data), Path(two))

"""Test a store with several processes at once. No data may be lost, and no process may find the store locked.

One process imports, one imports and is repeatedly killed and restarted, one stores the results of an analysis, one
reads, and one deletes data that nothing refers to.

    python tests/benchmarks/two_writers.py [SECONDS]        default: 60
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkProcess
from pathlib import Path

from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.finding import Verdict
from evalscribe.model.record import Record
from evalscribe.model.repository import StoredReport
from evalscribe.model.rubric import Collection
from evalscribe.model.run import Eval, Run
from evalscribe.model.transcript import Transcript, UserMessage
from evalscribe.store.analyses import open_store
from evalscribe.store.collections import open_collections
from evalscribe.store.records import open_collection_records

Stop = ctypes.c_bool
"""Shared flag without a lock. If a process were killed while it held a lock, the others would wait forever."""
COLLECTION = Collection(id="c", name="c")
BATCH = 50
VERDICT = Verdict(
    classification="MODEL_FAULT",
    cause="some-cause",
    cause_kind="model",
    confidence=0.75,
    error="TypeError",
    why="wrong",
    reasoning="It is wrong.",
    judge="scripted@1",
)
Place = Path | str
PATIENCE_S = 300
FORKED = multiprocessing.get_context("fork")
"""Processes are forked, so that libraries are imported only once. No database is open when they start."""


@dataclass(frozen=True)
class Told:
    """Numbers that the processes reported as stored, compared with the contents of the store."""

    batches: int
    analysed: int
    killed: int
    lost: int
    errors: tuple[str, ...]


def record(run_id: str, n: int) -> Record:
    return Record(
        run_id=run_id,
        eval=Eval(id=f"{run_id}-{n}", category="c", name=f"{n}", status="failed" if n % 3 else "passed"),
        metadata={"scores": {"reward": float(not n % 3)}},
        transcripts=(Transcript(id=f"{run_id}-{n}-t", messages=(UserMessage(content=f"{n} hello " * 40),)),),
        documents=(Document(role="task", path="t", text=f"task {n % 10} " * 20),),
    )


def importing(place: Place, run_id: str, stop: Stop, log: Path) -> None:
    """Import batches until stopped, and log a line for every stored batch."""
    run = Run(id=run_id, provider="example", model="m")
    with closing(open_collection_records(place)) as archive, log.open("a") as told:
        start = 0
        while not stop.value:
            archive.add("c", [run], [record(run_id, n) for n in range(start, start + BATCH)])
            start += BATCH
            _tell(told.fileno(), f"{start}\n")


def analysing(place: Place, run_id: str, stop: Stop, log: Path) -> None:
    with closing(open_store(place)) as store, log.open("a") as told:
        n = 0
        while not stop.value:
            eval = Eval(id=f"e{n}", category="c", name=f"{n}")
            store.put_run(Run(id=run_id, provider="p", model="m", failures=tuple(_listed(n)), total=n + 1))
            store.put_evidence(
                run_id, Evidence(eval=eval, documents=(Document(role="log", path="l", text=f"{n}" * 99),))
            )
            store.put_verdict(f"{run_id} {n}", VERDICT)
            store.put_report(run_id, StoredReport(path="p", text=f"{n}"))
            n += 1
            _tell(told.fileno(), f"{n}\n")


def reading(place: Place, stop: Stop, log: Path) -> None:
    with closing(open_collection_records(place)) as archive, closing(open_store(place)) as store:
        while not stop.value:
            for run in archive.runs("c"):
                if run.total % BATCH or run.passed + run.failed != run.total:
                    log.write_text(f"half a batch of {run.id}: {run!r}")
            [store.get_run(run_id) for run_id in store.run_ids()]


def sweeping(place: Place, stop: Stop) -> None:
    with closing(open_collection_records(place)) as archive:
        while not stop.value:
            archive.sweep(dry_run=False)
            archive.give_back()
            time.sleep(0.2)


def together(place: Place, folder: Path, seconds: float) -> Told:
    """Run all processes at once, and return the result. The time starts when all of them have started."""
    with closing(open_collections(place)) as shelf:
        shelf.add_collection(COLLECTION)
    stop = FORKED.RawValue(Stop, False)
    logs = {name: folder / name for name in ("steady", "analysed", "killed", "reader")}
    killed = 0
    with (
        _process(folder, importing, place, "steady", stop, logs["steady"]),
        _process(folder, analysing, place, "analysed", stop, logs["analysed"]),
        _process(folder, reading, place, stop, logs["reader"]),
        _process(folder, sweeping, place, stop),
    ):
        _wait_for(logs["steady"], 0)
        _wait_for(logs["analysed"], 0)
        until = time.time() + seconds
        while time.time() < until:
            with _process(folder, importing, place, "killed", stop, logs["killed"]) as victim:
                _wait_for(logs["killed"], killed)
                os.kill(victim.pid or 0, signal.SIGKILL)
                killed += 1
        stop.value = True
    return _told(place, folder, killed)


def _told(place: Place, folder: Path, killed: int) -> Told:
    errors = [path.read_text() for path in sorted(folder.glob("*.error")) if path.stat().st_size]
    errors += [path.read_text() for path in (folder / "reader",) if path.exists()]
    if errors:
        return Told(batches=0, analysed=0, killed=killed, lost=0, errors=tuple(errors))
    steady, broken, analysed = (_last(folder / name) for name in ("steady", "killed", "analysed"))
    lost = 0
    with closing(open_collection_records(place)) as archive, closing(open_store(place)) as store:
        for run_id, stored in (("steady", steady), ("killed", broken)):
            there = {one.eval.id for one in archive.records(run_id)}
            lost += sum(f"{run_id}-{n}" not in there for n in range(stored))
            (run,) = (run for run in archive.runs("c") if run.id == run_id)
            lost += abs(run.total - len(there)) + len(there) % BATCH
        for n in range(analysed):
            lost += store.get_verdict(f"analysed {n}") is None
        for eval in _listed(analysed - 1):
            lost += store.get_evidence("analysed", eval.id) is None
    return Told(batches=(steady + broken) // BATCH, analysed=analysed, killed=killed, lost=lost, errors=())


def _listed(n: int) -> Iterator[Eval]:
    """Yield the most recent failures. Nothing refers to the evidence of earlier ones."""
    return (Eval(id=f"e{m}", category="c", name=f"{m}") for m in range(max(0, n - 20), n + 1))


def _last(log: Path) -> int:
    """Return the largest number that a process logged as stored. The last line can be incomplete after a kill."""
    lines = log.read_text().split("\n")[:-1]
    return max(map(int, lines), default=0)


def _wait_for(log: Path, before: int) -> None:
    """Wait until the restarted process has stored some more batches and is writing the next one."""
    began = _size(log)
    until = time.time() + PATIENCE_S
    while _size(log) < began + 12 and time.time() < until:
        time.sleep(0.01)
    time.sleep(0.003 * (before % 7))


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _tell(descriptor: int, line: str) -> None:
    os.write(descriptor, line.encode())


@contextmanager
def _process(folder: Path, work: Callable[..., None], *given: object) -> Iterator[ForkProcess]:
    process = FORKED.Process(target=_logged, args=(folder, work, given))
    process.start()
    try:
        yield process
        process.join(PATIENCE_S)
        if process.is_alive():
            (folder / f"{work.__name__}-{process.pid}.error").write_text(f"did not end within {PATIENCE_S} s")
    finally:
        process.kill()
        process.join()


def _logged(folder: Path, work: Callable[..., None], given: tuple[object, ...]) -> None:
    with (folder / f"{work.__name__}-{os.getpid()}.error").open("w") as errors:
        try:
            work(*given)
        except Exception:
            traceback.print_exc(file=errors)


def main(seconds: float = 60) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        began = time.perf_counter()
        told = together(folder / "store", folder, seconds)
        print(f"{told.batches * BATCH} records, {told.analysed} analysed, {told.killed} killed, lost {told.lost}")
        print(f"{time.perf_counter() - began:.0f} s, errors: {[error[-600:] for error in told.errors] or 'none'}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))

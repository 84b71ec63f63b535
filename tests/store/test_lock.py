"""One process at a time works on a run, and its lock ends with the process."""

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.errors import UnavailableError
from evalscribe.store.analyses import AnalysisStore, open_store
from support.waiting import PATIENCE_S, wait_until

HOLDER = """
import sys, time
from pathlib import Path
from evalscribe.store.analyses import open_store
place = sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1])
with open_store(place).lock("run/../1"):
    print("held", flush=True)
    time.sleep(3600)
"""


def test_lock_error_names_the_holder_and_a_killed_holder_releases_it(store: AnalysisStore, place: Path | str) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        since = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
        with pytest.raises(UnavailableError, match=rf"process {holder.pid} (on \S+ )?{since}"), store.lock("run/../1"):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with store.lock("run/../1"):
        """Nobody holds it."""


def test_reading_the_holder_never_blocks_locking(store: AnalysisStore) -> None:
    looking = threading.Event()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            store.holder("r")
            looking.set()

    watchers = [threading.Thread(target=look) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    try:
        assert looking.wait(PATIENCE_S)
        for _ in range(300):
            with store.lock("r"):
                pass
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()
    assert store.holder("r") is None


def test_holder_is_described_until_its_process_ends(store: AnalysisStore, place: Path | str) -> None:
    assert store.holder("run/../1") is None
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        described = store.holder("run/../1")
        assert described
        assert described.startswith(f"process {holder.pid} ")
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    wait_until(lambda: store.holder("run/../1") is None, "the end of the process to be seen")


def test_lock_is_released_at_the_end_and_after_an_error(store: AnalysisStore) -> None:
    for _ in range(20):
        with pytest.raises(RuntimeError), store.lock("r"):
            raise RuntimeError
    with store.lock("r"):
        pass


def test_unreadable_lock_file_is_held_by_another_process(folder: Path) -> None:
    store, other = open_store(folder), open_store(folder)
    with store.lock("r"):
        lock = next(path for path in folder.glob("r-*.lock"))
        lock.write_text("\x1b[2J owned")
        with pytest.raises(UnavailableError, match="by another process"), other.lock("r"):
            pass
    store.close()
    other.close()


def test_different_runs_are_locked_independently(store: AnalysisStore) -> None:
    with store.lock("r1"), store.lock("r2"):
        pass
    with store.lock("a/b"), store.lock("a-b"):
        pass


def test_second_lock_in_the_same_process_is_refused(store: AnalysisStore, place: Path | str) -> None:
    other = open_store(place)
    with store.lock("r"), pytest.raises(UnavailableError, match=re.escape(f"process {os.getpid()} ")), other.lock("r"):
        pass
    other.close()


def test_hostile_run_id_locks_a_file_inside_the_store(folder: Path) -> None:
    with closing(open_store(folder)) as store, store.lock("../../etc/passwd\x00" + "x" * 4000):
        locks = [path for path in folder.iterdir() if path.suffix == ".lock" and "upgrade" not in path.name]
    assert len(locks) == 1

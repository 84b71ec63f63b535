"""What is put comes back, to every process, and nothing that was paid for is lost."""

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalscribe.model.repository import StoredReport
from evalscribe.store.analyses import AnalysisStore, open_store
from support.example_analyses import EVIDENCE, RUN, VERDICT
from support.machine_speed import slowness


def test_everything_comes_back_to_another_process(store: AnalysisStore, place: Path | str) -> None:
    store.put_run(RUN)
    store.put_evidence(RUN.id, EVIDENCE)
    store.put_verdict("k", VERDICT)
    store.put_report(RUN.id, StoredReport(path="a/b.md", text="# é\r\n"))
    other: AnalysisStore = open_store(place)
    assert other.get_run(RUN.id) == RUN
    assert other.get_evidence(RUN.id, "e1") == EVIDENCE
    assert other.get_verdict("k") == VERDICT
    assert other.get_report(RUN.id) == StoredReport(path="a/b.md", text="# é\r\n")
    other.close()


WRITER = """
import sys
from pathlib import Path
from evalscribe.model.run import Run
from evalscribe.store.analyses import open_store
store = open_store(sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1]))
for n in range(50):
    store.put_run(Run(id=f"{sys.argv[2]} {n}", provider="p", model="m"))
store.close()
"""


@pytest.mark.parametrize("place", ["file", "server"])
def test_many_processes_open_and_write_at_once(place: str, request: pytest.FixtureRequest, folder: Path) -> None:
    """All four find no database, or none with tables in it, and want to make it."""
    where = request.getfixturevalue("postgres_url") if place == "server" else folder
    commands = [[sys.executable, "-c", WRITER, str(where), str(n)] for n in range(4)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * 4
    store = open_store(where)
    assert len(store.run_ids()) == 200
    store.close()


def test_the_folder_is_private_and_out_of_git(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    open_store(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / ".gitignore").read_text() == "*\n"


def test_a_folder_with_a_percent_sign_and_a_question_mark(tmp_path: Path) -> None:
    odd = tmp_path / "50%(x)s ? #1" / ".evalscribe"
    open_store(odd).close()
    assert (odd / "store.db").is_file()


SCALE = """
import resource, sys, time
from pathlib import Path
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.run import Eval
from evalscribe.store.analyses import open_store
store, text = open_store(Path(sys.argv[1])), "".join(f"line {n * n % 977}\\n" for n in range(1500))
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
for n in range(3_000):
    document = Document(role="output", path="a", text=f"{n}{text}")
    store.put_evidence("r", Evidence(eval=Eval(id=str(n), category="c", name=str(n)), documents=(document,)))
print(time.process_time() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
store.close()
"""


@pytest.mark.benchmark
def test_thousands_of_evidences_are_quick_and_small(folder: Path) -> None:
    """15 kB each, as in the real runs: seconds of CPU, MB of memory beyond the imports, MB on disk."""
    done = subprocess.run([sys.executable, "-c", SCALE, str(folder)], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 5 * slowness(time.process_time)
    assert megabytes < 20
    assert (folder / "store.db").stat().st_size < 18 * 2**20

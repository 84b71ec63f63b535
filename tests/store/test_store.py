"""What is put comes back, to every process, and nothing that was paid for is lost."""

import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from evalscribe.chat import Usage
from evalscribe.evidence import Citation, Document, Evidence, Unreadable
from evalscribe.finding import Unclassified, Verdict
from evalscribe.ports import Store, StoredReport
from evalscribe.run import Eval, Run, Step
from evalscribe.store.sql import SqlStore, open_store

EVAL = Eval(id="e1", category="basics", name="001", failed_step="tests", reason="Tests failed", url="https://x.example")
EVIDENCE = Evidence(
    eval=EVAL,
    steps=(Step(name="tests", status="failed", error="x\x00y"),),
    documents=(Document(role="output", path="../../etc/passwd\x07", text="zeile\r\n\u2028 ünï \U0001f600" * 50),),
    missing=("log",),
)
RUN = Run(id="../r1 '; drop table runs", provider="example", model="m", failures=(EVAL,), evals=("a/b",), failed=1)
USAGE = Usage(calls=1, input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, cost_usd=0.25)
VERDICT = Verdict(
    classification="MODEL_FAULT",
    cause="some-cause",
    cause_kind="model",
    confidence=0.75,
    error="TypeError",
    why="wrong",
    reasoning="It is wrong.",
    judge="scripted@1",
    citations=(Citation(role="log", path="run.log", first=1, last=2, text="a\nb", status="verified"),),
    usage=USAGE,
)
ANOTHER = VERDICT.model_copy(update={"why": "new"})
BUSY = Unclassified(reason="overloaded", judge="scripted@1")
REFUSED = Unclassified(reason="refused", judge="scripted@1", final=True)


def test_everything_comes_back_to_another_process(store: SqlStore, folder: Path) -> None:
    store.put_run(RUN)
    store.put_evidence(RUN.id, EVIDENCE)
    store.put_verdict("k", VERDICT)
    store.add_spend(RUN.id, USAGE)
    store.put_report(RUN.id, StoredReport(path="a/b.md", text="# é\r\n"))
    other: Store = open_store(folder)
    assert other.get_run(RUN.id) == RUN
    assert other.get_evidence(RUN.id, "e1") == EVIDENCE
    assert other.get_verdict("k") == VERDICT
    assert other.spend(RUN.id) == USAGE
    assert other.get_report(RUN.id) == StoredReport(path="a/b.md", text="# é\r\n")
    other.close()


def test_what_was_never_put_is_none(store: SqlStore) -> None:
    assert store.get_run("r") is None
    assert store.get_evidence("r", "e") is None
    assert store.get_verdict("k") is None
    assert store.get_report("r") is None
    assert store.spend("r") == Usage()


def test_the_newest_is_kept(store: SqlStore) -> None:
    store.put_evidence("r", Unreadable(eval=EVAL, reason="corrupt zip"))
    assert store.get_evidence("r", "e1") == Unreadable(eval=EVAL, reason="corrupt zip")
    store.put_evidence("r", EVIDENCE)
    assert store.get_evidence("r", "e1") == EVIDENCE
    store.put_run(RUN)
    store.put_run(RUN.model_copy(update={"passed": 7}))
    newest = store.get_run(RUN.id)
    assert newest is not None
    assert newest.passed == 7


def test_evidence_of_two_runs_is_apart(store: SqlStore) -> None:
    store.put_evidence("r1", EVIDENCE)
    assert store.get_evidence("r2", "e1") is None


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        pytest.param(VERDICT, BUSY, VERDICT, id="a paid verdict survives a failed second asking"),
        pytest.param(VERDICT, REFUSED, VERDICT, id="and a refusal"),
        pytest.param(BUSY, VERDICT, VERDICT, id="a verdict replaces a reason"),
        pytest.param(BUSY, REFUSED, REFUSED, id="a newer reason replaces an older"),
        pytest.param(VERDICT, ANOTHER, ANOTHER, id="fresh"),
    ],
)
def test_verdicts_are_never_lost(
    store: SqlStore, first: Verdict | Unclassified, then: Verdict | Unclassified, kept: Verdict | Unclassified
) -> None:
    store.put_verdict("k", first)
    store.put_verdict("k", then)
    assert store.get_verdict("k") == kept


def test_spend_adds_up_over_threads(store: SqlStore) -> None:
    def add() -> None:
        for _ in range(25):
            store.add_spend("r", USAGE)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.spend("r") == Usage(
        calls=100, input_tokens=1000, output_tokens=500, cache_read_tokens=300, cache_write_tokens=200, cost_usd=25.0
    )


WRITER = """
import sys
from pathlib import Path
from evalscribe.chat import Usage
from evalscribe.store.sql import open_store
store = open_store(Path(sys.argv[1]))
for _ in range(50):
    store.add_spend("r", Usage(calls=1))
store.close()
"""


def test_many_processes_open_and_write_at_once(folder: Path) -> None:
    """All four find no database and want to make it."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stderr=subprocess.PIPE) for _ in range(4)]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * 4
    store = open_store(folder)
    assert store.spend("r").calls == 200
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

"""A process that is killed between writing the data and writing the page leaves a pair that the next one can read."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

KILLED = """
import os, runpy, signal, sys
from evalscribe.git.report_folder import ReportsFolder

write = ReportsFolder.write

def stop(folder, name, text):
    if name.endswith("11-02.md"):
        os.kill(os.getpid(), signal.SIGKILL)
    return write(folder, name, text)

ReportsFolder.write = stop
sys.argv = ["evalscribe", *sys.argv[1:]]
runpy.run_module("evalscribe", run_name="__main__")
"""
ANALYZE = ("analyze", "sample", "--judge", "rules", "--quiet", "--json")


def run(folder: Path, *start: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *start, *ANALYZE], cwd=folder, env=os.environ, capture_output=True)


def test_killed_write_is_completed_by_the_next_analysis(tmp_path: Path) -> None:
    first = run(tmp_path, "-m", "evalscribe")
    assert first.returncode == 0, first.stderr
    page = Path(json.loads(first.stdout)["report_path"])
    page = page.rename(page.with_name("smp7q2ka_2026-11-02.md"))
    data = page.with_suffix(".json")
    next(page.parent.glob("smp7q2ka_*.json")).rename(data)
    edited = page.read_text("utf-8").replace("**MODEL_FAULT**", "**KNOWN_GAP**", 1)
    edited = edited.replace("\n## Patterns", "\nA remark of mine.\n\n## Patterns").replace("\nNone.", "\n- R1: done")
    page.write_text(edited, "utf-8")

    assert run(tmp_path, "-c", KILLED).returncode == -signal.SIGKILL
    assert page.read_text("utf-8") == edited
    assert json.loads(data.read_text("utf-8"))["revision"] == 2

    after = run(tmp_path, "-m", "evalscribe")
    assert after.returncode == 0, after.stderr
    document = json.loads(after.stdout)
    assert document["findings"][0]["classification"] == "KNOWN_GAP"
    text = page.read_text("utf-8")
    assert text.count("A remark of mine.") == 1
    assert "## Actions taken\n- R1: done\n" in text
    assert json.loads(data.read_text("utf-8"))["actions_text"] == "- R1: done"
    last = run(tmp_path, "-m", "evalscribe")
    assert (json.loads(last.stdout)["changed"], page.read_text("utf-8")) == (False, text)

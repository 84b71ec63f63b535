"""Failures of a run are replayed: what is proved, what is kept, and what is refused."""

import json
import os
import shutil
import signal
import sqlite3
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from support import tiny_suite
from support.command import InProcessCommand, Workspace
from support.fork_server import Process
from support.requirements import skip_or_fail
from support.tiny_suite import EVALS, PROVED, TinyEval
from support.waiting import PATIENCE_S, wait_until


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    if shutil.which("bwrap") is None:
        skip_or_fail("bubblewrap")


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcessCommand:
    return InProcessCommand(tmp_path, monkeypatch, capsys)


def stored_logs(folder: Path) -> dict[tuple[str, int], bytes]:
    with closing(sqlite3.connect(folder / ".evalscribe" / "store.db")) as raw:
        return {(key, attempt): body for key, attempt, body in raw.execute("SELECT key, attempt, body FROM replays")}


def outcomes(proved: str) -> dict[str, str]:
    return {one["eval"]: one["outcome"] for one in json.loads(proved)["proofs"]}


def test_each_kind_of_failure_is_told_apart(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    assert outcomes(inside.run("prove", "run", "--json").out) == PROVED
    told = inside.run("prove", "run").out
    assert "Proved: the reference answer fails, too:\n  sums/001-broken: " in told
    assert "reference failed 3 of 3 times" in told
    assert "There is no report on this run yet: `evalscribe analyze run` writes one, with these proofs." in told


def test_a_run_without_failures_is_no_error(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder, {"sums/004-gone": EVALS["sums/004-gone"]})
    summary = inside.folder / "run" / "failed_evals.json"
    whole = json.loads(summary.read_text())
    summary.write_text(json.dumps({**whole, "passedCount": 1, "failedCount": 0, "failedEvals": []}))
    assert outcomes(inside.run("prove", "run", "--json").out) == {}


def test_only_the_named_evals_are_replayed(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    assert outcomes(inside.run("prove", "run", "002-fair", "--json").out) == {"sums/002-fair": "reproduced"}
    assert "has no failed eval 'nothing'" in inside.run("prove", "run", "nothing", code=66).err


def test_a_report_gets_the_proofs_and_keeps_what_people_wrote(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    inside.run("analyze", "run", "--judge", "rules", "--date", "2026-11-20")
    (page,) = inside.folder.glob("reports/tiny/*/*.md")
    before = page.read_text()
    assert "by replay" not in before
    inside.run("review", "label", page.name, "2", "AMBIGUOUS_TASK", "--note", "the sum was never said")
    told = inside.run("prove", page).out
    assert "Label changed: sums/001-broken: MODEL_FAULT -> OVERLY_STRICT" in told
    assert "sums/002-fair: AMBIGUOUS_TASK ->" not in told, "a person's label stays"
    assert f"Report: {page} (updated)" in told
    text = page.read_text()
    assert "3 proved by replay" in text
    assert "**OVERLY_STRICT**" in text
    assert "Reviewer: the sum was never said" in text
    assert "**AMBIGUOUS_TASK**" in text
    assert "judge said MODEL_FAULT" in text
    assert "the rules said MODEL_FAULT" in text
    assert (
        "- Replay: reference failed 3 of 3 times (`sh /suite/sums/001-broken/test.sh 1`, exit code 1); "
        "log: `proofs[0].replays[0].log`, quoted as `replay-reference-1.log`.\n"
    ) in text
    assert (
        "- Replay: reference passed 3 of 3 times; output failed 3 of 3 times (`sh /suite/sums/002-fair/test.sh 1`"
        in text
    )
    assert "- Replay: inconclusive, " in text
    assert "Replays: 3 proved not the model's (" in text
    data = json.loads(page.with_suffix(".json").read_text())
    assert {one["eval"]: one["outcome"] for one in data["proofs"]} == PROVED
    first = data["proofs"][0]["replays"][0]
    assert (first["answer"], first["times"], first["exit_code"]) == ("reference", 3, 1)
    assert first["log"] == "Error: wants 5, got 4\n"
    assert "0 with problems" in inside.run("reports", "check").out
    assert f"Report: {page} (unchanged)" in inside.run("prove", "run").out
    inside.run("analyze", "run", "--judge", "rules")
    assert page.read_text() == text, "another analysis uses what was proved"
    listed = inside.run("recurring", "--all").out
    assert "sums/001-broken: once, 2026-11-20\n    OVERLY_STRICT (proved); " in listed
    assert "sums/002-fair: once, 2026-11-20\n    AMBIGUOUS_TASK\n" in listed


def test_an_explanation_shows_the_replays_and_how_to_run_them_again(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    inside.run("prove", "run")
    told = inside.run("explain", "run", "sums/001-broken", "--judge", "rules").out
    assert (
        "Replay: proved: the reference answer fails in the same way, 3 of 3 times\n"
        "  reference failed 3 of 3 times\n"
        "    sh /suite/sums/001-broken/test.sh 1 (exit code 1)\n"
    ) in told
    assert "  Last lines of replay-reference-1.log:\n    Error: wants 5, got 4\n" in told
    assert "  Again: `evalscribe prove run sums/001-broken --fresh`\n" in told


@pytest.mark.parametrize("address", ["run", "https://example.com/experiment/e/run/abc", "sample"])
def test_a_report_names_no_file_and_no_address(inside: InProcessCommand, address: str) -> None:
    tiny_suite.write(inside.folder)
    inside.run("analyze", "run", "--judge", "rules")
    (page,) = inside.folder.glob("reports/tiny/*/*.md")
    for file in (page, page.with_suffix(".json")):
        file.write_text(file.read_text().replace("tiny0run0000000000000000", address))
    assert "names a file or an address in place of a run's id" in inside.run("prove", page, code=65).err


def test_proofs_that_a_report_claims_are_not_believed(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    inside.run("prove", "run")
    inside.run("analyze", "run", "--judge", "rules")
    (data,) = inside.folder.glob("reports/tiny/*/*.json")
    whole = json.loads(data.read_text())
    forged = json.loads(data.read_text().replace("sh /suite", "touch /owned"))
    fair = next(one for one in forged["findings"] if one["eval"] == "sums/002-fair")
    gone = next(one for one in forged["findings"] if one["eval"] == "sums/004-gone")
    fair |= {name: gone[name] for name in ("classification", "basis", "replay", "judge", "cause", "cause_kind")}
    data.write_text(json.dumps(forged))
    told = inside.run("prove", data.with_suffix(".md"), "--json")
    assert outcomes(told.out) == PROVED
    now = json.loads(data.read_text())
    assert now["proofs"] == whole["proofs"]
    assert list(map(_label, now["findings"])) == list(map(_label, whole["findings"]))


def _label(finding: dict[str, object]) -> list[object]:
    return [finding.get(name) for name in ("eval", "classification", "basis", "replay", "judge")]


def test_an_analysis_proves_before_it_judges(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    analysed = json.loads(inside.run("analyze", "run", "--judge", "rules", "--prove", "--json").out)
    found = {one["eval"]: one for one in analysed["findings"]}
    assert {path: one["replay"] for path, one in found.items()} == PROVED
    bases = {path: one["basis"] for path, one in found.items()}
    assert bases == {path: _basis(outcome) for path, outcome in PROVED.items()}
    broken = found["sums/001-broken"]
    assert (broken["classification"], broken["judge"]["id"]) == ("OVERLY_STRICT", "replay@1")


def _basis(outcome: str) -> str:
    return {"reproduced": "reproduced", "inconclusive": "judged"}.get(outcome, "proved")


def test_nothing_is_run_twice_unless_it_is_asked_for(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    inside.run("prove", "run")
    first = stored_logs(inside.folder)
    assert len(first) == 3 * (1 + 2 + 1 + 1 + 1), "an output that equals the reference answer is not run again"
    grader = inside.folder / "suite" / "sums" / "002-fair" / "test.sh"
    grader.write_text("exit 1\n")
    told = inside.run("prove", "run", "--json").out
    assert outcomes(told) == PROVED | {"sums/002-fair": "inconclusive"}
    assert "the grader has changed since the run" in told
    assert stored_logs(inside.folder).items() >= first.items()
    grader.write_text(EVALS["sums/002-fair"].grader)
    assert outcomes(inside.run("prove", "run", "--fresh", "--json").out) == PROVED


def test_what_is_missing_is_said(inside: InProcessCommand) -> None:
    tiny_suite.write(inside.folder)
    config = inside.folder / "evalscribe.toml"
    config.write_text("")
    refused = inside.run("prove", "run", code=64).err
    assert "no grader is known for the evals of run tiny0run0000000000000000" in refused
    assert "`[replay]` of evalscribe.toml" in refused
    config.write_text('[replay]\ncommand = "sh {nowhere}"\nsuite = "suite"\n')
    assert "{nowhere}, which is not a field; the fields are {eval}, {suite}" in inside.run("prove", "run", code=64).err
    config.write_text('[replay]\ncommand = "sh"\nsuite = "away"\n')
    assert "the folder away of `[replay] suite` does not exist" in inside.run("prove", "run", code=66).err
    config.write_text('[replay]\ncommand = "cat {suite}/id_rsa"\nsuite = "../.ssh"\n')
    assert "the folder ../.ssh of `[replay] suite` is outside" in inside.run("prove", "run", code=64).err
    config.write_text('[replay]\ncommand = "no-such-program"\nsuite = "suite"\n')
    told = inside.run("prove", "run", code=69).out
    assert "sums/005-other: not started: " in told
    assert "no-such-program" in told
    assert stored_logs(inside.folder) == {}, "what could not be started is not kept"
    config.write_text('[replay]\ncommand = "sh {suite}/grade.sh"\nsuite = "suite"\n')
    assert "the suite has no grade.sh, which `[replay] command` names" in inside.run("prove", "run", code=69).out
    config.write_text(tiny_suite.CONFIG + 'reference = "{eval}/model"\n')
    told = inside.run("prove", "run", "002-fair").out
    assert "the output fails again, 3 of 3 times; the reference was not run: the suite has no" in told


def test_without_bubblewrap_nothing_runs(inside: InProcessCommand, tmp_path: Path) -> None:
    tiny_suite.write(inside.folder)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "git"):  # without rm, too
        os.symlink(str(shutil.which(name)), programs / name)
    refused = Workspace(inside.folder).run("prove", "run", code=69, PATH=str(programs)).err
    assert "bubblewrap cannot create a sandbox here, and untrusted code is not run without one" in refused
    assert "Install bubblewrap, util-linux and coreutils, or name a command" in refused
    assert "--replay-command" in refused


def test_hostile_outputs_and_names_stay_inside(inside: InProcessCommand) -> None:
    outside = inside.folder / "outside.txt"
    outside.write_text("as it was")
    runs_the_output = "timeout 5 sh ./answer.txt; [ $? = 0 ]\n"
    attack = f"echo '\x1b]0;owned\x07::error::x'; echo gone > {outside}; cat {Path.home()}/.ssh/* /etc/shadow; exit 3\n"
    hostile = TinyEval("exit 0\n", attack, runs_the_output, "Error: exit 3")
    tiny_suite.write(inside.folder, {"sums/001-attack": hostile, "sums/..": EVALS["sums/002-fair"]})
    told = inside.run("prove", "run", "--json")
    assert outside.read_text() == "as it was"
    assert "\x1b" not in told.out + told.err
    proof = json.loads(told.out)["proofs"][0]
    (log,) = {one["log"] for one in proof["replays"] if one["answer"] == "output"}
    assert "No such file or directory" in log
    assert "]0;owned::error::x" in log


def test_killed_at_any_moment_it_goes_on(tmp_path: Path) -> None:
    """Twenty kills, each after another replay was stored: nothing is lost or run twice, and no process is left."""
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    grader = f'echo "Error: $(cat /proc/sys/kernel/random/uuid) {mark}"; exit 1\n'
    evals = {f"sums/{n:03d}": TinyEval("4", "3", f"# {n}\n{grader}", "Error: other") for n in range(9)}
    tiny_suite.write(tmp_path, evals)
    workspace = Workspace(tmp_path)
    known: dict[tuple[str, int], bytes] = {}
    killed = []
    for kill in range(20):
        process = workspace.start("prove", "run", "--concurrency", "1")
        wait_until(partial(_went_on, process, tmp_path, kill), "another replay")
        killed.append(process.pid)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not _running(mark), "the sandbox ends with its parent")
        now = _logs_so_far(tmp_path)
        assert now.items() >= known.items(), "what was stored is neither lost nor run again"
        known = now
    workspace.run("prove", "run")
    done = stored_logs(tmp_path)
    assert len(done) == 3 * len(evals)
    assert done.items() >= known.items()
    assert not [path for pid in killed for path in Path(tempfile.gettempdir()).glob(f"evalscribe-replay-{pid}-*")]


def _went_on(process: Process, folder: Path, stored: int) -> bool:
    return process.poll() is not None or len(_logs_so_far(folder)) > stored


def _logs_so_far(folder: Path) -> dict[tuple[str, int], bytes]:
    try:
        return stored_logs(folder)
    except sqlite3.OperationalError:
        return {}


def _running(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False

"""Hostile names, ids and payloads of runs: every failure is reported, nothing is written outside the reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.sources.address import Links
from evalscribe.sources.convex_payload import decode_run
from evalscribe.sources.snapshot import open_snapshot
from evalscribe.text import path as printed
from support.hostile_runs import Command, analyze_snapshot, failed, payload, snapshot, summary
from support.machine_speed import cpu_below
from support.report_pages import report_at

ESCAPES = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e"
ACTIVE = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) @octocat `$(touch pwned)`"
NAMES = (
    (ESCAPES + ACTIVE, ESCAPES + ACTIVE),
    ("..", ".."),
    ("../../..", "etc/passwd"),
    (".git", "config"),
    ("", "CON"),
    ("x" * 10_000, "y" * 10_000),
    ("ünï", "日本"),
    ("a/b", "c"),
    ("a", "b/c"),
    ("a ", "b"),
    ("a", "b"),
    ("a", "b"),
    ("a", "b#1"),
    ("-x", "--help"),
    ("a", "#1"),
    ("|", "|"),
    ("`", "```"),
)


def test_hostile_eval_names_get_unique_paths(tmp_path: Path, command: Command) -> None:
    payloads = {f"e{n}": payload(failed(f"e{n}", *name)) for n, name in enumerate(NAMES)}
    run = snapshot(tmp_path / "run", payloads, provider="../../..", model="../../.git/hooks/x", experiment=ESCAPES)
    document, _ = analyze_snapshot(command, tmp_path, run)
    paths = [finding["eval"] for finding in document["findings"]]
    assert len(set(paths)) == len(paths) == len(NAMES)
    assert {path for entry in report_at(Path(document["report_path"])).entries for path in entry.paths} == set(paths)
    assert Path(document["report_path"]).resolve().is_relative_to(tmp_path / "reports")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.benchmark
def test_ten_thousand_evals_of_one_name_get_unique_paths_quickly() -> None:
    names = [f"x#{n}" for n in range(5_000)] + ["x"] * 5_000
    with cpu_below(5):
        run = decode_run(summary([failed(f"e{n}", name=name) for n, name in enumerate(names)]), Links())
    assert len({printed(eval.path) for eval in run.failures}) == 10_000


@pytest.mark.parametrize("depth", [90, 500, 700, 900, 200_000])
async def test_deeply_nested_payload_makes_only_its_own_eval_unreadable(depth: int, tmp_path: Path) -> None:
    run = snapshot(tmp_path / "run", {name: payload(failed(name, name=name)) for name in ("e1", "e2")})
    (run / "debug" / "e1.json").write_text('{"eval": {}, "x": ' + "[" * depth + "]" * depth + "}")
    source = open_snapshot(run, Links())
    evidence = [await source.evidence(eval) for eval in (await source.run()).failures]
    assert isinstance(evidence[0], Evidence if depth == 90 else UnreadableEvidence)
    assert isinstance(evidence[1], Evidence)


ODD: dict[str, Any] = {
    "no members": {},
    "a list": [],
    "null": None,
    "files as a list": payload(failed("e1"), outputFiles=["a"], evalSourceFiles=[]),
    "numbers as files": payload(failed("e1"), outputFiles={"a": 1e308, "b": -1, "c": {"d": []}}),
    "files named as paths": payload(
        failed("e1"),
        outputFiles={"../../etc/passwd": "root", "/etc/shadow": "x", "a\x00\x1b[2Jb": "y", "n" * 4096: "z"},
    ),
    "lone surrogates": payload(failed("e1"), outputFiles={"\ud800": "\udfff" * 10}),
    "steps as text": payload(failed("e1"), steps="tests"),
    "many files": payload(failed("e1"), outputFiles={f"d/{n}.py": f"x = {n}\n" for n in range(10_000)}),
}


def test_odd_payloads_do_not_affect_another_eval(tmp_path: Path, command: Command) -> None:
    payloads = {f"e{n}": payload(failed(f"e{n}", name=f"odd-{n}")) for n in range(len(ODD))}
    run = snapshot(tmp_path / "run", {**payloads, "good": payload(failed("good", name="good"))})
    for n, content in enumerate(ODD.values()):
        (run / "debug" / f"e{n}.json").write_text(json.dumps(content))
    (run / "debug" / "e0.json").write_text('{"eval": {}, "eval": {"task": ' + "9" * 5000 + "}}")
    document, text = analyze_snapshot(command, tmp_path, run)
    assert len(document["findings"]) == len(ODD) + 1
    assert document["findings"][-1]["classification"] == "MODEL_FAULT"
    assert "\x1b" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [".evalscribe", "reports", "run"]


@pytest.mark.parametrize(
    "content",
    [
        '{"run": {"_id": 1}}',
        '{"run": {"_id": "a", "model": "m"}, "failedEvals": [], "passedCount": NaN}',
        '{"run": {"_id": "a", "model": "m"}, "failedEvals": [], "passedCount": 1e999}',
        '{"run": {"_id": "a", "model": "m"}, "failedEvals": [], "passedCount": ' + "9" * 5000 + "}",
        '{"x": ' + "[" * 700 + "]" * 700 + "}",
        '{"run": {"_id": "\\u001b[2J", "model": "m"}, "failedEvals": []}',
    ],
    ids=["id", "nan", "infinite", "huge", "nested", "control"],
)
def test_hostile_summary_exits_with_65_and_no_report(content: str, tmp_path: Path, command: Command) -> None:
    run = snapshot(tmp_path / "run")
    (run / "failed_evals.json").write_text(content)
    done = command(tmp_path, "analyze", str(run), "--judge", "rules")
    assert (done.returncode, done.stdout) == (65, b"")
    assert done.stderr.count(b"\n") <= 3
    assert not (tmp_path / "reports").exists()

"""Fetching a deployment's run into files: the same findings, and no key in any file or output."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from support import run_snapshots
from support.command import Workspace, end
from support.convex_server import Answer, Deployment, success
from support.waiting import PATIENCE_S, wait_until

DEPLOY_KEY = "prod:fabulous-panther-525|" + "eyJ2MiI6ImRlcGxveSJ9" * 2
ANTHROPIC_KEY = "sk-ant-api03-" + "Zq9XwV8uT7sR6pQ5" * 6 + "-AA"
PAGE = f"https://evals.example/experiment/default/run/{run_snapshots.RUN_ID}"
COUNT = 6


@pytest.fixture
def served(deployment: Deployment) -> Deployment:
    """A deployment that serves a run whose model and log leaked a key."""

    def answer(path: str, args: dict[str, Any]) -> Answer:
        if path == "/api/query":
            return success(run_snapshots.summary(COUNT))
        n = next(n for n in range(COUNT) if run_snapshots.eval_id(n) == args["evalId"])
        payload = run_snapshots.payload(n)
        payload["outputFiles"]["convex/client.ts"] = f'const client = new Client("{ANTHROPIC_KEY}");\n'
        payload["outputFiles"]["run.log"] += f"[deploy] ANTHROPIC_API_KEY={ANTHROPIC_KEY}\n"
        payload["evalSourceFiles"][f"answer/{ANTHROPIC_KEY}.ts"] = f"// {ANTHROPIC_KEY}\n"
        payload["steps"][-1]["status"]["failureReason"] = f"failed with {ANTHROPIC_KEY}"
        return success(payload)

    deployment.answer = answer
    return deployment


def findings(document: str) -> list[dict[str, Any]]:
    """Findings without `url`, which only a run given by URL has."""
    return [{k: v for k, v in finding.items() if k != "url"} for finding in json.loads(document)["findings"]]


def test_fetched_snapshot_gives_the_same_findings_as_the_deployment(workspace: Workspace, served: Deployment) -> None:
    where = ("--deployment", served.url)
    direct = workspace.run("analyze", PAGE, "--judge", "rules", "--json", *where, CONVEX_DEPLOY_KEY=DEPLOY_KEY).out
    fetched = workspace.run("fetch", PAGE, "-o", "kept/run", *where, CONVEX_DEPLOY_KEY=DEPLOY_KEY)
    assert fetched.out == f"{COUNT} failed evals of run {run_snapshots.RUN_ID} are in kept/run\n"
    served.close()
    offline = workspace.run("analyze", "kept/run", "--judge", "rules", "--json", "--reports", "other/reports").out
    assert findings(direct) == findings(offline)
    assert json.loads(direct)["findings"][0]["url"].startswith("https://evals.example/experiment/default/run/")
    assert served.requests
    assert {key for _, key, _ in served.requests} == {f"Convex {DEPLOY_KEY}"}


def test_no_key_reaches_output_or_files(workspace: Workspace, served: Deployment) -> None:
    where = ("--deployment", served.url)
    seen = [
        workspace.run("fetch", PAGE, "-o", "kept", *where, CONVEX_DEPLOY_KEY=DEPLOY_KEY),
        workspace.run("analyze", "kept", "--judge", "rules"),
        workspace.run("analyze", PAGE, "--judge", "rules", "--fresh", *where, CONVEX_DEPLOY_KEY=DEPLOY_KEY),
        workspace.run("explain", "kept", run_snapshots.eval_path(1), "--judge", "rules"),
        workspace.run("doctor", *where, code=69, CONVEX_DEPLOY_KEY=DEPLOY_KEY, ANTHROPIC_API_KEY=ANTHROPIC_KEY,
                      ANTHROPIC_BASE_URL="http://127.0.0.1:9"),
    ]  # fmt: skip
    for secret in (ANTHROPIC_KEY, DEPLOY_KEY.partition("|")[2], "Zq9XwV8uT7sR6pQ5"):
        assert workspace.holding(secret) == []
        assert not any(secret in ended.out + ended.err for ended in seen)
    assert any("redacted" in path.read_text() for path in (workspace.folder / "kept" / "debug").iterdir())


def test_no_key_reaches_files_when_the_process_is_killed(workspace: Workspace, served: Deployment) -> None:
    usual, over = served.answer, threading.Event()

    def late(path: str, args: dict[str, Any]) -> Answer:
        if path == "/api/action" and args["evalId"] == run_snapshots.eval_id(COUNT - 1):
            over.wait(PATIENCE_S)
        return usual(path, args)

    served.answer = late
    process = workspace.start(
        "analyze", PAGE, "--judge", "rules", "--deployment", served.url, CONVEX_DEPLOY_KEY=DEPLOY_KEY
    )
    wait_until(lambda: (workspace.folder / ".evalscribe" / "store.db").exists(), "a store")
    wait_until(lambda: len(served.requests) > COUNT - 1, "all evals asked for")
    wait_until(lambda: workspace.holding(run_snapshots.RUN_ID), "something is kept")
    ended, _ = end(process, signal.SIGKILL)
    assert ended.code == -signal.SIGKILL
    over.set()
    for secret in ("Zq9XwV8uT7sR6pQ5", "eyJ2MiI6ImRlcGxveSJ9"):
        assert workspace.holding(secret) == []


def test_fetch_reports_an_unavailable_eval_and_keeps_the_others(workspace: Workspace, served: Deployment) -> None:
    usual = served.answer

    def without_one(path: str, args: dict[str, Any]) -> Answer:
        gone = path == "/api/action" and args["evalId"] == run_snapshots.eval_id(2)
        return success({"error": "Eval not found"}) if gone else usual(path, args)

    served.answer = without_one
    where = ("--deployment", served.url)
    fetched = workspace.run("fetch", PAGE, "-o", "kept", *where, CONVEX_DEPLOY_KEY=DEPLOY_KEY)
    assert f"{run_snapshots.eval_path(2)}: " in fetched.err
    document = workspace.run("analyze", "kept", "--judge", "rules", "--json").out
    assert [f["eval"] for f in findings(document) if f["unclassified"]] == [run_snapshots.eval_path(2)]


def test_fetch_refuses_a_folder_with_another_run(workspace: Workspace, served: Deployment) -> None:
    run_snapshots.write(workspace.folder / "kept", 1, run={"_id": "jn7another"})
    before = {path: path.read_bytes() for path in (workspace.folder / "kept").rglob("*.json")}
    ended = workspace.run(
        "fetch", PAGE, "-o", "kept", "--deployment", served.url, code=64, CONVEX_DEPLOY_KEY=DEPLOY_KEY
    )
    assert "jn7another" in ended.err
    assert {path: path.read_bytes() for path in (workspace.folder / "kept").rglob("*.json")} == before


def test_fetch_without_settings_fails_with_a_two_line_error(workspace: Workspace) -> None:
    ended = workspace.run("fetch", PAGE, "-o", "kept", code=77)
    assert len(ended.err.splitlines()) == 2
    assert not (workspace.folder / "kept").exists()


def holds_summary(folder: Path) -> bool:
    return (folder / "failed_evals.json").exists()


def test_interrupted_fetch_leaves_no_summary_and_can_be_repeated(workspace: Workspace, served: Deployment) -> None:
    usual, over = served.answer, threading.Event()

    def late(path: str, args: dict[str, Any]) -> Answer:
        if path == "/api/action" and args["evalId"] == run_snapshots.eval_id(0):
            over.wait(PATIENCE_S)
        return usual(path, args)

    served.answer = late
    where = ("--deployment", served.url)

    process = workspace.start("fetch", PAGE, "-o", "kept", *where, CONVEX_DEPLOY_KEY=DEPLOY_KEY)
    debug = workspace.folder / "kept" / "debug"
    wait_until(lambda: debug.exists() and len(list(debug.glob("*.json"))) == COUNT - 1, "all but one")
    ended, _ = end(process, signal.SIGTERM)
    assert (ended.code, holds_summary(workspace.folder / "kept")) == (143, False)
    over.set()
    served.answer = usual
    workspace.run("fetch", PAGE, "-o", "kept", *where, CONVEX_DEPLOY_KEY=DEPLOY_KEY)
    assert holds_summary(workspace.folder / "kept")

"""Answers that the code of commit 29486c6 paid for are found by today's code and not requested again.

Verdicts on failures are the exception: the judge's prompt has changed since, so each is requested once more. The old
verdicts stay in the store and can be read.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evalscribe.model.finding import Unclassified, Verdict
from evalscribe.store.analyses import open_store
from support import paid_work
from support.batches_server import BatchesServer
from support.command import InProcessCommand
from support.messages_server import MessagesServer, failure


@pytest.fixture
def paid(workspace: object, inside: InProcessCommand, monkeypatch: pytest.MonkeyPatch) -> InProcessCommand:
    """Unpack the workspace with the paid answers and make it the working folder."""
    paid_work.unpack(inside.folder)
    monkeypatch.chdir(inside.folder)
    return inside


@pytest.fixture
def run(paid: InProcessCommand) -> Callable[..., str]:
    return lambda *arguments, **settings: paid.run(*arguments, **settings).out


def reports(folder: Path) -> dict[str, str]:
    texts = folder.joinpath("reports").glob("*/**/*.md")
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in texts}


STORED_RUBRIC = " with failure@1"
"""Suffix of judge names today: the workspace keeps the rubric that was shipped when it was created."""


def by_models(results: Any) -> Any:
    """Leave out verdicts of the rules: they cost nothing and are recomputed by the newer rules."""
    if not isinstance(results, dict):
        return results
    return {
        name: {**one, "judge": one["judge"].removesuffix(STORED_RUBRIC)}
        if isinstance(one, dict) and "judge" in one
        else one
        for name, one in results.items()
        if not (isinstance(one, dict) and str(one.get("judge")).startswith("rules@"))
    }


def stored_verdicts(folder: Path) -> dict[str, Verdict | Unclassified | None]:
    state = folder / ".evalscribe"
    with closing(sqlite3.connect(state / "store.db")) as raw:
        keys = [key for (key,) in raw.execute("SELECT key FROM verdicts")]
    with closing(open_store(state)) as store:
        return {key: store.get_verdict(key) for key in keys}


def test_paid_answers_are_reused_without_model_calls(paid: InProcessCommand, run: Callable[..., str]) -> None:
    before = reports(paid.folder)
    expected = paid_work.expected()
    with MessagesServer(failure(400, "invalid_request_error")) as server:
        for name, results in paid_work.work(run, server.url, without=tuple(paid_work.JUDGED)):
            sent = [call.body["messages"][-1] for call in server.calls]
            assert sent == [], f"`{name}` asked a model again: an answer in the store is no longer found by its key"
            assert by_models(json.loads(json.dumps(results))) == by_models(expected.pop(name)), name
    judged = {f"analyze {name}" for name in paid_work.JUDGED}
    assert expected.keys() == judged | {f"analyze {name} --batch" for name in paid_work.BATCHED}
    assert reports(paid.folder).keys() == before.keys()


def test_paid_verdicts_stay_readable_and_changed_prompts_are_sent_once(
    paid: InProcessCommand, run: Callable[..., str]
) -> None:
    old, before, expected = stored_verdicts(paid.folder), reports(paid.folder), paid_work.expected()
    causes = {verdict.cause for verdict in old.values() if isinstance(verdict, Verdict)}
    paid_for = [one for name in paid_work.JUDGED for one in by_models(expected[f"analyze {name}"]).values()]
    assert {one["cause"] for one in paid_for} <= causes
    results_by_run: dict[str, Any] = {}
    with MessagesServer(paid_work.model) as server:
        access = {"ANTHROPIC_API_KEY": paid_work.KEY, "ANTHROPIC_BASE_URL": server.url}
        for name, judge in paid_work.JUDGED.items():
            command = ("analyze", f"runs/{name}", *judge, *paid_work.DATE, "--json")
            results_by_run[name] = paid_work.analyze_runs(run(*command, **access))
            assert by_models(results_by_run[name]) == by_models(expected[f"analyze {name}"]), name
            assert server.calls, "the evidence in the question changed"
            calls_before = len(server.calls)
            assert by_models(paid_work.analyze_runs(run(*command, **access))) == by_models(results_by_run[name]), name
            assert len(server.calls) == calls_before, f"`{name}` asked the same question twice"
    verdicts_now = stored_verdicts(paid.folder)
    assert {key: verdicts_now[key] for key in old} == old
    after = reports(paid.folder)
    assert len(after) == len(before) + 1, "the analysis that was killed has its report now"


def test_batches_of_changed_prompts_are_sent_once(paid: InProcessCommand, run: Callable[..., str]) -> None:
    """One earlier batch was read; the other was sent by a process that was killed before reading it."""
    expected = paid_work.expected()
    with BatchesServer(paid_work.submits, looks=1) as server:
        server.batches.append(paid_work.sent_batch(datetime.now(UTC)))
        for _ in range(2):
            for name in paid_work.BATCHED:
                results = paid_work.analyze_batched(run, server.url, name)
                assert by_models(results) == by_models(expected[f"analyze {name} --batch"]), name
            assert len(server.batches) == 1 + len(paid_work.BATCHED), "a batch was sent twice"
        assert server.singles == []


def test_old_reports_open_and_pass_the_check(paid: InProcessCommand, run: Callable[..., str]) -> None:
    checked = json.loads(run("reports", "check", "--format", "json"))
    assert {problem["what"] for problem in checked["problems"]} == {
        "in an older report format; the format is updated when the report is written again"
    }
    quotations = {Path(one["file"]).name: one["quotations"] for one in checked["reports"]}
    assert quotations == {
        "batch0ru_2026-11-02.md": 0,
        "cascade0_2026-11-02.md": 4,
        "model0ru_2026-11-02.md": 3,
    }
    listed = run("reports", "list")
    for name in quotations:
        assert name.removesuffix(".md") in listed
        assert "evals failed" in run("reports", "show", name)

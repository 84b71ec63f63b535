"""Work that the code of commit 29486c6 paid models for is found by today's code, which asks nothing again."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support import paid_work
from support.batches_server import BatchesServer
from support.command import InProcessCommand
from support.messages_server import MessagesServer, failure


@pytest.fixture
def paid(workspace: object, inside: InProcessCommand, monkeypatch: pytest.MonkeyPatch) -> InProcessCommand:
    """The workspace in which everything was paid for, as the working folder."""
    paid_work.unpack(inside.folder)
    monkeypatch.chdir(inside.folder)
    return inside


@pytest.fixture
def run(paid: InProcessCommand) -> Callable[..., str]:
    return lambda *arguments, **settings: paid.run(*arguments, **settings).out


def reports(folder: Path) -> dict[str, str]:
    texts = folder.joinpath("reports").glob("*/**/*.md")
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in texts}


def by_models(results: Any) -> Any:
    """Leave out what the rules decided: it cost nothing, and is decided again by their newer version."""
    if not isinstance(results, dict):
        return results
    return {
        name: one
        for name, one in results.items()
        if not (isinstance(one, dict) and str(one.get("judge")).startswith("rules@"))
    }


def test_answers_that_were_paid_for_are_not_asked_for_again(paid: InProcessCommand, run: Callable[..., str]) -> None:
    before = reports(paid.folder)
    expected = paid_work.expected()
    with MessagesServer(failure(400, "invalid_request_error")) as server:
        for name, results in paid_work.work(run, server.url):
            asked = [call.body["messages"][-1] for call in server.calls]
            assert asked == [], f"`{name}` asked a model again: an answer in the store is no longer found by its key"
            assert by_models(json.loads(json.dumps(results))) == by_models(expected.pop(name)), name
    assert expected.keys() == {f"analyze {name} --batch" for name in paid_work.BATCHED}
    after = reports(paid.folder)
    assert not [name for name, text in after.items() if "kind: evalscribe-report/1" in text and name not in before]
    assert len(after) == len(before) + 1, "the analysis that was killed has its report now"


def test_batches_that_were_paid_for_are_not_sent_again(paid: InProcessCommand, run: Callable[..., str]) -> None:
    """One whose answers were read, and one that was sent by a process that was killed before it read any."""
    expected = paid_work.expected()
    with BatchesServer(paid_work.submits, looks=1) as server:
        server.batches.append(paid_work.sent_batch(datetime.now(UTC)))
        for name in paid_work.BATCHED:
            found = paid_work.analyze_batched(run, server.url, name)
            assert found == expected[f"analyze {name} --batch"], name
        assert len(server.batches) == 1, "a batch was sent again"
        assert server.singles == []


def test_reports_that_were_written_then_open_and_verify(paid: InProcessCommand, run: Callable[..., str]) -> None:
    checked = json.loads(run("reports", "check", "--format", "json"))
    assert {problem["what"] for problem in checked["problems"]} == {
        "written by an earlier version; it gets the present form when it is written again"
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

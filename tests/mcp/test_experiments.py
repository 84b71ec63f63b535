"""An agent that changes code: a new build, a run of it, whether it got better, and the evidence."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.types import CallToolResult

from evalscribe.mcp.context import SAMPLE, ServerWorkspace
from evalscribe.mcp.experiment_runs import MOST_NAMED, bound_report
from evalscribe.mcp.server import Server
from evalscribe.model.experiment import Clause, Gate, PassRate, RunReport, RunSummary, TrialCounts
from evalscribe.model.target import Component, Deployment
from support.stored_experiment import NOW, StoredExperiment, make_items

MENDED = "def answer(value):\n    return 'wrong' if value == 'ask two' else value.replace('ask', 'expect')\n"


@pytest.fixture
def made(place: ServerWorkspace) -> Iterator[StoredExperiment]:
    """An experiment whose component lies in the workspace, and a run of an earlier build, which failed
    everywhere. One of the sample's name is left as it is."""
    folder = Path.cwd()
    Path("agent.py").write_text(MENDED)
    with closing(StoredExperiment(folder / ".evalscribe", make_items("one", "two", "three"), SAMPLE)) as made:
        code = Component(name="agent", kind="python", address="agent:answer")
        made.definitions.add_deployment(
            Deployment(id="dep-1", name="built", components=(code,), folder=str(folder), created_at=NOW)
        )
        made.run("fff", name="before")
        yield made


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    return result.structured_content


async def test_a_change_is_built_run_and_compared(made: StoredExperiment, place: ServerWorkspace) -> None:
    async with Client(Server(place)) as client:
        build = await said(client, "create_deployment", name="mended", like="built", write=True)
        ran = await said(client, "run_experiment", experiment=SAMPLE, deployment_id="mended", start=True, name="after")
        assert (ran["started"], ran["deployment_id"]) == (True, build["id"])
        found = await said(client, "get_experiment_run", run="after", wait_seconds=120)
        assert "gate failed: pass rate 2/3" in found["message"]
        (failed,) = found["tries"]
        assert (failed["item"], failed["output"]) == ("two", "wrong")
        assert "wrong" in (await said(client, "get_eval", eval_id=failed["eval_id"]))["text"]
        compared = await said(client, "compare_experiment_runs", base="before", candidate="after")
        assert [one["item"] for one in compared["fixed"]] == ["one", "three"]


def test_lists_of_a_run_are_cut_and_counted() -> None:
    many = tuple(f"item-{number}" for number in range(MOST_NAMED + 3))
    share = PassRate(passed=0, of=1, value=0.0)
    summary = RunSummary(
        run_id="r",
        experiment_id="e",
        experiment="quality",
        experiment_version_id="v",
        version=1,
        dataset_version_id="d",
        state="failed",
        reason="interrupted: continue with `evalscribe experiments runs resume r`",
        created_at=NOW,
        items=1,
        repetitions=1,
        tries=1,
        counts=TrialCounts(),
        pass_rate=share,
        flaky=many,
    )
    clause = Clause(name="no_new_failures_vs", threshold="b", verdict="failed", said="some", items=many)
    report, notes = bound_report(
        RunReport(summary=summary, gate=Gate(run_id="r", passed=False, clauses=(clause,), scores_digest=""))
    )
    assert report.gate is not None
    assert len(report.summary.flaky) == len(report.gate.clauses[0].items) == MOST_NAMED
    assert notes == ("flaky: 3 more are not listed", "items of no_new_failures_vs: 3 more are not listed")
    assert report.summary.reason == "interrupted: continue with resume_experiment_run"

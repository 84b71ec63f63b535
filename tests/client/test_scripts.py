"""Two scripts that build on each other, with real trajectories."""

import re
import runpy
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from evalscribe import Client
from support.judge_providers import Providers

HERE = Path(__file__).parent


@pytest.fixture
def airline(real_data: Path, workspace: Path) -> dict[str, dict[float, list[str]]]:
    """Ids of agent runs by task and reward, in the order of the file."""
    (path,) = (real_data / "tau-bench").glob("gpt-4o-*.json")
    with Client() as client:
        client.import_file(path, "airline", collection_id="airline", provider="openai", model="gpt-4o")
        runs = [client.get_agent_run("airline", id) for id in client.list_agent_run_ids("airline")]
    assert len(runs) == 100
    runs_by_reward: dict[str, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        scores: Any = run.metadata["scores"]
        runs_by_reward[str(run.metadata["task"])][scores["reward"]].append(run.id)
    return runs_by_reward


def test_scripts_compare_failed_runs_with_passed_ones_and_summarise(
    airline: dict[str, dict[float, list[str]]], providers: Providers
) -> None:
    providers.fixed = "It never asked [T0B1], the other did [T1B1:<RANGE>not said at all</RANGE>] [T7B1]."
    done = runpy.run_path(str(HERE / "failed_beside_passed.py"))["done"]
    expected = {id for by_reward in airline.values() if by_reward[1.0] for id in by_reward[0.0]}
    assert (len(expected), done["counts"]["results"], len(providers.calls)) == (29, 29, 29)
    assert done["citations"] == {"verified": 29, "relocated": 0, "unverified": 58}
    with Client() as client:
        rows = client.get_results("airline", "failures/causes/v1")
        metadata_by_run = {row["user_metadata"]["failed"]: row["user_metadata"] for row in rows}
        assert metadata_by_run.keys() == expected, "tasks that never succeeded are left out"
        for metadata in metadata_by_run.values():
            assert metadata["passed"] in airline[metadata["task"]][1.0]
        (first, second) = (
            client.get_agent_run("airline", rows[0]["user_metadata"][name]) for name in ("failed", "passed")
        )
    prompt = next(call.body["messages"][1]["content"] for call in providers.calls if first.name in str(call.body))
    blocks = re.findall(r"^<evidence-\S+ (T\d+B\d+) role", prompt, re.M)
    assert len(blocks) == len(first.transcripts[0].messages) + len(second.transcripts[0].messages)

    providers.fixed = "Both forget [A0:<RANGE>never asked</RANGE>] [A28] [A29]."
    again = runpy.run_path(str(HERE / "failed_beside_passed.py"))["done"]
    assert (again["counts"]["sent"], len(providers.calls)) == (0, 29)
    summary = runpy.run_path(str(HERE / "failures_by_model.py"))["done"]
    assert summary["citations"] == {"verified": 2, "relocated": 0, "unverified": 1}
    text = providers.calls[-1].body["messages"][1]["content"]
    assert text.startswith("Why runs failed, by model.\n\n## Model: gpt-4o\n<evidence-")
    assert text.count('earlier result>\nIt never asked, the other did ("not said at all").\n') == 29

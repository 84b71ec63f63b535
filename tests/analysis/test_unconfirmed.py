"""Doubt about verdicts that blame an agent although no trial of its task passed."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe.analysis.prepare import open_run_source, past_reports, prepare
from evalscribe.analysis.studio import StudioWatcher
from evalscribe.model.finding import PEOPLE_JUDGE, REPLAY_JUDGE, Finding
from evalscribe.settings import Options
from evalscribe.workspace import Workspace
from support.analysis_graph import verdict


def trial(number: int) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "get_member", "arguments": "{}"}}
    return {
        "task_id": 1,
        "trial": number,
        "reward": 0.0,
        "info": {"task": {"instruction": "Renew the loan.", "actions": [], "outputs": ["renewed"]}},
        "traj": [
            {"role": "system", "content": "Ask before you change anything."},
            {"role": "user", "content": "Please renew my loan."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "get_member", "content": "{}"},
            {"role": "assistant", "content": f"Goodbye {number}."},
        ],
    }


@pytest.mark.parametrize(
    ("judge", "unconfirmed"),
    [("anthropic/m", True), (PEOPLE_JUDGE, False), (REPLAY_JUDGE, False), ("rules@1", False)],
)
async def test_only_verdicts_of_models_are_unconfirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str, unconfirmed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "library.json"
    path.write_text(json.dumps([trial(number) for number in range(2)]))
    async with (
        Workspace(Options(judge="rules")) as workspace,
        open_run_source(workspace, str(path), StudioWatcher()) as (analyst, source),
    ):
        run = await source.run()
        prepared = await prepare(workspace, analyst, source, run, past_reports(workspace, run), StudioWatcher())
        finding = Finding(group="g", evals=prepared.run.failures[:1], verdict=verdict(judge))
        assert prepared.unconfirmed(finding) is unconfirmed

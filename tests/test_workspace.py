"""The workspace: settings, lazily opened store, and models within a budget."""

import subprocess
import sys
from pathlib import Path

import pytest

from evalscribe.errors import UsageError
from evalscribe.model.rubric import Collection
from evalscribe.settings import RULES, Options
from evalscribe.workspace import Workspace

HEAVY = {"sqlalchemy", "anthropic", "openai", "langgraph", "git", "httpx2", "jinja2", "ray"}


def test_importing_the_workspace_loads_no_heavy_modules() -> None:
    code = "import sys, evalscribe.workspace; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())


def test_nothing_is_written_before_the_store_is_used(tmp_path: Path) -> None:
    with Workspace(folder=tmp_path, environ={}) as workspace:
        assert workspace.settings.root == tmp_path
        assert workspace.reports.root == tmp_path / "reports"
        assert not workspace.has_store
        assert list(tmp_path.iterdir()) == []
        workspace.store.collections.collections()
        assert workspace.has_store


def test_parts_of_the_store_share_one_database(tmp_path: Path) -> None:
    with Workspace(folder=tmp_path, environ={}) as workspace:
        workspace.store.collections.add_collection(Collection(id="c", name="mine"))
        assert workspace.store.runs.runs("c") == ()
        assert workspace.store.results.sets("c") == ()
    with Workspace(folder=tmp_path, environ={}) as again:
        assert [one.name for one in again.store.collections.collections()] == ["mine"]


def test_options_override_the_environment(tmp_path: Path) -> None:
    environ = {"EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5", "EVALSCRIBE_COLLECTION_ID": "theirs"}
    assert Workspace(folder=tmp_path, environ=environ).settings.judge_name == "anthropic/claude-opus-5-5"
    settings = Workspace(Options(judge=RULES, collection="mine"), folder=tmp_path, environ=environ).settings
    assert settings.judge_name == RULES
    assert settings.collection.value == "mine"


def test_unknown_judge_is_refused_with_the_known_providers(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"somebody is not a known model; use PROVIDER/MODEL \(providers: .*\), or `rules` to"
    ):
        _ = Workspace(Options(judge="somebody"), folder=tmp_path, environ={}).settings.judge_name


def test_checkpoints_are_beside_the_store_unless_a_path_is_given(tmp_path: Path) -> None:
    assert Workspace(folder=tmp_path, environ={}).checkpoints == tmp_path / ".evalscribe" / "checkpoints.db"
    own = tmp_path / "own.db"
    assert Workspace(folder=tmp_path, environ={}, checkpoints=own).checkpoints == own


async def test_models_open_within_the_budget_of_the_workspace(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-ant-test"}
    async with Workspace(Options(budget=1.5), folder=tmp_path, environ=environ) as workspace:
        assert workspace.models.open("anthropic/claude-opus-5-5", "judge").id == "anthropic/claude-opus-5-5"
        assert workspace.budget.usd == 1.5
        assert dict(workspace.models.spent()) == {}

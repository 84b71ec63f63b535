"""The repository as a Claude Code marketplace: both manifests match the documented fields."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typer.main import get_command

from evalscribe import __version__
from evalscribe.cli.commands import app

ROOT = Path(__file__).parent.parent
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")]
Inside = Annotated[str, Field(pattern=r"^\./")]
Text = Annotated[str, Field(min_length=1)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Person(Strict):
    name: Text
    email: Text | None = None
    url: Text | None = None


class Server(Strict):
    type: Literal["stdio"] = "stdio"
    command: Text
    args: list[str] = []
    env: dict[str, str] = {}


class Described(Strict):
    """Fields of a plugin that both manifests may have."""

    name: Name
    description: Text
    author: Person | None = None
    homepage: Text | None = None
    repository: Text | None = None
    license: Text
    keywords: list[Text]


class Plugin(Described):
    author: Person
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")]
    skills: Inside | list[Inside]
    mcpServers: dict[Name, Server]


class Entry(Described):
    """A marketplace entry; it has no version, as the plugin manifest states it."""

    source: Inside
    category: Text


class Marketplace(Strict):
    name: Name
    description: Text
    owner: Person
    plugins: list[Entry]


def manifest(name: str) -> Any:
    return json.loads((ROOT / ".claude-plugin" / name).read_text("utf-8"))


@pytest.fixture
def plugin() -> Plugin:
    return Plugin.model_validate(manifest("plugin.json"))


def test_plugin_version_matches_the_package(plugin: Plugin) -> None:
    assert plugin.version == __version__, "raise both: __version__ in agent/evalscribe/__init__.py, and plugin.json"


def test_marketplace_lists_this_plugin(plugin: Plugin) -> None:
    marketplace = Marketplace.model_validate(manifest("marketplace.json"))
    (entry,) = marketplace.plugins
    assert (entry.name, entry.license, entry.keywords) == (plugin.name, plugin.license, plugin.keywords)
    assert (ROOT / entry.source / ".claude-plugin/plugin.json").is_file()


def test_every_skill_is_included_and_named_in_its_front_matter(plugin: Plugin) -> None:
    skills = sorted((ROOT / str(plugin.skills)).iterdir())
    assert len(skills) == 7
    for folder in skills:
        (name,) = re.findall(r"^name: (.*)$", (folder / "SKILL.md").read_text("utf-8"), re.MULTILINE)
        assert name == folder.name


def test_mcp_server_runs_an_existing_command(plugin: Plugin) -> None:
    (server,) = plugin.mcpServers.values()
    assert server.command == "evalscribe"
    assert server.args[0] in get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "wrong", [{"name": "Eval Scribe"}, {"skills": "skills/"}, {"mcpServers": {"x": {"args": []}}}, {"commands": 1}]
)
def test_invalid_plugin_manifest_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Plugin.model_validate({**manifest("plugin.json"), **wrong})

"""`evalscribe init`: the files it writes are correct, and existing files stay unchanged."""

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from evalscribe.prompts.templates import Prompts, shipped_folder
from evalscribe.settings import DEFAULT_BUDGET, DEFAULT_CONCURRENCY, DEFAULT_ENGINE, access
from evalscribe.settings.config import CascadeTable, ConfigFile
from support.command import Workspace
from support.messages_server import MessagesServer, says

ROOT = Path(__file__).parents[2]
EVERY = ("--claude", "--cursor", "--vscode")
PLAIN = {"evalscribe.toml", ".env.example", ".gitignore", "AGENTS.md"}
PROGRAM = str(Path(sys.executable).parent / "evalscribe")
EDITORS = "${workspaceFolder}"


def files(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else "" for path in paths}


@pytest.fixture
def written(workspace: Workspace) -> dict[str, str]:
    workspace.run("init", *EVERY)
    return files(workspace.folder)


def test_init_without_an_editor_writes_only_the_common_files(workspace: Workspace) -> None:
    output = workspace.run("init").out
    assert set(files(workspace.folder)) == PLAIN
    assert all(f"  {name}\n" in output for name in PLAIN)
    assert re.search(r"\nNext: \S*evalscribe import sample\n$", output)
    workspace.run("import", "sample")
    assert "room-desk-c1" in workspace.run("collections", "show").out


def test_each_editor_gets_its_own_files(written: dict[str, str]) -> None:
    skills = {f".claude/skills/{path}" for path in files(shipped_folder("skills"))}
    assert ".claude/skills/triage-collection/scripts/triage.py" in skills
    editors = {"CLAUDE.md", ".mcp.json", ".cursor/mcp.json", ".cursor/rules/evalscribe.mdc", ".vscode/mcp.json"}
    assert set(written) == PLAIN | editors | {name for name in skills if "__pycache__" not in name}
    for name in set(written) & skills:
        assert written[name] == (shipped_folder("skills") / name.removeprefix(".claude/skills/")).read_text()
    assert written["CLAUDE.md"] == "@AGENTS.md\n"


def server(folder: str) -> dict[str, object]:
    return {"command": PROGRAM, "args": ["mcp", "--folder", folder]}


def test_mcp_configuration_matches_the_documentation(workspace: Workspace, written: dict[str, str]) -> None:
    own = str(workspace.folder)
    page = (ROOT / "agent/docs/mcp.md").read_text().replace("/path/to/evalscribe", PROGRAM)
    page = page.replace("/path/to/workspace", own)
    shown = [json.loads(token.content) for token in MarkdownIt().parse(page) if token.info == "json"]
    configurations = [json.loads(written[name]) for name in (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")]
    assert configurations == shown
    assert configurations[0] == {"mcpServers": {"evalscribe": server(own)}}
    assert configurations[1] == {"mcpServers": {"evalscribe": server(EDITORS)}}
    assert configurations[2] == {"servers": {"evalscribe": {"type": "stdio", **server(EDITORS)}}}


def test_mcp_command_starts_with_an_empty_path_variable(written: dict[str, str]) -> None:
    configuration = json.loads(written[".mcp.json"])["mcpServers"]["evalscribe"]
    done = subprocess.run(
        [configuration["command"], *configuration["args"], "--help"], env={"PATH": ""}, capture_output=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("place", [".venv/bin", "my programs"])
def test_next_command_is_quoted_for_the_shell(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The virtual environment of evalscribe is not active here."""
    programs = workspace.folder / place
    programs.mkdir(parents=True)
    for name in ("python", "evalscribe"):
        (programs / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", "")
    output = workspace.run("init", "--claude").out
    program = str(programs / "evalscribe")
    (configuration,) = json.loads((workspace.folder / ".mcp.json").read_text())["mcpServers"].values()
    assert configuration["command"] == program
    assert f"it is `{shlex.quote(program)}`" in (workspace.folder / "AGENTS.md").read_text()
    assert "does not find the command `evalscribe`" in output
    *_, last = output.splitlines()
    assert shlex.split(last) == ["Next:", program, "import", "sample"]


def test_next_command_names_a_run_file_in_the_folder(workspace: Workspace) -> None:
    (workspace.folder / "package.json").write_text('{"name": "suite"}')
    (workspace.folder / "results.csv").write_text("input,output,passed\n1+1,3,0\n")
    assert workspace.run("init").out.endswith("evalscribe import results.csv\n")


def test_evalscribe_toml_lists_every_setting_with_its_default(written: dict[str, str]) -> None:
    text = written["evalscribe.toml"]
    assert tomllib.loads(text) == {}, "nothing holds that nobody chose"
    settings = re.sub(r"^# (?=\w+ = |\[)", "", text, flags=re.MULTILINE)
    read = tomllib.loads(settings)
    assert set(read) == set(ConfigFile.model_fields)
    shown = ConfigFile.model_validate(read)
    assert (shown.budget, shown.concurrency, shown.engine) == (DEFAULT_BUDGET, DEFAULT_CONCURRENCY, DEFAULT_ENGINE)
    assert shown.cascade.model_copy(update={"tags": None}) == CascadeTable()


def test_env_example_lists_documented_variables_without_values(written: dict[str, str]) -> None:
    lines = [line for line in written[".env.example"].splitlines() if line and not line.startswith("#")]
    page = (ROOT / "agent/docs/configuration.md").read_text()
    assert [line for line in lines if not (line.endswith("=") and f"`{line[:-1]}`" in page)] == []
    assert {one.key_name for one in access.PROVIDERS.values()} < {line[:-1] for line in lines}


def test_cursor_rule_states_when_it_applies(written: dict[str, str]) -> None:
    _, front, body = written[".cursor/rules/evalscribe.mdc"].split("---\n", 2)
    meta = yaml.safe_load(front)
    assert set(meta) == {"description", "globs", "alwaysApply"}
    assert meta["alwaysApply"] is False
    assert "evalscribe" in meta["description"]
    assert "AGENTS.md" in body


def test_script_in_agents_md_runs(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.run("init")
    workspace.run("import", "sample")
    tokens = MarkdownIt().parse((workspace.folder / "AGENTS.md").read_text())
    (code,) = [token.content for token in tokens if token.type == "fence" and token.info == "python"]
    monkeypatch.chdir(workspace.folder)
    with MessagesServer(says("It booked the wrong room [T0B1].")) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        for _ in range(2):
            exec(compile(code, "AGENTS.md", "exec"), {"__name__": "page"})
        assert len(server.calls) == 5


def test_second_init_writes_nothing(workspace: Workspace, written: dict[str, str]) -> None:
    output = workspace.run("init", *EVERY).out
    assert files(workspace.folder) == written
    assert "Wrote" not in output
    assert "Kept" not in output


def test_existing_files_are_kept_and_missing_lines_are_printed(workspace: Workspace) -> None:
    existing = {
        "evalscribe.toml": 'judge = "rules"\n',
        ".gitignore": "*.pyc\n",
        "AGENTS.md": "Be kind.\r\n",
        ".mcp.json": '{"mcpServers": {"other": {"command": "x"}}}',
        ".cursor/mcp.json": '{"mcpServers": {"evalscribe": {"command": "mine"}}}',
        ".vscode/mcp.json": "// ours\n{}",
    }
    for name, text in existing.items():
        (workspace.folder / name).parent.mkdir(exist_ok=True)
        (workspace.folder / name).write_bytes(text.encode())
    output = workspace.run("init", *EVERY).out
    assert {name: (workspace.folder / name).read_bytes().decode() for name in existing} == existing
    not_overwritten = output.partition("Not overwritten")[2]
    assert [name for name in existing if f"  {name}" not in not_overwritten] == []
    assert "\n      .env\n" in not_overwritten
    snippets = [json.loads(text) for text in re.findall(r"mcp\.json   add to it:\n((?: {6}.*\n)+)", not_overwritten)]
    assert snippets[0] == {"mcpServers": {"evalscribe": server(str(workspace.folder))}}
    assert list(snippets[1]) == ["servers"]
    assert len(snippets) == 2, "one of them has a server of this name"
    assert "read AGENTS.evalscribe.md" in not_overwritten
    assert (workspace.folder / "AGENTS.evalscribe.md").read_text() == Prompts().render(
        "workspace/AGENTS.md.j2", command=PROGRAM
    )


def test_agents_md_mentioning_evalscribe_gets_no_second_file(workspace: Workspace) -> None:
    (workspace.folder / "AGENTS.md").write_text("Use evalscribe.\n")
    workspace.run("init")
    assert not (workspace.folder / "AGENTS.evalscribe.md").exists()


def link_to_outside(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder / ".claude").symlink_to(folder.parent / "elsewhere")


def link_to_itself(folder: Path) -> None:
    (folder / ".cursor").symlink_to(".cursor")


def file_instead_of_folder(folder: Path) -> None:
    (folder / ".vscode").write_text("x")


def folder_instead_of_file(folder: Path) -> None:
    (folder / "AGENTS.md").mkdir()


def file_instead_of_nested_folder(folder: Path) -> None:
    (folder / ".claude").mkdir()
    (folder / ".claude/skills").write_text("x")


@pytest.mark.parametrize(
    "spoil",
    [link_to_outside, link_to_itself, file_instead_of_folder, folder_instead_of_file, file_instead_of_nested_folder],
    ids=lambda f: f.__name__,
)
def test_unwritable_path_stops_init_before_anything_is_written(workspace: Workspace, spoil: Any) -> None:
    spoil(workspace.folder)
    before = files(workspace.folder.parent)
    result = workspace.run("init", *EVERY, code=65)
    assert "nothing was written" in result.err
    assert files(workspace.folder.parent) == before


def test_symlinks_in_place_of_files_are_left_alone(workspace: Workspace) -> None:
    outside = workspace.folder.parent / "outside.txt"
    outside.write_text("secret")
    (workspace.folder / "AGENTS.md").symlink_to(outside)
    (workspace.folder / "evalscribe.toml").symlink_to(workspace.folder.parent / "not-there")
    (workspace.folder / "CLAUDE.md").symlink_to("AGENTS.md")
    os.mkfifo(workspace.folder / ".gitignore")
    output = workspace.run("init", "--claude").out
    assert outside.read_text() == "secret"
    assert "secret" not in output
    assert not (workspace.folder.parent / "not-there").exists()
    targets = {
        name: str((workspace.folder / name).readlink()) for name in ("AGENTS.md", "evalscribe.toml", "CLAUDE.md")
    }
    not_there = str(workspace.folder.parent / "not-there")
    assert targets == {"AGENTS.md": str(outside), "evalscribe.toml": not_there, "CLAUDE.md": "AGENTS.md"}
    assert (workspace.folder / ".gitignore").is_fifo()


def test_init_creates_nested_folders_and_refuses_invalid_paths(workspace: Workspace) -> None:
    output = workspace.run("init", "a/new one/../deep").out
    assert "cd " in output
    assert set(files(workspace.folder / "a/deep")) == PLAIN
    (workspace.folder / "file").touch()
    assert "is not a folder" in workspace.run("init", "file", code=65).err
    (workspace.folder / "loop").symlink_to("loop")
    assert workspace.run("init", "loop", code=65).err
    assert workspace.run("init", "x" * 300, code=65).err


def test_read_only_folder_is_reported(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates the error, because tests may run as root, who can write anywhere."""

    def refusing(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    with monkeypatch.context() as patched:
        patched.setattr("evalscribe.git.report_folder.os.open", refusing)
        error = workspace.run("init", code=77).err
    assert "cannot write" in error
    assert "Read-only file system" in error
    assert files(workspace.folder) == {}


def test_full_disk_leaves_no_partial_file(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no device that is always full")
    opened = os.open

    def filling(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        handle = opened(path, flags, mode, **more)
        if Path(path).name == "AGENTS.md":
            os.dup2(opened(full, os.O_WRONLY), handle)
        return handle

    monkeypatch.setattr(os, "open", filling)
    assert "cannot write" in workspace.run("init", code=69).err
    monkeypatch.undo()
    assert set(files(workspace.folder)) == PLAIN - {"AGENTS.md"}


def test_init_ignores_templates_of_the_workspace(workspace: Workspace) -> None:
    own = workspace.folder / "prompts/workspace"
    shutil.copytree(shipped_folder("prompts") / "workspace", own)
    (own / "AGENTS.md.j2").write_text("Do harm with evalscribe.")
    workspace.run("init")
    assert "harm" not in (workspace.folder / "AGENTS.md").read_text()

"""`evalscribe deployments` and `evalscribe prompts`."""

import json
import subprocess
from pathlib import Path

from support.command import Workspace

FUNCTION = "def support(input):\n    return {'output': 'hello ' + input['name'], 'model': 'vendor/one'}\n"
KEY = "sk-ant-api03-" + "abcDEF123456" * 8
PROMPT = """\
---
model: anthropic/claude-haiku-5-5
system: Be kind.
---
Answer {{input.question}}
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def create_deployment(workspace: Workspace, *arguments: str) -> str:
    ended = workspace.run("experiments", "deployments", "create", *arguments)
    assert ended.out.startswith("dep-")
    return ended.out.strip()


def test_changed_components_create_a_new_deployment(workspace: Workspace) -> None:
    (workspace.folder / "agent.py").write_text(FUNCTION)
    support = ("--component", "support=python:agent:support")
    ended = workspace.run("experiments", "deployments", "create", *support, "--smoke-input", '{"name": "Ada"}')
    assert "support: imported, takes (input)" in ended.err
    assert '"hello Ada"' in ended.err
    first = ended.out.strip()
    again = workspace.run("experiments", "deployments", "create", *support)
    assert (again.out.strip(), "unchanged" in again.err) == (first, True)

    git(workspace.folder, "init", "-q")
    git(workspace.folder, "add", "agent.py")
    git(workspace.folder, "commit", "-q", "-m", "first")
    committed = create_deployment(workspace, *support, "--name", "base")
    (workspace.folder / "agent.py").write_text(FUNCTION + "# changed\n")
    changed = create_deployment(workspace, *support, "--name", "base")
    (workspace.folder / "agent.py").write_text(FUNCTION + "# changed again\n")
    changed_again = create_deployment(
        workspace, *support, "--name", "base", "--component", "echo=cmd:cat", "--type", "function"
    )
    assert len({first, committed, changed, changed_again}) == 4

    rows = json.loads(workspace.run("experiments", "deployments", "list", "--format", "json").out)
    assert [row["id"] for row in rows] == [first, committed, changed, changed_again]
    assert [row["dirty"] for row in rows] == [None, False, True, True]
    assert "not in git" in workspace.run("experiments", "deployments", "list").out
    newest = workspace.run("experiments", "deployments", "show", "base").out
    assert changed_again in newest
    assert "function echo = cmd:cat" in newest
    assert "(dirty)" in newest


def test_invalid_component_creates_no_deployment(workspace: Workspace) -> None:
    (workspace.folder / "agent.py").write_text(FUNCTION)
    for address, message, *more in (
        ("python:nowhere:fn", "No module named 'nowhere'"),
        ("python:agent.py", "--component a=python:agent.py: write a function as python:package.module:function"),
        ("cmd:no-such-program", "no executable 'no-such-program' on PATH"),
        ("ftp://x", "expected NAME=python:"),
        ("http://127.0.0.1:9/", "did not answer"),
        ("http://me:a-secret-word@127.0.0.1/", "contains what looks like a secret"),
        (f"cmd:cat --key {KEY}", "to a command in its environment"),
        ("http://127.0.0.1:9/", "NO_SUCH_VARIABLE is not set", "--header", "X-Key=NO_SUCH_VARIABLE"),
        ("http://127.0.0.1:9/", "write NAME=ENV_VAR", "--header", "X-Key=the secret itself"),
        ("cmd:cat", "--header applies only to components at", "--header", "X-Key=HOME"),
        ("cmd:cat", "invalid JSON", "--smoke-input", "hello"),
        ("cmd:cat", "PROVIDER/MODEL", "--model", "haiku"),
        ("cmd:cat", "is not a folder", "--folder", "nowhere"),
        ("cmd:cat", "named twice", "--component", "a=cmd:cat"),
    ):
        error = workspace.run("experiments", "deployments", "create", "--component", f"a={address}", *more, code=64).err
        assert message in error, error
        assert "secret itself" not in error
        assert "secret-word" not in error
        assert KEY not in error
    failed = workspace.run(
        "deployments", "create", "--component", "a=python:agent:support", "--smoke-input", "3", code=65
    )
    assert "a fails on the smoke input: TypeError" in failed.err
    assert "--component is missing" in workspace.run("experiments", "deployments", "create", code=64).err
    assert json.loads(workspace.run("experiments", "deployments", "list", "--format", "json").out) == []
    assert "there is none yet" in workspace.run("experiments", "deployments", "show", "x", code=66).err


def test_prompt_versions_are_identified_by_content(workspace: Workspace) -> None:
    file = workspace.folder / "ask.md"
    file.write_text(PROMPT)
    first = workspace.run("experiments", "prompts", "create", file, "--name", "ask")
    assert first.out.startswith("prompt-")
    assert "version 1" in first.err
    assert "unchanged" in workspace.run("experiments", "prompts", "create", file, "--name", "ask").err
    file.write_text(PROMPT + "Be brief.\n")
    assert "version 2" in workspace.run("experiments", "prompts", "create", file, "--name", "ask").err
    file.write_text(PROMPT)
    assert "version 1" in workspace.run("experiments", "prompts", "create", file, "--name", "ask").err

    shown = workspace.run("experiments", "prompts", "show", "ask").out
    assert "version 2 of 2" in shown
    assert "Answer {{input.question}}\nBe brief." in shown
    version = json.loads(workspace.run("experiments", "prompts", "show", "ask@1", "--format", "json").out)
    assert [message["role"] for message in version["messages"]] == ["system", "user"]
    assert version["model"] == "anthropic/claude-haiku-5-5"
    assert workspace.run("experiments", "prompts", "show", first.out.strip()).out == shown
    assert "ask" in workspace.run("experiments", "prompts", "list").out
    assert (
        "has no version '7'; versions: 1 (pv-" in workspace.run("experiments", "prompts", "show", "ask@7", code=66).err
    )
    assert "available: ask" in workspace.run("experiments", "prompts", "show", "other", code=66).err


def test_invalid_prompt_is_refused(workspace: Workspace) -> None:
    file = workspace.folder / "ask.txt"
    file.write_text("Answer {{input}}")
    assert "names no model" in workspace.run("experiments", "prompts", "create", file, "--name", "ask", code=64).err
    options = ("--name", "ask", "--model", "nobody/m")
    assert (
        "model nobody/m is not known" in workspace.run("experiments", "prompts", "create", file, *options, code=64).err
    )
    assert (
        "file none.md not found"
        in workspace.run("experiments", "prompts", "create", "none.md", "--name", "ask", code=66).err
    )
    assert "--name" in workspace.run("experiments", "prompts", "create", file, "--name", "prompt-1", code=64).err
    file.write_text("Answer {{input.a|b}}")
    assert (
        "{{input.a|b}} is not a variable"
        in workspace.run("experiments", "prompts", "create", file, "--name", "ask", code=65).err
    )

"""README, skills and pages match the command line; every template is used and strict."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.main import get_command

from evalscribe.cli.commands import app
from evalscribe.cli.importing import import_runs
from evalscribe.errors import UsageError
from evalscribe.judging.builder import FOR_ANALYSES
from evalscribe.prompts.templates import Prompts, shipped_folder
from evalscribe.settings import access
from evalscribe.settings.config import CascadeTable, ConfigFile
from evalscribe.sources.formats import formats as all_formats
from sample import formats
from support.requirements import skip_or_fail

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "agent/docs").glob("*.md")), *sorted((ROOT / "skills").glob("*/SKILL.md"))]
CLOSING = (
    "These are my findings. Would you like me to implement any of these recommendations, "
    "or would you like to discuss specific failures in more detail?"
)
COMMANDS = get_command(app)


@cache
def tokens(text: str) -> list[Token]:
    return MarkdownIt().parse(text)


def fences(text: str, language: str) -> Iterator[str]:
    """Return the contents of fenced blocks in one language."""
    return (t.content for t in tokens(text) if t.type == "fence" and t.info == language)


def inline_code(text: str) -> Iterator[str]:
    for token in tokens(text):
        yield from (child.content for child in token.children or () if child.type == "code_inline")


def command_lines(text: str) -> list[list[str]]:
    """Return the arguments of each `evalscribe …` command in shell blocks and sessions."""
    blocks = [block for language in ("bash", "sh", "console", "") for block in fences(text, language)]
    matches = [
        re.search(r"""(?:^|[\s/])evalscribe ((?:"[^"]*"|'[^']*'|[^|>])*?)(?: 2?[|>]|$)""", line)
        for block in blocks
        for line in block.splitlines()
        if not line.startswith("claude ")  # here `evalscribe` is the name of a server
    ]
    return [shlex.split(match[1], comments=True) for match in matches if match]


def cases() -> list[tuple[str, list[str]]]:
    return [(page.name, args) for page in PAGES for args in command_lines(page.read_text("utf-8"))]


def test_pages_contain_more_than_15_commands() -> None:
    assert len(cases()) > 15


@pytest.mark.parametrize(
    ("page", "args"), cases(), ids=lambda value: " ".join(value) if isinstance(value, list) else value
)
def test_documented_commands_parse(page: str, args: list[str]) -> None:
    command, context = COMMANDS, None
    while hasattr(command, "commands"):
        assert args[0] in command.commands, f"{page}: no command {args[0]}"
        context = command.make_context("evalscribe", [], parent=context, resilient_parsing=True)
        command, args = command.commands[args[0]], args[1:]
    command.make_context(command.name, list(args), parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_and_commands_named_in_text_exist(page: Path) -> None:
    defined = {
        name
        for command in (COMMANDS, *leaves(COMMANDS))
        for param in command.params
        for name in (*param.opts, *param.secondary_opts)
    }
    spans = [code for code in inline_code(page.read_text("utf-8")) if code.startswith(("evalscribe ", "--"))]
    named = {word for code in spans for word in re.findall(r"(?<!\S)--[a-z-]+", code)}
    assert named <= defined
    first = {code.split()[1] for code in spans if code.startswith("evalscribe ")}
    assert first <= set(COMMANDS.commands)


def leaves(command: object) -> Iterator[object]:
    """Yield every command that is not a group."""
    for child in getattr(command, "commands", {}).values():
        yield from leaves(child)
    if not hasattr(command, "commands"):
        yield command


def test_every_command_and_option_has_help() -> None:
    for command in leaves(COMMANDS):
        assert command.help, command.name
        options = [param for param in command.params if param.param_type_name == "option"]
        assert all(option.help for option in options), command.name


def test_skills_have_front_matter_and_the_closing_question() -> None:
    for skill in sorted((ROOT / "skills").glob("*/SKILL.md")):
        _, front, body = skill.read_text("utf-8").split("---\n", 2)
        meta = yaml.safe_load(front)
        assert meta["name"] == skill.parent.name
        assert meta["description"]
        assert body.rstrip().endswith(f'"{CLOSING}"') == (meta["name"] != "write-rubric")


def test_links_and_anchors_resolve() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", without_code(page)):
            destination = page.parent / target if target else page
            assert destination.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(destination), f"{page.name}: {target}#{anchor}"


def without_code(page: Path) -> str:
    """Return the text of a page without fenced blocks, which may contain links of example reports."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors that forges generate for the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_index_lists_every_page() -> None:
    index = (ROOT / "agent/docs/README.md").read_text("utf-8")
    pages = {page.name for page in (ROOT / "agent/docs").glob("*.md")} - {"README.md"}
    assert {name for name in pages if f"({name})" not in index} == set()


def test_install_url_is_a_placeholder_and_documented_as_one() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        for address in re.findall(r"git\+(https://[^'\s@]+)", text):
            assert f"`{address}` is a placeholder" in text, page.name
            assert address.startswith("https://git.example/"), "a name that never exists"


def test_configuration_example_is_valid_and_complete() -> None:
    (example,) = fences((ROOT / "agent/docs/configuration.md").read_text("utf-8"), "toml")
    shown = ConfigFile.model_validate(tomllib.loads(example))
    assert shown.sources.convex.visualizer == "https://evals.example"
    assert set(ConfigFile.model_fields) == set(tomllib.loads(example)), "every setting is shown"
    (cascade,) = fences((ROOT / "agent/docs/judges.md").read_text("utf-8"), "toml")
    assert ConfigFile.model_validate(tomllib.loads(cascade)).cascade == shown.cascade
    assert shown.cascade.model_copy(update={"tags": None}) == CascadeTable(), "and the defaults are these"
    assert shown.cascade.issues() == FOR_ANALYSES


def test_every_environment_variable_is_documented() -> None:
    page = (ROOT / "agent/docs/configuration.md").read_text("utf-8")
    assert [name for name in (*ConfigFile().by_variable(), *access.PROVIDER_NAMES) if f"`{name}`" not in page] == []


DEVELOPMENT = (ROOT / "agent/docs/development.md").read_text("utf-8")


def code_paths(text: str) -> list[Path]:
    """Return files and folders named in inline code, below the package or the root.

    A path that does not exist is returned unchanged, that is, relative.
    """
    paths = re.findall(r"`([\w./-]+(?:\.py|\.md|\.toml|/))`", text)
    tops = (ROOT / "agent/evalscribe", ROOT)
    return [next((top / path for top in tops if (top / path).exists()), Path(path)) for path in paths]


def test_files_named_on_the_development_page_exist() -> None:
    paths = code_paths(DEVELOPMENT)
    assert len(paths) > 50
    assert [str(path) for path in paths if not path.is_absolute()] == []


@pytest.mark.parametrize("line", [line for line in DEVELOPMENT.splitlines() if ".py`" in line])
def test_names_on_the_development_page_exist_in_the_files_beside_them(line: str) -> None:
    """Each name must be in one of the files on the same line."""
    texts = [path.read_text("utf-8") for path in code_paths(line) if path.suffix == ".py"]
    names = re.findall(r"`(?:[A-Z]\w+\.)?([A-Za-z_]\w*)`", line)
    assert [name for name in names if not any(re.search(rf"\b{name}\b", text) for text in texts)] == []


def templates() -> list[str]:
    folder = shipped_folder("prompts")
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.j2"))


@pytest.mark.parametrize("name", templates())
def test_templates_are_used_and_strict(name: str) -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "agent/evalscribe").rglob("*.py")]
    others = [Prompts().source(other) for other in templates() if other != name]
    assert any(Path(name).name in text for text in [*sources, *others])
    if "{{" in Prompts().source(name):
        with pytest.raises(UsageError, match="undefined"):
            Prompts().render(name)


SESSIONS = {
    page.relative_to(ROOT).as_posix(): session
    for page in PAGES
    if (session := "".join(fences(page.read_text("utf-8"), "console")))  # all sessions of a page run in one folder
}


def test_report_and_compare_pages_have_sessions() -> None:
    assert {"agent/docs/report.md", "agent/docs/compare.md"} <= SESSIONS.keys()


@pytest.mark.parametrize("page", SESSIONS)
def test_documented_sessions_print_the_real_output(page: str, tmp_path: Path) -> None:
    """If they differ, the assertion message shows the real output."""
    session = SESSIONS[page]
    if "evalscribe prove" in session and not shutil.which("bwrap"):
        skip_or_fail("bubblewrap")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = ""
    for command in re.findall(r"^\$ (.*)$", session, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        printed += f"$ {command}\n{done.stdout}"
    assert printed == session


def test_table_of_formats_matches_the_readers() -> None:
    page = formats.PAGE.read_text("utf-8")
    assert formats.replaced(page) == page, "cd tests && python -m sample.formats"


def test_import_help_names_every_format() -> None:
    words = " ".join((import_runs.__doc__ or "").split())
    for format in all_formats():
        title = format.title.partition(" (")[0].removesuffix(" sessions")
        assert all(name in words for name in re.split(", | and ", title)), title

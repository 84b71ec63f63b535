"""The command line as a whole: command names, former names, common options, help and logs."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from evalscribe.cli.commands import app
from evalscribe.model.experiment import ExperimentConfig
from support.command import InProcessCommand, Workspace

COMMANDS = get_command(app)
EARLIER_NAMES = {
    ("reports", "wait"): ("experiments", "runs", "wait"),
    ("reports", "ci"): ("experiments", "runs", "gate"),
    ("reports", "failures"): ("experiments", "runs", "failures"),
    ("reports", "summary"): ("experiments", "runs", "summary"),
    ("reports", "export"): ("experiments", "runs", "export"),
    ("scores", "list"): ("experiments", "scores", "list"),
    ("scores", "evidence"): ("experiments", "scores", "evidence"),
    ("scorers", "list"): ("experiments", "scorers", "list"),
    ("prompts", "list"): ("experiments", "prompts", "list"),
    ("deployments", "list"): ("experiments", "deployments", "list"),
    ("rubric", "list"): ("rubrics", "list"),
}


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcessCommand:
    monkeypatch.setenv("COLUMNS", "80")
    return InProcessCommand(tmp_path, monkeypatch, capsys)


def parsers(command: object = COMMANDS, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    yield name, command
    for child, parser in getattr(command, "commands", {}).items():
        yield from parsers(parser, (*name, child))


ALL = dict(parsers())


def parameters(parser: object) -> list[tuple[str, tuple[str, ...]]]:
    return [(param.name, tuple(param.opts)) for param in parser.params]  # type: ignore[attr-defined]


@pytest.mark.parametrize("earlier", EARLIER_NAMES, ids=" ".join)
def test_earlier_names_are_hidden_and_take_the_same_options(earlier: tuple[str, ...], inside: InProcessCommand) -> None:
    assert parameters(ALL[earlier]) == parameters(ALL[EARLIER_NAMES[earlier]])
    shown = inside.run(*earlier[:-1], "-h").out if earlier[0] == "reports" else inside.run("-h").out
    assert not re.search(rf"^  {earlier[1] if earlier[0] == 'reports' else earlier[0]} ", shown, re.M)


def test_every_command_of_the_seed_parses(real_data: Path) -> None:
    (seed,) = sorted(real_data.parent.glob("*/003_*.txt"))
    text = seed.read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in re.findall(r"^ *agnt5 (.*)$", text, re.M)]
    lines += re.findall(r"with agnt5 ([^.]*)\.", text)
    assert len(lines) > 12
    for line in lines:
        command, context, words = COMMANDS, None, shlex.split(line)
        while hasattr(command, "commands"):
            context = command.make_context("evalscribe", [], parent=context, resilient_parsing=True)
            command, words = command.commands[words[0]], words[1:]
        command.make_context(command.name, words, parent=context)


def test_help_lists_commands_in_groups(inside: InProcessCommand) -> None:
    out = inside.run("--help").out
    assert re.findall(r"^([A-Z][\w-]+):$", out, re.M) == [
        *("Analyse", "Data", "Review", "Experiments", "Set-up"),
        "Options",
    ]
    assert out == inside.run("-h").out


def test_json_option_means_format_json_in_every_command(inside: InProcessCommand) -> None:
    for name, parser in ALL.items():
        options = {option for param in getattr(parser, "params", ()) for option in param.opts}
        has_json = any(
            "json" in (param.metavar or "").split("|") for param in parser.params if "--format" in param.opts
        )
        assert ("--json" in options) == has_json, name
    short, long = (inside.run("rubrics", "list", *form).out for form in (("--json",), ("--format", "json")))
    assert short == long
    assert inside.run("datasets", "list", "--json").out == "[]\n"
    assert "--format 'xml' is not one of text, json" in inside.run("rubrics", "list", "--format=xml", code=64).err
    assert "--json and --format jsonl" in inside.run("datasets", "list", "--json", "--format=jsonl", code=64).err


QUIET = """
import sample
collections remove room-desk-c2
import sample --json
explain sample http/001-retry --judge rules
compare room-desk-c1 room-desk-c2 --judge rules --json
judge failure room-desk-c1 --judge rules --json
explore why? --judge rules --json
sql "SELECT id FROM agent_runs LIMIT 3"
discuss smp7 --judge rules --ask 4
review label smp7 1 MODEL_FAULT
export -o runs.jsonl
datasets create --name mine
datasets add-run mine room-desk-c1 --failed
datasets dedup preview mine
datasets publish mine
experiments sample
experiments run sample --name first --wait --no-fail-on-gate
experiments runs failures first
experiments runs export first -o first.csv
"""


def test_quiet_omits_progress_and_notes(inside: InProcessCommand) -> None:
    assert inside.run("import", "sample").err
    assert inside.run("-q", "import", "sample").err == ""
    path = inside.run("-q", "analyze", "sample", "--judge", "rules").out
    assert (inside.folder / path.strip()).is_file()
    for line in QUIET.strip().splitlines():
        ended = inside.run(*shlex.split(line), "-q")
        assert ended.err == "", line
        assert not any(word in ended.out for word in ("Next: ", "Note: ", "are in runs.jsonl", "`evalscribe gc`")), line


def test_commands_that_change_data_can_print_json(inside: InProcessCommand) -> None:
    def document(*words: str) -> Any:
        ended = inside.run(*words, "--json")
        assert ended.err == "", words
        return json.loads(ended.out)

    assert {one["state"] for one in document("init")["files"]} == {"written"}
    diagnosis = document("doctor")
    assert {"name": "judge", "value": "rules", "origin": "ANTHROPIC_API_KEY is not set"} in diagnosis["settings"]
    assert {one["name"]: one["state"] for one in diagnosis["checks"]}["store"] == "ok"
    fetched = document("fetch", "sample", "-o", "kept")
    assert (fetched["folder"], len(fetched["evals"]), fetched["unreadable"]) == ("kept", 10, {})
    assert fetched["run"]["id"] == "smp7q2kax0d4m81v"
    inside.run("analyze", "sample", "--judge", "rules", "-q")
    assert document("review", "label", "smp7", "1", "OVERLY_STRICT")["after"].startswith("OVERLY_STRICT")
    assert document("rubrics", "create", "failure")["new"] is True
    assert document("rubrics", "create", "failure")["rubric"]["version"] == 1
    (inside.folder / "bad.yaml").write_text("x: 1")
    checked = json.loads(inside.run("rubrics", "validate", "failure", "bad.yaml", "--json", code=65).out)
    assert [bool(one["problem"]) for one in checked] == [False, True]


def test_verbose_output_and_log_file_contain_no_secrets(workspace: Workspace) -> None:
    key = "sk-ant-api03-" + "Qw7Zp2Rt9K" * 9 + "AA"
    log = workspace.folder / "own.log"
    ended = workspace.apart.run("explain", "sample", key, "-v", code=66, EVALSCRIBE_LOG=str(log))
    assert "INFO evalscribe.workspace: settings of" in ended.err
    assert "Traceback" not in ended.err
    text = log.read_text("utf-8")
    assert "explain sample" in text
    assert "Traceback" in text
    assert key not in text + ended.err
    assert log.stat().st_mode & 0o077 == 0
    workspace.apart.run("doctor", code=65, EVALSCRIBE_LOG=str(workspace.folder / "no" / "own.log"))


def test_shell_completes_commands_and_options(workspace: Workspace) -> None:
    environment = {"_EVALSCRIBE_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    out = workspace.apart.run(**environment, COMP_WORDS="evalscribe experiments r").out
    assert out.split() == ["run", "runs"]
    assert "--judge" in workspace.apart.run(**environment, COMP_WORDS="evalscribe analyze --j").out.split()


def help_page(name: tuple[str, ...]) -> str:
    command, context = COMMANDS, None
    for word in (*name, ""):
        context = command.make_context(command.name or "evalscribe", [], parent=context, resilient_parsing=True)
        if word:
            command = command.commands[word]
    return command.get_help(context)


PYTHON = re.compile(
    r"INTEGER|FLOAT|BOOLEAN|RANGE|PATH\b|<\w+[ >]|x[<>]=|\bNone\b|\[required|\[default|\bstr\b|\bbool\b"
)
"""Type names of the parser, which help must not show."""


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_help_fits_a_screen_and_shows_no_python_types(name: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = help_page(name)
    lines = page.splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80
    assert PYTHON.findall(page) == []
    for param in ALL[name].params:
        is_flag = getattr(param, "is_flag", False)
        assert param.hidden or is_flag or param.metavar, f"{param.name} would be called after its type"


def test_experiment_run_help_lists_every_config_key() -> None:
    _, _, key_list = help_page(("experiments", "run")).partition("Keys of --config:")
    keys = key_list.partition(".")[0].replace(",", " ").split()
    assert sorted(keys) == sorted(ExperimentConfig.model_fields)


CAPITAL_AND_STOP = re.compile(r"[A-Z`A-Z1-9].*[.…]$", re.S)


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_help_texts_are_sentences(name: tuple[str, ...]) -> None:
    parser = ALL[name]
    assert CAPITAL_AND_STOP.fullmatch(parser.help or "")
    for param in parser.params:
        assert CAPITAL_AND_STOP.fullmatch(param.help or ""), f"{param.name}: {param.help}"

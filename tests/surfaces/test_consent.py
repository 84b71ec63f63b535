"""Consent to paid calls: what each command does with a key in the environment, with and without a terminal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from evalscribe.cli.commands import app
from support.command import CLOSING, InProcessCommand, Workspace
from support.messages_server import MessagesServer
from support.rubric_runs import RUBRIC, run
from support.suite_repository import SuiteRepository
from support.terminal import TerminalCommand

MODEL = "anthropic/claude-opus-5-5"
NO_CONSENT = "no consent to call anthropic/claude-"
QUESTION = f"Call {MODEL} for about "
DATE = ("--date", "2026-11-02")


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "sk-ant-test-0000", "ANTHROPIC_BASE_URL": server.url}


@pytest.fixture
def filled(workspace: Workspace, inside: InProcessCommand) -> InProcessCommand:
    """A folder with a report, a rubric, agent runs, labels, and two runs, the second worse than the first."""
    folder = workspace.folder
    (folder / "polite.yaml").write_text(RUBRIC)
    (folder / "runs.jsonl").write_text(json.dumps(run("alone")) + "\n")
    (folder / "labels.jsonl").write_text(json.dumps({"subject": {"agent_run": run("alone")}, "label": "polite"}) + "\n")
    SuiteRepository(folder / "suite")
    inside.run("analyze", "sample", "--judge", "rules", "--quiet", *DATE)
    inside.run("import", "sample")
    return inside


REFUSED = {
    "analyze --cascade": ("analyze", "sample", "--cascade"),
    "analyze --rubric": ("analyze", "sample", "--rubric", "failure"),
    "analyze --batch": ("analyze", "sample", "--batch"),
    "explain": ("explain", "sample", "http/001-retry"),
    "judge": ("judge", "failure", "sample", "http/001-retry"),
    "judge --cascade": ("judge", "failure", "sample", "http/001-retry", "--cascade"),
    "judge a rubric of a file": ("judge", "polite.yaml", "runs.jsonl"),
    "judge-eval": ("judge-eval", "polite.yaml", "labels.jsonl"),
    "judge-eval --judge cascade": ("judge-eval", "polite.yaml", "labels.jsonl", "--judge", f"{MODEL},cascade"),
    "compare": ("compare", "room-desk-c1", "room-desk-c2"),
    "explore": ("explore", "why?"),
    "discuss": ("discuss", "smp7q2ka", "--ask", "why?"),
    "apply": ("apply", "smp7q2ka", "R2", "--repo", "suite"),
}
RULES_JUDGE = {
    "analyze": ("analyze", "sample", "--fresh"),
    "analyze --json": ("analyze", "sample", "--json"),
    "analyze a file": ("analyze", "room-desk-c1"),
}


@pytest.mark.parametrize("named_by", ["a key alone", ".env", "evalscribe.toml"])
def test_nothing_is_sent_without_consent(named_by: str, filled: InProcessCommand, anthropic: MessagesServer) -> None:
    """Runs every command that may call a model, with a key in the environment and no terminal."""
    if named_by == ".env":
        (filled.folder / ".env").write_text(f"EVALSCRIBE_JUDGE={MODEL}\n")
    if named_by == "evalscribe.toml":
        (filled.folder / "evalscribe.toml").write_text(f'judge = "{MODEL}"\n')
    for name, words in REFUSED.items():
        ended = filled.run(*words, code=64, **access(anthropic))
        assert NO_CONSENT in ended.err, name
        advice = "Name the model with --judge" if name == "apply" else "Add --yes, or name the model with --judge"
        assert f"which costs money. {advice}." in ended.err, name
    for name, words in RULES_JUDGE.items():
        ended = filled.run(*words, **access(anthropic))
        assert "The rules judge: no consent to call" in ended.err, name
    for words in (*RULES_JUDGE.values(), *REFUSED.values()):
        if words[0] in ("analyze", "compare", "explore") and "--json" not in words:
            filled.run(*words, "--dry-run", **access(anthropic))
    assert anthropic.calls == []


def test_every_command_that_may_spend_money_takes_yes() -> None:
    spending = {name: options for name, options in _options(get_command(app)) if "--budget" in options}
    assert len(spending) > 10
    assert [name for name, options in spending.items() if "--yes" not in options] == []


def _options(command: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _options(below, f"{path} {name}".strip())
    if path and not hasattr(command, "commands"):
        yield path, {flag for parameter in command.params for flag in parameter.opts}


@pytest.mark.parametrize("consent", [("--yes",), ("--judge", MODEL), ("--judge", "claude-opus-5-5"), ()])
def test_model_is_called_with_consent(
    consent: tuple[str, ...], workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    settings = {} if consent else {"EVALSCRIBE_JUDGE": MODEL}
    workspace.run("analyze", made, "--quiet", *consent, **access(anthropic), **settings)
    assert len(anthropic.calls) == 8


def test_missing_consent_does_not_replace_model_verdicts_with_rules(
    workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    workspace.run("analyze", made, "--quiet", "--yes", *DATE, **access(anthropic))
    before, calls = workspace.report.read_bytes(), len(anthropic.calls)
    workspace.run("analyze", made, "--quiet", *DATE, **access(anthropic))
    refused = workspace.run("analyze", made, "--quiet", "--fresh", *DATE, code=64, **access(anthropic))
    assert f"has verdicts of {MODEL}" in refused.err
    assert (workspace.report.read_bytes(), len(anthropic.calls)) == (before, calls)


def test_suggested_explain_command_needs_no_consent(
    workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    """The command that `analyze` suggests names the judge that decided, so it uses stored verdicts."""
    for consent, calls in (((), 0), (("--yes",), 8)):
        out = workspace.run("analyze", made, *consent, "--fresh", **access(anthropic)).out
        proposed = out.partition("Next: `evalscribe ")[2].partition("`")[0].split(" ")
        workspace.run(*proposed, **access(anthropic))
        assert len(anthropic.calls) == calls


def test_dry_run_needs_no_key(filled: InProcessCommand, made: Path, anthropic: MessagesServer) -> None:
    for words in (("analyze", made), ("explore", "why?"), ("compare", "room-desk-c1", "room-desk-c2")):
        ended = filled.run(*words, "--judge", MODEL, "--dry-run")
        assert "tokens, $" in ended.out + ended.err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude-opus-5.5", "is not a known model (did you mean anthropic/claude-opus-5-5?)"),
        ("anthropic/claude-opus-55", "has no known price (did you mean anthropic/claude-opus-5-5?)"),
        ("antropic/claude-opus-5-5", "is not a known model (did you mean anthropic/claude-opus-5-5?)"),
    ],
)
def test_misspelt_model_suggests_the_nearest_known_one(name: str, words: str, workspace: Workspace) -> None:
    assert words in workspace.run("analyze", "sample", "--judge", name, "--dry-run", code=64).err


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "rules  (ANTHROPIC_API_KEY is not set)"),
        ({"ANTHROPIC_API_KEY": "k"}, f"{MODEL}  (ANTHROPIC_API_KEY is set; not called without"),
        ({"EVALSCRIBE_JUDGE": "claude-opus-5-5"}, f"{MODEL}  (environment)"),
    ],
)
def test_doctor_shows_the_judge_and_where_it_comes_from(
    environment: dict[str, str], words: str, workspace: Workspace
) -> None:
    unreachable = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"} if "ANTHROPIC_API_KEY" in environment else {}
    code = 69 if unreachable else 77 if environment else 0
    assert f"judge           {words}" in workspace.run("doctor", code=code, **environment, **unreachable).out


def test_terminal_asks_to_confirm_the_estimate(workspace: Workspace, made: Path, anthropic: MessagesServer) -> None:
    """The question also comes for a model named with --judge. After a no the rules judge, unless --judge was given."""
    chosen = TerminalCommand(workspace.folder, "analyze", made, "--judge", MODEL, **access(anthropic))
    chosen.wait_for(QUESTION)
    chosen.wait_for(" (at most $5 in all)? [y/N] ")
    chosen.type("\n")
    assert chosen.ended() == 64
    assert "was not called" in chosen.shown

    declined = TerminalCommand(workspace.folder, "analyze", made, "--no-discuss", **access(anthropic))
    declined.wait_for(QUESTION)
    declined.type("n\n")
    assert declined.ended() == 0
    assert "The rules judge:" in declined.shown
    assert anthropic.calls == []

    agreed = TerminalCommand(workspace.folder, "analyze", made, "--no-discuss", **access(anthropic))
    agreed.wait_for(QUESTION)
    assert anthropic.calls == []
    agreed.type("y\n")
    assert agreed.ended() == 0
    assert len(anthropic.calls) == 8
    assert CLOSING not in agreed.shown, "a question that nobody waits to answer"


def test_yes_skips_the_question(workspace: Workspace, made: Path, anthropic: MessagesServer) -> None:
    ended = TerminalCommand(workspace.folder, "analyze", made, "--yes", "--no-discuss", **access(anthropic))
    assert ended.ended() == 0
    assert "[y/N]" not in ended.shown
    assert len(anthropic.calls) == 8


def test_closing_prompt_applies_discusses_or_leaves(filled: InProcessCommand, anthropic: MessagesServer) -> None:
    """An id such as `R1` starts `apply`, other text is discussed, an empty line leaves. No declined model is called."""
    terminal = TerminalCommand(filled.folder, "analyze", "sample", *DATE, **access(anthropic))
    terminal.expect(QUESTION)
    terminal.type("n\n")
    terminal.expect(f"{CLOSING}\r\n> ")
    terminal.type("R2\n")
    terminal.expect("Folder of the eval suite's repository: ")
    terminal.type("suite\n")
    terminal.expect(f"Call {MODEL} (at most $5 in all)? [y/N] ")
    terminal.type("n\n")
    terminal.expect("was not called")
    terminal.type("http/001-retry\n")
    terminal.expect(QUESTION)
    terminal.type("n\n")
    terminal.expect("No model is asked")
    terminal.expect("connect")
    terminal.type("\n")
    assert terminal.ended() == 0
    assert anthropic.calls == []

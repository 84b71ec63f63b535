"""`evalscribe discuss`: questions from a pipe, from options and in a terminal, with streamed answers."""

import io
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evalscribe.cli import run
from support import chat_server
from support.command import CLOSING, CompletedCommand, Workspace, end
from support.messages_server import Answer, Call, MessagesServer, events, failure, says, submit, use
from support.suite_repository import RELAXED, SELECT, SuiteRepository, patch
from support.terminal import TerminalCommand
from support.waiting import PATIENCE_S

RUN = "smp7q2ka"
QUESTION = "why is 4 not the model's fault?"
READ = ("read_lines", {"finding": 4, "role": "grader", "path": "test_grader.py", "first": 30, "last": 38})
PROMPT = "\n> "
"""The prompt for the next question."""
QUOTED = 'yield f"http://127.0.0.1:{port + 1}"'
MODEL_ANSWER = f"The grader asks another port [4 grader test_grader.py:36:<RANGE>{QUOTED}</RANGE>]. The server is up."
SHOWN_ANSWER = f"The grader asks another port [4 grader test_grader.py:36 `{QUOTED}`]. The server is up."
DISCUSS = ("discuss", RUN, "--judge", "anthropic/claude-opus-5-5")


@pytest.fixture(scope="module")
def sample_analysis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run(["analyze", "sample", "--judge", "rules", "--date", "2026-11-02", "--quiet"]) == 0
    return folder


@pytest.fixture
def analyzed(workspace: Workspace, sample_analysis: Path) -> Workspace:
    shutil.copytree(sample_analysis, workspace.folder, dirs_exist_ok=True)
    return workspace


class Person(TerminalCommand):
    """A terminal user who reads new output before typing."""

    def says(self, words: str) -> None:
        """Type words at the prompt."""
        self.expect(PROMPT)
        self.type(words)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "sk-ant-of-nobody", "ANTHROPIC_BASE_URL": server.url}


def discuss(analyzed: Workspace, server: MessagesServer, *more: str, code: int = 0) -> CompletedCommand:
    return analyzed.run(*DISCUSS, "--ask", QUESTION, *more, code=code, **access(server))


def streamed(answer: Answer, every_s: float = 0.1) -> Answer:
    """Return the same answer as a stream of pieces."""
    return Answer(pieces=tuple(events(json.loads(answer.body))), every_s=every_s)


def user_files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file outside the store, by path."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".evalscribe" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


def test_question_is_answered_with_verified_citations(analyzed: Workspace) -> None:
    before = user_files(analyzed.folder)
    with MessagesServer([use(READ), says(MODEL_ANSWER)]) as server:
        ended = discuss(analyzed, server)
    assert ended.out == f"{SHOWN_ANSWER}\n\n"
    assert ended.err.startswith("anthropic/claude-opus-5-5 answers, about ")
    assert "a question; at most $5 in all." in ended.err
    assert "Spent: discuss 2 calls $0.0" in ended.err
    assert all(call.body["stream"] for call in server.calls)
    assert user_files(analyzed.folder) == before


def test_openai_model_can_answer(analyzed: Workspace) -> None:
    with chat_server.ChatServer(chat_server.says(MODEL_ANSWER)) as server:
        access_settings = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.url}
        arguments = ("discuss", RUN, "--judge", "openai/gpt-x", "--max-tokens", "900000", "--ask", QUESTION)
        ended = analyzed.run(*arguments, **access_settings)
    assert ended.out == f"{SHOWN_ANSWER}\n\n"


def test_json_answer_is_one_document_per_line(analyzed: Workspace) -> None:
    invented = "It says so [4 log run.log:1:<RANGE>the port is closed\x1b[2J</RANGE>]."
    with MessagesServer([says(MODEL_ANSWER), says(invented)]) as server:
        ended = discuss(analyzed, server, "--ask", "and then?", "--json")
    first, second = map(json.loads, ended.out.splitlines())
    assert first["text"] == SHOWN_ANSWER
    assert first["citations"][0]["finding"] == 4
    assert first["citations"][0]["citation"]["status"] == "verified"
    assert first["citations"][0]["citation"]["target"]["first"] == 36
    assert first["usage"]["calls"] == 1
    assert second["question"] == "and then?"
    assert second["citations"][0]["citation"]["status"] == "unverified"
    assert "\x1b" not in ended.out


def test_piped_questions_are_read_line_by_line(analyzed: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("first?\n\nsecond?\nq\nnever asked\n"))
    with MessagesServer([says("One."), says("Two.")]) as server:
        ended = analyzed.run(*DISCUSS, **access(server))
        assert len(server.calls) == 2
    assert ended.out == "One.\n\nTwo.\n\n"
    roles = [turn["role"] for turn in server.calls[1].body["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_evidence_is_shown_without_a_model_after_a_single_notice(
    analyzed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("4\nlistening port\n"))
    ended = analyzed.run("discuss", RUN)
    assert ended.out.startswith("4. http/001-retry: OVERLY_STRICT (harness)")
    assert "\n4 task TASK.txt:7\n" in ended.out
    assert ended.err.count("No model is asked") == 1
    assert "--judge PROVIDER/MODEL" in ended.err


def test_report_without_stored_evidence_suggests_an_analysis(analyzed: Workspace) -> None:
    shutil.rmtree(analyzed.folder / ".evalscribe")
    ended = analyzed.run("discuss", RUN, "--ask", "4")
    assert "The evidence is missing: the store has nothing of run smp7q2kax0d4m81v" in ended.err
    assert "`evalscribe analyze smp7q2kax0d4m81v`" in ended.err
    assert ended.out.startswith("4. http/001-retry")
    assert "The finding's evidence is missing" in ended.out


def test_unknown_report_and_missing_or_refused_key_are_errors(analyzed: Workspace) -> None:
    assert "report 'none' not found" in analyzed.run("discuss", "none", "--ask", "4", code=66).err
    missing = analyzed.run(*DISCUSS, "--ask", QUESTION, code=77).err
    assert "ANTHROPIC_API_KEY" in missing
    assert "set --judge to `rules` to search the report and its evidence without a model" in missing
    with MessagesServer(failure(401, "authentication_error")) as server:
        assert "refused the key" in discuss(analyzed, server, code=77).err
        assert len(server.calls) == 1


def test_rate_limited_question_is_retried(analyzed: Workspace) -> None:
    with MessagesServer([failure(429, "rate_limit_error", retry_after="0"), says(MODEL_ANSWER)]) as server:
        assert discuss(analyzed, server).out == f"{SHOWN_ANSWER}\n\n"
        assert len(server.calls) == 2


def test_interrupted_stream_is_marked_and_not_retried(analyzed: Workspace) -> None:
    pieces = streamed(says("The grader asks another port, as one sees at once. " * 6)).pieces
    with MessagesServer(Answer(pieces=pieces, cut="half")) as server:
        ended = discuss(analyzed, server, code=69)
        assert len(server.calls) == 1, "what was heard cannot be asked again"
    assert ended.out.startswith("The grader asks another port")
    assert "\n[broken off: " in ended.out


def test_model_refusal_is_reported(analyzed: Workspace) -> None:
    with MessagesServer(says("", stop="refusal")) as server:
        assert "[no answer: the model refused to answer]" in discuss(analyzed, server, code=69).out


def test_invented_quotation_is_marked_unverified(analyzed: Workspace) -> None:
    with MessagesServer(
        says('See [4 grader test_grader.py:36 "assert port == 1"] and [4 grader test_grader.py:1].')
    ) as server:
        ended = discuss(analyzed, server)
    assert '[4 grader test_grader.py:36 "assert port == 1"] (unverified)' in ended.out
    assert "\n[unverified: 1 of 2 citations]\n" in ended.out


def test_endless_reading_stops_after_12_turns(analyzed: Workspace) -> None:
    with MessagesServer(use(READ)) as server:
        ended = discuss(analyzed, server, code=69)
        assert len(server.calls) == 12
    assert "[no answer: no answer within 12 turns and " in ended.out


def test_budget_stops_a_question_between_calls(analyzed: Workspace) -> None:
    read = json.loads(use(READ).body)
    read["usage"]["input_tokens"] = 20_000
    with MessagesServer(Answer(body=json.dumps(read).encode())) as server:
        ended = discuss(analyzed, server, "--budget", "0.5", code=69)
        assert 0 < len(server.calls) < 12
    assert "[no answer: the budget of $0.5 has no room for another call" in ended.out


class PiecesWithSignal(tuple[bytes, ...]):
    """Pieces of an answer; iteration signals this process before piece 40."""

    number: signal.Signals

    def __iter__(self) -> Iterator[bytes]:
        for n, piece in enumerate(super().__iter__()):
            if n == 40:
                os.kill(os.getpid(), self.number)
            yield piece


@pytest.mark.parametrize(
    ("number", "code", "messages"),
    [
        (signal.SIGINT, 130, ("[stopped]", "Spent: discuss 1 call")),
        (signal.SIGTERM, 143, ("terminated", "Spent: discuss 1 call")),
    ],
)
def test_signal_during_an_answer_keeps_the_text_received_so_far(
    analyzed: Workspace, number: signal.Signals, code: int, messages: tuple[str, ...]
) -> None:
    """The received text is printed, and a later question is answered as usual."""
    before = user_files(analyzed.folder)
    answer = streamed(says("word " * 400), 0.02)
    pieces = PiecesWithSignal(answer.pieces)
    pieces.number = number
    with MessagesServer([replace(answer, pieces=pieces), says(MODEL_ANSWER)]) as server:
        ended = discuss(analyzed, server, code=code)
        assert 0 < ended.out.count("word") < 400
        assert all(words in ended.out + ended.err for words in messages)
        assert user_files(analyzed.folder) == before
        assert discuss(analyzed, server).out == f"{SHOWN_ANSWER}\n\n"


def test_kill_during_an_answer_leaves_files_unchanged(analyzed: Workspace) -> None:
    before = user_files(analyzed.folder)
    with MessagesServer([streamed(says("word " * 400)), says(MODEL_ANSWER)]) as server:
        process = analyzed.start(*DISCUSS, "--ask", QUESTION, **access(server))
        assert process.stdout is not None
        assert process.stdout.read(8) == "word wor"
        assert server.sent == [], "the answer is not whole yet"
        ended, _ = end(process, signal.SIGKILL)
        assert ended.code == -9
        assert user_files(analyzed.folder) == before
        assert discuss(analyzed, server).out == f"{SHOWN_ANSWER}\n\n"


def test_closed_output_pipe_stops_the_answer_without_error(analyzed: Workspace) -> None:
    answer = streamed(says("word " * 2000), 0.05)
    with MessagesServer(answer) as server:
        process = analyzed.start(*DISCUSS, "--ask", QUESTION, **access(server))
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(4)
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=PATIENCE_S) == 0
        assert server.ended.wait(PATIENCE_S)
    assert server.sent[0] < len(answer.pieces) // 2
    assert "Spent: discuss 1 call" in err
    assert "Traceback" not in err


def test_analysis_in_a_terminal_ends_with_a_discussion(workspace: Workspace, made: Path) -> None:
    """Ctrl-C stops an answer or, at the prompt, the discussion. Escape sequences in answers are removed."""
    replies = iter([streamed(says("word " * 400)), says("It is 4. \x1b]0;pwned\x07\x1b[2J")])

    def script(call: Call) -> Answer:
        return submit() if "submit" in json.dumps(call.body["tools"]) else next(replies)

    with MessagesServer(script) as server:
        person = Person(workspace.folder, "analyze", made, *DISCUSS[2:], **access(server))
        person.expect("Call anthropic/claude-opus-5-5 for about ")
        person.type("y\n")
        person.expect("anthropic/claude-opus-5-5 answers, about ")
        person.expect(CLOSING[-20:])
        person.says("first?\n")
        person.expect("Call anthropic/claude-opus-5-5 for about ")
        person.type("y\n")
        person.expect("word word")
        person.interrupt()
        person.expect("[stopped]")
        person.says("second?\n")
        person.expect("It is 4.")
        person.expect(PROMPT)
        person.reads()
        person.interrupt()
        assert person.ended() == 0
    assert "\x1b]0" not in person.shown
    assert "\x1b[2J" not in person.shown
    assert "word" in json.dumps(server.calls[-1].body["messages"]), "what was heard is part of the discussion"


@pytest.mark.parametrize(
    ("more", "ci", "opens"), [("", "", True), ("--no-discuss", "", False), ("--quiet", "", False), ("", "true", False)]
)
def test_analysis_opens_no_discussion_if_unattended(
    analyzed: Workspace, monkeypatch: pytest.MonkeyPatch, more: str, ci: str, opens: bool
) -> None:
    monkeypatch.setattr("evalscribe.cli.output.in_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    ended = analyzed.run("analyze", "sample", "--judge", "rules", *filter(None, [more]), CI=ci)
    assert ("No model is asked" in ended.err) == opens


def test_discussion_shares_the_budget_of_the_analysis(
    workspace: Workspace, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    with MessagesServer() as server:
        arguments = ("analyze", made, "--judge", "anthropic/claude-opus-5-5", "--budget", "3", "--discuss")
        assert "a question; at most $2.9" in workspace.run(*arguments, **access(server)).err


def test_analyze_refuses_discuss_together_with_json(workspace: Workspace) -> None:
    assert "--discuss needs a person" in workspace.run("analyze", "sample", "--discuss", "--json", code=64).err


def test_implementing_a_recommendation_needs_a_repository_and_approval(
    analyzed: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, before = SuiteRepository(tmp_path / "suite"), user_files(analyzed.folder)
    with MessagesServer([patch(), says("Ask a person.")]) as server:
        without_repository = analyzed.run(*DISCUSS, "--ask", "implement R2", code=64, **access(server))
        assert "with `--repo DIR`" in without_repository.err
        json_only = analyzed.run(
            *DISCUSS, "--json", "--repo", suite.suite, "--ask", "apply R2", code=64, **access(server)
        )
        assert (json_only.out, "use `evalscribe apply`" in json_only.err) == ("", True)
        assert server.calls == []
        arguments = (*DISCUSS, "--ask", "please implement R2", "--ask", "and now?", "--repo", suite.suite)
        shown = analyzed.run(*arguments, **access(server))
    assert f"-{SELECT}\n+{RELAXED}" in shown.out
    assert "Nothing was changed. After a person has agreed" in shown.out
    assert re.search(r"Spent: propose 1 call \$[0-9.]+, discuss 1 call \$", shown.err), "out of one budget"
    assert suite.branches == ["main"]
    assert user_files(analyzed.folder) == before


def test_recommendation_is_implemented_from_a_discussion(analyzed: Workspace, tmp_path: Path) -> None:
    suite = SuiteRepository(tmp_path / "suite")

    def script(call: Call) -> Answer:
        return patch() if "submit_patch" in json.dumps(call.body["tools"]) else says("Yes, do.")

    with MessagesServer(script) as server:
        person = Person(analyzed.folder, *DISCUSS, **access(server))
        person.says("should we implement R2?\n")
        person.expect("Call anthropic/claude-opus-5-5 for about ")
        person.type("y\n")
        person.expect("Yes, do.")
        assert suite.branches == ["main"], "what a model says is no yes"
        person.says("implement R2\n")
        person.expect("Folder of the eval suite's repository: ")
        person.type(f"{suite.suite}\n")
        person.expect("Apply this to a new branch evalscribe/R2-smp7q2ka")
        person.type("yes\n")
        person.expect("Committed as ")
        person.says("what was done?\n")
        person.expect("Yes, do.")
        person.says("\n")
        assert person.ended() == 0
    assert ": R2, Make `PLW2901` a warning: `ruff.toml`" in json.dumps(server.calls[-1].body), "as the report is now"
    assert suite.branches == ["evalscribe/R2-smp7q2ka", "main"]
    report = next(path for path in analyzed.reports if path.name.startswith(RUN))
    assert ": R2, Make `PLW2901` a warning: `ruff.toml`" in report.read_text()

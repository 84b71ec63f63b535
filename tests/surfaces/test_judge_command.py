"""`evalscribe judge` with subjects of every kind, against a Messages API on loopback."""

import json
import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalscribe.llm.batch import BatchPacing
from support import run_snapshots
from support.batches_server import BatchesServer, answer
from support.command import InProcessCommand, Workspace, end
from support.messages_server import FAILED_ATTEMPTS, Answer, Call, MessagesServer, failure
from support.rubric_runs import KEY, POLITE, RUBRIC, access, run, says_json
from support.waiting import wait_until


@pytest.fixture
def folder(workspace: Workspace) -> Path:
    """A workspace with a rubric and a file of eight agent runs."""
    rubrics = workspace.folder / "prompts" / "rubrics"
    rubrics.mkdir(parents=True)
    (workspace.folder / "evalscribe.toml").touch()
    (rubrics / "polite.yaml").write_text(RUBRIC)
    lines = [json.dumps(run(f"run-{n}")) for n in range(8)]
    (workspace.folder / "runs.jsonl").write_text("\n".join(lines))
    (workspace.folder / "one.json").write_text(json.dumps(run("alone")))
    return workspace.folder


@pytest.fixture
def judging(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcessCommand:
    return InProcessCommand(folder, monkeypatch, capsys)


def test_agent_runs_of_files_are_judged_and_printed(judging: InProcessCommand) -> None:
    with MessagesServer(says_json(POLITE)) as server:
        ended = judging.run("judge", "polite", "runs.jsonl", "one.json", **access(server))
        assert len(server.calls) == 9
    assert re.findall(r"^(\S+): polite$", ended.out, re.M) == [*(f"run-{n}" for n in range(8)), "alone"]
    assert '  because: It greets [T0B1 "Good morning"].' in ended.out
    assert "9 results, 0 could not be judged\nCitations: 9 verified, 0 relocated, 0 unverified\n" in ended.out
    assert re.search(r"^Spent: judge 9 calls \$0\.\d\d$", ended.out, re.M)
    assert "anthropic/claude-opus-5-5 with polite@1 for 9 subjects: about" in ended.err


def test_cached_result_is_used_unless_fresh(judging: InProcessCommand) -> None:
    with MessagesServer(says_json(POLITE)) as server:
        judging.run("judge", "polite", "one.json", **access(server))
        again = judging.run("judge", "polite", "one.json", **access(server))
        assert len(server.calls) == 1
        assert "alone: polite (cached)" in again.err
        assert again.out.endswith("Spent: nothing\n")
        judging.run("judge", "polite@1", "one.json", "--fresh", **access(server))
        assert len(server.calls) == 2


def test_failed_fresh_request_is_not_reported_as_cached(judging: InProcessCommand) -> None:
    with MessagesServer([says_json(POLITE), failure(400, "invalid_request_error")]) as server:
        judging.run("judge", "polite", "one.json", **access(server))
        again = judging.run("judge", "polite", "one.json", "--fresh", code=65, **access(server))
    assert "alone: not judged" in again.out
    assert "(cached)" not in again.err


def test_another_model_does_not_use_the_cached_result(judging: InProcessCommand) -> None:
    with MessagesServer(says_json(POLITE)) as server:
        judging.run("judge", "polite", "one.json", **access(server))
        judging.run("judge", "polite", "one.json", "--judge", "anthropic/claude-haiku-5-5", **access(server))
        assert [call.body["model"] for call in server.calls] == ["claude-opus-5-5", "claude-haiku-5-5"]


def test_json_output_is_one_array_with_resolved_citations(judging: InProcessCommand) -> None:
    with MessagesServer(says_json(POLITE)) as server:
        ended = judging.run("judge", "polite", "one.json", "--json", **access(server))
    (result,) = json.loads(ended.out)
    (citation,) = result["output"]["because"]["citations"]
    assert result["agent_run_id"] == "alone"
    assert (result["result_type"], result["label"], result["cached"]) == ("direct_result", {"label": "polite"}, False)
    assert (citation["status"], citation["target"]["item"]) == ("verified", "T0B1")
    assert "1 result, 0 could not be judged" in ended.err


def test_invented_quotation_is_marked_unverified(judging: InProcessCommand) -> None:
    invented = {"label": "rude", "because": "It swears [T0B1:<RANGE>damned be you</RANGE>]."}
    with MessagesServer(says_json(invented)) as server:
        ended = judging.run("judge", "polite", "one.json", **access(server))
    assert '[T0B1 "damned be you"] (unverified).' in ended.out
    assert "1 unverified" in ended.out


def test_failed_subject_is_reported_and_the_others_are_judged(judging: InProcessCommand) -> None:
    def script(call: Call) -> Answer:
        bad = "run-3" in json.dumps(call.body["messages"])
        return failure(400, "invalid_request_error", "no") if bad else says_json(POLITE)

    with MessagesServer(script) as server:
        ended = judging.run("judge", "polite", "runs.jsonl", **access(server))
    assert "7 results, 1 could not be judged" in ended.out
    assert re.search(r"^run-3: not judged: .*400", ended.out, re.M)


def test_concurrency_option_limits_parallel_requests(judging: InProcessCommand) -> None:
    with MessagesServer(says_json(POLITE), latency_s=0.1) as server:
        server.gather(2)
        judging.run("judge", "polite", "runs.jsonl", "--concurrency", "2", **access(server))
        assert (server.peak, len(server.calls)) == (2, 8)


def test_interrupted_judging_keeps_finished_results(workspace: Workspace, judging: InProcessCommand) -> None:
    def script(call: Call) -> Answer:
        answer = says_json(POLITE)
        return answer if call.number < 4 else replace(answer, held=True)

    with MessagesServer(script) as server:
        process = workspace.start("judge", "polite", "runs.jsonl", **access(server))
        wait_until(lambda: len(server.calls) == 8, "the second four asked")
        ended, _ = end(process, signal.SIGINT)
        assert ended.code == 130, ended
        assert "Traceback" not in ended.err
    with MessagesServer(says_json(POLITE)) as server:
        again = judging.run("judge", "polite", "runs.jsonl", **access(server))
        assert again.err.count("(cached)") == 4
        assert len(server.calls) == 4


def test_missing_file_is_reported_before_a_missing_key(judging: InProcessCommand) -> None:
    assert "no-such-file.json" in judging.run("judge", "polite", "no-such-file.json", code=66).err
    assert "ANTHROPIC_API_KEY" in judging.run("judge", "polite", "runs.jsonl", code=77).err


def test_budget_too_small_for_one_subject_sends_no_request(judging: InProcessCommand) -> None:
    with MessagesServer(says_json(POLITE)) as server:
        ended = judging.run("judge", "polite", "runs.jsonl", "--budget", "0.01", code=64, **access(server))
        assert server.calls == []
    assert "0 results, 8 could not be judged" in ended.out
    assert "run again with a larger budget" in ended.out


def test_budget_is_shared_by_all_subjects(judging: InProcessCommand) -> None:
    """Each answer costs about $0.40, so a budget of $1 has room for two of eight subjects."""
    polite = says_json(POLITE)
    body = json.loads(polite.body)
    costly = replace(polite, body=json.dumps({**body, "usage": {**body["usage"], "output_tokens": 20_000}}).encode())
    with MessagesServer(costly) as server:
        ended = judging.run("judge", "polite", "runs.jsonl", "--budget", "1", "--concurrency", "1", **access(server))
        assert len(server.calls) == 2
    assert "2 results, 6 could not be judged" in ended.out
    assert "run again with a larger budget" in ended.out


def test_several_rollouts_show_votes_and_agreement(judging: InProcessCommand) -> None:
    rubric = judging.folder / "prompts" / "rubrics" / "often.yaml"
    rubric.write_text(f"{RUBRIC}n_rollouts_per_input: 3\n")
    with MessagesServer(
        lambda call: says_json({**POLITE, "label": ["polite", "rude"][call.number % 3 == 2]})
    ) as server:
        ended = judging.run("judge", "often", "one.json", "--concurrency", "1", **access(server))
    assert "  votes on label: polite 2, rude 1\n  agreement: 0.67 of 3 rollouts" in ended.out


def test_all_failures_of_a_run_are_judged_and_stored(judging: InProcessCommand) -> None:
    first = judging.run("judge", "failure", "sample", "--judge", "rules", "--json")
    results = json.loads(first.out)
    assert len(results) == 10
    assert all(citation["status"] == "verified" for r in results for citation in r["output"]["reasoning"]["citations"])
    by_prefix = judging.run("judge", "failure", results[0]["agent_run_id"][:6], "--judge", "rules", "--json")
    assert json.loads(by_prefix.out) == results


def test_evals_are_selected_by_name_after_their_run(judging: InProcessCommand) -> None:
    named = ("sample", "query/007-range", "002-loop", "query/007-range")
    ended = judging.run("judge", "failure", *named, "--judge", "rules", "--json")
    names = [result["agent_run_id"].partition("/")[2] for result in json.loads(ended.out)]
    assert names == ["query/007-range", "style/002-loop"]
    unknown = judging.run("judge", "failure", "sample", "query/009-none", "--judge", "rules", code=66)
    assert "run" in unknown.err


def test_run_without_failures_gives_no_results(judging: InProcessCommand) -> None:
    run_snapshots.write(judging.folder / "clean", 0)
    ended = judging.run("judge", "failure", "clean", "--judge", "rules")
    assert "lists no failed evals" in ended.err
    assert "0 results, 0 could not be judged" in ended.out


def test_rules_judge_refuses_agent_runs_and_other_rubrics(judging: InProcessCommand) -> None:
    ended = judging.run("judge", "failure", "one.json", "--judge", "rules", code=65)
    assert "alone: not judged: the rules judge failed evals only" in ended.out
    ended = judging.run("judge", "polite", "sample", "--judge", "rules", code=64)
    assert "the rules cannot judge by polite@1" in ended.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "broken.json: no JSON", id="half a JSON"),
        pytest.param('{"transcripts": [{"messages": [{"role": "alien"}]}]}', "alien", id="unknown role"),
        pytest.param('{"transcripts": []}', "transcripts", id="no transcript"),
    ],
)
def test_invalid_agent_run_file_is_reported_with_its_name(text: str, message: str, judging: InProcessCommand) -> None:
    (judging.folder / "broken.json").write_text(text)
    with MessagesServer(says_json(POLITE)) as server:
        ended = judging.run("judge", "polite", "broken.json", code=65, **access(server))
        assert server.calls == []
    assert "broken.json" in ended.err
    assert message in ended.err


def test_terminal_escapes_of_a_subject_are_not_printed(judging: InProcessCommand) -> None:
    (judging.folder / "evil.json").write_text(json.dumps(run("a\x1b[31mb\u202e")))
    with MessagesServer(says_json({**POLITE, "because": "\x1b]0;owned\x07 red"})) as server:
        ended = judging.run("judge", "polite", "evil.json", **access(server))
    assert "\x1b" not in ended.out + ended.err
    assert "\u202e" not in ended.out + ended.err


def test_transcript_beyond_the_context_window_is_read_in_parts(judging: InProcessCommand) -> None:
    needle = "You are a fool and so is your mother"
    filler = "I will look at the next file and tell you what it says. " * 1000
    messages = [{"role": "assistant", "content": f"{n} {filler}{needle if n == 70 else ''}"} for n in range(75)]
    (judging.folder / "long.json").write_text(json.dumps({"id": "long", "transcripts": [{"messages": messages}]}))

    def script(call: Call) -> Answer:
        text = call.body["messages"][-1]["content"]
        text = text if isinstance(text, str) else "".join(part.get("text", "") for part in text)
        cited = f"[T0B70:<RANGE>{needle}</RANGE>]"
        if "You read part" in text:
            return says_json({"observations": [f"It insults {cited}."] if needle in text else []})
        return says_json({"label": "rude", "because": f"It insults {cited}."})

    with MessagesServer(script) as server:
        ended = judging.run("judge", "polite", "long.json", "--budget", "90", **access(server))
        requests = Counter("You read part" in json.dumps(call.body) for call in server.calls)
    assert requests[True] > 10
    assert requests[False] == 1
    assert "long: rude" in ended.out
    assert f'[T0B70 "{needle}"].' in ended.out
    assert "1 verified, 0 relocated, 0 unverified" in ended.out
    assert re.search(r"observe \d+ calls \$\d", ended.out)


def test_batch_contains_the_requests_of_all_subjects(
    judging: InProcessCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalscribe.llm.batch.BatchPacing", lambda: BatchPacing(quiet_s=1.0, poll_s=0.05))

    def polite(_key: str, _params: dict[str, Any]) -> dict[str, Any]:
        return {"type": "succeeded", "message": answer(f"<response>{json.dumps(POLITE)}</response>")}

    command = ("judge", "polite", "runs.jsonl", "--batch")
    with BatchesServer(polite) as server:
        access = {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": server.url,
            "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5",
        }
        ended = judging.run(*command, **access)
        assert [len(batch.requests) for batch in server.batches] == [8]
        cached = judging.run(*command, **access)
        assert [len(batch.requests) for batch in server.batches] == [8]
        fresh = judging.run(*command, "--fresh", **access)
        assert [len(batch.requests) for batch in server.batches] == [8, 8]
        assert server.singles == []
    assert "8 results, 0 could not be judged" in ended.out
    assert [("Spent: nothing" in one.out, "Spent: judge 8 calls" in one.out) for one in (ended, cached, fresh)] == [
        (False, True),
        (True, False),
        (False, True),
    ]


def test_batch_is_refused_for_other_providers(judging: InProcessCommand) -> None:
    chosen = ("--batch", "--judge", "openai/gpt-9", "--max-tokens", "90000")
    ended = judging.run("judge", "polite", "one.json", *chosen, code=64, OPENAI_API_KEY="sk-test")
    assert "--batch works only with Anthropic models" in ended.err


def test_cascade_asks_the_expensive_model_only_about_unsure_answers(judging: InProcessCommand) -> None:
    def script(call: Call) -> Answer:
        if "haiku" not in call.body["model"]:
            return says_json({"label": "rude", "because": "I disagree with [A0] about [T0B1]."})
        sure = "run-3" not in json.dumps(call.body["messages"])
        return says_json({"sure": sure, "answer": {"label": "polite", "because": "It greets [T0B1]."}})

    with MessagesServer(script) as server:
        ended = judging.run("judge", "polite", "runs.jsonl", "--cascade", "--yes", "--json", **access(server))
        assert Counter(call.body["model"] for call in server.calls) == {"claude-haiku-5-5": 8, "claude-opus-5-5": 1}
        again = judging.run("judge", "polite", "runs.jsonl", "--cascade", "--yes", **access(server))
        assert len(server.calls) == 9
    results = json.loads(ended.out)
    assert Counter((result["stage"], result["output"]["label"]) for result in results) == {
        ("tag", "polite"): 7,
        ("judge", "rude"): 1,
    }
    assert results[3]["citations"] == {"verified": 2, "relocated": 0, "unverified": 0}
    assert [c["status"] for c in results[3]["output"]["because"]["citations"]] == ["verified", "verified"]
    assert re.search(r"Spent: tag 8 calls under \$0\.01, judge 1 call \$", ended.err)
    assert again.err.count("(cached)") == 8
    assert again.out.count("\n  tag: anthropic/claude-haiku-5-5 with polite@1\n") == 7
    assert again.out.count("\n  judge: anthropic/claude-opus-5-5 with polite@1\n") == 1


@pytest.mark.parametrize("cause", FAILED_ATTEMPTS)
def test_failed_judging_keeps_earlier_results(cause: str, judging: InProcessCommand) -> None:
    script, more, code = FAILED_ATTEMPTS[cause]
    with MessagesServer(says_json(POLITE)) as server:
        judging.run("judge", "polite", "one.json", **access(server))
    with MessagesServer(script) as server:
        judging.run("judge", "polite", "one.json", "--fresh", *more, code=code, **access(server))
    with MessagesServer(failure(401, "authentication_error")) as server:
        assert "alone: polite (cached)" in judging.run("judge", "polite", "one.json", **access(server)).err
        assert server.calls == []

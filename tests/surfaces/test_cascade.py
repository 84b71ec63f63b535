"""`--cascade` against a loopback Messages API: which model is asked what, and how the report shows it."""

import json
import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Workspace, end
from support.messages_server import Answer, Call, MessagesServer, says, submit
from support.report_pages import report_at
from support.waiting import wait_until

HAIKU, OPUS = "claude-haiku-5-5", "claude-opus-5-5"
WITHOUT_RULES = "[cascade]\nrules = false\n"
QUOTE = {
    "role": "output",
    "path": "convex/index.ts",
    "first": 1,
    "last": 1,
    "text": 'import { query } from "./_generated/server";',
}
UNFAIR = "prove it, or prove that it is fair"
"""Text that occurs only in the shipped rubric for unfair checks."""


def access(server: MessagesServer) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "sk-ant-test-0000",
        "ANTHROPIC_BASE_URL": server.url,
        "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5",
    }


def model_and_eval(call: Call) -> tuple[str, str]:
    """Return the model that was called and the name of the eval in its prompt."""
    match = re.search(r"Eval: (\S+)", call.body["messages"][0]["content"][0]["text"])
    assert match
    return call.body["model"], match[1].rpartition("/")[2]


def tag_verdict(*tags: str, sure: bool = True, **fields: object) -> Answer:
    """Return a verdict of the cheap model."""
    return submit(tags=list(tags), sure=sure, citations=[QUOTE], **fields)


def answer_by_eval(call: Call) -> Answer:
    """Answer as the cheap model, in a cycle of four: a sure verdict, a tag, an unsure verdict, and unusable text."""
    model, name = model_and_eval(call)
    if model == OPUS:
        return submit(citations=[QUOTE], classification="OVERLY_STRICT", cause_kind="grader")
    kinds = [tag_verdict(), tag_verdict("unfair-check"), tag_verdict(sure=False), says("I would rather not say.")]
    return kinds[int(name[:3]) % 4]


def write_settings(workspace: Workspace, text: str) -> None:
    (workspace.folder / "evalscribe.toml").write_text(text)


def test_each_failure_stops_at_the_first_stage_that_decides_it(workspace: Workspace, made: Path) -> None:
    write_settings(workspace, WITHOUT_RULES)
    with MessagesServer(answer_by_eval) as server:
        ended = workspace.run("analyze", made, "--cascade", "--yes", **access(server))
        call_counts = Counter(map(model_and_eval, server.calls))
        cheap = {name for model, name in call_counts if model == HAIKU}
        dear = {name[:3] for model, name in call_counts if model == OPUS}
        assert set(call_counts.values()) == {1}
        assert len(cheap) == 8
        assert dear == {"001", "002", "003", "005", "006", "007"}
        asked_with_rubric = {
            model_and_eval(call)[1][:3] for call in server.calls if UNFAIR in json.dumps(call.body["system"])
        }
        assert asked_with_rubric == {"001", "005"}, "only what is tagged is judged by the tag's rubric"
        assert [tool["name"] for tool in server.calls[0].body["tools"]] == ["submit"]
        again = json.loads(workspace.run("analyze", made, "--cascade", "--yes", "--json", **access(server)).out)
        assert len(server.calls) == 14, "all is known"
    text = workspace.report.read_text()
    report = report_at(workspace.report)
    assert text.count("· 0.90 by anthropic/claude-haiku-5-5 (tag)") == 2
    assert text.count("· 0.90 by anthropic/claude-opus-5-5 (judge)") == 4
    assert text.count("· 0.90 by `anthropic/claude-opus-5-5 with unfair-check@1` (judge)") == 2
    (row,) = [line for line in text.splitlines() if line.startswith("| Cascade |")]
    assert "anthropic/claude-haiku-5-5 decided 2, " in row
    assert "against asking anthropic/claude-opus-5-5 for all |" in row
    assert report.cascade is not None
    assert report.cascade.spent > 0 < report.cascade.saved
    assert again["changed"] is False
    assert again["cascade"] == report.cascade.model_dump(mode="json")
    assert {finding["judge"]["stage"] for finding in again["findings"]} == {"tag", "judge"}
    assert again["usage"]["stages"] == []
    assert re.search(r"\nSpent: tag 8 calls under \$0\.01, judge 6 calls \$0\.\d\d\n", ended.out)
    assert "Stage tag: anthropic/claude-haiku-5-5 for 8 of 8 verdicts: about" in ended.err
    assert "Stage judge: anthropic/claude-opus-5-5 for at most 8 of 8 verdicts: about" in ended.err


def test_models_are_asked_only_about_failures_left_undecided_by_rules(workspace: Workspace) -> None:
    def script(call: Call) -> Answer:
        return (
            tag_verdict("unfair-check") if model_and_eval(call)[0] == HAIKU else submit(classification="AMBIGUOUS_TASK")
        )

    with MessagesServer(script) as server:
        document = json.loads(workspace.run("analyze", "sample", "--cascade", "--yes", "--json", **access(server)).out)
        assert [model_and_eval(call) for call in server.calls] == [(HAIKU, "007-range"), (OPUS, "007-range")]
        explanation = workspace.run("explain", "sample", "007-range", "--cascade", "--yes", **access(server)).out
        assert len(server.calls) == 2, "explain asks the same question"
        assert (
            "Judge   anthropic/claude-opus-5-5 with unfair-check@1 (judge), 0.90\nTags    unfair-check\n" in explanation
        )
    stages = Counter(finding["judge"]["stage"] for finding in document["findings"])
    assert stages == {"rules": 9, "judge": 1}
    assert document["cascade"]["decided"][0] == {"judge": "rules@6", "evals": 9}
    assert [stage["stage"] for stage in document["usage"]["stages"]] == ["tag", "judge"]
    assert document["usage"]["calls"] == sum(stage["calls"] for stage in document["usage"]["stages"]) == 2
    (report,) = [path for path in workspace.reports if "| Cascade |" in path.read_text()]
    assert "rules@6 (rules)" in report.read_text()


def test_killed_cascade_repeats_only_calls_in_flight(workspace: Workspace, made: Path) -> None:
    write_settings(workspace, WITHOUT_RULES)

    def slow(call: Call) -> Answer:
        return replace(submit(), held=True) if model_and_eval(call)[0] == OPUS else tag_verdict(sure=False)

    with MessagesServer(slow) as server:
        process = workspace.start("analyze", made, "--cascade", "--yes", **access(server))
        wait_until(lambda: sum(model_and_eval(call)[0] == OPUS for call in server.calls) == 4, "four expensive calls")
        end(process, signal.SIGKILL)
        server._script = answer_by_eval
        workspace.run("analyze", made, "--cascade", "--yes", **access(server))
        call_counts = Counter(map(model_and_eval, server.calls))
    assert {name: times for name, times in call_counts.items() if times > 1}.keys() <= {
        c for c in call_counts if c[0] == OPUS
    }
    assert sum(times for (model, _), times in call_counts.items() if model == HAIKU) == 8
    assert sum(call_counts.values()) - len(call_counts) == 4, "what was in flight"


def test_failures_beyond_the_budget_keep_the_tag_verdict_and_are_judged_later(workspace: Workspace, made: Path) -> None:
    write_settings(workspace, WITHOUT_RULES)

    def script(call: Call) -> Answer:
        return tag_verdict(sure=False) if model_and_eval(call)[0] == HAIKU else submit(citations=[QUOTE])

    with MessagesServer(script) as server:
        poor = workspace.run("analyze", made, "--cascade", "--yes", "--budget", "0.1", "--json", **access(server))
        document = json.loads(poor.out)
        dear = sum(model_and_eval(call)[0] == OPUS for call in server.calls)
        stages = Counter(finding["judge"]["stage"] for finding in document["findings"])
        assert dear < 8
        assert stages["tag"] >= 8 - dear > 0
        tag_findings = [finding for finding in document["findings"] if finding["judge"]["stage"] == "tag"]
        assert all(
            finding["uncertain"] and "Nobody looked closer: the budget" in finding["reasoning"]
            for finding in tag_findings
        )
        rich = json.loads(workspace.run("analyze", made, "--cascade", "--yes", "--json", **access(server)).out)
        assert {finding["judge"]["stage"] for finding in rich["findings"]} == {"judge"}
        assert sum(model_and_eval(call)[0] == HAIKU for call in server.calls) == 8, "the cheap answers are known"


def test_dry_run_estimates_each_stage(workspace: Workspace, made: Path, anthropic: MessagesServer) -> None:
    ended = workspace.run("analyze", made, "--cascade", "--dry-run", **access(anthropic))
    assert "\nStage rules: rules@6 for 6 of 8 verdicts: free\n" in ended.out
    tag = rf"\nStage tag: anthropic/{HAIKU} for 2 of 8 verdicts: about [\d,]+ tokens, under \$0\.01\n"
    assert re.search(tag, ended.out)
    assert f"Stage judge: anthropic/{OPUS} for at most 2 of 8 verdicts: about" in ended.out
    assert anthropic.calls == []


def test_cascade_models_come_from_settings_and_command_line(workspace: Workspace, made: Path) -> None:
    write_settings(workspace, '[cascade]\ntag = "anthropic/claude-one"\njudge = "anthropic/claude-two"\ntags = {}\n')
    with MessagesServer(
        lambda call: tag_verdict(sure=False) if call.body["model"] == "claude-one" else submit()
    ) as server:
        bound = ("--cascade", "--yes", "--max-tokens", "900000", "--quiet")
        workspace.run("analyze", made, *bound, **access(server))
        assert Counter(call.body["model"] for call in server.calls) == {"claude-one": 2, "claude-two": 2}
        tool = server.calls[0].body["tools"][0]["input_schema"]["properties"]
        assert "enum" not in tool["tags"]["items"]
        text = workspace.report.read_text()
        assert re.search(r"about [\d,]+ tokens spent, [\d,]+ tokens saved", text)
        chosen = (*bound, "--judge", "anthropic/claude-three", "--dry-run")
        planned = workspace.run("analyze", made, *chosen, **access(server)).out
        assert "Stage judge: anthropic/claude-three for at most 2 of 8 verdicts" in planned


@pytest.mark.parametrize(
    ("arguments", "config", "message"),
    [
        (["--cascade", "--yes", "--judge", "rules"], "", "--cascade needs models"),
        (["--judge", "rules", "--rubric", "failure"], "", "--rubric needs a model"),
        (["--rubric", "helpfulness"], "", "does not judge failures"),
        (["--cascade"], "[cascade]\ncheap = 'x'\n", "line 2: `cascade.cheap` is not a setting"),
        (["--cascade"], "[cascade]\n\n[cascade.tags.a]\nabout = 'x'\n", "`cascade.tags.a.rubric` field required"),
        (["--cascade"], "[cascade.tags.'No Tag']\nabout = 'x'\nrubric = 'y'\n", "line 1: `cascade.tags.No Tag`"),
    ],
)
def test_invalid_cascade_options_are_refused_before_any_call(
    arguments: list[str], config: str, message: str, workspace: Workspace, made: Path, anthropic: MessagesServer
) -> None:
    write_settings(workspace, config)
    ended = workspace.run("analyze", made, *arguments, code=64, **access(anthropic))
    assert message in ended.err
    assert anthropic.calls == []
    assert workspace.reports == []


CUSTOM_RUBRIC = """\
rubric_text: Blame nobody but the model.
output_schema:
  type: object
  properties:
    classification: {type: string, enum: [MODEL_FAULT, KNOWN_GAP]}
  required: [classification]
"""


def test_custom_rubric_judges_and_is_named_in_the_report(workspace: Workspace, made: Path) -> None:
    folder = workspace.folder / "prompts" / "rubrics"
    folder.mkdir(parents=True)
    (folder / "stern.yaml").write_text(CUSTOM_RUBRIC)
    (workspace.folder / "evalscribe.toml").write_text("")

    def script(call: Call) -> Answer:
        label = "OVERLY_STRICT" if len(call.body["messages"]) == 1 else "MODEL_FAULT"
        return submit(classification=label)

    with MessagesServer(script) as server:
        ended = workspace.run("analyze", made, "--rubric", "stern", **access(server))
        body = server.calls[0].body
    assert "Blame nobody but the model." in json.dumps(body["system"])
    labels = body["tools"][-1]["input_schema"]["properties"]["classification"]["enum"]
    assert labels == ["MODEL_FAULT", "KNOWN_GAP"]
    assert len(server.calls) == 16, "another label is sent back"
    text = workspace.report.read_text()
    assert "`anthropic/claude-opus-5-5 with stern@1` with the workspace's own prompts" in text
    assert "own prompts" in ended.err.lower()
    (folder / "stern.yaml").write_text(CUSTOM_RUBRIC.replace("nobody", "no one"))
    with MessagesServer() as server:
        ended = workspace.run("analyze", made, "--rubric", "stern", **access(server))
        assert server.calls == [], "the stored version judges"
    assert "differs from version 1" in ended.out

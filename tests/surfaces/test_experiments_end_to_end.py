"""All experiment commands in sequence, typed as by a user, with the ids that earlier commands printed.

The component and the worker processes are real; a loopback Messages API stands in for the model.
"""

import json
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import yaml

from evalscribe.sample import tickets_file
from evalscribe.sample.support_agent import ORDERS
from support.command import NEXT, CompletedCommand, Workspace
from support.messages_server import Answer, Call, MessagesServer, says

AGENT = "support_agent=python:evalscribe.sample.support_agent"
SLOW = """\
import threading


def support_agent(question):
    threading.Event().wait()
"""
PROMPT = {
    "model": "anthropic/claude-haiku-5-5",
    "messages": [
        {"role": "system", "content": f"Answer in JSON from this: {json.dumps(ORDERS)}"},
        {"role": "user", "content": "{{input.question}}"},
    ],
}
CREATE = """
evalscribe experiments create
  --name support-agent-quality
  --dataset-id <dataset-id>
  --dataset-version-id <dataset-version-id>
  --target-type component
  --deployment-id <deployment-id>
  --component-name support_agent
  --component-type agent
  --builtin-scorer json_valid
  --builtin-scorer '{"name":"tool_called","config":{"tool":"search_orders"}}'
  --config '{"passed_threshold":1}'
"""
FAILS, STOPPED = 2, 3
TICKETS = 20
FIRST, SECOND = 11, 19
"""Tickets that pass both scorers with the first and with the second build."""


@dataclass
class Typed:
    """Runs command lines; a placeholder such as `<run-id>` stands for an id that an earlier command printed."""

    workspace: Workspace
    model: MessagesServer
    printed: dict[str, str] = field(default_factory=dict)

    def run(self, line: str, name: str | None = None, code: int = 0) -> CompletedCommand:
        """Run a command line, and store the id that it prints under `name`."""
        words = [self.filled(word) for word in shlex.split(line)]
        assert words[0] == "evalscribe"
        settings = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": self.model.url}
        ended = self.workspace.run(*words[1:], code=code, **settings)
        if name:
            self.printed[name] = ended.out.split()[0]
        return ended

    def filled(self, word: str) -> str:
        for name, value in self.printed.items():
            word = word.replace(f"<{name}>", value)
        assert not word.startswith("<"), f"nothing printed {word}"
        return word

    def summary(self, run: str) -> dict[str, object]:
        return dict(json.loads(self.run(f"evalscribe reports summary {run} --format json").out)["summary"])


def answers(call: Call) -> Answer:
    """Answer the prompt under test with an existing order, and the judge's prompt with a pass."""
    prompt = json.dumps(call.body)
    if "Answer in JSON from this" in prompt and "<response>" not in prompt:
        return says('{"order": 1042, "status": "shipped"}')
    return says('<response>{"explanation": "It names an order.", "label": "pass"}</response>')


@pytest.fixture
def typed(workspace: Workspace) -> Iterator[Typed]:
    (workspace.folder / "evalscribe.toml").touch()
    (workspace.folder / "tickets.jsonl").write_bytes(tickets_file().read_bytes())
    (workspace.folder / "slow.py").write_text(SLOW)
    (workspace.folder / "prompt.yaml").write_text(yaml.safe_dump(PROMPT))
    with MessagesServer(answers) as model:
        yield Typed(workspace, model)


def prepare(typed: Typed) -> None:
    """Create the published dataset, the deployments and the experiment."""
    typed.run("evalscribe datasets create --name tickets", "dataset-id")
    typed.run("evalscribe datasets upload <dataset-id> tickets.jsonl")
    typed.run("evalscribe datasets publish <dataset-id>", "dataset-version-id")
    typed.run(f"evalscribe deployments create --component {AGENT}:first", "deployment-id")
    typed.run(f"evalscribe deployments create --component {AGENT}:second", "candidate")
    typed.run("evalscribe deployments create --component support_agent=python:slow:support_agent", "stuck")
    typed.run(CREATE, "experiment-id")


def test_experiment_commands_work_one_after_the_other(typed: Typed) -> None:
    prepare(typed)
    start_runs(typed)
    inspect_run(typed)
    cancel_run(typed)
    compare_runs(typed)
    check_gate(typed)
    create_regression_dataset(typed)
    use_like_an_imported_run(typed)


def start_runs(typed: Typed) -> None:
    typed.run("evalscribe experiments run <experiment-id>", "run-id")
    waited = typed.run("evalscribe reports wait <run-id> --timeout 15m", code=FAILS)
    assert f"gate failed: pass rate {FIRST}/{TICKETS}" in waited.out
    line = 'evalscribe experiments run <experiment-id> --deployment-id <candidate> --name "ci-1a2b3c4"'
    ended = typed.run(f"{line} --wait --fail-on-gate", "candidate-run", code=FAILS)
    assert f"gate failed: pass rate {SECOND}/{TICKETS}" in ended.out


def inspect_run(typed: Typed) -> None:
    listed = typed.run("evalscribe experiments runs list <experiment-id>").out
    assert typed.printed["run-id"] in listed
    assert "ci-1a2b3c4" in listed
    shown = typed.run("evalscribe experiments runs show <run-id>").out
    assert f"{FIRST}/{TICKETS}" in shown
    assert "tool_called" in shown
    failures = typed.run("evalscribe reports failures <run-id>").out
    assert failures.count("FAILED") == TICKETS - FIRST
    scores = json.loads(typed.run("evalscribe scores list --run-id <run-id> --failed --format json").out)
    assert len(scores) == 2 * (TICKETS - FIRST)
    typed.printed["score-id"] = next(one["id"] for one in scores if one["scorer"] == "tool_called")
    evidence = typed.run("evalscribe scores evidence <score-id> --include scorer_input,scorer_output,evidence").out
    assert "which order do you mean?" in evidence
    assert "search_orders" in evidence


def cancel_run(typed: Typed) -> None:
    typed.run("evalscribe experiments run <experiment-id> --deployment-id <stuck>", "stuck-run")
    typed.run("evalscribe experiments runs cancel <experiment-id> <stuck-run>")
    assert "cancelled" in typed.run("evalscribe reports ci <stuck-run>", code=STOPPED).out
    assert typed.summary("<stuck-run>")["state"] == "cancelled"


def compare_runs(typed: Typed) -> None:
    output = typed.run("evalscribe experiments runs compare <run-id> <candidate-run>").out
    assert output.startswith("Improved: the pass rate rose from 55.0 % to 95.0 %")
    assert "fixed (8)" in output
    builds = {line.split()[3] for line in output.splitlines() if line.startswith(("base  ", "candidate  "))}
    assert builds == {f"{typed.printed[name]}," for name in ("deployment-id", "candidate")}


def check_gate(typed: Typed) -> None:
    """Check the CI commands: the gate decides the exit code, the step summary is written, and results are exported."""
    summary = typed.workspace.folder / "summary.md"
    ci = typed.workspace.run("reports", "ci", "ci-1a2b3c4", code=FAILS, GITHUB_STEP_SUMMARY=str(summary))
    assert "passed_threshold" in ci.out
    assert "ticket-20" in summary.read_text("utf-8")
    typed.run("evalscribe reports export <run-id> --artifact-format csv -o eval-results.csv")
    assert len((typed.workspace.folder / "eval-results.csv").read_bytes().splitlines()) == TICKETS + 1
    typed.run("evalscribe reports export <run-id> --artifact-format junit --out-file junit.xml")
    suite = ElementTree.parse(typed.workspace.folder / "junit.xml").getroot()
    assert len(suite.findall(".//failure")) == TICKETS - FIRST


def create_regression_dataset(typed: Typed) -> None:
    """Create a dataset and an experiment from the failures; the first run still fails."""
    line = "evalscribe experiments runs regression-dataset <run-id> --name support-agent-regressions --start-run --wait"
    ended = typed.run(line, code=FAILS)
    assert f"gate failed: pass rate 0/{TICKETS - FIRST}" in ended.out


def use_like_an_imported_run(typed: Typed) -> None:
    """Use the experiment run in `analyze`, `compare` and `sql`."""
    report = typed.run("evalscribe analyze <run-id> --judge rules").out
    assert f"{TICKETS - FIRST} of {TICKETS} evals failed" in report
    assert NEXT in report
    comparison = typed.run("evalscribe compare <run-id> <candidate-run> --judge rules").out
    assert "ticket-12" in comparison
    query = "\"SELECT status, count(*) FROM agent_runs WHERE run_id = '<run-id>' GROUP BY status\""
    counted = typed.run(f"evalscribe sql {query} --collection support-agent-quality")
    assert counted.out.split()[-4:] == ["failed", str(TICKETS - FIRST), "passed", str(FIRST)]


def test_prompt_target_is_run_and_scored_by_a_model_judge(typed: Typed) -> None:
    typed.run("evalscribe datasets create --name tickets", "dataset-id")
    for number in (1, 2):
        typed.run(f"""evalscribe datasets add-example tickets --input '{{"question": "Where is it? {number}"}}'""")
    typed.run("evalscribe datasets publish tickets")
    typed.run("evalscribe prompts create prompt.yaml --name support", "prompt-id")
    judge = '{"name": "llm_judge", "config": {"criteria": "It names an order.", "model": "anthropic/claude-haiku-5-5"}}'
    create = "evalscribe experiments create --name prompted --dataset-id <dataset-id> --target-type prompt"
    scorers = f"--builtin-scorer json_valid --builtin-scorer '{judge}'"
    typed.run(f"{create} --prompt-id <prompt-id> {scorers}", "experiment-id")
    ended = typed.run("evalscribe experiments run <experiment-id> --wait --timeout 15m", "run-id")
    assert "gate passed: pass rate 2/2" in ended.out
    assert len(typed.model.calls) == 4, "each ticket once, each answer once"
    score = json.loads(typed.run("evalscribe scores list --run-id <run-id> --scorer-id llm_judge --format json").out)[0]
    assert (score["label"], score["explanation"]) == ("pass", "It names an order.")
    shown = typed.run(f"evalscribe scores evidence {score['id']} --include scorer_output").out
    assert "It names an order." in shown

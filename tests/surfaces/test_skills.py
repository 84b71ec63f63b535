"""Every command of every skill and of a new workspace's AGENTS.md, run on the sample in the documented order.

A key is always set, so commands that are documented as free could call a model but must not.
"""

import json
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from evalscribe.sample import checkpoints_file
from support.command import InProcessCommand, Workspace
from support.github_server import GitHubServer
from support.messages_server import Answer, Call, MessagesServer, says
from support.repository_states import git, make_clone
from support.suite_repository import SuiteRepository, patch

ROOT = Path(__file__).parents[2]
SKILLS = ROOT / "skills"
SCRIPT = SKILLS / "triage-collection/scripts/triage.py"
SCHEMA = re.compile(r"JSON Schema[^{]*")
RUN = {"RUN": "sample", "EVAL": "http/001-retry", "PROVIDER/MODEL": "example/sample-model-1", "REPORT": "smp7q2ka"}
TRIED = {"RUN": "room-desk-c2", "EVAL": "room-desk/move-full#1", "PROVIDER/MODEL": "example/sample-agent-c2"}
SIDES = {"BASE": "room-desk-c1", "CANDIDATE": "room-desk-c2", "COLLECTION": "sample", "FILE": "sample"}
FOR = {
    "analyze-run": RUN,
    "analyze-eval": {**TRIED, "TASK": "move-full"},
    "compare-runs": {**SIDES, "EVAL": TRIED["EVAL"], "MORE": "room-desk-c3"},
    "gate-experiment": {
        "EXPERIMENT": "sample",
        "BASELINE": "first",
        "LABEL": "second",
        "COMPONENT": "support_agent",
        "MODULE": "evalscribe.sample.support_agent",
        "FUNCTION": "second",
    },
    "triage-collection": TRIED,
    "write-rubric": {"NAME": "invented", "RUN": "sample", "category/name": "http/001-retry"},
    "review-report": RUN,
    "AGENTS.md": {**SIDES, **TRIED},
}
BEFORE = {
    "analyze-eval": ["import sample", "analyze room-desk-c2 --judge rules --quiet"],
    "gate-experiment": ["experiments sample", "experiments run sample --name first --wait --no-fail-on-gate"],
    "triage-collection": ["import sample"],
    "write-rubric": ["import sample"],
    "review-report": ["analyze sample --judge rules --quiet"],
}
"""Commands that the user ran before using the skill."""
SPENDS = ("apply ", "judge ", "judge-eval ", "python triage.py --budget")


def blocks(text: str, language: str) -> list[str]:
    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence" and token.info == language]


def page(name: str) -> str:
    if name == "AGENTS.md":
        return (ROOT / "prompts/workspace/AGENTS.md.j2").read_text("utf-8")
    return (SKILLS / name / "SKILL.md").read_text("utf-8").split("---\n", 2)[2]


def lines(name: str) -> list[str]:
    """Return the commands of a skill, with its placeholders replaced by values of the sample."""
    words = "|".join(sorted((re.escape(word) for word in FOR[name]), key=len, reverse=True))
    place = re.compile(rf"\b(?:{words})\b")
    commands = "".join(blocks(page(name), "bash")).splitlines()
    return [place.sub(lambda match: FOR[name][match[0]], line) for line in commands]


@dataclass(frozen=True)
class SkillContext:
    """A workspace with a remote, a GitHub server, the suite's repository and a model server."""

    workspace: Workspace
    model: MessagesServer
    github: GitHubServer

    @property
    def paid(self) -> int:
        """Number of paid model calls; `doctor` only checks that the model exists."""
        return sum(bool(call.body) for call in self.model.calls)

    def follow(self, line: str) -> str:
        if line.startswith("python "):
            return self.script(*shlex.split(line)[2:])
        words = shlex.split(re.sub(r" #.*", "", line))
        assert words[0] == "evalscribe", line
        return self.workspace.run(*words[1:]).out

    def script(self, *arguments: str) -> str:
        inside = self.workspace.inside
        assert inside
        with inside.monkeypatch.context() as patched:
            patched.chdir(inside.folder)
            patched.setattr(sys, "argv", ["triage.py", *arguments])
            runpy.run_path("triage.py", run_name="__main__")
        return inside.capsys.readouterr().out


def answers(call: Call) -> Answer:
    """Return a patch, an answer in the schema of the prompt, or plain text, whichever the call asks for."""
    if not call.body:
        return Answer(body=json.dumps({"type": "model", "id": call.path.rpartition("/")[2]}).encode())
    if any(tool["name"] == "submit_patch" for tool in call.body.get("tools", ())):
        return patch()
    prompt = "\n".join(map(text_of, (call.body.get("system", ""), call.body["messages"][0]["content"])))
    shown = SCHEMA.search(prompt)
    if not shown:
        return says("They all stop early [A0].")
    schema, _ = json.JSONDecoder().raw_decode(prompt[shown.end() :])
    return says(
        f"<response>{json.dumps(example_value(schema, '[failure]' if '[failure]' in prompt else '[T0B1]'))}</response>"
    )


def text_of(content: object) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)  # type: ignore[attr-defined]


def example_value(schema: dict, mark: str) -> object:
    if "enum" in schema:
        return schema["enum"][-1]
    if schema["type"] == "object":
        return {name: example_value(part, mark) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return [example_value(schema["items"], mark)]
    return {"string": f"As it says {mark}.", "boolean": True}[schema["type"]]


@pytest.fixture
def context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[SkillContext]:
    work = make_clone(tmp_path)
    (work.folder / "evalscribe.toml").touch()
    with GitHubServer() as github, MessagesServer(answers) as model:
        git(work.folder, "remote", "set-url", "origin", github.url)
        git(work.folder, "config", f"url.{work.remote}.insteadOf", github.url)
        settings = {"GITHUB_TOKEN": github.token, "GITHUB_API_URL": github.api}
        settings |= {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": model.url}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield SkillContext(Workspace(work.folder, InProcessCommand(work.folder, monkeypatch, capsys)), model, github)


def prepare(context: SkillContext, name: str) -> None:
    """Set up the workspace as the skill expects it, with the files that it tells the user to write."""
    folder = context.workspace.folder
    for line in BEFORE.get(name, ()):
        context.workspace.run(*line.split())
    if name == "analyze-run":
        FOR[name]["DIR"] = str(SuiteRepository(folder.parent / "suite").suite)
    if name == "compare-runs":
        third = checkpoints_file().read_text("utf-8").replace("room-desk-c2", "room-desk-c3")
        (folder / "third.jsonl").write_text(third)
        context.workspace.run("import", "third.jsonl", "--collection", "sample")
    if name == "triage-collection":
        shutil.copy(SCRIPT, folder)
    if name == "write-rubric":
        (rubric,), (labels,) = blocks(page(name), "yaml"), blocks(page(name), "json")
        (folder / "prompts/rubrics").mkdir(parents=True)
        (folder / "prompts/rubrics/invented.yaml").write_text(rubric)
        (folder / "labels.jsonl").write_text(labels)
        transcript = {
            "messages": [{"role": "user", "content": "Sort it."}, {"role": "assistant", "content": "sort_fast(x)"}]
        }
        for file in ("runs.jsonl", "run-1.json"):
            (folder / file).write_text(json.dumps({"id": "run-1", **transcript}) + "\n")


def test_every_skill_has_commands_and_is_tested_here() -> None:
    assert {path.parent.name for path in SKILLS.glob("*/SKILL.md")} | {"AGENTS.md"} == set(FOR)
    assert all(len(lines(name)) > 4 for name in FOR)


@pytest.mark.parametrize("name", FOR)
def test_skill_commands_succeed_in_order_and_only_paid_ones_call_the_model(context: SkillContext, name: str) -> None:
    prepare(context, name)
    for line in lines(name):
        before = context.paid
        output = context.follow(line)
        assert output.strip(), line
        assert "not judged" not in output, line
        spends = line.removeprefix("evalscribe ").startswith(SPENDS)
        assert (context.paid > before) == spends, f"{line}: asked {context.paid - before} times"


def test_triage_script_plans_for_free_and_reuses_its_answers(context: SkillContext) -> None:
    prepare(context, "triage-collection")
    failed = sum(
        '"status":"failed"' in line.partition('"steps"')[0] for line in checkpoints_file().read_text().splitlines()
    )
    planned = context.script()
    assert f"{failed} requests to anthropic/claude-haiku-5-5, 0 answered" in planned
    assert re.search(r"about [1-9][\d,]* tokens", planned)
    assert "looks" not in planned
    first = context.script("--budget", "2")
    assert first.endswith("They all stop early [A0].\n")
    assert re.search(rf"^stops-early +As it says \[T0B1\]\. +{failed}$", first, re.M)
    assert len(context.model.calls) == 2 * failed + 1, "tagged, looked at, summed up"
    assert f"0 errors, {failed} citations found, 0 unverified; spent $0.00, {failed * 1100:,} tokens" in first
    again = context.script("--budget", "2")
    assert again.count("spent $0.00, 0 tokens") == 3
    assert again.endswith("They all stop early [A0].\n")
    assert context.script().endswith("They all stop early [A0].\n"), "what is answered needs no budget"
    assert len(context.model.calls) == 2 * failed + 1


def test_triage_script_reports_errors_in_one_line(context: SkillContext, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SCRIPT, context.workspace.folder)
    with pytest.raises(SystemExit, match=r"triage: .*no collection"):
        context.script()
    context.workspace.run("import", "sample")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(SystemExit, match=r"triage: .*ANTHROPIC_API_KEY"):
        context.script("--budget", "1")
    script = context.workspace.folder / "triage.py"
    script.write_text(script.read_text().replace("f.status = 'failed'", "f.status = 'none'"))
    with pytest.raises(SystemExit, match="triage: RUNS selects no agent run"):
        context.script()


def test_triage_script_sends_only_the_changed_prompt_again(context: SkillContext) -> None:
    prepare(context, "triage-collection")
    script = context.workspace.folder / "triage.py"
    few = script.read_text().replace("ORDER BY f.task, f.id\n", "ORDER BY f.task, f.id\n    LIMIT 3\n")
    script.write_text(few)
    context.script("--budget", "1")
    assert len(context.model.calls) == 3 + 3 + 1
    script.write_text(few.replace("Decide by what it really did", "Decide by its last message"))
    context.script("--budget", "1")
    assert len(context.model.calls) == (3 + 3 + 1) + 3, "tags are known, and so is the sum of equal answers"

"""The workflow of the documentation that gates an experiment: its steps, as a runner would run them."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from support.command import Workspace

PAGE = (Path(__file__).parents[2] / "agent/docs/ci.md").read_text("utf-8")
SOURCE = PAGE.partition("`.github/workflows/experiment.yml`:\n\n```yaml\n")[2].partition("```\n")[0]
AGENT = """\
def support_agent(question):
    if question == {bad!r}:
        return "which order?"
    call = {{"id": "1", "function": "search_orders", "arguments": {{}}}}
    said = {{"role": "assistant", "content": "", "tool_calls": [call]}}
    return {{"output": {{"order": question}}, "messages": [{{"role": "user", "content": question}}, said]}}
"""
ITEMS = [{"key": f"t{number}", "input": f"order {number}"} for number in range(10)]


def test_a_build_that_breaks_an_item_fails_the_step_and_what_happened_is_kept(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, breaks in (("base", "nothing"), ("candidate", "order 3")):
        (workspace.folder / name / "evals").mkdir(parents=True)
        (workspace.folder / name / "support_agent.py").write_text(AGENT.format(bad=breaks))
    items = workspace.folder / "candidate/evals/tickets.jsonl"
    items.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    summary = workspace.folder / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    (job,) = yaml.safe_load(SOURCE)["jobs"].values()
    for name, value in job["env"].items():
        monkeypatch.setenv(name, value)
    printed: dict[str, str] = {}
    for step in job["steps"]:
        for line in step.get("run", "").splitlines():
            if not line.startswith("pip install"):
                assert "${{" not in line, "an expression in a script can be injected into"
                gate = 2 if step["name"] == "Gate the candidate" else 0
                words = [os.path.expandvars(word) for word in shlex.split(line)]
                printed.setdefault(step["name"], workspace.run(*words[1:], code=gate).out)
    assert "gate failed: 1 new failure against base, none allowed: t3" in printed["Gate the candidate"]
    assert "t3: passed, failed now" in printed["Compare, and keep the results"]
    assert len(re.findall(r"^#+ ", summary.read_text("utf-8"), re.MULTILINE)) >= 2, "of both runs"
    kept = [step["with"]["path"] for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert {path.name for path in workspace.folder.glob(kept[0])} == {"eval-results.csv", "eval-results.xml"}

"""The documented CI workflow that gates an experiment: its steps are run as a CI runner would run them."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from support.command import Workspace

PAGE = (Path(__file__).parents[2] / "agent/docs/ci.md").read_text("utf-8")
SOURCE = PAGE.partition("`.github/workflows/experiment.yml`:\n\n```yaml\n")[2].partition("```\n")[0]
AGENT = "def answer(question):\n    return question.upper()\n"
BROKEN = "def answer(question):\n    return question if '3' in question else question.upper()\n"
ITEMS = [{"key": f"t{n}", "input": f"order {n}", "expected": f"ORDER {n}"} for n in range(10)]


@pytest.mark.parametrize(
    ("candidate", "code", "message"),
    [
        (BROKEN, 2, "1 new failure against base, none allowed: t3"),
        ("def answer(question)\n", 3, "could not be imported: SyntaxError: expected ':' (agent.py:1)"),
        (AGENT, 0, "0 new failures against base"),
    ],
)
def test_documented_workflow_gates_the_candidate_and_keeps_its_results(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, candidate: str, code: int, message: str
) -> None:
    for name, source in (("base", AGENT), ("candidate", candidate)):
        (workspace.folder / name / "evals").mkdir(parents=True)
        (workspace.folder / name / "agent.py").write_text(source)
    items = workspace.folder / "candidate/evals/items.jsonl"
    items.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    summary = workspace.folder / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    (job,) = yaml.safe_load(SOURCE)["jobs"].values()
    printed: dict[str, str] = {}
    commands: list[list[str]] = []
    for step in job["steps"]:
        for line in step.get("run", "").splitlines():
            if not line.startswith("pip install"):
                assert "${{" not in line, "an expression in a script can be injected into"
                gate = code if step["name"] == "Gate the candidate" else 0
                printed[step["name"]] = workspace.run(*shlex.split(line)[1:], code=gate).out
                commands.append([word for word in shlex.split(line) if word not in ("--timeout", "10m")])
    assert message in printed["Gate the candidate"]
    assert ("t3: passed, failed now" in printed["Compare, and keep the results"]) == (candidate == BROKEN)
    first = [set(shlex.split(line)) for line in re.findall(r"^evalscribe experiments run .*", PAGE, re.MULTILINE)]
    assert first == [set(words) for words in commands[:2]], "the page begins with the commands of the workflow"
    assert len(re.findall(r"^#+ ", summary.read_text("utf-8"), re.MULTILINE)) >= 2, "of both runs"
    artifact_paths = [step["with"]["path"] for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert {path.name for path in workspace.folder.glob(artifact_paths[0])} == {"eval-results.csv", "eval-results.xml"}

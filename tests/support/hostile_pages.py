"""A workspace in which every text tries to act as markup, and checks that must hold for each page about it."""

import json
import os
from pathlib import Path
from typing import Any

from evalscribe.git.report_folder import ReportsFolder
from evalscribe.model.analysis import Analysis
from evalscribe.reports.data import report_from_analysis, write_data
from evalscribe.reports.page import render
from support.command import Workspace
from support.hostile_runs import LOG, failed, payload, snapshot
from support.repository_states import git

ELSEWHERE = "canary.invalid"
MARK = "window.hacked=1"
ATTACKS = (
    f"<script>{MARK}</script>",
    f'<img src="http://{ELSEWHERE}/i.png" onerror="{MARK}">',
    f"</script></style></title></textarea></pre><svg onload={MARK}>",
    f'" onmouseover="{MARK}" autofocus tabindex=0 onfocus="{MARK}" x="',
    f"' onclick='{MARK}' style='position:fixed",
    f"javascript:{MARK}",
    f"[x](javascript:{MARK}) ![y](http://{ELSEWHERE}/y.png) <http://{ELSEWHERE}>",
    f"<style>@import url(http://{ELSEWHERE}/c.css);*{{display:none}}</style>",
    f'<base href="http://{ELSEWHERE}/"><meta http-equiv="refresh" content="0;url=http://{ELSEWHERE}/">',
    f'<form action="http://{ELSEWHERE}"><button autofocus>x</button></form><iframe srcdoc="<script>{MARK}</script>">',
    "{{ 7*7 }} {% include '/etc/passwd' %} ${7*7} #{7*7} <%= 7*7 %>",
    "<!-- --> ]]> &lt;script&gt; &#60;b&#62; \\<b>",
    "\u202eexe.gnp\u2066\u200f \x1b[31m \x9b \x08 \x00 \ufffe",
)
EVERYTHING = " ".join(ATTACKS)
NAME = f"n<script>{MARK}</script>\"'`{{{{7*7}}}}&amp;"
"""Hostile text for fields that are shortened or used as a name."""
FREE_TEXT = (
    *("actions_text", "action", "cause", "change", "command", "error", "expected_snippet", "experiment", "log"),
    *("missing", "name", "note", "notes", "output_snippet", "reasoning", "status_reason", "step", "text"),
    *("unclassified", "why"),
)
"""Fields of a report's data whose text a page may show unchanged."""
LONG_LINE = "y" * 300_000


def poisoned(value: Any, field: str = "") -> Any:
    """Return JSON data with an attack appended to every free text."""
    if isinstance(value, dict):
        return {name: poisoned(member, name) for name, member in value.items()}
    if isinstance(value, list):
        return [poisoned(member, field) for member in value]
    if isinstance(value, str) and field in FREE_TEXT:
        return f"{value} {NAME if field in ('cause', 'step', 'name') else EVERYTHING}"
    return value


def hostile_workspace(folder: Path) -> Path:
    """Write reports, a store and a repository in which every text is an attack. Return the folder."""
    git(folder, "init", "-q")
    git(folder, "config", "user.name", f"'\" onmouseover={MARK} {{{{7*7}}}} javascript:{MARK} &lt;b&gt;")
    git(folder, "config", "user.email", "a@x.example")
    command = Workspace(folder)
    run = snapshot(
        folder / "run",
        {f"e{n}": _attacked(attack, f"e{n}") for n, attack in enumerate((*ATTACKS, EVERYTHING, LONG_LINE))},
        model=f"m/{NAME}",
        experiment=EVERYTHING,
    )
    command.run("analyze", run, "--judge", "rules", "--date", "2026-11-02", "--quiet")
    (report,) = command.reports
    command.run("review", "label", report.stem, "1", "KNOWN_GAP", "--note", EVERYTHING.replace("\x00", ""))
    _write_poisoned(folder)
    command.run("import", _samples(folder / "samples.jsonl"), "--quiet")
    git(folder, "add", "-A", "reports")
    git(folder, "commit", "-q", "-m", EVERYTHING.replace("\x00", ""))
    return folder


def _attacked(attack: str, name: str) -> dict[str, object]:
    """Return the payload of a failed eval with the attack in every part."""
    entry = failed(name, name=f"{name} {attack[:200]}", failedStep={"name": f"tests {NAME}", "failureReason": attack})
    log = LOG.format(path=entry["evalPath"]) + f"AssertionError: {attack}\na.py:2: {attack}\n\ud800\n"
    return payload(
        entry,
        outputFiles={
            "a.py": f"def f():\n    return 1  # {attack}\n{attack}\n",
            f"{attack[:100]}.py": attack,
            "run.log": log,
        },
        evalSourceFiles={
            "TASK.txt": attack,
            "GAPS.txt": attack,
            "answer/a.py": f"def f():\n    return 2  # {attack}\n",
            "grader.test.ts": attack,
        },
        steps=[{"name": f"tests {NAME}", "status": {"kind": "failed", "failureReason": attack}}],
    )


def _write_poisoned(folder: Path) -> None:
    """Write a report with the same attacks, as a judge that follows injected instructions would write it."""
    command = Workspace(folder)
    command.run("analyze", "sample", "--judge", "rules", "--date", "2026-11-02", "--quiet")
    (written,) = (folder / "reports").glob("*/*/smp7q2ka_2026-11-02.json")
    data = json.loads(written.read_text("utf-8"))
    replay = {"answer": "output", "times": 3, "passed": False, "alike": True, "command": "pytest", "log": "log"}
    evals = [finding["eval"] for finding in data["findings"]]
    data["findings"][0] |= {"basis": "proved", "contradicted": data["findings"][0]["judge"]}
    data["proofs"] = [
        {
            "eval": evals[0],
            "outcome": "reproduced",
            "why": "why",
            "replays": [replay, {**replay, "answer": "reference", "passed": True, "change": "a change"}],
        }
    ]
    data["patterns"] = [{"name": "pattern", "kind": "rule", "evals": evals[:2], "text": "text"}]
    data["run"] |= {"url": f"javascript:{MARK}", "model": f"m {NAME}"}
    data["findings"][1]["url"] = f"javascript:{MARK}//http://x"
    analysis = Analysis.model_validate_json(json.dumps(poisoned(data)))
    ReportsFolder(folder / "reports").write_report(
        "hostile/hostile/smp7q2ka_2026-11-02.md", render(report_from_analysis(analysis)), write_data(analysis)
    )
    for path in written.parent.iterdir():
        path.unlink()


def _samples(path: Path) -> Path:
    """Write a results file of another tool with an attack in every text."""
    metrics = {"filtered_resps": [EVERYTHING], "metrics": ["acc"], "acc": 0.0}
    samples = [
        {"doc_id": n, "doc": {"question": attack, NAME: attack}, "target": attack, "resps": [[attack]], **metrics}
        for n, attack in enumerate((*ATTACKS, EVERYTHING))
    ]
    path.write_text("".join(json.dumps(sample) + os.linesep for sample in samples), "utf-8")
    return path


INERT = """() => {
  const problems = [];
  for (const node of document.querySelectorAll("*")) {
    for (const {name, value} of node.attributes) {
      if (name.startsWith("on") || name === "style" || name === "srcdoc" || name === "autofocus")
        problems.push(`${node.tagName} has ${name}`);
      if (["href", "src", "action", "formaction", "xlink:href"].includes(name)
          && /^[^?#/]*:/.test(value) && !/^(https?|file):/.test(value)) problems.push(`${name}=${value.slice(0, 80)}`);
    }
    for (const kind of ["mouseover", "focus", "toggle"]) node.dispatchEvent(new Event(kind, {bubbles: true}));
  }
  const active = ["iframe", "object", "embed", "base", "style", "meta[http-equiv=refresh]", "main script", "main img"];
  for (const name of active)
    if (document.querySelector(name)) problems.push(`there is ${name}`);
  if (document.scripts.length !== 1) problems.push(`${document.scripts.length} scripts`);
  const text = document.documentElement.outerHTML;
  if (/[\\u202a-\\u202e\\u2066-\\u2069\\u200f\\u001b\\u009b\\u0000]/.test(text)) problems.push("control characters");
  if (window.hacked) problems.push("a script has run");
  if (getComputedStyle(document.querySelector("main")).display === "none") problems.push("a style applies");
  return problems;
}"""
"""JavaScript function that runs in the page and lists texts that act as markup."""

"""Redaction of secrets that enter other than through a source."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.cli import doctor
from evalscribe.cli.doctor import Check, SetupReport
from evalscribe.collections.judge_eval import LabelField, parse_labelled
from evalscribe.judging.subjects import redacted_run_subject
from evalscribe.mcp.context import ServerWorkspace
from evalscribe.mcp.reports import ReportTools
from evalscribe.mcp.resources import WorkspaceResources
from evalscribe.model.repository import ReportFile
from evalscribe.model.transcript import AgentRun
from evalscribe.prompts.templates import Prompts
from evalscribe.reports.corrections import write_label
from evalscribe.reports.discussion.conversation import Discussion
from evalscribe.reports.reading import PageSource, read_report
from evalscribe.settings import SettingRow
from evalscribe.store.analyses import open_store
from support.planted_keys import keys

KEY = keys()["vault"]
REPORT = f"""\
# Run Analysis: model-1

| | |
|---|---|
| **Run ID** | `jn7000000000000000000000000000aa` |
| Model | `vendor-model-1` (vendor) |

## Per-failure analysis

### 1. 001-hello (000-basics) -- tests

- **Verdict:** MODEL_FAULT
- **Reasoning:** It printed {KEY} and ended.
"""


def test_labelled_subject_is_redacted() -> None:
    run = {"id": "a", "transcripts": [{"messages": [{"role": "user", "content": f"use {KEY}"}]}]}
    line = parse_labelled(
        json.dumps({"subject": {"agent_run": run}, "label": "yes"}),
        LabelField((), {"type": "string", "enum": ["yes", "no"]}),
    )
    assert "use [redacted:vault-token]" in str(line)
    assert KEY not in str(line)


def test_agent_run_built_in_python_is_redacted() -> None:
    run = AgentRun.model_validate({"transcripts": [{"messages": [{"role": "user", "content": f"use {KEY}"}]}]})
    text = "\n".join(item.text for item in redacted_run_subject(run).items)
    assert "use [redacted:vault-token]" in text
    assert KEY not in text


def test_imported_report_is_redacted() -> None:
    report = read_report(REPORT, "a.md")
    assert "[redacted:vault-token]" in str(report)
    assert KEY not in str(report)


def test_reviewer_note_is_redacted(page: PageSource) -> None:
    text = write_label(page, 1, "MODEL_FAULT", note=f"it says {KEY}")
    assert "it says" in text
    assert KEY not in text


@pytest.fixture
def page() -> PageSource:
    file = next((Path(__file__).parents[2] / "reports" / "example").rglob("smp7q2ka_*.md"))
    return PageSource(name=file.name, text=file.read_text("utf-8"), data=file.with_suffix(".json").read_text("utf-8"))


async def test_discussed_report_and_question_are_redacted(tmp_path: Path) -> None:
    file = ReportFile(path=tmp_path / "a.md", name="a.md", text=REPORT)
    shown_parts: list[str] = []
    with closing(open_store(tmp_path / "store")) as store:
        discussion = Discussion(file, store, Prompts())
        answer = await discussion.ask(f"Where is {KEY}?", shown_parts.append)
        await discussion.ask("1", shown_parts.append)
    assert KEY not in answer.question
    assert KEY not in "".join(shown_parts)
    assert "[redacted:vault-token]" in "".join(shown_parts)


@pytest.mark.parametrize(
    "shown",
    [
        lambda place: str(ReportTools(place).get_report("vendor/model-1/a.md")),
        lambda place: WorkspaceResources(place).report("vendor/model-1/a.md"),
    ],
    ids=["tool", "resource"],
)
def test_report_served_over_mcp_is_redacted(
    shown: Callable[[ServerWorkspace], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "reports" / "vendor" / "model-1"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text(REPORT)
    (tmp_path / "evalscribe.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    text = shown(ServerWorkspace())
    assert "It printed [redacted:vault-token] and ended." in text
    assert KEY not in text


def test_doctor_output_is_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [SettingRow(name="Convex host", value="https://me:hunter2@a.example", origin=".env")]
    doctor.print_checks(SetupReport.of(rows, [Check(name="Convex", state="NOT OK", detail=f"refused {KEY}")]))
    printed = capsys.readouterr().out
    assert "https://me:[redacted:basic-auth]@a.example" in printed
    assert "NOT OK       Convex: refused [redacted:vault-token]" in printed
    assert KEY not in printed

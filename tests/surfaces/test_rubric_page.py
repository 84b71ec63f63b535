"""The commands, files and Python code on the documentation page about rubrics work as shown."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evalscribe.cli import run
from evalscribe.judging.rubrics import parse_rubric
from evalscribe.model.transcript import parse_agent_run
from support.messages_server import Answer, Call, MessagesServer, says

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "agent/docs/rubrics.md").read_text("utf-8")
SCHEMA = "It must fit this JSON Schema:\n\n"


def blocks(language: str, text: str = PAGE) -> list[str]:
    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence" and token.info == language]


def commands(text: str = PAGE) -> list[list[str]]:
    lines = "".join(blocks("bash", text)).splitlines()
    return [shlex.split(line.removeprefix("evalscribe "), comments=True) for line in lines]


def answers(call: Call) -> Answer:
    """Return an answer that fits the schema in the prompt and has a valid citation."""
    prompt = call.body["messages"][0]["content"]
    text = prompt if isinstance(prompt, str) else "".join(part["text"] for part in prompt)
    schema, _ = json.JSONDecoder().raw_decode(text.partition(SCHEMA)[2])
    mark = "[failure]" if "[failure]" in text else "[T0B1:<RANGE>Paris</RANGE>]"
    return says(f"<response>{json.dumps(example_value(schema, mark))}</response>")


def example_value(schema: dict[str, Any], mark: str) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: example_value(part, mark) for name, part in schema["properties"].items()}
    return {"string": f"As it says {mark}.", "boolean": True, "number": 1, "integer": 1, "array": []}[schema["type"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with the files shown on the page, under the names that its commands use."""
    (tmp_path / "evalscribe.toml").touch()
    (tmp_path / "prompts/rubrics").mkdir(parents=True)
    (rubric,), (agent_run, dataset) = blocks("yaml"), blocks("json")
    (tmp_path / "prompts/rubrics/helpful.yaml").write_text(rubric)
    (tmp_path / "run.json").write_text(agent_run)
    (tmp_path / "labels.jsonl").write_text(dataset)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    with MessagesServer(answers) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0000")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server


def test_commands_of_the_page_succeed_in_order(
    folder: Path, server: MessagesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(commands()) >= 8
    for arguments in commands():
        assert run(arguments) == 0, f"{arguments}\n{capsys.readouterr().err}"
        output = capsys.readouterr().out
        assert "not judged" not in output, arguments
        if arguments[0] == "judge":
            assert "1 result, 0 could not be judged" in output
            assert re.search(r"Citations: [1-9]\d* verified, 0 relocated, 0 unverified", output)
    assert "cascade" in output, "the last one calibrates"
    assert server.calls


def test_python_example_of_the_page_judges_a_run(
    folder: Path, server: MessagesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks("python")
    exec(compile(code, "rubrics.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.startswith("correct verified=1 relocated=0 unverified=0 ")
    assert len(server.calls) == 1


def test_page_documents_every_rubric_field() -> None:
    rubric = parse_rubric(blocks("yaml")[0], "helpful", "rubrics.md")
    fields = set(type(rubric).model_fields) - {"id", "version"}
    assert {name for name in fields if f"`{name}`" not in PAGE} == set()


def test_agent_run_of_the_page_is_parsed_completely() -> None:
    agent_run = parse_agent_run(blocks("json")[0], "rubrics.md")
    assert (agent_run.id, agent_run.metadata) == ("run-1", {"scores": {"reward": 0}})
    assert [message.role for message in agent_run.transcripts[0].messages] == ["user", "assistant"]


def test_rubric_of_the_skill_is_valid() -> None:
    skill = (ROOT / "skills/write-rubric/SKILL.md").read_text("utf-8")
    (shown,) = blocks("yaml", skill.split("---\n", 2)[2])
    rubric = parse_rubric(shown, "invented", "SKILL.md")
    (line,) = blocks("json", skill)
    assert json.loads(line)["label"] in rubric.output_schema["properties"]["label"]["enum"]


def test_page_documents_the_defaults_of_a_rubric() -> None:
    default = parse_rubric("rubric_text: Is it so?", "x", "x.yaml")
    labels = default.output_schema["properties"]["label"]["enum"]
    named = " or ".join(f"`{label}`" for label in labels)
    assert f"default: a `label` ({named}) and an `explanation` with citations" in PAGE
    assert f"`{default.response_xml_key}` by default" in PAGE
    assert f"`{default.output_parsing_mode}` (default)" in PAGE

"""The examples in the original request for the SDK run unchanged, except for their import lines.

Their text is not part of this repository. It is in a folder beside the real data; without it, these tests are skipped.
"""

import ast
import asyncio
import os
import re
import subprocess
import sys
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any

import pytest

from evalscribe import AgentRun, BaseLLMService, Client, OutputParsingMode, ResultType, Rubric, build_judge
from support.judge_providers import Providers
from support.waiting import PATIENCE_S

START = re.compile(r"(from \S+ )?import \S|[a-z_]+ ?= ?\S")
LONGEST = 100
SCHEMA = """{
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["good", "bad"]}, "why": {"type": "string", "citations": True}},
    "required": ["label", "why"],
}"""
"""Replaces the schemas that the examples omit."""


@pytest.fixture
def blocks(real_data: Path) -> list[str]:
    paths = sorted(real_data.parent.glob("*/004_*.txt"))
    if not paths:
        pytest.skip(f"no examples beside {real_data}")
    return code_blocks(paths[0].read_text("utf-8"))


def code_blocks(text: str) -> list[str]:
    """Return the longest sequences of lines that are Python statements, without prose and headings of one name."""
    lines, position, blocks = text.splitlines(), 0, []
    while position < len(lines):
        end = end_of_code(lines, position) if START.match(lines[position]) else position
        if end > position:
            blocks.append("\n".join(lines[position:end]))
        position = max(end, position + 1)
    return blocks


def end_of_code(lines: list[str], start: int) -> int:
    ends = range(min(len(lines), start + LONGEST), start, -1)
    return next((end for end in ends if is_code("\n".join(lines[start:end]))), start)


def is_code(text: str) -> bool:
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return False
    return bool(statements) and not any(isinstance(each, ast.Expr) and is_heading(each.value) for each in statements)


def is_heading(value: ast.expr) -> bool:
    """Return whether a value is a heading, such as `rubric_text` or `get_rubric()`."""
    return isinstance(value, ast.Name) or (isinstance(value, ast.Call) and isinstance(value.func, ast.Name))


def adapted(block: str) -> str:
    return re.sub(r"^from \S+ import", "from evalscribe import", block, flags=re.M).replace("{...}", SCHEMA)


def run(block: str, names: dict[str, Any]) -> None:
    """Run a block as a notebook does, which allows `await` at the top level."""
    code = compile(adapted(block), "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def test_all_examples_are_extracted(blocks: list[str]) -> None:
    starts = [block.partition("\n")[0] for block in blocks]
    assert len(blocks) == 12
    assert sum("Rubric(" in block for block in blocks) == 6
    assert [start for start in starts if start.startswith("output_schema")] == ["output_schema={"] * 2
    assert len([start for start in starts if "client." in start]) == 4


def test_every_rubric_of_the_examples_can_judge(
    blocks: list[str], providers: Providers, workspace: Path, agent_run: AgentRun
) -> None:
    """Each rubric is judged by the model that it names. The two separate schemas are put into rubrics."""
    names: dict[str, Any] = {}
    rubrics = []
    for block in blocks:
        if "Rubric(" in block and "client." not in block and "asyncio" not in block:
            run(block, names)
            rubrics.append(names["rubric"])
        elif block.startswith("output_schema"):
            run(block, names)
            rubrics.append(Rubric(rubric_text="x", output_schema=names["output_schema"]))
    assert len(rubrics) == 7
    for rubric in rubrics:
        providers.rubric = rubric
        result = asyncio.run(build_judge(rubric, BaseLLMService())(agent_run))
        assert (result.result_type, result.reason) == (ResultType.DIRECT_RESULT, None)
        assert set(result.output) == set(rubric.output_schema["properties"])
        assert result.citations.verified == 1
    assert {rubric.judge_model.id for rubric in rubrics} == {
        "openai/gpt-4o",
        "openai/gpt-5",
        "anthropic/claude-opus-5-5",
    }
    assert {rubric.response_xml_key for rubric in rubrics} == {"response", "answer"}
    assert {rubric.output_parsing_mode for rubric in rubrics} == set(OutputParsingMode)


def test_client_methods_of_the_examples_work(
    blocks: list[str], providers: Providers, client: Client, agent_run: AgentRun
) -> None:
    rubric = Rubric(rubric_text="first", id="one")
    names: dict[str, Any] = {
        "client": client,
        "collection_id": client.create_collection("examples"),
        "rubric": rubric,
        "agent_run": agent_run,
    }
    calling = [block for block in blocks if "client." in block]
    for block in calling:
        if "version=2" in block:
            client.create_rubric(names["collection_id"], Rubric(rubric_text="second", id="one"))
        run(block, names)
    assert names["rubric_id"] == "one"
    assert (names["rubric"].version, names["rubric"].rubric_text) == (2, "second")
    assert names["judge"].rubric == names["rubric"]
    assert names["result"].output == {"label": "match", "explanation": "See [T0B0]."}
    assert [(rubric_row["id"], rubric_row["version"]) for rubric_row in names["rubrics"]] == [("one", 2)]


def test_program_of_the_examples_runs(blocks: list[str], providers: Providers, workspace: Path) -> None:
    """The program runs in its own process, as a user would start it."""
    (program,) = [block for block in blocks if "asyncio.run(" in block]
    providers.fixed = '<response>{"label": "helpful", "explanation": "It says so: [T0B1]"}</response>'
    (workspace / "program.py").write_text(adapted(program))
    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.stdout, done.stderr) == ("Label: helpful\nExplanation: It says so: [T0B1]\n", "")
    assert len(providers.anthropic.calls) == 1
    assert "The capital of France is Paris." in str(providers.anthropic.calls[0].body)

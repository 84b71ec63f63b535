"""The public names of the SDK are listed here on purpose, and importing the package loads nothing else."""

import subprocess
import sys

import pytest

import evalscribe
from support.machine_speed import slowness

NAMES = {
    "AgentRun",
    "AgentRunRef",
    "AssistantMessage",
    "BaseLLMService",
    "Client",
    "JudgeResult",
    "JudgeResultWithCitations",
    "LLMRequest",
    "ModelOption",
    "OutputParsingMode",
    "Prompt",
    "PromptTemplateMessage",
    "ResultRef",
    "ResultType",
    "Rubric",
    "ScoreResult",
    "ScorerContext",
    "ScorerRequest",
    "SystemMessage",
    "ToolMessage",
    "Transcript",
    "TranscriptRef",
    "UserMessage",
    "build_judge",
    "scorer",
}


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_all_public_names_are_importable() -> None:
    assert set(evalscribe.__all__) == NAMES | {"__version__"}
    for name in NAMES:
        value = getattr(evalscribe, name)
        assert value.__name__ == name
        assert getattr(evalscribe, name) is value
    assert set(dir(evalscribe)) >= NAMES


def test_unknown_name_raises_attribute_error() -> None:
    code = "import evalscribe\ntry: evalscribe.Judge\nexcept AttributeError as error: print(error)"
    assert python(code) == "module 'evalscribe' has no attribute 'Judge'\n"


def test_importing_the_package_loads_no_other_module() -> None:
    code = "import sys; before = set(sys.modules); import evalscribe; print(sorted(set(sys.modules) - before))"
    assert python(code) == "['evalscribe']\n"


@pytest.mark.benchmark
def test_importing_the_package_is_fast() -> None:
    """The best of five processes counts."""
    code = "import time; began = time.perf_counter(); import evalscribe; print(time.perf_counter() - began)"
    assert min(float(python(code)) for _ in range(5)) < 0.02 * slowness()


def test_importing_value_types_loads_no_heavy_library() -> None:
    heavy = "('sqlalchemy', 'alembic', 'anthropic', 'openai', 'langgraph', 'jinja2', 'git', 'typer', 'httpx2', 'scipy')"
    light = "Rubric, ModelOption, AgentRun, Transcript, UserMessage, JudgeResult, JudgeResultWithCitations"
    code = f"import sys; from evalscribe import {light}; print([one for one in {heavy} if one in sys.modules])"
    assert python(code) == "[]\n"

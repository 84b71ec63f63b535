"""Evaluate samples with every outcome as `.eval` and as `.json` (mock model), and print the log's own results."""

import json
import os

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice, includes, match
from inspect_ai.solver import generate, multiple_choice, solver, use_tools
from inspect_ai.tool import ToolError, tool

ANSWERS = {"France": "Paris", "Kenya": "I think that it is Nairobi.", "Japan": "Kyoto", "Peru": "", "Chad": "N'Djamena"}
CAPITALS = {**ANSWERS, "Kenya": "Nairobi", "Japan": "Tokyo", "Peru": "Lima"}


@tool
def look_up():
    async def execute(country: str):
        """Look up a country.

        Args:
            country: Its name.
        """
        if country == "Japan":
            raise ToolError("no such page")
        return f"{country} is a country."

    return execute


@solver
def breaks_on(text):
    async def solve(state, generate):
        if text in state.input_text:
            raise ConnectionError("the sandbox did not start")
        return state

    return solve


def answer(messages, tools, tool_choice, config):
    question = next(one.text for one in messages if one.role == "user")
    country = next(country for country in ANSWERS if country in question)
    if tools and messages[-1].role == "user":
        output = ModelOutput.for_tool_call("mockllm/table", "look_up", {"country": country})
    else:
        text = "ANSWER: B" if "ANSWER" in question else ANSWERS[country]
        output = ModelOutput.from_content("mockllm/table", text, stop_reason="stop" if text else "max_tokens")
    # Without usage the mock model counts tokens with a table that has to be downloaded.
    output.usage = ModelUsage(input_tokens=12, output_tokens=3, total_tokens=15)
    return output


asked = [
    Sample(id=country, input=f"What is the capital of {country}?", target=CAPITALS[country]) for country in ANSWERS
]
chosen = [
    Sample(input=f"What is the capital of {country}?", choices=["Oslo", CAPITALS[country]], target=target)
    for country, target in (("France", "B"), ("Japan", "B"), ("Peru", "A"))
]
agent = [use_tools(look_up()), generate()]
breaking = [breaks_on("Kenya"), generate()]
TASKS = {
    "capitals": Task(asked, solver=agent, scorer=[includes(), match("exact")]),
    "choices": Task(chosen, solver=multiple_choice(), scorer=choice()),
    "broken": Task(asked, solver=breaking, scorer=includes(), fail_on_error=False),
    "stopped": Task(asked, solver=breaking, scorer=includes(), fail_on_error=True),
    "limited": Task(asked, solver=agent, scorer=includes(), message_limit=3),
}
times = int(os.environ["TIMES"])
for name, task in TASKS.items():
    epochs = times if name == "capitals" else 2
    for format in ("eval", "json"):
        model = get_model("mockllm/table", custom_outputs=answer, memoize=False)
        (log,) = eval(
            task,
            model=model,
            epochs=epochs,
            log_format=format,
            log_dir=f"{name}-{format}",
            display="none",
            max_samples=1,
        )
        first = log.results and log.results.scores[0]
        scored = [one for one in log.samples or () if one.scores]
        passed = round(first.metrics["accuracy"].value * first.scored_samples * epochs) if first else None
        if passed is None:  # A run that stopped has no results.
            passed = sum(next(iter(one.scores.values())).value == "C" for one in scored)
        errors = sum(one.error is not None for one in log.samples)
        print(
            json.dumps(
                {
                    "file": log.location.removeprefix("file://"),
                    "runs": 1,
                    "passed": passed,
                    "failed": len(scored) - passed,
                    "errors": errors,
                }
            )
        )

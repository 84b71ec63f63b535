"""Results of the second version of the same benchmarks: `{info, tasks, simulations}`, read as its first version's."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from evalscribe.run import Run
from evalscribe.sources.imports import values
from evalscribe.sources.imports.json_text import JsonText
from evalscribe.sources.imports.overrides import RunOverrides, named
from evalscribe.sources.imports.reading import Reading
from evalscribe.sources.imports.tau_bench import TauBench

NAME = "tau2-bench"
_BROKE = ("infrastructure_error", "user_error")
"""Ends of a simulation that are not the agent's."""
_Members = Mapping[str, JsonValue]


class Tau2Bench(TauBench):
    format = NAME

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._info: _Members = {}

    def _run(self, run_id: str) -> Run:
        """The agent's model stands in the file."""
        model = _object(self._info.get("agent_info")).get("llm")
        provider, name = named(self._wish, values.safe_text(model) if isinstance(model, str) else None)
        return Run(id=run_id, provider=provider, model=name, experiment=self._wish.experiment or NAME)

    def _domain(self) -> str | None:
        domain = _object(self._info.get("environment_info")).get("domain_name")
        return values.line(values.safe_text(domain)) if isinstance(domain, str) and domain else None

    def _entries(self) -> Iterator[object]:
        tasks: dict[str, _Members] = {}
        with Reading(self._path) as self._reading:
            text = JsonText(self._reading, str(self._path))
            for name in text.names():
                if name == "simulations":
                    yield from (_entry(one, tasks) for one in text.elements())
                elif name == "tasks":
                    tasks.update((str(task.get("id")), task) for task in map(_object, text.elements()))
                elif name == "info":
                    self._info = _object(text.value())
                    self._tell_left_out(name, self._info)
                else:
                    self._tell_left_out(name, text.value())

    def _tell_left_out(self, name: str, value: object) -> None:
        if value and self._passes:
            self._left_out.add(f"the file's field `{values.line(name)}`")


def _entry(simulation: object, tasks: Mapping[str, _Members]) -> object:
    """A simulation as an entry of the first version; what is none stays what it is."""
    if not isinstance(simulation, dict):
        return simulation
    graded, ended = simulation.get("reward_info"), simulation.get("termination_reason")
    broke = {"error": f"the simulation ended with {ended}"} if ended in _BROKE else {}
    task = tasks.get(str(simulation.get("task_id")), {})
    rest = {key: value for key, value in simulation.items() if key not in ("reward_info", "messages")}
    return {
        **rest,
        "reward": _object(graded).get("reward"),
        "info": {"task": _task(task) if task else {}, "reward_info": _reward(graded), **broke},
        "traj": [_message(one) for one in _flat(messages)]
        if isinstance(messages := simulation.get("messages"), list)
        else messages,
    }


def _flat(messages: list[JsonValue]) -> Iterator[JsonValue]:
    """Answers to several calls at once stand in one message."""
    for message in messages:
        several = _object(message).get("tool_messages")
        yield from several if isinstance(several, list) and several else [message]


def _task(task: _Members) -> dict[str, JsonValue]:
    """Calls that the agent is expected to make are its actions; the simulated user has tools of its own."""
    criteria = _object(task.get("evaluation_criteria"))
    given = criteria.get("actions")
    actions = [one for one in given if _is_agents(one)] if isinstance(given, list) else []
    others = [one if not _is_agents(one) else _untold(one) for one in given] if isinstance(given, list) else given
    return {
        **{key: value for key, value in task.items() if key not in ("user_scenario", "evaluation_criteria")},
        "instruction": task.get("user_scenario"),
        "actions": [{"name": one["name"], "kwargs": one["arguments"]} for one in map(_object, actions)],
        "outputs": criteria.get("communicate_info") or [],
        "evaluation_criteria": {
            **{key: value for key, value in criteria.items() if key != "communicate_info"},
            "actions": others,
        },
    }


def _is_agents(action: JsonValue) -> bool:
    given = _object(action)
    return "name" in given and "arguments" in given and given.get("requestor", "assistant") == "assistant"


def _untold(action: JsonValue) -> JsonValue:
    """What an expected call does not say of its action."""
    return {key: value for key, value in _object(action).items() if key not in ("name", "arguments")}


def _reward(graded: JsonValue) -> JsonValue:
    """With what the first version says of the database."""
    parts = _object(_object(graded).get("reward_breakdown"))
    told = _object(graded).get("info")
    if not isinstance(graded, dict) or "DB" not in parts or not isinstance(told, dict | None):
        return graded
    return {**graded, "info": {**(told or {}), "r_actions": parts["DB"]}}


def _message(message: JsonValue) -> JsonValue:
    """A call names its function `name`; an answer's `id` is that of its call, its `error` says only whether."""
    if not isinstance(message, dict):
        return message
    given = dict(message)
    if given.get("role") == "assistant" and isinstance(calls := given.get("tool_calls"), list):
        given["tool_calls"] = [_call(call) for call in calls]
    if given.get("role") == "tool":
        given["tool_call_id"] = given.pop("id", None)
        if isinstance(error := given.pop("error", None), bool):
            given["error"] = "error" if error else None
    return cast(JsonValue, given)


def _call(call: JsonValue) -> JsonValue:
    if not isinstance(call, dict) or "function" in call:
        return call
    return {**{key: value for key, value in call.items() if key != "name"}, "function": call.get("name")}


def _object(value: object) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}

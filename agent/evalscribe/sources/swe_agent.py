"""Read trajectories of SWE-agent and mini-SWE-agent: the messages, the patch, and how the agent's work ended.

Each trajectory is about one task. It does not say whether the patch is correct, because SWE-bench evaluates the patch
later (see `swebench`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from evalscribe.sources.recognition import FileStart, has
from evalscribe.sources.records import dicts, figure, object_of, text_of, unix_time

SUFFIXES = (".traj.json", ".traj")
_COMMAND = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)
_TASKS = (
    ("<pr_description>", "Consider the following PR description:", "</pr_description>"),
    ("ISSUE:\n", "", "\nINSTRUCTIONS:"),
)
"""Parts of each known prompt: the text before the issue, an introduction to remove, and the text after the issue."""
_SUBMITTED = re.compile(r"submitted\b", re.IGNORECASE)
_LIMITS = re.compile(
    r"\b(?:LimitsExceeded|TimeExceeded|exit_cost|exit_total_execution_time|exit_command_timeout|exit_context"
    r"|ContextWindowExceededError)\b"
)
_FORMAT = re.compile(r"\b(?:RepeatedFormatError|FormatError|exit_format)\b")
_DIFF = re.compile(r"^(?:diff --git |--- \S|Index: )", re.MULTILINE)


class Attempt(NamedTuple):
    """An agent's work on one task."""

    instance: str | None
    model: str | None
    task: str
    conversations: list[tuple[str | None, list[object]]]
    patch: str
    ending: "Ending"
    cost_usd: object
    input_tokens: object
    output_tokens: object
    times: tuple[str, ...]
    """Times of the first and the last message; empty if the messages have no times."""
    metadata: Mapping[str, object]


class Ending(NamedTuple):
    """How an agent's work ended, according to its exit status."""

    status: str = ""
    error: str = ""
    """Text of the exception that ended the agent's work; empty if there was no exception."""

    @property
    def submitted(self) -> bool:
        """True if a patch was submitted. If a limit ended the agent's work, the harness submits the patch."""
        return bool(_SUBMITTED.match(self.status))

    @property
    def limit(self) -> bool:
        """True if a limit on calls, cost, time or context ended the agent's work."""
        return bool(_LIMITS.search(self.status))

    @property
    def unreadable(self) -> bool:
        """True if the agent's work ended because the model's answers did not have the required format."""
        return bool(_FORMAT.search(self.status))

    @property
    def broken(self) -> bool:
        """True if the agent's work ended because of an error in the harness, the environment or the provider."""
        return bool(self.status) and not (self.submitted or self.limit or self.unreadable)


def recognise_trajectory(start: FileStart) -> str | None:
    """Return the feature by which a trajectory file is recognised; None if the file is not a trajectory."""
    version = start.top.get("trajectory_format")
    if isinstance(version, str) and version.startswith("mini-swe-agent"):
        return f"its `trajectory_format` is {version}"
    if has(start.top, "info", "messages") and (b'"model_stats"' in start.bytes or b'"exit_status"' in start.bytes):
        return "it has `messages`, and `info` with an exit status"
    return has(start.top, "trajectory", "history", "info")


def read_attempt(trajectory: Mapping[str, object]) -> Attempt:
    """Read a trajectory that was written by SWE-agent or mini-SWE-agent."""
    info = object_of(trajectory.get("info"))
    return _mini(trajectory, info) if "messages" in trajectory else _swe_agent(trajectory, info)


def _mini(trajectory: Mapping[str, object], info: Mapping[str, object]) -> Attempt:
    messages = dicts(trajectory.get("messages"))
    config, stats = object_of(info.get("config")), object_of(info.get("model_stats"))
    responses = [response for message in messages if (response := object_of(_extra(message).get("response")))]
    usage = [object_of(response.get("usage")) for response in responses]
    model = object_of(config.get("model"))
    agent, environment = object_of(config.get("agent")), object_of(config.get("environment"))
    return Attempt(
        # Only the SWE-bench runner of mini-SWE-agent adds this id.
        instance=text_of(trajectory.get("instance_id")) or None,
        model=text_of(model.get("model_name")) or None,
        task=_task(messages),
        conversations=[(None, list(_mini_messages(messages)))],
        patch=_patch(info),
        ending=_ending(info, messages),
        cost_usd=stats.get("instance_cost"),
        input_tokens=_sum(usage, "prompt_tokens"),
        output_tokens=_sum(usage, "completion_tokens"),
        times=_times(
            [
                *(_extra(message).get("timestamp") for message in messages),
                *(response.get("created") for response in responses),
            ]
        ),
        metadata={
            "api_calls": stats.get("api_calls"),
            "agent_version": info.get("mini_version"),
            "limits": {name: value for name, value in agent.items() if "limit" in name and value},
            "image": environment.get("image"),
            "model_settings": model.get("model_kwargs"),
        },
    )


def _extra(message: Mapping[str, object]) -> Mapping[str, object]:
    return object_of(message.get("extra"))


def _mini_messages(messages: Sequence[Mapping[str, object]]) -> Iterator[object]:
    """Yield the messages of a mini-SWE-agent trajectory.

    If the text of a message contains a command, the command becomes a tool call, and the next message becomes the
    result of this call.
    """
    waiting: str | None = None
    for number, source in enumerate(messages):
        role, answered, waiting = source.get("role"), waiting, None
        # The last message only repeats the exit status and the patch.
        if role == "exit":
            continue
        if role == "assistant":
            message: dict[str, object] = {
                "role": role,
                "content": source.get("content") or "",
                "reasoning": text_of(source.get("reasoning_content")) or _reasoning(_extra(source)),
                "tool_calls": source.get("tool_calls") or [],
            }
            if not message["tool_calls"] and (parts := _command(source)):
                waiting = f"call-{number}"
                message |= {"content": parts[0], "tool_calls": [_bash(waiting, parts[1])]}
            yield message
        elif role == "tool" or answered:
            id = text_of(source.get("tool_call_id")) or answered
            error = text_of(_extra(source).get("exception_info")) or None
            yield {"role": "tool", "content": source.get("content") or "", "tool_call_id": id, "error": error}
        else:
            yield {"role": role, "content": source.get("content") or ""}


def _command(message: Mapping[str, object]) -> tuple[str, str] | None:
    """Split a message into its text and the command in it.

    Returns None unless the message contains exactly one command.
    """
    text = text_of(message.get("content"))
    matches = list(_COMMAND.finditer(text))
    if len(matches) != 1:
        return None
    return (text[: matches[0].start()] + text[matches[0].end() :]).strip(), matches[0][1].strip()


def _bash(id: str, command: str) -> dict[str, object]:
    return {"id": id, "function": "bash", "arguments": {"command": command}}


def _reasoning(extra: Mapping[str, object]) -> str:
    choices = dicts(object_of(extra.get("response")).get("choices"))
    message = object_of(choices[0].get("message")) if choices else {}
    return text_of(message.get("reasoning")) or text_of(message.get("reasoning_content"))


def _swe_agent(trajectory: Mapping[str, object], info: Mapping[str, object]) -> Attempt:
    history = [entry for entry in dicts(trajectory.get("history")) if not entry.get("is_demo")]
    stats = object_of(info.get("model_stats"))
    by_agent: dict[str, list[Mapping[str, object]]] = {}
    for name, agent_history in groupby(history, lambda entry: text_of(entry.get("agent"))):
        by_agent.setdefault(name, []).extend(agent_history)
    names = list(by_agent)
    conversations: list[tuple[str | None, list[object]]] = [
        (name if n else None, list(_history(by_agent[name]))) for n, name in enumerate(names)
    ]
    return Attempt(
        instance=None,
        model=_replayed_model(trajectory.get("replay_config")),
        task=_task(history),
        conversations=conversations or [(None, list(_steps(dicts(trajectory.get("trajectory")))))],
        patch=_patch(info),
        ending=_ending(info, ()),
        cost_usd=stats.get("instance_cost"),
        input_tokens=stats.get("tokens_sent"),
        output_tokens=stats.get("tokens_received"),
        times=(),
        metadata={"api_calls": stats.get("api_calls"), "agent_version": info.get("swe_agent_version")},
    )


def _history(history: Iterable[Mapping[str, object]]) -> Iterator[object]:
    waiting: str | None = None
    for number, entry in enumerate(history):
        role, answered, waiting = entry.get("role"), waiting, None
        if role == "assistant":
            message: dict[str, object] = {"role": role, "content": entry.get("content") or ""}
            message["tool_calls"] = entry.get("tool_calls") or []
            if not message["tool_calls"] and (action := text_of(entry.get("action"))):
                waiting = f"call-{number}"
                message |= {"content": entry.get("thought") or "", "tool_calls": [_bash(waiting, action.strip())]}
            yield message
        elif role == "tool" or answered:
            ids = entry.get("tool_call_ids")
            id = next((text_of(id) for id in ids), None) if isinstance(ids, list) else answered
            yield {"role": "tool", "content": entry.get("content") or "", "tool_call_id": id}
        else:
            yield {"role": role, "content": entry.get("content") or ""}


def _steps(trajectory: Iterable[Mapping[str, object]]) -> Iterator[object]:
    for number, step in enumerate(trajectory):
        call = _bash(f"call-{number}", text_of(step.get("action")).strip())
        yield {"role": "assistant", "content": text_of(step.get("thought")), "tool_calls": [call]}
        yield {"role": "tool", "content": text_of(step.get("observation")), "tool_call_id": call["id"]}


def _replayed_model(config: object) -> str | None:
    if isinstance(config, str):
        # The config is a text that contains JSON.
        match = re.search(r'"model":\s*\{"name":\s*"([^"\\]{1,200})"', config)
        return match[1] if match else None
    return text_of(object_of(object_of(object_of(config).get("agent")).get("model")).get("name")) or None


def _task(messages: Iterable[Mapping[str, object]]) -> str:
    content = next((message.get("content") for message in messages if message.get("role") == "user"), "")
    text = "\n".join(text_of(part.get("text")) for part in dicts(content)) if isinstance(content, list) else content
    text = text_of(text)
    for begin, introduction, end in _TASKS:
        # A regular expression would take quadratic time for a text with many beginnings and no end.
        _, delimiter, rest = text.partition(begin)
        issue, ended, _ = rest.partition(end)
        if delimiter and ended:
            return issue.strip().removeprefix(introduction).strip()
    return text


def _patch(info: Mapping[str, object]) -> str:
    """Return the submitted patch; empty if there is none.

    In mini-SWE-agent 1, an exception can be stored in place of the patch.
    """
    submission = info.get("submission")
    text = text_of(submission) or text_of(object_of(submission).get("model_patch"))
    return text if _SUBMITTED.match(str(info.get("exit_status"))) or _DIFF.search(text) else ""


def _ending(info: Mapping[str, object], messages: Sequence[Mapping[str, object]]) -> Ending:
    last = _extra(messages[-1]) if messages else {}
    status = info.get("exit_status") or last.get("exit_status")
    error = text_of(info.get("exception_str")) or text_of(last.get("exception_str"))
    if not error and not _patch(info):
        error = text_of(info.get("submission"))
    return Ending("" if status is None else str(status), error)


def _sum(usage: Sequence[Mapping[str, object]], name: str) -> float | None:
    """Return the sum of a usage figure over all answers; None if an answer lacks this figure."""
    figures = [figure(response_usage.get(name)) for response_usage in usage]
    numbers = [number for number in figures if number is not None]
    return sum(numbers) if numbers and len(numbers) == len(figures) else None


def _times(seconds: Iterable[object]) -> tuple[str, ...]:
    timestamps = sorted(number for value in seconds if (number := figure(value)))
    return tuple(time for timestamp in timestamps[:1] + timestamps[-1:] if (time := unix_time(timestamp)))

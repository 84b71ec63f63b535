"""Read trajectories in the Agent Trajectory Interchange Format (ATIF), versions 1.2 to 1.8.

The package `atif` is not used, because it accepts only valid files. Agents often write files that are not valid, and an
eval with one wrong step must still be read.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import DataError, EvalscribeError
from evalscribe.model.evidence import Document
from evalscribe.sources.files import file_below
from evalscribe.sources.recognition import FileStart, FolderStart, Format
from evalscribe.sources.records import (
    MAX_SESSION_CHARACTERS,
    EvalReader,
    SourceEval,
    SourceRun,
    dicts,
    figure,
    object_of,
    text_of,
)

NAME = "atif"
MAX_PARTS = 100
"""Maximum number of files that are read for one trajectory, including those of its sub-agents."""
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}
_VERSION = re.compile(r"ATIF-v1\.(\d+)")
_CONTINUATION = re.compile(r"\.cont-\d+\.json$")


class AtifTrajectory(NamedTuple):
    """A trajectory with its continuations and sub-agents."""

    agent: Mapping[str, object]
    conversations: list[tuple[str | None, list[object]]]
    """Name and messages of each agent.

    The main agent comes first, with None as its name. The sub-agents follow.
    """
    metrics: Mapping[str, object]
    """`final_metrics` of the last file that has them. They contain totals over all files of the trajectory.

    If no file has `final_metrics`, the sums over all steps are used.
    """
    metadata: Mapping[str, object]
    times: tuple[str, ...]
    """Times of the first and the last step; empty if no times are recorded."""


_Load = Callable[[Path], tuple[Mapping[str, object], int]]


def read_trajectory(path: Path, load: _Load) -> AtifTrajectory:
    """Read a trajectory, including the files with its continuations and sub-agents. Each file is read once.

    Args:
        path: The first file.
        load: Reads a JSON object from a file, and returns the object and its number of characters.

    Raises the same errors as `load` if the first file cannot be read.
    """
    conversations: list[tuple[str | None, list[object]]] = []
    messages: list[object] = []
    metadata: dict[str, object] = {}
    agent: Mapping[str, object] = {}
    metrics: Mapping[str, object] = {}
    measured: list[Mapping[str, object]] = []
    times: list[str] = []
    read_paths: set[Path] = set()
    remaining_characters = MAX_SESSION_CHARACTERS
    part: Path | None = path

    def load_next(file: Path) -> Mapping[str, object]:
        nonlocal remaining_characters
        if len(read_paths) >= MAX_PARTS or (read_paths and remaining_characters <= 0):
            raise DataError("the trajectory has too many parts, or its parts are too long")
        read_paths.add(file)
        trajectory, characters = load(file)
        remaining_characters -= characters
        return trajectory

    while part is not None:
        try:
            trajectory = load_next(part)
        except EvalscribeError as error:
            if part == path:
                raise
            metadata["continuation"] = str(error)
            break
        agent = agent or object_of(trajectory.get("agent"))
        metrics = object_of(trajectory.get("final_metrics")) or metrics
        fields = ("schema_version", "session_id", "trajectory_id", "notes", "extra")
        metadata |= {name: trajectory[name] for name in fields if trajectory.get(name) and name not in metadata}
        # A continuation repeats steps of the file before it. These steps must not be counted twice.
        steps = [step for step in dicts(trajectory.get("steps")) if part == path or not step.get("is_copied_context")]
        measured += [object_of(step.get("metrics")) for step in steps]
        times += [time for step in steps if (time := text_of(step.get("timestamp")))]
        messages += _messages(steps)
        conversations += _sub_agents(trajectory, part, load_next, read_paths)
        part = _beside(part, trajectory.get("continued_trajectory_ref"), read_paths)
    if agent.get("extra") or agent.get("tool_definitions"):
        metadata["agent_settings"] = {name: agent[name] for name in ("extra", "tool_definitions") if agent.get(name)}
    return AtifTrajectory(
        agent,
        [(None, messages), *conversations],
        metrics or _sums(measured),
        metadata,
        (min(times), max(times)) if times else (),
    )


def _sums(measured: Sequence[Mapping[str, object]]) -> dict[str, object]:
    names = {"prompt_tokens": "total_prompt_tokens", "completion_tokens": "total_completion_tokens"}
    totals: dict[str, object] = {}
    for name, total in {**names, "cost_usd": "total_cost_usd"}.items():
        numbers = [number for metrics in measured if (number := figure(metrics.get(name))) is not None]
        totals |= {total: sum(numbers)} if numbers else {}
    return totals


def _beside(path: Path, reference: object, read_paths: set[Path]) -> Path | None:
    """Return the file that a trajectory refers to.

    Returns None if the file was read before, or if it is neither in the trajectory's folder nor in a subfolder. The
    file name of a copied trajectory can have a prefix that the references in the file lack. For example,
    `a.trajectory.json` can refer to `trajectory.cont-1.json`.
    """
    name = text_of(reference) or text_of(object_of(reference).get("trajectory_path"))
    if not name:
        return None
    names = [name]
    if continues := _CONTINUATION.search(name):
        names.append(_CONTINUATION.sub("", path.name).removesuffix(".json") + continues[0])
    files = (file_below(path.parent, *Path(candidate).parts) for candidate in names)
    # Several parts can name the same sub-agent, and a part can name itself as its continuation.
    return next((file for file in files if file is not None and file not in read_paths), None)


def _sub_agents(
    trajectory: Mapping[str, object], path: Path, load: Callable[[Path], Mapping[str, object]], read_paths: set[Path]
) -> Iterator[tuple[str | None, list[object]]]:
    embedded = dicts(trajectory.get("subagent_trajectories"))
    paths: dict[str, None] = {}
    for step in dicts(trajectory.get("steps")):
        for result in dicts(object_of(step.get("observation")).get("results")):
            references = result.get("subagent_trajectory_ref")
            for reference in dicts(references if isinstance(references, list) else [references]):
                if name := text_of(reference.get("trajectory_path")):
                    paths[name] = None
    for name in list(paths)[:MAX_PARTS]:
        if (file := _beside(path, name, read_paths)) is not None:
            try:
                embedded.append(dict(load(file)))
            except EvalscribeError:
                continue
    for n, sub_agent in enumerate(embedded[:MAX_PARTS], 1):
        agent = object_of(sub_agent.get("agent"))
        yield text_of(agent.get("name")) or f"sub-agent {n}", list(_messages(dicts(sub_agent.get("steps"))))


def _messages(steps: Sequence[Mapping[str, object]]) -> Iterator[object]:
    """Yield the messages of a trajectory's steps.

    A step contains the results of its tool calls. Each result becomes a separate message.
    """
    for step in steps:
        role = _ROLES.get(text_of(step.get("source")), "user")
        calls = [_call(call) for call in dicts(step.get("tool_calls"))]
        message: dict[str, object] = {"role": role, "content": _content(step.get("message"))}
        if role == "assistant":
            message |= {"reasoning": text_of(step.get("reasoning_content")), "model": _model(step)}
            message["tool_calls"] = calls
        if step.get("message") or calls or message.get("reasoning"):
            yield message
        for result in dicts(object_of(step.get("observation")).get("results")):
            id = text_of(result.get("source_call_id"))
            function = next((call["function"] for call in calls if call["id"] == id), None)
            content = _content(result.get("content"))
            if function is None and not calls:
                # The message itself contains the command, so no tool was called.
                if content:
                    yield {"role": "user" if role == "assistant" else role, "content": content}
            else:
                yield {"role": "tool", "content": content, "tool_call_id": id or None, "function": function}


def _model(step: Mapping[str, object]) -> object:
    """Return the model that an agent's step used; None if the step called no model."""
    return None if step.get("llm_call_count") == 0 else step.get("model_name") or None


def _call(call: Mapping[str, object]) -> dict[str, object]:
    return {
        "id": text_of(call.get("tool_call_id")),
        "function": text_of(call.get("function_name")) or "unnamed",
        "arguments": call.get("arguments") if isinstance(call.get("arguments"), dict) else {},
    }


def _content(value: object) -> object:
    return value if isinstance(value, str | list) else ""


def first_request(trajectory: AtifTrajectory) -> str:
    """Return the text of the first user message."""
    messages = (object_of(message) for message in trajectory.conversations[0][1])
    first = next((message for message in messages if message.get("role") == "user" and message.get("content")), {})
    content = first.get("content")
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text_of(part) or text_of(object_of(part).get("text")) for part in parts).strip("\n")


class AtifReader(EvalReader):
    """Reads a trajectory file, or a folder of trajectories.

    Every eval has the status `incomplete`, because trajectories have no verdict.
    """

    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        files = trajectory_files(self._path) if self._path.is_dir() else [self._path]
        for path in files:
            try:
                trajectory = read_trajectory(path, self._load_counted)
            except EvalscribeError as error:
                if len(files) == 1:
                    raise
                self._omit(f"a trajectory that cannot be read: {error}", path.name, lost=True)
                continue
            yield self._eval(trajectory, path)

    def _eval(self, trajectory: AtifTrajectory, path: Path) -> SourceEval:
        agent = trajectory.agent
        model = text_of(agent.get("model_name")) or None
        name = re.sub(r"\.json(\.gz)?$", "", path.name).removesuffix(".trajectory")
        return SourceEval(
            run=SourceRun(key=model or "", model=model, experiment=text_of(agent.get("name")) or "default"),
            name=name,
            status="incomplete",
            reason="a trajectory has no verdict",
            place=path.name,
            documents=(Document(role="task", path="task", text=first_request(trajectory)),),
            conversations=trajectory.conversations,
            metadata={
                **trajectory.metadata,
                "final_metrics": trajectory.metrics,
                "agent_version": agent.get("version"),
            },
            started_at=next(iter(trajectory.times), None),
            ended_at=next(reversed(trajectory.times), None),
            input_tokens=trajectory.metrics.get("total_prompt_tokens"),
            output_tokens=trajectory.metrics.get("total_completion_tokens"),
            cost_usd=trajectory.metrics.get("total_cost_usd"),
        )


def trajectory_files(folder: Path) -> list[Path]:
    """Return the trajectory files in a folder. Files that continue another trajectory are left out."""
    return [
        path
        for path in sorted(folder.iterdir())
        if path.suffix == ".json"
        and not _CONTINUATION.search(path.name)
        and path.is_file()
        and not path.is_symlink()
        and _is_trajectory(path)
    ]


def _is_trajectory(path: Path) -> bool:
    # A damaged file is not a trajectory.
    with suppress(EvalscribeError):
        return _recognise_object(FileStart(path).top) is not None
    return False


def _recognise_object(fields: Mapping[str, object]) -> str | None:
    version = fields.get("schema_version")
    return f"its `schema_version` is {version}" if isinstance(version, str) and _VERSION.match(version) else None


def _recognise_folder(start: FolderStart) -> str | None:
    if any(_CONTINUATION.search(name) for name in start.names):
        return "it has a trajectory with its continuation" if trajectory_files(start.path) else None
    return None


FORMATS = (
    Format(
        name=NAME,
        title="ATIF",
        open=AtifReader,
        recognise=lambda start, _: _recognise_object(start.top),
        recognise_folder=_recognise_folder,
        names=("schema_version", "session_id", "agent", "steps", "final_metrics"),
        a_run="the agent and model of the file or folder",
        an_eval="a trajectory with its continuations",
        passed="never: a trajectory has no verdict",
        versions="1.5, 1.7, 1.8",
        fields={
            "steps": "messages; a tool's result becomes a message of its own; copied context is left out",
            "subagent_trajectories": "transcripts of their own",
            "continued_trajectory_ref": "the continuation is read too, if it is in the same folder",
            "agent.model_name, agent.name": "model and experiment of the run",
            "final_metrics": "tokens, cost; metadata",
            "notes, extra, session_id": "metadata",
        },
    ),
)

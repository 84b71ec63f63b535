"""Trajectories of tool-agent-user benchmarks: `[{task_id, reward, info, traj, trial}]`, each a trial of a task."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from evalscribe.agent_run import TranscriptToolCall
from evalscribe.agent_run.told import told_calls
from evalscribe.errors import DataError
from evalscribe.evidence import Document
from evalscribe.prose import slug
from evalscribe.record import Record
from evalscribe.run import Eval, EvalStatus, Run, Step
from evalscribe.sources.imports import tau_messages, tau_steps, values
from evalscribe.sources.imports.json_text import JsonText
from evalscribe.sources.imports.left_out import LeftOut
from evalscribe.sources.imports.overrides import RunOverrides, agent, named
from evalscribe.sources.imports.reading import Reading

NAME = "tau-bench"
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_Entry = Mapping[str, JsonValue]


class TauBench:
    """A file of trajectories as `ports.Records`. It is read twice: how many trials a task has stands nowhere."""

    format = NAME

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        self._path = path
        self._wish = overrides
        self._left_out = LeftOut()
        self._reading: Reading | None = None
        self._passes = 0

    @property
    def left_out(self) -> Mapping[str, int]:
        return self._left_out.told()

    @property
    def progress(self) -> float:
        return (self._passes + (self._reading.progress if self._reading else 0)) / 2

    def read(self) -> Iterator[Run | Record]:
        known = _Known()
        with suppress(DataError):  # The second pass tells where it ends.
            for entry in self._entries():
                if isinstance(entry, dict):
                    known.saw(entry)
        assert self._reading is not None
        run = self._run(self._reading.digest[:32])
        known.domain = self._domain() or known.domain
        self._passes = 1
        yield run
        for number, entry in enumerate(self._entries()):
            if (record := self._record(entry, number, run, known)) is not None:
                yield record

    def _run(self, run_id: str) -> Run:
        provider, model = named(self._wish, None)
        return Run(id=run_id, provider=provider, model=model, experiment=self._wish.experiment or NAME)

    def _domain(self) -> str | None:
        """The domain, where the file names it."""
        return None

    def _entries(self) -> Iterator[object]:
        with Reading(self._path) as self._reading:
            text = JsonText(self._reading, str(self._path))
            yield from text.elements()
            text.end()

    def _record(self, entry: object, number: int, run: Run, known: "_Known") -> Record | None:
        place = f"[{number}]"
        if not isinstance(entry, dict) or "task_id" not in entry:
            self._left_out.add("an entry that is no object with a `task_id`", place)
            return None
        try:
            return _record(cast(_Entry, values.safe(entry)), run, known, self._left_out, place)
        except DataError as error:
            self._left_out.add(f"an entry that cannot be kept: {error}", place)
            return None


class _Known:
    """What the whole file tells of its tasks."""

    def __init__(self) -> None:
        self.domain: str | None = None
        self._trials: Counter[str] = Counter()
        self._taken: dict[str, set[int]] = {}

    def saw(self, entry: Mapping[str, object]) -> None:
        self._trials[_task(entry)] += 1
        if self.domain is None:
            self.domain = _domain(entry.get("traj"))

    def trials(self, task: str) -> int:
        return self._trials[task]

    def trial(self, task: str, given: object) -> int:
        """The trial as numbered from 1; one that is taken, or that the file does not tell, is the next free one."""
        taken = self._taken.setdefault(task, set())
        trial = given + 1 if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else 1
        while trial in taken:
            trial += 1
        taken.add(trial)
        return trial


def _record(entry: _Entry, run: Run, known: _Known, left_out: LeftOut, place: str) -> Record:
    task = _task(entry)
    name = f"task-{task}"
    trial = known.trial(task, entry.get("trial"))
    info = entry.get("info")
    info = info if isinstance(info, dict) else {}
    given = info.get("task")
    given = given if isinstance(given, dict) else {}
    eval_id = values.eval_id(run.id, name, trial)
    traj = entry.get("traj")
    messages = tau_messages.with_calls(traj) if isinstance(traj, list) else []
    spoken = values.transcript(f"{eval_id}-0", messages, left_out, place)
    steps = tau_steps.steps(entry, spoken.messages)
    failed = next((step for step in steps if step.status == "failed"), None)
    status = _status(entry, info)
    return Record(
        run_id=run.id,
        eval=Eval(
            id=eval_id,
            category=known.domain or NAME,
            name=name,
            trial=trial,
            trials=known.trials(task),
            status=status,
            failed_step=failed.name if failed and status == "failed" else None,
            reason=_reason(status, failed, entry, info),
        ),
        metadata={**_metadata(entry, info, given, task), "agent": agent(run)},
        transcripts=(spoken,) if spoken.messages else (),
        steps=steps,
        documents=_documents(given, info),
        missing=_missing(entry, info, given),
    )


def _task(entry: Mapping[str, object]) -> str:
    return values.line(entry["task_id"]) if "task_id" in entry else "unnamed"


def _domain(traj: object) -> str | None:
    """What the agent's policy calls itself, which tells the tasks of one domain from those of another."""
    first = traj[0] if isinstance(traj, list) and traj else None
    content = first.get("content") if isinstance(first, dict) and first.get("role") == "system" else None
    heading = _HEADING.search(content[:2000]) if isinstance(content, str) else None
    return slug(values.safe_text(heading[1]))[:60].lower() or None if heading else None


def _status(entry: _Entry, info: _Entry) -> EvalStatus:
    if "error" in info or "traceback" in info:
        return "error"
    reward = values.number(entry.get("reward"))
    if reward is None:
        return "incomplete"
    return "passed" if reward >= 1 else "failed"


def _reason(status: EvalStatus, failed: Step | None, entry: _Entry, info: _Entry) -> str | None:
    if status == "error":
        return _text(info.get("error") or "the harness broke")
    if status != "failed":
        return None
    return failed.error if failed else f"reward {entry.get('reward')}"


def _metadata(entry: _Entry, info: _Entry, task: _Entry, name: str) -> dict[str, JsonValue]:
    """What the file says under its own names, without what is a document, transcript or score already."""
    reward = values.number(entry.get("reward"))
    rest: dict[str, JsonValue] = {key: value for key, value in entry.items() if key not in ("info", "traj", "reward")}
    if reward is None and "reward" in entry:
        rest["reward"] = entry["reward"]
    if not isinstance(entry.get("traj"), list):
        rest["traj"] = entry.get("traj")
    kept = _info(info, task) if isinstance(entry.get("info"), dict) else entry.get("info")
    return {
        **rest,
        "info": kept,
        "task": name,
        "scores": {} if reward is None else {"reward": reward},
    }


def _info(info: _Entry, task: _Entry) -> JsonValue:
    kept = {key: value for key, value in info.items() if key not in ("task", "traceback")}
    if "task" in info:
        kept["task"] = {key: value for key, value in task.items() if key not in _DOCUMENTS} if task else info["task"]
    given = kept.get("reward_info")
    if isinstance(given, dict) and "actions" in given and given["actions"] == task.get("actions"):
        kept["reward_info"] = {key: value for key, value in given.items() if key != "actions"}
    return kept


_DOCUMENTS = ("instruction", "actions", "outputs")


def _documents(task: _Entry, info: _Entry) -> tuple[Document, ...]:
    documents = []
    if "instruction" in task:
        documents.append(Document(role="task", path="instruction", text=_text(task["instruction"])))
    if "actions" in task:
        documents.append(_actions(task["actions"]))
    if "outputs" in task:
        documents.append(Document(role="expected", path="outputs.json", text=_text(task["outputs"])))
    if "traceback" in info:
        documents.append(Document(role="log", path="traceback", text=_text(info["traceback"])))
    return tuple(documents)


def _actions(value: JsonValue) -> Document:
    """Expected calls as they would stand in the transcript; as JSON where there is more to them than a call."""
    actions = value if isinstance(value, list) else [value]
    calls = [call for action in actions if (call := _call(action)) is not None]
    if not calls or len(calls) < len(actions):
        return Document(role="expected", path="actions.json", text=_text(value))
    return Document(role="expected", path="actions", text=told_calls(calls))


def _call(action: JsonValue) -> TranscriptToolCall | None:
    if not isinstance(action, dict) or action.keys() != {"name", "kwargs"}:
        return None
    name, arguments = action["name"], action["kwargs"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return TranscriptToolCall.model_construct(id="", function=name, arguments=arguments, metadata={})


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2 if value else None)


def _missing(entry: _Entry, info: _Entry, task: _Entry) -> tuple[str, ...]:
    missing = []
    if not entry.get("traj"):
        missing.append("there is no trajectory")
    if not task:
        missing.append("the file does not hold the task")
    if "error" not in info and not info.get("reward_info"):
        missing.append("the conversation was not graded")
    return tuple(missing)

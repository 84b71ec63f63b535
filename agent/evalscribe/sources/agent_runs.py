"""Read agent runs in the format of the SDK and `evalscribe judge`.

A file has one agent run per line, or is a JSON list of agent runs. The file becomes one run, and each agent run in it
becomes an eval.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.model.record import Record, Records
from evalscribe.model.run import Eval, EvalStatus, Run, Step
from evalscribe.model.transcript import ROLES, AgentRun, Transcript, parse_agent_run
from evalscribe.sources import records
from evalscribe.sources.address import RunOverrides, agent_metadata, provider_and_model
from evalscribe.sources.files import FileReader
from evalscribe.sources.recognition import FileStart, Format, has
from evalscribe.sources.records import Omissions, RecordFile, Trials
from evalscribe.sources.streams import JsonStream, json_lines

NAME = "agent-runs"
_MAIN = ("reward", "score", "passed", "correct")
"""Names of the scores that decide whether an eval passed, in order of preference.

If an agent run has none of these scores, its first score decides.
"""
IT = "it"
"""Subject of error messages about an agent run.

The subject is removed when the agent run's location is written before the message.
"""
_Numbered = tuple[int, object]


class AgentRuns(RecordFile):
    """A file of agent runs.

    The file is read twice. The first pass counts the trials of each task.
    """

    format = NAME
    passes = 2

    def __init__(self, path: Path, overrides: RunOverrides, *, by_line: bool) -> None:
        super().__init__(path, overrides)
        self._by_line = by_line

    def read(self) -> Iterator[Run | Record]:
        trials = Trials()
        model: str | None = None
        with suppress(DataError):  # The second pass raises this error, after it has yielded the readable evals.
            for _, value in self._values(Omissions()):
                if isinstance(value, dict):
                    trials.count(_name(value))
                    model = model or _model(value)
        run_id = self._finish_first_pass()
        provider, name = provider_and_model(self._overrides, model)
        run = Run(id=run_id, provider=provider, model=name, experiment=self._overrides.experiment or "default")
        yield run
        for number, value in self._values(self._left_out):
            if (record := self._record(number, value, run, trials)) is not None:
                yield record

    def _record(self, number: int, value: object, run: Run, trials: Trials) -> Record | None:
        place = f"line {number}" if self._by_line else f"[{number}]"
        try:
            if not isinstance(value, dict):
                raise DataError("not an object")
            return _record(value, run, *trials.next(_name(value)))
        except DataError as error:
            reason = str(error).removeprefix(f"{IT}: ")
            self._left_out.add(f"an agent run that cannot be read: {reason}", place, lost=True)
            return None

    def _values(self, left_out: Omissions) -> Iterator[_Numbered]:
        with FileReader(self._path) as self._reader:
            if self._by_line:
                for line in json_lines(self._reader):
                    if line.value is not None:
                        yield line.number, line.value
                    else:
                        # Without the position, equal problems in different lines are counted together.
                        problem = line.problem.partition(" at character")[0]
                        left_out.add(f"a line that cannot be read: {problem}", f"line {line.number}", lost=True)
                return
            text = JsonStream(self._reader, str(self._path))
            yield from enumerate(text.elements() if text.peek() == "[" else iter((text.value(),)))
            text.end()


class MessagesFile(AgentRuns):
    """A JSON list of messages that is read as one agent run. The messages can have unknown roles."""

    format = "messages"

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides, by_line=False)

    def _values(self, left_out: Omissions) -> Iterator[_Numbered]:  # noqa: ARG002
        with FileReader(self._path) as self._reader:
            text = JsonStream(self._reader, str(self._path))
            messages = [_with_known_role(message) for message in text.elements()]
            text.end()
        yield 0, {"name": re.sub(r"\.json(\.gz)?$", "", self._path.name), "messages": messages}


def _with_known_role(message: object) -> object:
    """Replace an unknown role in a message: `human` becomes `user`, and any other role becomes `assistant`.

    If the new role is `assistant`, the old role is added to the content.
    """
    if not isinstance(message, dict) or message.get("role") in (*ROLES, "developer"):
        return message
    if message.get("role") == "human":
        return {**message, "role": "user"}
    return {**message, "role": "assistant", "content": f"[{message.get('role')}] {message.get('content')}"}


def _record(value: dict[str, object], run: Run, trial: int, trials: int) -> Record:
    agent_run = parse_agent_run(value, IT)
    name = records.safe_name(_name(value))
    eval_id = agent_run.id if _is_unique(value.get("id")) else records.eval_id(run.id, name, trial)
    status, steps = _graded(agent_run)
    failed = next((step for step in steps if step.status == "failed"), None)
    metadata: dict[str, JsonValue] = dict(agent_run.metadata)
    if "id" in value and eval_id != agent_run.id:
        metadata.setdefault("id", agent_run.id)
    if agent_run.name and agent_run.name != name:
        metadata.setdefault("name", agent_run.name)
    metadata.setdefault("task", name)
    metadata.setdefault("scores", {})
    metadata.setdefault("agent", agent_metadata(run))
    return Record(
        run_id=run.id,
        eval=Eval(
            id=eval_id,
            category="",
            name=name,
            trial=trial,
            trials=trials,
            status=status,
            failed_step=failed.name if failed else None,
            reason=failed.error if failed else None,
        ),
        metadata=metadata,
        transcripts=tuple(
            _with_stable_id(transcript, eval_id, n, value) for n, transcript in enumerate(agent_run.transcripts)
        ),
        steps=steps,
    )


def _name(value: Mapping[str, object]) -> str:
    """Return the redacted name of an agent run's task.

    If no task is named, return the agent run's name or its id.
    """
    metadata = value.get("metadata")
    task = metadata.get("task") if isinstance(metadata, dict) else None
    name = next(
        (
            candidate
            for candidate in (task, value.get("name"), value.get("id"))
            if isinstance(candidate, str | int) and candidate
        ),
        None,
    )
    return records.safe_text(str(name if name is not None else "unnamed"))


def _model(value: Mapping[str, object]) -> str | None:
    metadata = value.get("metadata")
    agent = metadata.get("agent") if isinstance(metadata, dict) else None
    model = agent.get("model_name") if isinstance(agent, dict) else None
    model = model if isinstance(model, str) and model else _message_model(value)
    return records.safe_text(model) if model else None


def _message_model(value: Mapping[str, object]) -> str | None:
    messages = value.get("messages")
    dict_messages = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    return next(
        (message["model"] for message in dict_messages if isinstance(message.get("model"), str) and message["model"]),
        None,
    )


def _is_unique(id: object) -> bool:
    """Return True if an id is a UUID. Other ids might not be unique across files."""
    try:
        return isinstance(id, str) and str(UUID(id)) == id.lower()
    except ValueError:
        return False


def _graded(agent_run: AgentRun) -> tuple[EvalStatus, tuple[Step, ...]]:
    scores = agent_run.metadata.get("scores")
    numbers = (
        {name: number for name, value in scores.items() if (number := records.score_number(value)) is not None}
        if isinstance(scores, dict)
        else {}
    )
    if not numbers:
        return "incomplete", ()
    main = next((name for name in _MAIN if name in numbers), next(iter(numbers)))
    passed = numbers[main] >= 1
    error = None if passed else f"scored {numbers[main]:g}"
    return ("passed" if passed else "failed"), (
        Step(name=records.safe_name(main), status="passed" if passed else "failed", error=error),
    )


def _with_stable_id(transcript: Transcript, eval_id: str, number: int, value: Mapping[str, object]) -> Transcript:
    """Replace a randomly generated transcript id, because such an id would differ each time the file is read."""
    transcripts = value.get("transcripts")
    source_transcript = transcripts[number] if isinstance(transcripts, list) and number < len(transcripts) else None
    has_id = (
        isinstance(source_transcript, dict)
        and isinstance(source_transcript.get("id"), str)
        and bool(source_transcript["id"])
    )
    return transcript if has_id else transcript.model_copy(update={"id": f"{eval_id}-{number}"})


def _open(path: Path, overrides: RunOverrides) -> Records:
    return AgentRuns(path, overrides, by_line=FileStart(path).line is not None)


FORMATS = (
    Format(
        name=NAME,
        title="agent runs",
        open=_open,
        an_eval="an agent run",
        passed="`reward`, else `score`, `passed`, `correct` or the first score, is at least 1",
        fields={
            "messages, transcripts": "transcripts",
            "metadata.task, name, id": "name",
            "metadata.scores": "scores, the deciding step",
            "metadata.agent.model_name": "model of the run",
            "everything else": "metadata",
        },
        recognise=lambda start, _: has(start.first, "transcripts") or has(start.first, "messages"),
        names=("id", "messages", "transcripts", "metadata"),
    ),
    Format(
        name=MessagesFile.format,
        title="lists of messages",
        open=MessagesFile,
        recognise=lambda start, _: has(start.first, "role", "content") if start.character == "[" else None,
        an_eval="the file",
        passed="never: a list of messages has no verdict",
        fields={"role": "the speaker; unknown roles are named in the text", "content": "transcript"},
    ),
)

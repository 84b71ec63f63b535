"""Read `results.json` of Terminal-Bench 1, the version before Harbor.

The file has the results of a run or of a single trial.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalscribe.errors import EvalscribeError
from evalscribe.evidence.locate import telling_line
from evalscribe.model.evidence import Document
from evalscribe.model.record import Records
from evalscribe.model.reference_runs import VERIFIER
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import file_below, is_entry
from evalscribe.sources.recognition import FileStart, FolderStart, Format, has
from evalscribe.sources.records import (
    EvalReader,
    SourceEval,
    SourceRun,
    count,
    object_of,
    text_of,
)
from evalscribe.sources.streams import JsonStream

NAME = "terminal-bench"
RESULTS = "results.json"
MAX_TESTS = 2_000
LIMITS = ("agent_timeout", "context_length_exceeded", "output_length_exceeded")
"""Failure modes in which a limit ended the agent's work. The tests were still run on the unfinished work."""
MODES = {
    "test_timeout": "the tests ran into their time limit",
    "parse_error": "the output of the tests could not be parsed",
    "agent_timeout": "the agent ran into its time limit",
    "unknown_agent_error": "the agent program raised an error",
    "fatal_llm_parse_error": "the agent could not parse the model's answers",
    "context_length_exceeded": "the conversation no longer fitted the model's context",
    "output_length_exceeded": "an answer reached the model's output limit",
    "agent_installation_failed": "the agent program could not be installed",
}
# The digits are limited, because `int` refuses more than 4,300 of them.
_TRIAL = re.compile(r"\.(\d{1,6})-of-\d+\.")
_LOGS = ("post-test.txt", "post-agent.txt")
_SUMMARY = re.compile(r"FAILED [^\s:]*::(.+?) - (.+)$")


class TerminalBenchReader(EvalReader):
    """Reads the results of a run piece by piece.

    The logs of each trial are read from the folder with the trial's name.
    """

    format = NAME

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path / RESULTS if path.is_dir() else path, overrides)

    def evals(self) -> Iterator[SourceEval]:
        top = FileStart(self._path).top
        if "results" not in top:
            yield self._eval(self._load(self._path), self._run({}), self._path.parent)
            return
        run = self._run(top)
        with self._open(self._path) as reading:
            text = JsonStream(reading, str(self._path))
            for name in text.names():
                if name != "results" or text.peek() != "[":
                    text.skip()
                    continue
                for n, value in enumerate(text.elements()):
                    trial = object_of(value)
                    if not text_of(trial.get("task_id")):
                        self._omit("a result without a task", f"[{n}]")
                        continue
                    yield self._eval(trial, run, self._path.parent / _folder(trial))
            text.end()

    def _run(self, top: Mapping[str, object]) -> SourceRun:
        metadata: dict[str, object] = {}
        if file := file_below(self._path.parent, "run_metadata.json"):
            try:
                metadata = self._load(file)
            except EvalscribeError:
                self._omit("a `run_metadata.json` that cannot be read")
        model = text_of(metadata.get("model_name")) or text_of(
            object_of(metadata.get("agent_kwargs")).get("model_name")
        )
        dataset, version = text_of(metadata.get("dataset_name")), text_of(metadata.get("dataset_version"))
        return SourceRun(
            id=text_of(top.get("id")) or None,
            model=model or None,
            experiment="@".join(filter(None, (dataset, version))) or NAME,
            started_at=metadata.get("start_time"),
            ended_at=metadata.get("end_time"),
        )

    def _eval(self, trial: Mapping[str, object], run: SourceRun, folder: Path) -> SourceEval:
        name = text_of(trial.get("trial_name"))
        mode = text_of(trial.get("failure_mode"))
        explained = f"{mode}: {MODES[mode]}" if mode in MODES else None if mode in ("", "unset", "none") else mode
        resolved = trial.get("is_resolved")
        status: EvalStatus = "error" if explained else "incomplete"
        if isinstance(resolved, bool):
            status = "passed" if resolved else "failed"
        logs = list(self._logs(folder))
        number = _TRIAL.search(name)
        return SourceEval(
            run=run,
            name=text_of(trial.get("task_id")),
            status=status,
            place=name or text_of(trial.get("task_id")),
            id=text_of(trial.get("id")) or None,
            trial=int(number[1]) if number else None,
            reason=None if isinstance(resolved, bool) else explained or "the trial was not graded",
            steps=list(_steps(trial, explained, mode, logs)) if isinstance(resolved, bool) else (),
            documents=(Document(role="task", path="instruction", text=text_of(trial.get("instruction"))), *logs),
            scores={"is_resolved": float(resolved)} if isinstance(resolved, bool) else {},
            metadata={"trial_name": name, "failure_mode": mode},
            missing=() if logs else ("the trial's folder, with its logs, is not beside the results",),
            started_at=trial.get("trial_started_at"),
            ended_at=trial.get("trial_ended_at"),
            # Most agents did not report tokens. A missing token count is 0 in the file.
            input_tokens=count(trial.get("total_input_tokens")) or None,
            output_tokens=count(trial.get("total_output_tokens")) or None,
        )

    def _logs(self, folder: Path) -> Iterator[Document]:
        for name in _LOGS:
            if (file := file_below(folder, "panes", name)) is None:
                continue
            try:
                yield Document(role="log", path=f"panes/{name}", text=self._text(file).rstrip())
            except EvalscribeError:
                self._omit(f"a `{name}` that cannot be read", folder.name)


def _folder(trial: Mapping[str, object]) -> Path:
    """Return the path of a trial's folder, relative to the results file.

    The path is empty if a name in the results could lead to a different folder.
    """
    names = [text_of(trial.get("task_id")), text_of(trial.get("trial_name"))]
    return Path(*names) if all(map(is_entry, names)) else Path()


def _steps(trial: Mapping[str, object], explained: str | None, mode: str, logs: list[Document]) -> Iterator[Step]:
    """Yield a step for each test. If a test file did not load, a single step stands for all of its tests."""
    tests = object_of(trial.get("parser_results"))
    messages = _messages(logs)
    failed = False
    for name, outcome in list(tests.items())[:MAX_TESTS]:
        file, _, error = name.partition(" - ")
        failed = failed or outcome == "failed"
        # A test file that did not load has a result of its own, named `FILE - ERROR`.
        if outcome == "failed" and error:
            yield Step(name=VERIFIER, status="failed", error=f"{file} did not load: {error}")
        else:
            yield Step(
                name=name,
                status="failed" if outcome == "failed" else "passed" if outcome == "passed" else "skipped",
                error=messages.get(name, f"{name} failed") if outcome == "failed" else None,
            )
    if trial.get("is_resolved") is False and not failed:
        output = telling_line(logs[0].text) if logs and logs[0].path.endswith(_LOGS[0]) else ""
        yield Step(name=VERIFIER, status="failed", error=output or "not resolved")
    if explained:
        yield Step(name="limit" if mode in LIMITS else "agent", status="failed", error=explained)


def _messages(logs: list[Document]) -> dict[str, str]:
    """Return the error messages of failed tests, by the name of the test.

    Pytest prints these messages in its summary: `FAILED test_outputs.py::test_x - AssertionError: …`.
    """
    # One pass over the log is enough for all tests. A search for each test would repeat it up to 2,000 times.
    messages: dict[str, str] = {}
    for line in logs[0].text.split("\n") if logs else ():
        if line.startswith("FAILED ") and (parts := _SUMMARY.match(line)):
            for name in (parts[1], parts[1].rpartition("::")[2]):
                messages.setdefault(name, parts[2].strip())
    return messages


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    if start.character != "{":
        return None
    if start.top.keys() >= {"results", "accuracy", "unresolved_ids"}:
        return has(start.top, "results", "accuracy", "unresolved_ids")
    return has(start.top, "task_id", "is_resolved", "parser_results")


def _recognise_folder(start: FolderStart) -> str | None:
    feature = has(start.top_of(RESULTS), "results", "accuracy", "unresolved_ids")
    return f"its `{RESULTS}` is of a run: {feature}" if feature else None


def _open(path: Path, overrides: RunOverrides) -> Records:
    return TerminalBenchReader(path, overrides)


FORMATS = (
    Format(
        name=NAME,
        title="Terminal-Bench 1",
        open=_open,
        recognise=_recognise,
        recognise_folder=_recognise_folder,
        a_run="the file",
        an_eval="a trial",
        passed="`is_resolved`",
        versions="terminal-bench-core 0.1.1",
        names=("trial_name", "is_resolved", "failure_mode", "parser_results"),
        fields={
            "task_id, trial_name": "name of the eval, number of the trial",
            "is_resolved": "pass or fail; null with a `failure_mode` is an error",
            "parser_results": "a step for each test; a test file that did not load is step `tests`",
            "failure_mode": "an error; if the tests ran nevertheless, step `limit` or `agent`",
            "instruction": "task",
            "panes/post-test.txt": "log, if the trial's folder is beside the file",
            "run_metadata.json": "model and experiment of the run, if it is beside the file",
            "recording_path": "left out",
        },
    ),
)

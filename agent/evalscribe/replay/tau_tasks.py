"""Read recorded trials of tau-bench and tau2-bench, the recorded expectations of their tasks, and corrected
expectations.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import permutations
from pathlib import Path
from typing import NamedTuple, cast

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.model.evidence import Document
from evalscribe.model.record import Record
from evalscribe.model.transcript import AssistantMessage, ChatMessage, UserMessage, parse_calls
from evalscribe.sources.files import FileReader
from evalscribe.sources.records import score_number
from evalscribe.sources.tau_bench import reply_in_text
from evalscribe.text import join_first

DATABASE, OUTPUTS, ASSERTIONS, CALLS, JUDGED = "DB", "COMMUNICATE", "ENV_ASSERTION", "ACTION", "NL_ASSERTION"
"""Names of the parts of a reward in tau2-bench. Rewards in tau-bench only have the first two parts."""
ENDED = ("agent_stop", "user_stop")
"""Termination reasons of trials that tau2-bench grades. Trials that ended for another reason fail without grading."""
Json = dict[str, JsonValue]


class Expectation(NamedTuple):
    """What a task expects of the agent."""

    actions: tuple[Json, ...] = ()
    """Expected tool calls, each with `name`, `arguments`, `requestor` and optionally `compare_args`."""
    outputs: tuple[str, ...] = ()
    """Texts that the agent must include in its messages to the user."""
    assertions: tuple[Json, ...] = ()
    """Assertions about the final state. Functions of the domain check them."""
    judged: tuple[str, ...] = ()
    """Assertions that only a model can judge."""
    parts: tuple[str, ...] = (DATABASE, OUTPUTS)
    """Names of the parts that make up the reward."""
    initial: JsonValue = None
    """Initial state of the task; None if the task starts with the initial state of the domain."""


class RecordedTrial(NamedTuple):
    """A trial as it was recorded in the run."""

    task: str
    user_id: str
    request: str
    """Instructions to the simulated user."""
    newer: bool
    """True for a trial of tau2-bench, False for a trial of tau-bench."""
    calls: tuple[Json, ...]
    """Tool calls that were executed, in order, each with `name`, `arguments` and `requestor`."""
    replies: tuple[str, ...]
    """Messages from the agent to the user."""
    spoke: bool
    """True if the conversation has messages of a simulated user."""
    ended: bool
    """True if the conversation ended normally. The benchmarks grade only such conversations."""
    expected: Expectation
    passed: bool
    """True if the recorded reward counts as a pass."""
    parts: Mapping[str, bool]
    """Recorded results of the parts of the reward, keyed by the name of the part."""


def is_trial(record: Record) -> bool:
    """Return whether an imported eval is a trial of tau-bench or tau2-bench."""
    return record.metadata.keys() >= {"task_id", "task", "info"}


def read_trajectory(record: Record) -> RecordedTrial | None:
    """Return the trial that is recorded in an imported eval.

    Returns None if the eval is from another source, or if its expected calls or its reward are missing.
    """
    info = _object(record.metadata.get("info"))
    task, graded = _object(info.get("task")), _object(info.get("reward_info"))
    reward = score_number(_object(record.metadata.get("scores")).get("reward"))
    actions = next((document for document in record.documents if (document.role, document.path) in _ACTIONS), None)
    if actions is None or reward is None or "error" in info or len(record.transcripts) != 1:
        return None
    newer = "evaluation_criteria" in task
    messages = record.transcripts[0].messages
    ended = record.metadata.get("termination_reason")
    recorded = _object(graded.get("info"))
    breakdown = _object(graded.get("reward_breakdown"))
    parts = {part: score for part in (*breakdown, DATABASE) if (score := score_number(breakdown.get(part))) is not None}
    for part, name in ((DATABASE, "r_actions"), (OUTPUTS, "r_outputs")):
        if (score := _score(recorded.get(name))) is not None:
            parts[part] = score
    return RecordedTrial(
        task=str(record.metadata.get("task")),
        user_id=str(task.get("user_id") or ""),
        request=next((document.text for document in record.documents if document.role == "task"), ""),
        newer=newer,
        calls=tuple(_calls(messages, newer)),
        replies=tuple(_replies(messages, newer)),
        spoke=any(isinstance(message, UserMessage) for message in messages),
        # tau-bench records no reason. A conversation that reached the limit of 30 turns was not graded and has no
        # `reward_info`.
        ended=ended in ENDED if newer and ended is not None else bool(graded),
        expected=_expected(record.documents, actions, task, newer),
        passed=reward >= 1,
        parts={part: score >= 1 for part, score in parts.items()},
    )


_ACTIONS = (("expected", "actions"), ("expected", "actions.json"))


def _calls(messages: Sequence[ChatMessage], newer: bool) -> Iterator[Json]:
    """Yield the calls that were executed. If a message has several calls, tau-bench executes only the first of them."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls if newer else message.tool_calls[:1]:
                yield {"name": call.function, "arguments": call.arguments, "requestor": "assistant"}
        elif isinstance(message, UserMessage):
            for user_call in map(_object, _list(message.metadata.get("tool_calls"))):
                yield {
                    "name": str(user_call.get("name")),
                    "arguments": _object(user_call.get("arguments")),
                    "requestor": str(user_call.get("requestor", "user")),
                }


def _replies(messages: Sequence[ChatMessage], newer: bool) -> Iterator[str]:
    for message in messages:
        # In tau-bench, a message with a call is not sent to the user.
        if isinstance(message, AssistantMessage) and message.content and (newer or not message.tool_calls):
            yield message.content if newer else reply_in_text(message.content)


def _expected(documents: Sequence[Document], calls_document: Document, task: Json, newer: bool) -> Expectation:
    outputs = next(
        (document.text for document in documents if (document.role, document.path) == ("expected", "outputs.json")),
        "[]",
    )
    if calls_document.path == "actions.json":
        agents = [_call(action) for action in _list(_parsed(calls_document.text))]
    else:
        agents = [_call({"name": call.name, "kwargs": call.arguments}) for call in parse_calls(calls_document.text)]
    output_texts = tuple(str(text) for text in _list(_parsed(outputs)))
    if not newer:
        return Expectation(tuple(agents), output_texts)
    # The document has only names and arguments of the agent's expected calls. The other fields of these calls, and the
    # user's expected calls, are taken from the task.
    criteria, remaining = _object(task.get("evaluation_criteria")), iter(agents)
    actions = [
        action if "name" in action else {**action, **next(remaining, {})}
        for action in map(_object, _list(criteria.get("actions")))
    ]
    return _expectation_of(
        {**criteria, "actions": cast(JsonValue, actions), "communicate_info": list(output_texts)}, task
    )


def _expectation_of(criteria: Json, task: Json) -> Expectation:
    return Expectation(
        actions=tuple(_call(item) for item in _list(criteria.get("actions"))),
        outputs=tuple(str(item) for item in _list(criteria.get("communicate_info"))),
        assertions=tuple(map(_object, _list(criteria.get("env_assertions")))),
        judged=tuple(str(item) for item in _list(criteria.get("nl_assertions"))),
        parts=tuple(str(item) for item in _list(criteria.get("reward_basis"))) or (DATABASE, OUTPUTS),
        initial=task.get("initial_state"),
    )


def _call(action: JsonValue) -> Json:
    fields = _object(action)
    compared = fields.get("compare_args")
    return {
        "name": str(fields.get("name")),
        "arguments": _object(fields.get("kwargs", fields.get("arguments"))),
        "requestor": str(fields.get("requestor") or "assistant"),
        **({"compare_args": compared} if compared is not None else {}),
    }


class GradedTrajectory(NamedTuple):
    """Result of grading a replayed trial by an expectation."""

    parts: dict[str, bool]
    """Results of the parts of the reward, keyed by the name of the part.

    A part that only a model can judge keeps its recorded result.
    """
    missing_outputs: tuple[str, ...]
    missing_calls: tuple[str, ...]
    unknown: bool
    """True if a part can only be judged by a model, and no recorded result of that part still applies."""

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(name for name, passed in self.parts.items() if not passed)


def grade(
    trial: RecordedTrial, expected: Expectation, *, same_database: bool, assertions: Sequence[bool]
) -> GradedTrajectory:
    """Grade a trial by the benchmark's criteria.

    `same_database` is True if the trial's calls led to the expected database. `assertions` has one value for each
    assertion about the final state: True if the assertion holds.
    """
    # As in the benchmark: commas are removed from the replies, but not from the expected texts.
    replies = [reply.lower().replace(",", "") for reply in trial.replies]
    missing_outputs = tuple(text for text in expected.outputs if not any(text.lower() in reply for reply in replies))
    missing_calls = tuple(
        str(action["name"]) for action in expected.actions if not any(_is_call(action, call) for call in trial.calls)
    )
    judged = (
        True if not expected.judged else trial.parts.get(JUDGED) if expected.judged == trial.expected.judged else None
    )
    results = {
        DATABASE: same_database,
        OUTPUTS: not missing_outputs,
        ASSERTIONS: all(assertions),
        CALLS: not missing_calls,
        JUDGED: judged is not False,
    }
    parts = {part: results.get(part, True) for part in expected.parts}
    unknown = any(part not in results or (part == JUDGED and judged is None) for part in expected.parts)
    return GradedTrajectory({"conversation": trial.ended, **parts}, missing_outputs, missing_calls, unknown)


def _is_call(expected: Json, call: Json) -> bool:
    arguments, call_arguments = _object(expected["arguments"]), _object(call["arguments"])
    names = expected.get("compare_args")
    compared = set(map(str, names)) if isinstance(names, list) else set(call_arguments)
    return expected["name"] == call["name"] and _only(arguments, compared) == _only(call_arguments, compared)


def _only(arguments: Json, names: set[str]) -> Json:
    return {name: value for name, value in arguments.items() if name in names}


class CorrectedExpectation(NamedTuple):
    """Corrected expectation of a task."""

    expected: Expectation
    doubt: str = ""
    """Reason why a pass with this expectation would prove nothing, such as `made for another request`.

    Empty if there is no such reason.
    """


class _NewTask(NamedTuple):
    """A task in a file of corrected expectations."""

    ids: tuple[str | None, str | None]
    """Ids of the task in tau-bench and in tau2-bench. An id is None if the file does not have it."""
    user_id: str | None
    text: str
    expected: Expectation
    request: str = ""
    same_request: bool | None = None
    """Whether the corrected task has the same request as the task in the run; None if unknown."""
    before: Expectation | None = None
    """The expectation before the correction; None if the file does not have it."""


ANOTHER = "made for another request"


def read_corrections(file: Path, trials: Iterable[RecordedTrial]) -> dict[str, CorrectedExpectation]:
    """Return the corrected expectations, keyed by task. Tasks whose expectation did not change are left out.

    Args:
        file: Either tau2-bench's `tasks.json`, or a JSON object with a list `tasks`. Each task in that list has
            `old_task_id`, `new_task_id`, `user_id`, `same_request`, `corrected_actions` and `corrected_outputs`.
        trials: Trials of the run, at least one for each task.

    Raises:
        NotFoundError: The file does not exist.
        DataError: The file has no expectations, or none that belong to a task of the run.
    """
    with FileReader(file) as reader:
        value = _parsed(b"".join(iter(reader.read, b"")).decode("utf-8", "replace"))
    task_list = _list(value if isinstance(value, list) else _object(value).get("tasks"))
    tasks = [task for fields in map(_object, task_list) if (task := _new_task(fields)) is not None]
    if not tasks:
        raise DataError(f"{file} has no expectations: it is neither tau2-bench's tasks.json nor a list of corrections")
    trials_by_task = {trial.task: trial for trial in trials}
    matched_tasks = _match_tasks(trials_by_task, tasks)
    if not matched_tasks:
        raise DataError(f"{file} has none of the run's tasks")
    corrections = {name: _correction(trials_by_task[name], task) for name, task in matched_tasks.items()}
    return {
        name: correction
        for name, correction in corrections.items()
        if correction.expected != trials_by_task[name].expected
    }


def _new_task(task: Json) -> _NewTask | None:
    if "corrected_actions" in task:
        before, expected = (
            Expectation(
                tuple(_call(item) for item in _list(task.get(f"{prefix}_actions"))),
                tuple(str(item) for item in _list(task.get(f"{prefix}_outputs"))),
            )
            for prefix in ("old", "corrected")
        )
        old, new = (None if (id := task.get(name)) is None else str(id) for name in ("old_task_id", "new_task_id"))
        return _NewTask(
            (old, new),
            _text(task.get("user_id")),
            "",
            expected,
            same_request=task.get("same_request") is True,
            before=before if "old_actions" in task else None,
        )
    if "evaluation_criteria" not in task or "id" not in task:
        return None
    request = task.get("user_scenario")
    criteria = _object(task["evaluation_criteria"])
    return _NewTask(
        (None, str(task["id"])), None, json.dumps([request, criteria]), _expectation_of(criteria, task), _prose(request)
    )


def _correction(trial: RecordedTrial, task: _NewTask) -> CorrectedExpectation:
    expected = task.expected
    if not task.request:
        if task.before == task.expected:
            return CorrectedExpectation(trial.expected)
        # This kind of file has only the expected calls and texts, so everything else is taken from the trial.
        expected = trial.expected._replace(actions=expected.actions, outputs=expected.outputs)
        return CorrectedExpectation(expected, "" if task.same_request else ANOTHER)
    if expected.initial != trial.expected.initial:
        return CorrectedExpectation(expected, "made for another state of the world")
    before, now = (
        sorted(set(_WORD.findall(_prose(_parsed(request) or request).lower())))
        for request in (trial.request, task.request)
    )
    # A word can be spelled or inflected differently in the corrected task, so similar words are treated as equal.
    missing = [
        word for word in before if _is_distinctive(word) and not get_close_matches(word, now, 1, MIN_WORD_SIMILARITY)
    ]
    return CorrectedExpectation(expected, f"whose request no longer says {join_first(missing, 2)}" if missing else "")


_WORD = re.compile(r"[a-z0-9_]+")
MIN_WORD_SIMILARITY = 0.8
"""Minimum similarity at which two words count as forms or spellings of the same word."""
_FILLERS = frozenset(
    ("also", "does", "from", "have", "just", "make", "more", "sure", "than", "that", "then", "they", "this", "upto")
).union(("what", "when", "will", "with", "would", "your"))


def _is_distinctive(word: str) -> bool:
    """Return whether a word is specific enough to distinguish one request from another."""
    return (len(word) > 3 and word not in _FILLERS) or any(map(str.isdigit, word))


def _prose(value: JsonValue) -> str:
    """Return all strings in a JSON value, joined by spaces."""
    if isinstance(value, dict):
        value = list(value.values())
    return " ".join(map(_prose, value)) if isinstance(value, list) else value if isinstance(value, str) else ""


def _match_tasks(trials: Mapping[str, RecordedTrial], tasks: Sequence[_NewTask]) -> dict[str, _NewTask]:
    """Find the task in the file that belongs to each trial.

    If the file has the task's id, the id decides. Otherwise, trials and tasks are matched by the user, the request and
    the expected calls.
    """
    tasks_by_trial: dict[str, _NewTask] = {}
    by_user: dict[str, list[RecordedTrial]] = {}
    for name, trial in trials.items():
        tasks_with_id = [task for task in tasks if task.ids[trial.newer] == name and _same_user(trial, task)]
        if len(tasks_with_id) == 1:
            tasks_by_trial[name] = tasks_with_id[0]
        elif not trial.newer and trial.user_id:
            by_user.setdefault(trial.user_id, []).append(trial)
    for user_id, user_trials in by_user.items():
        # The id must not be found inside a longer id.
        user_pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(user_id)}(?![A-Za-z0-9_])")
        tasks_by_trial |= _assign_tasks(
            user_trials, [task for task in tasks if task.request and user_pattern.search(task.text)]
        )
    return tasks_by_trial


def _same_user(trial: RecordedTrial, task: _NewTask) -> bool:
    return not trial.user_id or task.user_id is None or task.user_id == trial.user_id


MOST_ASSIGNED = 8
"""Maximum number of tasks or trials of one user that are matched by similarity.

The limit is small because all permutations are tried.
"""
MIN_SIMILARITY, MIN_LEAD = 0.3, 0.1
"""Minimum similarity between a trial and its assigned task, and minimum lead of this similarity.

The lead is measured against the trial's similarity to every task that stays unassigned.
"""


def _assign_tasks(trials: Sequence[RecordedTrial], tasks: Sequence[_NewTask]) -> dict[str, _NewTask]:
    """Assign a different task to each trial, so that the sum of the similarities is as high as possible.

    Uncertain assignments are left out. High similarity alone does not make an assignment certain: if a user has two
    tasks, the longer task can contain all words of the shorter one.
    """
    if not tasks or max(len(trials), len(tasks)) > MOST_ASSIGNED:
        return {}
    similarities = [[_similarity(trial, task) for task in tasks] for trial in trials]
    best = max(
        permutations(range(max(len(trials), len(tasks))), len(trials)),
        key=lambda order: sum(similarities[n][index] for n, index in enumerate(order) if index < len(tasks)),
    )
    free = [index for index in range(len(tasks)) if index not in best]
    return {
        trials[n].task: tasks[index]
        for n, index in enumerate(best)
        if index < len(tasks)
        and similarities[n][index] >= MIN_SIMILARITY
        and all(similarities[n][index] - similarities[n][unassigned] >= MIN_LEAD for unassigned in free)
    }


def _similarity(trial: RecordedTrial, task: _NewTask) -> float:
    """Return how similar the task of a trial and a task in the file are, from 0 to 1.

    Half of the value depends on the words of the two requests, the other half on the expected calls.
    """
    words, task_words = (Counter(_WORD.findall(text.lower())) for text in (trial.request, task.request))
    same = 2 * (words & task_words).total() / max(1, words.total() + task_words.total())
    calls, task_calls = (
        {json.dumps([action["name"], action["arguments"]], sort_keys=True) for action in expected.actions}
        for expected in (trial.expected, task.expected)
    )
    return (same + (len(calls & task_calls) / len(calls | task_calls) if calls | task_calls else 1)) / 2


def _score(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, bool) else score_number(value)


def _parsed(text: str) -> JsonValue:
    try:
        return cast(JsonValue, json.loads(text))
    except (ValueError, RecursionError):
        return None


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[JsonValue]:
    return value if isinstance(value, list) else []

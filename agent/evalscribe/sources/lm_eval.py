"""Read results of lm-evaluation-harness: files of samples (`log_samples`), and the results file of the same run.

A file of samples has one line for each combination of document and filter. All lines of a document form one eval.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import DataError, EvalscribeError
from evalscribe.json_data import MAX_INDEX_DIGITS
from evalscribe.model.evidence import Document
from evalscribe.model.record import CHOICES_LOG, FILTERS_LOG
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import file_below
from evalscribe.sources.line_groups import Line, LineGroups
from evalscribe.sources.recognition import FileStart, FolderStart, Format, has
from evalscribe.sources.records import (
    EvalReader,
    SourceEval,
    SourceRun,
    dicts,
    figure,
    object_of,
    score_number,
    text_of,
    unix_time,
)
from evalscribe.sources.streams import decode_json
from evalscribe.text import cut, join_first, one_line

NAME = "lm-eval"
MAX_FILES = 10_000
MAX_REPEATS = 20
"""Maximum number of answers that are stored for one prompt."""
LONGEST_QUOTED = 200
"""Maximum number of characters of an answer that are quoted in a failure reason."""
_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl(?:\.gz)?$")
_RESULTS = re.compile(r"results_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.json(?:\.gz)?$")
_FIELDS = ("doc_id", "doc", "target", "resps", "filtered_resps")
# The filter `regex` returns this text if its pattern matches nothing.
_INVALID = "[invalid]"


class _Samples(NamedTuple):
    """A file of samples, with the task name and the time stamp that its name contains."""

    path: Path
    task: str
    time: str


class _Results(NamedTuple):
    """Content of a results file, which is about all tasks of a run."""

    content: Mapping[str, object]
    run: SourceRun


class LmEvalReader(EvalReader):
    """Reads a folder of results and samples, or one file of samples with the results file in the same folder."""

    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        groups: dict[str, list[_Samples]] = {}
        for samples in self._files():
            groups.setdefault(samples.time, []).append(samples)
        if not groups:
            raise DataError(f"{self._path} has results but no samples; run lm_eval so that it logs samples")
        for time, files in groups.items():
            results = self._results(time, files)
            listed = {
                name for name in object_of(results.content.get("results")) if name not in _groups(results.content)
            }
            if missing := sorted(listed - {samples.task for samples in files}):
                self._omit(f"a task without samples: {join_first(missing, 3)}", number=len(missing))
            for samples in files:
                yield from self._samples(samples, results)

    def _files(self) -> list[_Samples]:
        folder, only = (self._path, None) if self._path.is_dir() else (self._path.parent, self._path)
        if only is not None and (match := _RESULTS.match(only.name)) is None:
            name_match = _SAMPLES.match(only.name)
            return [_Samples(only, *(name_match.groups() if name_match else (only.name.partition(".")[0], "")))]
        time = match["time"] if only is not None and match else None
        files = []
        for name in sorted(FolderStart(folder).names):
            if (
                (name_match := _SAMPLES.match(name))
                and (path := file_below(folder, name))
                and time in (None, name_match["time"])
            ):
                files.append(_Samples(path, name_match["task"], name_match["time"]))
        return files[:MAX_FILES]

    def _results(self, time: str, files: Sequence[_Samples]) -> _Results:
        """Return the results file with the given time stamp.

        If there is no such file, the run is identified by its folder and tasks.
        """
        content: Mapping[str, object] = {}
        for suffix in ("", ".gz"):
            if path := file_below(files[0].path.parent, f"results_{time}.json{suffix}"):
                try:
                    content = self._load(path)
                except EvalscribeError as error:
                    self._omit(f"a results file that cannot be read: {error}", path.name)
        folder = files[0].path.absolute().parent.name
        # The folder has the model's name with `__` in place of `/`.
        model = _model(content) or (folder.replace("__", "/", 1) if "__" in folder else None)
        seconds, took = figure(content.get("date")), content.get("total_evaluation_time_seconds")
        with suppress(ValueError, TypeError):
            took = float(str(took))
        ended = seconds + (figure(took) or 0) if seconds is not None else None
        tasks = list(_groups(content)) or sorted({samples.task for samples in files})
        run = SourceRun(
            key=time or str(files[0].path),
            model=model,
            experiment=join_first(tasks, 3),
            started_at=unix_time(seconds),
            ended_at=unix_time(ended) if figure(took) is not None else None,
        )
        return _Results(content, run)

    def _samples(self, samples: _Samples, results: _Results) -> Iterator[SourceEval]:
        lines = LineGroups(
            samples.path,
            open=self._open,
            omit=self._omit,
            is_line=_is_sample,
            column=_filter,
            key=lambda line: str(line.get("doc_id")),
        )
        for group in lines.groups():
            yield _eval(samples, results, group, self._overrides)


def _is_sample(line: Line) -> bool:
    return line.keys() >= {"doc_id", "resps", "filtered_resps"}


def _filter(line: Line) -> str:
    return text_of(line.get("filter")) or "none"


def _groups(content: Mapping[str, object]) -> dict[str, list[object]]:
    """Return the groups of tasks that the user requested: all groups that are not part of another group."""
    groups = {
        name: tasks for name, tasks in object_of(content.get("group_subtasks")).items() if isinstance(tasks, list)
    }
    inner = {task for tasks in groups.values() for task in tasks if isinstance(task, str)}
    return {name: tasks for name, tasks in groups.items() if tasks and name not in inner}


def _model(content: Mapping[str, object]) -> str | None:
    if name := text_of(content.get("model_name")):
        return name
    model_args = object_of(content.get("config")).get("model_args")
    if isinstance(model_args, str):
        model_args = dict(pair.split("=", 1) for pair in model_args.split(",") if "=" in pair)
    arguments = object_of(model_args)
    return text_of(arguments.get("pretrained")) or text_of(arguments.get("model")) or None


class _Answer(NamedTuple):
    """The prompt for one document, and the model's answers to it."""

    prompt: str
    messages: list[dict[str, object]]
    texts: list[str]
    """Generated answers; empty if the model answered by likelihood."""
    choices: list[tuple[float, str]]
    """Likelihood and text of each choice; empty if the model generated its answers."""

    @property
    def chosen(self) -> str | None:
        return max(self.choices, key=lambda choice: choice[0])[1] if self.choices else None


def _answer(line: Line) -> _Answer:
    arguments = _arguments(line.get("arguments"))
    prompt, messages = _prompt(arguments[0][0] if arguments else "")
    responses = line.get("resps")
    resps = [response for response in responses if isinstance(response, list)] if isinstance(responses, list) else []
    texts = [text for response in resps for text in response if isinstance(text, str)]
    likely = [_likelihood(response[0]) if response else None for response in resps]
    if likely and all(likelihood is not None for likelihood in likely):
        choice_texts = [text_of(second) for _, second in arguments]
        return _Answer(
            prompt,
            messages,
            [],
            [
                (float(likelihood or 0), choice_texts[n].strip() if n < len(choice_texts) else f"choice {n}")
                for n, likelihood in enumerate(likely)
            ],
        )
    return _Answer(prompt, messages, texts[:MAX_REPEATS], [])


def _likelihood(value: object) -> float | None:
    """Return the likelihood in a pair such as `["-5.4", "False"]`; None if the value is not such a pair."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    with suppress(ValueError):
        return float(str(value[0]))
    return None


def _arguments(value: object) -> list[tuple[object, object]]:
    """Return the two arguments of each request: first the prompt, then the settings or the choice.

    Older versions of lm_eval write the arguments as lists.
    """
    if isinstance(value, dict):
        return [(object_of(request).get("arg_0"), object_of(request).get("arg_1")) for request in value.values()]
    listed = value if isinstance(value, list) else []
    return [
        (request[0], request[1] if len(request) > 1 else None)
        for request in listed
        if isinstance(request, list) and request
    ]


def _prompt(value: object) -> tuple[str, list[dict[str, object]]]:
    """Return a prompt both as text and as messages. A chat prompt is stored in the file as JSON text."""
    value = value[0] if isinstance(value, list) and value else value
    text = text_of(value)
    if text.startswith("[{") and '"role"' in text:
        with suppress(DataError):
            messages = dicts(decode_json(text))
            if messages and all("role" in message for message in messages):
                prompt_text = "\n\n".join(text_of(message.get("content")) for message in messages)
                return prompt_text, [
                    {"role": message["role"], "content": message.get("content") or ""} for message in messages
                ]
    return text, [{"role": "user", "content": text}]


def _eval(samples: _Samples, results: _Results, lines: Sequence[Line], overrides: RunOverrides) -> SourceEval:
    """Build an eval from all lines of a document. Each line has the results of one filter."""
    first = lines[0]
    content, config = results.content, object_of(object_of(results.content.get("configs")).get(samples.task))
    answer = _answer(first)
    target = _target(first.get("target"), answer)
    scores: dict[str, float] = {}
    steps: list[Step] = []
    log_lines: list[str] = []
    settings = _settings(first)
    for line in lines:
        line_steps, line_text = _scored(
            line,
            answer,
            target,
            _higher(content, samples.task),
            1 if overrides.threshold is None else overrides.threshold,
        )
        for step, value in line_steps:
            steps.append(step)
            scores[step.name] = value
        log_lines.append(line_text)
    definitions = {text_of(filter_.get("name")): filter_ for filter_ in dicts(config.get("filter_list"))}
    log_lines += [
        f"{name} is: {_described(definitions[name])}" for line in lines if (name := _filter(line)) in definitions
    ]
    if settings:
        log_lines.append(settings)
    status: EvalStatus = "incomplete" if not steps else "passed" if steps[0].status == "passed" else "failed"
    version = object_of(content.get("versions")).get(samples.task)
    shots = object_of(content.get("n-shot")).get(samples.task)
    version_parts = [f"{name} {value}" for name, value in (("version", version), ("shots", shots)) if value is not None]
    conversations: list[tuple[str | None, list[object]]] = [
        (None if n == 0 else f"answer {n + 1}", [*answer.messages, {"role": "assistant", "content": text}])
        for n, text in enumerate(answer.texts)
    ]
    hashes = [text_of(first.get(name)) for name in ("doc_hash", "target_hash")]
    return SourceEval(
        run=results.run,
        category=samples.task,
        name=str(first.get("doc_id")),
        status=status,
        version=" ".join([*hashes, *version_parts]) if all(hashes) else None,
        place=f"{samples.path.name}: document {first.get('doc_id')}",
        reason=None if steps else "none of its metrics gives a number for a single document",
        steps=steps,
        documents=(
            Document(role="task", path="input", text=answer.prompt),
            Document(role="output", path="output", text=answer.chosen or ""),
            Document(role="expected", path="expected", text=target),
            Document(role="log", path=FILTERS_LOG, text="\n".join(log_lines)),
            Document(role="log", path=CHOICES_LOG, text=_choices(answer, target)),
        ),
        conversations=conversations,
        scores=scores,
        metadata={
            "doc": first.get("doc"),
            "hashes": {name: first[name] for name in ("doc_hash", "prompt_hash", "target_hash") if name in first},
            "version": version,
            "task_hash": object_of(content.get("task_hashes")).get(samples.task),
            "num_fewshot": shots,
            "lm_eval_version": content.get("lm_eval_version"),
        },
    )


def _higher(content: Mapping[str, object], task: str) -> Mapping[str, object]:
    return object_of(object_of(content.get("higher_is_better")).get(task))


def _scored(
    line: Line, answer: _Answer, target: str, higher: Mapping[str, object], threshold: float
) -> tuple[list[tuple[Step, float]], str]:
    """Return the steps of one filter with their scores, and a line for the log that describes these scores."""
    filter = _filter(line)
    metrics = line.get("metrics")
    names = [name for name in metrics if isinstance(name, str)] if isinstance(metrics, list) else []
    scored_steps: list[tuple[Step, float]] = []
    for metric in names:
        value = score_number(line.get(metric))
        if value is None:
            continue
        passed = value >= threshold if higher.get(metric) is not False else value <= 0
        name = metric if filter == "none" else f"{metric},{filter}"
        error = None if passed else _failure_reason(line, answer, target, metric, value)
        scored_steps.append((Step(name=name, status="passed" if passed else "failed", error=error), value))
    values = ", ".join(f"{step.name.partition(',')[0]} {value:g}" for step, value in scored_steps) or "no score"
    extracted = "a choice by likelihood" if answer.choices else one_line(_extracted(line))
    return scored_steps, f"{filter} ({values}) extracted: {cut(extracted, 500)}"


def _extracted(line: Line) -> str:
    responses = line.get("filtered_resps")
    values = responses if isinstance(responses, list) else [responses]
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False)


def _failure_reason(line: Line, answer: _Answer, target: str, metric: str, value: float) -> str:
    if answer.chosen is not None:
        chose = f"chose {cut(one_line(answer.chosen), 100)!r}, the target is {cut(one_line(target), 100)!r}"
        return chose if metric == "acc" else f"{metric} {value:g}"
    if not any(text.strip() for text in answer.texts):
        return "the answer is empty"
    extracted = _extracted(line)
    if not extracted.strip() or _INVALID in extracted:
        return f"no answer was extracted by the filter {_filter(line)!r}"
    if value > 0:
        return f"{metric} {value:g}"
    right = cut(one_line(target), 100)
    if len(extracted) > LONGEST_QUOTED or "\n" in extracted.strip():
        return f"the answer is not {right!r}"
    return f"answered {one_line(extracted)!r}, the target is {right!r}"


def _target(value: object, answer: _Answer) -> str:
    """Return the correct answer as text. If the answer is a choice, the source often states only the choice's index."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value is not None else ""
    number = text.strip()
    # `int` refuses more than 4,300 digits.
    if answer.choices and len(number) <= MAX_INDEX_DIGITS and number.isdecimal() and int(number) < len(answer.choices):
        return answer.choices[int(number)][1]
    return text


def _choices(answer: _Answer, target: str) -> str:
    chosen = answer.chosen
    marks = {chosen: "chosen", target.strip(): "target"} if chosen != target.strip() else {chosen: "chosen, target"}
    return "\n".join(
        f"{likelihood:g} {one_line(text)}" + (f"  <- {marks[text]}" if text in marks else "")
        for likelihood, text in answer.choices
    )


def _settings(line: Line) -> str:
    """Describe the limits on the generated answer: the maximum number of tokens, and the stop sequences."""
    arguments = _arguments(line.get("arguments"))
    generation = object_of(arguments[0][1]) if arguments else {}
    tokens = next(
        (generation[name] for name in ("max_gen_toks", "max_tokens", "max_new_tokens") if name in generation), None
    )
    parts = [f"at most {tokens} tokens"] if isinstance(tokens, int) else []
    if generation.get("until"):
        parts.append(f"until {json.dumps(generation['until'], ensure_ascii=False)}")
    return ", ".join(parts)


def _described(definition: Mapping[str, object]) -> str:
    parts = []
    for step in dicts(definition.get("filter")):
        counted = Counter(name for name in step if name != "function")
        settings = " ".join(f"{name}={json.dumps(step[name], ensure_ascii=False)}" for name in counted)
        parts.append(f"{text_of(step.get('function'))} {settings}".strip())
    return cut(one_line(", ".join(parts)), 500)


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    if start.line is not None and (feature := has(start.line, *_FIELDS)):
        return feature
    if _RESULTS.match(start.path.name):
        return has(start.top, "results", "configs", "versions")
    return None


def _recognise_folder(folder: FolderStart) -> str | None:
    for name in sorted(folder.names):
        if _SAMPLES.match(name) and (path := file_below(folder.path, name)):
            with suppress(EvalscribeError):
                line = FileStart(path).line
                if line is not None and has(line, *_FIELDS):
                    return "it has samples with `doc_id`, `resps` and `filtered_resps`"
    return None


FORMATS = (
    Format(
        name=NAME,
        title="lm-evaluation-harness",
        used=frozenset(("threshold",)),
        open=LmEvalReader,
        recognise=_recognise,
        recognise_folder=_recognise_folder,
        a_run="the files with one time stamp: all tasks of one model",
        an_eval="a document; lines of several filters are one eval",
        passed="the first metric of the first filter is at least 1 or the given threshold; if lower is better, it is 0",
        versions="0.4",
        names=("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        fields={
            "doc_id": "name; the task is the category",
            "arguments": "document (task), the user's message",
            "resps": "the model's message; for a choice by likelihood, documents (output, log)",
            "filtered_resps, filter, metrics": "a step for each metric of each filter; scores; document (log)",
            "target": "document (expected)",
            "doc_hash, target_hash, versions, n-shot": "the version of the eval",
            "results: model_name, date, total_evaluation_time_seconds": "model and times of the run",
            "results: group_subtasks": "experiment of the run (else the names of the tasks)",
            "results: tasks without samples": "left out and counted",
            "prompt_hash, task_hashes, doc": "metadata",
        },
    ),
)

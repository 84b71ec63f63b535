"""Read runs of HELM. A run is a folder with the run's specification, its requests and the scores."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evalscribe.errors import DataError, EvalscribeError
from evalscribe.model.evidence import Document
from evalscribe.model.record import CHOICES_LOG, FILTERS_LOG
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import file_below
from evalscribe.sources.recognition import FileStart, FolderStart, Format, has
from evalscribe.sources.records import (
    MAX_SESSION_CHARACTERS,
    EvalReader,
    SourceEval,
    SourceRun,
    count,
    dicts,
    expected_documents,
    figure,
    object_of,
    text_of,
    unix_time,
)
from evalscribe.sources.streams import JsonStream
from evalscribe.text import cut, one_line

NAME = "helm"
MAX_SCORED = 200_000
"""Maximum number of instances for which scores are read."""
MAX_ANSWERS = 20
MAX_STATES = 10_000
"""Maximum number of requests that are read for one instance."""
_SPEC, _STATE, _STATS = "run_spec.json", "scenario_state.json", "per_instance_stats.json"
_DECIDING = (
    re.compile(r"ifeval_strict_accuracy|chain_of_thought_correctness|code_eval_acc|test_avg"),
    re.compile(r"(?:final_number_exact_match|math_equiv\w*|safety_score|omni_math_accuracy|wildbench_score\w*)"),
)
"""Metrics that decide the verdict of an instance if they were measured.

HELM names the main metric only in the schema of a suite.
"""
_VERDICT = re.compile(r"(?:match|equiv|accuracy|correctness|_acc)\b|match$")
"""Matches the names of metrics that are verdicts. Each metric with such a name becomes a step."""
_Key = tuple[str, int, str]


class _Spec(NamedTuple):
    run: SourceRun
    category: str
    metrics: tuple[str, ...]
    """Names of the metrics in the order of the run's specification."""
    separate: bool
    """True if each choice was sent as a separate request."""


class HelmReader(EvalReader):
    """Reads a run, from its folder or from its file `scenario_state.json`.

    In both cases, the other files in the folder are also read.
    """

    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        folder = self._path if self._path.is_dir() else self._path.parent
        state = file_below(folder, _STATE)
        if state is None:
            raise DataError(f"{folder} is not a complete HELM run: it has no {_STATE}")
        spec = self._spec(folder)
        scores = self._scores(folder)
        if not scores:
            self._omit(f"the scores: {_STATS} is missing or cannot be read")
        waiting: list[Mapping[str, object]] = []
        characters = 0
        with self._open(state) as reading:
            text = JsonStream(reading, str(state))
            for name in text.names():
                if name != "request_states" or text.peek() != "[":
                    text.skip()
                    continue
                for request in text.elements():
                    if not isinstance(request, dict) or not object_of(request.get("instance")):
                        self._omit("a request that cannot be read", state.name, lost=True)
                    # If each choice is a request of its own, the requests of an instance follow each other.
                    elif waiting and _key(waiting[0]) == _key(request):
                        characters += len(str(request))
                        if len(waiting) < MAX_STATES and characters <= MAX_SESSION_CHARACTERS:
                            waiting.append(request)
                        else:
                            self._omit("a request of an instance with too many requests", state.name)
                    else:
                        characters = 0
                        if waiting:
                            yield self._eval(waiting, spec, scores)
                        waiting = [request]
            if waiting:
                yield self._eval(waiting, spec, scores)

    def _spec(self, folder: Path) -> _Spec:
        specification: Mapping[str, object] = {}
        if path := file_below(folder, _SPEC):
            try:
                specification = self._load(path)
            except EvalscribeError as error:
                self._omit(f"a specification that cannot be read: {error}", _SPEC)
        adapter, scenario = object_of(specification.get("adapter_spec")), object_of(specification.get("scenario_spec"))
        name = text_of(specification.get("name")) or folder.absolute().name
        head, _, arguments = name.partition(":")
        other_arguments = [
            part for part in arguments.split(",") if part and not part.startswith(("model=", "model_deployment="))
        ]
        values = [str(value) for value in object_of(scenario.get("args")).values() if isinstance(value, str | int)]
        name_lists = (
            object_of(metric_spec.get("args")).get("names") for metric_spec in dicts(specification.get("metric_specs"))
        )
        metrics = (
            metric for names in name_lists if isinstance(names, list) for metric in names if isinstance(metric, str)
        )
        return _Spec(
            run=SourceRun(
                key=name,
                model=text_of(adapter.get("model")) or None,
                experiment=":".join([head, ",".join(other_arguments)]) if other_arguments else head,
            ),
            category=" ".join([head, *values]) if values else head,
            metrics=tuple(dict.fromkeys(metrics)),
            separate=text_of(adapter.get("method")).startswith("multiple_choice_separate"),
        )

    def _scores(self, folder: Path) -> dict[_Key, dict[str, float]]:
        scores: dict[_Key, dict[str, float]] = {}
        path = file_below(folder, _STATS)
        if path is None:
            return scores
        try:
            with self._open(path) as reading:
                for element in JsonStream(reading, str(path)).elements():
                    instance_stats = object_of(element)
                    key = (
                        str(instance_stats.get("instance_id")),
                        count(instance_stats.get("train_trial_index")) or 0,
                        _perturbed(instance_stats),
                    )
                    if key not in scores and len(scores) >= MAX_SCORED:
                        self._omit("scores of an instance beyond the maximum", path.name)
                        continue
                    scores.setdefault(key, {}).update(_measured(dicts(instance_stats.get("stats"))))
        except EvalscribeError as error:
            self._omit(f"scores that cannot be read: {error}", path.name)
        return scores

    def _eval(
        self, states: Sequence[Mapping[str, object]], spec: _Spec, scores: Mapping[_Key, Mapping[str, float]]
    ) -> SourceEval:
        first = states[0]
        id, trial, perturbed = _key(first)
        stats = scores.get((id, trial, perturbed), {})
        instance, answered = object_of(first.get("instance")), _chosen(states) if spec.separate else first
        result, request = object_of(answered.get("result")), object_of(answered.get("request"))
        texts = [text_of(completion.get("text")) for completion in dicts(result.get("completions"))][:MAX_ANSWERS]
        choices = _choices(states, answered, texts, separate=spec.separate)
        right = [text for text, correct in _references(instance) if correct]
        letters = [letter for letter, _, marks in choices if "target" in marks]
        failed = next((state for state in states if object_of(state.get("result")).get("success") is False), None)
        error = text_of(object_of(failed.get("result")).get("error")) or "the request failed" if failed else None
        steps = list(self._steps(stats, spec, texts, choices, right))
        status: EvalStatus = "incomplete" if not steps else "passed" if steps[0].status == "passed" else "failed"
        if error is not None:
            status, steps = "error", []
        expected = letters if letters and not spec.separate else right
        messages: list[object] = [{"role": "user", "content": text_of(request.get("prompt"))}]
        conversations: list[tuple[str | None, list[object]]] = [
            (None if n == 0 else f"answer {n + 1}", [*messages, {"role": "assistant", "content": text}])
            for n, text in enumerate(texts)
        ]
        graded = {name: stats[name] for name in stats if name.partition("@")[0] in spec.metrics or not spec.metrics}
        begun = figure(result.get("request_datetime"))
        return SourceEval(
            run=spec.run,
            category=spec.category,
            name=f"{id} {perturbed}".strip(),
            trial=trial + 1,
            status=status,
            reason=error or (None if steps else "no metric was measured"),
            place=f"instance {id}",
            steps=steps,
            documents=(
                Document(role="task", path="input", text=text_of(object_of(instance.get("input")).get("text"))),
                *expected_documents(expected),
                Document(role="log", path=CHOICES_LOG, text=_choices_log(choices)),
                Document(role="log", path=FILTERS_LOG, text=_settings(request, stats)),
            ),
            conversations=[] if spec.separate else conversations,
            scores={} if error else {**{step.name: stats[step.name] for step in steps}, **graded},
            metadata={
                "stats": {name: value for name, value in stats.items() if name not in graded},
                "split": instance.get("split"),
                "perturbation": instance.get("perturbation"),
                "cached": result.get("cached"),
                "request_time": result.get("request_time"),
            },
            started_at=unix_time(begun),
            ended_at=unix_time(begun + (figure(result.get("request_time")) or 0)) if begun is not None else None,
            input_tokens=stats.get("num_prompt_tokens"),
            output_tokens=stats.get("num_output_tokens", stats.get("num_completion_tokens")),
        )

    def _steps(
        self,
        stats: Mapping[str, float],
        spec: _Spec,
        texts: Sequence[str],
        choices: Sequence["_Choice"],
        right: Sequence[str],
    ) -> Iterator[Step]:
        """Yield a step for the deciding metric, followed by a step for each other metric that is a verdict."""
        names = [name for name in spec.metrics or stats if name in stats]
        deciding = next((name for pattern in _DECIDING for name in stats if pattern.fullmatch(name)), None)
        if deciding is None:
            usual = ("exact_match",) if choices else ("quasi_exact_match", "exact_match")
            deciding = next((name for name in (*usual, *names) if name in stats), None)
        if deciding is None:
            return
        threshold = 1 if self._overrides.threshold is None else self._overrides.threshold
        for name in [deciding, *(name for name in names if name != deciding and _VERDICT.search(name))]:
            passed = stats[name] >= threshold
            error = None if passed else _failure_reason(name, stats[name], texts, choices, right)
            yield Step(name=name, status="passed" if passed else "failed", error=error)


_Choice = tuple[str, str, str]
"""A choice: its letter or likelihood, its text, and its marks.

The marks are `chosen`, `target` or both. If neither mark applies, the text of the marks is empty.
"""


def _key(state: Mapping[str, object]) -> _Key:
    # A perturbed instance has the same id as the original.
    instance = object_of(state.get("instance"))
    return str(instance.get("id")), count(state.get("train_trial_index")) or 0, _perturbed(instance)


def _perturbed(value: Mapping[str, object]) -> str:
    return text_of(object_of(value.get("perturbation")).get("name"))


def _measured(stats: Sequence[Mapping[str, object]]) -> dict[str, float]:
    sums: dict[str, list[float]] = defaultdict(list)
    for stat in stats:
        name, mean = text_of(object_of(stat.get("name")).get("name")), stat.get("mean")
        # A metric with a count of 0 was not measured.
        if name and stat.get("count") and isinstance(mean, int | float):
            sums[name].append(float(mean))
    return {name: values[0] for name, values in sums.items()}


def _references(instance: Mapping[str, object]) -> list[tuple[str, bool]]:
    references = []
    for reference in dicts(instance.get("references")):
        tags = reference.get("tags")
        text = text_of(object_of(reference.get("output")).get("text"))
        references.append((text, isinstance(tags, list) and "correct" in tags))
    return references


def _likelihood(state: Mapping[str, object]) -> float:
    completions = dicts(object_of(state.get("result")).get("completions"))
    return score if completions and isinstance(score := completions[0].get("logprob"), int | float) else float("-inf")


def _chosen(states: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return the request with the most likely choice, for runs that sent each choice as a separate request."""
    return max(states, key=_likelihood)


def _choices(
    states: Sequence[Mapping[str, object]], answered: Mapping[str, object], texts: Sequence[str], *, separate: bool
) -> list[_Choice]:
    references = _references(object_of(states[0].get("instance")))
    right = {text for text, correct in references if correct}
    if separate:
        choices = []
        for state in states:
            index = count(state.get("reference_index"))
            text = references[index][0] if index is not None and index < len(references) else ""
            choices.append((f"{_likelihood(state):g}", text, _marks(state is answered, text in right)))
        return choices
    mapping = object_of(answered.get("output_mapping"))
    first_text = texts[0].strip() if texts else ""
    return [(letter, text_of(text), _marks(letter == first_text, text in right)) for letter, text in mapping.items()]


def _marks(chosen: bool, target: bool) -> str:
    return ", ".join(word for word, holds in (("chosen", chosen), ("target", target)) if holds)


def _choices_log(choices: Sequence[_Choice]) -> str:
    return "\n".join(f"{mark} {one_line(text)}" + (f"  <- {marks}" if marks else "") for mark, text, marks in choices)


def _settings(request: Mapping[str, object], stats: Mapping[str, float]) -> str:
    """Describe the limit on the length of the generated answer, and whether this limit was reached."""
    tokens, lines = count(request.get("max_tokens")), []
    if tokens:
        lines.append(f"at most {tokens} tokens")
    if stats.get("finish_reason_length"):
        lines.append("stop reason: length")
    return "\n".join(lines)


def _failure_reason(
    metric: str, value: float, texts: Sequence[str], choices: Sequence[_Choice], right: Sequence[str]
) -> str:
    answer = texts[0].strip() if texts else ""
    if choices:
        chosen = next((text for _, text, marks in choices if "chosen" in marks), None)
        target = next((text for _, text, marks in choices if "target" in marks), "")
        if chosen is not None:
            return f"chose {cut(one_line(chosen), 100)!r}, the target is {cut(one_line(target), 100)!r}"
        return f"no answer was extracted: {cut(one_line(answer), 60)!r} is none of the choices"
    if not answer:
        return "the answer is empty"
    if value > 0 or not right:
        return f"{metric} {value:g}"
    target = cut(one_line(right[0]), 100)
    short = len(answer) <= 200 and "\n" not in answer
    return f"answered {answer!r}, the target is {target!r}" if short else f"the answer is not {target!r}"


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    return has(start.top, "adapter_spec", "request_states")


def _recognise_folder(folder: FolderStart) -> str | None:
    if not folder.names >= {_SPEC, _STATE}:
        return None
    feature = has(folder.top_of(_SPEC), "scenario_spec", "adapter_spec")
    return f"its `{_SPEC}` has `scenario_spec` and `adapter_spec`" if feature else None


FORMATS = (
    Format(
        name=NAME,
        title="HELM",
        used=frozenset(("threshold",)),
        open=HelmReader,
        recognise=_recognise,
        recognise_folder=_recognise_folder,
        a_run="a run's folder",
        an_eval="an instance; perturbed instances are separate evals",
        passed="the deciding metric (exact match, unless another is more specific) is at least 1, or the threshold",
        names=("adapter_spec", "request_states"),
        fields={
            "instance.id, perturbation": "name; the scenario and its arguments are the category",
            "train_trial_index": "the trial",
            "request.prompt, result.completions": "transcripts",
            "instance.references": "document (expected): the correct references; letters if the choices have letters",
            "output_mapping, reference_index": "document (log): the choices",
            "result.success": "status error if it is false; `result.error` is the reason",
            "per_instance_stats": "scores; steps for the scores that are verdicts",
            "run_spec: name, adapter_spec.model": "experiment and model of the run",
            "stats.json, scenario.json": "left out",
        },
    ),
)

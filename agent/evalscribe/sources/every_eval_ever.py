"""Read files of instances in the format of Every Eval Ever, together with the aggregate file in the same folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from evalscribe.errors import DataError, EvalscribeError
from evalscribe.model.evidence import Document
from evalscribe.model.record import FILTERS_LOG
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
    expected_documents,
    object_of,
    score_number,
    text_of,
    unix_time,
)
from evalscribe.text import cut, one_line

NAME = "every-eval-ever"
MAX_FILES = 10_000
MAX_ANSWERS = 20
"""Maximum number of answers that are stored for one input."""
LONGEST_QUOTED = 200
"""Maximum number of characters of an answer that are quoted in a failure reason."""
# `int` refuses more than 4,300 digits.
MAX_DIGITS = 9
_SUFFIX = "_samples.jsonl"
_FIELDS = ("evaluation_id", "sample_id", "interaction_type", "evaluation")
_AGGREGATE = ("evaluation_id", "model_info", "evaluation_results")
_INVALID = ("", "[invalid]")


class EveryEvalEverReader(EvalReader):
    """Reads a folder of evaluations, a file of instances, or an aggregate file.

    An aggregate file can be read only if its file of instances is in the same folder.
    """

    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        files = list(self._files())
        if not files:
            raise DataError(
                f"{self._path} has results but no instances; its folder needs a file whose name ends with {_SUFFIX}"
            )
        for path in files:
            aggregate = self._aggregate(path)
            lines = LineGroups(path, open=self._open, omit=self._omit, is_line=_is_instance, column=_result, key=_key)
            for group in lines.groups():
                yield _eval(group, aggregate, path)

    def _files(self) -> Iterator[Path]:
        if self._path.is_dir():
            names = [name for name in sorted(FolderStart(self._path).names) if name.endswith(_SUFFIX)]
            yield from (path for name in names[:MAX_FILES] if (path := file_below(self._path, name)))
        elif FileStart(self._path).line is not None and has(FileStart(self._path).line or {}, *_FIELDS):
            yield self._path
        elif path := file_below(self._path.parent, self._path.name.removesuffix(".json") + _SUFFIX):
            yield path

    def _aggregate(self, path: Path) -> Mapping[str, object]:
        """Load the aggregate file that belongs to a file of instances; empty if there is none."""
        beside = file_below(path.parent, path.name.removesuffix(_SUFFIX) + ".json")
        if beside is None or beside == path:
            return {}
        try:
            return self._load(beside)
        except EvalscribeError as error:
            self._omit(f"an aggregate file that cannot be read: {error}", beside.name)
            return {}


def _is_instance(line: Line) -> bool:
    return line.keys() >= {"evaluation_id", "sample_id", "evaluation"}


def _result(line: Line) -> str:
    return text_of(line.get("evaluation_result_id")) or text_of(line.get("evaluation_name")) or "score"


def _key(line: Line) -> str:
    # All epochs of a sample have the same id.
    epoch = object_of(line.get("metadata")).get("epoch")
    return json.dumps(
        [str(line.get(name)) for name in ("evaluation_id", "evaluation_name", "sample_id")] + [str(epoch)]
    )


def _run(line: Line, aggregate: Mapping[str, object]) -> SourceRun:
    id, model_info = text_of(line.get("evaluation_id")), object_of(aggregate.get("model_info"))
    model = text_of(line.get("model_id")) or text_of(model_info.get("id")) or text_of(model_info.get("name"))
    provider, slash, model_name = model.partition("/")
    if slash and model_name.startswith(f"{provider}/"):
        # The converter for Inspect logs writes the provider twice.
        model = model_name
    timestamp = aggregate.get("evaluation_timestamp")
    return SourceRun(
        key=f"{id}\0{model}",
        model=model or None,
        experiment=id.partition("/")[0] or "default",
        started_at=unix_time(timestamp) or timestamp,
    )


def _eval(lines: Sequence[Line], aggregate: Mapping[str, object], path: Path) -> SourceEval:
    """Build one eval from all lines of a file that are about the same instance. Each line has one score."""
    first = lines[0]
    instance_input, metadata, usage = (object_of(first.get(name)) for name in ("input", "metadata", "token_usage"))
    conversations = list(_conversations(first, instance_input))
    error = next((message for line in lines if (message := text_of(line.get("error")).strip())), None)
    steps, scores = [], {}
    for line in lines:
        name, graded = _result(line), object_of(line.get("evaluation"))
        score, correct = score_number(graded.get("score")), graded.get("is_correct")
        if score is not None:
            scores[name] = score
        if isinstance(correct, bool):
            reason = None if correct else _failure_reason(line, instance_input, score)
            steps.append(Step(name=name, status="passed" if correct else "failed", error=reason))
    status: EvalStatus = "incomplete" if not steps else "passed" if steps[0].status == "passed" else "failed"
    if error is not None:
        # The converter for Inspect logs (0.3.0) gives a score of 1 to a sample that broke before it began.
        status, steps, conversations = "error", [], []
    epoch = str(metadata.get("epoch") or "")
    category = text_of(first.get("evaluation_name")).rpartition("/")[2]
    references = [str(reference) for reference in _list(instance_input.get("reference"))]
    return SourceEval(
        run=_run(first, aggregate),
        category=category,
        name=str(first.get("sample_id")),
        trial=int(epoch) if epoch.isdecimal() and len(epoch) < MAX_DIGITS else None,
        version=text_of(first.get("sample_hash")) or None,
        status=status,
        reason=_ends(error) if error else None if steps else "it has no verdict",
        place=f"{path.name}: {first.get('sample_id')}",
        steps=steps,
        documents=(
            Document(role="task", path="input", text=_task(instance_input)),
            *expected_documents(references),
            Document(role="log", path=FILTERS_LOG, text="\n".join(_extracted(lines, metadata))),
            Document(role="log", path="error", text=error or ""),
        ),
        conversations=conversations,
        scores={} if error else scores,
        metadata={
            "scores_beside_error": scores if error else None,
            **{name: value for name, value in metadata.items() if name != "epoch"},
            "performance": first.get("performance"),
            "evaluation_id": first.get("evaluation_id"),
            "source": object_of(aggregate.get("source_metadata")).get("source_name"),
            "schema_version": first.get("schema_version"),
        },
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
    )


def _ends(error: str) -> str:
    """Return the first and the last line of an error. Line breaks in the error can be escaped as `\\n`."""
    lines = [line for line in error.replace("\\n", "\n").split("\n") if line.strip()] or [error]
    return " … ".join(cut(one_line(line), 200) for line in dict.fromkeys((lines[0], lines[-1])))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _task(instance_input: Mapping[str, object]) -> str:
    choices = [str(choice) for choice in _list(instance_input.get("choices"))]
    question = text_of(instance_input.get("formatted")) or text_of(instance_input.get("raw"))
    if not choices or all(choice in question for choice in choices):
        return question
    lettered = (f"{chr(ord('A') + n) if n < 26 else n + 1}) {choice}" for n, choice in enumerate(choices))
    return "\n".join([question, "", *lettered])


def _conversations(line: Line, instance_input: Mapping[str, object]) -> Iterator[tuple[str | None, list[object]]]:
    if messages := dicts(line.get("messages")):
        yield None, [_message(message) for message in messages]
        return
    output = object_of(line.get("output"))
    thoughts = _list(output.get("reasoning_trace"))
    for n, text in enumerate(_list(output.get("raw"))[:MAX_ANSWERS]):
        thought = text_of(thoughts[n]) if n < len(thoughts) else ""
        answer = {"role": "assistant", "content": str(text), "reasoning": thought or None}
        yield None if n == 0 else f"answer {n + 1}", [{"role": "user", "content": _task(instance_input)}, answer]


def _message(source: Mapping[str, object]) -> dict[str, object]:
    thought = "\n".join(text_of(part) for part in _list(source.get("reasoning_trace")))
    message: dict[str, object] = {"role": source.get("role"), "content": source.get("content") or ""}
    if source.get("role") == "assistant":
        calls = (
            {"id": call.get("id"), "function": call.get("name") or "unnamed"} | _call_arguments(call)
            for call in dicts(source.get("tool_calls"))
        )
        message |= {"reasoning": thought or None, "tool_calls": list(calls)}
    elif source.get("role") == "tool":
        ids = [text_of(id) for id in _list(source.get("tool_call_id"))]
        message["tool_call_id"] = ids[0] if ids else None
    return message


def _call_arguments(call: Mapping[str, object]) -> dict[str, object]:
    return {"arguments": call.get("arguments") if isinstance(call.get("arguments"), dict) else {}}


def _final(line: Line) -> str | None:
    """Return the final answer that the source extracted; None if the source records no final answer."""
    attributions = [
        attribution
        for attribution in dicts(line.get("answer_attribution"))
        if attribution.get("is_terminal") is not False
    ]
    return text_of(attributions[-1].get("extracted_value")) if attributions else None


def _failure_reason(line: Line, instance_input: Mapping[str, object], score: float | None) -> str:
    final = _final(line)
    raw = [str(text) for text in _list(object_of(line.get("output")).get("raw"))]
    if not line.get("messages") and not any(text.strip() for text in raw):
        return "the answer is empty"
    if final is not None and final.strip() in _INVALID:
        return "no answer was extracted"
    answer = final if final is not None else raw[0] if raw and "\n" not in raw[0].strip() else ""
    references = [str(text) for text in _list(instance_input.get("reference"))]
    if references and references[0].strip():
        target = cut(one_line(references[0]), 100)
        short = answer and len(answer) <= LONGEST_QUOTED
        return f"answered {one_line(answer)!r}, the target is {target!r}" if short else f"the answer is not {target!r}"
    return f"scored {score:g}" if score is not None else "not correct"


def _extracted(lines: Sequence[Line], metadata: Mapping[str, object]) -> Iterator[str]:
    for line in lines:
        final, score = _final(line), score_number(object_of(line.get("evaluation")).get("score"))
        if final is not None:
            yield f"{one_line(_result(line))} (score {score or 0:g}) extracted: {cut(one_line(final), 500)}"
    if stopped := text_of(metadata.get("stop_reason")):
        yield f"stop reason: {one_line(stopped)}"


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    if start.line is not None and (feature := has(start.line, *_FIELDS)):
        return feature
    return has(start.top, *_AGGREGATE)


def _recognise_folder(folder: FolderStart) -> str | None:
    for name in sorted(folder.names):
        if name.endswith(_SUFFIX) and (path := file_below(folder.path, name)):
            with suppress(EvalscribeError):
                line = FileStart(path).line
                if line is not None and has(line, *_FIELDS):
                    return f"it has `{name}`, with `evaluation_id` and `sample_id`"
    return None


FORMATS = (
    Format(
        name=NAME,
        title="Every Eval Ever",
        open=EveryEvalEverReader,
        recognise=_recognise,
        recognise_folder=_recognise_folder,
        a_run="an `evaluation_id` of one model",
        an_eval="an instance; its lines, each with a score, are one eval",
        passed="`evaluation.is_correct` of the first score",
        versions="0.3.0",
        names=("evaluation_id", "model_id", "sample_id", "interaction_type", "input", "output", "evaluation"),
        fields={
            "sample_id, evaluation_name": "name, category; `metadata.epoch` is the trial",
            "input": "document (task), the user's message",
            "output, messages": "transcripts",
            "input.reference": "document (expected)",
            "evaluation": "a step and a score for each `evaluation_result_id`",
            "error": "status error with this reason, whatever `is_correct` says",
            "answer_attribution, metadata.stop_reason": "document (log)",
            "sample_hash": "the version of the eval",
            "model_id": "provider and model of the run",
            "token_usage": "tokens",
            "aggregate file": "start time of the run; scores in this file are left out",
        },
    ),
)

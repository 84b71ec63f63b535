"""Compare judges with human labels, which are read from JSON lines or from a version of a dataset."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from evalscribe.collections.judge import JudgedSubjects, concurrency, estimate_judging, judge_subjects, rubric_of
from evalscribe.collections.runs import find_failure
from evalscribe.collections.subjects import (
    ChosenRun,
    PendingSubject,
    ReachedSubject,
    SubjectFinder,
    agent_runs,
    collection_members,
    load_snapshot,
    pending_agent_run,
)
from evalscribe.errors import DataError, EvalscribeError, NotFoundError, UsageError
from evalscribe.ids import Frozen, canonical_json
from evalscribe.json_data import clean_json
from evalscribe.judging.builder import CASCADE, JudgeBuilder, open_engine_judge
from evalscribe.judging.judges import LoadedJudge
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import Usage
from evalscribe.model.dataset import Dataset, Item
from evalscribe.model.output_schema import agreement_keys, validate_answer
from evalscribe.model.protocols import Estimate
from evalscribe.model.result import ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AgentRun, parse_agent_run
from evalscribe.redaction.redact import redact_json
from evalscribe.statistics.agreement import (
    Calibration,
    Kappa,
    LabelPair,
    LabelScore,
    NumberAgreement,
    TagAgreement,
    number_agreement,
    tag_agreement,
)
from evalscribe.statistics.intervals import Interval
from evalscribe.store.lookup import LATEST, find_dataset, find_dataset_version
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.datasets import DatasetStore


_DATASET_NAME = re.compile(r"(?P<name>.+?)(?:@(?P<version>[^@:]+))?(?::(?P<split>[^@:]+))?")


@dataclass(frozen=True)
class LabelledSource:
    name: str
    """Name of the source in error messages. Messages about a line append the line's number to this name."""
    folder: Path
    """Folder to which relative paths in the lines refer."""
    lines: tuple[tuple[int, str], ...]
    """Labelled subjects as JSON texts, each with the number of its line or item (from 1)."""


def open_labelled(workspace: Workspace, name: str, field: "LabelField") -> LabelledSource:
    """Read labelled subjects from a file, or from a dataset `NAME[@V][:SPLIT]` if no such file exists.

    Raises:
        NotFoundError: Neither the file nor the dataset exists.
        DataError: The file is not text.
    """
    path = Path(name)
    # A name that looks like a path is never looked up as a dataset, so that a missing file is reported as a missing
    # file.
    if path.exists() or path.suffix in (".jsonl", ".json") or "/" in name:
        return labelled_file(path)
    try:
        return labelled_dataset(workspace.store.datasets, name, field)
    except NotFoundError as error:
        raise NotFoundError(f"neither a file nor a dataset matches {name}: {error}", fields=error.fields) from None


def labelled_file(path: Path) -> LabelledSource:
    """Read labelled subjects from a file.

    Raises `NotFoundError` if the file cannot be read, and `DataError` if it is not text.
    """
    # `splitlines` would also split at characters such as U+2028, which a JSON text can contain.
    lines = tuple((number, text) for number, text in enumerate(_read(path).split("\n"), 1) if text.strip())
    return LabelledSource(str(path), path.parent, lines)


def labelled_dataset(datasets: "DatasetStore", name: str, field: "LabelField") -> LabelledSource:
    """Read labelled subjects from the items of a dataset `NAME[@V][:SPLIT]`.

    The input of an item is the subject. The expected output is the label itself, or an object that contains the
    label. In such an object, the label is under the key `label` or at the path of the compared field.

    Raises `NotFoundError` if the dataset, version or split does not exist. For an unknown dataset or version, the
    message lists known names.
    """
    dataset, version_name, split = _parse_dataset_name(datasets, name)
    version = find_dataset_version(datasets, dataset, version_name or LATEST)
    lines = tuple(_lines(datasets.items(version.id), split, field))
    if not lines:
        raise NotFoundError(f"{dataset.name}@{version.number} has no items in split {split!r}")
    return LabelledSource(f"{dataset.name}@{version.number}{f':{split}' if split else ''}", Path(), lines)


def _parse_dataset_name(datasets: "DatasetStore", name: str) -> tuple[Dataset, str | None, str | None]:
    """Split `NAME[@V][:SPLIT]` into dataset, version and split."""
    # The name of a dataset can contain `@` and `:`, so the whole text is tried first.
    if dataset := datasets.find(name):
        return dataset, None, None
    match = _DATASET_NAME.fullmatch(name)
    if match is None:
        return find_dataset(datasets, name), None, None
    return find_dataset(datasets, match["name"]), match["version"], match["split"]


def _lines(items: Iterator[Item], split: str | None, field: "LabelField") -> Iterator[tuple[int, str]]:
    for number, item in enumerate(items, 1):
        if split is None or item.split == split:
            yield number, canonical_json({"subject": item.input, **_label(item.expected_output, field)})


def _label(expected: JsonValue, field: "LabelField") -> dict[str, JsonValue]:
    """Return the label of an expected output as an object with the single key `label`; empty if there is no label."""
    if expected is None:
        return {}
    if not isinstance(expected, dict):
        return {"label": expected}
    # If the compared value has a field `label` itself, the object is that value and not a wrapper around it.
    if "label" in expected and "label" not in field.schema.get("properties", {}):
        return {"label": expected["label"]}
    value = field.of(expected)
    return {} if value is None else {"label": value}


def _read(path: Path) -> str:
    try:
        # Some editors begin a file with a byte order mark, which is not JSON.
        return path.read_text("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from None


T = TypeVar("T")

Members = Callable[[], Mapping[str, PendingSubject]]

MOST_PROBLEMS = 5
"""Maximum number of invalid lines that one error lists."""
KINDS = ("run", "agent_run_id", "agent_run", "file", "evidence")
"""Fields of a line that can hold the subject."""


class SubjectLine(Frozen):
    """The subject of a line: a run with an eval, an agent run's id, an agent run, a file, or a snapshot of evidence.

    Examples: `{"run": …, "eval": …}`, `{"agent_run_id": …}`, `{"agent_run": {…}}`, `{"file": "path"}`.
    """

    run: str | None = None
    """Name of a run, in any form that `judge` accepts. If it is the URL of an eval, `eval` can be omitted."""
    eval: str | None = None
    agent_run_id: str | None = None
    """Id of the subject in the collection's table `agent_runs`."""
    agent_run: dict[str, Any] | None = None
    file: str | None = None
    """Path of a file with one agent run, relative to the folder of the dataset file."""
    evidence: dict[str, Any] | None = None
    """Snapshot of a failed eval's evidence, as `datasets from-reviews` writes it.

    The fields `provider`, `model` and `experiment` belong to this snapshot.
    """
    provider: str | None = None
    model: str | None = None
    experiment: str | None = None


class LabelledLine(Frozen):
    subject: SubjectLine
    label: JsonValue


@dataclass(frozen=True)
class LabelledSubject:
    """A subject with its human label. The subject is loaded when it is judged."""

    line: int
    label: JsonValue
    pending: PendingSubject


class LabelledSubjects:
    """All labelled subjects of a source. Invalid lines are reported, with their numbers, before any judge is called."""

    def __init__(self, source: LabelledSource, field: "LabelField", members: Members = dict) -> None:
        """Store the arguments. Nothing is read yet.

        Args:
            source: The labelled subjects as lines.
            field: The compared field. The labels are values of this field.
            members: Returns the agent runs to which lines can refer, keyed by id.
        """
        self._source = source
        self._field = field
        # The query runs once, and only if a line refers to an agent run by id.
        self._members = cache(members)
        self._problems: list[tuple[int, str]] = []

    async def examples(self, finder: SubjectFinder) -> tuple[LabelledSubject, ...]:
        """Return the subjects in the order of the source.

        Raises `DataError`, with the line numbers, if lines are invalid.
        """
        lines = self._lines()
        self._check()
        # Invalid lines are reported before any run is fetched from its source.
        runs = await self._runs(lines, finder)
        examples = [example for number, line in lines if (example := self._example(number, line, runs))]
        self._check_duplicates(examples)
        self._check()
        return tuple(examples)

    def _lines(self) -> list[tuple[int, LabelledLine]]:
        texts = self._source.lines
        if not texts:
            raise DataError(f"{self._source.name} contains no labelled subjects")
        lines = [(number, self._try(number, partial(parse_labelled, text, self._field))) for number, text in texts]
        return [(number, line) for number, line in lines if line is not None]

    async def _runs(
        self, lines: Iterable[tuple[int, LabelledLine]], finder: SubjectFinder
    ) -> dict[tuple[str, str], PendingSubject]:
        """Return the failed evals to which lines refer, keyed by the names of run and eval that the lines contain."""
        subjects: dict[tuple[str, str], PendingSubject] = {}
        evals_by_run: dict[str, list[tuple[int, str | None]]] = {}
        for number, line in lines:
            if line.subject.run is not None:
                evals_by_run.setdefault(line.subject.run, []).append((number, line.subject.eval))
        for name, evals in evals_by_run.items():
            try:
                chosen_run = await finder.run(name)
            except (NotFoundError, DataError) as error:
                self._add_problem(evals[0][0], f"subject.run: {error}")
                continue
            subjects |= await self._evals(name, chosen_run, evals, finder)
        return subjects

    async def _evals(
        self, name: str, chosen_run: ChosenRun, evals: Iterable[tuple[int, str | None]], finder: SubjectFinder
    ) -> dict[tuple[str, str], PendingSubject]:
        chosen_evals = {}
        for number, eval in evals:
            try:
                # Without `eval`, the line can name a run by the URL of an eval. `finder.run` has put that eval into
                # `evals`.
                failure = find_failure(chosen_run.run, eval) if eval else next(iter(chosen_run.evals), None)
            except EvalscribeError as error:
                self._add_problem(number, f"subject.eval: {error}")
                continue
            if failure is None:
                self._add_problem(number, "subject.eval: missing")
                continue
            chosen_evals[name, eval or ""] = failure
        chosen_run.evals = list(chosen_evals.values())
        # `gather` takes an empty choice as all failures of the run, and would fetch the evidence of each.
        subjects = {subject.name: subject for subject in (await finder.gather(chosen_run) if chosen_evals else ())}
        return {key: subjects[f"{chosen_run.run.id}/{eval.path}"] for key, eval in chosen_evals.items()}

    def _example(
        self, number: int, line: LabelledLine, runs: dict[tuple[str, str], PendingSubject]
    ) -> LabelledSubject | None:
        subject = line.subject
        if subject.run is not None:
            pending = runs.get((subject.run, subject.eval or ""))
        elif subject.agent_run_id is not None:
            pending = self._members().get(subject.agent_run_id)
            if pending is None:
                self._add_problem(
                    number, f"subject.agent_run_id: {subject.agent_run_id} is not among the selected agent runs"
                )
        elif subject.evidence is not None:
            pending = self._try(number, lambda: _snapshot_subject(number, subject))
        else:
            run = self._try(number, lambda: self._agent_run(subject))
            pending = pending_agent_run(run) if run else None
        return LabelledSubject(number, line.label, pending) if pending else None

    def _agent_run(self, subject: SubjectLine) -> AgentRun:
        if subject.agent_run is not None:
            return parse_agent_run(subject.agent_run, "subject.agent_run")
        runs = agent_runs(str(self._source.folder / (subject.file or "")))
        if len(runs) != 1:
            raise DataError(f"subject.file: {subject.file} must contain one agent run, not {len(runs)}")
        return runs[0]

    def _check_duplicates(self, examples: Iterable[LabelledSubject]) -> None:
        first: dict[str, int] = {}
        for example in examples:
            # The name of a failed eval contains its run, so its evidence need not be loaded. Agent runs are compared by
            # content, because an agent run can be named by its id and by a file.
            loaded = example.pending.load() if not example.pending.is_eval else example.pending.name
            key = loaded if isinstance(loaded, str) else loaded.subject.digest
            if key in first:
                self._add_problem(example.line, f"same subject as in line {first[key]}")
            first.setdefault(key, example.line)

    def _try(self, number: int, attempt: Callable[[], T]) -> T | None:
        """Return the result of `attempt`.

        If it raises `DataError` or `NotFoundError`, record the problem and return None.
        """
        try:
            return attempt()
        except (DataError, NotFoundError) as error:
            self._add_problem(number, str(error))
            return None

    def _add_problem(self, number: int, problem: str) -> None:
        self._problems.append((number, problem))

    def _check(self) -> None:
        problems = sorted(self._problems)
        if problems:
            lines = [f"{self._source.name}:{number}: {problem}" for number, problem in problems[:MOST_PROBLEMS]]
            more = [f"and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
            raise DataError("\n".join([*lines, *more]))


def parse_labelled(text: str, field: "LabelField") -> LabelledLine:
    """Parse one line. Raises `DataError` if the line is invalid, or if its label is not a value of the field."""
    try:
        line = LabelledLine.model_validate(redact_json(clean_json(json.loads(text))))
    # Catch this first, because pydantic's ValidationError is a ValueError.
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise DataError(f"{location}: {first['msg']}" if location else first["msg"]) from None
    # Deep nesting raises RecursionError, and an integer of more than 4,300 digits raises ValueError.
    except (ValueError, RecursionError):
        raise DataError("not a JSON object") from None
    kinds = [name for name in KINDS if getattr(line.subject, name) is not None]
    if len(kinds) != 1:
        raise DataError("subject: give one of these keys: run (with eval), agent_run_id, agent_run, file or evidence")
    if line.subject.eval is not None and kinds != ["run"]:
        raise DataError("subject.eval: can be given only together with subject.run")
    return line.model_copy(update={"label": field.parse(line.label)})


def _snapshot_subject(number: int, subject: SubjectLine) -> PendingSubject:
    """Return the subject of a line that contains a snapshot of evidence.

    Lines with equal evidence remain different subjects, because the line number is part of the subject's name.
    """
    loaded = load_snapshot(subject.model_dump(exclude_none=True))
    assert loaded.evidence is not None
    failed_eval = loaded.evidence.eval
    return PendingSubject(
        name=f"item {number}, {failed_eval.path}", load=lambda: loaded, is_eval=True, task=failed_eval.task
    )


def label_text(label: object) -> str:
    """Convert a label to the text by which labels are compared. Values other than texts become JSON, such as `true`."""
    return label if isinstance(label, str) else json.dumps(label)


FieldKind = Literal["choice", "number", "tags", "text", "object"]
WHOLE_ANSWER = "."
"""Dotted path that stands for the whole answer."""


@dataclass(frozen=True)
class LabelField:
    """A field of a rubric's answers that is compared with labels."""

    keys: tuple[str, ...]
    """Keys that lead from the answer to the field; empty if the field is the whole answer."""
    schema: dict[str, Any]
    tolerance: float | None = None
    """Maximum difference at which numbers agree.

    If None, numbers must be equal, and a numeric field with an enum is treated as a field with fixed choices.
    """

    @property
    def path(self) -> str:
        return ".".join(self.keys) or WHOLE_ANSWER

    @property
    def kind(self) -> FieldKind:
        type_ = self.schema["type"]
        if type_ in ("integer", "number") and (self.tolerance is not None or "enum" not in self.schema):
            return "number"
        if type_ == "boolean" or "enum" in self.schema:
            return "choice"
        return "tags" if type_ == "array" else "object" if type_ == "object" else "text"

    @property
    def choices(self) -> tuple[str, ...]:
        """The permitted labels as texts; empty if the field has no fixed choices."""
        if self.kind != "choice":
            return ()
        return tuple(map(label_text, self.schema.get("enum", (True, False))))

    @property
    def leaves(self) -> tuple["LabelField", ...]:
        """Return the fields that are compared one by one, in the order of the schema.

        For an object, these are the fields within the object, at any depth, that are not objects. For any other field,
        the result is the field itself. Texts with citations are left out, because they are never compared.
        """
        if self.kind != "object":
            return () if self.schema.get("citations") else (self,)
        fields = (
            LabelField((*self.keys, name), schema, self.tolerance) for name, schema in self.schema["properties"].items()
        )
        return tuple(leaf for field in fields for leaf in field.leaves)

    def of(self, answer: JsonValue) -> JsonValue:
        """Return the field's value; None if the value is missing.

        `answer` is a judge's answer, or a label that has the form of a whole answer.
        """
        for key in self.keys:
            answer = answer.get(key) if isinstance(answer, dict) else None
        return answer

    def judged_value(self, answer: JsonValue) -> JsonValue:
        """Return the field's value in a judge's answer, without texts that have citations; None if it is invalid."""
        value = _comparable_value(self.of(answer), self.schema)
        return value if self.valid(value) else None

    def parse(self, label: JsonValue) -> JsonValue:
        """Convert a label to a value of this field. Raises `DataError` if the label is invalid.

        If the field is not an object, the label can be the value itself, or an object that contains the value at
        the field's path. If the field is an object, the label can lack some of the object's fields. The missing fields
        are not compared.
        """
        if isinstance(label, dict) and self.kind != "object":
            value = self.of(label)
            if value is None:
                raise DataError(f"label: the field {self.path} is missing")
            label = value
        if isinstance(label, str) and self.schema["type"] in ("boolean", "integer", "number"):
            # A label of a number or boolean can be written as text, such as `"true"`. A text of 100,000 opening
            # brackets raises RecursionError, and is then reported as an unknown label.
            with suppress(ValueError, RecursionError):
                label = json.loads(label)
        if self.kind == "choice" and label_text(label) not in self.choices:
            raise DataError(f"label {label_text(label)!r} is unknown; use one of {', '.join(self.choices)}")
        problem = next(iter(validate_answer(label, _partial(self.schema))), None)
        if problem is not None:
            nested = "label: " if problem.startswith("answer: ") else "label."
            raise DataError(nested + problem.removeprefix("answer: "))
        if self.kind == "object" and not any(_leaf_value(self, leaf, label) is not None for leaf in self.leaves):
            raise DataError(f"label: has none of the fields that are compared: {_names(self.leaves)}")
        return label

    def valid(self, value: JsonValue) -> bool:
        """Return whether a value from a judge is valid for this field and can be compared."""
        return value is not None and not validate_answer(value, _partial(self.schema))

    def agree(self, label: JsonValue, value: JsonValue) -> bool:
        """Return whether a valid value agrees with a label. Objects must agree in every field that the label has."""
        match self.kind:
            case "object":
                pairs = [(leaf, _leaf_value(self, leaf, label), _leaf_value(self, leaf, value)) for leaf in self.leaves]
                return all(leaf.valid(b) and leaf.agree(a, b) for leaf, a, b in pairs if a is not None)
            case "number":
                assert isinstance(label, int | float)
                assert isinstance(value, int | float)
                return abs(label - value) <= (self.tolerance or 0)
            case "tags":
                return tag_set(label) == tag_set(value)
        return label_text(label) == label_text(value)


def _leaf_value(parent: LabelField, leaf: LabelField, value: JsonValue) -> JsonValue:
    """Return the value of the field `leaf` inside a value of the field `parent`; None if it is missing."""
    return LabelField(leaf.keys[len(parent.keys) :], leaf.schema).of(value)


def _comparable_value(value: JsonValue, schema: dict[str, Any]) -> JsonValue:
    """Return a value without texts that have citations and without empty objects; None if nothing remains."""
    if schema["type"] != "object":
        return None if schema.get("citations") else value
    inner = value if isinstance(value, dict) else {}
    parts = {
        name: _comparable_value(inner.get(name), property_schema)
        for name, property_schema in schema["properties"].items()
    }
    return {name: part for name, part in parts.items() if part is not None} or None


def _names(fields: Iterable[LabelField]) -> str:
    return ", ".join(field.path for field in fields)


def tag_set(value: JsonValue) -> frozenset[str]:
    """Return the items of an array as a set of JSON texts. The order and repetition of items do not matter."""
    return frozenset(map(canonical_json, value if isinstance(value, list) else ()))


def _partial(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with all fields optional, including those of nested objects.

    Unknown fields remain forbidden.
    """
    if schema["type"] != "object":
        return schema
    properties = {name: _partial(inner) for name, inner in schema["properties"].items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


PREFERRED = "classification"
"""Name of the field that is compared by default.

If the rubric lacks this field, the first boolean or enum field is compared. Without a boolean or enum field, the
whole answer is compared.
"""


class CalibrationRow(Frozen):
    """A judge's answer about one labelled subject, together with the label."""

    line: int
    subject: str
    label: JsonValue
    predicted: JsonValue
    """The judge's value of the compared field; null if the judge gave no valid value."""
    agrees: bool = False
    task: str | None = None
    """Name of the subject's eval, without run and trial.

    Subjects with the same name are not independent observations.
    """
    cached: bool = False
    reason: str | None = None
    """Reason why the judge gave no usable answer; null if the judge gave a usable answer."""


class FieldAgreement(Frozen):
    """Agreement of a judge with human labels in one field.

    Shares are fractions of the judged subjects unless stated otherwise.
    """

    field: str
    """Dotted path of the field in the answer; `.` for the whole answer."""
    kind: FieldKind
    subjects: int
    """Number of subjects whose label has the field."""
    judged: int
    right: int
    """Number of judged subjects for which the judge agrees with the label.

    Numbers agree if their difference is within the tolerance. Arrays agree if they contain the same items. Objects
    agree if they agree in all fields of the label. Texts agree only if they are equal.
    """
    agreement: float | None
    interval: Interval
    agreement_over_all: float | None
    """Share of all subjects for which the judge agrees. A subject without a valid answer counts as disagreement."""
    balanced: float | None = None
    """Balanced agreement. `balanced`, `kappa`, `labels` and `confusion` are set only if the field has fixed choices."""
    kappa: Kappa | None = None
    labels: tuple[LabelScore, ...] = ()
    confusion: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Number of subjects, keyed by human label and then by the judge's label."""
    numbers: NumberAgreement | None = None
    """Agreement of numbers; null for other kinds of fields."""
    tags: TagAgreement | None = None
    """Agreement of arrays; null for other kinds of fields."""


class CalibratedJudge(FieldAgreement):
    """One judge compared with human labels."""

    name: str
    """Short name of the judge: `rules@1`, `cascade` or `provider/model`."""
    judge: str
    cached: int
    fields: tuple[FieldAgreement, ...] = ()
    """Agreement in each field if the compared field is an object; otherwise empty.

    Each field counts only subjects whose label has the field.
    """
    usage: Usage
    """Usage of the judge for all subjects. It includes the usage of earlier commands whose results were reused."""
    rows: tuple[CalibrationRow, ...]

    @property
    def calibration(self) -> Calibration:
        """The figures about the judge's choices, as they are printed."""
        pairs = (_pair(row.label, row.predicted, row.task) for row in self.rows)
        return Calibration(pairs, [row.label for row in self.labels])


class JudgeEval(Frozen):
    """Several judges compared with human labels on one dataset."""

    rubric: str
    dataset: str
    key: str
    """Dotted path of the compared field in the answer; `.` for the whole answer."""
    kind: FieldKind
    tolerance: float | None
    """Maximum difference at which numbers agree; null if they must be equal."""
    judges: tuple[CalibratedJudge, ...]
    spent: Mapping[str, Usage]
    """Usage of this command, keyed by stage."""


def label_field(rubric: Rubric, path: str | None, tolerance: float | None = None) -> LabelField:
    """Return the field to compare.

    Raises `UsageError` if the rubric lacks the field, the field cannot be compared, or the tolerance does not
    fit the field.
    """
    answer_field = LabelField((), rubric.output_schema, tolerance)
    keys = agreement_keys(rubric.output_schema)
    if path is None:
        path = PREFERRED if PREFERRED in keys else keys[0] if keys else WHOLE_ANSWER
    field = answer_field if path == WHOLE_ANSWER else _find_field(answer_field, path)
    known_fields = _names(answer_field.leaves)
    if field is None or not field.leaves:
        problem = f"no field {path!r}" if field is None else f"nothing in {path!r} can be compared"
        raise UsageError(
            f"the answers of rubric {rubric.id}: {problem}; known fields: {known_fields or 'none'}", fields=("label",)
        )
    # No two numbers agree within nan, and all numbers agree within infinity.
    if tolerance is not None and not isfinite(tolerance):
        raise UsageError(f"`tolerance` must be finite, not {tolerance}", fields=("tolerance",))
    if tolerance is not None and (tolerance < 0 or not any(leaf.kind == "number" for leaf in field.leaves)):
        problem = "is negative" if tolerance < 0 else f"applies only to numbers, but {field.path} has none"
        raise UsageError(f"`tolerance` {problem}", fields=("tolerance",))
    return field


def _find_field(field: LabelField, path: str) -> LabelField | None:
    """Return the field at a dotted path, or None if it does not exist. Field names can themselves contain dots."""
    for name, schema in field.schema.get("properties", {}).items():
        property_field = LabelField((*field.keys, name), schema, field.tolerance)
        if path == name:
            return property_field
        if path.startswith(f"{name}.") and (field_below := _find_field(property_field, path[len(name) + 1 :])):
            return field_below
    return None


async def judge_eval(
    workspace: Workspace,
    rubric: str,
    dataset: str,
    watcher: AnalysisWatcher,
    *,
    judges: Sequence[str] = ("",),
    label: str | None = None,
    tolerance: float | None = None,
    collection: str | None = None,
    where: str | None = None,
) -> JudgeEval:
    """Compare judges with the human labels of subjects. Cached results are reused.

    Args:
        workspace: Workspace for results; needs `async with`.
        rubric: `NAME`, `NAME@VERSION` or a YAML file.
        dataset: A file of JSON lines, or `NAME[@V][:SPLIT]` of a dataset.
        watcher: Receives progress.
        judges: Names of judges: `rules`, `cascade` or `provider/model`. An empty name stands for the rubric's own
            model.
        label: Dotted path of the field to compare; `.` for the whole answer, field by field. If None, the field
            `classification` is compared. If the rubric lacks this field, the first boolean or enum field is compared.
            Without such a field, the whole answer is compared.
        tolerance: Maximum difference at which numbers agree; None for exact agreement.
        collection: Name or id of the collection that contains the rubric and the agent runs to which lines can refer.
        where: SQL condition on the table `agent_runs`. Lines can refer only to agent runs that match it.

    Raises:
        DataError: Some lines are invalid.
        EvalscribeError: A name is unknown, or an error affects all subjects.
    """
    async with AsyncExitStack() as stack:
        builder = JudgeBuilder(workspace, await stack.enter_async_context(open_engine_judge(workspace)))
        chosen_rubric = rubric_of(workspace, builder, rubric, collection)
        field = label_field(chosen_rubric, label, tolerance)
        names = dict.fromkeys(name.strip() or chosen_rubric.judge_model.id for name in judges)
        # Open the judges last, so that a wrong name or line is reported before a missing key.
        source = open_labelled(workspace, dataset, field)
        finder = SubjectFinder(workspace.store.analyses, ReachedSubject(workspace, stack), watcher)
        members = partial(collection_members, workspace, collection, where)
        examples = await LabelledSubjects(source, field, members).examples(finder)
        loaded_judges = [builder.loaded(chosen_rubric, name, fresh=workspace.options.fresh) for name in names]
        # Naming a model on the command line is consent to call it. The rubric's own model and the models of the cascade
        # are named in files, so they need consent of their own.
        explicit = {name.strip() for name in judges} - {"", CASCADE}
        model_names = [builder.model_names(chosen_rubric, name) for name in names]
        workspace.consent.name(*chain.from_iterable(builder.model_names(chosen_rubric, name) for name in explicit))
        workspace.consent.check(*chain.from_iterable(model_names))
        for note in builder.notes:
            watcher.say(note)
        if models := tuple(chain.from_iterable(model_names)):
            pending = [example.pending for example in examples]
            estimates = (
                estimate_judging(loaded_judge, pending)
                for loaded_judge, called_models in zip(loaded_judges, model_names, strict=True)
                if called_models
            )
            workspace.consent.require(*models, estimate=sum(estimates, Estimate()))
        calibrated = [
            await _calibrate(workspace, builder, loaded_judge, examples, field, watcher)
            for loaded_judge in loaded_judges
        ]
        return JudgeEval(
            rubric=f"{chosen_rubric.id}@{chosen_rubric.version}",
            dataset=source.name,
            key=field.path,
            kind=field.kind,
            tolerance=tolerance,
            judges=tuple(calibrated),
            spent=dict(workspace.models.spent()),
        )


async def _calibrate(
    workspace: Workspace,
    builder: JudgeBuilder,
    judge: LoadedJudge,
    examples: Sequence[LabelledSubject],
    field: LabelField,
    watcher: AnalysisWatcher,
) -> CalibratedJudge:
    judged: dict[int, JudgedSubjects] = {}

    async def judge_example(example: LabelledSubject) -> None:
        judged[example.line] = await judge_subjects(judge, example.pending, builder.results.knew)
        row = _row(example, judged[example.line], field)
        comparison = "agrees" if row.agrees else f"people say {label_text(row.label)}"
        text = f"not judged: {row.reason}" if row.predicted is None else f"{label_text(row.predicted)}, {comparison}"
        watcher.say(f"{judge.name}: {len(judged)}/{len(examples)}  {example.pending.name}: {text}")
        # Without this, a worker that finds only cached answers would never let signal handlers run.
        await asyncio.sleep(0)

    await run_concurrently(examples, judge_example, min(concurrency(workspace), len(examples)))
    rows = tuple(_row(example, judged[example.line], field) for example in examples)
    overall = _field_agreement(field, [(row.label, row.predicted, row.task) for row in rows])
    return CalibratedJudge(
        **dict(overall),
        name=judge.name,
        judge=judge.id,
        cached=sum(row.cached for row in rows),
        fields=tuple(_fields(field, rows)) if field.kind == "object" else (),
        usage=sum((judged_subjects.usage for judged_subjects in judged.values()), Usage()),
        rows=rows,
    )


def _row(example: LabelledSubject, judged: JudgedSubjects, field: LabelField) -> CalibrationRow:
    """Build the row of one subject. If a cascade gave several results, the first valid value is used."""
    values = (
        field.judged_value(result.output) for result in judged.results if result.result_type == ResultType.DIRECT_RESULT
    )
    judged_value = next((value for value in values if value is not None), None)
    reason = next((result.reason for result in judged.results if result.reason), None)
    return CalibrationRow(
        line=example.line,
        subject=example.pending.name,
        label=example.label,
        predicted=judged_value,
        agrees=judged_value is not None and field.agree(example.label, judged_value),
        task=example.pending.task,
        cached=all(result.cached for result in judged.results),
        reason=(reason or f"the answer has no valid {field.path}") if judged_value is None else None,
    )


Compared = tuple[JsonValue, JsonValue, str | None]
"""A label, the judge's value (None if there is no valid value), and the subject's task."""


def _fields(parent: LabelField, rows: Sequence[CalibrationRow]) -> Iterator[FieldAgreement]:
    """Yield the agreement in each field of an object. Fields that are in no label are skipped."""
    for leaf in parent.leaves:
        values = (
            (_leaf_value(parent, leaf, row.label), _leaf_value(parent, leaf, row.predicted), row.task) for row in rows
        )
        pairs = [
            (label, value if leaf.valid(value) else None, task) for label, value, task in values if label is not None
        ]
        if pairs:
            yield _field_agreement(leaf, pairs)


def _field_agreement(field: LabelField, pairs: Sequence[Compared]) -> FieldAgreement:
    judged = [(label, value) for label, value, _ in pairs if value is not None]
    # Each comparison becomes `yes` or `no`, so that one calculation serves all kinds of fields. The calculation counts
    # all subjects of a task as one observation.
    agreed = ("yes" if value is not None and field.agree(label, value) else "no" for label, value, _ in pairs)
    shares = Calibration(
        LabelPair(expected="yes", predicted=None if value is None else agrees, cluster=task)
        for (_, value, task), agrees in zip(pairs, agreed, strict=True)
    )
    figures: dict[str, Any] = {}
    if field.kind == "choice":
        calibration = Calibration((_pair(*pair) for pair in pairs), field.choices)
        figures = {
            "balanced": calibration.balanced,
            "kappa": calibration.kappa,
            "labels": calibration.scores,
            "confusion": {
                expected: {predicted: calibration.confusion(expected, predicted) for predicted in calibration.labels}
                for expected in calibration.labels
            },
        }
    elif field.kind == "number":
        numbers = [(a, b) for a, b in judged if isinstance(a, int | float) and isinstance(b, int | float)]
        figures = {"numbers": number_agreement(numbers)}
    elif field.kind == "tags":
        figures = {"tags": tag_agreement([(tag_set(label), tag_set(value)) for label, value in judged])}
    return FieldAgreement(
        field=field.path,
        kind=field.kind,
        subjects=len(pairs),
        judged=shares.judged,
        right=shares.right,
        agreement=shares.agreement,
        interval=shares.interval,
        agreement_over_all=shares.agreement_over_all,
        **figures,
    )


def _pair(label: JsonValue, value: JsonValue, task: str | None) -> LabelPair:
    predicted = None if value is None else label_text(value)
    return LabelPair(expected=label_text(label), predicted=predicted, cluster=task)

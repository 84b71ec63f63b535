"""Compare judges with human labels, which are read from JSON lines or a version of a dataset."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue, ValidationError

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
from evalscribe.model.output_schema import agreement_keys
from evalscribe.model.protocols import Estimate
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AgentRun, parse_agent_run
from evalscribe.redaction.redact import redact_json
from evalscribe.statistics.agreement import Calibration, Kappa, LabelPair, LabelScore
from evalscribe.statistics.intervals import Interval
from evalscribe.store.lookup import LATEST, find_dataset, find_dataset_version
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.datasets import DatasetStore


_NAMED = re.compile(r"(?P<name>.+?)(?:@(?P<version>[^@:]+))?(?::(?P<split>[^@:]+))?")


@dataclass(frozen=True)
class LabelledSource:
    name: str
    """Name of the source in messages, followed by a line number."""
    folder: Path
    """Folder to which the paths in lines are relative."""
    lines: tuple[tuple[int, str], ...]
    """JSON texts of labelled subjects, each with the number (from 1) of its line or item."""


def open_labelled(workspace: Workspace, named: str, key: str) -> LabelledSource:
    """Read labelled subjects from a file, else from a dataset `NAME[@V][:SPLIT]`; `key` is the label field.

    Raises:
        NotFoundError: Neither exists.
        DataError: The file is not text.
    """
    path = Path(named)
    if path.exists() or path.suffix in (".jsonl", ".json") or "/" in named:
        return labelled_file(path)
    try:
        return labelled_dataset(workspace.store.datasets, named, key)
    except NotFoundError as error:
        raise NotFoundError(f"file {named} not found, and {error}", fields=error.fields) from None


def labelled_file(path: Path) -> LabelledSource:
    """Read a file. Raises `NotFoundError` if it does not exist, `DataError` if it is not text."""
    lines = tuple((number, text) for number, text in enumerate(_read(path).split("\n"), 1) if text.strip())
    return LabelledSource(str(path), path.parent, lines)


def labelled_dataset(datasets: "DatasetStore", named: str, key: str) -> LabelledSource:
    """Read the items of `NAME[@V][:SPLIT]`.

    The input is the subject. The expected output is the label, or an object with the label under `key` or `label`.
    Raises `NotFoundError` listing the known names.
    """
    dataset, version_name, split = _parts(datasets, named)
    version = find_dataset_version(datasets, dataset, version_name or LATEST)
    lines = tuple(_lines(datasets.items(version.id), split, key))
    if not lines:
        raise NotFoundError(f"{dataset.name}@{version.number} has no items in split {split!r}")
    return LabelledSource(f"{dataset.name}@{version.number}{f':{split}' if split else ''}", Path(), lines)


def _parts(datasets: "DatasetStore", named: str) -> tuple[Dataset, str | None, str | None]:
    """Parse `NAME[@V][:SPLIT]` into dataset, version and split, unless a dataset has exactly this name."""
    if whole := datasets.find(named):
        return whole, None, None
    match = _NAMED.fullmatch(named)
    if match is None:
        return find_dataset(datasets, named), None, None
    return find_dataset(datasets, match["name"]), match["version"], match["split"]


def _lines(items: Iterator[Item], split: str | None, key: str) -> Iterator[tuple[int, str]]:
    for number, item in enumerate(items, 1):
        if split is None or item.split == split:
            yield number, canonical_json({"subject": item.input, **_label(item.expected_output, key)})


def _label(expected: JsonValue, key: str) -> dict[str, JsonValue]:
    if isinstance(expected, dict):
        return next(({"label": expected[name]} for name in (key, "label") if name in expected), {})
    return {} if expected is None else {"label": expected}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}") from None


T = TypeVar("T")

Members = Callable[[], Mapping[str, PendingSubject]]

MOST_TOLD = 5
"""Maximum bad lines named in one error."""
KINDS = ("run", "agent_run_id", "agent_run", "file", "evidence")
"""Kinds of subjects."""


class SubjectLine(Frozen):
    """`{"run": …, "eval": …}`, `{"agent_run_id": …}`, `{"agent_run": {…}}`, `{"file": "path"}`, or frozen evidence."""

    run: str | None = None
    """A run in any form that `judge` accepts; `eval` may be omitted if this is the URL of an eval."""
    eval: str | None = None
    agent_run_id: str | None = None
    """`agent_runs.id` of the collection."""
    agent_run: dict[str, Any] | None = None
    file: str | None = None
    """A file with one agent run, relative to the dataset's folder."""
    evidence: dict[str, Any] | None = None
    """Snapshot of a failed eval's evidence, as `datasets from-reviews` writes it, with the origin of its output."""
    provider: str | None = None
    model: str | None = None
    experiment: str | None = None


class LabelledLine(Frozen):
    subject: SubjectLine
    label: str | bool | int | float


@dataclass(frozen=True)
class LabelledSubject:
    """A subject with its human label. The subject is loaded when it is judged."""

    line: int
    label: str
    waiting: PendingSubject


class LabelledSubjects:
    """All labelled subjects of one source. Errors are reported, with line numbers, before any judge is called."""

    def __init__(self, source: LabelledSource, labels: Sequence[str], members: Members = dict) -> None:
        """Read the source.

        Args:
            labels: Permitted labels, as `label_text` returns them.
            members: Agent runs that lines may name by id.
        """
        self._source = source
        self._labels = labels
        self._members = cache(members)
        self._problems: list[tuple[int, str]] = []

    async def examples(self, finder: SubjectFinder) -> tuple[LabelledSubject, ...]:
        """Return the subjects in the order of the source. Raises `DataError` naming bad lines."""
        lines = self._lines()
        self._check()
        runs = await self._runs(lines, finder)
        examples = [example for number, line in lines if (example := self._example(number, line, runs))]
        self._twice(examples)
        self._check()
        return tuple(examples)

    def _lines(self) -> list[tuple[int, LabelledLine]]:
        texts = self._source.lines
        if not texts:
            raise DataError(f"{self._source.name}: contains no labelled subjects")
        lines = [(number, self._tried(number, partial(parse_labelled, text, self._labels))) for number, text in texts]
        return [(number, line) for number, line in lines if line is not None]

    async def _runs(
        self, lines: Iterable[tuple[int, LabelledLine]], finder: SubjectFinder
    ) -> dict[tuple[str, str], PendingSubject]:
        """Load the failed evals that lines refer to. The keys are run and eval as written in the line."""
        found: dict[tuple[str, str], PendingSubject] = {}
        asked: dict[str, list[tuple[int, str | None]]] = {}
        for number, line in lines:
            if line.subject.run is not None:
                asked.setdefault(line.subject.run, []).append((number, line.subject.eval))
        for name, evals in asked.items():
            try:
                choice = await finder.run(name)
            except (NotFoundError, DataError) as error:
                self._bad(evals[0][0], f"subject.run: {error}")
                continue
            found |= await self._evals(name, choice, evals, finder)
        return found

    async def _evals(
        self, name: str, choice: ChosenRun, evals: Iterable[tuple[int, str | None]], finder: SubjectFinder
    ) -> dict[tuple[str, str], PendingSubject]:
        named = {}
        for number, eval in evals:
            try:
                own = find_failure(choice.run, eval) if eval else next(iter(choice.evals), None)
            except EvalscribeError as error:
                self._bad(number, f"subject.eval: {error}")
                continue
            if own is None:
                self._bad(number, "subject.eval: missing")
                continue
            named[name, eval or ""] = own
        choice.evals = list(named.values())
        waiting = {one.name: one for one in (await finder.gathered(choice) if named else ())}
        return {key: waiting[f"{choice.run.id}/{eval.path}"] for key, eval in named.items()}

    def _example(
        self, number: int, line: LabelledLine, runs: dict[tuple[str, str], PendingSubject]
    ) -> LabelledSubject | None:
        subject = line.subject
        if subject.run is not None:
            waiting = runs.get((subject.run, subject.eval or ""))
        elif subject.agent_run_id is not None:
            waiting = self._members().get(subject.agent_run_id)
            if waiting is None:
                self._bad(number, f"subject.agent_run_id: {subject.agent_run_id} is not among the selected agent runs")
        elif subject.evidence is not None:
            waiting = self._tried(number, lambda: _frozen(number, subject))
        else:
            run = self._tried(number, lambda: self._agent_run(subject))
            waiting = pending_agent_run(run) if run else None
        return LabelledSubject(number, label_text(line.label), waiting) if waiting else None

    def _agent_run(self, subject: SubjectLine) -> AgentRun:
        if subject.agent_run is not None:
            return parse_agent_run(subject.agent_run, "subject.agent_run")
        runs = agent_runs(str(self._source.folder / (subject.file or "")))
        if len(runs) != 1:
            raise DataError(f"subject.file: {subject.file} contains {len(runs)} agent runs, not one")
        return runs[0]

    def _twice(self, examples: Iterable[LabelledSubject]) -> None:
        first: dict[str, int] = {}
        for example in examples:
            loaded = example.waiting.load() if not example.waiting.is_eval else example.waiting.name
            key = loaded if isinstance(loaded, str) else loaded.subject.digest
            if key in first:
                self._bad(example.line, f"same subject as in line {first[key]}")
            first.setdefault(key, example.line)

    def _tried(self, number: int, attempt: Callable[[], T]) -> T | None:
        """Call `attempt`. If something is missing or unreadable, record a problem for the line and return None."""
        try:
            return attempt()
        except (DataError, NotFoundError) as error:
            self._bad(number, str(error))
            return None

    def _bad(self, number: int, problem: str) -> None:
        self._problems.append((number, problem))

    def _check(self) -> None:
        problems = sorted(self._problems)
        if problems:
            told = [f"{self._source.name}:{number}: {problem}" for number, problem in problems[:MOST_TOLD]]
            more = [f"and {len(problems) - MOST_TOLD} more"] if len(problems) > MOST_TOLD else []
            raise DataError("\n".join([*told, *more]))


def parse_labelled(text: str, labels: Sequence[str]) -> LabelledLine:
    """Parse one line. Raises `DataError` if it is invalid."""
    try:
        line = LabelledLine.model_validate(redact_json(clean_json(json.loads(text))))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    except (ValueError, RecursionError):
        raise DataError("not a JSON object") from None
    given = [name for name in KINDS if getattr(line.subject, name) is not None]
    if len(given) != 1:
        raise DataError("subject: give one of run (with eval), agent_run_id, agent_run, file or evidence")
    if line.subject.eval is not None and given != ["run"]:
        raise DataError("subject.eval: needs run")
    if label_text(line.label) not in labels:
        raise DataError(f"label {label_text(line.label)!r} is unknown; use one of {', '.join(labels)}")
    return line


def _frozen(number: int, subject: SubjectLine) -> PendingSubject:
    """Return the subject of a line with a snapshot of evidence. Lines with equal evidence are separate subjects."""
    loaded = load_snapshot(subject.model_dump(exclude_none=True))
    assert loaded.evidence is not None
    own = loaded.evidence.eval
    return PendingSubject(name=f"item {number}, {own.path}", load=lambda: loaded, is_eval=True, task=own.task)


def label_text(label: object) -> str:
    """Normalise a label for comparison: text stays unchanged, any other value becomes JSON, such as `true`."""
    return label if isinstance(label, str) else json.dumps(label)


def schema_labels(schema: dict[str, Any], key: str) -> Iterator[str]:
    """Yield the permitted values of an output property; nothing if the property is neither an enum nor a boolean."""
    shape = schema["properties"].get(key, {})
    yield from map(label_text, (True, False) if shape.get("type") == "boolean" else shape.get("enum", ()))


PREFERRED = "classification"
"""Field that is compared if the rubric has it; otherwise, the first field with a choice of labels is compared."""


class CalibrationRow(Frozen):
    """One labelled subject with a judge's answer."""

    line: int
    subject: str
    label: str
    said: str | None
    task: str | None = None
    """The eval of the subject, without run and trial. Subjects of one eval are not independent observations."""
    known: bool = False
    reason: str | None = None
    """Why the judge gave no usable answer; None if it did."""


class CalibratedJudge(Frozen):
    """One judge compared with human labels. Shares are fractions of the judged subjects."""

    name: str
    """Short name: `rules@1`, `cascade`, `provider/model`."""
    judge: str
    subjects: int
    judged: int
    right: int
    known: int
    agreement: float | None
    interval: Interval
    agreement_over_all: float | None
    """Agreement over all subjects, with unanswered subjects counted as disagreement."""
    balanced: float | None
    kappa: Kappa | None
    labels: tuple[LabelScore, ...]
    confusion: dict[str, dict[str, int]]
    """Counts by human label, then by the judge's label."""
    usage: Usage
    """Usage of the judge for all subjects, including earlier commands."""
    rows: tuple[CalibrationRow, ...]

    @property
    def calibration(self) -> Calibration:
        pairs = (LabelPair(expected=row.label, predicted=row.said, cluster=row.task) for row in self.rows)
        return Calibration(pairs, [row.label for row in self.labels])


class JudgeEval(Frozen):
    """Several judges compared with human labels on one dataset."""

    rubric: str
    dataset: str
    key: str
    """The compared field of the output."""
    judges: tuple[CalibratedJudge, ...]
    spent: Mapping[str, Usage]
    """Usage of this command, by stage."""


def label_key(rubric: Rubric, wanted: str | None) -> str:
    """Return the field to compare. Raises `UsageError` if the rubric has no field with a choice of labels."""
    keys = agreement_keys(rubric.output_schema)
    if wanted is None and keys:
        return PREFERRED if PREFERRED in keys else keys[0]
    if wanted is None or wanted not in keys:
        has = f"it has {', '.join(keys)}" if keys else "it has none"
        raise UsageError(f"{rubric.id} needs a field with an enum or a boolean to compare labels: {has}")
    return wanted


async def judge_eval(
    workspace: Workspace,
    rubric: str,
    dataset: str,
    watcher: AnalysisWatcher,
    *,
    judges: Sequence[str] = ("",),
    label: str | None = None,
    collection: str | None = None,
    where: str | None = None,
) -> JudgeEval:
    """Compare judges on subjects with human labels, reusing cached results.

    Args:
        workspace: Workspace for results; needs `async with`.
        rubric: `NAME`, `NAME@VERSION` or a YAML file.
        dataset: A file of JSON lines, or `NAME[@V][:SPLIT]` of a dataset.
        watcher: Receives progress.
        judges: `rules`, `cascade`, `provider/model`; empty for the rubric's own model.
        label: The field to compare; None for the rubric's first choice.
        collection: Collection of the rubric and of agent runs that lines may name.
        where: A condition over the collection's agent runs.

    Raises:
        DataError: Some lines are not labelled subjects.
        EvalscribeError: Judging failed for all subjects.
    """
    async with AsyncExitStack() as opened:
        builder = JudgeBuilder(workspace, await opened.enter_async_context(open_engine_judge(workspace)))
        by = rubric_of(workspace, builder, rubric, collection)
        key = label_key(by, label)
        names = dict.fromkeys(name.strip() or by.judge_model.id for name in judges)
        # Open the judges last: a wrong name or line must be reported before a missing key.
        source = open_labelled(workspace, dataset, key)
        labels = tuple(schema_labels(by.output_schema, key))
        finder = SubjectFinder(workspace.store.analyses, ReachedSubject(workspace, opened), watcher)
        members = partial(collection_members, workspace, collection, where)
        examples = await LabelledSubjects(source, labels, members).examples(finder)
        asked = [builder.loaded(by, name, fresh=workspace.options.fresh) for name in names]
        chosen = {name.strip() for name in judges} - {"", CASCADE}
        called = [builder.model_names(by, name) for name in names]
        workspace.consent.name(*chain.from_iterable(builder.model_names(by, name) for name in chosen))
        workspace.consent.check(*chain.from_iterable(called))
        for note in builder.notes:
            watcher.say(note)
        if models := tuple(chain.from_iterable(called)):
            waiting = [example.waiting for example in examples]
            estimates = (estimate_judging(one, waiting) for one, its in zip(asked, called, strict=True) if its)
            workspace.consent.require(*models, estimate=sum(estimates, Estimate()))
        calibrated = [await _calibrated(workspace, builder, one, examples, key, labels, watcher) for one in asked]
        return JudgeEval(
            rubric=f"{by.id}@{by.version}",
            dataset=source.name,
            key=key,
            judges=tuple(calibrated),
            spent=dict(workspace.models.spent()),
        )


async def _calibrated(
    workspace: Workspace,
    builder: JudgeBuilder,
    judge: LoadedJudge,
    examples: Sequence[LabelledSubject],
    key: str,
    labels: Sequence[str],
    watcher: AnalysisWatcher,
) -> CalibratedJudge:
    found: dict[int, JudgedSubjects] = {}

    async def one(example: LabelledSubject) -> None:
        found[example.line] = await judge_subjects(judge, example.waiting, builder.results.knew)
        row = _row(example, found[example.line], key, labels)
        beside = "agrees" if row.said == row.label else f"people say {row.label}"
        told = f"{row.said}, {beside}" if row.said else f"not judged: {row.reason}"
        watcher.say(f"{judge.name}: {len(found)}/{len(examples)}  {example.waiting.name}: {told}")
        await asyncio.sleep(0)

    await run_concurrently(examples, one, min(concurrency(workspace), len(examples)))
    rows = tuple(_row(example, found[example.line], key, labels) for example in examples)
    usage = sum((one.usage for one in found.values()), Usage())
    return _counted(judge, rows, labels, usage)


def _row(example: LabelledSubject, found: JudgedSubjects, key: str, labels: Sequence[str]) -> CalibrationRow:
    """Build the row of one subject. Of several results of a cascade, use the first whose label is in `labels`."""
    answers = [one for one in found.results if one.result_type == ResultType.DIRECT_RESULT]
    said = next((label for one in answers if (label := _said(one, key)) in labels), None)
    reason = next((one.reason for one in found.results if one.reason), None)
    return CalibrationRow(
        line=example.line,
        subject=example.waiting.name,
        label=example.label,
        said=said,
        task=example.waiting.task,
        known=all(one.known for one in found.results),
        reason=None if said else reason or f"the answer has no valid {key}",
    )


def _said(result: JudgeResult, key: str) -> str | None:
    return label_text(result.output[key]) if key in result.output else None


def _counted(
    judge: LoadedJudge, rows: tuple[CalibrationRow, ...], labels: Sequence[str], usage: Usage
) -> CalibratedJudge:
    found = Calibration((LabelPair(expected=row.label, predicted=row.said, cluster=row.task) for row in rows), labels)
    return CalibratedJudge(
        name=judge.name,
        judge=judge.id,
        subjects=len(rows),
        judged=found.judged,
        right=found.right,
        known=sum(row.known for row in rows),
        agreement=found.agreement,
        interval=found.interval,
        agreement_over_all=found.agreement_over_all,
        balanced=found.balanced,
        kappa=found.kappa,
        labels=found.scores,
        confusion={truth: {said: found.confusion(truth, said) for said in found.labels} for truth in found.labels},
        usage=usage,
        rows=rows,
    )

"""Read runs of SWE-bench: the predictions and trajectories of agents, and the harness's evaluation of them.

A run is one evaluation of one model's predictions. A folder can contain all parts of a run: trajectories and
`preds.json` of SWE-agent or mini-SWE-agent, the harness's `logs/run_evaluation/<run id>/<model>/<instance>/`, and its
run report `<model>.<run id>.json`. Each part can also be read by itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml

from evalscribe.errors import DataError, EvalscribeError
from evalscribe.model.evidence import Document
from evalscribe.model.reference_runs import GradedAnswer, GradedTrial, reference_document
from evalscribe.model.run import EvalStatus, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import file_below
from evalscribe.sources.recognition import FileStart, FolderStart, Format, has
from evalscribe.sources.records import EvalReader, SourceEval, SourceRun, object_of, text_of
from evalscribe.sources.streams import JsonStream, json_lines
from evalscribe.sources.swe_agent import SUFFIXES, Attempt, Ending, read_attempt, recognise_trajectory
from evalscribe.text import cut, join_first, one_line, pluralise

NAME = "swe-bench"
TESTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
GOLD = "gold"
"""Name that the harness uses as the model when it evaluates the reference patches."""
MAX_INSTANCES = 100_000
MAX_FOLDERS = 50
"""Maximum number of folders that are searched for parts of a run."""
MAX_LOOKED_AT = 20
"""Maximum number of instance folders that are opened to recognise the format."""
MAX_TESTS = 500
"""Maximum number of tests of each group that are listed in a document."""
MAX_BRACKETS = 100
"""Maximum number of opening brackets in a YAML file of exit statuses.

A file of exit statuses needs no brackets, and parsing deeply nested brackets is slow.
"""
MAX_STATUSES_CHARACTERS = 200_000
_EVALUATIONS = "run_evaluation"
_INSTANCE_LOG, _OUTPUT, _REPORT = "run_instance.log", "test_output.txt", "report.json"
_PREDICTIONS = re.compile(r"(?:all_)?pred(?:iction)?s[\w.-]*\.jsonl?$")
_STATUSES = re.compile(r"(?:run_batch_)?exit_statuses[\w.]*\.yaml$")
_SERVICE = re.compile(r"(?P<dataset>[\w.-]+?)__(?:test|dev|train)__")
"""Matches the beginning of a file name that SWE-bench's service gives to a run report.

The name states the dataset but not the model.
"""
_START, _END = ">>>>> Start Test Output", ">>>>> End Test Output"
_NOT_APPLIED = ">>>>> Patch Apply Failed"
_LATE = re.compile(r"(?:Timeout error: |Test timed out after )(\d+) seconds")
_GIT_ERROR = re.compile(r"^(?:error|fatal|patch): .+|^.*malformed patch.*|^Hunk #\d+ FAILED.*", re.MULTILINE)
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception)\b.*", re.MULTILINE)


class _Report(NamedTuple):
    """Statements of a run report about each instance."""

    path: Path
    statuses: Mapping[str, str]
    """Status of each instance: `resolved`, `unresolved`, `empty_patch`, `error` or `submitted`.

    The status is `submitted` if the instance is in no other list.
    """
    reasons: Mapping[str, str]
    """For each instance, the log line by which the harness recognised that the environment failed."""
    environment: frozenset[str]
    """Instances whose environment failed according to the run report."""
    incomplete: int


class _Evaluation(NamedTuple):
    """An evaluation by the harness.

    The evaluation's folder or its run report can be missing, but not both.
    """

    instances: Mapping[str, Path]
    folder: Path | None = None
    model: str | None = None
    """Name of the model as the harness writes it, with `__` in place of `/`."""
    run_id: str | None = None
    report: _Report | None = None


class _Submission(NamedTuple):
    """The work of one agent with one model, before it is evaluated."""

    folder: Path
    trajectories: Mapping[str, Path]
    patches: Mapping[str, str]
    statuses: Mapping[str, str]
    """Exit status of the agent, by instance. Instances without a trajectory can also have an exit status."""
    model: str | None

    @property
    def instances(self) -> set[str]:
        return {*self.trajectories, *self.patches, *self.statuses}


@dataclass
class _Verdict:
    """The verdict on an instance, and its reason."""

    status: EvalStatus
    reason: str | None = None
    steps: list[Step] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    failing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The failed tests of each group; empty if the source does not name the tests."""
    tests: str = ""
    """Text of the document that lists the failed tests."""

    @property
    def failing_tests(self) -> tuple[str, ...]:
        """The failed tests, as lines of the document that lists them."""
        return tuple(f"{group} failed: {test}" for group, tests in self.failing.items() for test in tests[:MAX_TESTS])


class SweBenchReader(EvalReader):
    """Reads a folder with parts of runs, or a single part.

    Parts of a run are predictions, trajectories and evaluations.
    """

    format = NAME

    def evals(self) -> Iterator[SourceEval]:
        if self._path.is_dir():
            yield from self._folder_evals()
            return
        start = FileStart(self._path)
        if recognise_trajectory(start):
            attempt = read_attempt(self._load(self._path))
            name = attempt.instance or _without_suffix(self._path.name)
            yield self._eval(name, _run(attempt.model), attempt=attempt, place=self._path.name)
        elif _is_report(start.top):
            report = self._run_report(self._path)
            yield from self._run_evals(None, _evaluation_of(report), self._references([]))
        elif _is_grade(start):
            for id, grade in _grades(self._load(self._path), self._path):
                yield self._eval(id, _run(None), grade=grade, place=self._path.name)
        else:
            for id, model, patch in self._predictions(self._path):
                yield self._eval(id, _run(model), patch=patch, place=self._path.name)

    def _folder_evals(self) -> Iterator[SourceEval]:
        submissions, evaluations = self._parts(FolderStart(self._path))
        references = self._references(evaluations)
        used = set()
        for evaluation in evaluations:
            submission = _submission_of(evaluation, submissions)
            if submission is not None:
                used.add(submission.folder)
            yield from self._run_evals(submission, evaluation, references)
        for submission in submissions:
            if submission.folder not in used:
                yield from self._run_evals(submission, None, references)

    def _parts(self, folder: FolderStart) -> tuple[list[_Submission], list[_Evaluation]]:
        """Find the submissions and evaluations in a folder.

        Each run report is matched with its evaluation. A report without an evaluation folder counts as an evaluation of
        its own.
        """
        submissions = [self._submission(subfolder) for subfolder in _submission_folders(folder)]
        evaluations = _evaluation_folders(folder)
        places = dict.fromkeys([self._path, *(submission.folder for submission in submissions)])
        places |= dict.fromkeys(evaluation.folder for evaluation in evaluations if evaluation.folder)
        for path in [file for place in places for file in _report_files(place)][:MAX_FOLDERS]:
            try:
                report = self._run_report(path)
            except EvalscribeError as error:
                self._omit(f"a run report that cannot be read: {error}", path.name)
                continue
            at = next((n for n, evaluation in enumerate(evaluations) if _reports_on(report, evaluation)), None)
            if at is None:
                evaluations.append(_evaluation_of(report))
            else:
                evaluations[at] = evaluations[at]._replace(report=report)
        return submissions, evaluations

    def _submission(self, folder: FolderStart) -> _Submission:
        trajectories = _trajectories(folder)
        patches: dict[str, str] = {}
        models: dict[str, None] = {}
        statuses: dict[str, str] = {}
        for name in sorted(folder.names):
            path = folder.path / name
            if path.is_symlink() or not path.is_file():
                continue
            try:
                if _PREDICTIONS.match(name) and _is_predictions(FileStart(path)):
                    for id, model, patch in self._predictions(path):
                        patches[id] = patch
                        models |= {model: None} if model else {}
                elif _STATUSES.match(name):
                    statuses |= self._exit_statuses(path)
            except EvalscribeError as error:
                self._omit(f"a file that cannot be read: {error}", name)
        return _Submission(folder.path, trajectories, patches, statuses, next(iter(models), None))

    def _predictions(self, path: Path) -> Iterator[tuple[str, str | None, str]]:
        """Yield the instance, the model and the patch of each prediction in a file."""
        for number, prediction in self._values(path):
            id = text_of(prediction.get("instance_id"))
            if not id or "model_patch" not in prediction:
                self._omit("a prediction without `instance_id` or `model_patch`", f"{path.name}: [{number}]", lost=True)
                continue
            yield id, text_of(prediction.get("model_name_or_path")) or None, text_of(prediction["model_patch"])

    def _values(self, path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Yield the predictions in a file.

        The file can contain an object with one prediction per instance, a list, one prediction per line, or a single
        prediction.
        """
        start = FileStart(path)
        with self._open(path) as reading:
            if start.line is not None and "model_patch" in start.line:
                for number, line, *_ in json_lines(reading):
                    yield number, line or {}
                return
            text = JsonStream(reading, str(path))
            if text.peek() == "[":
                for number, prediction in enumerate(text.elements()):
                    yield number, object_of(prediction)
            elif "model_patch" in start.top:
                yield 0, object_of(text.value())
            else:
                for number, id in enumerate(text.names()):
                    yield number, {"instance_id": id, **object_of(text.value())}
            text.end()

    def _exit_statuses(self, path: Path) -> dict[str, str]:
        text = self._text(path)
        try:
            # The time to parse nested brackets grows with the square of their depth.
            if len(text) > MAX_STATUSES_CHARACTERS or sum(map(text.count, "[{")) > MAX_BRACKETS:
                raise DataError(f"{path} does not have the format that SWE-agent writes")
            # This loader reads only texts, lists and objects, because merge keys can create a billion pairs and dates
            # can be invalid. The loader written in C would end the process with a segmentation fault at 250,000 levels.
            content = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it makes nothing else
        except (yaml.YAMLError, RecursionError):
            raise DataError(f"{path} is not YAML") from None
        by_status = object_of(object_of(content).get("instances_by_exit_status"))
        listed = ((str(status), ids) for status, ids in by_status.items() if isinstance(ids, list))
        return {id: status for status, ids in listed for id in ids if isinstance(id, str)}

    def _run_report(self, path: Path) -> _Report:
        content = self._load(path)
        ids = {name: _ids(content.get(f"{name}_ids")) for name in (*_LISTS, "infra_failure", "incomplete")}
        statuses = {id: name for name in _LISTS for id in ids[name]}
        reasons = {id: reason for id, reason in object_of(content.get("failure_reasons")).items() if text_of(reason)}
        return _Report(
            path,
            statuses,
            {id: text_of(reason) for id, reason in reasons.items()},
            frozenset(ids["infra_failure"]),
            len([id for id in ids["incomplete"] if id not in statuses]),
        )

    def _references(self, evaluations: Sequence[_Evaluation]) -> dict[str, "_Reference"]:
        """Return how the reference patch of each instance was graded.

        The grades are taken from `reference_run` or, if the user did not set it, from the evaluations of the model
        `gold`.
        """
        reference_runs = [evaluation for evaluation in evaluations if evaluation.model == GOLD]
        if self._overrides.reference_run:
            path = Path(self._overrides.reference_run)
            if path.is_dir():
                _, reference_runs = self._parts(FolderStart(path))
            else:
                reference_runs = [_evaluation_of(self._run_report(path))]
        references: dict[str, _Reference] = {}
        # The first grade of an instance is kept, so evaluations of `gold` come first.
        for evaluation in sorted(reference_runs, key=lambda evaluation: evaluation.model != GOLD):
            for id in _instances(None, evaluation):
                verdict = self._verdict(id, evaluation, "patch", Ending())
                patch = self._file_text(evaluation.instances.get(id), "patch.diff")
                references.setdefault(id, _Reference(verdict, patch, evaluation.folder, evaluation.run_id))
        return references

    def _run_evals(
        self, submission: _Submission | None, evaluation: _Evaluation | None, references: Mapping[str, "_Reference"]
    ) -> Iterator[SourceEval]:
        """Yield the evals of an evaluation, or those of a submission that was not evaluated."""
        model = submission.model if submission else None
        if model is None and evaluation and evaluation.model:
            model = evaluation.model.replace("__", "/", 1)
        dataset, created = self._settings(evaluation)
        if evaluation and evaluation.report and evaluation.report.incomplete:
            self._omit("an instance of the data set without a prediction", number=evaluation.report.incomplete)
        instances = _instances(submission, evaluation)
        for id in instances[:MAX_INSTANCES]:
            attempt = self._attempt(submission.trajectories.get(id)) if submission else None
            attempt_model = model or (attempt.model if attempt else None)
            reference = references.get(id)
            yield self._eval(
                id,
                _run(attempt_model, evaluation, dataset, created, submission),
                attempt=attempt,
                patch=submission.patches.get(id) if submission else None,
                exit_status=submission.statuses.get(id) if submission else None,
                evaluation=evaluation,
                # The evaluation of the reference patches themselves has no other reference.
                reference=reference if reference and reference.folder != (evaluation and evaluation.folder) else None,
                place=id,
            )
        if len(instances) > MAX_INSTANCES:
            self._omit("an instance beyond the maximum", number=len(instances) - MAX_INSTANCES)

    def _settings(self, evaluation: _Evaluation | None) -> tuple[str | None, object]:
        """Return the dataset and the start time of an evaluation; each is None if it is not recorded."""
        if evaluation is None:
            return None, None
        if evaluation.folder and evaluation.folder != self._path:
            with suppress(EvalscribeError):
                if path := file_below(evaluation.folder.parent, "run.json"):
                    settings = self._load(path)
                    return text_of(settings.get("dataset")) or None, settings.get("created_at")
        match = _SERVICE.match(evaluation.report.path.name) if evaluation.report else None
        return (match["dataset"] if match else None), None

    def _attempt(self, path: Path | None) -> Attempt | None:
        if path is None:
            return None
        try:
            return read_attempt(self._load(path))
        except EvalscribeError as error:
            self._omit(f"a trajectory that cannot be read: {error}", path.name)
            return None

    def _eval(
        self,
        id: str,
        run: SourceRun,
        *,
        place: str,
        attempt: Attempt | None = None,
        patch: str | None = None,
        exit_status: str | None = None,
        evaluation: _Evaluation | None = None,
        grade: Mapping[str, object] | None = None,
        reference: "_Reference | None" = None,
    ) -> SourceEval:
        results = evaluation.instances.get(id) if evaluation else None
        ending = attempt.ending if attempt else Ending(exit_status or "")
        applied = self._file_text(results, "patch.diff") or patch or (attempt.patch if attempt else "")
        is_known = attempt is not None or patch is not None or ending.status
        verdict = self._verdict(id, evaluation, applied if is_known else None, ending, grade)
        output, log = self._file_text(results, _OUTPUT), self._file_text(results, _INSTANCE_LOG)
        documents = [
            Document(role="task", path="task", text=attempt.task if attempt else ""),
            Document(role="output", path="patch.diff", text=applied),
            Document(role="expected", path="patch.diff", text=reference.patch if reference else ""),
            Document(role="grader", path="eval.sh", text=self._file_text(results, "eval.sh")),
            Document(role="log", path=_OUTPUT, text=_tests_output(output)),
            Document(role="log", path=_INSTANCE_LOG, text="" if verdict.tests or verdict.status == "passed" else log),
            Document(role="log", path="tests", text=verdict.tests),
            Document(role="log", path="exception", text=ending.error),
        ]
        if reference and verdict.status != "passed" and (document := reference.document(id)):
            documents.append(document)
        missing = []
        if verdict.failing and not output:
            missing.append(f"the tests' output: {_OUTPUT} is not there")
        if attempt is None:
            missing.append("no trajectory")
        return SourceEval(
            run=run,
            name=id,
            status=verdict.status,
            reason=verdict.reason,
            place=place,
            steps=verdict.steps,
            documents=documents,
            conversations=attempt.conversations if attempt else (),
            scores=verdict.scores,
            metadata={
                **{name: value for name, value in (attempt.metadata if attempt else {}).items() if value},
                "exit_status": ending.status or None,
                "run_id": evaluation.run_id if evaluation else None,
                "environment": self._environment_failure(evaluation, id),
                "reference": reference.verdict.status if reference else None,
            },
            missing=missing,
            started_at=next(iter(attempt.times), None) if attempt else None,
            ended_at=next(reversed(attempt.times), None) if attempt else None,
            input_tokens=attempt.input_tokens if attempt else None,
            output_tokens=attempt.output_tokens if attempt else None,
            cost_usd=attempt.cost_usd if attempt else None,
        )

    def _environment_failure(self, evaluation: _Evaluation | None, id: str) -> str | None:
        return evaluation.report.reasons.get(id) if evaluation and evaluation.report else None

    def _file_text(self, folder: Path | None, name: str) -> str:
        """Return the text of a file in an instance's folder; empty if the file does not exist or cannot be read."""
        if folder is None or not (path := folder / name).is_file() or path.is_symlink():
            return ""
        try:
            return self._text(path)
        except EvalscribeError as error:
            self._omit(f"a file that cannot be read: {error}", f"{folder.name}/{name}")
            return ""

    def _verdict(
        self,
        id: str,
        evaluation: _Evaluation | None,
        patch: str | None,
        ending: Ending,
        grade: Mapping[str, object] | None = None,
    ) -> _Verdict:
        """Return the verdict on an instance.

        Args:
            id: Id of the instance.
            evaluation: The evaluation of the run, if there is one.
            patch: The submitted patch; None if it is unknown whether there is one.
            ending: How the agent's work ended.
            grade: The harness's report on the instance, if it is not in the evaluation's folder.
        """
        results = evaluation.instances.get(id) if evaluation else None
        report = evaluation.report if evaluation else None
        if grade is None and results and (results / _REPORT).is_file() and not (results / _REPORT).is_symlink():
            try:
                grade = next(
                    (instance_grade for _, instance_grade in _grades(self._load(results / _REPORT), results / _REPORT)),
                    None,
                )
            except EvalscribeError as error:
                self._omit(f"a report that cannot be read: {error}", f"{id}/{_REPORT}")
        if grade is not None and grade.get("resolved") is True:
            return _tested(grade)
        listed = report.statuses.get(id) if report else None
        empty = listed == "empty_patch" or (grade is not None and grade.get("patch_exists") is False)
        if not (empty or listed == "resolved") and grade is None and patch == "" and ending.status:
            empty = True
        if empty:
            return _no_patch(ending)
        # Results of tests take precedence over `infra_failure`, which the harness infers from lines of the logs.
        if grade is not None and object_of(grade.get("tests_status")):
            return _tested(grade)
        sign = text_of(grade.get("infra_failure_reason")) if grade is not None else ""
        broken = grade is not None and grade.get("infra_failure") is True
        if report and id in report.reasons:
            sign, broken = sign or report.reasons[id], broken or id in report.environment
        if broken:
            return _Verdict("error", f"the environment of the tests failed: {sign or 'infrastructure failure'}")
        if results is not None or grade is not None:
            log = self._file_text(results, _INSTANCE_LOG)
            return _untested(log, self._file_text(results, _OUTPUT), sign, graded=grade is not None)
        if listed == "resolved":
            return _Verdict("passed", scores={"resolved": 1.0})
        if listed == "unresolved":
            return _Verdict("failed", "unresolved; the run report does not name the tests", scores={"resolved": 0.0})
        if listed == "error":
            return _Verdict("error", f"the harness could not grade it{f': {sign}' if sign else ''}")
        return _Verdict("incomplete", "the patch was not evaluated" if patch else "it was not evaluated")


@dataclass(frozen=True)
class _Reference:
    """How an instance's reference patch was graded."""

    verdict: _Verdict
    patch: str
    folder: Path | None
    """Folder of the evaluation in which the reference patch was graded."""
    run_id: str | None

    def document(self, id: str) -> Document | None:
        """Return a document that describes how the reference patch was graded; None if it was not graded."""
        verdict = self.verdict
        if verdict.status not in ("passed", "failed"):
            return None
        failed = (
            verdict.failing_tests
            or tuple(step.error for step in verdict.steps if step.error)
            or (verdict.reason or "",)
        )
        trial = GradedTrial(name=id, failed_at=() if verdict.status == "passed" else failed)
        answer = GradedAnswer(
            kind="reference answer",
            source=f"{GOLD}, run {self.run_id}" if self.run_id else GOLD,
            trials=(trial,),
            passed=int(verdict.status == "passed"),
            total=1,
        )
        return reference_document([answer])


_LISTS = ("submitted", "error", "empty_patch", "unresolved", "resolved")
"""Names of the lists of instances in a run report.

If an instance is in several lists, the last of these lists is used.
"""


def _ids(value: object) -> list[str]:
    return [id for id in value if isinstance(id, str)] if isinstance(value, list) else []


def _run(
    model: str | None,
    evaluation: _Evaluation | None = None,
    dataset: str | None = None,
    created: object = None,
    submission: _Submission | None = None,
) -> SourceRun:
    parts = (
        model,
        evaluation and evaluation.run_id,
        evaluation and evaluation.folder,
        submission and submission.folder,
    )
    return SourceRun(
        key="\0".join(str(part) for part in parts),
        model=model,
        experiment=dataset or NAME,
        started_at=created,
    )


def _instances(submission: _Submission | None, evaluation: _Evaluation | None) -> list[str]:
    ids = set(submission.instances) if submission else set()
    if evaluation:
        ids |= {*evaluation.instances, *(evaluation.report.statuses if evaluation.report else ())}
    return sorted(ids)


def _evaluation_of(report: _Report) -> _Evaluation:
    """Return an evaluation for which there is only a run report.

    The file name of a report by the harness states the model. The file name of a report by SWE-bench's service states
    no model.
    """
    model, dot, run_id = report.path.name.removesuffix(".json").rpartition(".")
    if _SERVICE.match(report.path.name) or not dot:
        return _Evaluation({}, report=report)
    return _Evaluation({}, model=model, run_id=run_id, report=report)


def _reports_on(report: _Report, evaluation: _Evaluation) -> bool:
    if evaluation.report is not None:
        return False
    if evaluation.model is not None:
        return report.path.name == f"{evaluation.model}.{evaluation.run_id}.json"
    return not evaluation.instances.keys().isdisjoint(report.statuses)


def _submission_of(evaluation: _Evaluation, submissions: Sequence[_Submission]) -> _Submission | None:
    """Return the submission that was evaluated; None if there is none.

    If the evaluation names a model, the submission of this model is returned. If not, the only submission that shares
    instances with the evaluation is returned; if several share instances, the result is None.
    """
    if evaluation.model is not None:
        return next(
            (
                submission
                for submission in submissions
                if (submission.model or "").replace("/", "__") == evaluation.model
            ),
            None,
        )
    ids = _instances(None, evaluation)
    sharing = [submission for submission in submissions if not submission.instances.isdisjoint(ids)]
    return sharing[0] if len(sharing) == 1 else None


def _tested(grade: Mapping[str, object]) -> _Verdict:
    """Return the verdict that follows from a report that has test results."""
    resolved = grade.get("resolved") is True
    groups = {name: object_of(object_of(grade.get("tests_status")).get(name)) for name in TESTS}
    steps = [Step(name="patch", status="passed")]
    scores = {"resolved": float(resolved)}
    failing: dict[str, Sequence[str]] = {}
    counts: list[str] = []
    for name, group in groups.items():
        failed, passed = _ids(group.get("failure")), _ids(group.get("success"))
        if not failed and not passed:
            continue
        failing[name] = failed
        total = len(failed) + len(passed)
        scores[name] = len(passed) / total
        verbs = ("still fails", "still fail") if name == "FAIL_TO_PASS" else ("no longer passes", "no longer pass")
        failed_names = join_first([cut(one_line(_title(test)), 120) for test in failed], 4)
        error = f"{len(failed)} of {pluralise(total, 'test')} {verbs[len(failed) > 1]}: {failed_names}"
        steps.append(
            Step(name=f"{name} tests", status="failed" if failed else "passed", error=error if failed else None)
        )
        counts.append(f"{name}: {len(passed)} of {total} passed")
    reason = None if any(step.error for step in steps) else "unresolved"
    verdict = _Verdict("passed" if resolved else "failed", None if resolved else reason, steps, scores)
    if not resolved:
        verdict.failing = failing
        verdict.tests = "\n".join([*counts, *verdict.failing_tests])
    return verdict


def _title(test: str) -> str:
    """Return the name of a test. The file and the class are removed from a test id of pytest."""
    path, bracket, parameters = test.partition("[")
    return path.rsplit("::", 1)[-1] + bracket + parameters


def _no_patch(ending: Ending) -> _Verdict:
    """Return the verdict on an instance without a patch, depending on how the agent's work ended."""
    if ending.broken:
        detail = f": {cut(one_line(ending.error), 400)}" if ending.error else ""
        return _Verdict("error", f"{ending.status}{detail}", scores={"resolved": 0.0})
    step = "limit" if ending.limit else "patch"
    prefix = f"{ending.status}: " if ending.limit or ending.unreadable else ""
    error = f"{prefix}no patch was submitted" if not ending.submitted else "an empty patch was submitted"
    return _Verdict("failed", None, [Step(name=step, status="failed", error=error)], {"resolved": 0.0})


def _untested(log: str, output: str, sign: str, *, graded: bool) -> _Verdict:
    """Return the verdict on an instance without test results.

    Either the patch could not be applied, or the tests timed out, or they never started.
    """
    scores = {"resolved": 0.0}
    # If a patch does not apply or the tests time out, the harness writes no `report.json`, so the log is the only
    # source.
    if _NOT_APPLIED in log or _NOT_APPLIED in output:
        after_sign = (log if _NOT_APPLIED in log else output).split(_NOT_APPLIED, 1)[1]
        git_error = _GIT_ERROR.search(after_sign)
        error = f"the patch does not apply{f': {cut(one_line(git_error[0]), 300)}' if git_error else ''}"
        return _Verdict("failed", None, [Step(name="patch", status="failed", error=error)], scores)
    steps = [Step(name="patch", status="passed")]
    # The tests can print the same words, so only the end of the output is searched.
    if timeout := _LATE.search(output[-500:]) or _LATE.search(log[-5000:]):
        error = f"tests timed out after {timeout[1]} s"
        return _Verdict("failed", None, [*steps, Step(name="tests", status="failed", error=error)], scores)
    if graded or (output and not log):
        error = f"no test was counted{f': {sign}' if sign else ''}"
        return _Verdict("failed", None, [*steps, Step(name="tests", status="failed", error=error)], scores)
    raised = _ERROR.findall(log)
    return _Verdict(
        "error", f"the harness could not grade it: {cut(one_line((raised or [sign or 'no report'])[-1]), 400)}"
    )


def _tests_output(output: str) -> str:
    """Return the output of the tests, without the output of the harness before and after it."""
    begin, end = output.find(_START), output.rfind(_END)
    if begin < 0:
        return output
    return output[output.find("\n", begin) + 1 : output.rfind("\n", 0, end) + 1 if end > begin else None]


def _grades(content: Mapping[str, object], path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each instance in a report file, with the harness's report on it.

    If a report does not name its instance, the name of the report's folder is the id of the instance.
    """
    if "resolved" in content:
        yield path.absolute().parent.name, content
        return
    for id, grade in content.items():
        if "resolved" in object_of(grade):
            yield id, object_of(grade)


def _without_suffix(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name.removesuffix(".json"))


def _files(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in sorted(names):
        path = folder / name
        if not path.is_symlink() and path.is_file():
            yield path


def _report_files(folder: Path) -> Iterator[Path]:
    """Yield the run reports in a folder and in its subfolder `sb-cli-reports`.

    The command line client of SWE-bench's service writes its reports to this subfolder.
    """
    for place in (folder, folder / "sb-cli-reports"):
        start = FolderStart(place)
        for path in list(_files(place, (name for name in start.names if name.endswith(".json"))))[:MAX_FOLDERS]:
            with suppress(EvalscribeError):
                if _is_report(FileStart(path).top):
                    yield path


def _trajectories(folder: FolderStart) -> dict[str, Path]:
    """Return the trajectories in a folder and its subfolders, by instance."""
    paths = {_without_suffix(path.name): path for path in _files(folder.path, _trajectory_names(folder))}
    for subfolder in folder.folders:
        for path in _files(subfolder.path, _trajectory_names(subfolder)):
            paths.setdefault(_without_suffix(path.name), path)
    return paths


def _trajectory_names(folder: FolderStart) -> Iterator[str]:
    return (name for name in folder.names if name.endswith(SUFFIXES))


def _has_trajectories(folder: FolderStart) -> bool:
    for candidate in (folder, *folder.folders[:MAX_LOOKED_AT]):
        for path in list(_files(candidate.path, _trajectory_names(candidate)))[:1]:
            with suppress(EvalscribeError):
                return recognise_trajectory(FileStart(path)) is not None
    return False


def _has_predictions(folder: FolderStart) -> bool:
    for path in list(_files(folder.path, (name for name in folder.names if _PREDICTIONS.match(name))))[:MAX_LOOKED_AT]:
        with suppress(EvalscribeError):
            if _is_predictions(FileStart(path)):
                return True
    return False


def _is_instance(folder: FolderStart) -> bool:
    """Return whether a folder was written by the harness for one instance."""
    if _REPORT in folder.names:
        report = file_below(folder.path, _REPORT)
        with suppress(EvalscribeError):
            return report is not None and _is_grade(FileStart(report))
    return _INSTANCE_LOG in folder.names and not {"patch.diff", "eval.sh", _OUTPUT}.isdisjoint(folder.names)


def _has_instances(folder: FolderStart) -> bool:
    return any(_is_instance(subfolder) for subfolder in folder.folders[:MAX_LOOKED_AT])


def _submission_folders(folder: FolderStart) -> list[FolderStart]:
    """Return the folders that contain trajectories or predictions.

    If the folder itself has neither trajectories nor predictions, the subfolders with trajectories or predictions are
    returned.
    """
    if _has_predictions(folder) or _has_trajectories(folder):
        return [folder]
    return [
        subfolder
        for subfolder in folder.folders[:MAX_FOLDERS]
        if _has_predictions(subfolder) or _has_trajectories(subfolder)
    ]


def _evaluation_folders(folder: FolderStart) -> list[_Evaluation]:
    """Return the evaluations in a folder.

    The subfolders that the harness usually writes are searched for evaluations. If there are no such subfolders, every
    folder with instance folders counts as an evaluation.
    """
    if _is_instance(folder):
        return [_Evaluation({folder.path.absolute().name: folder.path}, folder.path)]
    for candidate in (folder, *folder.folders[:MAX_FOLDERS]):
        if _EVALUATIONS in candidate.names:
            candidate = next(
                (subfolder for subfolder in candidate.folders if subfolder.path.name == _EVALUATIONS), candidate
            )
        if candidate.path.absolute().name == _EVALUATIONS:
            return [evaluation for run in candidate.folders[:MAX_FOLDERS] for evaluation in _evaluated(run)]
        if candidate.path.absolute().parent.name == _EVALUATIONS:
            return list(_evaluated(candidate))
    return [
        _Evaluation(_instance_folders(candidate), candidate.path, *_model_and_run_id(candidate.path))
        for candidate in (folder, *folder.folders[:MAX_FOLDERS])
        if _has_instances(candidate)
    ]


def _evaluated(run: FolderStart) -> Iterator[_Evaluation]:
    for model in run.folders[:MAX_FOLDERS]:
        if instances := _instance_folders(model):
            yield _Evaluation(instances, model.path, model.path.name, run.path.absolute().name)


def _model_and_run_id(folder: Path) -> tuple[str | None, str | None]:
    """Return the model and the run id that a folder's path contains.

    Both values are None if the path does not have the harness's layout.
    """
    *_, above, run_id, model = ("", "", "", *folder.absolute().parts)
    return (model, run_id) if above == _EVALUATIONS else (None, None)


def _instance_folders(folder: FolderStart) -> dict[str, Path]:
    parts = {_REPORT, _INSTANCE_LOG, _OUTPUT}
    return {
        subfolder.path.name: subfolder.path for subfolder in folder.folders if not parts.isdisjoint(subfolder.names)
    }


def _is_report(fields: Mapping[str, object]) -> bool:
    return has(fields, "submitted_ids", "resolved_ids") is not None


def _is_grade(start: FileStart) -> bool:
    # The keys of the outer object are ids of instances, so the names of the fields are searched in the first bytes.
    return start.character == "{" and b'"patch_successfully_applied"' in start.bytes and b'"resolved"' in start.bytes


def _is_predictions(start: FileStart) -> bool:
    if has(start.first, "instance_id", "model_patch"):
        return True
    return start.character == "{" and b'"model_patch"' in start.bytes and b'"model_name_or_path"' in start.bytes


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    if feature := recognise_trajectory(start):
        return feature
    if _is_report(start.top):
        return "it has `submitted_ids` and `resolved_ids`"
    if _is_grade(start):
        return "it has `patch_successfully_applied` and `resolved`"
    return "it has `model_patch`" if _is_predictions(start) else None


def _recognise_folder(folder: FolderStart) -> str | None:
    if _is_instance(folder):
        return "it has the files that SWE-bench's harness writes for an instance"
    if _has_instances(folder):
        return "its folders have the files that SWE-bench's harness writes for instances"
    if _has_predictions(folder):
        return "it has predictions with `model_patch`"
    if _has_trajectories(folder):
        return "it has trajectories of SWE-agent or mini-SWE-agent"
    evaluations = _evaluation_folders(folder)
    if any(evaluation.model == GOLD for evaluation in evaluations) and len(evaluations) > 1:
        return f"it has evaluations of SWE-bench, one of them of the model `{GOLD}`"
    if evaluations and _submission_folders(folder):
        return "it has trajectories or predictions, and evaluations of SWE-bench"
    return None


FORMATS = (
    Format(
        name=NAME,
        title="SWE-bench, SWE-agent and mini-SWE-agent",
        used=frozenset(("reference_run",)),
        open=SweBenchReader,
        recognise=_recognise,
        recognise_folder=_recognise_folder,
        a_run="an evaluation (run id) of the predictions of one model; without one, the predictions",
        an_eval="an instance",
        passed="`resolved` in `report.json`, else `resolved_ids` of the run report",
        versions="SWE-bench 5.0; mini-SWE-agent 1.15, 2.4; SWE-agent 0.7, 1.0",
        names=("instance_id", "model_patch", "model_name_or_path", "trajectory_format"),
        fields={
            "report.json: tests_status": "steps `FAIL_TO_PASS tests` and `PASS_TO_PASS tests`, scores",
            "report.json: patch_exists, patch_successfully_applied": "step `patch`",
            "report.json, run report: infra_failure": "status error; the reason comes from the logs",
            "run report: error_ids": "status error",
            "run report: incomplete_ids": "left out and counted: no prediction was submitted",
            "test_output.txt, run_instance.log": "documents (log)",
            "patch.diff, model_patch, submission": "document (output)",
            "eval.sh": "document (grader)",
            "messages, history, trajectory": "transcripts; a command in the text becomes a tool call",
            "exit_status": "step `limit`, or status error, if nothing was submitted; metadata",
            "model_name_or_path, config.model.model_name": "model of the run",
            "run.json: dataset": "experiment of the run",
            "reports of the reference patches (`gold`)": "documents (expected, log): whether the reference fails too",
        },
    ),
)

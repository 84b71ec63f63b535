"""Read JUnit XML as written by pytest and other test runners. Each file is a run, and each test case is an eval."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.model.evidence import Document
from evalscribe.model.record import Record
from evalscribe.model.run import Eval, EvalStatus, Run, Step
from evalscribe.sources import records
from evalscribe.sources.address import RunOverrides, agent_metadata, provider_and_model
from evalscribe.sources.files import FileReader
from evalscribe.sources.recognition import Format
from evalscribe.sources.records import Omissions, RecordFile, Trials
from evalscribe.sources.streams import EndTag, StartTag, read_xml

NAME = "junit"
_VERDICTS: dict[str, EvalStatus] = {"error": "error", "failure": "failed", "skipped": "incomplete"}
"""Status of a test case for each element that the test case can contain.

The most severe status comes first. If a test case contains several of these elements, the most severe one is used.
"""
_RERUNS = ("rerunFailure", "rerunError", "flakyFailure", "flakyError")
_TEXTS = (*_VERDICTS, "system-out", "system-err", *_RERUNS, "stackTrace")
_STOCK = ("failed", "failure", "error")
"""Messages that say only that a test failed."""
_RUN_AGAIN = "it failed and was run again; the file does not say why"
_SUMS = ("tests", "failures", "errors", "skipped", "disabled", "assertions", "time")
"""Attributes of a suite that are sums over its test cases."""

MAX_SUITES = 100_000
"""Maximum number of suites whose times are read.

A file usually has a single suite, or one suite per module.
"""


class JUnitElement(NamedTuple):
    """An element inside a test case, such as `failure`."""

    tag: str
    attributes: dict[str, str]
    text: str


class JUnitCase(NamedTuple):
    attributes: dict[str, str]
    suite: dict[str, JsonValue]
    parts: tuple[JUnitElement, ...]
    properties: dict[str, str]

    @property
    def key(self) -> tuple[str, str]:
        return self.attributes.get("classname", ""), self.attributes.get("name", "")


class JUnit(RecordFile):
    """A file of test results.

    The file is read twice. The first pass counts how often each test was run. Each rerun of a test is a trial.
    """

    format = NAME
    passes = 2

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._suites: list[dict[str, str]] = []

    def read(self) -> Iterator[Run | Record]:
        trials = Trials()
        suite: JsonValue = None
        with suppress(DataError):  # The second pass raises this error, after it has yielded the readable evals.
            for case in self._cases(Omissions()):
                trials.count(*case.key)
                suite = suite or case.suite.get("name")
        run_id = self._finish_first_pass()
        provider, model = provider_and_model(self._overrides, None)
        experiment = self._overrides.experiment or records.safe_name(records.safe_json(suite) or NAME)
        begun = [time for attributes in self._suites if (time := records.iso_time(attributes.get("timestamp")))]
        lasted = [seconds for attributes in self._suites if (seconds := _seconds(attributes.get("time"))) is not None]
        run = Run(
            id=run_id,
            provider=provider,
            model=model,
            experiment=experiment,
            started_at=min(begun, default=None),
            duration_s=sum(lasted) if lasted and len(lasted) == len(self._suites) else None,
        )
        yield run
        for case in self._cases(self._left_out):
            yield _record(case, run, *trials.next(*case.key))

    def _cases(self, left_out: Omissions) -> Iterator[JUnitCase]:
        with FileReader(self._path) as self._reader:
            events = self._noting_suites(read_xml(self._reader, str(self._path)))
            yield from _merge_reruns(_merge_teardowns(parse_cases(events, left_out)))

    def _noting_suites(self, events: Iterator[StartTag | EndTag]) -> Iterator[StartTag | EndTag]:
        """Yield the tags of a document, and record the attributes of its outermost suites."""
        self._suites.clear()
        inside: list[bool] = []
        for event in events:
            if isinstance(event, EndTag):
                inside.pop()
            else:
                suite = event.tag == "testsuite"
                # The times of the outermost suites include those of nested suites.
                if suite and not any(inside) and len(self._suites) < MAX_SUITES:
                    self._suites.append(event.attributes)
                inside.append(suite)
            yield event


def _seconds(text: str | None) -> float | None:
    try:
        return records.figure(float(text)) if text else None
    except ValueError:
        return None


def _merge_teardowns(read: Iterator[JUnitCase]) -> Iterator[JUnitCase]:
    """Rename test cases that report a failed teardown, so that they do not count as further trials of the test.

    Pytest reports a test and its failed teardown as two cases with the same name.
    """
    before = None
    for case in read:
        message = case.parts[0].attributes.get("message", "") if case.parts else ""
        is_teardown = case.key == before and message.startswith("failed on teardown")
        before = case.key
        yield case._replace(attributes={**case.attributes, "name": f"{case.key[1]} teardown"}) if is_teardown else case


def _merge_reruns(read: Iterator[JUnitCase]) -> Iterator[JUnitCase]:
    """Mark a test case as failed if the same test was run again directly afterwards.

    Pytest reports the first execution of such a test without its failure.
    """
    previous: JUnitCase | None = None
    for case in read:
        if previous is not None:
            yield _failed(previous) if previous.key == case.key and previous.suite.get("name") == "pytest" else previous
        previous = case
    if previous is not None:
        yield previous


def _failed(case: JUnitCase) -> JUnitCase:
    if any(part.tag in _VERDICTS for part in case.parts):
        return case
    return case._replace(parts=(*case.parts, JUnitElement("failure", {"message": _RUN_AGAIN}, "")))


def parse_cases(tags: Iterator[StartTag | EndTag], left_out: Omissions) -> Iterator[JUnitCase]:
    """Yield the test cases of all suites in a document."""
    open_: list[StartTag] = []
    suites: list[dict[str, JsonValue]] = [{}]
    case: JUnitCase | None = None
    for event in tags:
        if isinstance(event, StartTag):
            open_.append(event)
            if event.tag == "testsuite":
                suites.append(_suite(event, left_out))
            elif event.tag == "testcase":
                case = JUnitCase(event.attributes, suites[-1], (), {})
            continue
        started = open_.pop()
        if event.tag == "testcase" and case is not None:
            yield case
            case = None
        elif event.tag == "testsuite":
            suites.pop()
        elif case is None:
            _update_suite(started, event, suites[-1], left_out)
        else:
            case = _extend_case(case, started, event, left_out)


def _suite(event: StartTag, left_out: Omissions) -> dict[str, JsonValue]:
    if sums := [f"`{name}`" for name in _SUMS if name in event.attributes]:
        left_out.add(f"the attributes {', '.join(sums)} of a suite, which are sums of its tests")
    return {name: value for name, value in event.attributes.items() if name not in _SUMS}


def _update_suite(started: StartTag, event: EndTag, suite: dict[str, JsonValue], left_out: Omissions) -> None:
    if event.tag == "property":
        name, value = _property(started, event)
        suite["properties"] = {**_dict(suite.get("properties")), name: value}
    elif event.tag not in ("testsuites", "properties"):
        left_out.add(f"the element `{records.safe_name(event.tag)}` of a suite")


def _extend_case(case: JUnitCase, started: StartTag, event: EndTag, left_out: Omissions) -> JUnitCase:
    if event.tag == "property":
        name, value = _property(started, event)
        return case._replace(properties={**case.properties, name: value})
    if event.tag in _TEXTS:
        return case._replace(parts=(*case.parts, JUnitElement(event.tag, started.attributes, event.text)))
    if event.tag != "properties":
        left_out.add(f"the element `{records.safe_name(event.tag)}` of a test case")
    return case


def _property(started: StartTag, event: EndTag) -> tuple[str, str]:
    return started.attributes.get("name", "unnamed"), started.attributes.get("value", event.text)


def _record(raw: JUnitCase, run: Run, trial: int, trials: int) -> Record:
    case = _safe(raw)
    classname, name = (
        records.safe_name(case.attributes.get("classname", "")),
        records.safe_name(case.attributes.get("name", "")),
    )
    category = "" if not case.attributes.get("classname") else classname
    task = f"{category}/{name}" if category else name
    verdict = next((part for tag in _VERDICTS for part in case.parts if part.tag == tag), None)
    status = _VERDICTS[verdict.tag] if verdict else "passed"
    reason = _reason(verdict) if verdict else None
    steps = (Step(name="test", status="passed"),) if status == "passed" else ()
    if status in ("failed", "error"):
        steps = (Step(name="test", status="failed", error=reason),)
    return Record(
        run_id=run.id,
        eval=Eval(
            id=records.eval_id(run.id, task, trial),
            category=category,
            name=name,
            trial=trial,
            trials=trials,
            status=status,
            failed_step="test" if status == "failed" else None,
            reason=reason,
        ),
        metadata={**_metadata(case, status, task), "agent": agent_metadata(run)},
        steps=steps,
        documents=_documents(case),
    )


def _safe(case: JUnitCase) -> JUnitCase:
    parts = (JUnitElement(part.tag, _texts(part.attributes), records.safe_text(part.text)) for part in case.parts)
    return JUnitCase(
        _texts(case.attributes), _dict(records.safe_json(case.suite)), tuple(parts), _texts(case.properties)
    )


def _texts(value: dict[str, str]) -> dict[str, str]:
    return cast(dict[str, str], records.safe_json(value))


def _reason(verdict: JUnitElement) -> str:
    message = verdict.attributes.get("message", "")
    if not message or message.strip(" .:!").lower() in _STOCK:
        lines = (line.strip() for line in verdict.text.splitlines())
        message = next((line for line in lines if line and not line.startswith(("===", "---"))), message)
    return message or verdict.attributes.get("type") or verdict.tag


def _metadata(case: JUnitCase, status: EvalStatus, task: str) -> dict[str, JsonValue]:
    scored = {"passed": 1.0 if status == "passed" else 0.0} if status in ("passed", "failed") else {}
    part_attributes: dict[str, JsonValue] = {
        part.tag: dict(part.attributes) for part in case.parts if part.attributes and part.tag in _TEXTS
    }
    return {
        **case.attributes,
        **part_attributes,
        **({"properties": dict(case.properties)} if case.properties else {}),
        "suite": dict(case.suite),
        "task": task,
        "scores": dict(scored),
    }


def _documents(case: JUnitCase) -> tuple[Document, ...]:
    """Return the texts in a test case as documents.

    Each document is named after its element. If several elements have the same name, a number is added.
    """
    counts: Counter[str] = Counter()
    documents = []
    for part in case.parts:
        if part.text.strip():
            counts[part.tag] += 1
            path = part.tag if counts[part.tag] == 1 else f"{part.tag}-{counts[part.tag]}"
            documents.append(Document(role="log", path=path, text=part.text))
    return tuple(documents)


def _dict(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


FORMATS = (
    Format(
        name=NAME,
        title="JUnit XML",
        open=JUnit,
        an_eval="a test case",
        passed="no `failure`, `error` or `skipped` element",
        versions="pytest 8 and 9, Maven Surefire",
        fields={
            "testsuite": "experiment, dates and duration of the run; metadata",
            "testcase.classname, name": "category and name",
            "failure": "failed step, log",
            "error": "status error, log",
            "skipped": "incomplete",
            "rerunFailure, flakyFailure": "an earlier trial",
            "system-out, system-err": "logs",
        },
        recognise=lambda start, _: f"its root is <{start.root}>" if start.root in ("testsuites", "testsuite") else None,
    ),
)

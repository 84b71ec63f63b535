"""Failure records: the values by which failures are compared."""

from typing import Any

import pytest

from evalscribe.failures.prepare import RECORD_VERSION, failed_score, failure_record
from evalscribe.model.evidence import Document, Evidence, FailedScore, UnreadableEvidence
from evalscribe.model.record import SCORES_LOG
from evalscribe.model.run import Eval, Run, Step

RUN = Run(id="r1", provider="p", model="m", experiment="x")
VITEST = "RUN  v1.0\n   × {name}\n     → {message}\n\n Tests  1 failed | 6 passed (7)\n"


def evidence(log: str = "", *extra: Document, **fields: Any) -> Evidence:
    defaults: dict[str, Any] = {"id": "e1", "category": "a", "name": "1", "failed_step": "tests"}
    documents = [
        Document(role="task", path="TASK.txt", text="do it\n"),
        Document(role="output", path="x.py", text="x = 1\n"),
        *([Document(role="log", path="run.log", text=log)] if log else []),
        *extra,
    ]
    return Evidence(eval=Eval(**defaults | fields), steps=(Step(name="tests", status="failed"),), documents=documents)


def vitest(message: str, name: str = "adds up") -> str:
    return VITEST.format(name=name, message=message)


def test_record_of_a_trial_names_its_eval_without_the_trial() -> None:
    record = failure_record(RUN, evidence(vitest("expected 1 to be 2"), trial=2, trials=3))
    assert (record.eval, record.eval_id, record.step, record.method) == ("a/1", "e1", "tests", RECORD_VERSION)
    assert (record.run, record.provider, record.model, record.experiment) == ("r1", "p", "m", "x")
    assert record.signature == "tests: adds up: expected <n> to be <n>"
    assert record.judged


@pytest.mark.parametrize(
    ("message", "hidden"),
    [
        ("expected [ { …(5) } ] to deeply equal [ { …(5) } ]", True),
        ("expected { Object (tables, schemaValidation) } to deeply equal { Object (tables, schemaValidation) }", True),
        ("expected [ [Object] ] to equal [ [Object] ]", True),
        ("expected 'a very long te...' to contain 'b'", True),
        ("expected 'left' to be 'right'", False),
    ],
)
def test_hidden_is_set_if_the_log_abbreviates_the_compared_values(message: str, hidden: bool) -> None:
    record = failure_record(RUN, evidence(vitest(message)))
    assert record.hidden is hidden
    assert record.checks != failure_record(RUN, evidence(vitest(message, name="another test"))).checks


def test_task_and_grader_digests_ignore_document_order_and_line_ends() -> None:
    first, second = (Document(role="grader", path=path, text=text) for path, text in (("a.ts", "1\n"), ("b.ts", "2\n")))
    record = failure_record(RUN, evidence("", first, second))
    assert record.task is not None
    assert record.grader is not None
    windows = Document(role="grader", path="a.ts", text="1\r\n")
    assert failure_record(RUN, evidence("", second, windows)) == record
    assert failure_record(RUN, evidence("", first)).grader != record.grader
    assert failure_record(RUN, evidence("")).grader is None


def test_failure_before_the_models_work_is_not_judged() -> None:
    nothing = Evidence(eval=Eval(id="e", category="a", name="1", reason="APIError: no endpoints found for x/y"))
    assert not failure_record(RUN, nothing).judged
    index = "ReadTimeoutError: HTTPSConnectionPool(host='index', port=443): Read timed out."
    assert not failure_record(RUN, evidence(index, failed_step="install")).judged
    assert failure_record(RUN, evidence("error TS2554: Expected 1 arguments, but got 2.", failed_step="deploy")).judged


def test_a_log_that_ends_before_the_reason_has_no_signature() -> None:
    assert (
        failure_record(RUN, evidence("[cmd] deploy\n[error] deploy failed\n", failed_step="deploy")).signature is None
    )


def test_record_of_unreadable_evidence_has_only_eval_and_step() -> None:
    eval = Eval(id="e9", category="a", name="9", failed_step="tests")
    record = failure_record(RUN, UnreadableEvidence(eval=eval, reason="gone"))
    assert (record.eval, record.step, record.signature, record.task, record.judged) == (
        "a/9",
        "tests",
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("log", "error", "threshold", "found", "close"),
    [
        pytest.param("right: failed 0.75: no", None, 0.8, (0.75, 0.8), True, id="log and the run's threshold"),
        pytest.param("right: failed 0.2", None, 0.8, (0.2, 0.8), False, id="far below"),
        pytest.param("right: failed 0.75", None, None, None, None, id="no threshold"),
        pytest.param("other: failed 0.75", None, 0.8, None, None, id="another step"),
        pytest.param("right: failed 3", None, 0.8, None, None, id="not below the threshold"),
        pytest.param("", "too vague (score 0.6, threshold 0.8)", None, (0.6, 0.8), False, id="both in the error"),
        pytest.param("", f"score {'9' * 400}, threshold 1", None, None, None, id="a number of hostile length"),
    ],
)
def test_failed_score_is_read_with_its_threshold(
    log: str, error: str | None, threshold: float | None, found: tuple[float, float] | None, close: bool | None
) -> None:
    evidence = Evidence(
        eval=Eval(id="e", category="c", name="n", failed_step="right"),
        steps=(Step(name="right", status="failed", error=error),),
        documents=(Document(role="log", path=SCORES_LOG, text=log),),
    )
    scored = failed_score(evidence, threshold)
    assert scored == (FailedScore(score=found[0], threshold=found[1]) if found else None)
    assert (scored.close if scored else None) == close

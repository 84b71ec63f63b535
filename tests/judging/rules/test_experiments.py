"""Rules about trials of experiments: who is at fault if a target gives no answer or a scorer fails it."""

import json

import pytest

from evalscribe.judging.quotations import verify_citation
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import Document, Evidence, PackedEvidence
from evalscribe.model.finding import Failure, Verdict
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import Eval, EvalStatus, Step

TRACEBACK = (
    'Traceback (most recent call last):\n  File "agents/support.py", line 4, in answer\n    raise ValueError("no")'
)


def failed_trial(step: str, said: str, *log: Document, status: EvalStatus = "failed") -> Evidence:
    record = Record(
        run_id="r",
        eval=Eval(id="e", category="", name="k", status=status, failed_step=step, reason=said),
        steps=(Step(name=step, status="failed", error=said),),
        documents=(
            Document(role="task", path="input.txt", text="Where is my order?"),
            Document(role="grader", path="equal.json", text='{\n  "scorer": "exact_match"\n}'),
            *log,
        ),
    )
    return evidence_of(record)


def unanswered(said: str) -> Evidence:
    log = (Document(role="log", path="error.log", text=said), Document(role="log", path="target.log", text=TRACEBACK))
    return failed_trial("target", said, *log, status="error")


def judged(evidence: Evidence) -> Verdict:
    verdict = RulesJudge().decide(Failure(evidence=evidence, packed=PackedEvidence(excerpts=())))
    assert [verify_citation(one, evidence).status for one in verdict.citations] == ["verified"] * len(verdict.citations)
    return verdict


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("ValueError: boom", "the target raised ValueError: boom"),
        ("ValueError: expected 512 rows", "the target raised ValueError: expected 512 rows"),
        ("no answer within 30 s", "the target did not answer in time: no answer within 30 s"),
        ("http://127.0.0.1:9/a answered 500", "the target failed: http://127.0.0.1:9/a answered 500"),
        ("exit code 3: no such order", "the target failed: exit code 3: no such order"),
        ("the model refused to answer", "the target gave no answer: the model refused to answer"),
    ],
)
def test_target_without_an_answer_is_an_uncertain_model_fault(said: str, why: str) -> None:
    verdict = judged(unanswered(said))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("MODEL_FAULT", "model", True)
    assert (verdict.why, verdict.error, verdict.rule) == (why, said, "target-gave-no-answer")


@pytest.mark.parametrize(
    "said",
    [
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "http://127.0.0.1:9/a: answered 503",
        "http://127.0.0.1:9/a answered 502",
        "RateLimitError: Error code: 429",
        "http://127.0.0.1:9/a: All connection attempts failed",
        "http://127.0.0.1:9/a: Server disconnected without sending a response.",
    ],
)
def test_unreachable_service_of_a_target_may_be_infrastructure(said: str) -> None:
    verdict = judged(unanswered(said))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("KNOWN_GAP", "infrastructure", True)


def test_end_of_the_traceback_is_quoted() -> None:
    verdict = judged(unanswered("ValueError: no"))
    ends = "\n".join(TRACEBACK.splitlines()[1:])
    assert [one.text for one in verdict.citations] == ["Where is my order?", "ValueError: no", ends]


def test_cause_omits_the_line_that_raised() -> None:
    verdict = judged(unanswered("ValueError: no (agents/support.py:4)"))
    assert (verdict.cause, verdict.why) == (
        "target-value-error-no",
        "the target raised ValueError: no (agents/support.py:4)",
    )


def test_output_and_expected_are_quoted_where_they_differ() -> None:
    texts = [json.dumps({"order": 1042, "at": "x", "status": word, "by": "y"}, indent=2) for word in ("lost", "sent")]
    documents = (
        Document(role="output", path="output.json", text=texts[0]),
        Document(role="expected", path="expected_output.json", text=texts[1]),
        Document(role="log", path="scores.log", text="equal: failed 0: output.status differs"),
    )
    assert [one.text for one in judged(failed_trial("equal", "output.status differs", *documents)).citations] == [
        "Where is my order?",
        '  "at": "x",\n  "status": "lost",\n  "by": "y"\n}',
        '  "at": "x",\n  "status": "sent",\n  "by": "y"\n}',
        "equal: failed 0: output.status differs",
    ]


def test_setup_error_is_a_harness_fault() -> None:
    log = Document(role="log", path="error.log", text="RuntimeError: sandbox is gone")
    verdict = judged(failed_trial("setup", "RuntimeError: sandbox is gone", log, status="error"))
    assert (verdict.classification, verdict.cause_kind) == ("OVERLY_STRICT", "harness")


def test_only_the_message_of_the_failed_scorer_is_quoted() -> None:
    lines = ("equal: failed 0 (mismatch): output is 1: not 2", "valid: failed 0 (invalid): the output is no JSON")
    verdict = judged(
        failed_trial("equal", "output is 1: not 2", Document(role="log", path="scores.log", text="\n".join(lines)))
    )
    assert (verdict.classification, verdict.uncertain, verdict.cause) == ("MODEL_FAULT", True, "fails-equal")
    assert (verdict.why, [one.text for one in verdict.citations]) == (
        "output is 1: not 2",
        ["Where is my order?", lines[0]],
    )

"""Rules about failures in which the model's work was never judged."""

import pytest

from support.rules_failure import decide, make_failure, pytest_log

REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused"


@pytest.mark.parametrize(
    "reason",
    [
        "error: AI_APICallError: No endpoints found for vendor/model.",
        "429 Too Many Requests",
        "The model is overloaded",
        "insufficient credits",
        "fetch failed",
        "model `x` not found",
    ],
)
def test_provider_error_is_infrastructure(reason: str) -> None:
    verdict = decide(make_failure(None, reason=reason))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("KNOWN_GAP", "infrastructure", False)
    assert verdict.fix is None


def test_missing_output_without_a_known_reason_is_uncertain() -> None:
    verdict = decide(make_failure(None, reason="it broke"))
    assert verdict.cause_kind == "infrastructure"
    assert verdict.uncertain
    assert verdict.confidence <= 0.5


def installing(error: str) -> str:
    return f"[cmd] pip install -r requirements.txt\nERROR: {error}\n[error] install: pip failed"


def test_package_index_timeout_is_infrastructure() -> None:
    log = installing("ReadTimeoutError: Read timed out. (read timeout=1.0)")
    verdict = decide(make_failure("install", log=log, output={"a.py": "x = 1\n"}))
    assert (verdict.classification, verdict.cause_kind) == ("KNOWN_GAP", "infrastructure")


def test_nonexistent_package_is_a_model_fault() -> None:
    log = installing("No matching distribution found for nosuch==1")
    verdict = decide(make_failure("install", log=log, output={"requirements.txt": "nosuch==1\n"}))
    assert verdict.classification == "MODEL_FAULT"


def test_grader_that_connects_to_a_wrong_port_is_a_harness_fault() -> None:
    tests = "".join(f"\n\ndef test_{name}(base):\n    assert get(base)\n" for name in "ab")
    grader = {"test_grader.py": 'def base(port):\n    return f"http://127.0.0.1:{port + 1}"\n' + tests}
    verdict = decide(
        make_failure(log=pytest_log(("test_a", REFUSED), ("test_b", REFUSED)), output={"a.py": "x = 1"}, grader=grader)
    )
    assert (verdict.classification, verdict.cause_kind, verdict.would_pass) == ("OVERLY_STRICT", "harness", True)
    assert [c.first for c in verdict.citations if c.role == "grader"] == [2]


def test_failed_assertion_beside_a_refused_connection_is_not_a_harness_fault() -> None:
    log = pytest_log(("test_a", REFUSED), ("test_b", "AssertionError: assert 1 == 2"))
    assert decide(make_failure(log=log, output={"a.py": "x = 1"})).cause_kind == "model"


def test_refused_deploy_connection_is_infrastructure_and_a_type_error_is_not() -> None:
    broken = "[cmd] deploy\nError: connect ECONNREFUSED 127.0.0.1:3210\n[error] types: deploy failed"
    fault = "[cmd] deploy\na.ts:1:1 - error TS2304: Cannot find name 'fetch failed'.\n[error] types: deploy failed"
    output = {"a.ts": "let a = b;\n"}
    verdicts = [decide(make_failure("types", log=log, output=output)) for log in (broken, fault)]
    assert [v.cause_kind for v in verdicts] == ["infrastructure", "model"]


def test_outage_text_thrown_by_the_output_is_a_model_fault() -> None:
    output = {"a.ts": "run();\nthrow new Error('fetch failed');\n"}
    log = pytest_log(("test_a", "Error: fetch failed"))
    verdict = decide(make_failure(log=log, output=output, expected={"a.ts": "run();\nreturn 1;\n"}))
    assert verdict.classification == "MODEL_FAULT"

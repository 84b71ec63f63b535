"""Labels in reports by people, and the evals to which they apply."""

import pytest

from evalscribe.reports import reading
from support.report_labels import AMBIGUOUS, GAP, MODEL, STRICT, read_labels


@pytest.mark.parametrize(
    ("label", "classification", "kind"),
    [
        ("OVERLY_STRICT (infrastructure)", STRICT, "infrastructure"),
        ("`OVERLY_STRICT` (harness)", STRICT, "harness"),
        ("**KNOWN_GAP (infra)**", GAP, "infrastructure"),
        ("OVERLY_STRICT (config bug)", STRICT, None),
        ("MODEL_FAULT (reclassified to resolved)", MODEL, None),
        ("HARNESS_FAILURE", STRICT, "harness"),
        ("TEST_FAILURE", STRICT, "grader"),
        ("TEST_FAILURE (harness)", STRICT, "harness"),
        ("GRADER_BUG", STRICT, "grader"),
        ("MODEL_ERROR", MODEL, "model"),
        ("TASK_UNCLEAR", AMBIGUOUS, "task"),
        ("INFRA_OUTAGE", None, "infrastructure"),
        ("FLAKY_RUN", None, None),
        ("ambiguous task", AMBIGUOUS, None),
        ("MODEL_FAULT (was KNOWN_GAP in the last report)", MODEL, None),
        ("not MODEL_FAULT", None, None),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        "### 1. 001-hello (000-basics) -- tests\n\n**Classification**: {}\n",
        "| Eval | Step | Classification |\n|---|---|---|\n| 000-basics/001-hello | tests | {} |\n",
        "### 000-basics/001-hello\n- **Failed step**: tests\n- **Classification**: {}\n",
    ],
)
def test_label_and_cause_kind_are_read_from_each_form(
    form: str, label: str, classification: str | None, kind: str | None
) -> None:
    (one,) = reading.read_report(form.format(label), "r.md").findings
    assert (one.eval, one.step, one.classification, one.cause_kind) == (
        "000-basics/001-hello",
        "tests",
        classification,
        kind,
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("## Cross-cutting patterns\n- **basics/001-hello** (MODEL_FAULT): again\n", id="patterns"),
        pytest.param("## Recommendations\n### basics/001-hello — MODEL_FAULT\n- clarify\n", id="recommendations"),
        pytest.param(
            "## Comparison with model-2\n| Eval | Classification |\n|---|---|\n| a/001-b | KNOWN_GAP |\n",
            id="comparison",
        ),
        pytest.param(
            "## Now passing\n- basics/001-hello: was MODEL_FAULT\n- style/002-loop — KNOWN_GAP\n", id="passing"
        ),
        pytest.param("## Previous failures\n- basics/001-hello: MODEL_FAULT\n", id="previous"),
        pytest.param("```\n### basics/001-hello — MODEL_FAULT\n- style/002-loop: KNOWN_GAP\n```\n", id="fence"),
        pytest.param("~~~~\nEval: a/001-b\nClassification: MODEL_FAULT\n", id="unterminated-fence"),
        pytest.param("    Eval: a/001-b\n    Classification: MODEL_FAULT\n", id="indented-code"),
        pytest.param("> ### basics/001-hello — MODEL_FAULT\n> - style/002-loop: KNOWN_GAP\n", id="quote"),
        pytest.param("| Label | Meaning |\n|---|---|\n| MODEL_FAULT | the model got it wrong |\n", id="legend"),
        pytest.param("| Classification | Count |\n|---|---|\n| MODEL_FAULT | 8 |\n", id="counts"),
        pytest.param("| Failed step | Count |\n|---|---|\n| tests | 8 |\n", id="steps"),
        pytest.param("We think that basics/001-hello is MODEL_FAULT and passes.\n", id="prose"),
        pytest.param("### Pagination — MODEL_FAULT everywhere\nSome text.\n", id="heading-without-eval"),
        pytest.param("- Model: `vendor/model-1`\n- Verdict: fine\n", id="model-name"),
        pytest.param("", id="empty"),
        pytest.param("\ufeff", id="byte-order-mark"),
    ],
)
def test_text_that_reports_no_failure_gives_no_finding(text: str) -> None:
    assert reading.read_report(text, "r.md").findings == ()


def test_label_in_reasoning_or_quotation_or_code_does_not_change_the_finding() -> None:
    text = """\
### 1. basics/001-hello — MODEL_FAULT
We first thought OVERLY_STRICT but the task is clear. Label it KNOWN_GAP? No.
> Classification: KNOWN_GAP
```
**Classification**: AMBIGUOUS_TASK
```
**Note**: the previous report (abc123) classified this as KNOWN_GAP.
- **style/002-loop** (KNOWN_GAP) fails in the same way
"""
    assert read_labels(text) == {"basics/001-hello": MODEL}


def test_label_that_is_only_in_a_code_block_is_ignored() -> None:
    text = "## Failures\n### basics/001-hello -- tests\n**Classification**:\n```\nKNOWN_GAP\n```\n"
    assert read_labels(text) == {"basics/001-hello": None}

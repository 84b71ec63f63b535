"""Fields of a report besides its labels; None where the report does not state them."""

from collections.abc import Callable

import pytest

from evalscribe.reports import reading

MakePage = Callable[..., tuple[str, str]]
"""Page and data."""

REPORT = """\
# Run Analysis: model-1

| | |
|---|---|
| **Run ID** | `jn7000000000000000000000000000aa` |
| Model | `vendor-model-1` (vendor) |
| Date | 2026-02-06 |
| Experiment | default (with_x) |
| Pass rate | 54/66 (81.8%) |
| Failed evals | 11 |

## Per-failure analysis

### 2. 001-hello (000-basics) -- tests (86%)

- **Error:** `boom` at line 3
- **Verdict:** OVERLY_STRICT (harness)
- **Reasoning:** The port is wrong.
  It always was.
- **Model output:**
  ```ts
  ask(port + 1);
  ```
- **Expected:** `ask(port)`
- **Action taken**:
  1. Read the port.
  2. Use it.

### 3. 002-loop (000-basics) -- lint

Code is fine.

```python
# Model (wrong):
for x in y: x = 1

# Expected:
for x in y: z = 1
```

## Cross-cutting patterns
- **Ports**: one failure (#2).

## Recommendations
### Eval improvements
- Read the port in `001-hello`.
### Lint/config changes
- None.
### No action needed
- 002-loop

## Actions taken
None so far.
"""


def test_all_fields_of_a_complete_report_are_read() -> None:
    read = reading.read_report(REPORT, "r.md")
    run = read.run
    assert (run.id, run.model, run.provider) == ("jn7000000000000000000000000000aa", "vendor-model-1", "vendor")
    assert (run.experiment, run.passed, run.total, run.failed) == ("default (with_x)", 54, 66, 11)
    one, two = read.findings
    assert (one.n, one.eval, one.category, one.step) == (2, "000-basics/001-hello", "000-basics", "tests")
    assert (one.classification, one.cause_kind) == ("OVERLY_STRICT", "harness")
    assert (one.error, one.reasoning) == ("`boom` at line 3", "The port is wrong.\nIt always was.")
    assert (one.output_snippet, one.expected_snippet) == ("ask(port + 1);", "ask(port)")
    assert (two.eval, two.step, two.classification) == ("000-basics/002-loop", "lint", None)
    assert (two.output_snippet, two.expected_snippet) == ("for x in y: x = 1", "for x in y: z = 1")
    assert [(p.name, p.evals) for p in read.patterns] == [("Ports", ("000-basics/001-hello",))]
    assert [(r.group, r.evals) for r in read.recommendations] == [
        ("eval", ("000-basics/001-hello",)),
        ("none", ("000-basics/002-loop",)),
    ]
    assert [(a.text, a.evals) for a in read.actions_taken] == [("Read the port.\nUse it.", ("000-basics/001-hello",))]


def test_action_repeated_in_the_list_of_actions_is_read_once() -> None:
    listed = (
        "- **Port**: `001-hello` reads it from the server\n- Warned in 001-hello and 002-loop\n- Bought a machine\n"
    )
    read = reading.read_report(REPORT.replace("None so far.", listed), "r.md")
    assert [(a.text.partition(" ")[0], a.evals) for a in read.actions_taken] == [
        ("Read", ("000-basics/001-hello",)),
        ("Warned", ("000-basics/002-loop",)),
        ("Bought", ()),
    ]


def test_fields_missing_in_a_report_are_none() -> None:
    read = reading.read_report("### basics/001-hello — MODEL_FAULT\n", "jn72t14a_2026-02-06.md")
    assert read.run.model_dump(exclude_none=True) == {}
    assert read.findings[0].model_dump(exclude_defaults=True) == {
        "eval": "basics/001-hello",
        "category": "basics",
        "classification": "MODEL_FAULT",
    }
    assert read.net_impact is read.usage is read.revision is None


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("**Model:** google/gemini-3  \n**Date:** x\n", "provider", "google"),
        ("- Model: `a/b`\n- Provider: `openrouter`\n", "provider", "openrouter"),
        ("- **Model**: gpt-5 (GPT-5 Codex)\n", "provider", None),
        ("# Run Analysis: claude-9\n", "model", "claude-9"),
        ("# Analysis of a bad day\n", "model", None),
        ("- Result: 12 of 40\n", "passed", 12),
        ("- Pass rate: 81 %\n", "passed", None),
        ("- Pass rate: 70/66\n", "passed", None),
        ("- Passed: 12\n- Total: 40\n", "total", 40),
        ("- Run status: `completed` in 11 s\n", "status", "completed"),
        ("---\nmodel: m-1\nrun: r1\n---\n", "model", "m-1"),
        ("| Experiment | Run 1 | Run 2 |\n|---|---|---|\n| x | 59/66 (89.4%) | 60/66 (90.9%) |\n", "passed", 59),
        ("> - Model: quoted-1\n", "model", None),
        ("```\n- Model: fenced-1\n```\n", "model", None),
    ],
)
def test_run_fields_are_read_from_each_form(text: str, field: str, value: object) -> None:
    assert getattr(reading.read_report(text, "r.md").run, field) == value


def test_fields_of_findings_are_not_those_of_the_run() -> None:
    text = "# R\n### basics/001-hello — MODEL_FAULT\n- **Model:** `x = 1`\n- **Result:** 3/5\n"
    read = reading.read_report(text, "r.md")
    assert (read.run.model, read.run.passed) == (None, None)
    assert read.findings[0].output_snippet == "x = 1"


def test_evalscribe_report_is_read_back(ours: MakePage) -> None:
    text, data = ours("c/001-a", "MODEL_FAULT", "OVERLY_STRICT", reviewer=("the grader is wrong",))
    read = reading.read_report(text, "run1aaaa_2026-01-02.md", data)
    (one,) = read.findings
    assert (read.run.id, read.revision, one.eval, one.classification) == (
        "run1aaaaaaaaaaaa",
        1,
        "c/001-a",
        "OVERLY_STRICT",
    )
    assert one.judge is not None
    assert one.judge.classification == "MODEL_FAULT"
    assert one.reviewer is not None
    assert (one.reviewer.label, one.reviewer.note) == ("OVERLY_STRICT", "the grader is wrong")

"""Layouts of reports that occurred only once, each in a few lines."""

import pytest

from evalscribe.reports import reading
from support.report_labels import GAP, MODEL, STRICT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "## Failures\n### 1. 003-a (deploy) - MODEL_FAULT\n### 2. 004-b (deploy) - KNOWN_GAP\n",
            [("003-a", "deploy", MODEL), ("004-b", "deploy", GAP)],
            id="steps-in-parentheses-are-no-categories",
        ),
        pytest.param(
            "### 1. 003-a (no_x) -- tests - MODEL_FAULT\n### 2. 004-b (with_x) -- lint - KNOWN_GAP\n",
            [("003-a", "tests", MODEL), ("004-b", "lint", GAP)],
            id="nor-are-experiments",
        ),
        pytest.param(
            "### 1. crons (basics) -- deploy\n**Label**: MODEL_FAULT\n"
            "### 2. joins (queries) -- tests\n**Label**: KNOWN_GAP\n",
            [("basics/crons", "deploy", MODEL), ("queries/joins", "tests", GAP)],
            id="plain-words",
        ),
        pytest.param(
            "### 1. fizzbuzz - MODEL_FAULT\n#### 1. error\nboom\n### 2. summary\n- **Step**: tests\n",
            [("fizzbuzz", None, MODEL)],
            id="a-plain-word-needs-a-label",
        ),
        pytest.param(
            "## Failures\n### 000-a (2 failures)\n#### 003-b (deploy) — MODEL_FAULT\n"
            "### 001-c: 1 failure\n#### 1. 009-d -- tests\n**Classification:** KNOWN_GAP\n",
            [("000-a/003-b", "deploy", MODEL), ("001-c/009-d", "tests", GAP)],
            id="counted-category-headings",
        ),
        pytest.param(
            "## Per failure\n**1. 003-a (000-c)** — deploy — MODEL_FAULT\n"
            "\nText.\n\n**2. 004-b (000-c)** — tests — KNOWN_GAP\n",
            [("000-c/003-a", "deploy", MODEL), ("000-c/004-b", "tests", GAP)],
            id="bold-lines-for-headings",
        ),
        pytest.param(
            "- 003-a | deploy | MODEL_FAULT | reason\n1. **004-b** (001-y) - tests - KNOWN_GAP: because, of that\n",
            [("003-a", "deploy", MODEL), ("001-y/004-b", "tests", GAP)],
            id="one-line-each",
        ),
        pytest.param(
            "- Eval: 003-a (000-c)\n- Failed step: deploy\n"
            "- Classification: MODEL_FAULT\n- Reasoning: first thought KNOWN_GAP.\n\n"
            "- Eval: 004-b (000-c)\n- Failed step: tests\n- Classification: KNOWN_GAP\n",
            [("000-c/003-a", "deploy", MODEL), ("000-c/004-b", "tests", GAP)],
            id="the-sub-agents-own-form",
        ),
        pytest.param(
            "### Group A: ports (2 evals) — MODEL_FAULT\nEvals: 016-x, 017-y\n### Group B\n"
            "- **Evals:** `000-c/003-b`\n- **Classification:** OVERLY_STRICT\n",
            [("016-x", None, MODEL), ("017-y", None, MODEL), ("000-c/003-b", None, STRICT)],
            id="groups",
        ),
        pytest.param(
            "| # | Eval | Category | Step | Verdict |\n|--|--|--|--|--|\n"
            "| 1 | 003-a | 000-c | deploy | 🔴 MODEL_FAULT |\n"
            "| 2 | 004-b | 001-y | tests | 🟡 KNOWN_GAP |\n| 3 | 005-z | 001-y | - | PASS |\n",
            [("000-c/003-a", "deploy", MODEL), ("001-y/004-b", "tests", GAP)],
            id="category-column",
        ),
        pytest.param(
            "## Still failing\n- a/003-c: MODEL_FAULT\n## Fixed since the last run\n- a/004-c: KNOWN_GAP\n"
            "## New failures\n| Eval | Label |\n|-|-|\n| a/005-d | OVERLY_STRICT |\n",
            [("a/003-c", None, MODEL), ("a/005-d", None, STRICT)],
            id="still-and-new-but-not-fixed",
        ),
        pytest.param(
            "## Run 1\n- a/001-x: MODEL_FAULT\n- a/002-x: KNOWN_GAP\n"
            "## Run 2\n- a/001-x: OVERLY_STRICT\n- a/003-x: KNOWN_GAP\n",
            [("a/001-x", None, MODEL), ("a/002-x", None, GAP), ("a/003-x", None, GAP)],
            id="two-runs-the-first-counts",
        ),
        pytest.param(
            "<details>\n<summary>a/003-c — MODEL_FAULT</summary>\n\n- Failed step: tests\n\n</details>\n",
            [("a/003-c", "tests", MODEL)],
            id="details",
        ),
        pytest.param(
            "| Eval | Trial | Classification |\n|-|-|-|\n"
            "| a/003-c#1 | 1 | MODEL_FAULT |\n| a/003-c#2 | 2 | KNOWN_GAP |\n",
            [("a/003-c#1", None, MODEL), ("a/003-c#2", None, GAP)],
            id="trials",
        ),
        pytest.param(
            "### a/003-c\n**Label**: MODEL_FAULT / OVERLY_STRICT\n"
            "### a/004-c\n**Label**: Originally MODEL_FAULT, now KNOWN_GAP\n"
            "### a/005-c\n**Label**: isn't MODEL_FAULT but OVERLY_STRICT\n",
            [("a/003-c", None, MODEL), ("a/004-c", None, GAP), ("a/005-c", None, STRICT)],
            id="two-labels",
        ),
    ],
)
def test_every_layout_is_read(text: str, expected: list[tuple[str, str | None, str]]) -> None:
    assert [(one.eval, one.step, one.classification) for one in reading.read_report(text, "r.md").findings] == expected

"""Reports by people, each author in a style of their own: which failures they tell of, and which labels they give."""

import pytest

from evalscribe import recall

MODEL, STRICT, AMBIGUOUS, GAP = "MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"
THREE = {"basics/001-hello": MODEL, "style/002-loop": STRICT, "types/004-ids": GAP}

TABLE_ONLY = """\
# Run of model-1
| Why | Verdict | Eval | Step |
|---|:-:|---|---|
| no args | `MODEL_FAULT` | basics/001-hello | tests |
| lint | **OVERLY_STRICT** | `style/002-loop` | lint |
| documented | Known gap | [types/004-ids](https://example.test/e3) | types |
| **Total** | | 3 | |
"""

TABLE_WITH_PASSED_ROWS = """\
## Results
| Eval | Status | Classification |
|---|---|---|
| basics/001-hello | ❌ | MODEL_FAULT |
| basics/002-fine | ✅ | - |
| style/002-loop | ❌ | OVERLY_STRICT |
| types/004-ids | ❌ | KNOWN_GAP |
| types/005-good | ✅ | |
"""

TABLE_BY_LABEL = """\
| Classification | Count | Evals |
|---|---|---|
| MODEL_FAULT | 1 | basics/001-hello |
| OVERLY_STRICT | 1 | `style/002-loop` |
| KNOWN_GAP | 1 | types/004-ids |
| AMBIGUOUS_TASK | 0 | - |
"""

TABLE_WITH_EARLIER_LABELS = """\
| Eval | Previous classification | Classification |
|---|---|---|
| basics/001-hello | KNOWN_GAP | MODEL_FAULT |
| style/002-loop | MODEL_FAULT | OVERLY_STRICT |
| types/004-ids | - | KNOWN_GAP |
"""

BULLETS = """\
# Failures
- **basics/001-hello**: MODEL_FAULT - left out the empty args
- **style/002-loop** (OVERLY_STRICT) — only `PLW2901` fails
* `types/004-ids` - KNOWN_GAP, documented
"""

LABEL_FIRST = """\
# What failed
- MODEL_FAULT: basics/001-hello — args
- **OVERLY_STRICT** `style/002-loop`: lint
- [KNOWN_GAP] types/004-ids
"""

LABEL_SECTIONS = """\
# Run
## Model faults
- `basics/001-hello`
## Overly strict
- **style/002-loop**: all tests pass
## Known gaps (no action taken)
1 failure:
- types/004-ids
## No known gap
- basics/009-elsewhere
"""

LABEL_LISTS = """\
## Failures
- MODEL_FAULT
  - basics/001-hello: args
- OVERLY_STRICT (1)
  - style/002-loop
- **KNOWN_GAP**
  - `types/004-ids`
"""

EMOJI_HEADINGS = """\
# 🔥 Report
## 💥 Failures
### ❌ 1. basics/001-hello · MODEL_FAULT
Left out args.
### 🟡 style/002-loop → OVERLY_STRICT
### 📚 types/004-ids — ✨ KNOWN_GAP ✨
"""

BLOCKS = """\
Eval: basics/001-hello
Step: tests
Classification: MODEL_FAULT
Reason: args

Eval: style/002-loop
Classification: OVERLY_STRICT

**Eval:** `types/004-ids`
**Verdict:** `KNOWN_GAP`
"""

BLOCKS_LABEL_FIRST = """\
Classification: MODEL_FAULT
Eval: basics/001-hello

Classification: OVERLY_STRICT
Eval: style/002-loop

Classification: KNOWN_GAP
Eval: types/004-ids
"""

NUMBERED = """\
1) basics/001-hello — MODEL_FAULT
2) style/002-loop — OVERLY_STRICT
3) types/004-ids — KNOWN_GAP
"""

OTHER_LANGUAGE = """\
# Auswertung
Drei Aufgaben sind fehlgeschlagen; keine davon ist neu.
## Einzelne Fehler
### 1. basics/001-hello
**Schritt:** tests
**Einschätzung:** MODEL_FAULT
Zuerst dachten wir an AMBIGUOUS_TASK, aber die Aufgabe ist klar.
### 2. style/002-loop
**Klassifikation**: OVERLY_STRICT
### 3. types/004-ids
- **Urteil** — KNOWN_GAP
"""

COMMENTS = """\
# Failures
<!-- ### 0. basics/000-hidden — MODEL_FAULT -->
### basics/001-hello <!-- was KNOWN_GAP --> — MODEL_FAULT
<!--
| Eval | Classification |
|---|---|
| basics/000-hidden | KNOWN_GAP |
-->
### style/002-loop — OVERLY_STRICT
### types/004-ids — KNOWN_GAP
"""

NESTED = """\
## Failures
- 000-basics
  - 001-hello
    - Step: tests
    - Classification: MODEL_FAULT
      - we first thought KNOWN_GAP
- 001-style
  - 002-loop
    - Label: OVERLY_STRICT
- 002-types
  - 004-ids
    - Verdict: KNOWN_GAP
"""

FIELDS_IN_TABLES = """\
## Failures
### basics/001-hello
| Field | Value |
|---|---|
| Failed step | tests |
| Classification | MODEL_FAULT |
### style/002-loop
| Classification | OVERLY_STRICT |
|---|---|
| Failed step | lint |
### types/004-ids
| | |
|---|---|
| **Verdict** | `KNOWN_GAP` |
"""

SUBHEADINGS = """\
# Failures
## basics/001-hello
### Classification
MODEL_FAULT
### Reasoning
It looked like KNOWN_GAP.
## style/002-loop
### Verdict
OVERLY_STRICT
## types/004-ids
### Error
x
### Label
`KNOWN_GAP`
"""

CATEGORY_HEADINGS = """\
## Failures
### 000-basics
- 001-hello: MODEL_FAULT
### 001-style
#### 002-loop — OVERLY_STRICT
### 002-types
| Eval | Classification |
|---|---|
| 004-ids | KNOWN_GAP |
"""

CATEGORY_IN_PARENTHESES = """\
## Per-failure analysis
### 1. 001-hello (basics) -- tests (0%)

**Classification**: MODEL_FAULT

### 2. 002-loop (style) -- lint

**Classification**: OVERLY_STRICT

### 3. 004-ids (types) -- types

**Classification**: KNOWN_GAP

## Failures by category
- basics/001-hello, style/002-loop, types/004-ids
"""

CORRECTED = """\
# Failures
- basics/001-hello: ~~KNOWN_GAP~~ MODEL_FAULT
- style/002-loop: MODEL_FAULT → OVERLY_STRICT
### types/004-ids
**Previous label:** MODEL_FAULT
**Classification**: first MODEL_FAULT; now KNOWN_GAP
"""

CRLF = NUMBERED.replace("\n", "\r\n")

STATEMENT = """\
# Run
All 2 failures are KNOWN_GAP (infrastructure).

| Eval | Step | Error |
|---|---|---|
| basics/001-hello | install | timed out |
| style/002-loop | install | timed out |
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TABLE_ONLY, id="table-only"),
        pytest.param(TABLE_WITH_PASSED_ROWS, id="table-with-passed-rows"),
        pytest.param(TABLE_BY_LABEL, id="table-by-label"),
        pytest.param(TABLE_WITH_EARLIER_LABELS, id="table-with-earlier-labels"),
        pytest.param(BULLETS, id="bullets"),
        pytest.param(LABEL_FIRST, id="label-first"),
        pytest.param(LABEL_SECTIONS, id="label-sections"),
        pytest.param(LABEL_LISTS, id="label-lists"),
        pytest.param(EMOJI_HEADINGS, id="emoji-headings"),
        pytest.param(BLOCKS, id="blocks"),
        pytest.param(BLOCKS_LABEL_FIRST, id="blocks-label-first"),
        pytest.param(NUMBERED, id="numbered"),
        pytest.param(OTHER_LANGUAGE, id="other-language"),
        pytest.param(COMMENTS, id="comments"),
        pytest.param(FIELDS_IN_TABLES, id="fields-in-tables"),
        pytest.param(SUBHEADINGS, id="subheadings"),
        pytest.param(CATEGORY_IN_PARENTHESES, id="category-in-parentheses"),
        pytest.param(CORRECTED, id="corrected"),
        pytest.param(CRLF, id="crlf"),
    ],
)
def test_every_style_tells_the_same_three_failures(text: str) -> None:
    assert labels(text) == THREE


@pytest.mark.parametrize("text", [pytest.param(NESTED, id="lists"), pytest.param(CATEGORY_HEADINGS, id="headings")])
def test_a_list_or_heading_that_only_names_a_category_gives_it_to_what_is_in_it(text: str) -> None:
    assert labels(text) == {"000-basics/001-hello": MODEL, "001-style/002-loop": STRICT, "002-types/004-ids": GAP}


def labels(text: str) -> dict[str, str | None]:
    found = recall.read(text, "r.md").findings
    told = {one.eval: one.classification for one in found}
    assert len(told) == len(found)
    return told


def test_one_statement_holds_for_the_evals_that_are_named() -> None:
    found = recall.read(STATEMENT, "r.md").findings
    assert [(one.eval, one.classification, one.cause_kind, one.step) for one in found] == [
        ("basics/001-hello", GAP, "infrastructure", "install"),
        ("style/002-loop", GAP, "infrastructure", "install"),
    ]


def test_one_statement_makes_no_evals_of_categories() -> None:
    text = """\
## Failures
### Global failure (applies to all 9 failed evals)
- Classification: KNOWN_GAP
### Affected evals
- `000-basics` (4/4)
- `001-style` (5/5)
"""
    assert labels(text) == {}
    assert labels(text + "- `000-basics/001-hello`\n") == {"000-basics/001-hello": GAP}


@pytest.mark.parametrize(
    ("label", "classification", "kind"),
    [
        ("OVERLY_STRICT (infrastructure)", STRICT, "infrastructure"),
        ("`OVERLY_STRICT` (harness)", STRICT, "harness"),
        ("**KNOWN_GAP (infra)**", GAP, "infrastructure"),
        ("OVERLY_STRICT (config bug)", STRICT, None),
        ("MODEL_FAULT (reclassified to resolved)", MODEL, None),
        ("HARNESS_FAILURE", None, "harness"),
        ("TEST_FAILURE", None, None),
        ("TEST_FAILURE (harness)", None, "harness"),
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
def test_labels_and_their_kinds(form: str, label: str, classification: str | None, kind: str | None) -> None:
    (one,) = recall.read(form.format(label), "r.md").findings
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
def test_what_is_no_failure_of_the_report_is_no_finding(text: str) -> None:
    assert recall.read(text, "r.md").findings == ()


def test_a_label_in_the_reasoning_or_in_a_fence_flips_nothing() -> None:
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
    assert labels(text) == {"basics/001-hello": MODEL}


def test_a_classification_that_only_a_fence_gives_is_none() -> None:
    text = "## Failures\n### basics/001-hello -- tests\n**Classification**:\n```\nKNOWN_GAP\n```\n"
    assert labels(text) == {"basics/001-hello": None}


def test_lint_rules_and_files_in_lists_are_no_evals() -> None:
    text = """\
## Failures
### 1. 001-hello (000-basics) — MODEL_FAULT
## Lint failures
- `no-misused-promises`: KNOWN_GAP in many evals
- `src/index.ts` — OVERLY_STRICT
- 002-loop — OVERLY_STRICT
"""
    assert labels(text) == {"000-basics/001-hello": MODEL, "002-loop": STRICT}


def test_a_bare_name_is_short_for_the_one_path_that_ends_so() -> None:
    text = """\
## Failures
### 1. basics/001-hello
- Failed step: tests
## Table
| Eval | Classification |
|---|---|
| 001-hello | MODEL_FAULT |
"""
    assert labels(text) == {"basics/001-hello": MODEL}


def test_a_bare_name_of_two_categories_is_neither() -> None:
    text = """\
### 1. basics/001-hello — MODEL_FAULT
### 2. style/001-hello — KNOWN_GAP
## Model faults
- 001-hello
"""
    assert labels(text) == {"basics/001-hello": MODEL, "style/001-hello": GAP}


def test_a_heading_for_several_evals_is_one_group() -> None:
    one, two = recall.read("### 4. basics/001-a, basics/002-b — KNOWN_GAP\n- **Error:** boom\n", "r.md").findings
    assert (one.eval, two.eval) == ("basics/001-a", "basics/002-b")
    assert one.group == two.group is not None
    assert (one.n, two.error, two.classification) == (4, "boom", GAP)


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
def test_more_styles(text: str, expected: list[tuple[str, str | None, str]]) -> None:
    assert [(one.eval, one.step, one.classification) for one in recall.read(text, "r.md").findings] == expected

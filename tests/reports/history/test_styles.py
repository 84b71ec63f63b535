"""Failures and labels read from reports by people, each written in its author's style."""

import pytest

from evalscribe.reports import reading
from support.report_labels import GAP, MODEL, STRICT, read_labels

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
def test_same_three_failures_are_read_from_every_style(text: str) -> None:
    assert read_labels(text) == THREE


@pytest.mark.parametrize("text", [pytest.param(NESTED, id="lists"), pytest.param(CATEGORY_HEADINGS, id="headings")])
def test_category_in_a_list_or_heading_applies_to_the_evals_below_it(text: str) -> None:
    assert read_labels(text) == {"000-basics/001-hello": MODEL, "001-style/002-loop": STRICT, "002-types/004-ids": GAP}


def test_one_statement_labels_all_named_evals() -> None:
    findings = reading.read_report(STATEMENT, "r.md").findings
    assert [(one.eval, one.classification, one.cause_kind, one.step) for one in findings] == [
        ("basics/001-hello", GAP, "infrastructure", "install"),
        ("style/002-loop", GAP, "infrastructure", "install"),
    ]


def test_categories_under_one_statement_are_not_evals() -> None:
    text = """\
## Failures
### Global failure (applies to all 9 failed evals)
- Classification: KNOWN_GAP
### Affected evals
- `000-basics` (4/4)
- `001-style` (5/5)
"""
    assert read_labels(text) == {}
    assert read_labels(text + "- `000-basics/001-hello`\n") == {"000-basics/001-hello": GAP}

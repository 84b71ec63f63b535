"""Recognition of eval names in reports by people."""

from evalscribe.reports import reading
from support.report_labels import GAP, MODEL, STRICT, read_labels


def test_lint_rules_and_files_in_lists_are_not_evals() -> None:
    text = """\
## Failures
### 1. 001-hello (000-basics) — MODEL_FAULT
## Lint failures
- `no-misused-promises`: KNOWN_GAP in many evals
- `src/index.ts` — OVERLY_STRICT
- 002-loop — OVERLY_STRICT
"""
    assert read_labels(text) == {"000-basics/001-hello": MODEL, "002-loop": STRICT}


def test_bare_name_refers_to_the_only_path_that_ends_with_it() -> None:
    text = """\
## Failures
### 1. basics/001-hello
- Failed step: tests
## Table
| Eval | Classification |
|---|---|
| 001-hello | MODEL_FAULT |
"""
    assert read_labels(text) == {"basics/001-hello": MODEL}


def test_bare_name_in_two_categories_is_ignored() -> None:
    text = """\
### 1. basics/001-hello — MODEL_FAULT
### 2. style/001-hello — KNOWN_GAP
## Model faults
- 001-hello
"""
    assert read_labels(text) == {"basics/001-hello": MODEL, "style/001-hello": GAP}


def test_heading_for_several_evals_is_one_group() -> None:
    one, two = reading.read_report(
        "### 4. basics/001-a, basics/002-b — KNOWN_GAP\n- **Error:** boom\n", "r.md"
    ).findings
    assert (one.eval, two.eval) == ("basics/001-a", "basics/002-b")
    assert one.group == two.group is not None
    assert (one.n, two.error, two.classification) == (4, "boom", GAP)

"""Rules about known gaps: notes that match the failure, and notes that do not."""

import pytest

from evalscribe.model.finding import Failure
from support.rules_failure import decide, lint_log, make_failure, pytest_log

ANY = "loop.py:3:9: ANN401 Dynamically typed expressions (typing.Any) are disallowed in `default`"
SLIP = "loop.py:3:9: F821 Undefined name `itmes`"


def lint(gaps: str | None, *errors: str) -> Failure:
    code = "import os\n\nitems = [1]\n"
    return make_failure("lint", log=lint_log(*errors), output={"loop.py": code}, expected={"loop.py": code}, gaps=gaps)


def test_note_that_names_the_lint_rule_is_a_known_gap() -> None:
    verdict = decide(lint("a, b:\n\n- ANN401 fires on every loader", ANY))
    assert (verdict.classification, verdict.rule) == ("KNOWN_GAP", "gap-names-the-lint")
    assert verdict.cause == "ann401"
    assert ("known_gaps", 3) in {(c.role, c.first) for c in verdict.citations}


@pytest.mark.parametrize("gaps", [None, "a, b:\n", "a:\n- None for now", "a:\n- B006 fires on every default"])
def test_unrelated_notes_and_headings_are_no_known_gap(gaps: str | None) -> None:
    assert decide(lint(gaps, SLIP)).classification == "MODEL_FAULT"


def test_note_may_name_the_difference_if_the_log_has_no_reason() -> None:
    parts = {
        "log": "[error] types: failed",
        "output": {"a.ts": "import { x } from 'lib';\nstore(new TextEncoder().encode(text));\n"},
        "expected": {"a.ts": "import { x } from 'lib';\nstore(new Blob([text]));\n"},
    }
    matching = decide(make_failure("types", gaps="a:\n- Uses TextEncoder instead of Blob.", **parts))  # type: ignore[arg-type]
    silent = decide(make_failure("types", gaps="a:\n- Forgets `await`.", **parts))  # type: ignore[arg-type]
    assert (matching.classification, silent.classification) == ("KNOWN_GAP", "MODEL_FAULT")
    assert any(c.role == "output" and "TextEncoder" in c.text for c in matching.citations)


def test_misspelled_name_in_a_note_matches_the_reference() -> None:
    case = make_failure(
        log=pytest_log(("test_prefix", "AssertionError: assert 404 == 200"), passed=5),
        output={"http.ts": 'route({ path: "/a/*" });\nserve(1);\n'},
        expected={"http.ts": 'route({ pathPrefix: "/a/" });\nserve(1);\n'},
        gaps="http:\n- Uses a star instead of prefixPath",
    )
    verdict = decide(case)
    assert (verdict.rule, verdict.classification, verdict.uncertain) == (
        "gap-names-what-is-missing",
        "KNOWN_GAP",
        False,
    )


def test_note_that_matches_only_in_words_is_an_uncertain_known_gap() -> None:
    case = make_failure(
        "types",
        log="[error] types: failed",
        output={"a.ts": "export const storeFile = mutation({ run });\nlet a = 1;\n"},
        expected={"a.ts": "export const keep = internal({ run });\nlet a = 1;\n"},
        gaps="a:\n- Trying to store a file from a mutation",
    )
    verdict = decide(case)
    assert (verdict.classification, verdict.uncertain) == ("KNOWN_GAP", True)
    assert verdict.rule == "gap-may-mean-what-differs"


def test_name_given_by_the_task_does_not_match_a_note() -> None:
    log = "[cmd] mypy a.py\na.py:1: error: Argument 1 to `save_row` is wrong  [arg-type]\n[error] types: mypy failed"
    parts = {"log": log, "output": {"a.py": "save_row(1)\n"}, "gaps": "a:\n- Struggles with `save_row`"}
    named_by_task = decide(make_failure("types", task="Write `save_row`.", **parts))  # type: ignore[arg-type]
    own = decide(make_failure("types", task="Save rows.", **parts))  # type: ignore[arg-type]
    assert (named_by_task.classification, own.classification) == ("MODEL_FAULT", "KNOWN_GAP")


def test_note_about_a_lint_failure_must_match_the_complaint() -> None:
    complaint = "loop.py:3:9: B023 Function definition does not bind loop variable `item`"
    assert decide(lint("a:\n- The lint wants `item` bound", complaint)).rule == "gap-names-the-lint"
    assert decide(lint("a:\n- Forgets to close `item`", complaint)).classification == "MODEL_FAULT"


def test_wrong_import_takes_precedence_over_a_note_on_a_missing_name() -> None:
    parts = {
        "log": "[error] types: failed",
        "expected": {"a.ts": "import { page } from 'lib/pages';\nrun(page, splitAt);\n"},
        "gaps": "a:\n- Does not include `splitAt`",
    }
    missing = decide(make_failure("types", output={"a.ts": "import { page } from 'lib/pages';\nrun(page);\n"}, **parts))  # type: ignore[arg-type]
    elsewhere = decide(make_failure("types", output={"a.ts": "import { page } from './pages';\nrun(page);\n"}, **parts))  # type: ignore[arg-type]
    assert (missing.rule, elsewhere.rule) == ("gap-names-what-is-missing", "cannot-load")


@pytest.mark.parametrize(("test", "label"), [("test_cursor_is_there", "KNOWN_GAP"), ("test_total", "MODEL_FAULT")])
def test_note_must_match_the_failed_test(test: str, label: str) -> None:
    case = make_failure(
        log=pytest_log((test, "AssertionError: assert 1 == 2"), passed=3),
        output={"a.ts": "export const page = { rows };\nrun(page);\n"},
        expected={"a.ts": "export const page = { rows, splitCursor };\nrun(page);\n"},
        gaps="pages:\n- Forgets `splitCursor`",
    )
    assert decide(case).classification == label

"""Rules about the task: names that it requires, and ranges that it leaves open."""

import pytest

from evalscribe.model.evidence import Document
from support.rules_failure import decide, make_failure, pytest_log

CLOSED = "def between(events, start, end):\n    return [e for e in events if start <= e <= end]\n"
OPEN = CLOSED.replace("<= end", "< end")
SHORT = ("test_day", "AssertionError: assert ['open', 'lunch'] == ['open', 'lunch', 'close']")


def test_unstated_end_of_a_range_is_an_ambiguous_task() -> None:
    case = make_failure(
        log=pytest_log(SHORT, passed=2),
        output={"a.py": OPEN},
        expected={"a.py": CLOSED},
        task="Return the events between `start` and `end`.",
    )
    verdict = decide(case)
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("AMBIGUOUS_TASK", "task", True)
    assert {c.role for c in verdict.citations} >= {"task", "output", "log"}


@pytest.mark.parametrize(
    "task",
    [
        "Return the events between `start` and `end`, both included. Use `>=`.",
        "Return the events from `start` until `end`, inclusive.",
        "Return the events.",
    ],
)
def test_stated_or_absent_range_is_no_ambiguous_task(task: str) -> None:
    case = make_failure(log=pytest_log(SHORT, passed=2), output={"a.py": OPEN}, expected={"a.py": CLOSED}, task=task)
    assert decide(case).classification == "MODEL_FAULT"


def test_missing_name_that_the_task_requires_is_a_model_fault() -> None:
    case = make_failure(
        log=pytest_log(("test_url", "AttributeError: module 'a' has no attribute 'get_site_url'")),
        output={"a.py": "def site_url():\n    return 1\n"},
        expected={"a.py": "def get_site_url():\n    return 1\n"},
        task="Write `a.py`.\nIt has a function `get_site_url`.",
    )
    verdict = decide(case)
    assert (verdict.classification, verdict.rule, verdict.cause) == (
        "MODEL_FAULT",
        "asked-for-by-name",
        "missing-get-site-url",
    )
    assert ("task", 2) in {(c.role, c.first) for c in verdict.citations}


def test_required_name_is_read_from_any_task_document() -> None:
    case = make_failure(
        log=pytest_log(("test_url", "AttributeError: module 'a' has no attribute 'get_site_url'")),
        output={"a.py": "x = 1\n"},
        expected={"a.py": "def get_site_url():\n    return 1\n"},
        task="Read the notes.",
    )
    more = Document(role="task", path="NOTES.md", text="It has\na function `get_site_url`.")
    evidence = case.evidence.model_copy(update={"documents": (*case.evidence.documents, more)})
    verdict = decide(case.model_copy(update={"evidence": evidence}))
    assert verdict.cause == "missing-get-site-url"
    assert ("NOTES.md", 2) in {(c.path, c.first) for c in verdict.citations}

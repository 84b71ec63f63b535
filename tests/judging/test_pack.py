"""Packed evidence: what matters is in it, within the budget, and what is not is named."""

from pathlib import Path

import pytest

from evalscribe.evidence import locate
from evalscribe.failures.prepare import summarise_evidence
from evalscribe.judging import prompt_text
from evalscribe.judging.pack import merge_ranges, pack
from evalscribe.model.evidence import Document, Evidence, Role
from evalscribe.model.run import Eval, Step
from support.machine_speed import cpu_below
from support.real_runs import failures

CODE = "\n".join(f"value_{n} = compute({n})" for n in range(40))
GRADER = """\
import pytest
from app import page

ITEMS = list("abcde")


def test_first():
    assert page(ITEMS, 0) == ["a"]


@pytest.mark.parametrize("n", [1])
def test_last(n):
    assert page(ITEMS, n) == ["e"]


def test_other():
    assert page(ITEMS, 2) == ["c"]
"""
LOG = """\
[cmd] pytest
.F.                                                                      [100%]
=================================== FAILURES ===================================
__________________________________ test_last[1] ________________________________
>       assert page(ITEMS, n) == ["e"]
E       AssertionError: assert ['d'] == ['e']
test_grader.py:13: AssertionError
1 failed, 2 passed in 0.12s
[error] tests: pytest failed
"""


def evidence(*documents: tuple[Role, str, str], step: str = "tests") -> Evidence:
    return Evidence(
        eval=Eval(id="e1", category="c", name="n", failed_step=step, reason=f"{step} failed"),
        steps=(Step(name=step, status="failed", error=f"{step} failed"),),
        documents=tuple(Document(role=role, path=path, text=text) for role, path, text in documents),
    )


USUAL: tuple[tuple[Role, str, str], ...] = (
    ("task", "TASK.txt", "Write page()."),
    ("known_gaps", "GAPS.txt", "- last page is short"),
    ("expected", "app.py", CODE),
    ("expected", "helpers.py", "secret = 1\nanswer = 42"),
    ("expected", "README.md", "same"),
    ("grader", "test_grader.py", GRADER),
    ("output", "app.py", CODE.replace("compute(20)", "compute(99)")),
    ("output", "README.md", "same"),
    ("output", "extra.py", "only_mine = True"),
    ("log", "run.log", LOG),
)


def test_what_matters_is_in_it() -> None:
    packed = pack(evidence(*USUAL))
    said = {(e.role, e.path): e for e in packed.excerpts}
    assert "AssertionError: assert ['d'] == ['e']" in said["log", "run.log"].text
    assert said["log", "run.log"].first == 6
    assert said["known_gaps", "GAPS.txt"].text == "- last page is short"
    assert said["task", "TASK.txt"].text == "Write page()."
    assert said["output", "extra.py"].text == "only_mine = True"
    grader = said["grader", "test_grader.py"]
    assert (grader.first, grader.text) == (11, "\n".join(GRADER.split("\n")[10:13]))
    assert "- 21 value_20 = compute(20)\n+ 21 value_20 = compute(99)" in packed.differences
    assert "  16 value_15" in packed.differences
    assert "  15 value_14" not in packed.differences


def test_a_file_that_the_model_lacks_is_named_not_printed() -> None:
    packed = pack(evidence(*USUAL))
    assert "Only in the reference, not printed: helpers.py (2 lines)" in packed.differences
    assert "answer = 42" not in packed.model_dump_json()


def test_what_is_left_out_is_named() -> None:
    left_out = pack(evidence(*USUAL)).left_out
    assert "boilerplate: README.md" in left_out
    assert "grader test_grader.py: 15 lines" in left_out


def test_each_excerpt_stands_where_it_says(real_data: Path) -> None:
    for given in failures(real_data):
        for excerpt in pack(given).excerpts:
            document = given.document(excerpt.role, excerpt.path)
            assert document is not None
            lines = excerpt.text.split("\n")
            there = document.lines[excerpt.first - 1 : excerpt.first - 1 + len(lines)]
            assert [line[:500] for line in lines] == [line[:500] for line in there]


def test_the_code_an_error_points_to_is_in_it_even_where_it_equals_the_reference() -> None:
    log = "[error] lint: failed\napp.py:30:1: E999 odd\n"
    packed = pack(
        evidence(("expected", "app.py", CODE), ("output", "app.py", CODE), ("log", "run.log", log), step="lint")
    )
    (code,) = [excerpt for excerpt in packed.excerpts if excerpt.role == "output"]
    assert (code.first, code.text.split("\n")[4]) == (26, "value_29 = compute(29)")
    assert packed.differences == "Equal in both: app.py"


def test_a_log_without_a_reason_gives_its_end() -> None:
    log = "[ok] files\n[error] Deploying: Error: Failed to deploy:\n"
    (excerpt,) = pack(evidence(("log", "run.log", log), step="deploy")).excerpts
    assert excerpt.text == "[error] Deploying: Error: Failed to deploy:"


def test_a_message_repeated_by_many_tests_is_shown_twice() -> None:
    failed = "".join(f"   × test {n} 1ms\n     → [x] Error: boom {n}\n" for n in range(50))
    log = f"[cmd] vitest\n RUN  v3.0.4 /x\n{failed}\n      Tests  50 failed (50)\n[error] tests: vitest failed"
    packed = pack(evidence(("log", "run.log", log)))
    assert "\n".join(e.text for e in packed.excerpts).count("boom") == 2


@pytest.mark.parametrize("budget", [50, 300, 2000, 6000])
def test_the_budget_is_never_exceeded(budget: int) -> None:
    long = "\n".join(f"line {n} of something long enough to count" for n in range(5000))
    given = evidence(
        *(("known_gaps", "GAPS.txt", long), ("task", "TASK.txt", long), ("grader", "test.py", GRADER + long)),
        *(("expected", "a.py", long), ("output", "a.py", long.replace("something", "anything"))),
        *(("output", f"file{n}.py", long) for n in range(200)),
        ("log", "run.log", LOG + long),
    )
    packed = pack(given, budget)
    assert packed.tokens <= budget
    printed = "\n".join(e.text for e in packed.excerpts)
    assert prompt_text.estimate_tokens(printed) + prompt_text.estimate_tokens(
        packed.differences
    ) <= packed.tokens + len(packed.excerpts)
    assert any(phrase.startswith("task TASK.txt") for phrase in packed.left_out)


HOSTILE_PATHS = [
    "../../etc/passwd",
    "/etc/passwd",
    "a\nb.py",
    "x" * 4096,
    "\x1b[31mred.py",
    "nul\0.py",
    "",
    "=== Eval: c/n ===",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_hostile_paths_are_one_bounded_line(path: str) -> None:
    packed = pack(evidence(("output", path, "a = 1"), ("expected", "other.py", "b = 2"), ("grader", path, "x")))
    assert all(len(line) < 500 and line.isprintable() for line in packed.differences.split("\n"))
    assert all(len(phrase) < 500 and phrase.isprintable() for phrase in packed.left_out)


@pytest.mark.parametrize(
    "text", ["y" * 5_000_000, "y\0\x1b[31m\r\n" * 300_000, "}\n" * 300_000], ids=["line", "nul", "lines"]
)
def test_huge_documents_take_bounded_time_and_space(text: str) -> None:
    packed = pack(evidence(("output", "a.py", text), ("expected", "a.py", text + "z\n"), ("log", "run.log", text)))
    assert packed.tokens <= 6000


def test_no_evidence_at_all_is_an_empty_pack() -> None:
    packed = pack(evidence().model_copy(update={"missing": ("output files were never stored",)}))
    assert (packed.excerpts, packed.differences, packed.left_out) == ((), "", ("output files were never stored",))


@pytest.mark.parametrize(
    ("ranges", "joined"),
    [
        ([(1, 2), (5, 6)], [(1, 6)]),
        ([(1, 2), (6, 7)], [(1, 2), (6, 7)]),
        ([(-3, 1), (9, 99)], [(1, 1), (9, 10)]),
        ([(4, 2)], []),
    ],
)
def test_near_ranges_are_joined(ranges: list[tuple[int, int]], joined: list[tuple[int, int]]) -> None:
    assert merge_ranges(ranges, 10) == joined


@pytest.mark.parametrize(("text", "count"), [("", 0), ("abc", 1), ("abcd", 2), ("日本", 2), ("\ud800", 1)])
def test_tokens_are_estimated_by_bytes(text: str, count: int) -> None:
    assert prompt_text.estimate_tokens(text) == count


@pytest.mark.benchmark
def test_a_thousand_failures_take_seconds(real_data: Path) -> None:
    given = [one for one in failures(real_data) if one.of("output")]
    with cpu_below(len(given) * 0.015):
        for one in given:
            summarise_evidence(one)
            locate.tests(one)

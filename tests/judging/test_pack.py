"""Packed evidence holds the relevant lines within the budget and lists what is left out."""

import re
from pathlib import Path

import pytest

from evalscribe.evidence import locate
from evalscribe.failures.prepare import summarise_evidence
from evalscribe.judging import prompt_text
from evalscribe.judging.pack import grader_excerpts, merge_ranges, pack, prepare
from evalscribe.model.evidence import Document, Evidence, PackedEvidence, Role
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import Eval, Step
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from support import tool_output
from support.machine_speed import cpu_below
from support.real_runs import CURRENT, failures, payloads
from support.tool_output import CARGO, GO, JEST, MOCHA, NODE, PYTEST, TAP, VITEST

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


def lines_of(packed: PackedEvidence, path: str, role: Role | None = None) -> dict[int, str]:
    """Return the shown lines of a document by line number."""
    return {
        number: line
        for excerpt in packed.excerpts
        if excerpt.path == path and role in (None, excerpt.role)
        for number, line in enumerate(excerpt.text.split("\n"), excerpt.first)
    }


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


def test_pack_holds_errors_task_gaps_failed_test_and_differences() -> None:
    packed = pack(evidence(*USUAL))
    assert lines_of(packed, "run.log") == {
        6: "E       AssertionError: assert ['d'] == ['e']",
        8: "1 failed, 2 passed in 0.12s",
    }
    excerpts_by_document = {(e.role, e.path): e for e in packed.excerpts}
    assert excerpts_by_document["known_gaps", "GAPS.txt"].text == "- last page is short"
    assert excerpts_by_document["task", "TASK.txt"].text == "Write page()."
    assert excerpts_by_document["output", "extra.py"].text == "only_mine = True"
    grader = excerpts_by_document["grader", "test_grader.py"]
    assert (grader.first, grader.text) == (11, "\n".join(GRADER.split("\n")[10:13]))
    assert "-21| value_20 = compute(20)\n+21| value_20 = compute(99)" in packed.differences
    assert "\n16=16| value_15" in packed.differences
    assert "15=15| value_14" not in packed.differences


def test_reference_file_missing_from_the_output_is_named_but_not_printed() -> None:
    packed = pack(evidence(*USUAL))
    assert "Only in the reference, not printed: helpers.py (2 lines)" in packed.differences
    assert "answer = 42" not in packed.model_dump_json()


def test_left_out_documents_and_lines_are_listed() -> None:
    left_out = pack(evidence(*USUAL)).left_out
    assert "boilerplate: README.md" in left_out
    assert "grader test_grader.py: 14 of 17 lines not shown" in left_out
    assert "log run.log: 7 of 9 lines not shown" in left_out


def test_excerpt_text_matches_the_document_at_its_line_numbers(real_data: Path) -> None:
    for failure_evidence in failures(real_data):
        for excerpt in pack(failure_evidence).excerpts:
            document = failure_evidence.document(excerpt.role, excerpt.path)
            assert document is not None
            lines = excerpt.text.split("\n")
            there = document.lines[excerpt.first - 1 : excerpt.first - 1 + len(lines)]
            for line, whole in zip(lines, there, strict=True):
                assert line == whole or whole.startswith(line.rpartition("… [")[0])


def test_code_at_an_error_is_shown_even_if_it_equals_the_reference() -> None:
    log = "[error] lint: failed\napp.py:30:1: E999 odd\n"
    packed = pack(
        evidence(("expected", "app.py", CODE), ("output", "app.py", CODE), ("log", "run.log", log), step="lint")
    )
    (code,) = [excerpt for excerpt in packed.excerpts if excerpt.role == "output"]
    assert (code.first, code.text.split("\n")[4]) == (26, "value_29 = compute(29)")
    assert packed.differences == "Equal in both: app.py"


def test_log_without_a_reason_shows_its_last_line() -> None:
    log = "[ok] files\n[error] Deploying: Error: Failed to deploy:\n"
    (excerpt,) = pack(evidence(("log", "run.log", log), step="deploy")).excerpts
    assert excerpt.text == "[error] Deploying: Error: Failed to deploy:"


def test_repeated_message_is_shown_once_and_every_failed_test_is_listed() -> None:
    failed = "".join(f"   × test {n} 1ms\n     → [x] Error: boom {n}\n" for n in range(10))
    log = f"[cmd] vitest\n RUN  v4.0.18 /x\n{failed}\n      Tests  10 failed (10)\n[error] tests: vitest failed"
    text = "\n".join(lines_of(pack(evidence(("log", "run.log", log))), "run.log").values())
    assert text.count("boom") == 1
    assert [f"× test {n} 1ms" in text for n in range(10)] == [True] * 10
    assert "Tests  10 failed (10)" in text


@pytest.mark.parametrize(
    ("log", "shown", "hidden"),
    [
        (VITEST, ["× rejects empty input 16ms", "extra field", "Tests  2 failed | 1 passed (3)"], ["RUN  v", "✓"]),
        (PYTEST, ["assert [1, 2] == [1, 2, 3]", "FAILED test_grader.py::test_range", "in 0.12s"], ["test session"]),
        (JEST, ["● adds › two numbers", "Expected: 4", "Tests:       1 failed, 2 passed"], []),
        (GO, ["--- FAIL: TestSum (0.00s)", "wrong sum", "FAIL"], ["=== RUN"]),
        (MOCHA, ["1) orders", "1 !== 2", "1 passing (5ms)", "1 failing"], ["✔ works"]),
        (
            TAP,
            ["not ok 2 - rejects", "duration_ms: 1.379205", "'' !== 'x'", "# fail 2"],
            ["TAP version", "ok 1 - adds"],
        ),
        (NODE, ["✖ rejects empty input (1.15275ms)", "'' !== 'x'", "ℹ fail 1"], ["✔ adds numbers"]),
        (CARGO, ["---- tests::adds stdout", "left: 4", "test result: FAILED. 1 passed; 2 failed"], ["running 3"]),
    ],
    ids=["vitest", "pytest", "jest", "go", "mocha", "TAP", "node:test", "cargo"],
)
def test_failed_tests_are_shown_with_message_and_counts_but_no_banner(
    log: str, shown: list[str], hidden: list[str]
) -> None:
    text = "\n".join(lines_of(pack(tool_output.evidence(log, "tests")), "run.log").values())
    assert [part for part in shown if part not in text] == []
    assert [part for part in hidden if part in text] == []


LONG_ERROR = (
    "[error] deploy: Error: Failed to deploy:\n"
    f"app.ts:43:3 - error TS2322: Type '{{ first: {'A' * 300} }}' is not assignable to type 'B'.\n"
    f"  Type '{{ second: {'A' * 500} }}' is not assignable to type 'B'.\n"
    f"    Type '{{ third: {'A' * 500} }}' is not assignable to type 'B'.\n"
    "      Types of property 'success' are incompatible.\n"
    "        Type 'boolean' is not assignable to type 'false'.\n\n43   handler: async () => {\n"
)


def test_a_long_error_is_shown_from_its_first_line_without_the_middle() -> None:
    shown = lines_of(pack(evidence(("log", "run.log", LONG_ERROR), step="deploy")), "run.log")
    assert list(shown) == [2, 4, 5, 6]
    assert shown[2].startswith("app.ts:43:3 - error TS2322: Type '{ first: AAAA")
    assert shown[2].endswith(" more characters]")
    assert shown[6].endswith("Type 'boolean' is not assignable to type 'false'.")


def test_every_log_excerpt_of_a_real_compiler_error_names_file_and_code(real_data: Path) -> None:
    """In run jn7062ch, eval 000-fundamentals/009-returns_validator, the excerpt once began in the middle."""
    checked = 0
    for failure_evidence in failures(real_data):
        prepared = prepare(failure_evidence)
        located = [e for e in prepared.diagnosis.errors if e.tool == "tsc" and e.citation]
        shown = lines_of(prepared.packed, "run.log")
        for error in located[:2]:
            assert error.citation
            assert re.match(r"\S+:\d+:\d+ - error TS\d+: ", shown[error.citation.first])
            assert shown[error.citation.last] == failure_evidence.of("log")[0].lines[error.citation.last - 1]
            checked += 1
    assert checked > 5


def test_excerpt_of_an_error_heading_includes_the_reason_below_it(real_data: Path) -> None:
    shown_lines = [
        lines_of(pack(failure_evidence), "run.log")
        for _, failure_evidence in payloads(real_data / CURRENT / "odd" / "deploy")
        if any("Hit an error" in document.text for document in failure_evidence.of("log"))
    ]
    assert len(shown_lines) == 2
    for shown in shown_lines:
        texts = list(shown.values())
        assert "Hit an error" in "\n".join(texts)
        assert "Uncaught Error: " in texts[-1]


def test_log_lines_of_every_failed_step_are_shown() -> None:
    log = (
        "[error] Linting (eslint): Error: Failed to lint code:\n\n/tmp/out/app.ts\n"
        "  3:7  error  'a' is never reassigned. Use 'const' instead  prefer-const\n\n✖ 1 problem\n"
        "[error] vitest: Error: Tests failed (ratio: 0.5)\n[cmd] bunx vitest run\n"
        "[vitest]  RUN  v4.0.18 /x\n[vitest]    × counts rows 2ms\n[vitest]      → expected 400 to be 200\n"
        "[vitest]       Tests  1 failed (1)\n"
    )
    failure_evidence = evidence(("output", "app.ts", CODE), ("log", "run.log", log)).model_copy(
        update={
            "steps": (
                Step(name="eslint", status="failed", error="eslint failed"),
                Step(name="tests", status="failed", error="tests failed"),
            )
        }
    )
    shown = "\n".join(lines_of(pack(failure_evidence), "run.log").values())
    assert "prefer-const" in shown
    assert "× counts rows 2ms" in shown


MANIFEST = """\
{
  "name": "orders",
  "version": "1.0.0",
  "type": "module",
  "dependencies": {
    "convex": "^1.31.2"
  }
}
"""
TSCONFIG = """\
{
  "compilerOptions": {
    "target": "ESNext",
    "module": "ESNext",
    "strict": true,
    "noUnusedLocals": true,
    "types": ["node"],
    "isolatedModules": true
  },
  "include": ["src"]
}
"""
BUILT: tuple[tuple[Role, str, str], ...] = (
    ("expected", "package.json", MANIFEST),
    ("expected", "src/a.ts", "const a = 1"),
    ("output", "package.json", MANIFEST.replace('"orders"', '"mine"').replace("^1.31.2", "^1.20.0")),
    ("output", "tsconfig.json", TSCONFIG),
    ("output", "src/a.ts", "const a: string = 1"),
    ("log", "run.log", "src/a.ts(1,7): error TS2322: Type 'number' is not assignable to type 'string'.\n"),
)


def test_type_failure_shows_whole_manifests_and_compiler_checks() -> None:
    packed = pack(evidence(*BUILT, step="tsc"))
    assert '4=4|   "type": "module",' in packed.differences
    assert '-6|     "convex": "^1.31.2"\n+6|     "convex": "^1.20.0"' in packed.differences
    shown = lines_of(packed, "tsconfig.json")
    assert list(shown) == [5, 6, 7]
    packed = pack(evidence(*BUILT))
    assert '"type": "module"' not in packed.differences
    assert '+6|     "convex": "^1.20.0"' in packed.differences
    assert lines_of(packed, "tsconfig.json") == {}


def test_build_failure_shows_manifests_that_differ_only_in_their_name() -> None:
    renamed = MANIFEST.replace('"orders"', '"mine"')
    documents = (("expected", "package.json", MANIFEST), ("output", "package.json", renamed))
    assert pack(evidence(*documents)).differences == ""
    built = pack(evidence(*documents, step="install")).differences
    assert '"convex"' in built
    assert '"mine"' not in built


@pytest.mark.parametrize("role", ["output", "expected"])
def test_build_failure_shows_an_unchanged_manifest_as_an_excerpt(role: Role) -> None:
    both: tuple[tuple[Role, str, str], ...] = (
        ("expected", "package.json", MANIFEST),
        *((("output", "package.json", MANIFEST),) if role == "output" else ()),
    )
    (excerpt,) = pack(evidence(*both, step="install")).excerpts
    assert (excerpt.role, excerpt.path, excerpt.text) == (role, "package.json", MANIFEST.rstrip("\n"))


def test_a_readme_beside_the_grader_is_excerpted() -> None:
    readme = "# Grading\n\nUsing collect() counts as a mistake.\n" + "More about it.\n" * 500
    packed = pack(evidence(*USUAL, ("grader", "README.md", readme)))
    shown = lines_of(packed, "README.md", "grader")
    assert shown[3] == "Using collect() counts as a mistake."
    assert len(shown) < 100
    assert lines_of(packed, "test_grader.py")


def test_diff_shows_a_moved_import_as_one_line_and_omits_blank_lines() -> None:
    old = "import a\nimport b\n\nx = 1\n"
    new = "import b\nimport a\n\n\nx = 2\n"
    lines = pack(evidence(("expected", "m.py", old), ("output", "m.py", new))).differences.split("\n")
    assert lines[0] == "=== m.py"
    assert sorted(lines[1:3]) == ["1=2| import a", "2=1| import b"]
    assert lines[3:] == ["-4| x = 1", "+5| x = 2"]


def test_system_turn_of_a_long_conversation_is_shown(real_data: Path) -> None:
    """tau-bench puts its policy into the system turn of the transcript."""
    opened = open_records(real_data / "tau-bench" / "gpt-4o-airline-tasks-0-24.json", RunOverrides())
    record = next(one for one in opened.read() if isinstance(one, Record) and one.eval.status == "failed")
    packed = pack(evidence_of(record))
    assert "Airline Agent Policy" in "\n".join(one.text for one in packed.excerpts if one.role == "transcript")


@pytest.mark.parametrize("budget", [50, 300, 2000, 6000])
def test_the_budget_is_never_exceeded(budget: int) -> None:
    long = "\n".join(f"line {n} of something long enough to count" for n in range(5000))
    failure_evidence = evidence(
        *(("known_gaps", "GAPS.txt", long), ("task", "TASK.txt", long), ("grader", "test.py", GRADER + long)),
        *(("expected", "a.py", long), ("output", "a.py", long.replace("something", "anything"))),
        *(("output", f"file{n}.py", long) for n in range(200)),
        ("log", "run.log", LOG + long),
    )
    packed = pack(failure_evidence, budget)
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


def test_blank_line_does_not_end_a_test_of_a_grader() -> None:
    """A blank line can be indented less than the test, as much as it, or more than it."""
    lines = [
        "class T:",
        "    def test_a(self):",
        "        x = 1",
        "",
        "  ",
        "    ",
        "            ",
        "        assert x == 2",
        "",
        "    ",
        "    def test_b(self):",
        "        pass",
    ]
    grader = Document(role="grader", path="test_x.py", text="\n".join(lines))
    (excerpt,) = grader_excerpts(Evidence(eval=Eval(id="e", category="c", name="n"), documents=(grader,)), ["test_a"])
    assert (excerpt.first, excerpt.text.split("\n")) == (2, lines[1:8])


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_hostile_path_is_printed_as_one_bounded_line(path: str) -> None:
    packed = pack(evidence(("output", path, "a = 1"), ("expected", "other.py", "b = 2"), ("grader", path, "x")))
    assert all(len(line) < 500 and line.isprintable() for line in packed.differences.split("\n"))
    assert all(len(phrase) < 500 and phrase.isprintable() for phrase in packed.left_out)


@pytest.mark.parametrize(
    "text", ["y" * 5_000_000, "y\0\x1b[31m\r\n" * 300_000, "}\n" * 300_000], ids=["line", "nul", "lines"]
)
def test_huge_documents_stay_within_the_token_budget(text: str) -> None:
    packed = pack(evidence(("output", "a.py", text), ("expected", "a.py", text + "z\n"), ("log", "run.log", text)))
    assert packed.tokens <= 6000


def test_empty_evidence_gives_an_empty_pack() -> None:
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
def test_summarising_a_failure_takes_less_than_15_ms_of_cpu(real_data: Path) -> None:
    failure_evidence = [one for one in failures(real_data) if one.of("output")]
    with cpu_below(len(failure_evidence) * 0.015):
        for one in failure_evidence:
            summarise_evidence(one)
            locate.tests(one)

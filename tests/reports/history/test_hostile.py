"""Hostile reports: large, deeply nested or broken."""

import pytest

from evalscribe.errors import DataError
from evalscribe.reports import reading
from support.machine_speed import cpu_below

ENTRY = "### 1. 001-hello (000-basics) -- tests\n\n**Classification**: MODEL_FAULT\n\nLeft out the args.\n\n---\n\n"


@pytest.mark.benchmark
def test_report_of_five_megabytes_is_read_in_time() -> None:
    text = ENTRY + "A long line about `001-hello` and more.\n\n" * 5_000 + "word " * 950_000
    assert len(text) > 4_800_000
    with cpu_below(20):
        assert [one.eval for one in reading.read_report(text, "r.md").findings] == ["000-basics/001-hello"]


def test_text_with_too_many_lines_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"r\.md: too large to be a report"):
        reading.read_report("- a\n" * 200_000, "r.md")


@pytest.mark.parametrize("text", ["- " * 50_000, "".join("  " * depth + "- a\n" for depth in range(500))])
def test_deeply_nested_lists_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"r\.md: lists nested too deeply"):
        reading.read_report(f"{text}x\n\n{ENTRY}", "r.md")


@pytest.mark.benchmark
def test_table_of_ten_thousand_rows_is_read_in_time() -> None:
    rows = "".join(f"| cat-{n % 7}/{n:05}-name | tests | MODEL_FAULT | because |\n" for n in range(10_000))
    with cpu_below(20):
        findings = reading.read_report(
            f"| Eval | Step | Classification | Why |\n|---|---|---|---|\n{rows}", "r.md"
        ).findings
    assert len(findings) == 10_000
    assert {one.classification for one in findings} == {"MODEL_FAULT"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("> " * 50_000 + "x\n\n", id="quotes"),
        pytest.param("".join("  " * depth + "- a\n" for depth in range(30)) + "\n", id="nested-lists"),
        pytest.param("[" * 100_000 + "\n\n", id="brackets"),
        pytest.param("(" * 100_000 + "\n\n", id="parentheses"),
        pytest.param("### " + "(" * 4_000 + "\n", id="parentheses-in-a-heading"),
        pytest.param("### " + "a-" * 2_000 + "\n", id="dashes-in-a-heading"),
        pytest.param("### " + "1. " * 1_500 + "\n", id="numbers-in-a-heading"),
        pytest.param("- " + "a: " * 1_500 + "\n\n", id="colons"),
        pytest.param("- " + "MODEL_FAULT " * 400 + "\n\n", id="labels"),
        pytest.param("- " + "not " * 1_200 + "MODEL_FAULT\n\n", id="negations"),
        pytest.param("*" * 100_000 + "\n\n", id="stars"),
        pytest.param("x " + "`" * 100_000 + "\n\n", id="ticks"),
        pytest.param("|" * 50_000 + "\n|" + "-|" * 20_000 + "\n\n", id="pipes"),
        pytest.param("\x00\u202e\ud800\n\n", id="characters"),
        pytest.param("&#0;&#xFFFFFFF;\n\n", id="entities"),
        pytest.param("# \n## \n###\n\n-\n\n- \n\n||\n|-|\n\n", id="empty-blocks"),
    ],
)
def test_hostile_text_before_an_entry_does_not_hide_it(text: str) -> None:
    findings = reading.read_report(f"{text}{ENTRY}", "r.md").findings
    assert [(one.eval, one.classification) for one in findings] == [("000-basics/001-hello", "MODEL_FAULT")]


@pytest.mark.parametrize(
    "front",
    [
        pytest.param("a: [", id="broken"),
        pytest.param("- a", id="list"),
        pytest.param("date: 2026-99-99", id="impossible-date"),
        pytest.param("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", id="aliases"),
        pytest.param("!!python/object/apply:os.system ['true']", id="python"),
        pytest.param("? {a: b}\n: c", id="odd-key"),
        pytest.param("[" * 5_000, id="deep"),
        pytest.param("x: " + "9" * 9_000, id="number"),
    ],
)
def test_invalid_front_matter_does_not_hide_the_findings(front: str) -> None:
    assert len(reading.read_report(f"---\n{front}\n---\n{ENTRY}", "r.md").findings) == 1


def test_unclosed_code_block_hides_the_rest_of_the_text() -> None:
    text = f"{ENTRY}```\n### 2. 002-more (000-basics) — KNOWN_GAP\n"
    assert [one.eval for one in reading.read_report(text, "r.md").findings] == ["000-basics/001-hello"]


@pytest.mark.parametrize("kind", ["evalscribe-compare/1", "explore", "7"])
def test_document_of_another_kind_is_refused(kind: str) -> None:
    with pytest.raises(DataError, match=r"r\.md: .*kind.*not a report"):
        reading.read_report(f"---\nkind: {kind}\n---\n{ENTRY}", "r.md")


def test_broken_evalscribe_report_is_refused() -> None:
    with pytest.raises(DataError, match=r"r\.md: "):
        reading.read_report(f"---\nkind: evalscribe-report/1\nrun: r1\n---\n{ENTRY}", "r.md")

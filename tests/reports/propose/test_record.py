"""Record of an applied change in the report and in the commit message."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.errors import DataError
from evalscribe.model.finding import Recommendation
from evalscribe.model.report import Report, replaced
from evalscribe.model.repository import BranchTip, FileChange, Patch
from evalscribe.reports.apply import (
    action_text,
    branch_names,
    commit_message,
    committed_line,
    names_recommendation,
    with_action,
)
from evalscribe.reports.reading import PageSource, read_page, read_report

REPORT = Path(__file__).parents[3] / "reports/example/sample-model-1/smp7q2ka_2026-11-02.md"
TEXT = REPORT.read_text("utf-8")
DATA = REPORT.with_suffix(".json").read_text("utf-8")
BODY = TEXT.removesuffix("None.\n")
R2 = Recommendation(id="R2", group="lint", text="make `PLW2901` a warning", evals=("style/002-loop",), would_pass=True)
LINE = action_text(R2, ["ruff.toml"], "0123456789abcdef", "evalscribe/R2-smp7q2ka", "2026-11-21")


def report_of(text: str) -> Report:
    return read_page(PageSource(name=REPORT.name, text=text, data=DATA)).report


PATCH = Patch(
    run="smp7q2kax0d4m81v",
    recommendation="R2",
    base="0" * 40,
    changes=(FileChange(path="ruff.toml", before="a\n", after="b\n"),),
    summary="Take it out",
    judge="anthropic/claude-test",
)


def test_action_line_has_date_recommendation_files_evals_and_commit() -> None:
    assert LINE == (
        "- 2026-11-21: R2, make `PLW2901` a warning: `ruff.toml` (style/002-loop), "
        "commit `0123456789` on `evalscribe/R2-smp7q2ka`."
    )


def test_first_action_replaces_none_and_the_next_one_is_appended() -> None:
    once = with_action(TEXT, LINE)
    assert once == BODY + LINE + "\n"
    other = LINE.replace("R2", "R1")
    assert with_action(once, other) == BODY + LINE + "\n" + other + "\n"
    assert committed_line(once, "R2") == LINE
    assert committed_line(once, "R1") is None
    assert committed_line(TEXT, "R2") is None


def test_action_line_is_read_as_an_action_for_its_evals() -> None:
    (taken,) = read_report(with_action(TEXT, LINE), REPORT.name, DATA).actions_taken
    assert taken.evals == ("style/002-loop",)
    assert "commit" in taken.text


@pytest.mark.parametrize(
    "people",
    [
        "- asked the author",
        "We talked about it.\n\nAnd again.",
        "1. one\n2. two",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "> quoted",
        "<details>\n<summary>more</summary>\n\n- x\n</details>",
        "- nested\n  - deeper\n\n    with a paragraph",
        "### A heading of ours\ntext",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_of_people_is_kept_and_the_action_is_separate_from_it(people: str, end: str) -> None:
    text = (BODY + people + "\n").replace("\n", end)
    added = with_action(text, LINE)
    assert added.startswith(text.rstrip())
    assert added.endswith(LINE + end)
    assert added.count("\n") == added.count(end)
    assert any(taken.evals == ("style/002-loop",) for taken in read_report(added, REPORT.name, DATA).actions_taken)


@pytest.mark.parametrize("people", ["<!-- to do", "```\nopen", "~~~", "<script>", "<![CDATA[", "<pre>\nx"])
def test_action_is_inserted_above_unclosed_markup(people: str) -> None:
    added = with_action(BODY + people + "\n", LINE)
    assert added == f"{BODY}{LINE}\n\n{people}\n"
    assert read_report(added, REPORT.name, DATA).actions_taken[0].evals == ("style/002-loop",)


@pytest.mark.parametrize("people", ["None.\n", "- asked\n", "asked\n"])
@pytest.mark.parametrize("heading", ["## Our notes", "Our notes\n---", "# Notes"])
def test_action_is_inserted_before_a_heading_that_people_added(people: str, heading: str) -> None:
    added = with_action(f"{BODY}{people}\n{heading}\nhello\n", LINE)
    assert added.endswith(f"{LINE}\n\n{heading}\nhello\n")
    assert any(taken.evals == ("style/002-loop",) for taken in read_report(added, REPORT.name, DATA).actions_taken)


def test_deleted_actions_section_is_created_again() -> None:
    cut = BODY.removesuffix("\n## Actions taken\n")
    assert with_action(cut, LINE) == cut.rstrip() + "\n\n## Actions taken\n" + LINE + "\n"


def test_action_is_not_added_to_an_unreadable_report() -> None:
    with pytest.raises(DataError):
        with_action(TEXT.replace("## Patterns\n", "<<<<<<< HEAD\n## Patterns\n", 1), LINE)


@settings(max_examples=15)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_adding_an_action_keeps_any_text_of_people(people: str) -> None:
    text = BODY + people
    try:
        before = report_of(text)
    except DataError:
        return
    added = with_action(text, LINE)
    assert replaced(report_of(added), actions_taken=before.actions_taken) == before
    assert added.removeprefix(BODY).replace(LINE, "").split() == ([] if people.strip() == "None." else people.split())
    assert any(taken.evals == ("style/002-loop",) for taken in read_report(added, REPORT.name, DATA).actions_taken)


def test_commit_is_recognised_by_its_trailers() -> None:
    message = commit_message(PATCH, ("style/002-loop",), "example/m/r.md")
    assert message.startswith("Take it out\n\nR2 of example/m/r.md, for\n- style/002-loop\n")
    tip = BranchTip(commit="1", message=message)
    assert names_recommendation(tip, "R2", "smp7q2kax0d4m81v")
    assert not names_recommendation(tip, "R1", "smp7q2kax0d4m81v")
    assert not names_recommendation(tip, "R2", "another")
    assert not names_recommendation(BranchTip(commit="1", message="R2 for smp7q2kax0d4m81v"), "R2", "smp7q2kax0d4m81v")


@given(st.text(max_size=60), st.text(max_size=40))
def test_commit_message_contains_no_references_mentions_or_links(summary: str, eval: str) -> None:
    patch = PATCH.model_copy(update={"summary": f"fixes #{summary}", "judge": f"@{eval}"})
    message = commit_message(patch, (f"GH-1 {eval}", "x://y"), "r.md")
    head = message.partition("Evalscribe-Run:")[0]
    assert "[" not in head
    assert not any(f"{mark}1" in head for mark in ("#", "GH-", "@"))
    assert "://y" not in head
    assert names_recommendation(BranchTip(commit="1", message=message), "R2", PATCH.run)


def test_branches_are_named_after_recommendation_and_run() -> None:
    names = branch_names("R2", "smp7q2kax0d4m81v")
    assert [next(names), next(names)] == ["evalscribe/R2-smp7q2ka", "evalscribe/R2-smp7q2ka-2"]
    assert next(branch_names("R1", "a..b.lock")) == "evalscribe/R1-a-b-loc"

"""A discussion without a model shows the findings that a question names and searches for all other words."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evalscribe.cli import run
from evalscribe.model.evidence import Document
from evalscribe.model.repository import ReportFile
from evalscribe.prompts.templates import Prompts
from evalscribe.reports.discussion.conversation import Discussion
from evalscribe.reports.discussion.dossier import ReportEvidence, search_report
from evalscribe.reports.discussion.lookup import LookupDiscussion, ends_discussion, recommendations_to_apply
from evalscribe.reports.reading import read_report
from evalscribe.store.analyses import AnalysisStore, open_store

CODE = Document(role="output", path="a.py", text="\n".join(f"line {n}" for n in range(1, 30)) + "\nreturn Total\n")
LOG = Document(role="log", path="run.log", text="start\nTOTAL was wrong\nreturn of nothing\nend\n")


async def answer_text(dossier: ReportEvidence, question: str) -> str:
    pieces: list[str] = []
    answer = await LookupDiscussion(dossier).ask(question, pieces.append)
    assert "".join(pieces) == answer.text
    assert answer.broken_off is None
    return answer.text


@pytest.mark.parametrize(
    "question", ["4", "#4", "show me 4", "Show 4.", "explain finding 4", "http/001-retry", "001-retry"]
)
async def test_finding_is_shown_with_its_quotations(sample: ReportEvidence, question: str) -> None:
    text = await answer_text(sample, question)
    assert text.startswith("4. http/001-retry: OVERLY_STRICT (harness)\nStep    tests\n")
    assert "grader test_grader.py:36\n    34      server = serve(port)\n" in text
    assert '>   36      yield f"http://127.0.0.1:{port + 1}"\n    37  ' in text
    assert "  log         run.log (" in text


async def test_a_recommendation_is_shown_with_its_findings(sample: ReportEvidence) -> None:
    text = await answer_text(sample, "r3")
    assert text.startswith("R3 (Lint and configuration, would pass): ")
    assert "\n\n8. style/005-any: KNOWN_GAP (lint)\n" in text
    assert text.count("\nCause ") == 1


async def test_other_words_are_searched_in_the_evidence(sample: ReportEvidence) -> None:
    text = await answer_text(sample, "LISTENING port")
    assert text.startswith("4 task TASK.txt:7\n")
    assert '>   36      print(f"listening on {port}")' in text


async def test_question_without_a_hit_shows_the_findings_that_it_names(sample: ReportEvidence) -> None:
    assert (await answer_text(sample, "why is 3 not the model's fault, please?")).startswith(
        "3. deps/001-lock: KNOWN_GAP"
    )
    both = await answer_text(sample, "what makes 7 and R1 differ so much?")
    assert both.startswith("7. style/002-loop")
    assert "\n\nR1 (Eval improvements" in both


@pytest.mark.parametrize("question", ["lint", "which are lint?", "Welche sind LINT?"])
async def test_findings_are_listed_by_step_or_cause_kind(sample: ReportEvidence, question: str) -> None:
    assert await answer_text(sample, question) == (
        "7. style/002-loop: OVERLY_STRICT (lint), lint\n8. style/005-any: KNOWN_GAP (lint), lint"
    )


async def test_stop_words_do_not_hide_a_hit(sample: ReportEvidence) -> None:
    assert (await answer_text(sample, "Where is the port that it is listening on?")).startswith("4 task TASK.txt:7\n")


async def test_places_with_some_of_the_words_are_ranked(dossier_of: Callable[..., ReportEvidence]) -> None:
    lines = ["total of all", *["the wrong line"] * 3, "a", "b", "c", "the total was wrong", *["wrong again"] * 9]
    text = await answer_text(
        dossier_of((Document(role="log", path="run.log", text="\n".join(lines)),)), "Why was the TOTAL so wrong, zebra?"
    )
    assert text.startswith("No place has all of these words. The best matches:\n\n1 log run.log:8\n")
    assert text.index("run.log:8") < text.index("run.log:1\n")


async def test_search_without_hits_suggests_questions_that_have_an_answer(sample: ReportEvidence) -> None:
    for question in ("zebra quagga", "...", "?!", "-", "why is it so?"):
        text = await answer_text(sample, question)
        assert "has any of these words.\nTry `" in text
        assert "`R1`" in text
        assert text.rstrip().endswith("or `help`.")
    assert "R2 " in await answer_text(sample, "help")


def test_report_edited_meanwhile_is_read_again(
    sample: ReportEvidence, sample_data: Path, store: AnalysisStore, tmp_path: Path
) -> None:
    """A report that has become unreadable or is gone is discussed as it was last read."""
    path = tmp_path / "report.md"
    path.write_text(sample.text)
    data = sample_data.read_text("utf-8")
    path.with_suffix(".json").write_text(data)
    pieces: list[str] = []
    discussion = Discussion(ReportFile(path=path, name=path.name, text=sample.text, data=data), store, Prompts())
    label = "**OVERLY_STRICT** · all 8 tests pass; only `PLW2901`"
    assert label in sample.text
    for text in (
        sample.text.replace(label, "**KNOWN_GAP** · all 8 tests pass; only `PLW2901`"),
        sample.text.replace("## Patterns", "<<<<<<< ours"),
    ):
        path.write_text(text)
        assert asyncio.run(discussion.ask("7", pieces.append)).text.startswith("7. style/002-loop: KNOWN_GAP")
    path.unlink()
    assert asyncio.run(discussion.ask("7", pieces.append)).text.startswith("7. style/002-loop: KNOWN_GAP")


async def test_missing_evidence_is_explained_and_the_report_is_searched(
    dossier_of: Callable[..., ReportEvidence],
) -> None:
    absent = dossier_of((CODE,), stored=False, text="# Report\nthe total is wrong")
    assert "evalscribe analyze run1" in await answer_text(absent, "1")
    assert (await answer_text(absent, "total wrong")).startswith("report.md:2\n")
    assert (await answer_text(absent, "return total")).endswith("\nMissing evidence was not searched.")


def test_lines_with_all_words_come_first(dossier_of: Callable[..., ReportEvidence]) -> None:
    dossier = dossier_of((LOG, CODE))
    hits = search_report(dossier, ["return", "total"], 10)
    assert [(hit.place, hit.line, hit.together) for hit in hits] == [
        ("output a.py", 30, True),
        ("log run.log", 2, False),
    ]
    assert search_report(dossier, [], 10) == ()
    assert len(search_report(dossier, ["line"], 3)) == 3


async def test_answer_contains_no_terminal_control_characters(dossier_of: Callable[..., ReportEvidence]) -> None:
    hostile = Document(role="output", path="a\x1b[2J.py", text="x = '\x1b]0;pwned\x07\u202e'\r\n")
    text = await answer_text(dossier_of((hostile,)), "x")
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        ("implement R3", ("R3",)),
        ("apply r3", ("R3",)),
        ("Please implement R2 and R3.", ("R2", "R3")),
        ("apply R1, R2, and R1 please!", ("R1", "R2")),
        ("would you implement R3?", ()),
        ("what happens if I implement R3", ()),
        ("implement everything", ()),
        ("R3", ()),
    ],
)
def test_only_a_plain_request_applies_recommendations(line: str, ids: tuple[str, ...]) -> None:
    assert recommendations_to_apply(line) == ids


def test_words_that_end_a_discussion_are_recognised() -> None:
    assert all(map(ends_discussion, ("q", " Quit ", "exit")))
    assert not ends_discussion("question")


def test_every_failure_of_a_real_run_can_be_shown(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is by other people, and the evidence comes from the run's snapshot."""
    folder = real_data / "convex-runs" / "jn7922j1"
    monkeypatch.chdir(tmp_path)
    assert run(["analyze", str(folder), "--judge", "rules", "--quiet"]) == 0
    text = (folder / "report.md").read_text("utf-8")
    with closing(open_store(tmp_path / ".evalscribe")) as store:
        dossier = ReportEvidence("report.md", text, read_report(text, "report.md"), store)
        assert dossier.topics
        assert dossier.missing() == ()
        for n in dossier.topics:
            assert "\nEvidence\n  task " in asyncio.run(answer_text(dossier, str(n)))

"""A run and its findings as a report, and as the JSON document."""

from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Citation, Role
from evalscribe.model.finding import Collation, Finding, Unclassified, Verdict
from evalscribe.model.report import SNIPPET_LINES
from evalscribe.model.run import Eval, Run
from evalscribe.reports.outline import analysis_document, compose_report, snippets

EVALS = (
    Eval(id="e1", category="a", name="1", failed_step="tests", url="https://evals.example/e1"),
    Eval(id="e2", category="a", name="2", failed_step="lint"),
    Eval(id="e3", category="b", name="1"),
)
RUN = Run(id="run12345", provider="p", model="m", passed=30, failed=3, total=40, failures=EVALS)


def citation(role: Role, text: str, first: int = 1) -> Citation:
    last = first + text.count("\n")
    return Citation(role=role, path="f.py", first=first, last=last, text=text, status="verified")


VERDICT = Verdict(
    classification="KNOWN_GAP",
    cause="down",
    cause_kind="infrastructure",
    confidence=0.9,
    error="connection refused",
    why="the index was down",
    reasoning="The index was down.",
    citations=(citation("log", "pip: connection refused"), citation("output", "import x")),
    judge="rules@1",
)
COLLATION = Collation(
    findings=(
        Finding(group="g1", evals=EVALS[:2], verdict=VERDICT),
        Finding(group="g2", evals=EVALS[2:], verdict=Unclassified(reason="refused", judge="rules@1")),
    )
)
REPORT = compose_report(RUN, COLLATION, judges=["rules@1"], date="2026-11-02", evidence=["sha256:b", "sha256:a"])


def test_a_group_is_one_entry() -> None:
    assert [tuple(ref.path for ref in entry.evals) for entry in REPORT.entries] == [("a/1", "a/2"), ("b/1",)]


def test_reasoning_of_an_unclassified_failure_is_the_reason() -> None:
    entry = REPORT.entries[1]
    assert (entry.classification, entry.reasoning, entry.judge) == (None, "refused", None)


def test_header_counts_incomplete_evals() -> None:
    assert (REPORT.run.incomplete, REPORT.run.listed, REPORT.run.names_all) == (7, 3, False)


def test_the_evidence_id_does_not_depend_on_the_order() -> None:
    again = compose_report(RUN, COLLATION, judges=["rules@1"], date="2026-11-02", evidence=["sha256:a", "sha256:b"])
    assert again.evidence == REPORT.evidence


USAGE_BY_STAGE = {"tag": Usage(calls=1, cost_usd=0.1), "judge": Usage(calls=1, cost_usd=0.4)}


def test_document_has_a_finding_for_each_eval_and_the_usage_of_each_stage() -> None:
    document = analysis_document(REPORT, COLLATION.findings, report_path="r.md", changed=True, spent=USAGE_BY_STAGE)
    assert [(f.n, f.eval, f.eval_id, f.group, f.url) for f in document.findings] == [
        (1, "a/1", "e1", "g1", "https://evals.example/e1"),
        (1, "a/2", "e2", "g1", None),
        (2, "b/1", "e3", "g2", None),
    ]
    assert (document.findings[2].unclassified, document.findings[2].classification) == ("refused", None)
    assert len(document.findings[0].citations) == 2
    assert document.usage is not None
    assert (document.usage.calls, document.usage.cost_usd) == (2, 0.5)
    assert [(stage.stage, stage.cost_usd) for stage in document.usage.stages] == [("tag", 0.1), ("judge", 0.4)]


def test_log_is_quoted_only_without_other_citations() -> None:
    assert [snippet.role for snippet in snippets(VERDICT.citations)] == ["output"]
    assert [snippet.role for snippet in snippets(VERDICT.citations[:1])] == ["log"]


def test_snippets_start_with_output_and_expected_and_have_a_line_limit() -> None:
    many = "\n".join(f"line {n}" for n in range(20))
    shown = snippets((citation("task", many), citation("expected", many), citation("output", many)))
    assert [snippet.role for snippet in shown] == ["output", "expected"]
    assert sum(snippet.text.count("\n") + 1 for snippet in shown) == SNIPPET_LINES


def test_a_place_cited_twice_is_shown_once() -> None:
    assert len(snippets((citation("output", "x = 1"), citation("output", "x = 1")))) == 1

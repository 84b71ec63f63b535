"""Comparison pages: content, escaping of hostile text, and detection of edits."""

from dataclasses import replace

from markdown_it import MarkdownIt

from evalscribe.collections.compare import build_matrix, compare_sides
from evalscribe.collections.comparison_page import as_csv, comparison_page, matrix_page, same_runs
from evalscribe.collections.regressions import shared_behaviours
from evalscribe.model.analysis import FindingSummary
from evalscribe.model.comparison import Comparison, Quote, RegressionExplanation
from evalscribe.model.repository import is_of_another_kind
from evalscribe.reports.documents import is_unedited
from evalscribe.reports.reading import run_of
from support.compared_runs import make_run, make_run_of_failures

EVIL = "`</details>\n# Owned <script>alert(1)</script> @team [x](http://evil.example) |"


def make_comparison(worse: int, better: int, same: int) -> Comparison:
    names = [f"c/{n:03}" for n in range(worse + better + same)]
    base = make_run("base0000", {name: "f" if worse <= n < worse + better else "p" for n, name in enumerate(names)})
    candidate = make_run("cand0000", {name: "f" if n < worse else "p" for n, name in enumerate(names)}, model="new")
    both = compare_sides([base], [candidate])
    return both.model_copy(update={"behaviours": shared_behaviours(both.pairs)})


def test_headline_says_that_a_small_difference_may_be_chance() -> None:
    page = comparison_page(make_comparison(6, 3, 31))
    assert "# p/m → p/new: 6 broke, 3 fixed of 40 evals" in page
    lead = "**Lower pass rate, which may be chance: 6 broke, 3 fixed** (92.5 % → 85.0 %, -7.5 points, 95 % interval"
    assert lead in page
    assert (
        "difference of at least this size in 51 of 100 comparisons (p = 0.51); with 40 evals, only a difference of "
        in page
    )


def test_significant_difference_is_called_worse() -> None:
    page = comparison_page(make_comparison(12, 1, 27))
    assert "**Worse: 12 broke, 1 fixed** (97.5 % → 70.0 %, " in page
    assert "difference of at least this size in 3 of 1,000 comparisons (p = 0.0034); with 40 evals" in page


def test_equal_pass_rates_say_whether_the_same_evals_pass() -> None:
    assert "**Same pass rate, different evals: 3 broke, 3 fixed** (50.0 % → 50.0 %" in comparison_page(
        make_comparison(3, 3, 0)
    )
    same = comparison_page(make_comparison(0, 0, 40))
    assert "**Same pass rate, no eval changed** (100.0 % → 100.0 %" in same
    assert "Chance alone" not in same


def test_headline_names_different_experiments() -> None:
    both = make_comparison(1, 0, 1)
    moved = both.candidate.model_copy(update={"experiments": ("nightly",)})
    page = comparison_page(both.model_copy(update={"candidate": moved, "experiments_differ": True}))
    assert "(experiment default) → p/new (experiment nightly): 1 broke, 0 fixed" in page.replace("`", "")


def test_page_without_common_evals_says_that_nothing_can_be_compared() -> None:
    nothing = compare_sides([make_run("a", {"x/1": "p"})], [make_run("b", {"x/2": "p"})])
    page = comparison_page(nothing)
    assert "**Nothing can be compared: no eval was tried and judged on both sides.**" in page
    assert "Only in the base (1): x/1" in page


def test_evals_failing_on_both_sides_are_listed_by_reason() -> None:
    outcomes = dict.fromkeys(("x/1", "x/2", "x/3"), "f") | {"x/4": "fff"}
    findings = [
        {path: FindingSummary(eval=path, cause=cause, cause_kind="model", why=why) for path in ("x/1", "x/2")}
        for cause, why in (("no-args", "leaves out `args`"), ("no-await", None))
    ]
    base, candidate = (make_run(side, outcomes, findings=findings[0]) for side in ("base", "cand"))
    page = comparison_page(compare_sides([base], [candidate]))
    assert "\nFails in both: 4 evals.\n" in page
    assert "- leaves out `args` (model): x/1, x/2\n- no reason known: x/3, x/4" in page
    page = comparison_page(compare_sides([base], [replace(candidate, findings=findings[1])]))
    assert "Fails in both: 4 evals, 2 for a different reason than before." in page
    assert "- leaves out `args` (model) → no await (model): x/1, x/2" in page


def test_eval_that_only_passes_more_often_is_described_as_such() -> None:
    page = comparison_page(compare_sides([make_run("a", {"x/1": "pff"})], [make_run("b", {"x/1": "ppf"})]))
    assert "## Fixed\n- x/1 passes more often, but not always: passed 1 of 3, then passed 2 of 3" in page


def test_run_without_a_report_is_named_with_its_analyze_command() -> None:
    base, candidate = make_run("a", {"x/1": "p"}), make_run_of_failures("cand0001", ["x/1"], 3)
    failed = tuple(one.eval for one in candidate.graded)
    unread = replace(candidate, run=candidate.run.model_copy(update={"failures": failed}))
    expected = "no known cause yet: run `evalscribe analyze cand0001`, then"
    assert expected in comparison_page(compare_sides([base], [unread]))
    read = replace(unread, findings={"x/1": FindingSummary(eval="x/1", cause="c", cause_kind="model")})
    assert "not known yet" not in comparison_page(compare_sides([base], [read]))


def test_reference_run_is_described_as_not_a_model() -> None:
    oracle = make_run("a", {"x/1": "p"})
    oracle = replace(oracle, run=oracle.run.model_copy(update={"provider": "harbor", "model": "oracle"}))
    page = comparison_page(compare_sides([oracle], [make_run("b", {"x/1": "f"})]))
    assert "The base is not a model: `oracle` submits the reference answer to every task." in page


def test_unnamed_incomplete_evals_are_counted() -> None:
    comparison = compare_sides([make_run_of_failures("a", ["x/1"], 8)], [make_run_of_failures("b", ["x/2"], 7, 1)])
    assert (comparison.evals, comparison.incomplete) == (8, 1)
    assert "Left out of the figures: 1 that never completed." in comparison_page(comparison)


def test_hostile_text_is_escaped_in_the_page() -> None:
    quote = Quote(side="base", place=EVIL, text=EVIL, verified=False)
    why = RegressionExplanation(behaviour="b", text=EVIL, kind="model", quotes=(quote,), judge=EVIL)
    base, candidate = (
        make_run(f"{side}{EVIL}", {f"{EVIL}/{EVIL}": letter}, model=EVIL) for side, letter in ("ap", "bf")
    )
    both = compare_sides([base], [candidate])
    pairs = tuple(pair.model_copy(update={"why": why}) for pair in both.pairs)
    evil = both.model_copy(update={"pairs": pairs, "behaviours": shared_behaviours(pairs), "notes": (EVIL,)})
    page = comparison_page(evil)
    assert is_unedited(page)
    shown = MarkdownIt("commonmark").enable("table").render(page.split("\n---\n", 1)[1])
    assert "<script" not in shown
    assert "<a " not in shown
    assert "</details>" not in shown
    assert [line for line in page.split("\n") if line.startswith("# ")] == [page.split("\n---\n", 1)[1].split("\n")[0]]


def test_edited_page_is_detected_and_line_endings_are_ignored() -> None:
    page = comparison_page(make_comparison(1, 1, 1))
    assert is_unedited(page)
    assert is_unedited(page.replace("\n", "\r\n"))
    assert not is_unedited(page.replace("broke", "fixed", 1))
    assert not is_unedited("# Notes of mine\n")
    assert same_runs(page, page.replace("broke", "fixed"))
    assert not same_runs(page, page.replace("cand0000", "cand0001"))


def test_comparison_page_is_not_taken_for_a_report() -> None:
    page = comparison_page(make_comparison(1, 1, 1))
    assert run_of(page) is None
    assert is_of_another_kind(page)
    assert is_of_another_kind("\ufeff" + page.replace("\n", "\r\n"))
    assert not is_of_another_kind("---\nkind: evalscribe-report/1\nrun: a\n---\n# A\n")
    assert not is_of_another_kind("# Mine\n\n---\nkind: evalscribe-compare/1\n---\n")


def test_page_of_many_evals_is_truncated() -> None:
    page = comparison_page(make_comparison(3_000, 0, 10))
    assert len(page.split("\n")) < 1_000
    assert "And 2900 more" in page


def test_matrix_page_shows_discriminating_evals_and_csv_holds_all() -> None:
    one, other = make_run("aaaa", {"x/1": "pp", "x/2": "pf", "x/3": "f"}), make_run_of_failures("bbbb", ["=cmd()/x"], 3)
    matrix = build_matrix([[one], [other]])
    page = matrix_page(matrix)
    assert "| x/2 | 1/2 | ✓ | 66.7 % |" in page
    assert "## Passed everywhere\nx/1" in page
    lines = as_csv(matrix).split("\n")
    assert lines[0] == "eval,p/m (aaaa),p/m (bbbb),rate,discriminates"
    assert lines[1] == "'=cmd()/x,,0,0,no", "no formula for a spreadsheet"
    assert lines[3] == "x/2,0.5,1,0.6667,yes"

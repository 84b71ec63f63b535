"""Matrices, comparisons within one side, and the first divergent tool call."""

from typing import Any

from evalscribe.collections.compare import RunEvals, build_matrix, compare_sides, compare_within
from evalscribe.collections.regressions import first_divergence, shared_behaviours
from evalscribe.evidence.log import normalise_error
from evalscribe.model.transcript import Transcript
from support.compared_runs import make_run, make_run_of_failures


def test_matrix_counts_steady_evals_and_marks_discriminating_ones() -> None:
    one = make_run("aaaaaaaa1", {"x/1": "pp", "x/2": "pf", "x/3": "ff"})
    other = make_run("bbbbbbbb1", {"x/1": "pp", "x/2": "pp", "x/4": "ee"})
    matrix = build_matrix([[one], [other], [make_run_of_failures("cccccccc1", ["x/3"], 3)]])
    rows = {row.eval: row for row in matrix.rows}
    assert rows["x/2"].cells == ((1, 2), (2, 2), (1, 1))
    assert rows["x/2"].discriminates
    assert not rows["x/1"].discriminates
    assert rows["x/1"].rate == 1
    assert rows["x/3"].cells == ((0, 2), None, (0, 1))
    assert rows["x/4"].cells == (None, None, (1, 1))
    first = matrix.columns[0]
    assert (first.always, first.sometimes, first.never) == (1, 1, 1)
    assert first.name == "p/m (aaaaaaaa)"
    assert "cccccccc" in matrix.notes[0]


def test_matrix_notes_uncounted_passes_beside_another_suite() -> None:
    few = [make_run_of_failures(f"{letter * 8}1", ["x/1", f"x/{letter}"], 20) for letter in "cd"]
    assert build_matrix([*([one] for one in few)]).columns[0].passed == 20
    matrix = build_matrix([*([one] for one in few), [make_run("aaaaaaaa1", {"y/1": "p", "y/2": "f"}, experiment="y")]])
    assert (matrix.columns[0].passed, matrix.unnamed) == (1, 0)
    assert "cccccccc, dddddddd passed more often than shown here" in matrix.notes[-1]


def test_matrix_lists_evals_with_a_changed_task() -> None:
    one = make_run("a", {"x/1": "p", "x/2": "p"}, graded={"x/1": {"task": "t1"}, "x/2": {"grader": "g"}})
    other = make_run("b", {"x/1": "p", "x/2": "p"}, graded={"x/1": {"task": "t2"}, "x/2": {"grader": "g"}})
    assert build_matrix([[one], [other]]).changed == ("x/1",)


def test_shared_error_is_shown_as_recorded_and_not_normalised() -> None:
    base, candidate = (make_run(name, {f"x/B{n}": letter for n in (1, 2)}) for name, letter in (("a", "p"), ("b", "f")))
    same = {f"b-x/B{n}-1": f"tests: {normalise_error(f'B{n} is wrong')}" for n in (1, 2)}
    comparison = compare_sides([base], [RunEvals(candidate.run, candidate.graded, signatures=same)])
    assert [one.name for one in shared_behaviours(comparison.pairs)] == ["tests: B1 is wrong", "tests: B2 is wrong"]


def test_every_failed_trial_is_paired_with_a_passed_trial() -> None:
    comparison = compare_within([make_run("a", {"x/1": "fpf", "x/2": "ff", "x/3": "pp", "x/4": "ep"})])
    assert [(pair.eval, pair.candidate[0].trial, pair.base[0].trial) for pair in comparison.pairs] == [
        ("x/1", 1, 2),
        ("x/1", 3, 2),
    ]
    assert comparison.without == ("x/2",)
    assert (comparison.side.passed, comparison.side.trials) == (4, 8)


def calling(*calls: tuple[str, dict[str, Any], str]) -> Transcript:
    """Return a transcript of calls, each a tuple of name, arguments and result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    for n, (name, arguments, answer) in enumerate(calls):
        call = {"id": str(n), "function": name, "arguments": arguments}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "content": answer, "tool_call_id": str(n), "function": name})
    return Transcript.model_validate({"id": "t", "messages": messages})


LOOK, BOOK = ("look", {"id": 1}, "found"), ("book", {"id": 1}, "booked")


def test_first_divergence_is_the_first_different_call() -> None:
    why = first_divergence(calling(LOOK, BOOK), calling(LOOK, ("cancel", {"id": 1}, "gone")))
    assert why is not None
    assert why.behaviour == "cancel instead of book"
    assert [(quote.side, quote.place, quote.text) for quote in why.quotes] == [
        ("base", "message 4", "book(id=1)"),
        ("candidate", "message 4", "cancel(id=1)"),
    ]


def test_first_divergence_names_changed_missing_and_extra_calls() -> None:
    names = [
        (why := first_divergence(calling(LOOK, BOOK), other)) and why.behaviour
        for other in (calling(LOOK, ("book", {"id": 2}, "booked")), calling(LOOK), calling(LOOK, BOOK, BOOK))
    ]
    assert names == ["other arguments for book", "stops before book", "also calls book"]


def test_first_divergence_ignores_calls_without_a_result() -> None:
    noted = calling(("think", {"thought": "hm"}, ""), LOOK, BOOK)
    assert first_divergence(calling(LOOK, BOOK), noted) is None
    assert first_divergence(calling(), calling()) is None

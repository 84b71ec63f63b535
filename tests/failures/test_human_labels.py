"""What earlier labels mean for a failure: evidence about the same, examples for similar ones, or nothing."""

import pytest

from evalscribe.failures.human_labels import (
    MOST,
    MOST_OF_A_LABEL,
    CurrentFailure,
    add_labels,
    count_similar,
    disagreements,
    examples_from_labels,
    precedents_from_labels,
)
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import Classification, HumanLabel, Precedent

ERROR = "TypeError: f() takes no argument"
NOW = FailureFingerprint(
    run="now",
    provider="p",
    model="m",
    experiment="default",
    eval="a/1",
    eval_id="e1",
    step="tests",
    signature="tests: typeerror",
    task="t1",
    grader="g1",
    method=1,
)
LOOK = CurrentFailure(fingerprint=NOW, path="a/1", error=ERROR, code="TS2345", cause="takes-no-argument")
LABEL = HumanLabel(
    run="old",
    provider="p",
    model="m",
    experiment="default",
    eval="a/1",
    label="OVERLY_STRICT",
    cause="some-cause",
    error=ERROR,
    step="tests",
    note="nobody asked",
    reviewer="Ada",
    email="ada@example.org",
    commit="c1",
    date="2026-11-02",
    report="p/m/old.md",
)
EARLIER = Precedent(
    report="old.md",
    date="2026-11-02",
    eval="a/1",
    classification="OVERLY_STRICT",
    by_person=True,
    cause="some-cause",
    note="nobody asked",
)


def seen(label: HumanLabel = LABEL, **changes: object) -> dict[tuple[str, str], FailureFingerprint]:
    """The labelled failure as the store knows it: the same as now but for the changes."""
    own = {"run": label.run, "eval": label.eval, "model": label.model}
    return {(label.run, label.eval): NOW.model_copy(update=own | changes)}


def changed(**changes: object) -> HumanLabel:
    return LABEL.model_copy(update=changes)


def test_the_same_failure_is_evidence_with_its_reviewer() -> None:
    assert precedents_from_labels([LABEL], LOOK, seen()) == (
        Precedent(
            report="p/m/old.md",
            date="2026-11-02",
            eval="a/1",
            step="tests",
            classification="OVERLY_STRICT",
            by_person=True,
            alike=True,
            cause="some-cause",
            error=ERROR,
            note="nobody asked",
            reviewer="Ada",
        ),
    )


def test_another_models_label_says_whose_it_is() -> None:
    theirs = changed(model="n/x", report="p/n/x/old.md")
    assert [one.model for one in precedents_from_labels([theirs], LOOK, seen(theirs))] == ["p/n/x"]


@pytest.mark.parametrize(
    "difference",
    [
        {"task": "t2"},
        {"grader": "g2"},
        {"task": None},
        {"signature": "tests: another"},
        {"signature": None},
        {"judged": False},
        {"experiment": "another"},
    ],
    ids=lambda difference: next(iter(difference)),
)
def test_another_version_or_another_failure_is_none(difference: dict[str, object]) -> None:
    assert precedents_from_labels([LABEL], LOOK, seen(**difference)) == ()


def test_what_the_store_has_not_seen_is_none() -> None:
    assert precedents_from_labels([LABEL], LOOK, {}) == ()


def test_the_runs_own_labels_are_never_its_history() -> None:
    own = changed(run="now")
    assert precedents_from_labels([own], LOOK, seen(own)) == ()
    assert examples_from_labels([own], LOOK, seen(own)) == ()


def test_trials_of_an_eval_are_the_same_eval() -> None:
    trial = changed(eval="a/1#2")
    (found,) = precedents_from_labels([trial], LOOK, seen(trial, eval="a/1"))
    assert found.eval == "a/1"


def names(*labels: HumanLabel) -> dict[str, str]:
    return {label.report: label.report.rpartition("/")[2] for label in labels}


def test_a_label_that_a_report_gives_already_is_told_once_with_its_reviewer() -> None:
    found = add_labels([EARLIER], [LABEL], LOOK, seen(), names(LABEL), {})
    assert found == (EARLIER.model_copy(update={"reviewer": "Ada", "alike": True}),)


@pytest.mark.parametrize("difference", [{"task": "t2"}, {"grader": "g2"}, {"signature": "tests: another"}])
@pytest.mark.parametrize("labels", [[LABEL], []], ids=["synced", "not yet"])
def test_what_is_known_to_be_another_failure_is_no_evidence(
    difference: dict[str, object], labels: list[HumanLabel]
) -> None:
    (found,) = add_labels([EARLIER], labels, LOOK, seen(**difference), names(LABEL), {"old.md": "old"})
    assert (found.by_person, found.reviewer) == (False, "Ada" if labels else "people")
    (found,) = add_labels([EARLIER], labels, LOOK, seen(), names(LABEL), {"old.md": "old"})
    assert (found.by_person, found.alike) == (True, True)


def test_without_a_fingerprint_the_words_of_the_report_decide() -> None:
    (found,) = add_labels([EARLIER], [LABEL], LOOK, {}, names(LABEL), {})
    assert (found.by_person, found.alike, found.reviewer) == (True, False, "Ada")


def test_an_overruled_label_stands_beside_the_one_in_force() -> None:
    ben = changed(reviewer="Ben", email="ben@example.org", label="MODEL_FAULT", in_force=False, date="2026-11-01")
    found = add_labels([EARLIER], [ben, LABEL], LOOK, seen(), names(LABEL), {})
    assert [(one.reviewer, one.classification) for one in found] == [("Ada", "OVERLY_STRICT"), ("Ben", "MODEL_FAULT")]
    assert disagreements([ben, LABEL]) == ((ben, LABEL),)
    assert disagreements([LABEL, changed(reviewer="Ben")]) == ()


def test_newest_first() -> None:
    newer = changed(run="newer", date="2026-12-01", report="p/m/newer.md")
    found = add_labels([EARLIER], [LABEL, newer], LOOK, seen() | seen(newer), names(LABEL, newer), {})
    assert [one.report for one in found] == ["newer.md", "old.md"]


def other(n: int, label: Classification = "KNOWN_GAP", **changes: object) -> HumanLabel:
    return changed(**{"run": f"r{n}", "eval": f"b/{n}", "label": label, "error": "x", "cause": "y"} | changes)


@pytest.mark.parametrize(
    ("label", "sighted", "why"),
    [
        pytest.param(other(1), {}, "the same error in another eval", id="signature"),
        pytest.param(other(1, error=ERROR), None, "the same error in another eval", id="words"),
        pytest.param(other(1, cause="ts2345"), {"signature": None}, "the same rule or code", id="code in the cause"),
        pytest.param(other(1, error="TS2345: x"), None, "the same rule or code", id="code in the error"),
        pytest.param(other(1, cause="takes-no-argument"), None, "the same cause", id="cause"),
    ],
)
def test_similar_failures_are_examples(label: HumanLabel, sighted: dict[str, object] | None, why: str) -> None:
    (found,) = examples_from_labels([label], LOOK, {} if sighted is None else seen(label, **sighted))
    assert found.why.startswith(why)
    assert (found.eval, found.label, found.reviewer, found.note) == ("b/1", "KNOWN_GAP", "Ada", "nobody asked")


@pytest.mark.parametrize(
    ("label", "sighted"),
    [
        pytest.param(LABEL, {}, id="the same failure, which is evidence"),
        pytest.param(LABEL, {"signature": "tests: another"}, id="another failure of the same version"),
        pytest.param(LABEL, None, id="this eval in a version that is not known"),
        pytest.param(other(1), {"signature": "tests: another"}, id="nothing in common"),
        pytest.param(other(1, error="Tests failed"), None, id="a stock message"),
        pytest.param(other(1, error="x TS23456 y"), None, id="a longer code"),
        pytest.param(other(1, error="TS2345", step="types"), None, id="the code at another step"),
        pytest.param(other(1, in_force=False), {}, id="overruled"),
    ],
)
def test_what_is_no_example(label: HumanLabel, sighted: dict[str, object] | None) -> None:
    assert examples_from_labels([label], LOOK, {} if sighted is None else seen(label, **sighted)) == ()


@pytest.mark.parametrize(
    ("difference", "why"),
    [
        ({"grader": "g2"}, "the same error in another version of this eval"),
        ({"task": "t2", "signature": "tests: another"}, "another version of this eval"),
    ],
)
def test_another_version_of_the_eval_is_an_example(difference: dict[str, object], why: str) -> None:
    (found,) = examples_from_labels([LABEL], LOOK, seen(**difference))
    assert (found.eval, found.label, found.why) == ("a/1", "OVERLY_STRICT", why)


def test_what_people_disagree_about_is_no_example() -> None:
    labels = [other(1), other(1, "MODEL_FAULT", reviewer="Ben", email="ben@example.org", in_force=False)]
    assert examples_from_labels(labels, LOOK, seen(labels[0])) == ()
    assert [(one.label, one.count) for one in count_similar(labels, LOOK, seen(labels[0]))] == [
        ("KNOWN_GAP", 1),
        ("MODEL_FAULT", 1),
    ]


def test_labels_of_similar_failures_are_counted() -> None:
    """Each person once for a group, with the newest label, and more often than there are examples."""
    labels = [
        *(other(n, date=f"2026-11-0{n}") for n in range(1, 6)),
        other(6, group="g"),
        other(6, group="g", eval="b/7"),
        other(8, "MODEL_FAULT", date="2026-11-01"),
        other(8, "OVERLY_STRICT", date="2026-11-02"),
        other(9, "MODEL_FAULT", cause="nothing in common"),
    ]
    sighted = {key: value for label in labels[:-1] for key, value in seen(label).items()}
    assert [(one.label, one.count) for one in count_similar(labels, LOOK, sighted)] == [
        ("KNOWN_GAP", 6),
        ("OVERLY_STRICT", 1),
    ]
    assert len(examples_from_labels(labels, LOOK, sighted)) < 7


def test_the_same_error_in_other_tests_is_not_known_to_be_the_same_failure() -> None:
    """The code under test can throw any text, and the label of the same failure decides without a judge."""
    assert precedents_from_labels([LABEL], LOOK, seen(checks="c2")) == ()
    (found,) = add_labels([EARLIER], [LABEL], LOOK, seen(checks="c2"), names(LABEL), {})
    assert (found.by_person, found.alike) == (True, False)


def test_the_persons_kind_of_cause_is_known_for_the_same_failure() -> None:
    label = changed(cause_kind="harness")
    assert [one.cause_kind for one in precedents_from_labels([label], LOOK, seen())] == ["harness"]
    assert add_labels([EARLIER], [label], LOOK, seen(), names(label), {})[0].cause_kind == "harness"
    assert add_labels([EARLIER], [label], LOOK, {}, names(label), {})[0].cause_kind is None


def test_few_examples_of_no_label_too_many_most_alike_then_newest() -> None:
    labels = [
        other(1, date="2026-11-01"),
        other(2, date="2026-11-05"),
        other(3, date="2026-11-09"),
        other(4, "MODEL_FAULT", cause="takes-no-argument", date="2026-12-01"),
        other(5, "MODEL_FAULT", error="TS2345"),
        other(6, "OVERLY_STRICT", cause="takes-no-argument"),
    ]
    sighted = {key: value for label in labels[:3] for key, value in seen(label).items()}
    found = examples_from_labels(labels, LOOK, sighted)
    assert [one.eval for one in found] == ["b/3", "b/2", "b/5", "b/4"]
    assert len(found) == MOST
    assert MOST_OF_A_LABEL == 2


def test_one_eval_is_one_example_for_a_label() -> None:
    labels = [other(1), other(1, run="r2")]
    assert len(examples_from_labels(labels, LOOK, seen(labels[0]) | seen(labels[1]))) == 1

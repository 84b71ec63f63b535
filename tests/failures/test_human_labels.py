"""Human labels: precedents for the same failure, examples for similar failures, or neither."""

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
CURRENT = CurrentFailure(fingerprint=NOW, path="a/1", error=ERROR, code="TS2345", cause="takes-no-argument")
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


def stored_fingerprints(label: HumanLabel = LABEL, **changes: object) -> dict[tuple[str, str], FailureFingerprint]:
    """Return the stored fingerprint of the labelled failure: the current one with the changes."""
    own = {"run": label.run, "eval": label.eval, "model": label.model}
    return {(label.run, label.eval): NOW.model_copy(update=own | changes)}


def label_with(**changes: object) -> HumanLabel:
    return LABEL.model_copy(update=changes)


def test_label_of_the_same_failure_is_a_precedent_with_its_reviewer() -> None:
    assert precedents_from_labels([LABEL], CURRENT, stored_fingerprints()) == (
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


def test_label_of_another_model_names_the_model() -> None:
    theirs = label_with(model="n/x", report="p/n/x/old.md")
    assert [one.model for one in precedents_from_labels([theirs], CURRENT, stored_fingerprints(theirs))] == ["p/n/x"]


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
def test_label_of_another_version_or_failure_is_no_precedent(difference: dict[str, object]) -> None:
    assert precedents_from_labels([LABEL], CURRENT, stored_fingerprints(**difference)) == ()


def test_label_of_a_failure_not_in_the_store_is_no_precedent() -> None:
    assert precedents_from_labels([LABEL], CURRENT, {}) == ()


def test_labels_of_the_same_run_are_ignored() -> None:
    own = label_with(run="now")
    assert precedents_from_labels([own], CURRENT, stored_fingerprints(own)) == ()
    assert examples_from_labels([own], CURRENT, stored_fingerprints(own)) == ()


def test_label_of_a_trial_counts_for_its_eval() -> None:
    trial = label_with(eval="a/1#2")
    (precedent,) = precedents_from_labels([trial], CURRENT, stored_fingerprints(trial, eval="a/1"))
    assert precedent.eval == "a/1"


def names(*labels: HumanLabel) -> dict[str, str]:
    return {label.report: label.report.rpartition("/")[2] for label in labels}


def test_label_already_in_a_report_is_listed_once_with_its_reviewer() -> None:
    precedents = add_labels([EARLIER], [LABEL], CURRENT, stored_fingerprints(), names(LABEL), {})
    assert precedents == (EARLIER.model_copy(update={"reviewer": "Ada", "alike": True}),)


@pytest.mark.parametrize("difference", [{"task": "t2"}, {"grader": "g2"}, {"signature": "tests: another"}])
@pytest.mark.parametrize("labels", [[LABEL], []], ids=["synced", "not yet"])
def test_precedent_counts_as_human_only_for_the_same_failure(
    difference: dict[str, object], labels: list[HumanLabel]
) -> None:
    (precedent,) = add_labels(
        [EARLIER], labels, CURRENT, stored_fingerprints(**difference), names(LABEL), {"old.md": "old"}
    )
    assert (precedent.by_person, precedent.reviewer) == (False, "Ada" if labels else "people")
    (precedent,) = add_labels([EARLIER], labels, CURRENT, stored_fingerprints(), names(LABEL), {"old.md": "old"})
    assert (precedent.by_person, precedent.alike) == (True, True)


def test_precedent_without_a_fingerprint_stays_human_but_not_alike() -> None:
    (precedent,) = add_labels([EARLIER], [LABEL], CURRENT, {}, names(LABEL), {})
    assert (precedent.by_person, precedent.alike, precedent.reviewer) == (True, False, "Ada")


def test_overruled_label_is_listed_beside_the_one_in_force() -> None:
    ben = label_with(reviewer="Ben", email="ben@example.org", label="MODEL_FAULT", in_force=False, date="2026-11-01")
    precedents = add_labels([EARLIER], [ben, LABEL], CURRENT, stored_fingerprints(), names(LABEL), {})
    assert [(one.reviewer, one.classification) for one in precedents] == [
        ("Ada", "OVERLY_STRICT"),
        ("Ben", "MODEL_FAULT"),
    ]
    assert disagreements([ben, LABEL]) == ((ben, LABEL),)
    assert disagreements([LABEL, label_with(reviewer="Ben")]) == ()


def test_precedents_are_sorted_newest_first() -> None:
    newer = label_with(run="newer", date="2026-12-01", report="p/m/newer.md")
    precedents = add_labels(
        [EARLIER], [LABEL, newer], CURRENT, stored_fingerprints() | stored_fingerprints(newer), names(LABEL, newer), {}
    )
    assert [one.report for one in precedents] == ["newer.md", "old.md"]


def other_label(n: int, label: Classification = "KNOWN_GAP", **changes: object) -> HumanLabel:
    return label_with(**{"run": f"r{n}", "eval": f"b/{n}", "label": label, "error": "x", "cause": "y"} | changes)


@pytest.mark.parametrize(
    ("label", "sighted", "why"),
    [
        pytest.param(other_label(1), {}, "the same error in another eval", id="signature"),
        pytest.param(other_label(1, error=ERROR), None, "the same error in another eval", id="words"),
        pytest.param(
            other_label(1, cause="ts2345"), {"signature": None}, "the same rule or code", id="code in the cause"
        ),
        pytest.param(other_label(1, error="TS2345: x"), None, "the same rule or code", id="code in the error"),
        pytest.param(other_label(1, cause="takes-no-argument"), None, "the same cause", id="cause"),
    ],
)
def test_label_of_a_similar_failure_is_an_example(
    label: HumanLabel, sighted: dict[str, object] | None, why: str
) -> None:
    (example,) = examples_from_labels(
        [label], CURRENT, {} if sighted is None else stored_fingerprints(label, **sighted)
    )
    assert example.why.startswith(why)
    assert (example.eval, example.label, example.reviewer, example.note) == ("b/1", "KNOWN_GAP", "Ada", "nobody asked")


@pytest.mark.parametrize(
    ("label", "sighted"),
    [
        pytest.param(LABEL, {}, id="the same failure, which is evidence"),
        pytest.param(LABEL, {"signature": "tests: another"}, id="another failure of the same version"),
        pytest.param(LABEL, None, id="this eval in a version that is not known"),
        pytest.param(other_label(1), {"signature": "tests: another"}, id="nothing in common"),
        pytest.param(other_label(1, error="Tests failed"), None, id="a stock message"),
        pytest.param(other_label(1, error="x TS23456 y"), None, id="a longer code"),
        pytest.param(other_label(1, error="TS2345", step="types"), None, id="the code at another step"),
        pytest.param(other_label(1, in_force=False), {}, id="overruled"),
    ],
)
def test_unsuitable_label_is_no_example(label: HumanLabel, sighted: dict[str, object] | None) -> None:
    assert (
        examples_from_labels([label], CURRENT, {} if sighted is None else stored_fingerprints(label, **sighted)) == ()
    )


@pytest.mark.parametrize(
    ("difference", "why"),
    [
        ({"grader": "g2"}, "the same error in another version of this eval"),
        ({"task": "t2", "signature": "tests: another"}, "another version of this eval"),
    ],
)
def test_label_of_another_version_of_the_eval_is_an_example(difference: dict[str, object], why: str) -> None:
    (example,) = examples_from_labels([LABEL], CURRENT, stored_fingerprints(**difference))
    assert (example.eval, example.label, example.why) == ("a/1", "OVERLY_STRICT", why)


def test_disputed_label_is_no_example() -> None:
    labels = [other_label(1), other_label(1, "MODEL_FAULT", reviewer="Ben", email="ben@example.org", in_force=False)]
    assert examples_from_labels(labels, CURRENT, stored_fingerprints(labels[0])) == ()
    assert [(one.label, one.count) for one in count_similar(labels, CURRENT, stored_fingerprints(labels[0]))] == [
        ("KNOWN_GAP", 1),
        ("MODEL_FAULT", 1),
    ]


def test_labels_of_similar_failures_are_counted() -> None:
    """Each reviewer counts once per group, with the newest label; there may be fewer examples than labels."""
    labels = [
        *(other_label(n, date=f"2026-11-0{n}") for n in range(1, 6)),
        other_label(6, group="g"),
        other_label(6, group="g", eval="b/7"),
        other_label(8, "MODEL_FAULT", date="2026-11-01"),
        other_label(8, "OVERLY_STRICT", date="2026-11-02"),
        other_label(9, "MODEL_FAULT", cause="nothing in common"),
    ]
    sighted = {key: value for label in labels[:-1] for key, value in stored_fingerprints(label).items()}
    assert [(one.label, one.count) for one in count_similar(labels, CURRENT, sighted)] == [
        ("KNOWN_GAP", 6),
        ("OVERLY_STRICT", 1),
    ]
    assert len(examples_from_labels(labels, CURRENT, sighted)) < 7


def test_same_error_in_other_tests_is_not_the_same_failure() -> None:
    """The code under test can throw any text, and the label of the same failure decides without a judge."""
    assert precedents_from_labels([LABEL], CURRENT, stored_fingerprints(checks="c2")) == ()
    (precedent,) = add_labels([EARLIER], [LABEL], CURRENT, stored_fingerprints(checks="c2"), names(LABEL), {})
    assert (precedent.by_person, precedent.alike) == (True, False)


def test_cause_kind_of_a_label_is_used_only_for_the_same_failure() -> None:
    label = label_with(cause_kind="harness")
    assert [one.cause_kind for one in precedents_from_labels([label], CURRENT, stored_fingerprints())] == ["harness"]
    assert add_labels([EARLIER], [label], CURRENT, stored_fingerprints(), names(label), {})[0].cause_kind == "harness"
    assert add_labels([EARLIER], [label], CURRENT, {}, names(label), {})[0].cause_kind is None


def test_examples_are_limited_per_label_and_sorted_by_similarity_then_date() -> None:
    labels = [
        other_label(1, date="2026-11-01"),
        other_label(2, date="2026-11-05"),
        other_label(3, date="2026-11-09"),
        other_label(4, "MODEL_FAULT", cause="takes-no-argument", date="2026-12-01"),
        other_label(5, "MODEL_FAULT", error="TS2345"),
        other_label(6, "OVERLY_STRICT", cause="takes-no-argument"),
    ]
    sighted = {key: value for label in labels[:3] for key, value in stored_fingerprints(label).items()}
    examples = examples_from_labels(labels, CURRENT, sighted)
    assert [one.eval for one in examples] == ["b/3", "b/2", "b/5", "b/4"]
    assert len(examples) == MOST
    assert MOST_OF_A_LABEL == 2


def test_eval_gives_one_example_per_label() -> None:
    labels = [other_label(1), other_label(1, run="r2")]
    assert (
        len(examples_from_labels(labels, CURRENT, stored_fingerprints(labels[0]) | stored_fingerprints(labels[1]))) == 1
    )

"""What labels say of judges and of reviewers."""

import pytest

from evalscribe.model.finding import Classification, HumanLabel
from evalscribe.reports.review import JudgedFailure, agreement_stats, calibration, labels_in_force, verdicts


def label(
    n: int,
    said: Classification = "MODEL_FAULT",
    judged: Classification | None = "MODEL_FAULT",
    *,
    who: str = "Ada",
    judge: str = "rules@1",
    in_force: bool = True,
    report: str = "p/m/a.md",
    group: str | None = None,
) -> HumanLabel:
    return HumanLabel(
        run="r",
        provider="p",
        model="m",
        experiment="default",
        eval=f"a/{n}",
        group=group,
        label=said,
        reviewer=who,
        email=who,
        commit="c",
        date="2026-11-02",
        report=report,
        judge=judge if judged else None,
        judged=judged,
        in_force=in_force,
    )


ALL = {("r", f"a/{n}"): JudgedFailure("rules@2", "MODEL_FAULT", None) for n in range(10)}


def test_a_judge_beside_people() -> None:
    found = agreement_stats([label(1), label(2), label(3, "OVERLY_STRICT")], ALL)
    (row,) = found.judges
    assert (row.judge, row.labelled, row.agreed, row.agreement) == ("rules@1", 3, 2, pytest.approx(2 / 3))
    assert row.interval == pytest.approx((0.2077, 0.9385), abs=1e-3)
    assert row.confusion["OVERLY_STRICT"]["MODEL_FAULT"] == 1
    fault = next(one for one in row.labels if one.label == "MODEL_FAULT")
    assert (fault.precision, fault.recall) == (pytest.approx(2 / 3), 1.0)
    assert (found.coverage.findings, found.coverage.reviewed) == (10, 3)
    assert calibration(row).agreement == row.agreement


def test_several_judges_together_and_each() -> None:
    found = agreement_stats([label(1), label(2, "KNOWN_GAP", judge="rules@2")], ALL)
    assert [(row.judge, row.labelled, row.agreed) for row in found.judges] == [
        ("all", 2, 1),
        ("rules@1", 1, 1),
        ("rules@2", 1, 0),
    ]


def test_an_overruled_label_is_no_truth() -> None:
    found = agreement_stats([label(1, "KNOWN_GAP", in_force=False), label(1, who="Ben")], ALL)
    assert (found.labels, found.judges[0].agreed, found.judges[0].labelled) == (1, 1, 1)


def test_two_who_agree_are_one_truth_and_two_reports_that_do_not_are_none() -> None:
    assert len(labels_in_force([label(1), label(1, who="Ben")])) == 1
    assert labels_in_force([label(1), label(1, "KNOWN_GAP", report="p/m/b.md")]) == ()


def test_what_people_wrote_themselves_tells_nothing_of_a_judge() -> None:
    found = agreement_stats([label(1, judged=None)], {})
    assert (found.judges, found.coverage.reviewed) == ((), 0)


def test_what_people_wrote_themselves_is_compared_with_a_judge_of_the_same_run() -> None:
    own = [label(1, judged=None), label(2, "KNOWN_GAP", judged=None), label(3)]
    (_, first, second) = agreement_stats(own, ALL).judges
    assert [(row.judge, row.labelled, row.agreed) for row in (first, second)] == [("rules@1", 1, 1), ("rules@2", 2, 1)]
    grouped = {subject: said._replace(group="all of them") for subject, said in ALL.items()}
    (row,) = agreement_stats([label(n, judged=None) for n in range(9)], grouped).judges
    assert (row.labelled, row.agreed) == (1, 1)


def test_reviewers_are_compared_where_both_labelled_a_failure() -> None:
    shared = [label(n, "KNOWN_GAP" if n == 3 else "MODEL_FAULT", who="Ben", in_force=n != 3) for n in (1, 2, 3)]
    found = agreement_stats([*(label(n) for n in (1, 2, 3)), *shared, label(1, who="Cy")], ALL)
    row, with_cy, _ = found.between
    assert (with_cy.reviewers, with_cy.shared, with_cy.agreed, with_cy.kappa) == (("Ada", "Cy"), 1, 1, None)
    assert (row.reviewers, row.shared, row.agreed) == (("Ada", "Ben"), 3, 2)
    assert row.kappa is not None
    assert row.kappa.value == pytest.approx(0.0)


def test_a_verdict_on_a_group_counts_once() -> None:
    group = [label(n, group="all of them") for n in range(72)]
    found = agreement_stats(
        [*group, *(one.model_copy(update={"reviewer": "Ben"}) for one in group), label(80, "KNOWN_GAP")], ALL
    )
    assert (found.judges[0].labelled, found.judges[0].agreed, found.coverage.reviewed) == (2, 1, 10)
    assert [(row.shared, row.agreed) for row in found.between] == [(1, 1)]
    assert [one.eval for one in verdicts(group)] == ["a/0"]

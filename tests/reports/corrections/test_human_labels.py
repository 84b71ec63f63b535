"""Who gave which label, out of versions of a report as git tells them."""

from collections.abc import Sequence

import pytest

from evalscribe.model.analysis import Analysis, AnalyzedRun, FindingSummary, JudgeOpinion, ReviewerOpinion
from evalscribe.model.finding import CauseKind, Classification, HumanLabel
from evalscribe.model.repository import FileVersion
from evalscribe.reports.corrections import LabelOrigin, labels_of_versions, run_of

M: Classification = "MODEL_FAULT"
S: Classification = "OVERLY_STRICT"
A: Classification = "AMBIGUOUS_TASK"
ABOUT = LabelOrigin(report="p/m/a.md", run="run1", provider="p", model="m", experiment="default")


def finding(
    label: Classification | None = M,
    *said: str,
    judge: Classification | None = M,
    kind: CauseKind = "model",
    eval: str = "a/1",
    uncertain: bool = False,
) -> FindingSummary:
    """A finding as a report of ours says it; `judge` None for a report that a person wrote."""
    reviewed = bool(said) or label != judge
    return FindingSummary(
        eval=eval,
        step="tests",
        classification=label,
        cause_kind=kind,
        uncertain=uncertain,
        error="TypeError: x",
        judge=JudgeOpinion(id="rules@1", classification=judge, confidence=0.8) if judge else None,
        reviewer=ReviewerOpinion(label=label, note="\n".join(said) or None) if reviewed and judge else None,
    )


def report(*findings: FindingSummary, revision: int | None = 1) -> Analysis:
    return Analysis(run=AnalyzedRun(id="run1"), revision=revision, findings=findings)


class Told:
    """Versions, each after the one before unless said otherwise; a report that is None cannot be read."""

    def __init__(self) -> None:
        self.versions: list[FileVersion] = []
        self.texts: dict[str, Analysis | None] = {}

    def by(self, author: str, said: Analysis | None, *, before: Sequence[str] | None = None, gone: bool = False) -> str:
        number = len(self.versions) + 1
        after = tuple(before) if before is not None else (f"c{number - 1}",) if number > 1 else ()
        self.texts[f"text {number}"] = said
        self.versions.append(
            FileVersion(
                commit=f"c{number}",
                author=author,
                email=f"{author}@example.org",
                date=f"2026-11-{number:02}",
                text=None if gone else f"text {number}",
                before=after,
            )
        )
        return f"c{number}"

    @property
    def labels(self) -> tuple[HumanLabel, ...]:
        return labels_of_versions(self.versions, lambda page: self.texts[page.text], ABOUT)

    @property
    def said(self) -> list[tuple[str, str, bool]]:
        return [(label.reviewer, label.label, label.in_force) for label in self.labels]


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_correction_is_its_authors_with_all_that_is_known_of_it(told: Told) -> None:
    told.by("bot", report(finding()))
    told.by("Ada", report(finding(S, "too strict", kind="lint")))
    assert told.labels == (
        HumanLabel(
            run="run1",
            provider="p",
            model="m",
            experiment="default",
            eval="a/1",
            label=S,
            cause_kind="lint",
            error="TypeError: x",
            step="tests",
            note="too strict",
            reviewer="Ada",
            email="Ada@example.org",
            commit="c2",
            date="2026-11-02",
            report="p/m/a.md",
            judge="rules@1",
            judged=M,
            confidence=0.8,
        ),
    )


def test_nobodys_silence_is_a_label(told: Told) -> None:
    told.by("bot", report(finding(), finding(eval="a/2")))
    told.by("Ada", report(finding(M, "yes"), finding(eval="a/2")))
    assert [(label.eval, label.label, label.judged) for label in told.labels] == [("a/1", M, M)]


def test_reviewed_in_the_first_version(told: Told) -> None:
    told.by("Ada", report(finding(S)))
    assert told.said == [("Ada", S, True)]


def test_a_newer_analysis_carries_a_correction_over(told: Told) -> None:
    told.by("bot", report(finding()))
    told.by("Ada", report(finding(S, "too strict")))
    told.by("bot", report(finding(S, "too strict", kind="grader"), revision=2))
    assert told.said == [("Ada", S, True)]
    assert told.labels[0].commit == "c2"


def test_a_kind_that_a_person_changed_is_theirs(told: Told) -> None:
    told.by("Ada", report(finding(S, "too strict")))
    told.by("Ben", report(finding(S, "too strict", kind="harness")))
    assert [(one.reviewer, one.cause_kind) for one in told.labels] == [("Ada", "model"), ("Ben", "harness")]


def test_the_judge_comes_over_to_the_person(told: Told) -> None:
    """Our own line that says so is no label of whoever commits it."""
    told.by("bot", report(finding()))
    told.by("Ada", report(finding(S)))
    told.by("bot", report(finding(S, "OVERLY_STRICT, before the judge said so", judge=S), revision=2))
    assert told.said == [("Ada", S, True)]
    assert told.labels[0].judged == M


@pytest.mark.parametrize("line_first", [True, False])
def test_who_made_a_verdict_certain_is_named_and_not_who_analyses_again(told: Told, line_first: bool) -> None:
    """A newer analysis takes it for a correction, and adds the line that says so."""
    told.by("bot", report(finding(uncertain=True)))
    told.by("Ada", report(finding()))
    told.by("bot", report(finding(), finding(eval="a/2")))
    assert told.said == []
    told.by("Ben" if line_first else "bot", report(finding(M, "not uncertain"), revision=1 if line_first else 2))
    told.by("bot", report(finding(M, "not uncertain"), revision=3))
    assert [label.reviewer for label in told.labels] == ["Ben" if line_first else "Ada"]


def test_who_only_formats_gives_no_label(told: Told) -> None:
    told.by("Ada", report(finding(S, "the *grader* wants x_y, * see it")))
    told.by("Ben", report(finding(S, "the _grader_ wants x\\_y, \\* see  it")))
    assert [(label.reviewer, label.note) for label in told.labels] == [("Ada", "the *grader* wants x_y, * see it")]
    told.by("Ben", report(finding(S, "the _grader_ wants x\\_y, \\* see  it", "\N{THUMBS UP SIGN}")))
    assert [label.reviewer for label in told.labels] == ["Ada", "Ben"]


def test_of_one_persons_two_labels_a_merge_keeps_the_later(told: Told) -> None:
    """Of one day, or of wrong clocks: what came after in history is later."""
    base = told.by("Ada", report(finding(S), finding(eval="a/2")))
    pr = told.by("Ada", report(finding(A), finding(eval="a/2")), before=[base])
    main = told.by("Cy", report(finding(S), finding(S, eval="a/2")), before=[base])
    told.versions[1] = told.versions[1].model_copy(update={"date": "2026-10-01"})
    told.by("Cy", report(finding(A), finding(S, eval="a/2")), before=[pr, main])
    assert told.said == [("Ada", A, True), ("Cy", S, True)]


def test_of_one_persons_two_labels_on_two_branches_the_one_in_force_is_kept(told: Told) -> None:
    base = told.by("bot", report(finding()))
    ours = told.by("Ada", report(finding(S)), before=[base])
    theirs = told.by("Ada", report(finding(A)), before=[base])
    told.by("Cy", report(finding(S)), before=[ours, theirs])
    assert told.said == [("Ada", S, True)]


def test_who_merges_the_words_of_two_people_gives_no_label(told: Told) -> None:
    base = told.by("bot", report(finding()))
    ours = told.by("Ada", report(finding(S, "too strict")), before=[base])
    theirs = told.by("Ben", report(finding(A, "unclear")), before=[base])
    told.by("Cy", report(finding(A, "unclear", "too strict")), before=[ours, theirs])
    assert told.said == [("Ada", S, False), ("Ben", A, True)]


def test_taking_a_correction_back_withdraws_it(told: Told) -> None:
    told.by("bot", report(finding()))
    told.by("Ada", report(finding(S, "too strict")))
    told.by("Ada", report(finding()))
    assert told.labels == ()


def test_who_corrects_again_has_one_label(told: Told) -> None:
    told.by("bot", report(finding()))
    told.by("Ada", report(finding(S)))
    told.by("Ada", report(finding(A)))
    assert told.said == [("Ada", A, True)]


def test_reviewers_who_disagree_are_both_kept(told: Told) -> None:
    told.by("bot", report(finding()))
    told.by("Ada", report(finding(S, "too strict")))
    told.by("Ben", report(finding(M, "too strict", "no: the task says so")))
    assert told.said == [("Ada", S, False), ("Ben", M, True)]
    assert [label.note for label in told.labels] == ["too strict", "no: the task says so"]


def test_reviewers_who_agree_are_both_kept(told: Told) -> None:
    told.by("Ada", report(finding(S, "too strict")))
    told.by("Ben", report(finding(S, "too strict", "yes")))
    assert told.said == [("Ada", S, True), ("Ben", S, True)]


def test_words_that_were_taken_back_are_gone_and_the_label_stays(told: Told) -> None:
    told.by("Ada", report(finding(S, "too strict", "and my key is 1")))
    told.by("Ben", report(finding(S, "too strict")))
    assert [(label.reviewer, label.note) for label in told.labels] == [("Ada", "too strict")]


@pytest.mark.parametrize("gone", [True, False])
def test_what_cannot_be_read_is_passed_over(told: Told, gone: bool) -> None:
    told.by("bot", report(finding(), finding(S, judge=S, eval="a/2")))
    told.by("Ada", report(finding(S), finding(S, judge=S, eval="a/2")))
    told.by("Ben", None, gone=gone)
    assert told.said == [("Ada", S, True)]
    told.by("Cy", report(finding(S), finding(A, judge=S, eval="a/2")))
    assert told.said == [("Ada", S, True), ("Cy", A, True)]


def test_a_merge_gives_nothing_that_either_side_said(told: Told) -> None:
    base = told.by("bot", report(finding(), finding(eval="a/2")))
    ours = told.by("Ada", report(finding(S), finding(eval="a/2")), before=[base])
    theirs = told.by("Ben", report(finding(), finding(A, eval="a/2")), before=[base])
    told.by("Cy", report(finding(S), finding(A, eval="a/2")), before=[ours, theirs])
    assert told.said == [("Ada", S, True), ("Ben", A, True)]


def test_a_conflict_that_a_merge_resolves(told: Told) -> None:
    base = told.by("bot", report(finding()))
    ours = told.by("Ada", report(finding(S)), before=[base])
    theirs = told.by("Ben", report(finding(A)), before=[base])
    told.by("Cy", report(finding(A)), before=[ours, theirs])
    assert told.said == [("Ada", S, False), ("Ben", A, True)]
    told.by("Cy", report(finding("KNOWN_GAP")), before=["c4"])
    assert told.said == [("Ada", S, False), ("Ben", A, False), ("Cy", "KNOWN_GAP", True)]


def test_a_report_that_people_wrote_gives_all_its_labels(told: Told) -> None:
    one, other = finding(M, judge=None), finding(S, judge=None, eval="a/2")
    told.by("Ada", report(one, other, finding(None, judge=None, eval="a/3"), revision=None))
    told.by("Ben", report(one, finding(A, judge=None, eval="a/2"), revision=None))
    assert [(label.eval, label.reviewer, label.label, label.judge) for label in told.labels] == [
        ("a/1", "Ada", M, None),
        ("a/2", "Ada", S, None),
        ("a/2", "Ben", A, None),
    ]


def test_every_member_of_a_group_is_labelled(told: Told) -> None:
    told.by("bot", report(*(finding(eval=f"a/{n}") for n in range(3))))
    told.by("Ada", report(*(finding(S, eval=f"a/{n}") for n in range(3))))
    assert [label.eval for label in told.labels] == ["a/0", "a/1", "a/2"]


def test_the_run_of_a_report_without_an_id_is_in_its_name() -> None:
    nameless = Analysis(run=AnalyzedRun())
    assert run_of(nameless, "p/m/jn7922_2026-02-06.md") == "jn7922"
    assert run_of(report(), "p/m/other.md") == "run1"


def test_no_version_no_label(told: Told) -> None:
    assert told.labels == ()

"""Human labels and their reviewers, derived from the git versions of a report."""

from collections.abc import Sequence

import pytest

from evalscribe.model.analysis import Analysis, AnalyzedRun, FindingSummary, JudgeOpinion, ReviewerOpinion
from evalscribe.model.finding import CauseKind, Classification, HumanLabel
from evalscribe.model.repository import FileVersion
from evalscribe.reports.corrections import LabelOrigin, labels_of_versions, run_of

M: Classification = "MODEL_FAULT"
S: Classification = "OVERLY_STRICT"
A: Classification = "AMBIGUOUS_TASK"
ORIGIN = LabelOrigin(report="p/m/a.md", run="run1", provider="p", model="m", experiment="default")


def finding(
    label: Classification | None = M,
    *notes: str,
    judge: Classification | None = M,
    kind: CauseKind = "model",
    eval: str = "a/1",
    uncertain: bool = False,
) -> FindingSummary:
    """Create a finding of an evalscribe report. `judge` is None in a report that a person wrote."""
    reviewed = bool(notes) or label != judge
    return FindingSummary(
        eval=eval,
        step="tests",
        classification=label,
        cause_kind=kind,
        uncertain=uncertain,
        error="TypeError: x",
        judge=JudgeOpinion(id="rules@1", classification=judge, confidence=0.8) if judge else None,
        reviewer=ReviewerOpinion(label=label, note="\n".join(notes) or None) if reviewed and judge else None,
    )


def report(*findings: FindingSummary, revision: int | None = 1) -> Analysis:
    return Analysis(run=AnalyzedRun(id="run1"), revision=revision, findings=findings)


class VersionHistory:
    """Versions of a report. Each follows the previous one unless `before` is given. A report of None is unreadable."""

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
        return labels_of_versions(self.versions, lambda page: self.texts[page.text], ORIGIN)

    @property
    def said(self) -> list[tuple[str, str, bool]]:
        return [(label.reviewer, label.label, label.in_force) for label in self.labels]


@pytest.fixture
def history() -> VersionHistory:
    return VersionHistory()


def test_correction_becomes_a_label_of_its_author_with_all_known_fields(history: VersionHistory) -> None:
    history.by("bot", report(finding()))
    history.by("Ada", report(finding(S, "too strict", kind="lint")))
    assert history.labels == (
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


def test_finding_without_a_review_gives_no_label(history: VersionHistory) -> None:
    history.by("bot", report(finding(), finding(eval="a/2")))
    history.by("Ada", report(finding(M, "yes"), finding(eval="a/2")))
    assert [(label.eval, label.label, label.judged) for label in history.labels] == [("a/1", M, M)]


def test_correction_in_the_first_version_is_a_label(history: VersionHistory) -> None:
    history.by("Ada", report(finding(S)))
    assert history.said == [("Ada", S, True)]


def test_correction_carried_over_by_a_newer_analysis_stays_with_its_author(history: VersionHistory) -> None:
    history.by("bot", report(finding()))
    history.by("Ada", report(finding(S, "too strict")))
    history.by("bot", report(finding(S, "too strict", kind="grader"), revision=2))
    assert history.said == [("Ada", S, True)]
    assert history.labels[0].commit == "c2"


def test_changed_cause_kind_is_a_label_of_the_person_who_changed_it(history: VersionHistory) -> None:
    history.by("Ada", report(finding(S, "too strict")))
    history.by("Ben", report(finding(S, "too strict", kind="harness")))
    assert [(one.reviewer, one.cause_kind) for one in history.labels] == [("Ada", "model"), ("Ben", "harness")]


def test_judge_that_later_agrees_with_a_correction_gives_no_label(history: VersionHistory) -> None:
    """The note that evalscribe adds is not a label of the committer."""
    history.by("bot", report(finding()))
    history.by("Ada", report(finding(S)))
    history.by("bot", report(finding(S, "OVERLY_STRICT, before the judge said so", judge=S), revision=2))
    assert history.said == [("Ada", S, True)]
    assert history.labels[0].judged == M


@pytest.mark.parametrize("line_first", [True, False])
def test_removing_uncertain_is_a_label_of_the_person_and_not_of_the_next_analysis(
    history: VersionHistory, line_first: bool
) -> None:
    """A newer analysis takes the removal for a correction and adds the line `not uncertain`."""
    history.by("bot", report(finding(uncertain=True)))
    history.by("Ada", report(finding()))
    history.by("bot", report(finding(), finding(eval="a/2")))
    assert history.said == []
    history.by("Ben" if line_first else "bot", report(finding(M, "not uncertain"), revision=1 if line_first else 2))
    history.by("bot", report(finding(M, "not uncertain"), revision=3))
    assert [label.reviewer for label in history.labels] == ["Ben" if line_first else "Ada"]


def test_reformatting_a_note_gives_no_label(history: VersionHistory) -> None:
    history.by("Ada", report(finding(S, "the *grader* wants x_y, * see it")))
    history.by("Ben", report(finding(S, "the _grader_ wants x\\_y, \\* see  it")))
    assert [(label.reviewer, label.note) for label in history.labels] == [("Ada", "the *grader* wants x_y, * see it")]
    history.by("Ben", report(finding(S, "the _grader_ wants x\\_y, \\* see  it", "\N{THUMBS UP SIGN}")))
    assert [label.reviewer for label in history.labels] == ["Ada", "Ben"]


def test_merge_keeps_the_later_of_two_labels_by_one_person(history: VersionHistory) -> None:
    """The order is that of the history, since dates may be equal or wrong."""
    base = history.by("Ada", report(finding(S), finding(eval="a/2")))
    pr = history.by("Ada", report(finding(A), finding(eval="a/2")), before=[base])
    main = history.by("Cy", report(finding(S), finding(S, eval="a/2")), before=[base])
    history.versions[1] = history.versions[1].model_copy(update={"date": "2026-10-01"})
    history.by("Cy", report(finding(A), finding(S, eval="a/2")), before=[pr, main])
    assert history.said == [("Ada", A, True), ("Cy", S, True)]


def test_merge_keeps_the_label_in_force_if_one_person_labelled_on_two_branches(history: VersionHistory) -> None:
    base = history.by("bot", report(finding()))
    ours = history.by("Ada", report(finding(S)), before=[base])
    theirs = history.by("Ada", report(finding(A)), before=[base])
    history.by("Cy", report(finding(S)), before=[ours, theirs])
    assert history.said == [("Ada", S, True)]


def test_merging_the_notes_of_two_people_gives_no_label(history: VersionHistory) -> None:
    base = history.by("bot", report(finding()))
    ours = history.by("Ada", report(finding(S, "too strict")), before=[base])
    theirs = history.by("Ben", report(finding(A, "unclear")), before=[base])
    history.by("Cy", report(finding(A, "unclear", "too strict")), before=[ours, theirs])
    assert history.said == [("Ada", S, False), ("Ben", A, True)]


def test_reverted_correction_gives_no_label(history: VersionHistory) -> None:
    history.by("bot", report(finding()))
    history.by("Ada", report(finding(S, "too strict")))
    history.by("Ada", report(finding()))
    assert history.labels == ()


def test_second_correction_by_one_person_replaces_the_first(history: VersionHistory) -> None:
    history.by("bot", report(finding()))
    history.by("Ada", report(finding(S)))
    history.by("Ada", report(finding(A)))
    assert history.said == [("Ada", A, True)]


def test_reviewers_who_disagree_are_both_kept(history: VersionHistory) -> None:
    history.by("bot", report(finding()))
    history.by("Ada", report(finding(S, "too strict")))
    history.by("Ben", report(finding(M, "too strict", "no: the task says so")))
    assert history.said == [("Ada", S, False), ("Ben", M, True)]
    assert [label.note for label in history.labels] == ["too strict", "no: the task says so"]


def test_reviewers_who_agree_are_both_kept(history: VersionHistory) -> None:
    history.by("Ada", report(finding(S, "too strict")))
    history.by("Ben", report(finding(S, "too strict", "yes")))
    assert history.said == [("Ada", S, True), ("Ben", S, True)]


def test_deleted_note_is_dropped_and_the_label_stays(history: VersionHistory) -> None:
    history.by("Ada", report(finding(S, "too strict", "and my key is 1")))
    history.by("Ben", report(finding(S, "too strict")))
    assert [(label.reviewer, label.note) for label in history.labels] == [("Ada", "too strict")]


@pytest.mark.parametrize("gone", [True, False])
def test_unreadable_or_deleted_version_is_skipped(history: VersionHistory, gone: bool) -> None:
    history.by("bot", report(finding(), finding(S, judge=S, eval="a/2")))
    history.by("Ada", report(finding(S), finding(S, judge=S, eval="a/2")))
    history.by("Ben", None, gone=gone)
    assert history.said == [("Ada", S, True)]
    history.by("Cy", report(finding(S), finding(A, judge=S, eval="a/2")))
    assert history.said == [("Ada", S, True), ("Cy", A, True)]


def test_merging_the_corrections_of_two_people_gives_no_label(history: VersionHistory) -> None:
    base = history.by("bot", report(finding(), finding(eval="a/2")))
    ours = history.by("Ada", report(finding(S), finding(eval="a/2")), before=[base])
    theirs = history.by("Ben", report(finding(), finding(A, eval="a/2")), before=[base])
    history.by("Cy", report(finding(S), finding(A, eval="a/2")), before=[ours, theirs])
    assert history.said == [("Ada", S, True), ("Ben", A, True)]


def test_conflict_resolution_puts_the_chosen_label_in_force(history: VersionHistory) -> None:
    base = history.by("bot", report(finding()))
    ours = history.by("Ada", report(finding(S)), before=[base])
    theirs = history.by("Ben", report(finding(A)), before=[base])
    history.by("Cy", report(finding(A)), before=[ours, theirs])
    assert history.said == [("Ada", S, False), ("Ben", A, True)]
    history.by("Cy", report(finding("KNOWN_GAP")), before=["c4"])
    assert history.said == [("Ada", S, False), ("Ben", A, False), ("Cy", "KNOWN_GAP", True)]


def test_every_label_of_a_report_written_by_people_counts(history: VersionHistory) -> None:
    one, other = finding(M, judge=None), finding(S, judge=None, eval="a/2")
    history.by("Ada", report(one, other, finding(None, judge=None, eval="a/3"), revision=None))
    history.by("Ben", report(one, finding(A, judge=None, eval="a/2"), revision=None))
    assert [(label.eval, label.reviewer, label.label, label.judge) for label in history.labels] == [
        ("a/1", "Ada", M, None),
        ("a/2", "Ada", S, None),
        ("a/2", "Ben", A, None),
    ]


def test_every_member_of_a_group_is_labelled(history: VersionHistory) -> None:
    history.by("bot", report(*(finding(eval=f"a/{n}") for n in range(3))))
    history.by("Ada", report(*(finding(S, eval=f"a/{n}") for n in range(3))))
    assert [label.eval for label in history.labels] == ["a/0", "a/1", "a/2"]


def test_missing_run_id_is_taken_from_the_file_name() -> None:
    nameless = Analysis(run=AnalyzedRun())
    assert run_of(nameless, "p/m/jn7922_2026-02-06.md") == "jn7922"
    assert run_of(report(), "p/m/other.md") == "run1"


def test_report_without_versions_gives_no_labels(history: VersionHistory) -> None:
    assert history.labels == ()

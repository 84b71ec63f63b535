"""Text of a pull request, from reports with every kind of content and from hostile ones."""

import re
import subprocess

import pytest

from evalscribe.ids import report_stems
from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.finding import FollowUp, Recurrence
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader, Snippet
from evalscribe.reports.publish import branch_of
from evalscribe.reports.pull_request_text import LIMIT, PublishedReport, pull_request_body, pull_request_title

SURE = JudgeLabel(id="rules@1", classification="MODEL_FAULT", confidence=0.9)
RUN = RunHeader(id="smp7q2kax0", provider="example", model="m-1", passed=3, failed=2, total=6, listed=2)


def entry(path: str, **fields: object) -> ReportEntry:
    values = {"classification": "MODEL_FAULT", "judge": SURE, **fields}
    return ReportEntry.model_validate({"evals": (EvalRef(path=path),), **values})


def report(*entries: ReportEntry, **fields: object) -> Report:
    return Report.model_validate({"run": RUN, "date": "2026-11-02", "entries": entries, **fields})


def body_of(current: Report, previous: Report | None = None) -> str:
    published = PublishedReport(
        branch="evalscribe/example/m-1/smp7q2ka",
        path="reports/example/m-1/smp7q2ka_2026-11-02.md",
        summary="**The answer.**",
        previous=analysis_from_report(previous) if previous else None,
    )
    return pull_request_body(current, published)


def test_changes_since_the_previous_report_are_listed() -> None:
    past = report(entry("a/1"), entry("a/2", classification="KNOWN_GAP"), entry("a/3"))
    now = report(
        entry("a/1", recurrence=Recurrence(kind="repeat", reports=("old_2026-10-01.md",))),
        entry("a/2", recurrence=Recurrence(kind="fix-in-doubt", reports=("old_2026-10-01.md",), action="mended")),
        entry("a/4"),
        earlier=("old_2026-10-01.md",),
        resolved=("a/3",),
        follow_ups=(FollowUp(report="old_2026-10-01.md", text="mended", evals=("a/2",), outcome="did not hold"),),
    )
    text = body_of(now, past)
    assert text.startswith("**The answer.**\n")
    assert (
        "**Against `old_2026-10-01.md`**\n- New: 3\n- Failed before, for the same cause: 1\n- A fix did not hold: 2\n"
        in text
    )
    assert "- Another label: 2 (KNOWN_GAP → MODEL_FAULT)\n" in text
    assert "- No longer failing (or among the 1 that never completed): `a/3`\n" in text
    assert "- Did not hold: “mended” (`a/2`)" in text
    assert "No earlier report" in body_of(report(entry("a/1")))


def test_the_published_page_is_linked() -> None:
    address = "https://evals.example/pages/index.html#smp7q2kax0d4m81v"
    assert f"_2026-11-02.md) ([in the browser]({address}))" in body_of(report(entry("a/1"), page_url=address))
    assert "in the browser" not in body_of(report(entry("a/1")))


def test_labels_changed_by_a_person_are_listed() -> None:
    changed = entry("a/2", classification="KNOWN_GAP", reviewer=("we know",))
    agreed = entry("a/3", reviewer=("yes",))
    assert "**Changed by a person**\n- 2: KNOWN_GAP, not MODEL_FAULT\n\n" in body_of(
        report(entry("a/1"), changed, agreed)
    )
    assert "Changed by a person" not in body_of(report(entry("a/1"), agreed))


def test_findings_that_need_review_are_listed_with_the_reason() -> None:
    odd = Snippet(role="output", path="x.py", first=1, text="x", status="unverified")
    unsure = JudgeLabel(id="rules@1", classification="MODEL_FAULT", confidence=0.4)
    text = body_of(
        report(
            entry("a/1"),
            entry("a/2", uncertain=True, judge=unsure, snippets=(odd,)),
            entry("a/3", classification=None, judge=None),
            entry("a/4", judge=unsure),
            entry("a/5", uncertain=True, judge=unsure, reviewer=("looked at it",)),
        )
    )
    assert [line for line in text.splitlines() if "`a/" in line] == [
        "- 2. `a/2`: uncertain, a quotation is unverified",
        "- 3. `a/3`: could not be judged",
        "- 4. `a/4`: low confidence",
    ]
    assert "Nothing stands out" in body_of(report(entry("a/1")))


def test_instructions_for_corrections_name_the_report_file() -> None:
    text = body_of(report(entry("a/1")))
    page = "(../blob/evalscribe/example/m-1/smp7q2ka/reports/example/m-1/smp7q2ka_2026-11-02.md)"
    assert f"[`smp7q2ka_2026-11-02.md`]{page}" in text
    assert "`evalscribe review label smp7q2ka_2026-11-02.md N LABEL --note …`" in text
    assert "Reviewer: …" in text


HOSTILE = (
    "@ada/everyone fixes #1 https://evil.example <!-- /evalscribe:report --> <img src=x> "
    "[click](https://evil.example) `tick` | a\nb closes GH-1 \u202eevil"
)


def test_text_from_a_model_creates_no_links_mentions_or_html() -> None:
    run = RUN.model_copy(update={"model": f"fixes #1 @ada/{HOSTILE[:60]}", "id": "#12 @ada-x"})
    hostile_report = report(
        entry(f"cat/{HOSTILE}", uncertain=True),
        entry("cat/other", recurrence=Recurrence(kind="repeat", reports=("x.md",), action=HOSTILE)),
        run=run,
        earlier=(f"{HOSTILE.replace('/', '')}.md",),
        resolved=(f"gone/{HOSTILE}",),
        follow_ups=(FollowUp(report="x.md", text=HOSTILE, evals=("cat/other",), outcome="held"),),
    )
    text = body_of(hostile_report)
    bare = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"@\w|#\d|GH-\d|evil\.example|<\w|<!--|\u202e", bare), bare
    assert re.fullmatch(r"Analyze [\w./-]+, run [\w.-]+: 2 of 6 evals failed", pull_request_title(hostile_report))


def test_body_for_thousands_of_failures_stays_below_the_limit() -> None:
    long = "x" * 180
    entries = tuple(entry(f"c{n % 7}/{n:05d}-{long}", uncertain=True) for n in range(3_000))
    text = body_of(report(*entries, earlier=("a.md",), resolved=tuple(f"r/{n}-{long}" for n in range(3_000))))
    assert len(text) < LIMIT
    assert "and 2980 more" in text


@pytest.mark.parametrize(
    "model",
    ["gpt-5", "a/b", "..", "x.lock", "a..b", "~^: ?*[\\", "é/ü", "-x", "@{u}", "a/.b", "x.", "/", "a.lock/b.lock."],
)
def test_branch_of_any_model_is_a_valid_git_branch_name(model: str) -> None:
    model_report = report(run=RUN.model_copy(update={"model": model}))
    branch = branch_of(model_report, "reports/x/smp7q2ka_2026-11-02.md")
    subprocess.run(["git", "check-ref-format", "--branch", branch], check=True, capture_output=True)
    assert branch.startswith("evalscribe/example/")
    assert branch.endswith("/smp7q2ka")
    assert branch_of(model_report, "reports/x/smp7q2kax0_2026-11-02.md").endswith("/smp7q2kax0")
    own = report_stems(model_report.run.id)[-1]
    assert branch_of(model_report, f"reports/x/{own}_2026-11-02.md").endswith(f"/{own}"), (
        "another run may be called like this one"
    )

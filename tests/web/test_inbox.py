"""The inbox: undecided findings and recommendations, and their order."""

import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from evalscribe.errors import NotFoundError
from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.finding import Recommendation, Recurrence
from evalscribe.model.report import JudgeLabel, Report, RunHeader, Snippet
from evalscribe.reports.data import write_data
from evalscribe.reports.page import render
from evalscribe.settings import Options
from evalscribe.web.inbox import PAGE, mark_differences
from evalscribe.web.report_index import Scope
from evalscribe.web.runs import ROWS
from evalscribe.web.site import inline_code, slug
from evalscribe.workspace import Workspace
from support.web_reports import entry, site, write

JUDGE = JudgeLabel(id="rules@1", classification="MODEL_FAULT", confidence=0.9)
EARLIER = ("old1_2026-10-01.md",)


def titles(page: str) -> list[str]:
    return [unescape(title) for title in re.findall(r'<h3 id="title-[^"]*"><a href="[^"]*"><bdi>(.*?)</bdi>', page)]


def headings(page: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<h2>([^<]*?) <span", page)]


def test_findings_are_grouped_and_ordered_by_urgency(tmp_path: Path) -> None:
    write(
        tmp_path,
        entry("a/new"),
        entry("a/repeated", recurrence=Recurrence(kind="repeat", reports=EARLIER)),
        entry("a/lint", "OVERLY_STRICT", cause_kind="lint"),
        entry("a/outage", cause_kind="infrastructure"),
        entry("a/uncertain", uncertain=True),
        entry("a/unjudged", None, reasoning="no answer"),
        entry("a/proved", "OVERLY_STRICT", basis="proved", contradicted=JUDGE),
        entry("a/fixed", uncertain=True, recurrence=Recurrence(kind="fix-in-doubt", reports=EARLIER, action="mended")),
        entry("a/decided", reviewer=("I agree",)),
        earlier=EARLIER,
    )
    page = site(tmp_path).render("index.html")
    assert headings(page) == [
        "A fix did not hold",
        "Proof contradicts the judge",
        "Uncertain",
        "Not the model's",
        "Repeated",
        "New",
    ]
    assert titles(page) == [
        "a/fixed",
        "a/proved",
        *("a/uncertain", "a/unjudged"),
        *("a/lint", "a/outage"),
        "a/repeated",
        "a/new",
    ]
    assert '<span id="undecided" data-count="8">8</span> findings to decide' in page
    assert "a/decided" in site(tmp_path).render("decided.html")


def test_next_page_starts_after_the_last_card_despite_new_decisions(tmp_path: Path) -> None:
    paths = [f"a/{number:03}" for number in range(PAGE * 2 + 3)]
    write(tmp_path, *map(entry, paths))
    shown = site(tmp_path)
    first = shown.render("index.html")
    assert titles(first) == paths[:PAGE]
    (query,) = re.findall(r'<a class="next" rel="next" href="index.html\?after=([^&"]*)', first)
    after = unquote(unescape(query))
    decided = {path: entry(path, reviewer=("ok",)) for path in paths[2:PAGE]}
    write(tmp_path, *(decided.get(path) or entry(path) for path in paths))
    assert titles(shown.render("index.html", {"after": after})) == paths[PAGE : 2 * PAGE]


def test_bundle_pages_are_numbered_and_contain_each_finding_once(tmp_path: Path) -> None:
    paths = [f"a/{number:03}" for number in range(PAGE * 2 + 3)]
    write(tmp_path, *map(entry, paths))
    files = site(tmp_path, token=None)
    names = [path for path in files.paths() if path.startswith(("index", "inbox"))]
    assert names == ["index.html", "inbox-2.html", "inbox-3.html"]
    assert [title for name in names for title in titles(files.render(name))] == paths
    assert 'href="inbox-2.html"' in files.render("index.html")
    for beyond in ("inbox-4.html", "inbox-1.html", "inbox-0.html", "inbox-99999999.html"):
        with pytest.raises(NotFoundError):
            files.render(beyond)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "KNOWN_GAP"}, ["b/two"]),
        ({"q": "why a/one"}, ["a/one", "a/one"]),
        ({"q": "one run2"}, ["a/one"]),
        ({"run": "run2abcdef"}, ["a/one"]),
        ({"run": "run2abcdef", "q": "two"}, []),
        ({"q": "<script>"}, []),
    ],
)
def test_inbox_is_filtered_by_search_text_and_run(
    query: dict[str, str], expected: Sequence[str], tmp_path: Path
) -> None:
    write(tmp_path, entry("a/one"), entry("b/two", "KNOWN_GAP"))
    write(tmp_path, entry("a/one"), run="run2abcdef", date="2026-11-02")
    page = site(tmp_path).render("index.html", query)
    assert titles(page) == expected
    assert "<script>" not in page


def test_recommendations_are_merged_and_ordered_by_effect(tmp_path: Path) -> None:
    lint = Recommendation(id="R1", group="lint", text="Make `x` a warning", evals=("a/1",), would_pass=True)
    unclear = Recommendation(id="R2", group="eval", text="Record the log", evals=("a/1", "a/2", "a/3"))
    outage = Recommendation(id="R3", group="eval", text="Check the provider", evals=("a/2", "a/3"))
    entries = [entry("a/1", "OVERLY_STRICT", cause_kind="lint")]
    entries += [entry(path, "OVERLY_STRICT", cause_kind="infrastructure") for path in ("a/2", "a/3")]
    write(tmp_path, *entries, recommendations=(lint, unclear, outage))
    page = site(tmp_path).render("index.html")
    changes = re.findall(r'<span class="text">(.*?)</span>\s*<span class="effect">(.*?)</span>', page)
    assert changes == [
        ("Record the log", "2 evals never judged"),
        ("Check the provider", "2 evals never judged"),
        ("Make <code>x</code> a warning", "1 eval would pass"),
    ]
    header = RunHeader(id="run2abcdef", provider="p", model="n", passed=1, failed=1, total=2, listed=1)
    report = Report(run=header, date="2026-11-02", entries=(entries[0],), recommendations=(lint,))
    with Workspace(Options(reports=tmp_path)) as workspace:
        data = write_data(analysis_from_report(report))
        workspace.reports.write_report("p/n/run2abcd_2026-11-02.md", render(report), data)
    page = site(tmp_path).render("index.html")
    assert "2 evals would pass" in page
    assert page.count("Make <code>x</code> a warning") == 1 + 2  # and on the two cards


def test_run_page_paginates_failures_and_contains_each_once(tmp_path: Path) -> None:
    paths = [f"a/{number:04}" for number in range(ROWS + 3)]
    write(tmp_path, *(entry(path, "KNOWN_GAP" if number % 2 else "MODEL_FAULT") for number, path in enumerate(paths)))
    files = site(tmp_path, token=None)
    pages = [path for path in files.paths() if re.fullmatch(r"run/[^/]+/[^/]+\.html", path)]
    assert pages == ["run/run1abcdef/index.html", "run/run1abcdef/failures-2.html"]
    rows = [re.findall(r'data-eval="([^"]*)"', files.render(page)) for page in pages]
    assert rows == [paths[:ROWS], paths[ROWS:]]
    assert 'class="next-rows" rel="next" href="../../run/run1abcdef/failures-2.html#failures"' in files.render(pages[0])
    assert "1001 to 1003 of 1,003" in files.render(pages[1])
    filtered = site(tmp_path).render(pages[0], {"label": "KNOWN_GAP"})
    assert re.findall(r'data-eval="([^"]*)"', filtered) == paths[1::2]
    with pytest.raises(NotFoundError):
        files.render("run/run1abcdef/failures-3.html")


def test_inbox_is_limited_to_one_report_or_folder(tmp_path: Path) -> None:
    write(tmp_path, entry("a/one"))
    write(tmp_path, entry("a/two"), run="run2abcdef", date="2026-11-02")
    assert titles(site(tmp_path).render("index.html")) == ["a/two", "a/one"]
    assert titles(site(tmp_path, Scope(report="p/m/run1abcd_2026-11-01.md")).render("index.html")) == ["a/one"]
    assert titles(site(tmp_path, Scope(folder="p")).render("index.html")) == ["a/two", "a/one"]
    assert titles(site(tmp_path, Scope(folder="p/other")).render("index.html")) == []


def test_unreadable_report_is_named_on_the_page(tmp_path: Path) -> None:
    write(tmp_path, entry("a/one"))
    data = tmp_path / "p/m/run1abcd_2026-11-01.json"
    shown = site(tmp_path)
    assert titles(shown.render("index.html")) == ["a/one"]
    data.write_text("{", "utf-8")
    assert "run1abcd_2026-11-01.md</b> cannot be read: run1abcd_2026-11-01.json: " in shown.render("index.html")
    assert "cannot be read" in shown.render("runs.html")
    data.unlink()
    assert "run1abcd_2026-11-01.json is missing" in shown.render("index.html")
    (tmp_path / "p/m/run1abcd_2026-11-01.md").unlink()
    assert titles(shown.render("index.html")) == []


def test_differences_are_marked_only_in_similar_texts() -> None:
    left, right = mark_differences("every('s', run=noop)", "every('s', run=noop, args={})")
    assert left == "every(&#39;s&#39;, run=noop)"
    assert right == "every(&#39;s&#39;, run=noop<mark>, args={}</mark>)"
    left, right = mark_differences("return 1 < 2", "<b>raise ValueError</b>")
    assert "<mark>" not in left + right
    assert right == "&lt;b&gt;raise ValueError&lt;/b&gt;"


def test_quotations_are_ordered_by_role_with_differences_marked(tmp_path: Path) -> None:
    snippets = (
        Snippet(role="log", path="run.log", first=7, text="boom"),
        Snippet(role="expected", path="a.py", first=3, text="x = f(1)"),
        Snippet(role="output", path="a.py", first=2, text="x = f(2)", status="unverified"),
    )
    write(tmp_path, entry("a/one", snippets=snippets))
    page = site(tmp_path).render("index.html")
    assert re.findall(r'<span class="role">(\w+)</span>', page) == ["output", "expected", "log"]
    assert "x = f(<mark>2</mark>)" in page
    assert "<em>unverified</em>" in page
    assert 'href="run/run1abcdef/eval/a~2fone.html#log-run.log-L7"' in page


@pytest.mark.parametrize(
    ("text", "name"),
    [("a/b", "a~2fb"), ("a~2fb", "a~7e2fb"), ("..", "~-"), ("", "~-"), ("ü", "~c3~bc"), ("\ud800", "~ed~a0~80")],
)
def test_slug_is_a_safe_and_distinct_file_name(text: str, name: str) -> None:
    assert slug(text).startswith(name)
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", slug(text))


def test_long_slugs_are_shortened_and_stay_distinct() -> None:
    first, second = slug("x" * 500 + "1"), slug("x" * 500 + "2")
    assert first != second
    assert len(first) < 120


def test_inline_code_is_the_only_markup_rendered() -> None:
    assert inline_code("Make `a<b>` a \\*warning\\* <i>now</i> [x](javascript:y)") == (
        "Make <code>a&lt;b&gt;</code> a *warning* &lt;i&gt;now&lt;/i&gt; [x](javascript:y)"
    )

"""Comparison pages agree with `evalscribe compare` and call no model."""

import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from evalscribe.errors import NotFoundError
from evalscribe.model.evidence import Document, Evidence
from evalscribe.model.run import Eval
from evalscribe.settings import Options
from evalscribe.web.bundle import open_site, write_bundle
from evalscribe.web.comparison import first_output_difference
from evalscribe.web.report_index import Scope
from evalscribe.web.site import Site
from evalscribe.workspace import Workspace
from support.example_records import Record, Run
from support.fork_server import fork_server
from support.messages_server import MessagesServer
from support.real_runs import analysed_by_rules
from support.waiting import PATIENCE_S
from support.web_reports import CHECKPOINTS, HOSTILE, Cells, analysed_sample, assert_only_own_markup, entry, site, write

PATH = f"compare/{CHECKPOINTS[0]}/{CHECKPOINTS[1]}.html"


@pytest.fixture
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return analysed_sample(tmp_path_factory.getbasetemp())


@pytest.fixture
def sample_site(analysed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.chdir(analysed)
    with Workspace(Options()) as workspace:
        yield open_site(workspace, Scope(), token="t")


def section(page: str, name: str) -> str:
    """Return the HTML of the section with this id."""
    return page.partition(f'<section aria-labelledby="{name}">')[2].partition("</section>")[0]


def evals(text: str) -> list[str]:
    return [unescape(name) for name in re.findall(r"(?:<h3>|<tr><td>)<bdi>(.*?)</bdi>", text)]


def evals_by_change(folder: Path, *runs: str) -> dict[str, list[str]]:
    """Return the evals by change, as in the output of `compare --json`."""
    program = ["-m", "evalscribe", "compare", *runs, "--judge", "rules", "--json", "--no-report", "--quiet"]
    result = fork_server.run(program, folder, timeout=PATIENCE_S)
    by_change: dict[str, list[str]] = {"regressed": [], "fixed": [], "both-failed": []}
    for pair in json.loads(result.stdout)["pairs"]:
        by_change.setdefault(pair["change"], []).append(pair["eval"])
    return by_change


def test_comparison_of_checkpoints_matches_the_compare_command(analysed: Path, sample_site: Site) -> None:
    page, expected = sample_site.render(PATH), evals_by_change(analysed, *CHECKPOINTS)
    assert len(expected["regressed"]) == 3
    assert evals(section(page, "broke")) == expected["regressed"]
    assert evals(section(page, "fixed")) == expected["fixed"]
    assert evals(section(page, "stayed")) == expected["both-failed"]


def test_comparison_is_summarised_in_words_with_intervals(sample_site: Site) -> None:
    page = sample_site.render(PATH)
    assert "Lower pass rate, which may be chance: 3 worse, 3 better" in page
    assert "Chance alone makes a difference of at least this size in 100 of 100 comparisons (p = 1)" in page
    rows = Cells(page).tables[0][1:]
    assert [row[3] for row in rows] == ["24 of 36", "22 of 36"]
    assert all("95 % interval" in row[4] for row in rows)


def test_chart_and_table_show_the_same_counts(sample_site: Site) -> None:
    page = sample_site.render(PATH)
    picture = page.partition("<svg")[2].partition("</svg>")[0]
    assert [row[1] for row in Cells(page).tables[1][1:]] == ["3", "3", "6"]
    assert re.findall(r"<text[^>]*>(\d+)", picture) == ["3", "3", "6"]


def test_first_differing_tool_call_is_shown_side_by_side(sample_site: Site) -> None:
    broke = section(sample_site.render(PATH), "broke")
    assert "cancel_booking(booking=&#39;B3&#39;)" in broke
    assert broke.count("makes no further call") == 3


def test_comparison_page_renders_without_calling_the_configured_model(
    analysed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(analysed)
    with MessagesServer() as server:
        monkeypatch.setenv("EVALSCRIBE_JUDGE", "anthropic/claude-opus-5-5")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with Workspace(Options()) as workspace:
            assert "What broke" in open_site(workspace, Scope(), token="t").render(PATH)
        assert server.calls == []


def test_server_compares_any_two_runs(sample_site: Site) -> None:
    query = {"base": CHECKPOINTS[0], "candidate": "smp7q2kax0d4m81v"}
    assert "The experiments differ" in sample_site.render("compare.html", query)
    assert "Choose two different runs" in sample_site.render("compare.html", {**query, "candidate": CHECKPOINTS[0]})
    assert PATH in sample_site.render("compare.html")


@pytest.mark.parametrize(
    "path", ["compare/a/b.html", f"compare/{CHECKPOINTS[0]}/{CHECKPOINTS[0]}.html", "compare/a.html"]
)
def test_unknown_or_identical_runs_have_no_comparison(sample_site: Site, path: str) -> None:
    with pytest.raises(NotFoundError):
        sample_site.render(path)


def test_written_comparison_report_is_shown(analysed: Path, sample_site: Site) -> None:
    assert "Written comparison" not in sample_site.render(PATH)
    program = ["-m", "evalscribe", "compare", *CHECKPOINTS, "--judge", "rules", "--quiet"]
    fork_server.run(program, analysed, timeout=PATIENCE_S).check_returncode()
    (page,) = (analysed / "reports").rglob("compare_*.md")
    try:
        written = section(sample_site.render(PATH), "written")
        assert page.name in written
        assert "## Regressed" in written
    finally:
        page.unlink()


@pytest.fixture
def two_outputs(tmp_path: Path) -> Iterator[Workspace]:
    """Two imported runs of one task; the second fails, and its output differs in line 2."""
    with Workspace(Options(reports=tmp_path / "reports"), folder=tmp_path, environ={}) as workspace:
        for number, (status, line) in enumerate((("passed", "return 2"), ("failed", f"return {HOSTILE}"))):
            run_id = f"output-{number}"
            run = Run(id=run_id, provider="p", model=f"m{number}", experiment="e", total=1)
            one = Eval(id=f"{run_id}-1", category=HOSTILE, name="task", status=status, failed_step="tests", reason="no")
            output = Document(role="output", path="a.py", text=f"def f():\n    {line}\n")
            workspace.store.runs.add(None, [run], [Record(run_id=run_id, eval=one, documents=(output,))])
        yield workspace


def test_differing_outputs_are_shown_side_by_side_and_escaped(two_outputs: Workspace) -> None:
    page = open_site(two_outputs, Scope(), token="t").render("compare/output-0/output-1.html")
    broke = section(page, "broke")
    assert re.findall(r'class="role">(\w+)</span> <bdi>a.py</bdi>:(\d)', broke) == [("base", "2"), ("candidate", "2")]
    assert "return" in broke
    assert "&lt;script&gt;" in broke
    assert_only_own_markup(page)


def evidence(*texts: str) -> Evidence:
    documents = tuple(Document(role="output", path=f"{n}.py", text=text) for n, text in enumerate(texts))
    return Evidence(eval=Eval(id="e", category="c", name="n"), documents=documents)


def test_first_output_difference_is_in_the_first_differing_file() -> None:
    difference = first_output_difference(evidence("same\n", "a\nb\n"), evidence("same\n", "a\nc\n"))
    assert difference is not None
    assert (difference.path, difference.base_line, difference.candidate_line) == ("1.py", 2, 2)
    assert first_output_difference(evidence("same\n"), evidence("same\n")) is None
    assert first_output_difference(evidence(), evidence("a\n")) is None


def test_reports_without_a_store_are_compared(tmp_path: Path) -> None:
    write(tmp_path, entry("a/one"), entry("a/two"), run="run1abcdef", date="2026-11-01")
    write(tmp_path, entry("a/two", cause="another"), entry("a/three"), run="run2abcdef", date="2026-11-02")
    page = site(tmp_path).render("compare/run1abcdef/run2abcdef.html")
    assert [evals(section(page, name)) for name in ("broke", "fixed", "stayed")] == [["a/three"], ["a/one"], ["a/two"]]
    assert "Another cause than before" in page


def test_bundle_contains_every_comparison_it_lists(
    analysed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(analysed)
    with Workspace(Options()) as workspace:
        write_bundle(workspace, Scope(), tmp_path / "bundle")
    page = (tmp_path / "bundle/compare.html").read_text()
    listed = re.findall(r'href="(compare/[^"]+)"', page)
    assert PATH in listed
    assert all((tmp_path / "bundle" / path).is_file() for path in listed)
    assert "<form" not in page.partition("<main")[2].partition("</main>")[0]


def test_comparison_of_real_runs_matches_the_compare_command(
    real_data: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(analysed_by_rules(real_data, tmp_path_factory), tmp_path / "real"))
    monkeypatch.chdir(folder)
    with Workspace(Options()) as workspace:
        shown = open_site(workspace, Scope(), token="t")
        runs = sorted(run.run.id for run in shown.tasks.table.runs if run.model == "anthropic/claude-opus-4-6")
        page = shown.render(f"compare/{runs[0]}/{runs[1]}.html")
    expected = evals_by_change(folder, *runs)
    assert expected["both-failed"]
    assert evals(section(page, "broke")) == expected["regressed"]
    assert evals(section(page, "fixed")) == expected["fixed"]
    assert evals(section(page, "stayed")) == expected["both-failed"]

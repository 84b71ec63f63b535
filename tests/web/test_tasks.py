"""The task matrix: one row per task, one column per run, and only facts from reports and the store."""

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evalscribe.model.finding import TrialCount
from evalscribe.model.report import EvalRef
from evalscribe.model.run import Eval
from evalscribe.settings import Options
from evalscribe.web.bundle import open_site, write_bundle
from evalscribe.web.report_index import Scope
from evalscribe.web.site import Site, slug
from evalscribe.workspace import Workspace
from support.example_records import Record, Run
from support.real_runs import analysed_by_rules
from support.web_reports import (
    CHECKPOINTS,
    HOSTILE,
    Cells,
    analysed_sample,
    assert_only_own_markup,
    entry,
    links,
    matrix,
    site,
    write,
)


@pytest.fixture
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return analysed_sample(tmp_path_factory.getbasetemp())


@pytest.fixture
def sample_site(analysed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.chdir(analysed)
    with Workspace(Options()) as workspace:
        yield open_site(workspace, Scope(), token="t")


def test_matrix_cells_count_the_stored_trials(sample_site: Site) -> None:
    page = sample_site.render("tasks.html", {"experiment": "room-desk"})
    expected: dict[str, list[str]] = defaultdict(list)
    for run in CHECKPOINTS:
        trials: dict[str, list[str]] = defaultdict(list)
        for graded in sample_site.workspace.store.runs.graded(run):
            trials[graded.eval.task].append(graded.eval.status)
        for task, states in trials.items():
            expected[task].append(f"{states.count('passed')}/{len(states)}")
    assert len(expected) == 12
    assert {task: [cell.split()[0] for cell in cells] for task, cells in matrix(page).items()} == expected


def test_failed_cells_show_labels_and_link_to_eval_pages(sample_site: Site) -> None:
    page = sample_site.render("tasks.html", {"model": "example/sample-model-1"})
    assert matrix(page)["query/007-range"] == ["", "unclear"]
    assert f"run/smp7q2kax0d4m81v/eval/{slug('query/007-range')}.html" in links(page)
    # The earlier report was written by hand and does not state how many evals failed.
    assert matrix(page)["types/004-ids"] == ["model", "model"]


def test_fix_that_did_not_hold_is_shown_with_its_task(sample_site: Site) -> None:
    page = sample_site.render("tasks.html")
    assert "retry added to the grader" in page
    assert re.search(r"<bdi>http/001-retry</bdi>.{0,80}fix did not hold", page, re.DOTALL)


def test_pass_rate_table_shows_the_counts_of_each_run(sample_site: Site) -> None:
    rows = Cells(sample_site.render("tasks.html", {"experiment": "room-desk"})).tables[0][1:]
    assert [row[:4] for row in rows] == [
        ["example/sample-agent-c1", rows[0][1], "24 of 36", "66.7 %"],
        ["example/sample-agent-c2", rows[1][1], "22 of 36", "61.1 %"],
    ]


def test_outage_is_excluded_from_pass_rates(tmp_path: Path) -> None:
    outage = entry("a/down", "KNOWN_GAP", cause_kind="infrastructure")
    write(tmp_path, entry("a/one"), outage, run="run1abcdef", date="2026-11-01")
    page = site(tmp_path).render("tasks.html")
    assert [row[:4] for row in Cells(page).tables[0][1:]] == [["p/m", "2026-11-01", "1 of 2", "50 %"]]
    assert '<span class="rate">50 %</span>' in page


def test_task_absent_from_a_complete_report_is_marked_as_not_failed(tmp_path: Path) -> None:
    write(tmp_path, entry("a/one"), run="run1abcdef", date="2026-11-01")
    write(tmp_path, entry("a/two"), run="run2abcdef", date="2026-11-02")
    cells = matrix(site(tmp_path).render("tasks.html"))
    assert cells == {"a/one": ["model", "·"], "a/two": ["·", "model"]}


def test_task_absent_from_an_incomplete_report_has_an_empty_cell(tmp_path: Path) -> None:
    write(tmp_path, entry("a/one"), run="run1abcdef", date="2026-11-01")
    write(tmp_path, entry("a/two"), run="run2abcdef", date="2026-11-02")
    data = next(tmp_path.rglob("run2abcd*.md")).with_suffix(".json")
    data.write_text(data.read_text().replace('"failed": 1', '"failed": 9').replace('"failed":1', '"failed":9'))
    assert matrix(site(tmp_path).render("tasks.html"))["a/one"] == ["model", ""]


def test_never_passed_tasks_come_first_then_most_frequent_failures(tmp_path: Path) -> None:
    runs = {
        "run1abcdef": ("z/never", "a/often", "b/once"),
        "run2abcdef": ("z/never", "a/often"),
        "run3abcdef": ("z/never",),
    }
    for day, (run, failed) in enumerate(runs.items(), 1):
        write(tmp_path, *map(entry, failed), run=run, date=f"2026-11-0{day}")
    page = site(tmp_path).render("tasks.html")
    assert list(matrix(page)) == ["z/never", "a/often", "b/once"]
    assert page.count("never passed</span>") == 1


def test_matrix_is_filtered_by_label_text_and_model(tmp_path: Path) -> None:
    write(tmp_path, entry("a/one"), entry("a/two", "OVERLY_STRICT"), run="run1abcdef")
    write(tmp_path, entry("a/three"), run="run2abcdef", date="2026-11-02")
    shown = site(tmp_path)
    assert list(matrix(shown.render("tasks.html", {"label": "OVERLY_STRICT"}))) == ["a/two"]
    assert list(matrix(shown.render("tasks.html", {"q": "THREE"}))) == ["a/three"]
    assert matrix(shown.render("tasks.html", {"model": "no/such"})) == {}


def test_hostile_run_and_task_names_are_escaped(tmp_path: Path) -> None:
    hostile = entry(HOSTILE, cause=HOSTILE, why=HOSTILE)
    for number in (1, 2):
        write(tmp_path, hostile, run=f"{number}<b>{HOSTILE}", date=f"2026-11-0{number}")
    shown = site(tmp_path)
    pages = [shown.render(path) for path in shown.paths()]
    assert len(pages) > 4
    for page in pages:
        assert_only_own_markup(page)


def test_inbox_card_shows_its_task_in_other_runs(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path, entry("a/one"), run=f"run{number}abcdef", date=f"2026-11-0{number}")
    shown = site(tmp_path)
    inbox = shown.render("index.html")
    assert inbox.count('<div class="strip">') == 2
    assert {f"run/run{n}abcdef/eval/{slug('a/one')}.html" for n in (1, 2)} <= set(links(inbox))
    write(tmp_path, entry("a/one", "OVERLY_STRICT"), run="run2abcdef", date="2026-11-02")
    assert ">strict</a>" in shown.render("index.html")


def test_trials_are_counted_and_linked_individually(tmp_path: Path) -> None:
    trials = tuple(EvalRef(path=f"a/one#{n}") for n in (1, 3))
    write(tmp_path, entry("a/one#1", evals=trials, trials=TrialCount(passed=2, failed=2, total=4)))
    shown = site(tmp_path)
    assert matrix(shown.render("tasks.html")) == {"a/one": ["2/4 model"]}
    strip = shown.render("index.html").partition('<div class="strip">')[2].partition("</div>")[0]
    assert links(strip) == [f"../run/run1abcdef/eval/{slug(f'a/one#{n}')}.html".removeprefix("../") for n in (1, 1, 3)]


def test_bundle_of_one_report_links_only_to_its_own_run(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / "reports", entry("a/one"), run=f"run{number}abcdef", date=f"2026-11-0{number}")
    scope = Scope(report="p/m/run1abcd_2026-11-01.md")
    write_bundle(Workspace(Options(reports=tmp_path / "reports")), scope, tmp_path / "bundle")
    pages = [page.read_text() for page in (tmp_path / "bundle").rglob("*.html")]
    assert any('<div class="strip">' in page for page in pages)
    assert not [link for page in pages for link in links(page) if "run2abcdef" in link]


def stored_run(workspace: Workspace, run_id: str, outcomes: Sequence[str]) -> None:
    run = Run(id=run_id, provider="p", model="stored", experiment="e", started_at=f"2026-10-0{run_id[-1]}T00:00:00Z")
    records = [
        Record(run_id=run_id, eval=Eval(id=f"{run_id}-{n}", category="c", name=f"task{n}", status=status))
        for n, status in enumerate(outcomes)
    ]
    workspace.store.runs.add(None, [run.model_copy(update={"total": len(records)})], records)


def test_imported_run_without_a_report_has_a_column(tmp_path: Path) -> None:
    with Workspace(Options(reports=tmp_path / "reports"), folder=tmp_path, environ={}) as workspace:
        stored_run(workspace, "stored-1", ("passed", "failed", "incomplete"))
        shown = open_site(workspace, Scope(), token="t")
        assert matrix(shown.render("tasks.html")) == {"c/task1": ["failed"], "c/task0": ["✓"], "c/task2": ["–"]}
        stored_run(workspace, "stored-2", ("failed", "passed"))
        assert matrix(shown.render("tasks.html"))["c/task0"] == ["✓", "failed"]


def test_rendering_pages_creates_no_store(tmp_path: Path) -> None:
    write(tmp_path / "reports", entry("a/one"))
    with Workspace(Options(reports=tmp_path / "reports"), folder=tmp_path, environ={}) as workspace:
        shown = open_site(workspace, Scope(), token="t")
        for path in shown.paths():
            shown.render(path)
        assert not workspace.has_store


def test_damaged_store_is_reported_and_reports_are_still_shown(tmp_path: Path) -> None:
    write(tmp_path / "reports", entry("a/one"))
    with Workspace(Options(reports=tmp_path / "reports"), folder=tmp_path, environ={}) as workspace:
        place = workspace.settings.store_place
        assert isinstance(place, Path)
        place.mkdir(parents=True)
        (place / "store.db").write_bytes(b"not a database" * 100)
        page = open_site(workspace, Scope(), token="t").render("tasks.html")
    assert "The store cannot be read" in page
    assert matrix(page) == {"a/one": ["model"]}


def test_matrix_of_real_runs_has_as_many_failures_as_their_reports(
    real_data: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(analysed_by_rules(real_data, tmp_path_factory), tmp_path / "real"))
    with Workspace(Options()) as workspace:
        shown = open_site(workspace, Scope(), token="t")
        cells = matrix(shown.render("tasks.html"))
        failed = Counter({report.run: len(report.analysis.findings) for report in shown.reports.all})
        columns = [run.key for run in shown.tasks.table.runs]
        assert {
            run: sum(row[at] not in ("", "·", "✓") for row in cells.values()) for at, run in enumerate(columns)
        } == failed
        pages = [shown.render(path) for path in shown.paths()]
    for page in pages:
        assert_only_own_markup(page)

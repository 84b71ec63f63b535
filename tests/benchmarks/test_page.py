"""Measure the time and memory that the pages of a large run take, and the size of a bundle."""

import json
import re
import time
from pathlib import Path

import pytest

from evalscribe.git.report_folder import ReportsFolder
from evalscribe.model.analysis import Analysis
from evalscribe.reports.data import report_from_analysis, write_data
from evalscribe.reports.page import render
from support.browser import Visitor, running_browser
from support.command import Workspace
from support.machine_speed import slowness
from support.real_runs import analysed_by_rules
from support.run_snapshots import write
from support.served_page import ServedPage, serving

FEW, MANY = 500, 10_000


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with the report on a run of 500 failures."""
    folder = tmp_path_factory.mktemp("few")
    run = write(folder / "run", FEW)
    Workspace(folder).run("analyze", run, "--judge", "rules", "--quiet")
    return folder


@pytest.fixture(scope="module")
def many(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with a report that contains the same findings twenty times."""
    folder = tmp_path_factory.mktemp("many")
    (path,) = (few / "reports").glob("*/*/*.json")
    data = json.loads(path.read_text("utf-8"))
    last = max(finding["n"] for finding in data["findings"])
    data["findings"] = [
        {**finding, "n": finding["n"] + copy * last, "eval": f"{finding['eval']}-{copy}"}
        for copy in range(MANY // FEW)
        for finding in data["findings"]
    ]
    data["recommendations"], data["patterns"] = [], []
    analysis = Analysis.model_validate_json(json.dumps(data))
    name = str(path.relative_to(few / "reports").with_suffix(".md"))
    page = render(report_from_analysis(analysis))
    ReportsFolder(folder / "reports").write_report(name, page, write_data(analysis))
    return folder


def seconds(served: ServedPage, target: str, cookie: str) -> float:
    began = time.perf_counter()
    answer = served.request("GET", target, ("Host", served.host), ("Cookie", cookie))
    assert answer.status == 200
    return time.perf_counter() - began


def peak_mb(served: ServedPage) -> float:
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


@pytest.mark.benchmark
def test_the_first_view_of_500_failures(few: Path) -> None:
    """A new process parses the report and renders the inbox."""
    with serving(few) as served:
        cookie = served.sign_in()
        first = seconds(served, "/", cookie)
        again = min(seconds(served, "/", cookie) for _ in range(5))
        print(f"first {first:.3f} s, again {again:.3f} s, {peak_mb(served):.0f} MB")
        assert first < 0.3 * slowness()
        assert again < 0.05 * slowness()


@pytest.mark.benchmark
def test_500_failures_can_be_reviewed_within_a_second(few: Path, tmp_path: Path) -> None:
    with running_browser(tmp_path) as browser, serving(few) as served:
        visitor = Visitor(browser, served.base)
        visitor.page.goto("about:blank")
        began = time.perf_counter()
        visitor.page.goto(served.address)
        visitor.page.keyboard.press("j")
        visitor.page.locator("article.card.current").wait_for()
        took = time.perf_counter() - began
        print(f"{took:.2f} s until a key moves")
        assert took < slowness()
        visitor.close()


@pytest.mark.benchmark
def test_10_000_failures_stay_usable(many: Path, tmp_path: Path) -> None:
    with running_browser(tmp_path) as browser, serving(many) as served:
        cookie = served.sign_in()
        first = seconds(served, "/", cookie)
        again = min(seconds(served, "/", cookie) for _ in range(3))
        visitor = Visitor(browser, served.base)
        visitor.go(served.address)
        assert visitor.page.locator("h1").inner_text() == "10,000 findings to decide"
        run = visitor.page.locator("article.card .meta a").first
        began = time.perf_counter()
        run.click()
        visitor.page.locator("table.rows").wait_for()
        shown = time.perf_counter() - began
        print(f"first {first:.1f} s, again {again:.3f} s, run {shown:.1f} s, {peak_mb(served):.0f} MB")
        assert first < 5 * slowness()
        assert again < 0.3 * slowness()
        assert shown < 6 * slowness()
        assert peak_mb(served) < 700
        visitor.close()


@pytest.mark.benchmark
def test_the_bundle_of_the_real_runs_is_small(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = analysed_by_rules(real_data, tmp_path_factory)
    bundle = tmp_path_factory.mktemp("bundles") / "bundle"
    Workspace(folder).run("view", "--bundle", bundle)
    megabytes = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file()) / 1e6
    print(f"{megabytes:.1f} MB")
    assert megabytes < 30

"""Experiment pages: the list, a run with its gate, trials and comparison, and a run in progress."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from posixpath import dirname, normpath

import pytest

from evalscribe.errors import NotFoundError
from evalscribe.model.dataset import Item
from evalscribe.model.experiment import ExperimentConfig
from evalscribe.model.score import Binding
from evalscribe.settings import Options
from evalscribe.web.bundle import open_site
from evalscribe.web.experiments import PAGE
from evalscribe.web.report_index import Scope
from evalscribe.web.site import Site
from evalscribe.workspace import Workspace as OpenedWorkspace
from support.command import Workspace
from support.served_page import serving
from support.stored_experiment import EXACT, JSON, StoredExperiment, make_items
from support.waiting import PATIENCE_S, wait_until

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> javascript:alert(3) \u202e\x1b[31m"
ITEMS = make_items("a", "b", "c", "d")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def site(folder: Path) -> Iterator[Site]:
    with OpenedWorkspace(Options()) as workspace:
        yield open_site(workspace, Scope(), token="secret")


def stored(folder: Path, items: tuple[Item, ...] = ITEMS, **more: str) -> StoredExperiment:
    return StoredExperiment(folder / ".evalscribe", items, **more)


def texts(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_no_page_and_no_store_exist_without_experiments(site: Site, folder: Path) -> None:
    with pytest.raises(NotFoundError):
        site.render("experiments.html")
    assert "experiments.html" not in site.render("index.html")
    assert not (folder / ".evalscribe").exists()


def test_list_shows_gate_and_interval_of_each_run(site: Site, folder: Path) -> None:
    with closing(stored(folder)) as experiment:
        experiment.run("pppp", ExperimentConfig(min_pass_rate=0.9), name="good")
        experiment.run("pppf", ExperimentConfig(min_pass_rate=0.9), name="bad")
        experiment.run("pp", name="stopped", state="cancelled")
        experiment.run("p", name="going", state="running")
    shown = texts(site.render("experiments.html"))
    assert "4/4 = 100.0 % (95 %: 51.0 to 100.0 %)" in shown
    assert re.search(r"bad failed 3/4 = 75.0 %", shown)
    assert re.search(r"good passed 4/4", shown)
    assert re.search(r"stopped cancelled .*2 not run", shown)
    assert shown.index("going") < shown.index("stopped") < shown.index("bad") < shown.index("good")


def test_run_page_shows_gate_comparison_and_failed_trials_first(site: Site, folder: Path) -> None:
    with closing(stored(folder)) as experiment:
        base = experiment.run("pppf", name="base")
        config = ExperimentConfig(min_pass_rate=0.9, no_new_failures_vs=base.id)
        run = experiment.run("fppu", config, name="next")
    html = site.render(f"experiments/{run.id}/index.html")
    shown = texts(html)
    assert "gate failed" in shown
    assert "min_pass_rate failed pass rate 2/4 = 50.0 %" in shown
    assert "no_new_failures_vs failed 1 new failure" in shown
    assert f'href="../../experiments/{base.id}/index.html"' in html
    assert "Passed before, not now" in shown
    assert html.index("ask a") < html.index("ask d"), "failed before unscored"
    assert "ask b" not in html, "passed trials have a page of their own"
    assert "expect a" in shown
    assert "compared as text" in shown
    assert "ask b" in site.render(f"experiments/{run.id}/passed/1.html")
    assert "ask a" in site.render(f"experiments/{run.id}/scorer-exact_match/1.html")
    with pytest.raises(NotFoundError):
        site.render(f"experiments/{run.id}/scorer-json_valid/1.html")
    assert 'role="img"' in html
    assert "As a table" in html


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_stopped_run_shows_the_reason_and_items_not_run(site: Site, folder: Path, state: str) -> None:
    with closing(stored(folder)) as experiment:
        run = experiment.run("pe", state=state, reason="the budget is spent")  # type: ignore[arg-type]
    shown = texts(site.render(f"experiments/{run.id}/index.html"))
    assert state in shown
    assert "the budget is spent" in shown
    assert "2 never ran" in shown
    assert "1 of 4 trials gave no answer: ValueError: no such order" in shown
    assert re.search(r"Items of which no trial ran c , d", shown)


def test_trials_are_paginated_and_item_links_resolve(site: Site, folder: Path) -> None:
    items = make_items(*(f"k{n:03d}" for n in range(2 * PAGE + 5)))
    with closing(stored(folder, items)) as experiment:
        base = experiment.run("p" * len(items), name="base")
        run = experiment.run("f" * len(items), ExperimentConfig(no_new_failures_vs=base.id))
    first = site.render(f"experiments/{run.id}/failed/1.html")
    last = site.render(f"experiments/{run.id}/failed/3.html")
    assert (first.count("<details class"), last.count("<details class")) == (PAGE, 5)
    html = site.render(f"experiments/{run.id}/index.html")
    link = re.search(rf'href="(failed/3\.html)#([^"]+)"><code>k{2 * PAGE + 1:03d}<', html)
    assert link
    assert f'id="{link[2]}"' in last
    for absent in ("failed/4", "failed/0", "passed/1", "nothing/1", "trial/none"):
        with pytest.raises(NotFoundError):
            site.render(f"experiments/{run.id}/{absent}.html")


def test_long_output_is_cut_in_lists_and_complete_on_the_trial_page(site: Site, folder: Path) -> None:
    with closing(stored(folder)) as experiment:
        run = experiment.run("ffff", outputs={"a": "x" * 100_000 + "THE END"})
    listed = site.render(f"experiments/{run.id}/failed/1.html")
    assert "THE END" not in listed
    link = re.search(r'href="../(trial/[^"]+)"', listed)
    assert link
    assert "THE END" in texts(site.render(f"experiments/{run.id}/{link[1]}"))


def test_hostile_text_is_escaped_on_experiment_pages(site: Site, folder: Path) -> None:
    items = tuple(Item(key=f"{HOSTILE}{n}", input=HOSTILE, expected_output=HOSTILE) for n in range(2))
    bindings = (Binding(spec=EXACT.model_copy(update={"name": f"s{HOSTILE}"})), Binding(spec=JSON, required=False))
    with closing(stored(folder, items, name=HOSTILE)) as experiment:
        outputs = {item.key: HOSTILE for item in items}
        run = experiment.run("fe", name=HOSTILE, outputs=outputs, reason=HOSTILE, state="failed", bindings=bindings)
        going = experiment.run("f", name=HOSTILE, outputs=outputs, state="running", bindings=bindings)
    paths = [path for path in site.paths() if path.startswith("experiments")]
    assert f"experiments/{run.id}/failed/1.html" in paths
    pages = [site.render(path) for path in [*paths, f"experiments/{going.id}/live.html"]]
    assert any("&lt;script&gt;alert(1)" in html for html in pages)
    for html in pages:
        for harm in ("<script>alert", "<img", 'href="javascript:', "\x1b", "\u202e"):
            assert harm not in html


def test_every_bundle_link_leads_to_a_page_in_the_bundle(folder: Path) -> None:
    with closing(stored(folder)) as experiment:
        base = experiment.run("pppf", name="base", outputs={"d": "y" * 100_000})
        experiment.run("fppe", ExperimentConfig(no_new_failures_vs=base.id))
        experiment.run("p", state="running")
    with OpenedWorkspace(Options()) as workspace:
        site = open_site(workspace, Scope())
        pages = {path: site.render(path) for path in site.paths()}
    assert any("/trial/" in path for path in pages)
    for path, html in pages.items():
        assert "data-live" not in html
        for link in re.findall(r'href="([^"#:]+\.html)(?:#[^"]*)?"', html):
            assert normpath(f"{dirname(path)}/{link}".lstrip("/")) in pages, (path, link)


def test_unreadable_store_is_reported_on_the_page(site: Site, folder: Path) -> None:
    (folder / ".evalscribe").mkdir()
    (folder / ".evalscribe" / "store.db").write_bytes(b"not a database" * 100)
    shown = texts(site.render("experiments.html"))
    assert "The store cannot be read" in shown
    assert "Inbox" in texts(site.render("index.html"))


SLOW = """\
import os, time
def answer(question):
    while not os.path.exists(question):
        time.sleep(0.01)
    return "yes"
"""


def test_running_experiment_page_adds_each_finished_trial(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "items.jsonl").write_text("".join(f'{{"input": "gate-{n}", "expected": "yes"}}\n' for n in range(3)))
    command = ("--target", "python:slow:answer", "--data", "items.jsonl", "--scorer", "exact_match")
    process = workspace.start("experiments", "run", *command, "--config", '{"concurrency": 1}')
    with serving(tmp_path) as pages:
        wait_until(lambda: "running" in texts(pages.get("experiments.html")), "the run")
        link = re.search(r'href="(experiments/[^"]+/index\.html)"', pages.get("experiments.html"))
        assert link
        live = link[1].replace("index", "live")
        assert "0 of 3 trials done" in texts(pages.get(link[1]))
        for number in range(2):
            (tmp_path / f"gate-{number}").touch()
            wait_until(lambda n=number: f"{n + 1} of 3 trials done" in texts(pages.get(f"{live}?seen={n}")), "a trial")  # type: ignore[misc]
            fragment = pages.get(f"{live}?seen={number}")
            assert f"gate-{number}" in fragment
            assert f"live.html?seen={number + 1}" in fragment
            assert "data-done" not in fragment
        assert pages.get(f"{live}?seen=2").count("<details class") == 0, "nothing new"
        assert pages.get(link[1]).count("<details class") == 2
        (tmp_path / "gate-2").touch()
        process.communicate(timeout=PATIENCE_S)
        assert f'data-done="{link[1]}"' in pages.get(f"{live}?seen=2")
        assert "gate passed" in texts(pages.get(link[1]))
        assert "data-live" not in pages.get(link[1])

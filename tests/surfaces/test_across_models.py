"""Failures shared by several models, and whether actions taken against them held, through the command line."""

import json
import re
from pathlib import Path
from typing import Any

from support import run_snapshots
from support.command import Workspace

DATES = {
    "jn7922j1": "2026-02-06",
    "jn72t14a": "2026-02-06",
    "jn7ajdrr": "2026-02-06",
    "jn76nmvg": "2026-02-11",
    "jn7062ch": "2026-02-26",
    "jn70vkj7": "2026-03-12",
}
"""Dates of the maintainers' own reports, in order."""


def write_run(folder: Path, model: str, count: int = 3, experiment: str = "default", **counts: Any) -> Path:
    run = {"_id": f"run{model.ljust(20, 'x')}", "model": model, "experiment": experiment}
    return run_snapshots.write(folder / model, count, run=run, **counts)


def rows_by_eval(workspace: Workspace, *arguments: str) -> dict[str, Any]:
    return {
        row["eval"]: row
        for row in json.loads(workspace.run("recurring", "--across-models", "--json", *arguments).out)["rows"]
    }


def test_real_runs_show_shared_failures_and_action_outcomes(workspace: Workspace, real_data: Path) -> None:
    """The expected values were checked by hand in the logs of all six runs.

    In experiment no_guidelines only gpt-5.2-codex and claude-haiku-4-5 can be compared. Both fail
    `006-clients/001-use_mutation` with `'React' is not defined` and `no-misused-promises`. Both fail
    `006-clients/000-use_query` in the one check of seven that compares function specs: they leave out `returns`, and
    the log prints only `[ { …(5) } ]`. In the default experiment gemini and opus fail the same five evals, but with
    different errors: `use_mutation` fails for `React` with one and for `no-misused-promises` with the other, and
    gemini's `storage_http_action` had another task. The 72 failures of trinity never reached the model. Fourteen more
    evals fail for both models in no_guidelines, but their logs say only `deploy failed`, so their errors cannot be
    compared.
    """
    for name in DATES:
        folder = real_data / "convex-runs" / name
        report_path = workspace.folder / json.loads((folder / "gold.json").read_text())["report"]
        report_path.parent.mkdir(parents=True, exist_ok=True)
        report_path.write_text((folder / "report.md").read_text())
    for name, date in DATES.items():
        workspace.run("analyze", real_data / "convex-runs" / name, "--judge", "rules", "--date", date)
    shared = rows_by_eval(workspace)
    notice = workspace.run("recurring", "--across-models").err
    assert (
        "12 more evals of experiment no_guidelines failed for several models, with logs that end before the" in notice
    )
    assert {eval: [one["model"] for one in row["affected"]] for eval, row in shared.items()} == {
        "006-clients/000-use_query": ["anthropic/claude-haiku-4-5", "openai/gpt-5.2-codex"],
        "006-clients/001-use_mutation": ["anthropic/claude-haiku-4-5", "openai/gpt-5.2-codex"],
    }
    assert {(row["failing"], row["models"], row["experiment"]) for row in shared.values()} == {(2, 2, "no_guidelines")}
    assert all(one["label"] and one["by_person"] for row in shared.values() for one in row["affected"])
    pages = {path.name[:8]: path.read_text() for path in workspace.reports if "kind: evalscribe" in path.read_text()}
    line = "Fails the same way for 2 of 2 models, also anthropic/claude-haiku-4-5.\n"
    assert pages["jn76nmvg"].count(line) == 2
    assert "- **Fails alike for several models** (17, 18): The evals may be at fault.\n" in pages["jn76nmvg"]
    assert {name: follow_ups(page) for name, page in pages.items()} == FOLLOW_UPS
    rows = json.loads(workspace.run("recurring", "--json").out)["rows"]
    outcomes = {
        (row["eval"].partition("/")[2], *(one["outcome"] for one in row["actions"])) for row in rows if row["actions"]
    }
    assert outcomes == ACTION_OUTCOMES


FOLLOW_UPS = {
    "jn7922j1": [],
    "jn7ajdrr": [],
    "jn70vkj7": [],
    "jn72t14a": [
        ("Did not hold", "Added retry logic", "1"),
        ("Did not hold", "Configured `no-misused-promises`", "10"),
        ("Not yet seen", "Removed the eslint-disable requirement", "6"),
        (
            "Held",
            "The `promise-function-async` rule",
            "002-queries/010-parallel_fetch, 003-mutations/004-cascade_delete",
        ),
        ("Held", "Removed the eslint-disable requirement", "004-actions/001-run_mutation"),
    ],
    "jn76nmvg": [
        ("Did not hold", "Extended eslint config", "18"),
        ("Held", "Added retry logic", "004-actions/000-fetch"),
    ],
    "jn7062ch": [
        ("Not yet seen", "Configured `no-misused-promises`", "7"),
        ("Held", "Added `CONVEX_SITE_PORT`", "000-fundamentals/002-basic_http_endpoint"),
        ("Held", "Downgraded `prefer-const`", "002-queries/014-select_distinct"),
        ("Held", "Downgraded `explicit-function-return-type`", "5"),
        (
            "Held",
            "The `promise-function-async` rule",
            "002-queries/010-parallel_fetch, 003-mutations/004-cascade_delete",
        ),
        (
            "Held",
            "Removed the eslint-disable requirement",
            "004-actions/001-run_mutation, 004-actions/002-run_query_mutation",
        ),
    ],
}
"""Expected outcomes of actions, taken by hand from the maintainers' reports and the logs.

The second run of opus fails again with `fetch failed` despite the retries, and with `no-misused-promises`. Its task of
`run_query_mutation` still asks for the eslint-disable, so that run cannot show whether the change held. Gemini's
`use_mutation` fails the same step because of `React`; its `http_action_routing` passes eslint and fails a test. The
log of gpt-5.2-codex shows `no-misused-promises` again. Evals that trinity never reached count for nothing.
"""
ACTION_OUTCOMES = {
    ("000-fetch", "held"),
    ("001-use_mutation", "did not hold"),
    ("002-basic_http_endpoint", "held", "did not hold"),
    ("002-run_query_mutation", "held"),
    ("010-parallel_fetch", "held"),
    ("014-select_distinct", "held"),
    ("004-cascade_delete", "held"),
    ("001-run_mutation", "held"),
    ("007-http_action_routing", "held"),
}


def follow_ups(page: str) -> list[tuple[str, str, str]]:
    """Parse the follow-up lines of a page: outcome, known beginning of the action, and the evals or findings named."""
    lines = re.findall(r'^- \*\*(Held|Did not hold|Not yet seen)\*\* since .*?: "(.*)" \((.*)\)\.$', page, re.MULTILINE)
    known_actions = {row[1] for rows in FOLLOW_UPS.values() for row in rows}
    return [
        (outcome, next((one for one in known_actions if text.startswith(one)), text), evals)
        for outcome, text, evals in lines
    ]


def test_models_with_the_same_failure_are_listed_and_counted(workspace: Workspace, tmp_path: Path) -> None:
    for model in ("m-one", "m-two", "m-three"):
        workspace.run("analyze", write_run(tmp_path, model), "--judge", "rules", "--quiet")
    workspace.run("analyze", write_run(tmp_path, "m-four", experiment="other"), "--judge", "rules", "--quiet")
    clean = write_run(tmp_path, "m-clean", 0, passedCount=6, totalEvals=6)
    workspace.run("analyze", clean, "--judge", "rules", "--quiet")
    rows = rows_by_eval(workspace)
    assert {(row["failing"], row["models"]) for row in rows.values()} == {(3, 4)}
    assert rows_by_eval(workspace, "--min", "4") == {}
    two = rows_by_eval(workspace, "example/m-one", "example/m-two")
    assert {(row["failing"], row["models"]) for row in two.values()} == {(2, 2)}
    again = workspace.run("analyze", tmp_path / "m-one", "--judge", "rules", "--json").out
    across = [finding["across"] for finding in json.loads(again)["findings"]]
    assert {(one["failing"], one["models"], *one["alike"]) for one in across if one} == {
        (3, 4, "example/m-three", "example/m-two")
    }
    assert "fails the same way for 3 of 4 models" in workspace.run("recurring", "--across-models").out
    explained = workspace.run("explain", tmp_path / "m-one", run_snapshots.eval_path(0), "--judge", "rules").out
    assert "Models: fails the same way for 3 of 4 models, also example/m-three, example/m-two\n" in explained


def test_failure_of_another_eval_version_is_not_counted(workspace: Workspace, tmp_path: Path) -> None:
    first, second = write_run(tmp_path, "m-one", 1), write_run(tmp_path, "m-two", 1)
    (payload,) = (second / "debug").iterdir()
    debug = json.loads(payload.read_text())
    debug["evalSourceFiles"]["grader.test.ts"] += "// stricter now\n"
    payload.write_text(json.dumps(debug))
    for folder in (first, second):
        workspace.run("analyze", folder, "--judge", "rules", "--quiet")
    assert rows_by_eval(workspace) == {}
    (report,) = [path for path in workspace.reports if "m-two" in str(path)]
    assert ("Failed in the same way in an earlier version of the eval: example/m-one.\n") in report.read_text()


def test_model_without_a_stored_run_is_reported_as_not_counted(workspace: Workspace, tmp_path: Path) -> None:
    assert "no stored run to compare" in workspace.run("recurring", "--across-models", code=66).err
    workspace.run("analyze", write_run(tmp_path, "m-one"), "--judge", "rules", "--quiet")
    other = workspace.folder / "reports" / "example" / "m-two" / "abcdefgh_2026-01-01.md"
    other.parent.mkdir()
    other.write_text(workspace.report.read_text().replace("m-one", "m-two").replace("runm-two", "abcdefgh"))
    ended = workspace.run("recurring", "--across-models")
    assert "example/m-two is not counted: no run of it is in the store" in ended.err
    assert "in the same way for 2 or more models" in ended.out
    assert "in the same way for 5 or more models" in workspace.run("recurring", "--across-models", "--min", "5").out
    assert "there is no stored run and no report of example/m-x" in (
        workspace.run("recurring", "--across-models", "example/m-x", code=66).err
    )


def test_later_run_of_another_model_shows_whether_an_action_held(workspace: Workspace, tmp_path: Path) -> None:
    workspace.run("analyze", write_run(tmp_path, "m-one"), "--judge", "rules", "--quiet", "--date", "2026-01-01")
    report = workspace.report
    evals = [run_snapshots.eval_path(n) for n in range(3)]
    names = ", ".join(evals)
    action_line = f"- 2026-01-02: R1, downgrade the rule: `lint.toml` ({names}), commit `abc1234` on `evalscribe/R1-x`."
    report.write_text(report.read_text().replace("## Actions taken\nNone.", f"## Actions taken\n{action_line}"))
    later = write_run(tmp_path, "m-two", 1, passedCount=5, totalEvals=6)
    workspace.run("analyze", later, "--judge", "rules", "--quiet", "--date", "2026-01-03")
    (page,) = [path.read_text() for path in workspace.reports if "m-two" in str(path)]
    since = f"since [2026-01-01](../m-one/{report.name}) of m-one"
    assert f'- **Did not hold** {since}: "R1, downgrade the rule: `lint.toml`" (1).\n' in page
    assert f'- **Held** {since}: "R1, downgrade the rule: `lint.toml`" ({evals[1]}, {evals[2]}).\n' in page
    rows = json.loads(workspace.run("recurring", "example/m-one", "--json").out)["rows"]
    outcomes = {row["eval"]: [action["outcome"] for action in row["actions"]] for row in rows}
    assert outcomes == {evals[0]: ["did not hold"], evals[1]: ["held"], evals[2]: ["held"]}
    document = json.loads(workspace.run("analyze", later, "--judge", "rules", "--json").out)
    assert [one["outcome"] for one in document["follow_ups"]] == ["did not hold", "held"]

"""`evalscribe compare` with generated trajectory files; a loopback Messages API serves as the judge."""

import csv
import json
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.command import Workspace
from support.messages_server import FAILED_ATTEMPTS, Answer, Call, MessagesServer, failure, says
from support.waiting import PATIENCE_S, wait_until

KEY = "sk-ant-test-0000"


def trial_entry(task: int, trial: int, *, passes: bool, gives_up: bool = False) -> dict[str, Any]:
    """Return a trajectory that looks an order up and then refunds it or, with `gives_up`, transfers the user."""
    call = {"name": "refund", "arguments": json.dumps({"order": f"W{task}"})}
    if gives_up:
        call = {"name": "transfer", "arguments": json.dumps({"summary": f"cannot refund W{task}"})}
    lookup = {"name": "look_up", "arguments": json.dumps({"order": f"W{task}"})}
    traj = [
        {"role": "system", "content": "Refund what was paid."},
        {"role": "user", "content": f"Refund order W{task}, please. Trial {trial}."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": lookup}]},
        {"role": "tool", "tool_call_id": "1", "name": "look_up", "content": "paid by card"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "2", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "2", "name": call["name"], "content": "done"},
    ]
    info = {"task": {"user_id": "u", "actions": [], "instruction": f"Refund W{task}.", "outputs": []}}
    return {"task_id": task, "trial": trial, "reward": float(passes), "info": info, "traj": traj}


def write(path: Path, *trials: dict[str, Any]) -> Path:
    path.write_text(json.dumps(trials))
    return path


@pytest.fixture
def run_files(workspace: Workspace) -> tuple[str, str]:
    """Baseline and candidate files of eight tasks: six regressed, one fixed, one passed by both."""
    (workspace.folder / "evalscribe.toml").touch()
    base = [trial_entry(task, 0, passes=task != 7, gives_up=task == 7) for task in range(8)]
    candidate = [trial_entry(task, 1, passes=task >= 6, gives_up=task < 6) for task in range(8)]
    return str(write(workspace.folder / "base.json", *base)), str(write(workspace.folder / "new.json", *candidate))


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}


def json_answer(value: Any) -> Answer:
    return says(f"<response>{json.dumps(value)}</response>")


def explain_answer(call: Call) -> Answer:
    """Answer as a judge that quotes both trials, invents a quotation for task 3, and groups the explanations."""
    prompt = json.dumps(call.body["messages"])
    if "A0" in prompt and "groups" in prompt:
        text = "It hands over where the base refunds [A0], [A1]."
        group = {"name": "Hands over", "text": text, "members": ["A0", "[A1]", "A2", "A9", "A4"]}
        return json_answer({"groups": [group, {"name": "alone", "text": "x [A3]", "members": ["A3"]}]})
    task = re.search(r"Refund order (W\d)", prompt)
    quotes = "[T0B4:<RANGE>refund</RANGE>] and [T1B4:<RANGE>cannot refund</RANGE>]"
    quotes = "[T0B4:<RANGE>never was said</RANGE>]" if task and task[1] == "W3" else quotes
    reply = {"explanation": f"It hands over {quotes} instead.", "behaviour": "Hands Over", "kind": "model"}
    return json_answer(reply)


def regressed_sections(page: str) -> Mapping[str, str]:
    """Return the section of each regressed eval by its name."""
    section = page.split("\n## Regressed\n")[1].split("\n## ")[0]
    return {part.partition("\n")[0]: part for part in section.split("\n### ")[1:]}


def test_files_are_imported_and_compared_without_a_model(workspace: Workspace, run_files: tuple[str, str]) -> None:
    ended = workspace.run("compare", *run_files, "--judge", "rules")
    page = workspace.report.read_text()
    assert "kind: evalscribe-compare/1" in page
    assert "# base.json → new.json: 6 broke, 1 fixed of 8 evals" in ended.out
    assert "in 12 of 100 comparisons" in ended.out, "McNemar's exact of six and one: 0.125"
    assert "`transfer instead of refund`, the first tool call that differs (6)" in page
    sections = regressed_sections(page)
    assert len(sections) == 6
    assert "candidate, `message 5`: `transfer(summary='cannot refund W0')`" in next(iter(sections.values()))


def test_repeated_comparison_by_run_id_prefix_is_unchanged(workspace: Workspace, run_files: tuple[str, str]) -> None:
    workspace.run("compare", *run_files, "--judge", "rules")
    before = workspace.report.read_bytes()
    runs = re.findall(rb'(?:base|candidate): \["(\w+)"\]', before)
    ended = workspace.run("compare", *(run.decode()[:8] for run in runs), "--judge", "rules")
    assert "(unchanged)" in ended.out
    assert workspace.report.read_bytes() == before


def test_edited_comparison_is_kept_and_the_new_page_is_written_beside_it(
    workspace: Workspace, run_files: tuple[str, str]
) -> None:
    workspace.run("compare", *run_files, "--judge", "rules")
    edited = workspace.report
    edited.write_text(edited.read_text() + "\nWe know about this: see the ticket.\n")
    ended = workspace.run("compare", *run_files, "--judge", "rules")
    assert "was edited and is left as it is" in ended.out
    assert "see the ticket" in edited.read_text()
    (beside,) = [path for path in workspace.reports if path != edited]
    assert beside.name.endswith(".evalscribe.md")
    assert "(unchanged)" in workspace.run("compare", *run_files, "--judge", "rules").out


def test_comparison_is_not_listed_or_checked_as_a_report(workspace: Workspace, run_files: tuple[str, str]) -> None:
    workspace.run("compare", *run_files, "--judge", "rules")
    name = workspace.report.relative_to(workspace.folder / "reports").as_posix()
    assert "No reports yet" in workspace.run("reports", "list").out
    assert "0 reports checked" in workspace.run("reports", "check").out
    assert "6 broke" in workspace.run("reports", "show", name).out
    assert "No earlier report" in workspace.run("recurring").out
    assert "not a report" in workspace.run("reports", "parse", name, code=65).err


def test_judge_explains_regressions_with_verified_quotations_from_cache(
    workspace: Workspace, run_files: tuple[str, str]
) -> None:
    with MessagesServer(explain_answer) as server:
        first = workspace.run("compare", *run_files, **access(server))
        call_count = len(server.calls)
        again = workspace.run("compare", *run_files, **access(server))
        assert len(server.calls) == call_count + 2, (
            "only the one whose citation never held is asked, and asked to mend it"
        )
    page = workspace.report.read_text()
    assert "- hands-over, It hands over where the base refunds. (5): " in page
    assert "Spent: judge" in first.err
    assert "regressed evals: about" in first.err
    assert "(cached)" in again.err
    sections = regressed_sections(page)
    good = next(part for name, part in sections.items() if "task-0" in name)
    assert "- Why (model): It hands over instead." in good
    assert "  - base, `message 5`: `refund`" in good
    assert "  - candidate, `message 5`: `cannot refund`" in good
    bad = next(part for name, part in sections.items() if "task-3" in name)
    assert "never was said" not in bad
    assert "- First difference:" in bad, "without a judge's word that holds the rules' stands"


def test_dry_run_calls_no_model_and_writes_no_report(workspace: Workspace, run_files: tuple[str, str]) -> None:
    with MessagesServer(explain_answer) as server:
        ended = workspace.run("compare", *run_files, "--dry-run", **access(server))
        assert server.calls == []
    assert "Estimate: about" in ended.out
    assert workspace.reports == []


def test_answers_before_a_refused_key_are_cached(workspace: Workspace, run_files: tuple[str, str]) -> None:
    def script(call: Call) -> Answer:
        return explain_answer(call) if call.number < 2 else failure(401, "authentication_error")

    with MessagesServer(script) as server:
        ended = workspace.run("compare", *run_files, "--concurrency", "1", code=77, **access(server))
    assert "Spent: judge 2 calls" in ended.err
    assert workspace.reports == []
    with MessagesServer(explain_answer) as server:
        ended = workspace.run("compare", *run_files, "--concurrency", "1", **access(server))
    assert ended.err.count("(cached)") == 2


def test_no_report_option_prints_json_and_writes_no_report(workspace: Workspace, run_files: tuple[str, str]) -> None:
    ended = workspace.run("compare", *run_files, "--judge", "rules", "--json", "--no-report")
    comparison = json.loads(ended.out)
    assert comparison["passes"]["p"] == 0.125
    assert {pair["change"] for pair in comparison["pairs"]} == {"regressed", "fixed", "both-passed"}
    assert comparison["behaviours"][0]["evals"].__len__() == 6
    assert workspace.reports == []


def test_within_compares_failed_trials_with_one_that_passed(workspace: Workspace) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    trials = [trial_entry(0, n, passes=n == 1, gives_up=n != 1) for n in range(3)] + [trial_entry(1, 0, passes=False)]
    ended = workspace.run("compare", "--within", write(workspace.folder / "runs.json", *trials), "--judge", "rules")
    assert "2 failed trials beside one that passed" in ended.out
    assert "Beside trial 2, which passed" in ended.out
    assert "failed, `message 5`: `transfer(" in ended.out
    assert "Never passed" in ended.out


def test_failed_trial_outside_the_models_groups_keeps_its_own_behaviour(workspace: Workspace) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    file = write(workspace.folder / "runs.json", *[trial_entry(0, n, passes=n == 0, gives_up=n != 0) for n in range(4)])

    def of_two(call: Call) -> Answer:
        if "groups" not in json.dumps(call.body["messages"]):
            return explain_answer(call)
        return json_answer({"groups": [{"name": "Two", "text": "Both [A0].", "members": ["A0", "A1"]}]})

    with MessagesServer(of_two) as server:
        ended = workspace.run("compare", "--within", file, "--json", **access(server))
    groups = {one["name"]: len(one["evals"]) for one in json.loads(ended.out)["behaviours"]}
    assert groups == {"two": 2, "hands-over": 1}


def test_three_runs_are_compared_in_a_matrix_and_as_csv(workspace: Workspace, run_files: tuple[str, str]) -> None:
    third = write(workspace.folder / "third.json", *[trial_entry(task, 2, passes=True) for task in range(8)])
    ended = workspace.run("compare", *run_files, third, "--csv")
    rows = list(csv.DictReader(ended.out.splitlines()))
    assert len(rows) == 8
    assert {row["discriminates"] for row in rows} == {"yes", "no"}
    assert workspace.report.name.startswith("compare_")
    assert "The runs differ on" in workspace.report.read_text()


def test_models_of_a_collection_are_compared_by_name(workspace: Workspace, run_files: tuple[str, str]) -> None:
    base, new = run_files
    workspace.run("import", base, "--collection", "both", "--provider", "p", "--model", "old")
    workspace.run("import", new, "--collection", "both", "--provider", "p", "--model", "new")
    ended = workspace.run("compare", "p/old", "new", "--collection", "both", "--judge", "rules")
    assert "# p/old → p/new: 6 broke, 1 fixed of 8 evals" in ended.out
    assert workspace.report.parent == workspace.folder / "reports" / "p" / "new"
    unknown = workspace.run("compare", "p/other", "new", "--collection", "both", "--judge", "rules", code=66).err
    assert "not a stored run, file or model of a collection" in unknown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["one"], 64, "name two runs", id="one side"),
        pytest.param(["a", "b", "--within"], 64, "--within takes one run", id="within two"),
        pytest.param(["a", "b", "--csv"], 64, "--csv prints a matrix", id="csv of two"),
        pytest.param(["a", "b", "--csv", "--json"], 64, "--csv", id="csv and json"),
        pytest.param(["base.json", "base.json", "--judge", "rules"], 64, "in common", id="a run with itself"),
        pytest.param(["base.json", "empty.json", "--judge", "rules"], 65, "empty.json", id="no runs"),
        pytest.param(["base.json", "p/m", "--collection", "none", "--judge", "rules"], 66, "none", id="no collection"),
    ],
)
def test_invalid_comparison_prints_an_error_without_traceback(
    workspace: Workspace, run_files: tuple[str, str], arguments: list[str], code: int, words: str
) -> None:
    (workspace.folder / "empty.json").write_text("[]")
    ended = workspace.run("compare", *arguments, code=code)
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert workspace.reports == []


def test_models_in_several_collections_require_the_collection_option(
    workspace: Workspace, run_files: tuple[str, str]
) -> None:
    for name, path in zip(("one", "two"), run_files, strict=True):
        workspace.run("import", path, "--collection", name, "--model", f"openai/{name}")
    ended = workspace.run("compare", "openai/one", "openai/two", code=64)
    assert "there are several collections; choose one with --collection: one, two" in ended.err


def expensive_answer(call: Call) -> Answer:
    """Answer as `explain_answer`, with token counts that cost eleven cents."""
    body = json.loads(explain_answer(call).body)
    return Answer(body=json.dumps({**body, "usage": {"input_tokens": 20_000, "output_tokens": 2_000}}).encode())


def test_rules_explain_evals_beyond_the_budget_until_a_rerun_asks_the_judge(
    workspace: Workspace, run_files: tuple[str, str]
) -> None:
    with MessagesServer(expensive_answer) as server:
        workspace.run("compare", *run_files, "--concurrency", "1", "--budget", "0.5", **access(server))
        call_count = len(server.calls)
        assert 1 <= call_count < 6
        sections = regressed_sections(workspace.report.read_text())
        assert sum("- Why (model)" in part for part in sections.values()) == call_count
        assert sum("- First difference" in part for part in sections.values()) == 6 - call_count
        again = workspace.run("compare", *run_files, "--concurrency", "1", **access(server))
        assert again.err.count("(cached)") == call_count


def test_killed_comparison_continues_with_cached_answers(workspace: Workspace, run_files: tuple[str, str]) -> None:
    with MessagesServer(lambda call: explain_answer(call) if call.number < 2 else Answer(held=True)) as server:
        process = workspace.apart.start("compare", *run_files, "--concurrency", "1", **access(server))
        wait_until(lambda: len(server.calls) == 3, "the third eval is asked about")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert workspace.reports == []
    with MessagesServer(explain_answer) as server:
        ended = workspace.run("compare", *run_files, "--concurrency", "1", **access(server))
        assert ended.err.count("(cached)") == 2
    assert "- Why (model)" in workspace.report.read_text()


@pytest.mark.parametrize(
    ("conditions", "failure_text"),
    [
        (
            ("no-regressions",),
            f"no-regressions: 6 got worse: {', '.join(f'tau-bench/task-{n}' for n in range(5))} and 1 more",
        ),
        (("pass_rate>=base-0.02",), "pass_rate>=base-0.02: pass_rate is 0.25, the limit is 0.855"),
        (("pass_rate >= 80%", "regressed<=6"), "pass_rate >= 80%: pass_rate is 0.25, the limit is 0.8"),
        (("not-worse", "pass_rate>=base-0.625", "regressed<=6", "fixed==1", "pass_rate<base"), None),
    ],
)
def test_assert_conditions_decide_the_exit_code(
    workspace: Workspace, run_files: tuple[str, str], conditions: tuple[str, ...], failure_text: str | None
) -> None:
    arguments = [part for one in conditions for part in ("--assert", one)]
    ended = workspace.run(
        "compare", *run_files, "--judge", "rules", "--json", *arguments, code=65 if failure_text else 0
    )
    assert json.loads(ended.out)["base"]["name"] == "base.json"
    if failure_text:
        assert [line for line in ended.err.splitlines() if "--assert" in line] == [
            f"evalscribe: --assert does not hold: {failure_text}"
        ]
    else:
        assert "5 conditions of --assert hold." in ended.err


@pytest.mark.parametrize(
    "condition", ["better", "pass_rate", "pass_rate>=", "regressed<=base", "pass_rate>=base*2", ""]
)
def test_invalid_condition_is_refused_before_any_file_is_read(workspace: Workspace, condition: str) -> None:
    error = workspace.run("compare", "none.json", "neither.json", "--assert", condition, code=64).err
    assert f"--assert {condition!r} is not a condition: give no-regressions, not-worse" in error


def test_no_condition_holds_without_common_evals_or_for_incomplete_runs(
    workspace: Workspace, run_files: tuple[str, str]
) -> None:
    write(workspace.folder / "other.json", trial_entry(99, 0, passes=True))
    arguments = ("--judge", "rules", "--no-report", "--assert", "regressed<=9")
    assert "Nothing can be compared" in workspace.run("compare", run_files[0], "other.json", *arguments, code=65).err
    (workspace.folder / "torn.json").write_text((workspace.folder / "base.json").read_text()[:-40])
    error = workspace.run("compare", run_files[0], "torn.json", *arguments, code=65).err
    assert "is incomplete: its import has not completed. No condition holds." in error
    assert "needs two sides" in workspace.run("compare", "--within", run_files[0], "--assert", "not-worse", code=64).err


@pytest.mark.parametrize("cause", FAILED_ATTEMPTS)
def test_failed_rerun_keeps_the_previous_comparison(
    cause: str, workspace: Workspace, run_files: tuple[str, str]
) -> None:
    script, more, code = FAILED_ATTEMPTS[cause]
    with MessagesServer(explain_answer) as server:
        workspace.run("compare", *run_files, **access(server))
    before = workspace.report.read_bytes()
    with MessagesServer(script) as server:
        workspace.run("compare", *run_files, "--fresh", *more, code=code, **access(server))
    assert workspace.report.read_bytes() == before
    with MessagesServer(explain_answer) as server:
        again = workspace.run("compare", *run_files, **access(server))
    assert again.err.count("(cached)") == 5, "stored answers stay too; one of six never has a quotation"
    assert "(unchanged)" in again.out


def test_rerun_with_fewer_explanations_keeps_the_previous_comparison(
    workspace: Workspace, run_files: tuple[str, str]
) -> None:
    with MessagesServer(explain_answer) as server:
        workspace.run("compare", *run_files, **access(server))
    before = workspace.report.read_bytes()
    with MessagesServer(lambda call: failure(400, "no") if call.number == 1 else explain_answer(call)) as server:
        ended = workspace.run("compare", *run_files, "--fresh", "--concurrency", "1", **access(server))
    assert "the judge left 2 questions unanswered this time" in ended.out
    assert workspace.report.read_bytes() == before

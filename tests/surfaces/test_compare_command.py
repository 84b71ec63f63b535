"""`evalscribe compare` over made files of trajectories, with a Messages API on loopback where a judge is asked."""

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


def tried(task: int, trial: int, *, passes: bool, gives_up: bool = False) -> dict[str, Any]:
    """A trajectory: it looks an order up, and refunds it, or hands over."""
    call = {"name": "refund", "arguments": json.dumps({"order": f"W{task}"})}
    if gives_up:
        call = {"name": "transfer", "arguments": json.dumps({"summary": f"cannot refund W{task}"})}
    look = {"name": "look_up", "arguments": json.dumps({"order": f"W{task}"})}
    traj = [
        {"role": "system", "content": "Refund what was paid."},
        {"role": "user", "content": f"Refund order W{task}, please. Trial {trial}."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": look}]},
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
def sides(workspace: Workspace) -> tuple[str, str]:
    """Eight tasks of which the candidate fails six that the base passed, and passes one that it failed."""
    (workspace.folder / "evalscribe.toml").touch()
    base = [tried(task, 0, passes=task != 7, gives_up=task == 7) for task in range(8)]
    candidate = [tried(task, 1, passes=task >= 6, gives_up=task < 6) for task in range(8)]
    return str(write(workspace.folder / "base.json", *base)), str(write(workspace.folder / "new.json", *candidate))


def access(server: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "EVALSCRIBE_JUDGE": "anthropic/claude-opus-5-5"}


def says_json(value: Any) -> Answer:
    return says(f"<response>{json.dumps(value)}</response>")


def explains(call: Call) -> Answer:
    """A judge that quotes both tries, invents something about task 3, and finds what they have in common."""
    asked = json.dumps(call.body["messages"])
    if "A0" in asked and "groups" in asked:
        text = "It hands over where the base refunds [A0], [A1]."
        group = {"name": "Hands over", "text": text, "members": ["A0", "[A1]", "A2", "A9", "A4"]}
        return says_json({"groups": [group, {"name": "alone", "text": "x [A3]", "members": ["A3"]}]})
    task = re.search(r"Refund order (W\d)", asked)
    quotes = "[T0B4:<RANGE>refund</RANGE>] and [T1B4:<RANGE>cannot refund</RANGE>]"
    quotes = "[T0B4:<RANGE>never was said</RANGE>]" if task and task[1] == "W3" else quotes
    said = {"explanation": f"It hands over {quotes} instead.", "behaviour": "Hands Over", "kind": "model"}
    return says_json(said)


def regressed(page: str) -> Mapping[str, str]:
    """By eval what is told of it."""
    section = page.split("\n## Regressed\n")[1].split("\n## ")[0]
    return {part.partition("\n")[0]: part for part in section.split("\n### ")[1:]}


def test_files_are_imported_and_compared_without_a_model(workspace: Workspace, sides: tuple[str, str]) -> None:
    said = workspace.run("compare", *sides, "--judge", "rules")
    page = workspace.report.read_text()
    assert "kind: evalscribe-compare/1" in page
    assert "# base.json → new.json: 6 broke, 1 fixed of 8 evals" in said.out
    assert "in 12 of 100 comparisons" in said.out, "McNemar's exact of six and one: 0.125"
    assert "`transfer instead of refund`, the first tool call that differs (6)" in page
    told = regressed(page)
    assert len(told) == 6
    assert "candidate, `message 5`: `transfer(summary='cannot refund W0')`" in next(iter(told.values()))


def test_the_same_again_changes_nothing_and_runs_are_found_by_their_beginning(
    workspace: Workspace, sides: tuple[str, str]
) -> None:
    workspace.run("compare", *sides, "--judge", "rules")
    before = workspace.report.read_bytes()
    runs = re.findall(rb'(?:base|candidate): \["(\w+)"\]', before)
    ended = workspace.run("compare", *(run.decode()[:8] for run in runs), "--judge", "rules")
    assert "(unchanged)" in ended.out
    assert workspace.report.read_bytes() == before


def test_what_people_edited_is_kept_and_the_new_page_stands_beside_it(
    workspace: Workspace, sides: tuple[str, str]
) -> None:
    workspace.run("compare", *sides, "--judge", "rules")
    edited = workspace.report
    edited.write_text(edited.read_text() + "\nWe know about this: see the ticket.\n")
    ended = workspace.run("compare", *sides, "--judge", "rules")
    assert "was edited and is left as it is" in ended.out
    assert "see the ticket" in edited.read_text()
    (beside,) = [path for path in workspace.reports if path != edited]
    assert beside.name.endswith(".evalscribe.md")
    assert "(unchanged)" in workspace.run("compare", *sides, "--judge", "rules").out


def test_a_comparison_is_no_report(workspace: Workspace, sides: tuple[str, str]) -> None:
    workspace.run("compare", *sides, "--judge", "rules")
    name = workspace.report.relative_to(workspace.folder / "reports").as_posix()
    assert "No reports yet" in workspace.run("reports", "list").out
    assert "0 reports checked" in workspace.run("reports", "check").out
    assert "6 broke" in workspace.run("reports", "show", name).out
    assert "No earlier report" in workspace.run("recurring").out
    assert "not a report" in workspace.run("reports", "parse", name, code=65).err


def test_a_judge_says_why_with_quotations_that_were_verified_and_is_asked_once(
    workspace: Workspace, sides: tuple[str, str]
) -> None:
    with MessagesServer(explains) as server:
        first = workspace.run("compare", *sides, **access(server))
        asked = len(server.calls)
        again = workspace.run("compare", *sides, **access(server))
        assert len(server.calls) == asked + 2, "only the one whose citation never held is asked, and asked to mend it"
    page = workspace.report.read_text()
    assert "- hands-over, It hands over where the base refunds. (5): " in page
    assert "Spent: judge" in first.err
    assert "regressed evals: about" in first.err
    assert "(cached)" in again.err
    told = regressed(page)
    good = next(part for name, part in told.items() if "task-0" in name)
    assert "- Why (model): It hands over instead." in good
    assert "  - base, `message 5`: `refund`" in good
    assert "  - candidate, `message 5`: `cannot refund`" in good
    bad = next(part for name, part in told.items() if "task-3" in name)
    assert "never was said" not in bad
    assert "- First difference:" in bad, "without a judge's word that holds the rules' stands"


def test_a_dry_run_asks_nothing_and_writes_nothing(workspace: Workspace, sides: tuple[str, str]) -> None:
    with MessagesServer(explains) as server:
        ended = workspace.run("compare", *sides, "--dry-run", **access(server))
        assert server.calls == []
    assert "Estimate: about" in ended.out
    assert workspace.reports == []


def test_what_was_judged_before_the_key_was_refused_is_kept(workspace: Workspace, sides: tuple[str, str]) -> None:
    def script(call: Call) -> Answer:
        return explains(call) if call.number < 2 else failure(401, "authentication_error")

    with MessagesServer(script) as server:
        ended = workspace.run("compare", *sides, "--concurrency", "1", code=77, **access(server))
    assert "Spent: judge 2 calls" in ended.err
    assert workspace.reports == []
    with MessagesServer(explains) as server:
        ended = workspace.run("compare", *sides, "--concurrency", "1", **access(server))
    assert ended.err.count("(cached)") == 2


def test_json_and_no_report(workspace: Workspace, sides: tuple[str, str]) -> None:
    ended = workspace.run("compare", *sides, "--judge", "rules", "--json", "--no-report")
    found = json.loads(ended.out)
    assert found["passes"]["p"] == 0.125
    assert {pair["change"] for pair in found["pairs"]} == {"regressed", "fixed", "both-passed"}
    assert found["behaviours"][0]["evals"].__len__() == 6
    assert workspace.reports == []


def test_failed_trials_stand_beside_one_that_passed(workspace: Workspace) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    trials = [tried(0, n, passes=n == 1, gives_up=n != 1) for n in range(3)] + [tried(1, 0, passes=False)]
    ended = workspace.run("compare", "--within", write(workspace.folder / "runs.json", *trials), "--judge", "rules")
    assert "2 failed trials beside one that passed" in ended.out
    assert "Beside trial 2, which passed" in ended.out
    assert "failed, `message 5`: `transfer(" in ended.out
    assert "Never passed" in ended.out


def test_a_failed_trial_that_no_group_has_is_told_beside_one_of_its_eval_that_has(workspace: Workspace) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    file = write(workspace.folder / "runs.json", *[tried(0, n, passes=n == 0, gives_up=n != 0) for n in range(4)])

    def of_two(call: Call) -> Answer:
        if "groups" not in json.dumps(call.body["messages"]):
            return explains(call)
        return says_json({"groups": [{"name": "Two", "text": "Both [A0].", "members": ["A0", "A1"]}]})

    with MessagesServer(of_two) as server:
        ended = workspace.run("compare", "--within", file, "--json", **access(server))
    groups = {one["name"]: len(one["evals"]) for one in json.loads(ended.out)["behaviours"]}
    assert groups == {"two": 2, "hands-over": 1}


def test_more_than_two_are_a_matrix_also_as_csv(workspace: Workspace, sides: tuple[str, str]) -> None:
    third = write(workspace.folder / "third.json", *[tried(task, 2, passes=True) for task in range(8)])
    ended = workspace.run("compare", *sides, third, "--csv")
    rows = list(csv.DictReader(ended.out.splitlines()))
    assert len(rows) == 8
    assert {row["discriminates"] for row in rows} == {"yes", "no"}
    assert workspace.report.name.startswith("compare_")
    assert "The runs differ on" in workspace.report.read_text()


def test_a_model_of_a_collection_is_all_its_runs(workspace: Workspace, sides: tuple[str, str]) -> None:
    base, new = sides
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
def test_what_cannot_be_compared_is_said_in_a_line_or_two(
    workspace: Workspace, sides: tuple[str, str], arguments: list[str], code: int, words: str
) -> None:
    (workspace.folder / "empty.json").write_text("[]")
    ended = workspace.run("compare", *arguments, code=code)
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert workspace.reports == []


def test_a_model_of_several_collections_asks_which_one(workspace: Workspace, sides: tuple[str, str]) -> None:
    for name, path in zip(("one", "two"), sides, strict=True):
        workspace.run("import", path, "--collection", name, "--model", f"openai/{name}")
    ended = workspace.run("compare", "openai/one", "openai/two", code=64)
    assert "there are several collections; choose one with --collection: one, two" in ended.err


def dear(call: Call) -> Answer:
    """Each answer costs eleven cents."""
    body = json.loads(explains(call).body)
    return Answer(body=json.dumps({**body, "usage": {"input_tokens": 20_000, "output_tokens": 2_000}}).encode())


def test_where_the_budget_ends_the_rules_go_on_and_more_of_it_asks_the_rest(
    workspace: Workspace, sides: tuple[str, str]
) -> None:
    with MessagesServer(dear) as server:
        workspace.run("compare", *sides, "--concurrency", "1", "--budget", "0.5", **access(server))
        asked = len(server.calls)
        assert 1 <= asked < 6
        told = regressed(workspace.report.read_text())
        assert sum("- Why (model)" in part for part in told.values()) == asked
        assert sum("- First difference" in part for part in told.values()) == 6 - asked
        again = workspace.run("compare", *sides, "--concurrency", "1", **access(server))
        assert again.err.count("(cached)") == asked


def test_killed_at_any_time_it_goes_on_and_nothing_is_asked_twice(workspace: Workspace, sides: tuple[str, str]) -> None:
    with MessagesServer(lambda call: explains(call) if call.number < 2 else Answer(held=True)) as server:
        process = workspace.apart.start("compare", *sides, "--concurrency", "1", **access(server))
        wait_until(lambda: len(server.calls) == 3, "the third eval is asked about")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert workspace.reports == []
    with MessagesServer(explains) as server:
        ended = workspace.run("compare", *sides, "--concurrency", "1", **access(server))
        assert ended.err.count("(cached)") == 2
    assert "- Why (model)" in workspace.report.read_text()


@pytest.mark.parametrize(
    ("conditions", "told"),
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
def test_conditions_decide_the_exit_code(
    workspace: Workspace, sides: tuple[str, str], conditions: tuple[str, ...], told: str | None
) -> None:
    arguments = [part for one in conditions for part in ("--assert", one)]
    ended = workspace.run("compare", *sides, "--judge", "rules", "--json", *arguments, code=65 if told else 0)
    assert json.loads(ended.out)["base"]["name"] == "base.json"
    if told:
        assert [line for line in ended.err.splitlines() if "--assert" in line] == [
            f"evalscribe: --assert does not hold: {told}"
        ]
    else:
        assert "5 conditions hold." in ended.err


@pytest.mark.parametrize(
    "condition", ["better", "pass_rate", "pass_rate>=", "regressed<=base", "pass_rate>=base*2", ""]
)
def test_what_is_no_condition_is_an_error_before_anything_is_read(workspace: Workspace, condition: str) -> None:
    said = workspace.run("compare", "none.json", "neither.json", "--assert", condition, code=64).err
    assert f"--assert {condition!r} is not a condition: give no-regressions, not-worse" in said


def test_no_condition_holds_if_nothing_is_compared_or_a_run_is_incomplete(
    workspace: Workspace, sides: tuple[str, str]
) -> None:
    write(workspace.folder / "other.json", tried(99, 0, passes=True))
    arguments = ("--judge", "rules", "--no-report", "--assert", "regressed<=9")
    assert "Nothing can be compared" in workspace.run("compare", sides[0], "other.json", *arguments, code=65).err
    (workspace.folder / "torn.json").write_text((workspace.folder / "base.json").read_text()[:-40])
    said = workspace.run("compare", sides[0], "torn.json", *arguments, code=65).err
    assert "is incomplete: its import has not completed. No condition holds." in said
    assert "needs two sides" in workspace.run("compare", "--within", sides[0], "--assert", "not-worse", code=64).err


@pytest.mark.parametrize("cause", FAILED_ATTEMPTS)
def test_an_attempt_that_explains_nothing_leaves_the_page(
    cause: str, workspace: Workspace, sides: tuple[str, str]
) -> None:
    script, more, code = FAILED_ATTEMPTS[cause]
    with MessagesServer(explains) as server:
        workspace.run("compare", *sides, **access(server))
    before = workspace.report.read_bytes()
    with MessagesServer(script) as server:
        workspace.run("compare", *sides, "--fresh", *more, code=code, **access(server))
    assert workspace.report.read_bytes() == before
    with MessagesServer(explains) as server:
        again = workspace.run("compare", *sides, **access(server))
    assert again.err.count("(cached)") == 5, "stored answers stay too; one of six never has a quotation"
    assert "(unchanged)" in again.out


def test_an_attempt_that_explains_less_leaves_the_page(workspace: Workspace, sides: tuple[str, str]) -> None:
    with MessagesServer(explains) as server:
        workspace.run("compare", *sides, **access(server))
    before = workspace.report.read_bytes()
    with MessagesServer(lambda call: failure(400, "no") if call.number == 1 else explains(call)) as server:
        ended = workspace.run("compare", *sides, "--fresh", "--concurrency", "1", **access(server))
    assert "the judge left 2 questions unanswered this time" in ended.out
    assert workspace.report.read_bytes() == before

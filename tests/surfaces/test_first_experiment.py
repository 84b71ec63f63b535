"""A first experiment from one command or one file: missing resources are created, existing ones are reused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.command import Workspace
from support.repository_states import git, repository

AGENT = """\
def answer(question):
    first, _, second = question.partition("+")
    return int(first) + (int(second) if first != "7" else 0)
"""
BROKEN = """\
def answer(question):
    total = 0
    for part in question.split("+"):
        total += as_number(part)
    return total
"""
LINES = [{"input": f"{n}+2", "expected": n + 2} for n in range(10)]
RUN = ("experiments", "run", "--target", "python:agent:answer", "--data", "items.jsonl", "--scorer", "exact_match")


@pytest.fixture
def folder(workspace: Workspace) -> Path:
    """A workspace with two target functions and ten items."""
    (workspace.folder / "agent.py").write_text(AGENT)
    (workspace.folder / "broken.py").write_text(BROKEN)
    write_items(workspace.folder, LINES)
    return workspace.folder


def write_items(folder: Path, items: Sequence[object]) -> None:
    (folder / "items.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))


def document(workspace: Workspace, *arguments: str, code: int = 0) -> Any:
    return json.loads(workspace.run(*arguments, "--format", "json", code=code).out)


def counts(workspace: Workspace) -> tuple[int, ...]:
    """Numbers of datasets, builds, experiments, dataset versions and experiment versions."""
    datasets, builds = document(workspace, "datasets", "list"), document(workspace, "deployments", "list")
    experiments = document(workspace, "experiments", "list")
    versions = [one["versions"] for one in datasets], [one["version"] for one in experiments]
    return len(datasets), len(builds), len(experiments), *(sum(numbers) for numbers in versions)


def test_run_creates_missing_resources_and_prints_the_result(workspace: Workspace, folder: Path) -> None:
    first = workspace.run(*RUN, code=2)
    assert [line.split()[1] for line in first.err.splitlines() if line.startswith("Created")] == [
        "build",
        "dataset",
        "experiment",
    ]
    assert first.out.startswith("answer-items, version 1, on items@1: run ")
    for line in (
        "pass rate  9/10 = 90.0 % (95 %: 59.6 to 98.2 %)",
        "scorers    exact_match: 9/10",
        "gate       failed (no gate is set, so every item must pass)",
        "  input     7+2",
        "  expected  9",
        "  output    7",
        "exact_match failed (0.00, mismatch): output is 7 instead of 9",
    ):
        assert line in first.out
    assert counts(workspace) == (1, 1, 1, 1, 1)

    again = workspace.run(*RUN, "--config", '{"min_pass_rate": 0.9}', "--name", "gated")
    assert "gate       passed\n" in again.out
    assert "Created experiment answer-items, version 2" in again.err
    assert "experiments runs compare" in again.err
    assert counts(workspace) == (1, 1, 1, 1, 2)
    assert "Created" not in workspace.run(*RUN).err, "what is left out stays"

    write_items(folder, [*LINES, {"input": "1+1", "expected": 2}])
    assert "on items@2: run" in workspace.run(*RUN).out
    assert counts(workspace) == (1, 1, 1, 2, 3)
    write_items(folder, LINES)
    assert "on items@1: run" in workspace.run(*RUN).out, "the same items are the same version"
    assert document(workspace, "experiments", "run", "answer-items", "--wait")["summary"]["dataset"] == "items@1"


def test_yaml_file_defines_an_experiment(workspace: Workspace, folder: Path) -> None:
    (folder / "evals").mkdir()
    (folder / "evals" / "sums.csv").write_text("id,input,expected,level\na,1+1,2,easy\nb,2+2,4,hard\n")
    (folder / "evals" / "scorers.py").write_text(
        "from evalscribe import scorer\n\n\n@scorer()\ndef brief(request):\n    return len(str(request.output)) < 9\n"
    )
    (folder / "evals" / "text.py").write_text("from agent import answer\n\n\ndef text(x):\n    return str(answer(x))\n")
    (folder / "evals" / "agent.py").write_text(AGENT)
    file = folder / "evals" / "sums.yaml"
    file.write_text(
        "name: sums\ntarget: text.py:text\ndata: sums.csv\n"
        "scorers:\n  - exact_match\n  - python:scorers:brief\n"
        "  - {name: contains, config: {pattern: '2'}, required: false}\n"
        "config: {min_pass_rate: 1}\n"
    )
    ran = document(workspace, "experiments", "run", "evals/sums.yaml")
    assert ran["gate"]["passed"]
    assert [one["scorer"] for one in ran["summary"]["scorers"]] == ["exact_match", "contains", "brief"]
    (item,) = document(workspace, "datasets", "examples", "list", "sums")[:1]
    assert (item["key"], item["input"], item["expected_output"]) == ("a", "1+1", "2")
    assert workspace.run("experiments", "run", "evals/sums.yaml", "--no-wait").out.strip().isalnum()
    file.write_text(file.read_text().replace("config: {min_pass_rate: 1}\n", ""))
    workspace.run("experiments", "run", "evals/sums.yaml")
    assert '"min_pass_rate"' not in workspace.run("experiments", "show", "sums").out, "the file is the whole definition"
    for text, message in (
        ("target: text:text\n", "`data` is missing"),
        ("targets: text:text\n", "unknown key 'targets'; keys: name, target, data"),
        ("- text\n", "is not an experiment"),
        ("name: [\n", "is not valid YAML"),
        ("target: text:text\ndata: 5\nscorers: exact_match\n", "`data`"),
    ):
        file.write_text(text)
        assert message in workspace.run("experiments", "run", "evals/sums.yaml", code=65).err
    assert "not found" in workspace.run("experiments", "run", "nowhere.yaml", code=66).err


def test_invalid_options_and_data_create_nothing(workspace: Workspace, folder: Path) -> None:
    (folder / "wrong.jsonl").write_text('{"input": 1}\n{"question": 2}\n')
    (folder / "wrong.csv").write_text("question,answer\n1,2\n")
    (folder / "empty.jsonl").touch()
    target, data, scorer = ("--target", "agent:answer"), ("--data", "items.jsonl"), ("--scorer", "exact_match")
    for code, words, message in (
        (64, (), "name an experiment or a YAML file, or give --target, --data and --scorer"),
        (64, (*data, *scorer), "a new experiment needs --target: python:module:function"),
        (64, (*target, *scorer), "a new experiment needs --data: a file"),
        (64, (*target, *data), "a new experiment needs --scorer: exact_match"),
        (64, ("--target", "agent", *data, *scorer), "--target 'agent': expected python:module:function"),
        (64, ("--target", "agent:nothing", *data, *scorer), "`agent` has no `nothing`; it has answer"),
        (64, (*target, *data, "--scorer", "exact_mach"), "exact_mach"),
        (64, (*target, *data, *scorer, "--deployment-id", "x"), "--target and --deployment-id"),
        (65, (*target, "--data", "wrong.jsonl", *scorer), "wrong.jsonl:2: `question` is unknown; fields: key, input"),
        (65, (*target, "--data", "wrong.csv", *scorer), "no column `input`; its columns are question, answer"),
        (65, (*target, "--data", "empty.jsonl", *scorer), "contains no items"),
        (66, (*target, "--data", "nowhere.jsonl", *scorer), "nowhere.jsonl"),
    ):
        assert message in workspace.run("experiments", "run", *words, code=code).err
    assert counts(workspace) == (0, 0, 0, 0, 0)

    (folder / "scorers.py").write_text(
        "from evalscribe import scorer\n\n\n@scorer()\ndef brief(request):\n    return 1\n"
    )
    own = ("--scorer", "python:scorers:brief")
    for code, words in (
        (65, (*target, "--data", "wrong.jsonl", *own)),
        (66, (*target, "--data", "nowhere.jsonl", *own)),
        (64, ("--target", "agent:nothing", *data, *own)),
    ):
        workspace.run("experiments", "run", *words, code=code)
    assert (counts(workspace), document(workspace, "experiments", "scorers", "list")) == ((0, 0, 0, 0, 0), [])

    workspace.run("datasets", "create", "--name", "items")
    workspace.run("datasets", "add-example", "items", "--input", "1")
    refused = workspace.run("experiments", "run", *target, *data, *scorer, *own, code=64)
    assert "has changes that would be lost" in refused.err
    assert document(workspace, "experiments", "scorers", "list") == []
    assert document(workspace, "experiments", "deployments", "list") == []
    workspace.run("datasets", "publish", "items")
    workspace.run(*RUN, code=2)


def test_map_option_renames_columns_of_the_data(workspace: Workspace, folder: Path) -> None:
    rows = [(1, 2, 4), (2, 3, 6)]
    (folder / "rows.jsonl").write_text("".join(f'{{"id": {id}, "n": {n}, "double": {two}}}\n' for id, n, two in rows))
    (folder / "rows.csv").write_text("id,n,double\n1,2,4\n")
    run = ("experiments", "run", "--target", "agent:answer", "--scorer", "exact_match", "--data")
    errors = workspace.run(*run, "rows.jsonl", code=65).err
    assert errors.startswith(
        "evalscribe: rows.jsonl:1: `n`, `double` are unknown; fields: key, input, expected_output,"
    )
    assert errors.splitlines()[0].endswith("; to use another field as the input: --map input=n")
    assert errors.splitlines()[1:] == ["and 1 more", "No run was created."]
    assert (
        "has no field `m`; its fields: `id`, `n`, `double`"
        in workspace.run(*run, "rows.jsonl", "--map", "input=m", code=65).err
    )
    assert "no column 'm'" in workspace.run(*run, "rows.csv", "--map", "input=m", code=64).err
    assert (
        "there is no field 'inputs'; did you mean input"
        in workspace.run(*run, "rows.jsonl", "--map", "inputs=n", code=64).err
    )
    named = ("--map", "input=n,expected=double")
    for file in ("rows.jsonl", "rows.csv"):
        assert " on rows@" in workspace.run(*run, file, *named, code=2).out
    workspace.run("datasets", "create", "--name", "uploaded")
    assert "rows.jsonl: 2 new" in workspace.run("datasets", "upload", "uploaded", "rows.jsonl", *named).out
    examples = workspace.run("datasets", "examples", "list", "uploaded", "--include-payload", "--format", "json").out
    assert [(one["key"], one["input"], one["expected_output"]) for one in json.loads(examples)] == [
        ("1", 2, 4),
        ("2", 3, 6),
    ]


def test_target_error_appears_in_every_output(workspace: Workspace, folder: Path) -> None:
    target = ("experiments", "run", "--target", "broken.py:answer", "--data", "items.jsonl", "--scorer", "exact_match")
    message = "10 of 10 trials raised NameError (broken.py:4)"
    ran = workspace.run(*target, "--name", "broken", code=2).out
    assert f"errors     {message}" in ran
    assert ran.count("ERROR") == 1, "one reason is shown once"
    assert 'File "' in ran
    assert "and 9 more that did not pass" in ran
    assert document(workspace, *target, code=2)["summary"]["errors"] == [
        {"reason": "raised NameError (broken.py:4)", "trials": 10}
    ]
    assert message in workspace.run("experiments", "runs", "wait", "broken", code=2).out
    failures = document(workspace, "experiments", "runs", "failures", "broken")
    assert {one["error"] for one in failures} == {"NameError: name 'as_number' is not defined (broken.py:4)"}
    assert all(one["log"].startswith("Traceback (most recent call last):") for one in failures)
    assert workspace.run("experiments", "runs", "failures", "broken").out.startswith(message)
    for form in ("md", "html", "junit"):
        page = workspace.run("experiments", "runs", "export", "broken", "-f", form).out
        assert "Traceback" in page
        assert form == "junit" or message in page
    screen = workspace.run("analyze", "broken").out
    assert "no eval was judged: the target raised NameError: name 'as_number' is not defined (broken.py:4)" in screen
    assert "**10 component faults**" in screen
    assert "0 passed, 0 failed, 10 error" in screen
    assert "Fix the target first" in screen
    assert "would take" not in screen, "a model sees no more than the exception"
    evidence = workspace.run("explain", "broken", failures[0]["item_key"], "--judge", "rules").out
    assert "target.log" in evidence


def test_target_that_cannot_be_imported_fails_the_run(workspace: Workspace, folder: Path) -> None:
    workspace.run(*RUN, code=2)
    (folder / "agent.py").write_text("def answer(x)\n    return x\n")
    message = "python:agent:answer could not be imported: SyntaxError: expected ':' (agent.py:1)"
    ran = workspace.run(*RUN, "--name", "syntax", code=3)
    assert f"state      failed ({message}" in ran.out
    assert "What changed" not in ran.err
    junit = workspace.run("experiments", "runs", "export", "syntax", "--format", "junit").out
    assert 'tests="11" failures="0" errors="1" skipped="10"' in junit
    assert f'<error message="{message}' in junit
    (folder / "agent.py").write_text(AGENT)
    again = workspace.run(*RUN, "--config", '{"min_pass_rate": "base", "baseline": "previous"}')
    assert "at least 90.0 % required (base: previous (" in again.out


def test_changed_code_creates_a_new_build(workspace: Workspace, folder: Path) -> None:
    repository(folder)
    git(folder, "add", "agent.py", "items.jsonl")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "broken.py").unlink()
    (folder / ".git" / "info" / "exclude").write_text("reports/\n.evalscribe/\n__pycache__/\n")
    workspace.run("experiments", "deployments", "create", "--name", "base", "--component", "answer=python:agent:answer")
    workspace.run(*RUN[:2], "sums", *RUN[2:], "--name", "clean", code=2)
    # Keep the file size different: Python reuses cached bytecode if size and modification second are equal.
    (folder / "agent.py").write_text(AGENT.replace('!= "7"', "!= str(8)"))
    changed = workspace.run("experiments", "run", "sums", "--wait", "--name", "changed", code=2)
    assert "has changed since build dep-" in changed.err
    assert "(dirty), code" in changed.err
    named = workspace.run(
        "experiments", "run", "sums", "--deployment-id", "base", "--wait", "--name", "by-name", code=2
    )
    assert "has changed since build dep-" in named.err
    builds = [
        document(workspace, "experiments", "runs", "summary", run)["summary"]["deployment_id"]
        for run in ("clean", "changed")
    ]
    assert len(set(builds)) == 2
    compared = document(workspace, "experiments", "runs", "compare", "clean", "changed")
    assert compared["base"]["build"] != compared["candidate"]["build"]
    assert compared["noise"] is None, "these are not two runs of one build"
    assert (len(compared["fixed"]), len(compared["regressed"])) == (1, 1)
    same = workspace.run("experiments", "run", "sums", "--wait", "--name", "same", code=2)
    assert document(workspace, "experiments", "runs", "summary", "same")["summary"]["deployment_id"] == builds[1]
    assert document(workspace, "experiments", "runs", "compare", "changed", "same")["noise"] == 0.0
    assert same.code == 2


def test_duplicate_run_name_gets_a_numeric_suffix(workspace: Workspace, folder: Path) -> None:
    for number in (1, 2, 3):
        result = workspace.run(*RUN, "--name", "ci-abc", code=2)
        assert ("the name ci-abc is taken" in result.err) is (number > 1)
        assert f"run ci-abc{'' if number == 1 else f'-{number}'} (" in result.out
    assert "ci-abc-3 (" in workspace.run("experiments", "runs", "summary", "ci-abc-3").out
    assert "version 1: run ci-abc (" in workspace.run("experiments", "runs", "summary", "ci-abc").out

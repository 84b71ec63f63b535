"""Replays of Harbor tasks: the reference solution, and the artifacts or commands of a trial."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evalscribe.replay.dockerfile import NeedsImageError, build_folders
from evalscribe.sources.harbor import task_checksum
from support import tiny_harbor
from support.command import InProcessCommand
from support.requirements import skip_or_fail
from support.tiny_harbor import TEST, TinyTask


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcessCommand:
    if shutil.which("bwrap") is None:
        skip_or_fail("bubblewrap")
    return InProcessCommand(tmp_path, monkeypatch, capsys)


def prove_tasks(inside: InProcessCommand, tasks: dict[str, TinyTask], *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run `prove` on the tasks and return the proof of each, or the reason why it was not replayed.

    `code` is the expected exit code.
    """
    tiny_harbor.write(inside.folder, tasks)
    command = ("prove", "job", "--tasks", "tasks", "--repeat", "2", "--json", *arguments)
    output = json.loads(inside.run(*command, code=code).out)
    refused = {one["eval"]: one["why"] for one in output["not_replayed"]}
    return {one["eval"]: one for one in output["proofs"]} | refused


def outcome_of(inside: InProcessCommand, task: TinyTask, *arguments: str) -> tuple[str, str]:
    proof = prove_tasks(inside, {"task": task}, *arguments)["task"]
    return proof["outcome"], proof["why"]


def test_each_kind_of_failure_has_its_own_outcome(inside: InProcessCommand) -> None:
    proofs = prove_tasks(
        inside,
        {
            "broken": TinyTask(test=TEST.format(5), said="FAIL: wants 5, got 3\n"),
            "broken-alike": TinyTask(
                test=TEST.format(5), commands=("echo 4 > answer.txt",), said="FAIL: wants 5, got 4\n"
            ),
            "fair": TinyTask(),
            "gone": TinyTask(commands=("cat question.txt > answer.txt",), said="FAIL: the disk is away\n"),
            "image": TinyTask(dockerfile="FROM debian:12\nRUN apt-get install -y psql\n"),
        },
    )
    assert {name: one if isinstance(one, str) else one["outcome"] for name, one in proofs.items()} == {
        "broken": "inconclusive",
        "broken-alike": "reference fails",
        "fair": "reproduced",
        "gone": "not reproducible",
        "image": "it does not run in the sandbox, because its Dockerfile has RUN apt-get install -y psql",
    }
    assert {one["note"] for one in proofs["fair"]["replays"] if one["answer"] == "output"} == {
        "the commands of its trajectory, run again; reward 0"
    }
    output = inside.run("prove", "job", "--tasks", "tasks").out
    assert "output (the commands of its trajectory, run again; reward 0) failed 3 of 3 times" in output
    assert "`evalscribe analyze job --tasks tasks` writes one, with these proofs." in output
    assert "To replay the answers of these evals, name a command with `--replay-command`." in output


def test_answer_cannot_change_the_grader_or_the_reward(inside: InProcessCommand) -> None:
    attack = """\
for f in /tests/test.sh /logs/verifier/reward.txt /logs/verifier/reward.json /tmp/x ~/.bashrc; do
  mkdir -p $(dirname $f); echo 1 > $f; done 2> /dev/null
setsid bash -c 'while :; do echo $((n += 1)) > /app/ticks; done' > /dev/null 2>&1 &
disown -a; until [ -e ticks ]; do :; done; echo 3 > answer.txt"""
    test = """\
before=$(cat ticks); for n in $(seq 100); do after=$(cat ticks); done
[ "$before" = "$after" ] || echo "somebody else is still at work"
ls -A /tmp ~ | grep x && echo "somebody left something"
"""
    task = TinyTask(commands=(attack,), said="FAIL: wants 4, got 3\n", test=test + TEST.format(4))
    (proof,) = prove_tasks(inside, {"task": task}).values()
    assert proof["outcome"] == "reproduced"
    logs = [one["log"] for one in proof["replays"] if one["answer"] == "output"]
    assert logs == ["FAIL: wants 4, got 3\n"]


def test_collected_artifacts_are_graded_instead_of_rerun_commands(inside: InProcessCommand) -> None:
    task = TinyTask(artifacts={"app/answer.txt": "4\n", "manifest.json": "[]"})
    proof = prove_tasks(inside, {"task": task})["task"]
    assert proof["outcome"] == "not reproducible"
    assert proof["replays"][-1]["note"] == "the collected artifacts; reward 1"
    elsewhere = TinyTask(artifacts={"logs/answer.txt": "4\n"})
    assert prove_tasks(inside, {"other": elsewhere})["other"]["outcome"] == "reproduced"


UNREADABLE = (
    "mkfifo reward.txt",
    "ln -s /dev/zero reward.txt",
    "mkdir reward.txt",
    "truncate -s 40M reward.txt",
    "echo '{\"reward\": Infinity}' > reward.json",
    "echo '{\"reward\": 1e999}' > reward.json",
    "echo '{\"reward\": [1]}' > reward.json",
    "python3 -c 'print(\"[\" * 100000)' > reward.json",
    "echo 1 > reward.txt; truncate -s 40M reward.json",
)
"""Commands that leave no readable reward."""


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (TinyTask(solve="set -e\nmake\n"), "left unfinished: solution/solve.sh ends with exit code 2: "),
        (
            TinyTask(solve="nosuchprogram\ntrue\n"),
            "stopped because something that the run had is missing: nosuchprogram: command not found",
        ),
        (
            TinyTask(commands=("nosuchprogram",)),
            "stopped because something that the run had is missing: nosuchprogram: comm",
        ),
        (TinyTask(test="true\n"), "left without a reward by the verifier"),
        *(
            (TinyTask(test=f"cd /logs/verifier; {leaves}\n"), "left without a reward by the verifier")
            for leaves in UNREADABLE
        ),
        (TinyTask(test="sleep 60\n", config="[verifier]\ntimeout_sec = 1\n"), "stopped at the time limit"),
        (
            TinyTask(commands=("cp question.txt answer.txt", "sleep 600"), exception="AgentTimeoutError"),
            "graded as passed, but a limit had ended the agent's work, which a replay cannot r",
        ),
    ],
    ids=[
        *("solution stops", "solution lacks", "commands lack", "no reward"),
        *UNREADABLE,
        *("verifier stops", "cut off"),
    ],
)
def test_replay_that_cannot_match_the_run_is_inconclusive(inside: InProcessCommand, task: TinyTask, why: str) -> None:
    proof = prove_tasks(inside, {"task": task})["task"]
    assert proof["outcome"] == "inconclusive"
    assert why in {one["note"][: len(why)] for one in proof["replays"]}


def test_command_that_cannot_start_is_reported_as_not_replayed(inside: InProcessCommand) -> None:
    long = TinyTask(config=f"[environment.env]\nA = '{'x' * 200_000}'\n")
    assert prove_tasks(inside, {"task": long}, code=69)["task"] == "not started: Argument list too long"


def test_timed_out_trial_is_replayed_without_its_unfinished_command(inside: InProcessCommand) -> None:
    task = TinyTask(commands=("echo 3 > answer.txt", "sleep 600"), exception="AgentTimeoutError")
    proof = prove_tasks(inside, {"task": task})["task"]
    assert proof["outcome"] == "reproduced"
    assert proof["replays"][-1]["note"].endswith("run again, without the last one, which had not ended; reward 0")


def test_changed_task_proves_nothing(inside: InProcessCommand) -> None:
    tiny_harbor.write(inside.folder, {"task": TinyTask()})
    (inside.folder / "tasks" / "task" / "tests" / "test.sh").write_text(TEST.format(5))
    output = json.loads(inside.run("prove", "job", "--tasks", "tasks", "--json").out)
    assert [(one["outcome"], one["why"]) for one in output["proofs"]] == [
        ("inconclusive", "the grader has changed since the run")
    ]


def test_unrelated_tasks_do_not_replace_a_proof(inside: InProcessCommand) -> None:
    assert prove_tasks(inside, {"task": TinyTask()})["task"]["outcome"] == "reproduced"
    inside.run("analyze", "job", "--tasks", "tasks", "--judge", "rules")
    (report,) = (inside.folder / "reports").glob("*/*/*.md")
    before = report.read_text()
    assert "reproduced by replay" in before
    (inside.folder / "others" / "other").mkdir(parents=True)
    shutil.copy(inside.folder / "tasks" / "task" / "task.toml", inside.folder / "others" / "other")
    assert "others has none of the tasks of job: task" in inside.run("prove", "job", "--tasks", "others", code=66).err
    assert report.read_text() == before
    output = inside.run("analyze", "job", "--judge", "rules").err
    assert "The proofs of 1 failure were made with other evidence, such as other --tasks" in " ".join(output.split())


def test_imported_job_is_replayed_after_its_folder_is_gone(inside: InProcessCommand) -> None:
    tiny_harbor.write(inside.folder, {"fair": TinyTask(), "broken": TinyTask(test=TEST.format(3), said="FAIL: x\n")})
    imported = json.loads(inside.run("import", "job", "--json").out)
    (inside.folder / "job").rename(inside.folder / "gone")
    (imported_job,) = imported["imports"].values()
    output = json.loads(inside.run("prove", imported_job["runs"][0]["id"], "--tasks", "tasks", "--json").out)
    assert {one["eval"]: one["outcome"] for one in output["proofs"]} == {"fair": "reproduced", "broken": "inconclusive"}


def test_analyze_with_prove_replays_tasks_before_judging(inside: InProcessCommand) -> None:
    task = TinyTask(test=TEST.format(5), commands=("echo 4 > answer.txt",), said="FAIL: wants 5, got 4\n")
    tiny_harbor.write(inside.folder, {"broken": task})
    output = inside.run("analyze", "job", "--tasks", "tasks", "--judge", "rules", "--prove", "--json").out
    (finding,) = json.loads(output)["findings"]
    assert (finding["classification"], finding["basis"]) == ("OVERLY_STRICT", "proved")
    (page,) = inside.folder.glob("reports/tiny/*/*.md")
    text = page.read_text()
    assert "reference (reward 0) failed 3 of 3 times (`bash /solution/solve.sh && bash /tests/test.sh`);" in text
    assert "exit code" not in text, "it is not what Harbor goes by"


def test_threshold_option_applies_to_replayed_rewards(inside: InProcessCommand) -> None:
    half = TinyTask(
        test='echo "half"; [ "$(cat answer.txt)" = 4 ]; echo 0.$((9 - 4 * $?)) > /logs/verifier/reward.txt\n',
        said="half\n",
    )
    assert outcome_of(inside, half)[0] == "reference fails"
    assert outcome_of(inside, half, "--threshold", "0.8")[0] == "reproduced"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            {"function_name": "str_replace", "arguments": {"path": "a"}},
            "it uses the tool str_replace, which is not a shell",
        ),
        (
            {"function_name": "bash", "arguments": {"keystrokes": "ls\n"}},
            "its shell is used interactively (keystrokes)",
        ),
        ({"function_name": "bash", "arguments": {"command": "ls", "session_id": 2}}, "its shell is used interactively"),
        (
            {"function_name": "bash", "arguments": {"command": "serve &"}},
            "it leaves a command running in the background",
        ),
        ({"function_name": "read_file", "arguments": {"path": "a"}}, "its trajectory has no shell command"),
    ],
)
def test_reason_is_given_when_commands_cannot_be_replayed(
    inside: InProcessCommand, call: dict[str, Any], why: str
) -> None:
    reason = prove_tasks(inside, {"task": TinyTask(commands=(call,), solve=None)}, code=69)["task"]
    assert reason.startswith(why)
    with_reference = prove_tasks(inside, {"other": TinyTask(commands=(call,))})["other"]
    assert with_reference["why"] == "the reference answer passes; the output cannot be run again"


def test_user_command_replays_a_task_that_needs_an_image(inside: InProcessCommand) -> None:
    image = TinyTask(dockerfile="FROM debian:12\nRUN true\n")
    grade = inside.folder / "grade.sh"
    grade.write_text(
        'cd "$(mktemp -d)"; cp "$1"/environment/data/* .\n'
        '[ "$2" = reference ] && . "$1/solution/solve.sh" || bash "$3/commands.sh"\n'
        '[ "$(cat answer.txt)" = 4 ] || { echo "FAIL: wants 4, got $(cat answer.txt)"; exit 1; }\n'
    )
    command = f"bash {grade} {{task}} {{answer}} {{output}}"
    assert prove_tasks(inside, {"task": image}, "--replay-command", command)["task"]["outcome"] == "reproduced"
    (home := inside.folder / "home" / "evalscribe").mkdir(parents=True)
    (home / "config.toml").write_text(f"[replay]\ncommand = '{command}'\n")
    for environment, where in (
        ({"EVALSCRIBE_REPLAY_COMMAND": command}, "environment"),
        ({"XDG_CONFIG_HOME": str(home.parent)}, str(home / "config.toml")),
    ):
        output = inside.run("prove", "job", "--tasks", "tasks", **environment)
        assert "Reproduced: the failure is real" in output.out
        assert f"Answers run outside the sandbox, with the command of {where}: bash" in " ".join(output.err.split())


def test_workspace_files_cannot_set_a_command_outside_the_sandbox(inside: InProcessCommand) -> None:
    tiny_harbor.write(inside.folder, {"task": TinyTask(dockerfile="FROM debian:12\nRUN true\n")})
    (inside.folder / ".env").write_text("EVALSCRIBE_REPLAY_COMMAND=touch owned\nXDG_CONFIG_HOME=.\n")
    (inside.folder / "evalscribe").mkdir()
    (inside.folder / "evalscribe" / "config.toml").write_text("[replay]\ncommand = 'touch owned'\n")
    for environment in ({}, {"XDG_CONFIG_HOME": "."}):
        assert "Not replayed: task" in inside.run("prove", "job", "--tasks", "tasks", code=69, **environment).out
    assert not (inside.folder / "owned").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "grade {nothing}",
            "--replay-command has {nothing}, which is not a field; the fields are {task}, {eval}, {answer}, {output}",
        ),
        ("grade 'open", "--replay-command cannot be read: No closing quotation"),
        ("grade {task}", "--replay-command has {task}: also give the folder of the tasks with --tasks"),
    ],
)
def test_invalid_replay_command_is_refused(inside: InProcessCommand, command: str, message: str) -> None:
    tiny_harbor.write(inside.folder, {"task": TinyTask()})
    assert message in " ".join(inside.run("prove", "job", "--replay-command", command, code=64).err.split())


FILES = {"a.txt": "a", "data/b.txt": "b", "data/deep/c.txt": "c"}


@pytest.mark.parametrize(
    ("dockerfile", "files", "start_in"),
    [
        ("FROM debian\nWORKDIR /app\nCOPY data/ /app/\n", {"app/b.txt", "app/deep/c.txt"}, "/app"),
        ("FROM python:3.12-slim AS base\nWORKDIR /a\nWORKDIR b\nCOPY a.txt .\n", {"a/b/a.txt"}, "/a/b"),
        ('FROM ubuntu\nCOPY a.txt /srv/x.txt\nCMD ["bash"]\n', {"srv/x.txt"}, "/"),
        (
            'FROM ubuntu\nWORKDIR /w\nCOPY --chown=1:1 ["a.txt", "data/b.txt", "in/"]\n',
            {"w/in/a.txt", "w/in/b.txt"},
            "/w",
        ),
        ("FROM ubuntu\nWORKDIR /w\n# all\nADD data/*.txt \\\n  ./\n", {"w/b.txt"}, "/w"),
        ("from ubuntu\r\nCOPY\ta.t\\\r\n# in between\r\nxt /w/\r\n", {"w/a.txt"}, "/"),
    ],
)
def test_dockerfile_copy_places_files_and_workdir(
    tmp_path: Path, dockerfile: str, files: set[str], start_in: str
) -> None:
    _, place, _ = build_folders(_context(tmp_path, dockerfile), tmp_path / "tree")
    tree = tmp_path / "tree"
    assert {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()} == files
    assert place == start_in


def test_dockerfile_env_sets_the_environment(tmp_path: Path) -> None:
    dockerfile = 'FROM debian\nWORKDIR /app\nENV A=1 B="two words"\nENV C three words\n'
    *_, environment = build_folders(_context(tmp_path, dockerfile), tmp_path / "tree")
    assert environment == {"A": "1", "B": "two words", "C": "three words"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("RUN make", "has RUN make"),
        ("USER nobody", "has USER nobody"),
        ("FROM debian", "has FROM debian"),
        ("COPY --from=0 /a /app", "has COPY --from"),
        ("ADD https://example.com/a.tar /app/", "has ADD https"),
        ("ADD a.tar.gz /app/", "has ADD a.tar.gz"),
        ("COPY none /app/", "copies none, which its environment does not have"),
        ("COPY ../secret /app/", "copies ../secret"),
        ("COPY ** /x/", "copies **, a pattern that docker reads differently"),
        ("COPY [^a].txt /x/", "cannot be read: [^a].txt /x/"),
        ("COPY data/[!a].txt /x/", "copies data/[!a].txt, a pattern that docker reads differently"),
        ("COPY " + "*/" * 3000 + " /x/", "has COPY " + "*/" * 20 + ": it cannot be read"),
        ("COPY " + "[" * 50_000, "cannot be read: [["),
        ('COPY ["a.txt", "/x\\u0000"]', "has COPY "),
        ("COPY a.txt /app/" + "x" * 300, "has COPY a.txt /app/" + "x" * 29 + ": File name too lo"),
        ("COPY a.txt /z\nWORKDIR /z", "has WORKDIR /z: File exists"),
        ("COPY a.txt /x/\n" * 201, "copies from more than 200 places"),
        ("LABEL " + "x" * 70_000, "is too long"),
        ("ENV =x", "has ENV =x"),
        ('ENV ["A=\\u0000"]', "has ENV "),
        ("COPY a.txt /etc/passwd", "copies to /etc/passwd"),
        ("COPY a.txt /app/../usr/bin/python3", "copies to /usr/bin/python3"),
        ("COPY a.txt $HOME/", "has variables or a script"),
        ("ENTRYPOINT bash", "has ENTRYPOINT bash"),
    ],
)
def test_unsupported_dockerfile_instruction_needs_the_image(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(NeedsImageError, match="its Dockerfile ") as refused:
        build_folders(_context(tmp_path, f"FROM debian\nWORKDIR /app\n{line}\n"), tmp_path / "tree")
    assert str(refused.value).startswith(f"its Dockerfile {why}")


def test_dockerfile_copying_too_many_files_is_refused(tmp_path: Path) -> None:
    context = _context(tmp_path, "FROM debian\n" + "".join(f"COPY . /x{n}\n" for n in range(40)))
    for n in range(600):
        (context / f"{n}.txt").write_text("")
    with pytest.raises(NeedsImageError, match="copies more than 20,000 files or 512 MB"):
        build_folders(context, tmp_path / "tree")


@pytest.mark.parametrize("source", ["secret.txt", "*.tx?", "out/key.txt", "out/*", "out"])
def test_copying_from_a_symlink_is_refused(source: str, tmp_path: Path) -> None:
    context = _context(tmp_path, f"FROM debian\nCOPY {source} /x/\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key.txt").write_text("secret")
    (context / "secret.txt").symlink_to(tmp_path / "outside" / "key.txt")
    (context / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(NeedsImageError, match="is or follows a link"):
        build_folders(context, tmp_path / "tree")


def test_copying_through_a_copied_symlink_is_refused(tmp_path: Path) -> None:
    context = _context(tmp_path, "FROM debian\nCOPY data /app\nCOPY a.txt /app/out/\n")
    (tmp_path / "outside").mkdir()
    (context / "data" / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(NeedsImageError, match="follows a link"):
        build_folders(context, tmp_path / "tree")
    assert not list((tmp_path / "outside").iterdir())


def _context(folder: Path, dockerfile: str) -> Path:
    context = folder / "environment"
    for name, text in {**FILES, "Dockerfile": dockerfile}.items():
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(text)
    (folder / "tree").mkdir()
    return context


def test_real_harbor_jobs_have_the_expected_outcomes(inside: InProcessCommand, real_data: Path) -> None:
    """One wrong, one fair and one flaky verifier; the flaky one is seeded so that the result is deterministic."""
    harbor = inside.folder / "harbor"
    shutil.copytree(real_data / "formats" / "harbor", harbor)
    task = harbor / "tasks" / "dice-script"
    before = task_checksum(task)
    test = task / "tests" / "test.sh"
    seeded = test.read_text().replace(
        'first=$("$APP/roll.sh"); second=$("$APP/roll.sh"); third=$("$APP/roll.sh")', SEEDED
    )
    test.write_text(seeded)
    after = task_checksum(task)
    assert before
    assert after
    assert before != after
    for result in harbor.glob("jobs/*/dice-script__*/result.json"):
        result.write_text(result.read_text().replace(before, after))
    output = json.loads(inside.run("prove", "harbor/jobs/model", "--tasks", "harbor/tasks", "--json").out)
    assert {one["eval"]: (one["outcome"], one["same_grader"]) for one in output["proofs"]} == {
        **{f"count-errors#{n}": ("reference fails", True) for n in (1, 2, 3)},
        **{f"region-revenue#{n}": ("reproduced", True) for n in (1, 2, 3)},
        "dice-script#2": ("flaky", True),
    }
    counted = {
        one["eval"]: [(rep["answer"], rep["passed"], rep["times"], rep["recorded"]) for rep in one["replays"]]
        for one in output["proofs"]
    }
    assert counted["count-errors#1"] == [("reference", False, 3, True), ("reference", False, 3, False)]
    assert sorted(counted["dice-script#2"]) == [
        ("reference", False, 2, True),
        ("reference", False, 3, False),
        ("reference", True, 1, True),
    ]


SEEDED = "RANDOM=4; first=2; second=$first; third=$((RANDOM % 4 + 1))"

"""Import of SWE-bench runs: trajectories, predictions, harness reports, and the outcome of each instance."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import PackedEvidence
from evalscribe.model.finding import Failure, Verdict
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import Run
from evalscribe.model.transcript import AssistantMessage, ToolMessage
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, recognise, run_files

PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
MODEL = "acme/agent-1"


def opened(path: Path, **overrides: Any) -> tuple[list[Run], dict[str, Record], dict[str, int]]:
    records = open_records(path, RunOverrides(**overrides))
    entries = list(records.read())
    runs = [one for one in entries if isinstance(one, Run)]
    return runs, {one.eval.name: one for one in entries if isinstance(one, Record)}, dict(records.left_out)


def judged(record: Record) -> Verdict:
    return RulesJudge().decide(Failure(evidence=evidence_of(record), packed=PackedEvidence(excerpts=())))


def grade(wanted: tuple[int, int], preserved: tuple[int, int], **more: object) -> dict[str, object]:
    """Return a harness report; `wanted` and `preserved` are (failed, passed) counts."""

    def tests(name: str, counts: tuple[int, int]) -> dict[str, list[str]]:
        names = [f"tests/test_a.py::{name}_{n}" for n in range(sum(counts))]
        return {"failure": names[: counts[0]], "success": names[counts[0] :]}

    return {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": not wanted[0] and not preserved[0],
        "tests_status": {"FAIL_TO_PASS": tests("wanted", wanted), "PASS_TO_PASS": tests("kept", preserved)},
        **more,
    }


UNTESTED = {
    "patch_is_None": False,
    "patch_exists": True,
    "patch_successfully_applied": False,
    "resolved": False,
}


class Harness:
    """Builder of a folder as the harness writes it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._predictions: dict[str, object] = {}

    def predict(self, id: str, patch: str | None = PATCH) -> None:
        self._predictions[id] = {"model_name_or_path": MODEL, "instance_id": id, "model_patch": patch}
        (self.root / "out").mkdir(exist_ok=True)
        (self.root / "out" / "preds.json").write_text(json.dumps(self._predictions))

    def graded(self, id: str, grade: object = None, *, model: str = MODEL.replace("/", "__"), **files: str) -> Path:
        if model != "gold":
            self.predict(id)
        folder = self.root / "logs" / "run_evaluation" / "first" / model / id
        folder.mkdir(parents=True)
        (folder / "patch.diff").write_text(PATCH)
        (folder / "run_instance.log").write_text(files.pop("log", "- INFO - Creating container\n"))
        if grade is not None:
            (folder / "report.json").write_text(json.dumps({id: grade}))
        for name, text in files.items():
            (folder / {"output": "test_output.txt", "script": "eval.sh"}[name]).write_text(text)
        return folder


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def test_real_run_is_read_as_a_whole(real_data: Path) -> None:
    folder = real_data / "formats" / "swebench"
    runs, records, left_out = opened(folder)
    own = json.loads(next((folder / "trajs" / "sb-cli-reports").iterdir()).read_text())
    run = next(one for one in runs if one.model.startswith("gemini"))
    assert (run.provider, run.model, run.experiment) == ("google", "gemini-3-pro-preview", "swe-bench_verified")
    evaluated = [one for one in records.values() if one.run_id == run.id]
    assert Counter(one.eval.status for one in evaluated) == {"passed": 4, "failed": 10}
    assert {one.eval.name for one in evaluated if one.eval.status == "passed"} == set(own["resolved_ids"])
    assert {one.eval.name for one in evaluated if one.eval.status == "failed"} == set(own["unresolved_ids"])
    assert run.cost_usd == pytest.approx(2.849, abs=0.001)
    assert not left_out
    assert run_files(folder) == (folder,)
    half = records["django__django-16667"]
    assert half.metadata["scores"] == {"resolved": 0.0, "FAIL_TO_PASS": 0.5, "PASS_TO_PASS": 1.0}
    assert [(one.name, one.status) for one in half.steps] == [
        ("patch", "passed"),
        ("FAIL_TO_PASS tests", "failed"),
        ("PASS_TO_PASS tests", "passed"),
    ]
    assert half.documents[0].text.startswith("SelectDateWidget can crash with OverflowError")
    assert [one.path for one in half.documents] == ["task", "patch.diff", "tests"]
    assert judged(half).cause == "solves-a-part"
    assert judged(records["django__django-11141"]).cause == "breaks-tests"
    limited = records["example__stats-2"]
    assert (limited.eval.status, limited.eval.failed_step) == ("failed", "limit")
    assert records["example__stats-1"].eval.status == "incomplete"


def test_each_part_of_the_real_run_is_read_alone(real_data: Path) -> None:
    folder = real_data / "formats" / "swebench"
    report = next((folder / "trajs" / "sb-cli-reports").iterdir())
    for part, counts in {
        "trajs": {"passed": 4, "failed": 10},
        "logs": {"passed": 4, "failed": 10},
        "trajs/preds.json": {"incomplete": 14},
        str(report.relative_to(folder)): {"passed": 4, "failed": 10},
        "logs/psf__requests-2317": {"failed": 1},
        "logs/psf__requests-2317/report.json": {"failed": 1},
        "trajs/psf__requests-2317/psf__requests-2317.traj.json": {"incomplete": 1},
        "trajectory-1.1": {"failed": 1, "incomplete": 1},
    }.items():
        _, records, left_out = opened(folder / part)
        assert Counter(one.eval.status for one in records.values()) == counts, part
        assert not left_out, part


def test_commands_in_real_trajectories_become_tool_calls(real_data: Path) -> None:
    folder = real_data / "formats" / "swebench"
    _, records, _ = opened(folder / "trajs" / "django__django-15127")
    _, _, answer, result, *_ = records["django__django-15127"].transcripts[0].messages
    assert isinstance(answer, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert answer.tool_calls[0].arguments == {"command": "ls -R"}
    assert "```" not in answer.content
    assert answer.reasoning
    assert result.tool_call_id == answer.tool_calls[0].id
    _, records, _ = opened(folder / "trajectory-1.1")
    messages = records["example__stats-1"].transcripts[0].messages
    assert [one.role for one in messages] == ["system", "user", *["assistant", "tool"] * 3, "assistant"]


def test_predictions_and_evaluations_are_joined(harness: Harness) -> None:
    harness.graded("a__a-1", grade((0, 1), (0, 2)))
    harness.graded("a__a-2", grade((1, 1), (1, 2)), output=">>>>> Start Test Output\nran\n>>>>> End Test Output\nrest")
    harness.predict("a__a-3", "")
    settings = {"dataset": "org/set", "created_at": "2026-01-02T03:04:05+00:00"}
    (harness.root / "logs" / "run_evaluation" / "first" / "run.json").write_text(json.dumps(settings))
    lists = {"resolved": ["a__a-1"], "unresolved": ["a__a-2"], "empty_patch": ["a__a-3"], "incomplete": ["a__a-9"]}
    report = {f"{name}_ids": ids for name, ids in lists.items()} | {"submitted_ids": ["a__a-1", "a__a-2", "a__a-3"]}
    (harness.root / f"{MODEL.replace('/', '__')}.first.json").write_text(json.dumps(report))
    (run,), records, left_out = opened(harness.root)
    assert (run.provider, run.model, run.experiment) == ("acme", "agent-1", "org/set")
    assert run.started_at == settings["created_at"]
    assert {name: one.eval.status for name, one in records.items()} == {
        "a__a-1": "passed",
        "a__a-2": "failed",
        "a__a-3": "failed",
    }
    assert records["a__a-2"].eval.reason == "1 of 2 tests still fails: wanted_0"
    assert [one.text for one in records["a__a-2"].documents if one.path == "test_output.txt"] == ["ran\n"]
    assert left_out == {"an instance of the data set without a prediction": 1}


@pytest.mark.parametrize(
    ("files", "status", "step", "reason", "cause"),
    [
        pytest.param(
            {"log": ">>>>> Patch Apply Failed:\nerror: patch failed: a.py:1\nerror: a.py: patch does not apply\n"},
            "failed",
            "patch",
            "the patch does not apply: error: patch failed: a.py:1",
            "patch-does-not-apply",
            id="no fit",
        ),
        pytest.param(
            {"log": ">>>>> Patch Apply Failed:\npatch: **** malformed patch at line 3: x\n"},
            "failed",
            "patch",
            "the patch does not apply: patch: **** malformed patch at line 3: x",
            "malformed-patch",
            id="no patch",
        ),
        pytest.param(
            {"output": ">>>>> Start Test Output\n\n\nTimeout error: 1800 seconds exceeded."},
            "failed",
            "tests",
            "tests timed out after 1800 s",
            "tests-timed-out",
            id="too late",
        ),
        pytest.param(
            {"log": "ERROR\ndocker.errors.DockerException: Error while fetching server API version\n"},
            "error",
            None,
            "the harness could not grade it: docker.errors.DockerException: Error while fetching server API version",
            "environment-failed",
            id="no docker",
        ),
        pytest.param(
            {"grade": {**UNTESTED, "infra_failure": True, "infra_failure_reason": "out_of_memory"}},
            "error",
            None,
            "the environment of the tests failed: out_of_memory",
            "environment-failed",
            id="infrastructure",
        ),
        pytest.param(
            {"grade": UNTESTED, "output": ">>>>> Start Test Output\nusage: pytest\n>>>>> End Test Output\n"},
            "failed",
            "tests",
            "no test was counted",
            "no-test-counted",
            id="no test",
        ),
        pytest.param(
            {
                "grade": UNTESTED,
                "output": '>>>>> Start Test Output\n  File "/testbed/a.py", line 1\nSyntaxError: bad\n',
            },
            "failed",
            "tests",
            "no test was counted",
            "breaks-loading",
            id="does not load",
        ),
    ],
)
def test_untested_patch_decides_status_step_reason_and_cause(
    harness: Harness, files: dict[str, Any], status: str, step: str | None, reason: str, cause: str
) -> None:
    harness.graded("a__a-1", **files)
    _, records, _ = opened(harness.root)
    eval = records["a__a-1"].eval
    assert (eval.status, eval.failed_step, eval.reason) == (status, step, reason)
    assert judged(records["a__a-1"]).cause == cause


def test_reference_run_separates_broken_instances_from_broken_patches(harness: Harness, tmp_path: Path) -> None:
    other = Harness(tmp_path / "reference")
    for id, by_reference in {"a__a-1": (1, 2), "a__a-2": (0, 3), "a__a-3": (2, 1)}.items():
        harness.graded(id, grade((0, 1), (1, 2)))
        other.graded(id, grade((0, 1), by_reference), model="gold")
    reference = tmp_path / "reference" / "logs" / "run_evaluation" / "first" / "gold"
    _, records, _ = opened(
        harness.root / "logs" / "run_evaluation" / "first" / MODEL.replace("/", "__"), reference_run=reference
    )
    verdicts = {name: judged(one) for name, one in records.items()}
    assert {name: one.cause for name, one in verdicts.items()} == {
        "a__a-1": "reference-fails-too",
        "a__a-2": "breaks-tests",
        "a__a-3": "reference-fails-too",
    }
    assert not any(one.uncertain for one in verdicts.values())
    assert records["a__a-1"].documents[1].role == "expected"
    _, alone, _ = opened(harness.root / "logs" / "run_evaluation" / "first" / MODEL.replace("/", "__"))
    assert judged(alone["a__a-1"]).uncertain


def test_gold_run_in_the_folder_is_used_as_the_reference(harness: Harness) -> None:
    harness.graded("a__a-1", grade((0, 1), (1, 2)))
    harness.graded("a__a-1", grade((0, 1), (1, 2)), model="gold")
    runs = open_records(harness.root / "logs", RunOverrides()).read()
    records = [one for one in runs if isinstance(one, Record)]
    assert sorted(judged(one).cause for one in records) == ["breaks-tests", "reference-fails-too"]


@pytest.mark.parametrize(
    ("info", "status", "reason", "cause"),
    [
        pytest.param(
            {"exit_status": "Submitted", "submission": PATCH}, "incomplete", "the patch was not evaluated", None
        ),
        pytest.param(
            {"exit_status": "Submitted", "submission": ""}, "failed", "an empty patch was submitted", "no-patch"
        ),
        pytest.param(
            {"exit_status": "LimitsExceeded", "submission": ""},
            "failed",
            "LimitsExceeded: no patch was submitted",
            "limit-reached",
        ),
        pytest.param(
            {"exit_status": "exit_cost", "submission": None}, "failed", "exit_cost: no patch was submitted", None
        ),
        pytest.param(
            {"exit_status": "submitted (exit_cost)", "submission": PATCH},
            "incomplete",
            "the patch was not evaluated",
            None,
        ),
        pytest.param(
            {"exit_status": "RepeatedFormatError", "submission": ""},
            "failed",
            "RepeatedFormatError: no patch was submitted",
            "answers-in-another-form",
        ),
        pytest.param(
            {"exit_status": "RateLimitError", "submission": "litellm.RateLimitError: 429 too many requests"},
            "error",
            "RateLimitError: litellm.RateLimitError: 429 too many requests",
            "model-not-reachable",
        ),
    ],
)
def test_exit_status_of_the_agent_decides_status_reason_and_cause(
    tmp_path: Path, info: dict[str, Any], status: str, reason: str, cause: str | None
) -> None:
    path = tmp_path / "a__a-1.traj.json"
    messages = [
        {
            "role": "user",
            "content": "<pr_description>\nConsider the following PR description:\nFix it.\n</pr_description>",
        },
        {"role": "assistant", "content": "THOUGHT: I look.\n\n```bash\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode>"},
    ]
    trajectory = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1"}
    path.write_text(json.dumps(trajectory))
    _, records, _ = opened(path)
    record = records["a__a-1"]
    assert (record.eval.status, record.eval.reason) == (status, reason)
    assert record.documents[0].text == "Fix it."
    if cause:
        assert judged(record).cause == cause


def test_swe_agent_trajectories_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "a__a-1"
    folder.mkdir()
    history = [
        {"role": "system", "content": "You are an agent.", "agent": "main"},
        {"role": "user", "content": "An example", "agent": "main", "is_demo": True},
        {"role": "user", "content": "ISSUE:\nIt breaks.\n\nINSTRUCTIONS:\nNow fix it.", "agent": "main"},
        {"role": "assistant", "content": "I look. ls", "thought": "I look.", "action": "ls\n", "agent": "main"},
        {"role": "user", "content": "a.py", "agent": "main"},
        {
            "role": "assistant",
            "content": "I open it.",
            "agent": "main",
            "action": "open a.py",
            "tool_calls": [{"id": "c", "function": {"name": "open", "arguments": '{"path": "a.py"}'}}],
        },
        {"role": "tool", "content": "x = 1", "agent": "main", "tool_call_ids": ["c"]},
    ]
    stats = {"instance_cost": 0.5, "tokens_sent": 100, "tokens_received": 20, "api_calls": 2}
    settings = json.dumps({"agent": {"model": {"name": MODEL}}})
    trajectory = {
        "environment": "e",
        "trajectory": [],
        "history": history,
        "info": {"exit_status": "submitted", "submission": PATCH, "model_stats": stats},
        "replay_config": settings,
    }
    (folder / "a__a-1.traj").write_text(json.dumps(trajectory))
    (run,), records, _ = opened(tmp_path)
    assert (run.model, run.cost_usd, run.input_tokens) == ("agent-1", 0.5, 100)
    record = records["a__a-1"]
    assert record.documents[0].text == "It breaks."
    assert [one.role for one in record.transcripts[0].messages] == ["system", "user", *["assistant", "tool"] * 2]
    calls = [one.tool_calls[0] for one in record.transcripts[0].messages if isinstance(one, AssistantMessage)]
    assert [(one.function, one.arguments) for one in calls] == [
        ("bash", {"command": "ls"}),
        ("open", {"path": "a.py"}),
    ]


def test_predictions_in_json_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "all_preds.jsonl"
    lines = [
        json.dumps({"instance_id": f"a__a-{n}", "model_name_or_path": MODEL, "model_patch": PATCH}) for n in range(3)
    ]
    path.write_text("\n".join([*lines, "{torn"]))
    (run,), records, left_out = opened(path)
    assert (run.model, len(records)) == ("agent-1", 3)
    assert list(left_out.values()) == [1]


def test_folders_of_other_formats_are_not_recognised(harness: Harness) -> None:
    harness.graded("a__a-1", grade((0, 1), (0, 2)))
    (harness.root / "other").mkdir()
    (harness.root / "other" / "report.json").write_text('{"tests": 3}')
    with pytest.raises(DataError, match="of no known format"):
        recognise(harness.root / "other", RunOverrides())
    (harness.root / "beside").mkdir()
    (harness.root / "beside" / "b.json").write_text("{}")
    assert run_files(harness.root / "beside") == (harness.root / "beside" / "b.json",)


def test_links_and_damaged_files_are_left_out(harness: Harness) -> None:
    folder = harness.graded("a__a-1", grade((0, 1), (0, 2)))
    (folder / "report.json").write_text('{"a__a-1": {"resolved": tr')
    (folder / "test_output.txt").symlink_to("/etc/hostname")
    _, records, left_out = opened(harness.root)
    assert records["a__a-1"].eval.status == "error"
    assert not any(one.path == "test_output.txt" for one in records["a__a-1"].documents)
    assert any("report that cannot be read" in phrase for phrase in left_out)

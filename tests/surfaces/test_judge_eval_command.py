"""`evalscribe judge-eval`: compare judges on labelled subjects, and report errors of a dataset."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.command import InProcessCommand
from support.messages_server import Answer, Call, MessagesServer, failure, says
from support.rubric_runs import RUBRIC, access, run, says_json

SAMPLE = {
    "basics/003-schedule": "MODEL_FAULT",
    "deps/001-lock": "KNOWN_GAP",
    "http/001-retry": "OVERLY_STRICT",
    "query/007-range": "AMBIGUOUS_TASK",
    "style/002-loop": "MODEL_FAULT",
}
"""The rules judge answers OVERLY_STRICT for the last one."""


@pytest.fixture
def judging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcessCommand:
    rubrics = tmp_path / "prompts" / "rubrics"
    rubrics.mkdir(parents=True)
    (tmp_path / "evalscribe.toml").touch()
    (rubrics / "polite.yaml").write_text(RUBRIC)
    return InProcessCommand(tmp_path, monkeypatch, capsys)


def dataset(inside: InProcessCommand, *lines: Any) -> str:
    path = inside.folder / "labelled.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path.name


def sample(inside: InProcessCommand) -> str:
    return dataset(inside, *({"subject": {"run": "sample", "eval": e}, "label": label} for e, label in SAMPLE.items()))


def labelled(name: str, label: str) -> dict[str, Any]:
    return {"subject": {"agent_run": run(name)}, "label": label}


def test_rules_judge_is_evaluated_without_a_key(judging: InProcessCommand) -> None:
    ended = judging.run("judge-eval", "failure", sample(judging), "--judge", "rules")
    lines = dict(line.split("  ", 1) for line in ended.out.splitlines() if "  " in line)
    figures = {name.strip(): value.strip() for name, value in lines.items()}
    assert figures["judged"] == "5 of 5"
    assert figures["agreement"].startswith("0.80 [0.38, 0.96]")
    assert figures["recall MODEL_FAULT"] == "0.50 (1/2)"
    assert figures["precision OVERLY_STRICT"] == "0.50 (1/2)"
    assert figures["cost"] == "$0.00"
    assert "by `classification`" in ended.out
    assert ended.out.endswith("Spent now: nothing\n")
    assert "style/002-loop: OVERLY_STRICT, people say MODEL_FAULT" in ended.err


def test_labelled_subjects_can_come_from_a_stored_dataset(judging: InProcessCommand) -> None:
    items = [
        {"input": {"run": "sample", "eval": e}, "expected_output": {"label": label}, "split": split}
        for (e, label), split in zip(SAMPLE.items(), ("test", "test", "test", "train", "train"), strict=True)
    ]
    judging.run("datasets", "create", "--name", "reviewed")
    judging.run("datasets", "upload", "reviewed", dataset(judging, *items))
    judging.run("datasets", "publish", "reviewed")
    rules = ("--judge", "rules", "--json")
    whole = json.loads(judging.run("judge-eval", "failure", "reviewed", *rules).out)
    assert (whole["dataset"], whole["judges"][0]["judged"], whole["judges"][0]["right"]) == ("reviewed@1", 5, 4)
    part = json.loads(judging.run("judge-eval", "failure", "reviewed@1:test", *rules).out)
    assert (part["dataset"], [row["line"] for row in part["judges"][0]["rows"]]) == ("reviewed@1:test", [1, 2, 3])
    for named, message in (
        ("reviewed@7", "has no version '7'"),
        ("reviewed:dev", "reviewed@1 has no items in split 'dev'"),
        ("other", "neither a file nor a dataset matches other: dataset 'other' not found; available: reviewed"),
    ):
        assert message in judging.run("judge-eval", "failure", named, *rules, code=66).err
    judging.run("datasets", "add-example", "reviewed", "--input", '"x"', "--expected-output", '{"label": "YES"}')
    judging.run("datasets", "publish", "reviewed")
    assert "reviewed@2:6: subject" in judging.run("judge-eval", "failure", "reviewed", *rules, code=65).err


def test_printed_tables_fit_in_80_columns(judging: InProcessCommand) -> None:
    ended = judging.run("judge-eval", "failure", sample(judging), "--judge", "rules")
    assert max(map(len, ended.out.splitlines())) < 80
    head, *rows = ended.out.partition("rules@6 with failure@1 in columns, people in rows:\n")[2].splitlines()[:5]
    assert rows[0] == "MODEL_FAULT               1              1               0          0"
    assert [len(row) for row in rows] == [len(head)] * 4


def test_json_output_contains_all_statistics_and_rows(judging: InProcessCommand) -> None:
    ended = judging.run("judge-eval", "failure", sample(judging), "--judge", "rules", "--json")
    document = json.loads(ended.out)
    (judge,) = document["judges"]
    assert (judge["judged"], judge["right"], judge["agreement"]) == (5, 4, 0.8)
    assert judge["confusion"]["MODEL_FAULT"]["OVERLY_STRICT"] == 1
    value, (low, high) = judge["kappa"]
    assert low <= value <= high
    assert [row["line"] for row in judge["rows"]] == [1, 2, 3, 4, 5]
    assert [row["predicted"] == row["label"] for row in judge["rows"]] == [True, True, True, True, False]


def test_judges_are_compared_and_failed_subjects_are_no_disagreements(judging: InProcessCommand) -> None:
    names = dataset(judging, *(labelled(f"run-{n}", "rude" if n < 2 else "polite") for n in range(6)))

    def script(call: Call) -> Answer:
        text = json.dumps(call.body["messages"])
        if "haiku" in call.body["model"] and "run-5" in text:
            return failure(400, "invalid_request_error", "no")
        rude = "run-0" in text or ("opus" in call.body["model"] and "run-1" in text)
        return says_json({"label": "rude" if rude else "polite", "because": "It said so [T0B1]."})

    both = "anthropic/claude-haiku-5-5,anthropic/claude-opus-5-5"
    with MessagesServer(script) as server:
        ended = judging.run("judge-eval", "polite", names, "--judge", both, "--json", **access(server))
        calls = len(server.calls)
        again = judging.run("judge-eval", "polite", names, "--judge", both, **access(server))
        assert len(server.calls) == calls + 1, "only what failed is asked again"
    cheap, dear = json.loads(ended.out)["judges"]
    assert (cheap["judged"], cheap["agreement"], cheap["agreement_over_all"]) == (5, 0.8, pytest.approx(4 / 6))
    assert (dear["judged"], dear["agreement"]) == (6, 1.0)
    assert cheap["usage"]["cost_usd"] < dear["usage"]["cost_usd"]
    assert "anthropic/claude-haiku-5-5  anthropic/claude-opus-5-5" in again.out
    assert "5 of 6" in again.out
    assert "line 6, run-5: not judged: " in again.out


def test_subject_files_are_relative_to_the_dataset(judging: InProcessCommand) -> None:
    (judging.folder / "sub").mkdir()
    (judging.folder / "sub" / "one.json").write_text(json.dumps(run("alone")))
    path = judging.folder / "sub" / "labelled.jsonl"
    path.write_text(json.dumps({"subject": {"file": "one.json"}, "label": "polite"}))
    with MessagesServer(says_json({"label": "polite", "because": "yes"})) as server:
        ended = judging.run("judge-eval", "polite", "sub/labelled.jsonl", **access(server))
    assert "1 of 1" in ended.out
    (kappa,) = [line for line in ended.out.splitlines() if line.startswith("Cohen's kappa")]
    assert kappa.split()[-1] == "-", "one label only"


def test_cascade_is_evaluated_as_one_judge(judging: InProcessCommand) -> None:
    names = dataset(judging, labelled("run-0", "polite"), labelled("run-1", "rude"))

    def script(call: Call) -> Answer:
        if "haiku" not in call.body["model"]:
            return says_json({"label": "rude", "because": "It is [T0B1]."})
        sure = "run-0" in json.dumps(call.body["messages"])
        return says_json({"sure": sure, "answer": {"label": "polite", "because": "It is [T0B1]."}})

    with MessagesServer(script) as server:
        ended = judging.run("judge-eval", "polite", names, "--judge", "cascade", "--yes", "--json", **access(server))
        assert sorted(call.body["model"] for call in server.calls) == [
            "claude-haiku-5-5",
            "claude-haiku-5-5",
            "claude-opus-5-5",
        ]
    document = json.loads(ended.out)
    (judge,) = document["judges"]
    assert judge["agreement"] == 1.0
    assert judge["name"] == "cascade"
    assert judge["usage"]["calls"] == 3
    assert set(document["spent"]) == {"tag", "judge"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("{", "not a JSON object", id="no JSON"),
        pytest.param({"subject": {}, "label": "polite"}, "give one of these keys: run", id="no subject"),
        pytest.param(
            {"subject": {"agent_run": run("x")}, "label": "nice"}, "'nice' is unknown; use one of", id="unknown label"
        ),
        pytest.param({"subject": {"agent_run": run("x")}, "label": "rude", "x": 1}, "x: Extra", id="unknown field"),
        pytest.param({"subject": {"agent_run": run("x")}}, "label: Field required", id="no label"),
        pytest.param({"subject": {"agent_run": {}}, "label": "rude"}, "agent_run", id="no agent run"),
        pytest.param({"subject": {"file": "none.json"}, "label": "rude"}, "none.json", id="no such file"),
        pytest.param({"subject": {"run": "sample", "eval": "a/b"}, "label": "rude"}, "'a/b'", id="no such eval"),
        pytest.param({"subject": {"run": "sample"}, "label": "rude"}, "eval: missing", id="which eval"),
        pytest.param(labelled("first", "rude"), "same subject as in line 1", id="twice"),
    ],
)
def test_invalid_dataset_line_is_reported_before_any_request(
    line: Any, message: str, judging: InProcessCommand
) -> None:
    names = dataset(judging, labelled("first", "polite"), "", line)
    with MessagesServer(says("never")) as server:
        ended = judging.run("judge-eval", "polite", names, code=65, **access(server))
        assert server.calls == []
    assert "labelled.jsonl:3: " in ended.err
    assert message in ended.err


def test_label_option_must_name_a_comparable_field(judging: InProcessCommand) -> None:
    ended = judging.run("judge-eval", "polite", sample(judging), "--label", "because", code=64, ANTHROPIC_API_KEY="k")
    assert "known fields: label" in ended.err


ROOT_CAUSE = """\
rubric_text: Where did the agent run go wrong?
output_schema:
  type: object
  properties:
    broken: {type: boolean}
    tags: {type: array, items: {type: string}}
    root:
      type: object
      properties:
        step: {type: integer, minimum: 1}
        agent: {type: string}
      required: [step, agent]
      additionalProperties: false
    because: {type: string, citations: true}
  required: [broken, tags, root, because]
  additionalProperties: false
"""
LABELS: list[dict[str, Any]] = [
    {"broken": True, "tags": ["loop", "wrong-tool"], "root": {"step": 7, "agent": "Surfer"}},
    {"broken": True, "tags": ["loop"], "root": {"step": 3, "agent": "Planner"}},
    {"broken": False, "tags": [], "root": {"step": 12, "agent": "Surfer"}},
    {"broken": True, "tags": ["loop"]},
]
ANSWERS: list[dict[str, Any]] = [
    {"broken": True, "tags": ["wrong-tool", "loop"], "root": {"step": 9, "agent": "Surfer"}},
    {"broken": True, "tags": ["loop", "slow"], "root": {"step": 3, "agent": "Surfer"}},
    {"broken": True, "tags": [], "root": {"step": 9, "agent": "Surfer"}},
    {"broken": True, "tags": ["loop"], "root": {"step": 1, "agent": "Planner"}},
]


def answers(call: Call) -> Answer:
    text = json.dumps(call.body["messages"])
    number = next(n for n in range(len(ANSWERS)) if f"run-{n}" in text)
    return says_json({**ANSWERS[number], "because": "It did [T0B1]."})


def measured(judging: InProcessCommand, *options: str, labels: list[Any] | None = None) -> Any:
    """Evaluate the judge that gives `ANSWERS`; return the document, its judge and the printed table."""
    (judging.folder / "prompts" / "rubrics" / "root-cause.yaml").write_text(ROOT_CAUSE)
    numbered_labels = enumerate(LABELS if labels is None else labels)
    names = dataset(
        judging, *({"subject": {"agent_run": run(f"run-{n}")}, "label": label} for n, label in numbered_labels)
    )
    with MessagesServer(answers) as server:
        ended = judging.run("judge-eval", "root-cause", names, "--json", *options, **access(server))
        printed = judging.run("judge-eval", "root-cause", names, *options, **access(server)).out
    document = json.loads(ended.out)
    return document, document["judges"][0], re.sub(" +", " ", printed)


def test_numbers_agree_exactly_or_within_a_tolerance(judging: InProcessCommand) -> None:
    """Labels 7, 3, 12 and answers 9, 3, 9: mean absolute error 5 / 3."""
    labels = [one["root"]["step"] for one in LABELS[:3]]
    document, judge, printed = measured(judging, "--label", "root.step", labels=labels)
    assert (document["key"], document["kind"], document["tolerance"]) == ("root.step", "number", None)
    assert (judge["judged"], judge["right"], judge["kappa"], judge["confusion"]) == (3, 1, None, {})
    assert judge["numbers"]["mean_absolute_error"] == pytest.approx(5 / 3)
    assert judge["numbers"]["rank_correlation"] == pytest.approx(0.866, abs=1e-3)
    assert [(row["label"], row["predicted"], row["agrees"]) for row in judge["rows"]] == [
        (7, 9, False),
        (3, 3, True),
        (12, 9, False),
    ]
    assert "mean absolute error 1.67" in printed
    assert "Spearman's correlation 0.87" in printed
    _, judge, printed = measured(judging, "--label", "root.step", "--tolerance", "2", labels=labels)
    assert (judge["right"], judge["agreement"]) == (2, pytest.approx(2 / 3))
    assert "by `root.step`, numbers within 2" in printed


def test_tags_are_compared_as_sets(judging: InProcessCommand) -> None:
    """Labels are whole objects. Jaccard 1, 1/2, 1, 1; 4 of the judge's 5 tags are also in the labels."""
    document, judge, printed = measured(judging, "--label", "tags")
    assert (document["kind"], judge["right"]) == ("tags", 3)
    assert judge["tags"] == {"jaccard": 0.875, "precision": 0.8, "recall": 1.0}
    assert "mean Jaccard index 0.88" in printed


def test_whole_answers_are_compared_field_by_field(judging: InProcessCommand) -> None:
    document, judge, printed = measured(judging, "--label", ".", "--tolerance", "2")
    assert (document["key"], document["kind"]) == (".", "object")
    assert (judge["judged"], judge["right"]) == (4, 2), "a label that lacks fields agrees in those that it has"
    fields = {one["field"]: (one["kind"], one["right"], one["judged"], one["subjects"]) for one in judge["fields"]}
    assert fields == {
        "broken": ("choice", 3, 4, 4),
        "tags": ("tags", 3, 4, 4),
        "root.step": ("number", 2, 3, 3),
        "root.agent": ("text", 2, 3, 3),
    }
    assert judge["fields"][0]["confusion"]["false"] == {"true": 1, "false": 0}
    assert "`root.agent`\njudged 3 of 3\nagreement 0.67" in printed
    assert "because" not in fields
    nested, judge, _ = measured(judging, "--label", "root", labels=[one["root"] for one in LABELS[:3]])
    assert (nested["key"], judge["right"]) == ("root", 0)


def test_boolean_field_is_the_default_label_and_has_a_confusion_table(judging: InProcessCommand) -> None:
    document, judge, printed = measured(judging, labels=[True, "true", False, True])
    assert (document["key"], document["kind"], judge["right"]) == ("broken", "choice", 3)
    assert [row["label"] for row in judge["rows"]] == [True, True, False, True]
    assert judge["labels"][0]["label"] == "true"
    assert "recall false 0.00 (0/1)" in printed


@pytest.mark.parametrize(
    ("options", "label", "message"),
    [
        pytest.param(("--label", "root.step"), 0, "label: 0 breaks minimum 1", id="below the minimum"),
        pytest.param(("--label", "root.step"), 10**400, "is too large", id="beyond the range of floats"),
        pytest.param(("--label", "root.step"), float("inf"), "label: inf is not a JSON number", id="infinite"),
        pytest.param(("--label", "broken"), "[" * 100_000, "is unknown; use one of", id="nested too deeply"),
        pytest.param(("--label", "root.step"), "seven", "label: must be of type integer", id="not a number"),
        pytest.param(
            ("--label", "root.step"), {"root": {"agent": "x"}}, "the field root.step is missing", id="lacks the field"
        ),
        pytest.param(("--label", "tags"), ["a", 1], "label.[1]: must be of type string", id="an item of another type"),
        pytest.param(("--label", "."), {"root": {"step": "7"}}, "label.root.step: must be of type", id="nested"),
        pytest.param(("--label", "."), {"roots": 1}, 'label: has unknown "roots"', id="unknown field"),
        pytest.param(("--label", "."), {"because": "x"}, "label: has none of the fields", id="nothing to compare"),
    ],
)
def test_invalid_label_is_reported_with_its_line_and_field(
    options: tuple[str, ...], label: Any, message: str, judging: InProcessCommand
) -> None:
    (judging.folder / "prompts" / "rubrics" / "root-cause.yaml").write_text(ROOT_CAUSE)
    names = dataset(judging, "", {"subject": {"agent_run": run("run-0")}, "label": label})
    with MessagesServer(answers) as server:
        ended = judging.run("judge-eval", "root-cause", names, *options, code=65, **access(server))
        assert server.calls == []
    assert "labelled.jsonl:2: " in ended.err
    assert message in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--label", "root.stop"), "no field 'root.stop'; known fields: broken, tags, root.step, root.agent"),
        (("--label", "tags", "--tolerance", "1"), "--tolerance applies only to numbers, but tags has none"),
        (("--label", "root.step", "--tolerance", "-1"), "--tolerance is negative"),
        (("--label", "root.step", "--tolerance", "nan"), "--tolerance must be finite, not nan"),
        (("--label", "root.step", "--tolerance", "inf"), "--tolerance must be finite, not inf"),
    ],
)
def test_invalid_label_field_or_tolerance_is_refused(
    options: tuple[str, ...], message: str, judging: InProcessCommand
) -> None:
    (judging.folder / "prompts" / "rubrics" / "root-cause.yaml").write_text(ROOT_CAUSE)
    names = dataset(judging, {"subject": {"agent_run": run("run-0")}, "label": 1})
    ended = judging.run("judge-eval", "root-cause", names, *options, code=64, ANTHROPIC_API_KEY="k")
    assert message in ended.err


AGENTRX = """rubric_text: At which message, counted from 1, did the run go wrong, and which agent's fault was it?
output_schema:
  type: object
  properties:
    step_number: {type: integer, minimum: 1}
    failed_agent: {type: string}
    failure_category: {type: string}
  required: [step_number, failed_agent, failure_category]
  additionalProperties: false
"""


def test_root_cause_steps_of_real_agent_runs_are_compared(judging: InProcessCommand, real_data: Path) -> None:
    """Magentic-One runs with human root causes. The judge on loopback answers 0 to 3 messages late, in turn."""
    folder = real_data / "agentrx" / "magentic_one"
    if not folder.is_dir():
        pytest.skip("the real data has no root causes")
    (judging.folder / "prompts" / "rubrics" / "root-step.yaml").write_text(AGENTRX)
    labels: dict[str, dict[str, Any]] = {}
    lines = []
    for entry in json.loads((folder / "ground_truth.json").read_text()):
        name = str(entry["trajectory_id"])
        causes = {one["failure_id"]: one for one in entry["failures"]}
        cause = causes[entry["root_cause"]["failure_id"]]
        labels[name] = {key: cause[key] for key in ("step_number", "failed_agent", "failure_category")}
        trajectory = json.loads((folder / "trajectories" / f"{name}.json").read_text())
        messages = [
            {"role": "user" if one["role"] == "human" else "assistant", "content": f"{one['role']}: {one['content']}"}
            for one in trajectory
        ]
        first = {"role": "user", "content": f"Run {name}."}
        lines.append(
            {
                "subject": {"agent_run": {"id": name, "transcripts": [{"messages": [first, *messages]}]}},
                "label": labels[name],
            }
        )
    order = {name: n for n, name in enumerate(labels)}

    def late(call: Call) -> Answer:
        text = json.dumps(call.body["messages"])
        name = next(name for name in labels if f"Run {name}." in text)
        step = labels[name]["step_number"] + order[name] % 4
        return says_json({**labels[name], "step_number": step})

    def agreed(*options: str) -> dict[str, Any]:
        ended = judging.run("judge-eval", "root-step", dataset(judging, *lines), "--json", *options, **access(server))
        (judge,) = json.loads(ended.out)["judges"]
        assert isinstance(judge, dict)
        return judge

    with MessagesServer(late) as server:
        exact, near = agreed("--label", "step_number"), agreed("--label", "step_number", "--tolerance", "2")
        calls = len(server.calls)
        whole = agreed()
        assert len(server.calls) == calls >= len(labels), "another field needs no new answers"
    delays = [n % 4 for n in order.values()]
    assert exact["judged"] == len(labels) == 22
    assert (exact["right"], near["right"]) == (delays.count(0), sum(delay <= 2 for delay in delays))
    assert exact["numbers"]["mean_absolute_error"] == pytest.approx(sum(delays) / len(delays))
    assert exact["numbers"]["rank_correlation"] > 0.9
    assert {one["field"]: one["right"] for one in whole["fields"]} == {
        "step_number": delays.count(0),
        "failed_agent": 22,
        "failure_category": 22,
    }


def test_rules_agree_with_maintainer_labels_of_real_runs(judging: InProcessCommand, real_data: Path) -> None:
    """All 146 failures, including those that failed in the same way."""
    lines = []
    for gold in sorted((real_data / "convex-runs").glob("*/gold.json")):
        for one in json.loads(gold.read_text())["failures"]:
            lines.append({"subject": {"run": str(gold.parent), "eval": one["evalId"]}, "label": one["classification"]})
    ended = judging.run("judge-eval", "failure", dataset(judging, *lines), "--judge", "rules", "--json")
    (judge,) = json.loads(ended.out)["judges"]
    print(judge["agreement"], judge["kappa"])
    assert judge["subjects"] == judge["judged"] == 146
    assert judge["agreement"] > 0.9
    assert judge["kappa"][0] > 0.75

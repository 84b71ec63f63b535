"""Import of Inspect logs of all versions and in all states."""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.sources.records import safe_json

PICTURE = "data:image/png;base64," + "A" * 4000
HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_id": "eV4l1dOfThisRun",
        "run_id": "r1",
        "created": "2026-01-02T03:04:05+00:00",
        "task": "suite/arithmetic",
        "task_id": "t1",
        "task_args": {"level": 2},
        "dataset": {"name": "d", "samples": 3},
        "model": "acme/large/m-1",
        "config": {"epochs": 2},
    },
    "plan": {"name": "plan"},
    "results": {"scores": []},
}


def sample(id: str | int = "one", epoch: int = 1, score: object = "C", **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "epoch": epoch,
        "input": "What is 6 x 7?",
        "target": "42",
        "messages": [
            {"role": "user", "content": "What is 6 x 7?", "source": "input"},
            {
                "role": "assistant",
                "content": [{"type": "reasoning", "reasoning": "six sevens"}, {"type": "text", "text": "It is 42"}],
                "tool_calls": [{"id": "c", "function": "submit", "arguments": {"answer": "42"}, "type": "function"}],
                "model": "m-1",
            },
            {
                "role": "tool",
                "content": "",
                "tool_call_id": "c",
                "function": "submit",
                "error": {"type": "timeout", "message": "too slow"},
            },
        ],
        "output": {
            "model": "m-1",
            "choices": [{"message": {"role": "assistant", "content": "It is 42"}, "stop_reason": "stop"}],
            "usage": {"input_tokens": 5, "output_tokens": 6, "total_tokens": 11},
        },
        "scores": {"match": {"value": score, "answer": "It is 42", "explanation": "the last number is 42"}},
        "metadata": {"kind": "easy"},
        "model_usage": {"acme/large/m-1": {"input_tokens": 5}},
        "events": [
            {"event": "info", "data": "warming up"},
            {"event": "model", "error": "overloaded"},
            {"event": "state"},
        ],
        "attachments": {},
        **more,
    }


def log(*samples: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEADER, "samples": [*samples], **more}


def packed(path: Path, *samples: Mapping[str, Any], header: Mapping[str, Any] | None = HEADER) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": HEADER["eval"], "plan": {}}))
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        if header is not None:
            archive.writestr("header.json", json.dumps(header))
    return path


def test_sample_becomes_a_record_with_documents_and_transcript(read_value: Callable[..., Any]) -> None:
    read = read_value(log(sample()))
    assert (read.format, read.run.id, read.run.provider, read.run.model) == (
        "inspect",
        "eV4l1dOfThisRun",
        "acme",
        "large/m-1",
    )
    assert (read.run.experiment, read.run.status) == ("suite/arithmetic", "completed")
    (record,) = read.records
    assert (record.eval.path, record.eval.status) == ("arithmetic/one", "passed")
    assert record.metadata["task"] == "arithmetic/one"
    assert record.metadata["scores"] == {"match": 1}
    assert record.metadata["metadata"] == {"kind": "easy"}
    assert record.metadata["eval"]["task_args"] == {"level": 2}  # type: ignore[index,call-overload]
    assert {(one.role, one.path): one.text for one in record.documents} == {
        ("task", "input"): "What is 6 x 7?",
        ("expected", "target"): "42",
        ("output", "choice-1"): "It is 42",
        ("log", "scorer/match"): "the last number is 42",
        ("log", "events"): 'info: {"data": "warming up"}\nmodel: {"error": "overloaded"}',
    }
    _, answer, tool = record.transcripts[0].messages
    assert (answer.reasoning, answer.content, tool.error) == ("six sevens", "It is 42", "timeout: too slow")  # type: ignore[union-attr]
    assert read.left_out == {}


@pytest.mark.parametrize(
    ("score", "numbers", "status", "reason"),
    [
        pytest.param("C", {"match": 1}, "passed", None, id="correct"),
        pytest.param("I", {"match": 0}, "failed", "scored I, answered 'It is 42', expected '42'", id="incorrect"),
        pytest.param("P", {"match": 0.5}, "failed", "scored P, answered 'It is 42', expected '42'", id="partly"),
        pytest.param("N", {"match": 0}, "failed", "scored N, answered 'It is 42', expected '42'", id="no answer"),
        pytest.param("yes", {"match": 1}, "passed", None, id="yes"),
        pytest.param(True, {"match": 1}, "passed", None, id="true"),
        pytest.param("0.25", {"match": 0.25}, "failed", "scored 0.25, answered 'It is 42', expected '42'", id="text"),
        pytest.param(None, {}, "incomplete", None, id="null"),
        pytest.param(float("nan"), {}, "incomplete", None, id="NaN"),
        pytest.param(7, {"match": 7}, "incomplete", None, id="of another scale"),
        pytest.param(
            {"a": 1, "b": "I", "c": None},
            {"match.a": 1, "match.b": 0},
            "failed",
            'scored {"a": 1, "b": "I", "c": null}, answered \'It is 42\', expected \'42\'',
            id="several",
        ),
        pytest.param([1, "C"], {"match.0": 1, "match.1": 1}, "passed", None, id="list"),
    ],
)
def test_score_decides_scores_status_and_reason(
    read_value: Callable[..., Any], score: object, numbers: dict[str, float], status: str, reason: str | None
) -> None:
    (record,) = read_value(log(sample(score=score))).records
    assert (record.metadata["scores"], record.eval.status, record.eval.reason) == (numbers, status, reason)
    assert record.eval.failed_step == ("match" if status == "failed" else None)


def test_each_scorer_becomes_a_step(read_value: Callable[..., Any]) -> None:
    scores = {"fast": {"value": 1}, "exact": {"value": "I", "answer": "41"}, "style": {"value": None}}
    (record,) = read_value(log(sample(scores=scores))).records
    assert [(step.name, step.status) for step in record.steps] == [("fast", "passed"), ("exact", "failed")]
    assert (record.eval.status, record.metadata["scores"]) == ("passed", {"fast": 1, "exact": 0})


@pytest.mark.parametrize(
    ("more", "status", "step", "reason"),
    [
        pytest.param(
            {"error": {"message": "no sandbox", "traceback": "Traceback …"}, "scores": None},
            "error",
            None,
            "no sandbox",
            id="harness",
        ),
        pytest.param(
            {"limit": {"type": "token", "limit": 9, "reason": "used 12"}, "score": "I"},
            "failed",
            "limit",
            "the token limit of 9 was reached: used 12",
            id="limit",
        ),
        pytest.param(
            {"limit": {"type": "time", "limit": 9.0}, "scores": {}},
            "failed",
            "limit",
            "the time limit of 9 was reached",
            id="limit without a score",
        ),
        pytest.param({"limit": {"type": "time", "limit": 9}}, "passed", None, None, id="passed all the same"),
        pytest.param({"scores": None}, "incomplete", None, None, id="never scored"),
        pytest.param(
            {"invalidation": {"author": "ann", "reason": "wrong image", "timestamp": "2026-01-02T03:04:05Z"}},
            "incomplete",
            None,
            "it was declared invalid by ann: wrong image",
            id="invalid",
        ),
        pytest.param({"messages": [], "scores": {}}, "incomplete", None, None, id="nothing said"),
    ],
)
def test_errors_limits_and_invalidation_decide_status_and_reason(
    read_value: Callable[..., Any], more: dict[str, Any], status: str, step: str | None, reason: str | None
) -> None:
    (record,) = read_value(log(sample(**{"score": "C", **more}))).records
    assert (record.eval.status, record.eval.failed_step, record.eval.reason) == (status, step, reason)


def test_error_retries_are_kept_without_tracebacks(read_value: Callable[..., Any]) -> None:
    retries = [{"message": "overloaded", "traceback": "t" * 30_000, "traceback_ansi": "t", "events": [{}]}] * 2
    read = read_value(log(sample(error_retries=retries)))
    assert read.records[0].metadata["error_retries"] == [{"message": "overloaded"}] * 2


def call(span: str, prompt: list[dict[str, Any]], id: str, answer: str, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "id": id, "content": answer}
    return {"event": "model", "span_id": span, "input": prompt, "output": {"choices": [{"message": message}]}, **more}


def begun(id: str, type: str, name: str, parent: str | None = None) -> dict[str, Any]:
    return {"event": "span_begin", "id": id, "type": type, "name": name, "parent_id": parent}


USER, FOUND = {"role": "user", "id": "u", "content": "add 1 and 2"}, {"role": "tool", "id": "t", "content": "three"}
DELEGATED = [
    begun("1", "agent", "main"),
    begun("2", "agent", "helper", "1"),
    begun("3", "tool", "add", "2"),
    begun("4", "scorers", "scorers", "4"),
    begun("5", "scorer", "graded", "4"),
    call("1", [], "a1", "helper!"),
    call("2", [USER], "h1", "attachment://k"),
    {**call("3", [], "h2", "It is 3"), "input": [], "input_refs": [[0, 3]]},
    call("2", [USER], "h3", "again"),
    call("2", [USER, {"role": "assistant", "id": "h3", "content": "again"}, FOUND], "h4", "still 3"),
    call("5", [USER], "g1", "GRADE: C"),
]
POOL = [USER, {"role": "assistant", "id": "h1", "content": "attachment://k"}, FOUND]
MAIN = [{"role": "user", "content": "1 + 2?"}, {"role": "assistant", "id": "a1", "content": "helper!"}]


def test_sub_agent_conversations_become_transcripts(read_value: Callable[..., Any]) -> None:
    raw_sample = sample(
        messages=MAIN, events=DELEGATED, events_data={"messages": POOL}, attachments={"k": "let me see"}
    )
    (record,) = read_value(log(raw_sample)).records
    assert [(one.id[-2:], one.name, [message.content for message in one.messages]) for one in record.transcripts] == [
        ("-0", None, ["1 + 2?", "helper!"]),
        ("-1", "helper", ["add 1 and 2", "let me see"]),
        ("-2", "helper", ["add 1 and 2", "again", "three", "still 3"]),
        ("-3", "add", ["add 1 and 2", "let me see", "three", "It is 3"]),
    ]


def test_invalid_sub_agent_conversations_do_not_lose_the_sample(read_value: Callable[..., Any]) -> None:
    endless = {**call("2", [], "h9", "x"), "input_refs": [[0, 3]] * 50_000}
    torn = [
        1,
        {"event": "model"},
        {"event": "model", "output": {"choices": [{"message": 1}]}},
        begun("8", "x", "y", "8"),
    ]
    raw_sample = sample(messages=MAIN, events=[*DELEGATED[:8], endless, *torn], events_data={"messages": POOL})
    read = read_value(log(raw_sample))
    assert [one.name for one in read.records[0].transcripts] == [None, "helper", "add"]
    assert read.left_out["a conversation of a sub-agent: the sample has too many, or they are too long"] == 1


def test_attachment_expansion_stops_at_the_size_limit(
    read_value: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalscribe.sources.inspect_sample.MAX_MEMBER_BYTES", 25)
    messages = [{"role": "user", "content": "attachment://k"}] * 3
    (record,) = read_value(log(sample(messages=messages, attachments={"k": "ten and so"}))).records
    assert [one.content for one in record.transcripts[0].messages] == ["ten and so", "ten and so", "attachment://k"]


def test_sample_split_into_several_members_is_joined(
    read_value: Callable[..., Any], read_file: Callable[..., Any], tmp_path: Path
) -> None:
    whole = sample("a/b", events=DELEGATED, messages=MAIN, events_data={"messages": [*POOL, *MAIN]})
    (wanted,) = read_value(log({**whole, "attachments": {"k": "let me see"}})).records
    head = {key: whole[key] for key in whole.keys() - {"metadata", "messages", "events", "events_data", "attachments"}}
    events = json.loads(json.dumps(DELEGATED).replace("://k", "://1"))
    pool = json.loads(json.dumps([*POOL, *MAIN]).replace("://k", "://1"))
    pieces = {
        "sample": {**head, "message_refs": [[3, 5]]},
        "metadata": whole["metadata"],
        "skeleton": {},
        "messages/0": pool[:2],
        "messages/2": pool[2:],
        "events/10": events[10:],
        "events/0": events[:10],
        "events/stats": {"chunks": []},
        "attachments/0": ["noise", "let me see"],
    }
    with zipfile.ZipFile(tmp_path / "x.eval", "w") as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        for name, piece in pieces.items():
            archive.writestr(f"samples/a/b_epoch_1/{name}.json", json.dumps(piece))
    assert read_file(tmp_path / "x.eval").records == [wanted]


def test_logs_of_the_first_versions_are_read(read_value: Callable[..., Any]) -> None:
    old = sample(score="I")
    old["score"] = old.pop("scores")["match"]
    old["transcript"] = {"events": old.pop("events"), "content": {"k": "the long task"}}
    old["input"] = "attachment://k"
    header = {**HEADER, "eval": {key: value for key, value in HEADER["eval"].items() if key != "eval_id"}}
    first, again = (read_value({**header, "samples": [old]}) for _ in range(2))
    assert first.run.id == again.run.id
    (record,) = first.records
    assert (record.eval.failed_step, record.documents[0].text) == ("score", "the long task")


def test_attachments_are_expanded_and_images_are_left_out(read_value: Callable[..., Any]) -> None:
    shown = [{"type": "text", "text": "attachment://t"}, {"type": "image", "image": "attachment://i"}]
    raw_sample = sample(messages=[{"role": "user", "content": shown}], attachments={"t": "Look:", "i": PICTURE})
    (record,) = read_value(log(raw_sample)).records
    assert record.transcripts[0].messages[0].content == "Look:\n[image]"
    assert len(record.model_dump_json()) < 3000


def test_epochs_become_trials_with_unique_ids(
    read_value: Callable[..., Any], read_file: Callable[..., Any], tmp_path: Path
) -> None:
    samples = [sample(1, 1), sample(1, 2), sample("a/b", 1), sample(1, 2)]
    read = read_value(log(*samples))
    assert [one.eval.path for one in read.records] == [
        "arithmetic/1#1",
        "arithmetic/1#2",
        "arithmetic/a/b",
        "arithmetic/1#3",
    ]
    assert len({one.eval.id for one in read.records}) == 4
    assert [one.eval.path for one in read_file(packed(tmp_path / "x.eval", *samples[:3])).records] == [
        "arithmetic/1#1",
        "arithmetic/1#2",
        "arithmetic/a/b",
    ]
    (record,) = read_value(log(sample(uuid="hgtUv3i9KzqgkqxdTqfAcM"))).records
    assert record.eval.id == "hgtUv3i9KzqgkqxdTqfAcM"


def test_zipped_and_plain_logs_read_the_same(
    read_value: Callable[..., Any], read_file: Callable[..., Any], tmp_path: Path
) -> None:
    samples = [sample("a"), sample("b", score="I")]
    zipped = read_file(packed(tmp_path / "log.eval", *samples))
    assert zipped.told == read_value(log(*samples)).told


@pytest.mark.parametrize(
    ("status", "expected", "reason"),
    [
        ("cancelled", "failed", "the run was cancelled"),
        ("error", "failed", "out of memory"),
        ("started", "running", "the log was never finished"),
        ("new", "unknown", None),
    ],
)
def test_unsuccessful_log_status_becomes_run_status_and_reason(
    read_value: Callable[..., Any], status: str, expected: str, reason: str | None
) -> None:
    error = {"error": {"message": "out of memory"}} if status == "error" else {}
    run = read_value(log(sample(), status=status, **error)).run
    assert (run.status, run.status_reason) == (expected, reason)


def test_log_without_a_header_is_read(read_file: Callable[..., Any], tmp_path: Path) -> None:
    read = read_file(packed(tmp_path / "x.eval", sample(), header=None))
    assert (read.run.status, read.run.experiment, len(read.records)) == ("running", "suite/arithmetic", 1)
    with zipfile.ZipFile(tmp_path / "y.eval", "w") as archive:
        archive.writestr("samples/one_epoch_1.json", json.dumps(sample()))
    read = read_file(tmp_path / "y.eval")
    assert read.left_out["the log's header, which is missing"] == 1
    assert (read.run.model, [one.eval.path for one in read.records]) == ("unknown", ["task/one"])


def test_truncated_log_gives_the_recovered_samples_and_raises(tmp_path: Path) -> None:
    from evalscribe.model.record import Record
    from evalscribe.sources.address import RunOverrides
    from evalscribe.sources.formats import open_records

    whole = packed(tmp_path / "x.eval", *(sample(n) for n in range(5)))
    torn = tmp_path / "torn.eval"
    torn.write_bytes(whole.read_bytes()[:2600])
    records = open_records(torn, RunOverrides()).read()
    recovered: list[Record] = []
    with pytest.raises(DataError, match=r"torn\.eval is truncated: \d samples were recovered"):
        recovered += (one for one in records if isinstance(one, Record))
    assert 1 <= len(recovered) < 5
    assert recovered[0].eval.path == "arithmetic/0"


def test_bad_members_are_left_out_and_other_samples_are_read(read_file: Callable[..., Any], tmp_path: Path) -> None:
    path = packed(tmp_path / "x.eval", sample("good"))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/bomb_epoch_1.json", b'"' + b"a" * (20 * 1024 * 1024) + b'"')
        archive.writestr("samples/deep_epoch_1.json", "[" * 100_000)
        archive.writestr("samples/torn_epoch_1.json", '{"id": 1,')
        archive.writestr("samples/list_epoch_1.json", "[1]")
        archive.writestr("../../etc/passwd", "nobody")
    read = read_file(path)
    assert [one.eval.name for one in read.records] == ["good"]
    assert set(read.left_out) >= {
        "a member compressed by a factor above 200, unlike real text (first: samples/bomb_epoch_1.json)",
        "JSON nested too deeply (first: samples/deep_epoch_1.json)",
        "a sample that cannot be read: it is not an object with an `id` (first: samples/list_epoch_1.json)",
    }


def test_too_deeply_nested_sample_is_left_out_and_others_are_read(
    read_file: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "log.json"
    deep = {**sample("deep"), "store": "HERE"}
    text = json.dumps({**HEADER, "samples": [deep, sample()]})
    path.write_text(text.replace('"HERE"', "[" * 600 + "]" * 600))
    read = read_file(path)
    assert [one.eval.name for one in read.records] == ["one"]
    assert read.left_out["a sample that cannot be read: JSON nested too deeply (first: samples[0])"] == 1


def test_task_document_includes_the_choices(read_value: Callable[..., Any]) -> None:
    record = read_value(log(sample(choices=["forty", "42"], target="B"))).records[0]
    assert record.documents[0].text == "What is 6 x 7?\nA) forty\nB) 42"


def test_traceback_appears_in_one_document_only(read_value: Callable[..., Any]) -> None:
    error = {"message": "no sandbox", "traceback": "Traceback …", "traceback_ansi": "[1mTraceback …"}
    read = read_value(log(sample(error=error, scores=None, events=[{"event": "error", "error": error}])))
    texts = {one.path: one.text for one in read.records[0].documents if one.role == "log"}
    assert texts == {"traceback": "Traceback …", "events": 'error: {"error": {"message": "no sandbox"}}'}
    assert read.left_out == {}


def test_change_of_any_field_changes_the_result(read_value: Callable[..., Any], leaves: Callable[..., Any]) -> None:
    raw_log = log(
        sample(limit={"type": "token", "limit": 9}, store={"n": 1}, setup="x", choices=["a"], new_field={"deep": [1]})
    )
    del raw_log["plan"], raw_log["results"], raw_log["eval"]["dataset"]
    before = read_value(raw_log).told
    ignored = (".version", ".eval_id")
    for place, other in leaves(raw_log):
        if not place.endswith(ignored):
            assert read_value(other).told != before, place


def test_real_log_is_read_completely(real_data: Path, read_file: Callable[..., Any]) -> None:
    path = real_data / "inspect" / "log.eval"
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        raw_samples = {one["id"]: one for one in (json.loads(archive.read(name)) for name in names)}
    read = read_file(path)
    assert (read.run.provider, read.run.model, len(read.records)) == ("openai", "gpt-4o", 15)
    for record in read.records:
        raw = raw_samples[record.metadata["sample_id"]]
        correct = raw["scores"]["includes"]["value"] == "C"
        assert record.metadata["scores"] == {"includes": float(correct)}
        assert record.eval.status == ("passed" if correct else "failed")
        assert len(record.transcripts[0].messages) == len(raw["messages"])
        assert [one.content for one in record.transcripts[0].messages if one.role == "tool"] == [
            safe_json(one["content"]) for one in raw["messages"] if one["role"] == "tool"
        ]
    assert [one.eval.failed_step for one in read.records].count("limit") == 3


def test_header_only_log_reports_the_number_of_missing_samples(read_value: Callable[..., Any]) -> None:
    header = {"status": "success", "eval": {"task": "t", "model": "a/b"}, "plan": {}, "results": {"total_samples": 7}}
    read = read_value(header)
    assert (read.run.total, read.records) == (7, [])
    assert read.left_out == {"a sample: the log has only its header": 7}


def test_unscored_reason_becomes_the_reason(read_value: Callable[..., Any]) -> None:
    score = {"value": float("nan"), "metadata": {"unscored_reason": "grade_parse_failure"}}
    log = {"status": "success", "eval": {"task": "t"}, "samples": [{"id": 1, "epoch": 1, "scores": {"judge": score}}]}
    (record,) = read_value(log).records
    assert (record.eval.status, record.eval.reason) == ("incomplete", "unscored: grade_parse_failure")


def test_score_reason_is_included_in_the_reason(read_value: Callable[..., Any]) -> None:
    score = {"value": "I", "reason": "the unit is wrong"}
    log = {"status": "success", "eval": {"task": "t"}, "samples": [{"id": 1, "epoch": 1, "scores": {"judge": score}}]}
    (record,) = read_value(log).records
    assert record.eval.reason == "scored I because the unit is wrong"

"""Import of evalscribe's own JSON lines and of agent runs in the formats of other tools."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalscribe.model.evidence import ROLES, Document
from evalscribe.model.record import Record
from evalscribe.model.run import Eval, Run, Step
from evalscribe.model.transcript import Transcript
from evalscribe.sources.export import parse_line, render_line
from evalscribe.sources.streams import decode_json

SECRET = "-".join(["sk", "ant", "api03", "a1B2" * 6])
RUN = Run(
    id="r1",
    provider="acme",
    model="m-1",
    experiment="e",
    status="failed",
    status_reason="x",
    passed=1,
    failed=2,
    total=9,
)
NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=8)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.fixed_dictionaries({"id": NAMES, "function": NAMES, "arguments": st.dictionaries(NAMES, JSON, max_size=2)})
MESSAGES = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": NAMES}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": NAMES, "reasoning": NAMES, "tool_calls": st.lists(CALLS, max_size=2)}
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "content": NAMES, "tool_call_id": NAMES, "error": st.none() | NAMES}
    ),
)
RECORDS = st.builds(
    Record,
    run_id=st.just("r1"),
    eval=st.builds(Eval, id=NAMES, category=NAMES, name=NAMES, reason=st.none() | NAMES, trials=st.integers(1, 9)),
    metadata=st.dictionaries(NAMES, JSON, max_size=4),
    transcripts=st.lists(
        st.builds(
            Transcript.model_validate, st.fixed_dictionaries({"id": NAMES, "messages": st.lists(MESSAGES, max_size=4)})
        ),
        max_size=2,
    ).map(tuple),
    steps=st.lists(st.builds(Step, name=NAMES, status=st.just("failed"), error=st.none() | NAMES), max_size=2).map(
        tuple
    ),
    documents=st.lists(st.builds(Document, role=st.sampled_from(ROLES), path=NAMES, text=NAMES), max_size=2).map(tuple),
    missing=st.lists(NAMES, max_size=2).map(tuple),
)


@settings(max_examples=60)
@given(RECORDS)
def test_rendered_record_parses_to_the_same_record(record: Record) -> None:
    assert parse_line(decode_json(render_line(record)), None) == record


def test_rendered_run_parses_to_the_same_run() -> None:
    assert parse_line(decode_json(render_line(RUN)), None) == RUN


def test_export_is_imported_and_bad_lines_are_left_out(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    record = Record(run_id="r1", eval=Eval(id="e1", category="c", name="n"), metadata={"scores": {"a": 1.5}})
    short = {"eval": {"id": "e2", "category": "", "name": "m"}}
    lines = [
        render_line(RUN),
        "",
        render_line(record),
        json.dumps(short),
        "not json",
        "[" * 5000,
        json.dumps({"eval": {"id": "e3"}}),
    ]
    lines.append(json.dumps({"eval": {**short["eval"], "id": "e4"}, "run_id": "another"}))
    path = tmp_path / "x.whatever"
    path.write_bytes(gzip.compress(("\ufeff" + "\r\n".join(lines)).encode()))
    read = read_file(path)
    assert read.format == "evalscribe"
    assert read.run == RUN
    assert read.records == [record, Record(run_id="r1", eval=Eval(id="e2", category="", name="m"))]
    assert read.left_out == {
        "a line that cannot be read: invalid JSON: Expecting value at character 1 (first: line 5)": 1,
        "a line that cannot be read: JSON nested too deeply (first: line 6)": 1,
        "a line whose `eval.category` is wrong: field required (first: line 7)": 1,
        "an eval that comes before its run (first: line 8)": 1,
    }
    assert read_file(path, model="other/m-2", experiment="f").run == RUN.model_copy(
        update={"provider": "other", "model": "m-2", "experiment": "f"}
    )


def test_secret_in_a_document_is_redacted(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    document = {"role": "log", "path": "l", "text": f"key {SECRET}"}
    line = json.dumps({"eval": {"id": "e", "category": "", "name": "n"}, "documents": [document]})
    path = tmp_path / "x.jsonl"
    path.write_text(f"{render_line(RUN)}\n{line}\n")
    assert read_file(path).records[0].documents[0].text == "key [redacted:anthropic-key]"


def test_secrets_in_agent_run_names_are_redacted(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    """Names become ids and columns, which are not redacted later."""
    run = {"name": f"use {SECRET}", "messages": [], "metadata": {"agent": {"model_name": f"m {SECRET}"}}}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(run) + "\n")
    read = read_file(path)
    assert read.records[0].eval.name == "use [redacted:anthropic-key]"
    assert SECRET not in read.told + read.run.id


def test_documented_example_is_imported(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    page = Path(__file__).parents[3] / "agent" / "docs" / "collections.md"
    path = tmp_path / "x.jsonl"
    path.write_text(page.read_text("utf-8").split("```json\n")[1].split("```")[0])
    read = read_file(path)
    (record,) = read.records
    assert (read.format, read.left_out, record.eval.path) == ("evalscribe", {}, "bookings/task-1#1")
    assert (record.steps[0].name, record.documents[0].role) == ("actions", "task")


def test_agent_runs_are_read_line_by_line(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    uuid = "d4557fa9-c65a-4ee3-9c94-4241e5e0e7e9"
    runs: list[dict[str, Any]] = [
        {
            "id": uuid,
            "messages": [{"role": "user", "content": "hi"}],
            "metadata": {"task": "t", "scores": {"reward": 0}, "agent": {"model_name": "m-9"}},
        },
        {
            "id": "2",
            "transcripts": [{"messages": []}],
            "metadata": {"task": "t", "scores": {"speed": 3, "reward": 1.0}},
        },
        {"name": "n", "messages": [], "reward": 5},
        {"id": "x", "messages": [{"role": "ghost"}]},
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, [*runs, 5])) + "\n{")
    read = read_file(path)
    assert (read.format, read.run.model) == ("agent-runs", "m-9")
    assert [(one.eval.path, one.eval.status, one.eval.failed_step, one.eval.reason) for one in read.records] == [
        ("t#1", "failed", "reward", "scored 0"),
        ("t#2", "passed", None, None),
        ("n", "incomplete", None, None),
    ]
    assert [one.eval.id for one in read.records] == [uuid, f"{read.run.id}-t-2", f"{read.run.id}-n-1"]
    assert read.records[2].metadata["reward"] == 5
    assert read_file(path).told == read.told
    assert list(read.left_out) == [
        'an agent run that cannot be read: transcripts[0].messages[0]: unknown role "ghost"; known roles are system, '
        "user, assistant, tool and developer (first: line 4)",
        "a line that cannot be read: it is not an object (first: line 5)",
        "a line that cannot be read: invalid JSON: Expecting property name enclosed in double quotes (first: line 6)",
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_agent_runs_are_read_from_a_list_or_a_single_object(
    read_file: Callable[..., Any], tmp_path: Path, indent: int | None
) -> None:
    one = {"name": "n", "messages": [{"role": "user", "content": "hi"}], "metadata": {"scores": {"a": True}}}
    path = tmp_path / "x.json"
    for value, number in ((one, 1), ([one, one], 2)):
        path.write_text(json.dumps(value, indent=indent))
        assert [record.eval.status for record in read_file(path).records] == ["passed"] * number


def test_change_of_any_field_changes_the_result(read_value: Callable[..., Any], leaves: Callable[..., Any]) -> None:
    call = {"id": "c", "function": "f", "arguments": {"a": 1}}
    message = {"role": "assistant", "content": "hi", "tool_calls": [call], "source": "s"}
    one = {"id": "i", "name": "n", "messages": [message], "metadata": {"scores": {"a": 1}, "x": [None]}, "more": 3}
    before = read_value(one).told
    for place, other in leaves(one):
        assert read_value(other).told != before, place


def test_message_list_maps_human_to_user_and_names_other_speakers(
    tmp_path: Path, read_file: Callable[..., Any]
) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"role": "human", "content": "Hi"}, {"role": "WebSurfer", "content": "I look."}]))
    (record,) = read_file(path).records
    assert [(one.role, one.content) for one in record.transcripts[0].messages] == [
        ("user", "Hi"),
        ("assistant", "[WebSurfer] I look."),
    ]
    assert (record.eval.name, record.eval.status) == ("talk", "incomplete")

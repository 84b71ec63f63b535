import json
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.failures.prepare import summarise_evidence
from evalscribe.json_data import clean_json, parse_json
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.run import Eval
from evalscribe.sources.address import Links
from evalscribe.sources.convex_payload import BINARY, decode_evidence, decode_run
from evalscribe.sources.snapshot import open_snapshot
from support.convex_server import EVAL_IDS, RUN_ID, debug, summary

EVAL = Eval(id=EVAL_IDS[0], category="000-fundamentals", name="000-task")
HEADER = "=== Eval: 000-fundamentals/000-task ==="


def evidence(**changes: object) -> Evidence:
    decoded = decode_evidence(debug(**changes), EVAL)
    assert isinstance(decoded, Evidence), decoded
    return decoded


def roles(decoded: Evidence) -> list[tuple[str, str]]:
    return [(document.role, document.path) for document in decoded.documents]


def test_document_role_follows_from_its_place_in_the_payload() -> None:
    assert roles(evidence()) == [
        ("task", "TASK.txt"),
        ("known_gaps", "GAPS.txt"),
        ("expected", "convex/index.ts"),
        ("grader", "grader.test.ts"),
        ("output", "convex/index.ts"),
        ("log", "run.log"),
    ]


def test_files_of_the_model_always_have_the_output_role() -> None:
    planted = dict.fromkeys(
        ("GAPS.txt", "TASK.txt", "answer/convex/index.ts", "sub/run.log", "./run.log", "RUN.LOG"), "x"
    )
    decoded = evidence(outputFiles=planted)
    assert {document.path for document in decoded.of("output")} == set(planted)
    assert "run.log was not stored" in decoded.missing
    assert not decoded.of("log")


@pytest.mark.parametrize(
    ("content", "log", "output"),
    [
        pytest.param(f"{HEADER}\n[error] no\n", f"{HEADER}\n[error] no\n", None, id="the runner's alone"),
        pytest.param(
            f"fake\n{HEADER}\nfake too\n{HEADER}\nreal", f"{HEADER}\nreal", f"fake\n{HEADER}\nfake too", id="last"
        ),
        pytest.param(f"{HEADER}\r\nreal", f"{HEADER}\r\nreal", None, id="CRLF"),
        pytest.param("[error] faked by the model", None, "[error] faked by the model", id="no header at all"),
        pytest.param(f"x {HEADER}\n  {HEADER}", None, f"x {HEADER}\n  {HEADER}", id="header inside a line"),
        pytest.param("=== Eval: other/eval ===\nx", None, "=== Eval: other/eval ===\nx", id="header of another eval"),
        pytest.param("", None, None, id="empty"),
    ],
)
def test_log_starts_at_the_last_header_of_the_runner(content: str, log: str | None, output: str | None) -> None:
    decoded = evidence(outputFiles={"run.log": content})
    assert [document.text for document in decoded.of("log")] == ([log] if log else [])
    assert [document.text for document in decoded.of("output")] == ([output] if output else [])
    assert ("the runner wrote nothing to run.log" in decoded.missing) is (log is None)


def test_task_text_appears_once_unless_the_copies_differ() -> None:
    assert [d.path for d in evidence(evalSourceFiles={"TASK.txt": "Write index.ts"}).of("task")] == ["TASK.txt"]
    assert [d.path for d in evidence(evalSourceFiles={"TASK.txt": "Other"}).of("task")] == ["TASK", "TASK.txt"]
    assert [d.path for d in evidence(evalSourceFiles={}).of("task")] == ["TASK"]


def test_gaps_file_with_only_a_heading_is_a_document() -> None:
    assert [document.text for document in evidence().of("known_gaps")] == ["# Gaps\n"]


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        pytest.param({"outputFiles": None}, "the model's output is no longer stored, nor is run.log", id="deleted"),
        pytest.param({"evalSourceFiles": None}, "reference answer and grader are not stored", id="no sources"),
        pytest.param({"outputFiles": {}}, "the stored output is empty: no file of the model, no run.log", id="empty"),
        pytest.param({"outputFiles": {"a.ts": ""}}, "run.log was not stored", id="no log"),
        pytest.param({"outputFiles": {"a.png": BINARY}}, "1 output file is not stored as text: `a.png`", id="binary"),
        pytest.param(
            {"outputFiles": dict.fromkeys("gfedcba", BINARY)},
            "7 output files are not stored as text: `a`, `b`, `c`, `d`, `e` and 2 more",
            id="many binary",
        ),
        pytest.param({"outputFiles": {"a": 7}}, "1 output file is not text: `a`", id="no text"),
    ],
)
def test_missing_files_are_listed_in_the_evidence(changes: dict[str, object], phrase: str) -> None:
    assert phrase in evidence(**changes).missing


def test_output_without_a_storage_id_is_reported_as_never_stored() -> None:
    payload = debug(outputFiles=None)
    del payload["eval"]["status"]["outputStorageId"]
    decoded = decode_evidence(payload, EVAL)
    assert isinstance(decoded, Evidence)
    assert "output files were never stored" in decoded.missing


def test_evidence_is_independent_of_payload_key_order() -> None:
    def backwards(value: Any) -> Any:
        return {key: backwards(value[key]) for key in reversed(value)} if isinstance(value, dict) else value

    files = {"outputFiles": {"b.ts": "1", "a.ts": "2", **debug()["outputFiles"]}}
    sources = {"evalSourceFiles": {"helper.ts": "3", **debug()["evalSourceFiles"], "answer/a.ts": "4"}}
    decoded = evidence(**files, **sources)
    again = decode_evidence(backwards(debug(**files, **sources)), EVAL)
    assert again == decoded
    assert [path for role, path in roles(decoded) if role == "output"] == ["a.ts", "b.ts", "convex/index.ts"]


@pytest.mark.parametrize(
    ("row", "reason", "expected"),
    [
        pytest.param({"name": "tsc", "failureReason": "TS1"}, "tsc fail", ("tsc", "TS1"), id="both agree"),
        pytest.param(None, "convex dev fail", ("deploy", "convex dev fail"), id="row lost"),
        pytest.param(None, "tests fail (33%)", ("tests", "tests fail (33%)"), id="tests"),
        pytest.param({"name": "eslint", "failureReason": "x"}, "tsc fail", ("tsc", "tsc fail"), id="other row first"),
        pytest.param(
            None,
            "[infrastructure] empty provider response",
            ("filesystem", "[infrastructure] empty provider response"),
            id="nothing came",
        ),
        pytest.param(None, "error: AI_Error: no", (None, "error: AI_Error: no"), id="before the first step"),
        pytest.param({"name": "deploy", "failureReason": "\x1b[91mTS2\x1b[0m"}, None, ("deploy", "TS2"), id="coloured"),
    ],
)
def test_failed_step_follows_the_failure_reason_of_the_eval(
    row: object, reason: str | None, expected: tuple[str | None, str]
) -> None:
    payload = summary()
    payload["failedEvals"][0] |= {"failedStep": row, "failureReason": reason}
    first = decode_run(payload, Links()).failures[0]
    assert (first.failed_step, first.reason) == expected


@pytest.mark.parametrize(
    "payload",
    [None, [], "text", {}, {"error": "gone"}, {"eval": None}, debug(steps=7), debug(steps=[{}]), debug(outputFiles=[])],
)
def test_malformed_payload_becomes_unreadable_evidence(payload: object) -> None:
    decoded = decode_evidence(payload, EVAL)
    assert isinstance(decoded, UnreadableEvidence)
    assert decoded.reason


def test_step_of_unknown_kind_is_skipped() -> None:
    steps = [*debug()["steps"], {"name": "tests", "status": {"kind": "postponed"}}]
    decoded = evidence(steps=steps)
    assert [(step.name, step.status) for step in decoded.steps] == [
        ("tsc", "passed"),
        ("eslint", "failed"),
        ("tests", "skipped"),
    ]
    assert decoded.steps[1].error == "eslint failed"


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("[setup] dropped unresolvable tsconfig types: node", True),
        ("[setup] normalized tsconfig resolution: /x/tsconfig.json: module commonjs -> ESNext", True),
        ("[vitest] [setup] dropped unresolvable tsconfig types: node", False),
    ],
)
def test_config_change_by_the_runner_is_noted(line: str, changed: bool) -> None:
    decoded = evidence(outputFiles={"run.log": f"{HEADER}\n[ok] deploy\n{line}\n[ok] tsc\n"})
    assert any("the runner changed them" in phrase for phrase in decoded.missing) is changed


def test_run_has_counts_and_links() -> None:
    run = decode_run(summary(), Links(base="https://v.example/experiment/default"))
    assert (run.passed, run.failed, run.total, run.incomplete, len(run.failures)) == (5, 10, 15, 0, 10)
    first = run.failures[0]
    assert (first.category, first.name, first.failed_step) == ("000-fundamentals", "000-task", "eslint")
    assert first.reason == "out/convex/index.ts\n  3:7  error ..."
    assert run.url == f"https://v.example/experiment/default/run/{RUN_ID}"
    assert first.url == f"{run.url}/000-fundamentals/{EVAL_IDS[0]}"
    assert decode_run(summary(), Links()).url is None


def test_extra_and_absent_optional_keys_are_accepted() -> None:
    payload = summary(more={"a": 1})
    payload["run"] |= {"new": True, "provider": None, "experiment": None}
    payload["failedEvals"][0] = {"_id": "x", "evalPath": "a/b/c", "novel": 1}
    run = decode_run(payload, Links())
    assert (run.provider, run.experiment) == ("example", "default")
    assert (run.failures[0].category, run.failures[0].name, run.failures[0].reason) == ("a/b", "c", None)


@pytest.mark.parametrize(
    ("model", "provider", "expected"),
    [
        ("anthropic/claude-opus-4.6", "openrouter", "anthropic"),
        ("anthropic/claude-opus-4.6", "amazon-bedrock/us-east", "anthropic"),
        ("x-ai/grok-4.6", "xai", "x-ai"),
        ("claude-opus-4-6", "anthropic", "anthropic"),
        ("unknown-model", "openrouter", "openrouter"),
        ("claude", None, "unknown"),
        ("/claude", "openrouter", "openrouter"),
        ("anthropic/", "openrouter", "openrouter"),
    ],
)
def test_provider_is_the_vendor_in_the_model_slug(model: str, provider: str | None, expected: str) -> None:
    payload = summary()
    payload["run"] |= {"model": model, "provider": provider}
    run = decode_run(payload, Links())
    assert (run.provider, run.model) == (expected, model)


@pytest.mark.parametrize("key", ["totalEvals", "passedCount", "failedCount", "failedEvals", "run"])
def test_error_message_names_the_missing_key(key: str) -> None:
    payload = summary()
    del payload[key]
    with pytest.raises(DataError, match=key):
        decode_run(payload, Links())


@pytest.mark.parametrize("value", ["NaN", "Infinity", float("nan"), float("inf"), -1, 1.5, True, None, [], 10**30])
def test_invalid_count_raises_data_error(value: object) -> None:
    with pytest.raises(DataError, match="totalEvals"):
        decode_run(summary(totalEvals=value), Links())


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("completed", "completed"),
        ("failed", "failed"),
        ("running", "running"),
        ("pending", "running"),
        ("new", "unknown"),
    ],
)
def test_run_status_is_normalised(kind: str, status: str) -> None:
    payload = summary()
    payload["run"]["status"] = {"kind": kind}
    assert decode_run(payload, Links()).status == status


def test_incomplete_run_counts_missing_evals_and_explains_its_end() -> None:
    payload = summary(totalEvals=20.0)
    payload["run"]["status"] = {"kind": "failed", "failureReason": "Only 15/20 evals completed"}
    run = decode_run(payload, Links())
    assert (run.incomplete, run.status, run.status_reason) == (
        5,
        "failed",
        "ended before all its evals had; the runner says: Only 15/20 evals completed",
    )
    assert not run.all_passed


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            "preflight",
            "stopped before the first eval, because a test request to the provider failed; the runner says: ",
        ),
        ("zero-tokens", "all evals ran, but one of them used no tokens, so the runner discards the whole result"),
        ("rate-limit", "stopped by the provider's rate limit, so later evals never ran; the runner says: [rate_limit]"),
        ("answer-validation", "a check of the reference answers without a model, so its failures are the eval's; the"),
        ("stuck", "the runner stopped without a message and the run was closed later; the runner says: Run stuck in"),
        ("backend-unhealthy", "stopped in the middle, because the local Convex backend no longer answered, so later"),
        ("pending", None),
        ("running", None),
        ("all-passed", None),
    ],
)
async def test_why_a_run_did_not_complete_is_explained(real_data: Path, state: str, said: str | None) -> None:
    run = await open_snapshot(real_data / "convex-runs-current/odd/states" / state, Links()).run()
    assert (run.status_reason or "")[: len(said or "")] == (said or "")
    assert run.status == {"pending": "running", "running": "running", "all-passed": "completed"}.get(state, "failed")
    assert run.all_passed is (state == "all-passed")


def test_float_counts_become_integers() -> None:
    run = decode_run(summary(totalEvals=66.0, passedCount=50.0, failedCount=16.0), Links())
    assert [str(number) for number in (run.total, run.passed, run.failed)] == ["66", "50", "16"]


def test_trials_of_one_eval_are_numbered_and_duplicates_merged() -> None:
    payload = summary()
    for entry in payload["failedEvals"][:3]:
        entry |= {"name": "same", "evalPath": "000-fundamentals/same"}
    payload["failedEvals"].append(payload["failedEvals"][0])
    run = decode_run(payload, Links())
    assert len(run.failures) == 10, "an entry listed twice is one eval"
    assert [eval.path for eval in run.failures[:3]] == [f"000-fundamentals/same#{n}" for n in (1, 2, 3)]
    assert run.failures[3].path == "000-fundamentals/003-task"


def test_eval_names_are_printable_and_bounded() -> None:
    payload = summary()
    payload["failedEvals"][0] |= {"name": "a\nb\x1b[31m" + "c" * 4000, "category": "x\r\ny"}
    first = decode_run(payload, Links()).failures[0]
    assert first.path.isprintable()
    assert len(first.name) == 200


@pytest.mark.parametrize("run_id", ["", "a\nb", "x" * 300, 7, None])
def test_invalid_run_id_raises_data_error(run_id: object) -> None:
    payload = summary()
    payload["run"]["_id"] = run_id
    with pytest.raises(DataError, match="_id"):
        decode_run(payload, Links())


def test_invalid_unicode_is_replaced() -> None:
    value: Any = clean_json(parse_json(b'{"\\ud800": ["a\\u0000b", "\\udc00", "\\ud83d\\ude00", "\xff"]}'))
    assert json.dumps(value, ensure_ascii=False).encode()
    assert value == {"\ufffd": ["a\ufffdb", "\ufffd", "\U0001f600", "\ufffd"]}


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * 200_000, b"1" * 10_000])
def test_unreadable_json_raises_data_error(raw: bytes) -> None:
    with pytest.raises(DataError):
        parse_json(raw)


def test_links_percent_encode_their_parts() -> None:
    links = Links(visualizer="https://v.example/")
    assert links.eval("r", "a b", "c/d)", "e") == "https://v.example/experiment/a%20b/run/r/c%2Fd%29/e"


async def odd(data: Path, name: str) -> dict[str, Evidence]:
    """Return the evidence of a folder of odd payloads by eval name."""
    source = open_snapshot(data / "convex-runs-current/odd" / name, Links())
    decoded = [await source.evidence(eval) for eval in (await source.run()).failures]
    return {one.eval.name: one for one in decoded if isinstance(one, Evidence)}


async def test_incomplete_step_rows_are_completed_from_reason_and_log(real_data: Path) -> None:
    decoded = await odd(real_data, "steps")
    assert len(decoded) == 7
    full = ["filesystem", "install", "deploy", "tsc", "eslint", "tests"]
    for name, one in decoded.items():
        assert [step.name for step in one.steps] == full, name
        assert one.eval.failed_step == ("tsc" if name == "013-async_iterator_filter" else "eslint"), name
        error = next(step.error for step in one.steps if step.name == one.eval.failed_step)
        assert error == one.eval.reason, name
        assert (error or "").startswith(("Error: Failed to lint code:", "Error: Failed to typecheck code:")), name
    assert decoded["008-group_by"].steps == tuple(
        step.model_copy(update={"error": step.error and step.error.replace("009-text_search", "008-group_by")})
        for step in decoded["009-text_search"].steps
    )
    assert decoded["014-select_distinct"].steps[-1].status == "skipped"


async def test_real_payloads_with_reordered_keys_give_the_same_evidence(real_data: Path) -> None:
    (one,), (other,) = [(await odd(real_data, f"keys-{name}")).values() for name in ("sorted", "unsorted")]
    assert (one.digest, summarise_evidence(one)) == (other.digest, summarise_evidence(other))


async def test_real_runs_are_read_without_unreadable_evals(real_data: Path) -> None:
    decoded = []
    for folder in sorted((real_data / "convex-runs").iterdir()):
        source = open_snapshot(folder, Links())
        run = await source.run()
        decoded += [await source.evidence(eval) for eval in run.failures]
    read = [one for one in decoded if isinstance(one, Evidence)]
    assert len(read) == len(decoded) == 146
    assert sum(bool(one.of("log")) for one in read) == 74
    assert sum(bool(one.of("known_gaps")) for one in read) == 62
    assert all(len(one.of("task")) == 1 for one in read)

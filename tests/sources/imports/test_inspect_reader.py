"""Our reader of Inspect logs against the format's own, on the real log and on one that today's version wrote."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError, UsageError
from evalscribe.sources.imports import Wish, open_records
from evalscribe.sources.imports.values import safe

inspect_log = pytest.importorskip("inspect_ai.log")


def written(folder: Path) -> Path:
    """Packed with Zstandard, as the package does now."""
    from inspect_ai.dataset import Sample  # noqa: F401 (fills the registry that validation needs)
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
    from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser
    from inspect_ai.scorer import Score
    from inspect_ai.tool import ToolCall, ToolCallError

    calls = [ToolCall(id="c", function="run", arguments={"cmd": "ls"})]
    samples = [
        EvalSample(
            id=name,
            epoch=epoch,
            input="Say hello",
            target=["hello", "hi"],
            messages=[
                ChatMessageUser(content="Say hello"),
                ChatMessageAssistant(content="let me look", tool_calls=calls),
                ChatMessageTool(
                    content="", tool_call_id="c", function="run", error=ToolCallError("timeout", "too slow")
                ),
            ],
            scores={"match": Score(value=value, answer="x", explanation="because"), "cost": Score(value=float("nan"))},
        )
        for name, value in (("a", "C"), ("b", {"x": 1, "y": 0}))
        for epoch in (1, 2)
    ]
    spec = EvalSpec(
        created="2026-01-02T03:04:05+00:00",
        task="made",
        dataset=EvalDataset(sample_ids=["a", "b"]),
        model="p/m",
        config=EvalConfig(epochs=2),
    )
    path = folder / "made.eval"
    write_eval_log(EvalLog(status="success", eval=spec, samples=samples), str(path))
    return path


def same(path: Path, read_file: Callable[..., Any]) -> int:
    """How many samples were compared."""
    read = read_file(path)
    header = inspect_log.read_eval_log(str(path), header_only=True)
    assert "/".join([read.run.provider, read.run.model]) == header.eval.model
    theirs = list(inspect_log.read_eval_log_samples(str(path), all_samples_required=False, resolve_attachments=True))
    ours = {(one.metadata["sample_id"], one.metadata["epoch"]): one for one in read.records}
    for sample in theirs:
        record = ours.pop((sample.id, sample.epoch))
        messages = record.transcripts[0].messages
        assert [(one.role, one.content) for one in messages] == [(one.role, safe(one.text)) for one in sample.messages]
        assert [len(getattr(one, "tool_calls", None) or ()) for one in messages] == [
            len(getattr(one, "tool_calls", None) or ()) for one in sample.messages
        ]
        for name, score in sample.scores.items():
            assert json.dumps(record.metadata["scorers"][name]["answer"] if score.answer else None) == json.dumps(
                safe(score.answer)
            )
    assert not ours
    return len(theirs)


def test_the_real_log_is_read_the_same(real_data: Path, read_file: Callable[..., Any]) -> None:
    assert same(real_data / "inspect" / "log.eval", read_file) == 15


def test_a_log_of_today_is_read_the_same(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    path = written(tmp_path)
    assert same(path, read_file) == 4
    records = read_file(path).records
    assert [(one.eval.path, one.eval.status, one.metadata["scores"]) for one in records] == [
        ("made/a#1", "passed", {"match": 1}),
        ("made/a#2", "passed", {"match": 1}),
        ("made/b#1", "failed", {"match.x": 1, "match.y": 0}),
        ("made/b#2", "failed", {"match.x": 1, "match.y": 0}),
    ]
    assert records[0].transcripts[0].messages[2].error == "timeout: too slow"
    torn = tmp_path / "torn.eval"
    torn.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found: list[object] = []
    with pytest.raises(DataError, match="is cut off"):
        found += open_records(torn, Wish()).read()
    assert 1 < len(found) < 5


def test_without_the_packages_that_unpack_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError, match=r"pip install 'evalscribe\[inspect\]'"):
        list(open_records(path, Wish()).read())

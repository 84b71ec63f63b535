"""Comparison of our reader of Inspect logs with Inspect's own reader.

The logs are a real one and one that a current version of Inspect wrote. `inspect_record.py` recorded what Inspect's
own reader reads from them.
"""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records

RECORDED = Path(__file__).parent / "inspect_logs"
TODAY = RECORDED / "made.eval"
"""Log compressed with Zstandard."""


CLEANED = [(50, 16), (72, 12)]
"""Sample and message numbers of the real log where our text differs: a redacted password and an invalid character."""


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def as_recorded(run: Run, records: list[Record]) -> dict[str, Any]:
    """Return our result in the form of the recorded one."""
    samples = [
        {
            "id": one.metadata["sample_id"],
            "epoch": one.metadata["epoch"],
            "messages": [
                [message.role, digest(message.content), len(getattr(message, "tool_calls", None) or ())]
                for message in one.transcripts[0].messages
            ],
            "answers": {
                name: digest(score["answer"]) for name, score in one.metadata["scorers"].items() if "answer" in score
            },
        }
        for one in records
    ]
    return {"model": f"{run.provider}/{run.model}", "samples": samples}


def in_order(read: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(read["samples"], key=lambda one: (one["id"], one["epoch"]))


@pytest.mark.parametrize("name", ["made", "real"])
def test_reader_agrees_with_the_reader_of_inspect(
    name: str, request: pytest.FixtureRequest, read_file: Callable[..., Any]
) -> None:
    path = TODAY if name == "made" else request.getfixturevalue("real_data") / "inspect" / "log.eval"
    read = read_file(path)
    ours, theirs = as_recorded(read.run, read.records), json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
    assert len(theirs["samples"]) == {"made": 4, "real": 15}[name]
    assert ours["model"] == theirs["model"]
    differ = [
        (one["id"], number)
        for one, other in zip(in_order(ours), in_order(theirs), strict=True)
        for number, pair in enumerate(zip(one.pop("messages"), other.pop("messages"), strict=True))
        if pair[0] != pair[1]
    ]
    assert in_order(ours) == in_order(theirs)
    assert differ == ([] if name == "made" else CLEANED)


def test_zstandard_log_is_read(read_file: Callable[..., Any]) -> None:
    records = read_file(TODAY).records
    assert [(one.eval.path, one.eval.status, one.metadata["scores"]) for one in records] == [
        ("made/a#1", "passed", {"match": 1}),
        ("made/a#2", "passed", {"match": 1}),
        ("made/b#1", "failed", {"match.x": 1, "match.y": 0}),
        ("made/b#2", "failed", {"match.x": 1, "match.y": 0}),
    ]
    assert records[0].transcripts[0].messages[2].error == "timeout: too slow"


def test_truncated_zstandard_log_gives_some_records_and_raises(tmp_path: Path) -> None:
    torn = tmp_path / "torn.eval"
    torn.write_bytes(TODAY.read_bytes()[: TODAY.stat().st_size // 2])
    entries: list[object] = []
    with pytest.raises(DataError, match="is truncated"):
        entries += open_records(torn, RunOverrides()).read()
    assert 1 < len(entries) < 5


def test_damaged_zstandard_member_is_left_out(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    whole = TODAY.read_bytes()
    damaged = tmp_path / "damaged.eval"
    at = whole.index(b"samples/a_epoch_2.json") + 60
    damaged.write_bytes(whole[:at] + bytes(byte ^ 0xFF for byte in whole[at : at + 20]) + whole[at + 20 :])
    read = read_file(damaged)
    assert [one.eval.path for one in read.records] == ["made/a#1", "made/b#1", "made/b#2"]
    assert any("damaged (first: samples/a_epoch_2.json)" in what for what in read.left_out)

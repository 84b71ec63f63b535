"""Import of malformed, unsupported and unreadable files."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import AccessError, DataError, EvalscribeError, NotFoundError
from evalscribe.sources import streams
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.files import FileReader
from evalscribe.sources.formats import open_records, run_files
from evalscribe.sources.recognition import FolderStart
from evalscribe.sources.streams import JsonStream
from evalscribe.text import NAME_LIMIT

ENTRY = {"task_id": 1, "reward": 1.0, "info": {}, "traj": [{"role": "user", "content": "hi"}], "trial": 0}


def values(path: Path, text: str | bytes) -> list[object]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with FileReader(path) as reading:
        return list(JsonStream(reading, path.name).elements())


@pytest.fixture
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    read = FileReader.read
    monkeypatch.setattr(FileReader, "read", lambda self, size=3: read(self, min(size, 3)))
    monkeypatch.setattr(streams, "CHUNK_BYTES", 3)


@pytest.mark.usefixtures("in_small_pieces")
def test_values_are_complete_when_read_in_small_chunks(tmp_path: Path) -> None:
    expected: list[object] = [12345, -1.5e3, 'é\n😀 \\ "', True, None, {}, [], {"a": [{"b": "c" * 50}]}, "", 7]
    for indent in (None, 1):
        assert values(tmp_path / "x", json.dumps(expected, indent=indent, ensure_ascii=indent is None)) == expected


def test_nonstandard_json_of_python_is_read(tmp_path: Path) -> None:
    text = '[NaN, -Infinity, 1e999, 123456789012345678901234567890, "\\ud800", "a\tb", 1.0]'
    assert values(tmp_path / "x", text) == [
        "NaN",
        "-Infinity",
        "1e999",
        "123456789012345678901234567890",
        "\ud800",
        "a\tb",
        1.0,
    ]


def test_very_long_number_is_read_as_text(tmp_path: Path) -> None:
    assert values(tmp_path / "x", f"[{'9' * 10_000}]") == ["9" * 10_000]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("[1, 2", "expected ',' or ']' at line 1, column 6", id="cut off"),
        pytest.param("[1, 2 3]", "expected ',' or ']' at line 1, column 7", id="no comma"),
        pytest.param('["a', "invalid JSON: Unterminated string starting at at line 1, column 2", id="open text"),
        pytest.param("[1, nope]", "invalid JSON: Expecting value at line 1, column 5", id="no value"),
        pytest.param("[" * 100_000, "JSON nested too deeply at line 1, column 2", id="deep"),
    ],
)
def test_json_error_names_line_and_column(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataError, match=r"^x: ") as error:
        values(tmp_path / "x", text)
    assert str(error.value) == f"x: {told}"


def test_reading_stops_at_invalid_or_oversized_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_text('[{"a": nope, "b": "' + "x" * 2_000_000 + '"}]')
    with FileReader(path) as reading, pytest.raises(DataError, match="line 1, column 8"):
        list(JsonStream(reading, "x").elements())
    monkeypatch.setattr(streams, "MAX_VALUE_CHARS", 1_000_000)
    path.write_text('["' + "x" * 2_000_000 + '"]')
    with FileReader(path) as reading, pytest.raises(DataError, match="a value is longer"):
        list(JsonStream(reading, "x").elements())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "given.json is empty$", id="empty"),
        pytest.param(b" \n\xef\xbb\xbf", "contains no runs: it is neither", id="nearly empty"),
        pytest.param(
            b"\x00\xff\xfe\x80 binary", "contains no runs: it is binary. `evalscribe import --help` lists", id="binary"
        ),
        pytest.param(b"task,points\na,1\n", "as CSV it has none of the columns .* first line: 'task,points'", id="csv"),
        pytest.param(b"[]", "contains no runs: it is an empty list", id="empty list"),
        pytest.param(b'{"a": 1}', "contains no runs: its keys are `a`", id="other object"),
        pytest.param(
            b'[{"task_id": 1, "traj_": []}]', "It resembles tau-bench .`task_id`; without `reward`", id="nearly"
        ),
        pytest.param(b'{"key": 1, "input": 2}\n', r"It resembles a dataset .`evalscribe datasets upload`", id="items"),
        pytest.param(b'{\n "a": 1,\n "b": nope}', "invalid JSON: Expecting value at line 3, column 7", id="bad JSON"),
        pytest.param(b"[1, 2]", "it is a list of numbers, not of objects", id="other list"),
        pytest.param(b"[" * 100_000, "JSON nested too deeply", id="deep"),
        pytest.param(b"PK\x03\x04 and then nothing", "is a damaged zip file", id="no zip"),
        pytest.param(b"\x1f\x8b and then nothing", "cannot be decompressed", id="no gzip"),
        pytest.param(gzip.compress(b"[" + b" " * 9999)[:-12], "ends in the middle", id="torn gzip"),
        pytest.param(
            b'{"run": {"_id": "r"}, "failedEvals": []}',
            "is part of a snapshot: give the folder of the snapshot",
            id="snapshot",
        ),
    ],
)
def test_error_message_says_why_a_file_contains_no_runs(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "given.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=told) as error:
        list(open_records(path, RunOverrides()).read())
    assert str(path) in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_mark_selects_the_encoding(tmp_path: Path, read_file: Callable[..., Any], encoding: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(json.dumps([{**ENTRY, "note": "é"}], ensure_ascii=False).encode(encoding))
    assert read_file(path).records[0].metadata["note"] == "é"


def test_invalid_utf_8_nul_and_surrogates_are_replaced(tmp_path: Path, read_file: Callable[..., Any]) -> None:
    path = tmp_path / "x"
    path.write_bytes(json.dumps([ENTRY]).encode()[:-2] + b', "a": "\xff", "b": "x\\u0000", "c": "\\ud800"}]')
    metadata = read_file(path).records[0].metadata
    assert (metadata["a"], metadata["b"], metadata["c"]) == ("\ufffd", "x\ufffd", "\ufffd")


def test_paths_without_a_readable_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "locked").write_text("[]")
    cases: list[tuple[Path, type[EvalscribeError], str]] = [
        (tmp_path / "pipe", DataError, "is not a regular file"),
        (tmp_path, DataError, "is a folder of no known format"),
        (tmp_path / "none", NotFoundError, "file .* not found"),
        (tmp_path / ("n" * 4000), DataError, "cannot be read"),
        (tmp_path / "a\x00b", DataError, "cannot be a file"),
    ]
    for path, kind, message in cases:
        with pytest.raises(kind, match=message):
            open_records(path, RunOverrides())


def test_unreadable_file_or_folder_raises_access_error(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    (folder / "x").write_text("[]")
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (folder / "x").chmod(0)
    with pytest.raises(AccessError, match="no permission to read"):
        open_records(folder / "x", RunOverrides())
    folder.chmod(0)
    with pytest.raises(AccessError, match="no permission to read"):
        run_files(folder)
    folder.chmod(0o700)


def test_long_names_are_cut_and_path_like_task_ids_are_escaped(read_value: Callable[..., Any]) -> None:
    long, path = (read_value([{**ENTRY, "task_id": name}]).records[0] for name in ("x" * 4096, "../../etc/passwd"))
    assert (len(long.eval.name) <= NAME_LIMIT + 5, len(long.eval.id) < 200) == (True, True)
    assert "/" not in path.eval.id


def test_run_files_skip_hidden_files_and_links_and_keep_snapshots_whole(tmp_path: Path) -> None:
    for name in ("b.json", "a/c.json", "a/.hidden", "snap/failed_evals.json", "snap/debug/x.json", ".git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert [str(path.relative_to(tmp_path)) for path in run_files(tmp_path)] == ["a/c.json", "b.json", "snap"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="has no files"):
        run_files(tmp_path / "empty")


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"a": 1', b"[" * 100_000, b'{"a": ' + b"[" * 100_000, b"\x1f\x8bxxxx", b"\xff"]
)
def test_damaged_file_in_a_folder_has_no_keys(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert set(FolderStart(tmp_path).top_of("x.json")) <= {"a"}


def test_file_in_a_folder_that_is_no_regular_file_has_no_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").touch()
    (tmp_path / "target").write_text('{"a": 1}')
    (tmp_path / "link").symlink_to("target")
    folder = FolderStart(tmp_path)
    assert folder.top_of("target") == {"a": 1}
    assert "gone" in folder.names
    (tmp_path / "gone").unlink()
    assert [folder.top_of(name) for name in ("pipe", "gone", "link", "none")] == [{}, {}, {}, {}]


def test_defect_of_the_reader_is_raised_for_a_file_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')
    monkeypatch.delattr(JsonStream, "names")
    with pytest.raises(AttributeError):
        FolderStart(tmp_path).top_of("x.json")

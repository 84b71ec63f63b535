"""Reading of item files, and the problems reported for invalid lines and rows."""

import gzip
import json
from pathlib import Path

import pytest

from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.model.dataset import Item
from evalscribe.sources.items import MAX_ITEM_BYTES, MAX_PROBLEMS, CsvColumns, ItemFile, open_csv, open_items


def _read(tmp_path: Path, content: bytes | str) -> tuple[list[Item], ItemFile]:
    path = tmp_path / "f.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    rows = open_items(path, "f.jsonl")
    return list(rows.read()), rows


def _table(tmp_path: Path, content: bytes | str, *inputs: str, **columns: object) -> tuple[list[Item], ItemFile]:
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    rows = open_csv(path, "t.csv", CsvColumns(input=inputs or ("q",), **columns))  # type: ignore[arg-type]
    return list(rows.read()), rows


def test_byte_order_mark_crlf_and_empty_lines_are_ignored(tmp_path: Path) -> None:
    items, rows = _read(tmp_path, b'\xef\xbb\xbf{"input": 1}\r\n\r\n  \n{"input": 2}')
    assert [(item.input, item.source) for item in items] == [
        (1, {"file": "f.jsonl", "line": 1}),
        (2, {"file": "f.jsonl", "line": 4}),
    ]
    assert not rows.problems


def test_bad_lines_are_reported_and_the_others_are_read(tmp_path: Path) -> None:
    deep = '{"input": ' + "[" * 10_000 + "]" * 10_000 + "}"
    lines = ['{"input": 1}', '{"input": NaN}', deep, '{"input": "\\ud800"}', '{"input": {"a": 1, "a": 2}}', "x", "[1]"]
    content = "\n".join(lines).encode() + b'\n{"input": "\xff"}\n{"input": 2}\n'
    items, rows = _read(tmp_path, content)
    assert [item.input for item in items] == [1, 2]
    assert rows.bad == len(rows.problems) == 7
    assert [one.partition(": ")[0] for one in rows.problems] == [f"f.jsonl:{number}" for number in range(2, 9)]
    assert rows.problems[0] == "f.jsonl:2: NaN is not valid JSON"
    assert rows.problems[-1] == "f.jsonl:8: not UTF-8: byte 0xff at 12"


def test_lines_over_the_size_limit_are_reported(tmp_path: Path) -> None:
    five = json.dumps({"input": "x" * 5_000_000})
    over = json.dumps({"input": "x" * MAX_ITEM_BYTES})
    items, rows = _read(tmp_path, f'{five}\n{over}\n{{"input": 2}}\n{over}')
    assert [len(str(item.input)) for item in items] == [5_000_000, 1]
    assert rows.problems == ["f.jsonl:2: longer than 16 MB", "f.jsonl:4: longer than 16 MB"]


def test_duplicate_key_is_reported_with_both_lines(tmp_path: Path) -> None:
    items, rows = _read(tmp_path, '{"key": "a", "input": 1}\n\n{"key": "a", "input": 2}\n')
    assert [item.input for item in items] == [1]
    assert rows.problems == ["f.jsonl:3: the key 'a' is also used by line 1"]


def test_equal_items_without_keys_get_numbered_keys(tmp_path: Path) -> None:
    items, _ = _read(tmp_path, '{"input": 1}\n' * 3 + '{"input": 2}\n')
    first = items[0].key
    assert [item.key for item in items[:3]] == [first, f"{first}-2", f"{first}-3"]
    assert items[3].key != first
    many, _ = _read(tmp_path, '{"input": 1}\n' * 3000)
    assert many[-1].key == f"{first}-3000"


def test_all_problems_are_counted_but_only_the_first_are_listed(tmp_path: Path) -> None:
    _, rows = _read(tmp_path, "x\n" * 500)
    assert (rows.bad, len(rows.problems)) == (500, MAX_PROBLEMS)


def test_json_list_is_read_plain_and_gzipped(tmp_path: Path) -> None:
    listed = '\n[{"input": 1}, {"inptu": 2},\n {"input": {"a": 1, "a": 2}}, {"input": NaN}, {"input": 5}]'
    for content in (listed.encode(), gzip.compress(listed.encode())):
        items, rows = _read(tmp_path, content)
        assert [(item.input, item.source["item"]) for item in items] == [(1, 1), (5, 5)]
        assert [one.partition(": ")[2][:6] for one in rows.problems] == ["item 2", "item 3", "item 4"]


@pytest.mark.parametrize("content", [b'[{"input": 1}, {"input": "\xff"}]', b'[{"input": 1}, {"input": ', b"[1] x"])
def test_broken_json_list_raises_data_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"f\.jsonl"):
        _read(tmp_path, content)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"^file .* not found$"):
        open_items(tmp_path / "none", "none")
    with pytest.raises(DataError, match="not a regular file"):
        open_items(tmp_path, "folder")


def test_csv_columns_become_item_fields(tmp_path: Path) -> None:
    table = (
        "\ufeffq,who,want,k,s,c,t,ev,run\r\n"
        '"what, where?\nand why",me,,one,dev,c1,"a, b","[{""role"": ""user""}]",r9\r\n'
        '2,{},"{""x"": 1}",,,,"[""c""]",,\r\n'
    )
    columns = {
        "expected": "want",
        "metadata": ("who",),
        "key": "k",
        "split": "s",
        "cluster": "c",
        "tags": "t",
        "events": "ev",
        "source_run_id": "run",
    }
    (first, second), rows = _table(tmp_path, table, "q", **columns)
    assert not rows.problems
    assert first == Item(
        key="one",
        input="what, where?\nand why",
        metadata={"who": "me", "tags": ["a", "b"]},
        split="dev",
        cluster="c1",
        events=({"role": "user"},),
        source={"file": "t.csv", "line": 2, "run": "r9"},
    )
    assert (second.input, second.expected_output, second.metadata) == ("2", '{"x": 1}', {"who": "{}", "tags": ["c"]})
    assert second.source == {"file": "t.csv", "line": 4}
    (_, as_json), _ = _table(tmp_path, table, "q", "who", json_cells=True, **columns)
    assert (as_json.input, as_json.expected_output) == ({"q": 2, "who": {}}, {"x": 1})


def test_csv_without_header_uses_column_numbers_and_delimiter(tmp_path: Path) -> None:
    items, _ = _table(tmp_path, "a;b\nc;d\n", "1", expected="2", delimiter=";", header=False)
    assert [(item.input, item.expected_output) for item in items] == [("a", "b"), ("c", "d")]


def test_bad_csv_rows_are_reported_with_their_first_line(tmp_path: Path) -> None:
    table = b'q,ev\n"a\nb",\nc\nd,x\n"e"f,\n\xff,\ng,[]\n"h,\n'
    items, rows = _table(tmp_path, table, events="ev")
    assert [item.input for item in items] == ["a\nb", "g"]
    assert [one.partition(": ")[0] for one in rows.problems] == [f"t.csv:{number}" for number in (4, 5, 6, 7, 9)]
    assert rows.problems[0] == "t.csv:4: has 1 cell, but the header has 2"
    assert "never closed" in rows.problems[-1]


@pytest.mark.parametrize(("header", "said"), [("a,b", "does not exist; t.csv has the columns a, b"), ("q,q", "twice")])
def test_missing_or_duplicate_csv_column_raises_usage_error(tmp_path: Path, header: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"`input_column` 'q' .*{said}"):
        _table(tmp_path, f"{header}\n1,2\n")


def test_malformed_csv_header_raises_data_error_and_empty_file_has_no_items(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.csv:1: not CSV"):
        _table(tmp_path, '"q"x\n1\n')
    assert _table(tmp_path, "")[0] == []

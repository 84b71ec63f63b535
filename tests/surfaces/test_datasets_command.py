"""`evalscribe datasets` commands, run in this process."""

import gzip
import io
import json
import stat
import sys
from contextlib import closing

import pytest

from evalscribe.model.dataset import Item
from evalscribe.model.evidence import Document, Evidence, UnreadableEvidence
from evalscribe.model.run import Eval, Run
from evalscribe.store.analyses import open_store
from support.command import InProcessCommand
from support.stored_experiment import StoredExperiment

LINES = '{"key": "a", "input": {"q": 1}, "expected_output": "x", "split": "dev"}\n{"input": "hi"}\n{"input": "hi"}\n'


@pytest.fixture
def tickets(inside: InProcessCommand) -> InProcessCommand:
    """A workspace with a published dataset of three items."""
    (inside.folder / "items.jsonl").write_text(LINES)
    inside.run("datasets", "create", "--name", "tickets", "--description", "What people ask")
    inside.run("datasets", "upload", "tickets", "items.jsonl")
    inside.run("datasets", "publish", "tickets")
    return inside


def test_only_ids_are_printed_on_standard_output(inside: InProcessCommand) -> None:
    created = inside.run("datasets", "create", "--name", "tickets")
    assert created.out.strip().startswith("ds-")
    assert created.out.count("\n") == 1
    assert inside.run("datasets", "add-example", created.out.strip(), "--input", "hi", "--key", "one").out == "one\n"
    assert "stored as text" in inside.run("datasets", "add-example", "tickets", "--input", "{name}", "--key", "one").err
    first = inside.run("datasets", "publish", "tickets", "--description", "first")
    again = inside.run("datasets", "publish", "tickets")
    assert first.out == again.out
    assert first.out.startswith("dsv-")
    assert ("Version 1 of tickets: 1 item." in first.err, "Unchanged since version 1" in again.err) == (True, True)
    as_json = json.loads(inside.run("datasets", "publish", "tickets", "--format", "json").out)
    assert (as_json["number"], as_json["description"]) == (1, "first")


def test_upload_reports_invalid_lines_and_hidden_secrets(inside: InProcessCommand) -> None:
    inside.run("datasets", "create", "--name", "tickets")
    secret = "sk-ant-api03-" + "Ab1" * 30
    (inside.folder / "f.jsonl").write_text(f'{LINES}{{"inptu": 1}}\n{{"input": "{secret}"}}\n')
    done = inside.run("datasets", "upload", "tickets", "f.jsonl")
    assert done.out == "tickets: 4 items of f.jsonl: 4 new; 1 line left out. 1 secret hidden.\n"
    assert done.err.startswith("f.jsonl:4: `inptu` is unknown; fields: key, input, ")
    assert "to use another field as the input: --map input=inptu" in done.err
    assert secret not in inside.run("datasets", "examples", "list", "tickets", "--include-payload").out
    result = json.loads(inside.run("datasets", "upload", "tickets", "f.jsonl", "--format", "json").out)
    assert (result["added"], result["skipped"]) == ({"new": 0, "changed": 0, "same": 4}, 1)
    none = inside.run("datasets", "upload", "tickets", "f.jsonl", "--no-partial", code=65)
    assert "nothing was stored" in none.err


def test_upload_reads_plain_or_gzipped_standard_input(
    inside: InProcessCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.run("datasets", "create", "--name", "tickets")
    for content in (LINES.encode(), gzip.compress(LINES.encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert "3 items of stdin" in inside.run("datasets", "upload", "tickets", "-", "--no-partial").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"q\nwhy\n")))
    assert "1 item of stdin" in inside.run("datasets", "upload-csv", "tickets", "-", "--input-column", "q").out


def test_upload_csv_maps_columns_to_item_fields(inside: InProcessCommand) -> None:
    inside.run("datasets", "create", "--name", "tickets")
    (inside.folder / "t.tsv").write_text("q\twant\twhy\n1\t2\tx\n3\t\ty\n")
    wanted = ("datasets", "upload-csv", "tickets", "t.tsv", "--input-column", "q", "--delimiter", "tab")
    more = ("--expected-column", "want", "--metadata-column", "why", "--json-columns")
    assert "2 new" in inside.run(*wanted, *more).out
    items = [json.loads(line) for line in _jsonl(inside, "examples", "list", "tickets", "--include-payload")]
    assert [(item["input"], item["expected_output"], item["metadata"]) for item in items] == [
        (1, 2, {"why": "x"}),
        (3, None, {"why": "y"}),
    ]
    assert "has the columns q, want, why" in inside.run(*wanted, "--key-column", "id", code=64).err
    assert "--delimiter" in inside.run(*wanted[:-1], "ab", code=64).err
    assert "--input-column" in inside.run("datasets", "upload-csv", "tickets", "t.tsv", code=64).err


def _jsonl(inside: InProcessCommand, *command: str) -> list[str]:
    return inside.run("datasets", *command, "--format", "jsonl").out.splitlines()


def test_lists_are_printed_as_tables_or_json(tickets: InProcessCommand) -> None:
    table = tickets.run("datasets", "list").out
    assert table.splitlines()[0].split() == ["id", "name", "draft", "versions", "latest", "created"]
    assert "tickets" in table
    assert json.loads(tickets.run("datasets", "list", "--search", "PEOPLE", "--format", "json").out)[0]["versions"] == 1
    assert json.loads(tickets.run("datasets", "list", "--search", "nope", "--format", "json").out) == []
    assert tickets.run("datasets", "list", "--search", "nope").out.startswith("No dataset has 'nope' in its name")
    shown = tickets.run("datasets", "show", "tickets").out
    assert "Draft: 3 items, as version 1; 1 with an expected output" in shown
    assert json.loads(tickets.run("datasets", "show", "tickets", "--format", "json").out)["splits"] == {"dev": 1}
    assert len(_jsonl(tickets, "versions", "list", "tickets")) == 1
    assert [json.loads(one)["key"] for one in _jsonl(tickets, "examples", "list", "tickets", "--split", "dev")] == ["a"]
    other = tickets.run("datasets", "examples", "list", "tickets", "--split", "test", code=64)
    assert "--split 'test': the split has no items; splits: dev" in other.err
    assert "xml" in tickets.run("datasets", "list", "--format", "xml", code=64).err


def test_dedup_previews_and_removes_duplicates(tickets: InProcessCommand) -> None:
    assert "1 item can be removed from 1 group" in tickets.run("datasets", "dedup", "preview", "tickets").err
    (group,) = json.loads(tickets.run("datasets", "dedup", "preview", "tickets", "--format", "json").out)
    assert group["others"][0]["key"] == group["kept"]["key"] + "-2"
    tickets.run("datasets", "dedup", "apply", "tickets", "--remove-item-id", "a", code=64)
    assert "1 duplicate removed" in tickets.run("datasets", "dedup", "apply", "tickets").out
    assert _jsonl(tickets, "dedup", "apply", "tickets") == ['{"dataset":"tickets","items":0}']
    assert "-2" in tickets.run("datasets", "examples", "list", "tickets", "--version", "1").out


def test_versions_are_compared_restored_and_exported(tickets: InProcessCommand) -> None:
    tickets.run("datasets", "examples", "remove", "tickets", "a")
    tickets.run("datasets", "add-example", "tickets", "--input", "new", "--key", "b", "--cluster", "c")
    difference = tickets.run("datasets", "versions", "compare", "tickets", "1", "draft").out
    assert "1 added, 1 removed, 0 changed\n  + b\n  - a\n" in difference
    assert "3 items, 3 before" in tickets.run("datasets", "versions", "restore-draft", "tickets", "1").out
    assert "The same items" in tickets.run("datasets", "versions", "compare", "tickets", "latest", "draft").out
    plain = tickets.run("datasets", "versions", "export", "tickets", "1").out
    packed = tickets.folder / "v1.jsonl.gz"
    tickets.run("datasets", "versions", "export", "tickets", "1", "-o", packed)
    assert gzip.decompress(packed.read_bytes()).decode() == plain
    packed.chmod(0o640)
    tickets.run("datasets", "versions", "export", "tickets", "1", "-o", packed)
    assert stat.S_IMODE(packed.stat().st_mode) == 0o640
    assert [path.name for path in tickets.folder.iterdir() if path.name.startswith(".part-")] == []
    tickets.run("datasets", "create", "--name", "copy")
    tickets.run("datasets", "upload", "copy", packed)
    tickets.run("datasets", "publish", "copy")
    assert tickets.run("datasets", "versions", "export", "copy", "latest").out == plain
    assert tickets.run("datasets", "versions", "export", "tickets", "1", "--format", "csv").out.startswith("key,input,")


def test_split_requires_fractions_that_sum_to_1(tickets: InProcessCommand) -> None:
    done = tickets.run("datasets", "split", "tickets", "--train", "0.5", "--test", "0.5", "--seed", "3").out
    assert done.startswith("tickets: train ")
    assert "sum to 1" in tickets.run("datasets", "split", "tickets", "--train", "0.5", code=64).err


def test_add_run_creates_items_from_an_imported_run(inside: InProcessCommand) -> None:
    inside.run("import", "sample")
    inside.run("datasets", "create", "--name", "room")
    assert "12 items of run room-desk-c1: 12 new" in inside.run("datasets", "add-run", "room", "room-desk-c1").out
    items = {item.key: item for item in map(Item.model_validate_json, _payloads(inside))}
    first = items["room-desk/book-small"]
    assert first.input == "We are 3 people and need a room on Thu 10."
    assert first.source == {
        "run": "room-desk-c1",
        "eval": "room-desk/book-small#1",
        "eval_id": "room-desk-c1-book-small-1",
        "status": "failed",
    }
    assert "Fir" in json.dumps(first.expected_output), "of a failed one what was expected, not what it answered"
    assert [event["role"] for event in first.events][:3] == ["system", "user", "assistant"]
    passed = next(item for item in items.values() if item.source["status"] == "passed")
    assert passed.expected_output == passed.events[-1]["content"]
    one = ("datasets", "add-run", "room", "room-desk-c1", "--eval", "book-small#2", "--expected-output", '"Fir"')
    assert "1 changed" in inside.run(*one[:4], "--eval", "room-desk/book-small#2", *one[6:]).out
    assert json.loads(_payloads(inside)[0])["expected_output"] == "Fir"
    assert "has no eval 'nope'" in inside.run(*one[:4], "--eval", "nope", code=66).err
    assert "name that eval with --eval" in inside.run(*one[:4], *one[6:], code=64).err
    assert "run 'nowhere' not found" in inside.run("datasets", "add-run", "room", "nowhere", code=66).err


def _payloads(inside: InProcessCommand) -> list[str]:
    return _jsonl(inside, "examples", "list", "room", "--include-payload")


def test_add_run_creates_items_from_an_analyzed_run(inside: InProcessCommand) -> None:
    inside.run("datasets", "create", "--name", "room")
    evals = [Eval(id=f"e{n}", category="c", name=f"n{n}") for n in range(3)]
    documents = (Document(role="task", path="TASK.md", text="Do it"), Document(role="output", path="a.py", text="done"))
    with closing(open_store(inside.folder / ".evalscribe")) as store:
        store.put_run(Run(id="abcdef0123", provider="p", model="m", failures=tuple(evals)))
        store.put_evidence("abcdef0123", Evidence(eval=evals[0], documents=documents))
        store.put_evidence("abcdef0123", Evidence(eval=evals[1], documents=documents[1:]))
        store.put_evidence("abcdef0123", UnreadableEvidence(eval=evals[2], reason="gone"))
    done = inside.run("datasets", "add-run", "room", "abcdef", "--failed")
    assert "1 item of run abcdef0123: 1 new." in done.out
    assert "1 item did not pass and got no expected output, because the run has none." in done.err
    assert "2 evals left out, because the run does not contain their input: c/n1, c/n2" in done.err
    item = Item.model_validate_json(_payloads(inside)[0])
    assert (item.key, item.input, item.expected_output) == ("c/n0", "Do it", None)


def test_add_run_creates_items_from_an_experiment_run(inside: InProcessCommand) -> None:
    inside.run("datasets", "create", "--name", "room")
    items = [Item(key=key, input=key.upper(), expected_output="want", split="dev") for key in ("a", "b")]
    experiment = StoredExperiment(inside.folder / ".evalscribe", items)
    run = experiment.run({"a": "pf", "b": "f"}, outputs={"a": {"answer": 1}, "b": "wrong"})
    experiment.close()
    assert "2 new" in inside.run("datasets", "add-run", "room", run.id[:10]).out
    a, b = map(Item.model_validate_json, _payloads(inside))
    assert (a.input, a.expected_output, a.split) == ("A", {"answer": 1}, "dev")
    assert b.expected_output == "want"
    assert set(a.source) == {"run", "eval", "run_item"}
    assert "1 changed" in inside.run("datasets", "add-run", "room", run.id, "--failed", "--eval", "a").out
    assert Item.model_validate_json(_payloads(inside)[0]).expected_output == "want"


def test_invalid_names_and_missing_options_are_refused(tickets: InProcessCommand) -> None:
    assert "available: tickets" in tickets.run("datasets", "show", "nope", code=66).err
    assert "versions: 1 (dsv-" in tickets.run("datasets", "versions", "export", "tickets", "7", code=66).err
    assert "file nope.jsonl not found" in tickets.run("datasets", "upload", "tickets", "nope.jsonl", code=66).err
    assert "already used" in tickets.run("datasets", "create", "--name", "tickets", code=64).err
    assert "--name" in tickets.run("datasets", "create", code=64).err
    tickets.run("datasets", "create", "--name", "empty")
    assert "no items" in tickets.run("datasets", "publish", "empty", code=64).err

"""`evalscribe results` on the command line."""

import json
from contextlib import closing

import pytest

from evalscribe.judging.citations import resolve_citations
from evalscribe.judging.requests import RequestPrompt
from evalscribe.model.result import Result, ResultSet
from evalscribe.model.rubric import Collection
from evalscribe.store.collections import open_collections
from evalscribe.store.results import open_result_sets
from support.command import InProcessCommand
from support.request_records import RUN

WHEN = "2026-11-02T12:00:00.000+00:00"
CITED = resolve_citations("It gave up [T0B3].", RequestPrompt.of(("Why?",), {}).subject).model_dump(mode="json")
ANSWERS = ({"output": "Two\nlines \x1b[2J.", "citations": []}, {"cause": "lied", "why": CITED}, None, None)
ERRORS = (None, None, "overloaded (tried 5 times)", None)


@pytest.fixture
def filled(inside: InProcessCommand) -> InProcessCommand:
    """A collection with a result set of four requests: two answered, one failed, one pending."""
    place = inside.folder / ".evalscribe"
    result_set = ResultSet(id="s1", collection_id="c1", name="why/v1", created_at=WHEN)
    rows = [
        Result(
            id=f"r{n}",
            result_set_id="s1",
            number=n,
            request=RUN.id,
            prompt=("Why?",),
            user_metadata={"task": n},
            model="openai/m",
            output=ANSWERS[n],
            error=ERRORS[n],
            created_at=WHEN,
        )
        for n in range(4)
    ]
    with closing(open_collections(place)) as collection_store, closing(open_result_sets(place)) as sets:
        collection_store.add_collection(Collection(id="c1", name="airline"))
        sets.add(result_set, rows)
    return inside


def test_result_sets_are_listed_with_their_progress(filled: InProcessCommand) -> None:
    assert filled.run("results", "list").out == "why/v1  2 results, 1 error, 1 pending  2026-11-02\n"
    assert filled.run("results", "list", "why", "--collection", "airline").out.startswith("why/v1  ")
    assert filled.run("results", "list", "other").out.startswith("No result sets yet")
    (row,) = json.loads(filled.run("results", "list", "--json").out)
    assert (row["name"], row["result_count"], row["pending_count"]) == ("why/v1", 2, 1)


def test_results_are_shown_with_their_citation_status(filled: InProcessCommand) -> None:
    assert filled.run("results", "show", "why/v1").out == (
        "0  task: 0\n  answer:\n    Two\n    lines [2J.\n  citations: 0 verified, 0 relocated, 0 unverified\n\n"
        "1  task: 1\n  cause: lied\n  why: It gave up [T0B3] (unverified).\n"
        "  citations: 0 verified, 0 relocated, 1 unverified\n\n"
    )
    everything = filled.run("results", "show", "s1", "--all").out
    assert everything.endswith("2  task: 2\n  no answer: overloaded (tried 5 times)\n\n3  task: 3\n  not asked yet\n\n")
    results = json.loads(filled.run("results", "show", "why/v1", "--json").out)
    assert [one["user_metadata"] for one in results] == [{"task": 0}, {"task": 1}]


def test_unknown_result_set_or_collection_is_reported(filled: InProcessCommand) -> None:
    missing = filled.run("results", "show", "why/v2", code=66).err
    assert "result set 'why/v2' not found in collection 'airline'; result sets: why/v1" in missing
    assert "collection 'nowhere' not found" in filled.run("results", "list", "--collection", "nowhere", code=66).err


def test_list_without_a_collection_exits_with_66(inside: InProcessCommand) -> None:
    assert "collection yet" in inside.run("results", "list", code=66).err

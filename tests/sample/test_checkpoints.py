"""The stored collection of two checkpoints matches what the scripted agents do at the desk."""

from collections import Counter

from evalscribe.model.record import Record
from evalscribe.sample import checkpoints_file
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from sample import checkpoints


def test_checkpoints_file_matches_a_new_run_of_the_agents() -> None:
    assert checkpoints.text() == checkpoints_file().read_text("utf-8")


def test_second_checkpoint_improves_booking_and_worsens_moving() -> None:
    passed: dict[str, Counter[str]] = {}
    for one in open_records(checkpoints_file(), RunOverrides()).read():
        if isinstance(one, Record):
            passed.setdefault(one.run_id, Counter())[one.eval.name] += one.eval.status == "passed"
    first, second = passed["room-desk-c1"], passed["room-desk-c2"]
    assert {name for name in first if first[name] == 0 and second[name] == 3} == {"book-small", "book-pair"}
    assert {name for name in first if first[name] == 3 and second[name] == 0} == {
        "move-taken",
        "move-clash",
        "move-full",
    }
    assert {name for name in first if first[name] == second[name] == 0} == {"book-unsaid"}
    assert all(sum(counts.values()) < 36 for counts in passed.values())
    assert any(0 < count < 3 for counts in passed.values() for count in counts.values())

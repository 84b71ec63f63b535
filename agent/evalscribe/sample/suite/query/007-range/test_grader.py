from calendar_query import Event, between

DAY = [Event("close", 17), Event("lunch", 12), Event("open", 9), Event("party", 22)]


def test_earliest_first():
    assert [event.name for event in between(DAY, 8, 13)] == ["open", "lunch"]


def test_whole_day():
    assert [event.name for event in between(DAY, 9, 17)] == ["open", "lunch", "close"]


def test_nothing_in_range():
    assert between(DAY, 1, 2) == []

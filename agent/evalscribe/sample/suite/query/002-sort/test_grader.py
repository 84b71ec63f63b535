from ranking import ranking


def test_highest_first():
    assert ranking({"a": 1, "b": 3, "c": 2}) == ["b", "c", "a"]


def test_ties_are_alphabetical():
    assert ranking({"zoe": 2, "ada": 2, "max": 5}) == ["max", "ada", "zoe"]

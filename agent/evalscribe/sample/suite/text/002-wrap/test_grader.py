from wrap import wrap


def test_fills_lines():
    assert wrap("one two three four", 9) == ["one two", "three", "four"]


def test_long_words_stand_alone():
    assert wrap("a extraordinary b", 5) == ["a", "extraordinary", "b"]


def test_nothing():
    assert wrap("  \n ", 5) == []

from dump import dump


def test_sorted_and_indented():
    assert dump({"b": 1, "a": 2}) == '{\n  "a": 2,\n  "b": 1\n}\n'


def test_letters_stay():
    assert dump("Zoë") == '"Zoë"\n'

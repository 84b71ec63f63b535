from totals import totals


def test_sums_by_name():
    assert totals("name,amount\na,1\nb,2.5\na,3\n") == {"a": 4.0, "b": 2.5}


def test_quoted_names():
    assert totals('name,amount\n"x, y",1\n') == {"x, y": 1.0}

from hello import hello


def test_greets_by_name():
    assert hello("Ada") == "Hello, Ada!"


def test_greets_whoever_is_there():
    assert hello() == "Hello, there!"
    assert hello("   ") == "Hello, there!"

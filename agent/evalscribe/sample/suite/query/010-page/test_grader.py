from paging import page

ITEMS = ["a", "b", "c", "d", "e"]


def test_first_page():
    assert page(ITEMS, 0, 2) == ["a", "b"]


def test_last_page_may_be_short():
    assert page(ITEMS, 2, 2) == ["e"]


def test_page_after_the_last_is_empty():
    assert page(ITEMS, 9, 2) == []

from query import Book, published_in

BOOKS = [Book("b", 1999), Book("a", 1999), Book("c", 2001)]


def test_keeps_the_year_and_the_order():
    assert [book.title for book in published_in(BOOKS, 1999)] == ["b", "a"]


def test_a_year_without_books():
    assert published_in(BOOKS, 2000) == []

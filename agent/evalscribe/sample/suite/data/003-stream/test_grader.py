from itertools import count

from stream import batches


def test_batches():
    assert list(batches("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]


def test_reads_no_further_than_asked():
    numbers = map(str, count())
    next(batches(numbers, 3))
    assert next(numbers) == "3"

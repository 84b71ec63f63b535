"""Long subjects are split: each character is in one part that fits, with its marks and line numbers."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalscribe.judging.long_subjects import LEAST, Part, cut_item, split_items
from evalscribe.judging.prompt_text import estimate_tokens
from evalscribe.judging.subjects import Subject, SubjectItem
from evalscribe.model.result import CitationTarget

ROOM = 300


def item(text: str, *, mark: str = "T0B0", numbered: bool = False, first: int = 1) -> SubjectItem:
    target = CitationTarget(kind="block", item=mark)
    return SubjectItem(mark=mark, about="role: user", text=text, target=target, numbered=numbered, first=first)


def whole(items: list[SubjectItem], cut: list[Part]) -> dict[int, str]:
    """Join the text of each item from its parts."""
    joined: dict[int, str] = {}
    for span in (span for part in cut for span in part):
        joined[span.item] = joined.get(span.item, "") + items[span.item].text[span.start : span.end]
    return joined


TEXTS = st.lists(st.text(alphabet="ab \nä汉", max_size=1500), max_size=8)


@given(TEXTS, st.booleans())
def test_every_character_is_in_one_part_and_every_part_fits(texts: list[str], numbered: bool) -> None:
    items = [item(text, mark=f"T0B{n}", numbered=numbered) for n, text in enumerate(texts)]
    cut = list(split_items(items, ROOM))
    assert whole(items, cut) == dict(enumerate(texts))
    for part in cut:
        shown = Subject.of("s", [cut_item(items, span) for span in part]).text()
        assert estimate_tokens(shown) <= ROOM + LEAST


def test_subject_that_fits_is_one_part_with_unchanged_items() -> None:
    items = [item("one"), item("two", mark="T0B1")]
    (part,) = split_items(items, ROOM)
    assert [cut_item(items, span) for span in part] == items


def test_long_document_is_cut_between_lines_and_keeps_line_numbers() -> None:
    items = [item("\n".join(f"line {n}" for n in range(1, 501)), mark="output a.py", numbered=True)]
    pieces = [cut_item(items, span) for part in split_items(items, ROOM) for span in part]
    assert len(pieces) > 3
    for one in pieces:
        assert one.mark == "output a.py"
        assert one.text.split("\n")[0] == f"line {one.first}"
        assert f"characters {items[0].text.index(one.text) + 1} to" in one.about
    assert pieces[-1].text.endswith("line 500")


def test_line_longer_than_a_part_is_cut_inside_the_line() -> None:
    items = [item("x" * 10_000, numbered=True)]
    pieces = [cut_item(items, span) for part in split_items(items, ROOM) for span in part]
    assert len(pieces) > 10
    assert {one.first for one in pieces} == {1}
    assert "".join(one.text for one in pieces) == items[0].text


def test_item_that_fits_a_part_is_not_cut_to_fill_the_previous_part() -> None:
    items = [item("a" * 450), item("b" * 450, mark="T0B1")]
    assert [len(part) for part in split_items(items, ROOM)] == [1, 1]


def test_labels_stay_at_their_text_when_an_item_is_cut() -> None:
    long = "\n".join(f"thought {n}" for n in range(200))
    text = f"{long}\nthe answer"
    items = [item(text).model_copy(update={"labels": ((0, "reasoning"), (len(long) + 1, "content"))})]
    pieces = [cut_item(items, span) for part in split_items(items, ROOM) for span in part]
    assert [one.labels for one in pieces[:-1]] == [((0, "reasoning"),)] * (len(pieces) - 1)
    assert [label for _, label in pieces[-1].labels] == ["reasoning", "content"]
    at = pieces[-1].labels[1][0]
    assert pieces[-1].text[at:] == "the answer"


@pytest.mark.parametrize("room", [0, 1, LEAST])
def test_too_little_room_is_raised_to_the_minimum(room: int) -> None:
    items = [item("word " * 1000), item("", mark="T0B1")]
    assert whole(items, list(split_items(items, room))) == {0: items[0].text, 1: ""}


def test_parts_are_made_lazily() -> None:
    """Only the items of the requested part are read."""
    items_read = 0

    def endless() -> Iterator[SubjectItem]:
        nonlocal items_read
        while True:
            items_read += 1
            yield item("word " * 100)

    first = next(split_items(Lazy(endless()), ROOM))  # type: ignore[arg-type]
    assert first
    assert items_read <= 3


class Lazy:
    """An iterable with only the methods that `split_items` needs."""

    def __init__(self, items: Iterator[SubjectItem]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[SubjectItem]:
        return self._items

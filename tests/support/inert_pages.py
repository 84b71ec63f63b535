"""Check that no text on a page acts as markup except evalscribe's own."""

import re
from collections.abc import Callable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

from evalscribe.reports.page import ACTIONS, SECTIONS

_OWN_LINK = re.compile(r"#\d+-[\w%-]*|(?:\.\./)+labels\.md")
_MARKUP = re.compile(r"<details><summary>[\w, ]+</summary>\n|</details>\n")
_MEANT = re.compile(r"(?<!\w)@\w|://|www\.|(?<!\w)#\d|\$.*\$|(?<![\w-])GH-\d", re.IGNORECASE)


def _tokens(text: str) -> Iterator[Token]:
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(front_matter_plugin).parse(text)
    for token in page:
        yield token
        yield from token.children or ()


def assert_inert(text: str, entries: int, linked: Callable[[str], bool] = lambda _: False) -> None:
    """Check that a report has no markup except its sections, tables, fences, labels and permitted links.

    Args:
        text: The page.
        entries: Number of findings in the report.
        linked: Returns True if the page may link to an external address.
    """
    found = list(_tokens(text))
    kinds = {token.type for token in found}
    assert not kinds & {"html_inline", "image", "em_open", "s_open", "blockquote_open", "hr", "code_block"}
    assert all(_MARKUP.fullmatch(token.content) for token in found if token.type == "html_block")
    addresses = [str(token.attrs["href"]) for token in found if token.type == "link_open"]
    assert [href for href in addresses if not _OWN_LINK.fullmatch(href) and not linked(href)] == []
    headings = [token.tag for token in found if token.type == "heading_open"]
    assert (headings.count("h1"), headings.count("h3")) == (1, entries)
    titles = [line.removeprefix("## ") for line in text.split("\n") if line.startswith("## ")]
    assert headings.count("h2") == len([title for title in titles if title in (*SECTIONS, ACTIONS)]) >= 3
    assert [token.content for token in found if token.type == "text" and _MEANT.search(token.content)] == []

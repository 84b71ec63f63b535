"""Our part of a text that people may edit too: what stands between two marks that a page does not show."""


def marked(mark: str, text: str) -> str:
    """The text between its marks, in which nothing looks like one: evidence may quote them."""
    return f"{_begin(mark)}\n{text.strip().replace('<!--', '<! --')}\n{_end(mark)}"


def has(mark: str, body: str) -> bool:
    """Whether the text begins as ours."""
    return body.lstrip().startswith(_begin(mark))


def replaced(mark: str, body: str | None, text: str) -> str:
    """The text with our part new. Where people took a mark away there is no part of ours: it stays as it is."""
    if not body or not body.strip():
        return marked(mark, text)
    before, begun, rest = body.partition(_begin(mark))
    _, ended, after = rest.partition(_end(mark))
    return f"{before}{marked(mark, text)}{after}" if begun and ended else body


def _begin(mark: str) -> str:
    return f"<!-- evalscribe:{mark} -->"


def _end(mark: str) -> str:
    return f"<!-- /evalscribe:{mark} -->"

"""Short texts for reports: cut at a word, without the long types that compilers print."""

LONGEST = 90
FOLDED = 24
"""Characters between braces from which a type is folded."""


def cut(text: str, longest: int = LONGEST) -> str:
    """One line of at most so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rsplit(" ", 1)[0].rstrip(" ,;:.…") + " …"


def whole_or(text: str, shorter: str) -> str:
    """A text that the report's table holds whole, else a shorter one."""
    return text if text and len(text) <= LONGEST else shorter


def brief(text: str) -> str:
    """What a tool said, long object types folded to `{ … }`, also one that the tool cut off."""
    folded, at = [], 0
    while (start := text.find("{", at)) >= 0:
        end = _end(text, start)
        block = text[start:end]
        folded += [text[at:start], "{ … }" if len(block) > FOLDED else block]
        at = end
    whole = "".join((*folded, text[at:]))
    return whole + "`" * (whole.count("`") % 2)


def basename(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _end(text: str, start: int) -> int:
    """Where the braces that open at `start` are closed, else the end."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)

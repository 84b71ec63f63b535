"""Lines of whole words."""


def wrap(text: str, width: int) -> list[str]:
    """As many words per line as fit."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines

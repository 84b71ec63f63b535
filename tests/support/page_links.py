"""Read the pages of a bundle like a browser: their links, anchors, tags and visible text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote, urlsplit

INLINE = ("a", "b", "bdi", "code", "em", "kbd", "mark", "span", "strong")
"""Tags that can occur inside a line of text."""


@dataclass
class ParsedPage(HTMLParser):
    """The links, anchors, tags and visible text of one page."""

    links: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.text += "" if tag in INLINE else " "
        self.tags.append((tag, values))
        self.links += [value for name in ("href", "src") if (value := values.get(name))]
        self.ids += [value] if (value := values.get("id")) else []

    def handle_data(self, data: str) -> None:
        self.text += data


def parse_page(text: str) -> ParsedPage:
    page = ParsedPage()
    page.feed(text)
    page.close()
    return page


def bundle_pages(folder: Path) -> dict[str, ParsedPage]:
    """Parse every page of a bundle. The pages are keyed by path."""
    return {str(file.relative_to(folder)): parse_page(file.read_text("utf-8")) for file in folder.rglob("*.html")}


def broken_links(folder: Path, pages: Mapping[str, ParsedPage]) -> Iterator[str]:
    """Yield every relative link to a missing file of the bundle, or to a missing anchor."""
    has_evidence = any("/eval/" in path for path in pages)
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            target = normpath(f"{path}/../{unquote(parts.path)}") if parts.path else path
            if parts.scheme or ("/eval/" in target and not has_evidence):
                continue
            if not (folder / target).is_file():
                yield f"{path}: {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path}: {link} (no anchor)"


def active_parts(page: ParsedPage) -> list[str]:
    """Return everything that could run or load something: foreign scripts, event handlers, styles and frames."""
    own = ("static/page.js",)
    return [
        f"{tag} {name}={value}"
        for tag, values in page.tags
        for name, value in (values or {"": ""}).items()
        if (tag == "script" and not str(values.get("src", "")).endswith(own))
        or name.startswith("on")
        or name == "style"
        or tag in ("iframe", "object", "embed", "style", "img", "base")
        or (name in ("href", "src") and str(value).lower().strip().startswith(("javascript:", "data:", "vbscript:")))
    ]
